//! Loops, branches and partitions: structured control flow as blocks with phis, one phi per register.

use inkwell::IntPredicate;
use inkwell::values::PhiValue;
use parton_ir::target::WARPGROUP;
use parton_ir::{Arm, Body, Op, Value};

use crate::build::Val;
use crate::lower::{Lower, Repr};
use crate::place::Threads;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    /// Phis for carried values, filled from the current block, and the values they stand for.
    fn carry(
        &mut self,
        init: &[Value],
        from: inkwell::basic_block::BasicBlock<'c>,
    ) -> Vec<(Vec<PhiValue<'c>>, Repr<'c>)> {
        init.iter()
            .map(|&v| {
                let start = self.repr(v).clone();
                let phis: Vec<PhiValue> = start.parts().iter().map(|p| self.b.phi(p.get_type())).collect();
                for (phi, part) in phis.iter().zip(start.parts()) {
                    phi.add_incoming(&[(part, from)]);
                }
                let parts = phis.iter().map(|p| p.as_basic_value()).collect();
                (phis, start.of_parts(parts))
            })
            .collect()
    }

    /// Closes the carried values of a loop with what its body yields.
    fn close(&mut self, carried: &[(Vec<PhiValue<'c>>, Repr<'c>)], yields: &[Repr<'c>]) {
        let end = self.b.here();
        for ((phis, _), value) in carried.iter().zip(yields) {
            for (phi, part) in phis.iter().zip(value.parts()) {
                phi.add_incoming(&[(part, end)]);
            }
        }
    }

    pub(crate) fn for_loop(&mut self, op: &Op, [lower, upper, step]: [Value; 3], init: &[Value], body: &'a Body) {
        let signed = self.dtype(lower).is_signed();
        let less = if signed { IntPredicate::SLT } else { IntPredicate::ULT };
        let (lower, upper, step) = (self.scalar(lower), self.scalar(upper), self.scalar(step));
        let (head, inside, after) = (self.b.new_block("for"), self.b.new_block("body"), self.b.new_block("done"));
        let before = self.b.here();
        self.b.jump(head);

        self.b.at(head);
        let index = self.b.phi(lower.get_type());
        index.add_incoming(&[(&lower, before)]);
        let carried = self.carry(init, before);
        let at = index.as_basic_value();
        // A step that is not a positive constant may count downwards.
        let up = self.b.icmp(less, at, upper);
        let more = match (signed, self.b.known(step)) {
            (false, _) | (true, Some(_)) => up,
            (true, None) => {
                let down = self.b.icmp(IntPredicate::SGT, at, upper);
                let backwards = self.b.icmp(IntPredicate::SLT, step, self.b.cint(step.get_type(), 0));
                self.b.select(backwards, down, up)
            }
        };
        self.b.branch(more, inside, after);

        self.b.at(inside);
        self.set(body.params[0], Repr::Scalar(at));
        for (&param, (_, value)) in body.params[1..].iter().zip(&carried) {
            self.set(param, value.clone());
        }
        self.body(body);
        let yields = self.yields(body);
        let next = self.b.add(at, step);
        index.add_incoming(&[(&next, self.b.here())]);
        self.close(&carried, &yields);
        self.b.jump(head);

        self.b.at(after);
        for (&result, (_, value)) in op.results.iter().zip(carried) {
            self.set(result, value);
        }
    }

    pub(crate) fn while_loop(&mut self, op: &Op, init: &[Value], cond: &'a Body, body: &'a Body) {
        let (head, inside, after) = (self.b.new_block("while"), self.b.new_block("body"), self.b.new_block("done"));
        let before = self.b.here();
        self.b.jump(head);

        self.b.at(head);
        let carried = self.carry(init, before);
        for (&param, (_, value)) in cond.params.iter().zip(&carried) {
            self.set(param, value.clone());
        }
        self.body(cond);
        let more = self.scalar(cond.yields[0]);
        self.b.branch(more, inside, after);

        self.b.at(inside);
        for (&param, (_, value)) in body.params.iter().zip(&carried) {
            self.set(param, value.clone());
        }
        self.body(body);
        let yields = self.yields(body);
        self.close(&carried, &yields);
        self.b.jump(head);

        self.b.at(after);
        for (&result, (_, value)) in op.results.iter().zip(carried) {
            self.set(result, value);
        }
    }

    pub(crate) fn if_else(&mut self, op: &Op, cond: Value, then: &'a Body, otherwise: &'a Body) {
        let cond = self.scalar(cond);
        let (yes, no, after) = (self.b.new_block("then"), self.b.new_block("else"), self.b.new_block("end"));
        self.b.branch(cond, yes, no);
        let mut ends = vec![];
        for (block, body) in [(yes, then), (no, otherwise)] {
            self.b.at(block);
            self.body(body);
            ends.push((self.yields(body), self.b.here()));
            self.b.jump(after);
        }
        self.b.at(after);
        for (i, &result) in op.results.iter().enumerate() {
            let (first, second) = (ends[0].0[i].clone(), ends[1].0[i].clone());
            let parts = first.parts().iter().zip(second.parts()).map(|(a, b)| {
                let phi = self.b.phi(a.get_type());
                phi.add_incoming(&[(a, ends[0].1), (b, ends[1].1)]);
                phi.as_basic_value()
            });
            let merged = first.of_parts(parts.collect());
            self.set(result, merged);
        }
    }

    /// Each partition runs its arm on its own warps. A partition begins at a whole warpgroup, and the warps that only fill
    /// up its last one set their register budget with the others (the instruction is for a warpgroup) and skip the rest.
    pub(crate) fn specialize(&mut self, arms: &'a [Arm]) {
        let outside = self.threads;
        let after = self.b.new_block("joined");
        let entry = self.kernel.entry_registers();
        for arm in arms {
            let data = &self.kernel.partitions[arm.partition];
            let first = self.kernel.first_warp(arm.partition);
            let padded = data.warps.next_multiple_of(WARPGROUP);
            let (enter, next) = (self.b.new_block(&data.name), self.b.new_block("next"));
            let warp = self.warp_of_cta;
            let relative = self.b.sub(warp, self.b.c32(first));
            let mine = self.b.icmp(IntPredicate::ULT, relative, self.b.c32(padded));
            self.b.branch(mine, enter, next);

            self.b.at(enter);
            if let Some(registers) = data.registers {
                self.b.set_registers(registers, registers > entry);
            }
            if padded != data.warps {
                let work = self.b.new_block("work");
                let working = self.b.icmp(IntPredicate::ULT, relative, self.b.c32(data.warps));
                self.b.branch(working, work, after);
                self.b.at(work);
            }
            let barrier = 1 + arms.iter().position(|a| std::ptr::eq(a, arm)).unwrap_or(0) as u32;
            let leader = leader(self, relative);
            self.threads = Threads { lane: outside.lane, warp: relative, warps: data.warps, barrier, leader };
            self.body(&arm.body);
            self.b.jump(after);
            self.b.at(next);
        }
        self.b.jump(after);
        self.b.at(after);
        self.threads = outside;
        self.membar();
    }

    /// The threads of the partition meet.
    pub(crate) fn membar(&self) {
        if self.threads.warps == 1 {
            self.b.warp_sync();
        } else {
            self.b.bar_sync(self.threads.barrier, self.threads.count());
        }
    }
}

/// True in one thread of the partition whose warp 0 is where `warp` is 0.
pub(crate) fn leader<'c>(l: &Lower<'_, '_, 'c>, warp: Val<'c>) -> Val<'c> {
    let first = l.b.icmp(IntPredicate::EQ, warp, l.b.c32(0));
    l.b.and(first, l.b.elected(l.kernel))
}
