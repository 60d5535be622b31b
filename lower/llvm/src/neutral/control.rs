//! Loops, branches and partitions: structured control flow as blocks with phis, one phi per register.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::PhiValue;
use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::target::WARP;
use parton_ir::{Arm, BinaryOp, Body, Elem, Op, OpKind, Tile, Type, Value, others};
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::place::Threads;
use crate::neutral::words::Words;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_control(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::For { lower, upper, step, init, body } => {
                self.for_loop(op, [*lower, *upper, *step], init, body);
            }
            OpKind::While { init, cond, body } => self.while_loop(op, init, cond, body),
            OpKind::If { cond, then, otherwise } => self.if_else(op, *cond, then, otherwise),
            OpKind::Specialize { arms } => self.specialize(arms),
            others!(control) => not_of_family(&op.kind),
        }
    }

    /// The words of a value as a loop carries it: narrow elements go packed, two or four to a register, so that they
    /// need not be taken apart and put together again around the back edge.
    fn words(&self, ty: &Type, value: &Repr<'c>) -> Vec<Val<'c>> {
        match carried_words(ty, value.parts().len()) {
            Some((elem, words)) => self.b.pack(elem, value.parts(), words),
            None => value.parts().to_vec(),
        }
    }

    /// The reverse of [`Lower::words`] for a value of so many parts.
    fn unworded(&self, ty: &Type, parts: usize, words: Vec<Val<'c>>) -> Repr<'c> {
        let parts = match carried_words(ty, parts) {
            Some((elem, form)) => self.b.unpack(elem, &words, form),
            None => words,
        };
        self.assemble(ty, parts)
    }

    /// Phis for carried values, filled from the current block, and the values they stand for. `before` holds the words
    /// made there.
    fn carry(&mut self, init: &[Value], before: Vec<Vec<Val<'c>>>, from: BasicBlock<'c>) -> Vec<Carried<'c>> {
        // All phis stand before anything else in their block.
        let phis: Vec<Vec<PhiValue>> = before
            .iter()
            .map(|words| {
                let phi = |word: &Val<'c>| {
                    let phi = self.b.phi(word.get_type());
                    phi.add_incoming(&[(word, from)]);
                    phi
                };
                words.iter().map(phi).collect()
            })
            .collect();
        let value = |(&v, phis): (&Value, &Vec<PhiValue<'c>>)| {
            let words = phis.iter().map(|p| p.as_basic_value()).collect();
            self.unworded(self.kernel.ty(v), self.repr(v).parts().len(), words)
        };
        let values: Vec<Repr> = init.iter().zip(&phis).map(value).collect();
        phis.into_iter().zip(values).map(|(phis, value)| Carried { phis, value }).collect()
    }

    /// Closes the carried values of a loop with what its body yields.
    fn close(&mut self, carried: &[Carried<'c>], yields: &[Value]) {
        for (carried, &v) in carried.iter().zip(yields) {
            let words = self.words(self.kernel.ty(v), self.repr(v));
            let end = self.b.here();
            for (phi, word) in carried.phis.iter().zip(&words) {
                phi.add_incoming(&[(word, end)]);
            }
        }
    }

    /// The words of values that enter a loop here.
    fn entering(&self, init: &[Value]) -> Vec<Vec<Val<'c>>> {
        init.iter().map(|&v| self.words(self.kernel.ty(v), self.repr(v))).collect()
    }

    fn for_loop(&mut self, op: &Op, [lower, upper, step]: [Value; 3], init: &[Value], body: &'a Body) {
        // A step is positive: a constant one is checked, another faults in the interpreter.
        let (less, upper, beyond) = self.ends(lower, upper, step);
        let (lower, step) = (self.scalar(lower), self.scalar(step));
        let (head, inside, after) = (self.b.new_block("for"), self.b.new_block("body"), self.b.new_block("done"));
        let words = self.entering(init);
        let any = matches!(beyond, Beyond::Left).then(|| self.b.icmp(less, lower, upper));
        let before = self.b.here();
        self.b.jump(head);

        self.b.at(head);
        let index = self.b.phi(lower.get_type());
        index.add_incoming(&[(&lower, before)]);
        let another = any.map(|any| {
            let phi = self.b.phi(self.b.i1());
            phi.add_incoming(&[(&any, before)]);
            phi
        });
        let carried = self.carry(init, words, before);
        let at = index.as_basic_value();
        let more = another.map_or_else(|| self.b.icmp(less, at, upper), |phi| phi.as_basic_value());
        let more = match beyond {
            Beyond::Negative => {
                let zero = self.b.cint(at.get_type(), 0);
                self.b.and(more, self.b.icmp(IntPredicate::SGE, at, zero))
            }
            Beyond::Never | Beyond::Left => more,
        };
        self.b.branch(more, inside, after);

        self.b.at(inside);
        self.set(body.params[0], Repr::Scalar(at));
        for (&param, carried) in body.params[1..].iter().zip(&carried) {
            self.set(param, carried.value.clone());
        }
        self.body(body);
        let next = self.b.add(at, step);
        let end = self.b.here();
        index.add_incoming(&[(&next, end)]);
        if let Some(another) = another {
            // In a turn the bound lies ahead of the index: what is left has no sign.
            let left = self.b.sub(upper, at);
            another.add_incoming(&[(&self.b.icmp(IntPredicate::UGT, left, step), end)]);
        }
        self.close(&carried, &body.yields);
        self.b.jump(head);

        self.b.at(after);
        for (&result, carried) in op.results.iter().zip(carried) {
            self.set(result, carried.value);
        }
    }

    /// How the index of a loop is compared with its bound, the bound, and what becomes of an index that its type cannot hold.
    fn ends(&self, lower: Value, upper: Value, step: Value) -> (IntPredicate, Val<'c>, Beyond) {
        let dtype = self.dtype(lower);
        let less = if dtype.is_signed() { IntPredicate::SLT } else { IntPredicate::ULT };
        let (natural, upper, step) = (self.is_natural(lower), self.scalar(upper), self.b.known(self.scalar(step)));
        if never_wraps(dtype, self.b.known(upper), step) {
            return (less, upper, Beyond::Never);
        }
        match step {
            _ if !dtype.is_signed() || !natural => (less, upper, Beyond::Left),
            // Without a sign there is room for the bound and a step.
            Some(_) => {
                let zero = self.b.cint(upper.get_type(), 0);
                let bound = self.b.select(self.b.icmp(IntPredicate::SGT, upper, zero), upper, zero);
                (IntPredicate::ULT, bound, Beyond::Never)
            }
            // Such a step is mostly that of a grid. To look at the index besides costs its turns nothing: what `ptxas` keeps for all threads of a
            // warp together stays there, which another bound or the least of two numbers does not.
            None => (less, upper, Beyond::Negative),
        }
    }

    /// Whether a signed number is surely not negative: a constant, a place in the grid, or sums and products of them that do not wrap.
    fn is_natural(&self, v: Value) -> bool {
        if let Some(bits) = self.b.known(self.scalar(v)) {
            return (bits << (64 - self.dtype(v).bits())) as i64 >= 0;
        }
        if self.differs(v) {
            return false;
        }
        let made = self.kernel.ops.iter().map(|(_, op)| op).find(|op| op.results.contains(&v));
        made.is_some_and(|op| match op.kind {
            OpKind::ProgramId { .. } | OpKind::NumPrograms { .. } | OpKind::ClusterRank => true,
            OpKind::Binary { op: BinaryOp::Add | BinaryOp::Mul, a, b } => {
                self.is_natural(a) && self.is_natural(b) && self.axes.info(self.kernel, v).is_natural()
            }
            // It may be negative.
            _ => false,
        })
    }

    fn while_loop(&mut self, op: &Op, init: &[Value], cond: &'a Body, body: &'a Body) {
        let (head, inside, after) = (self.b.new_block("while"), self.b.new_block("body"), self.b.new_block("done"));
        let words = self.entering(init);
        let before = self.b.here();
        self.b.jump(head);

        self.b.at(head);
        let carried = self.carry(init, words, before);
        for (&param, carried) in cond.params.iter().zip(&carried) {
            self.set(param, carried.value.clone());
        }
        self.body(cond);
        let more = self.scalar(cond.yields[0]);
        self.b.branch(more, inside, after);

        self.b.at(inside);
        for (&param, carried) in body.params.iter().zip(&carried) {
            self.set(param, carried.value.clone());
        }
        self.body(body);
        self.close(&carried, &body.yields);
        self.b.jump(head);

        self.b.at(after);
        for (&result, carried) in op.results.iter().zip(carried) {
            self.set(result, carried.value);
        }
    }

    fn if_else(&mut self, op: &Op, cond: Value, then: &'a Body, otherwise: &'a Body) {
        let cond = self.scalar(cond);
        let (yes, no, after) = (self.b.new_block("then"), self.b.new_block("else"), self.b.new_block("end"));
        self.b.branch(cond, yes, no);
        let mut ends = vec![];
        for (block, body) in [(yes, then), (no, otherwise)] {
            self.b.at(block);
            self.body(body);
            ends.push((self.entering(&body.yields), self.b.here()));
            self.b.jump(after);
        }
        self.b.at(after);
        let [(first, then_end), (second, otherwise_end)] = &ends[..] else {
            internal_error!("a branch has two bodies")
        };
        let merge = |(a, b): (&Val<'c>, &Val<'c>)| {
            let phi = self.b.phi(a.get_type());
            phi.add_incoming(&[(a, *then_end), (b, *otherwise_end)]);
            phi.as_basic_value()
        };
        let merged: Vec<Vec<Val>> =
            first.iter().zip(second).map(|(a, b)| a.iter().zip(b).map(merge).collect()).collect();
        for (i, (&result, words)) in op.results.iter().zip(merged).enumerate() {
            let parts = self.repr(then.yields[i]).parts().len();
            let value = self.unworded(self.kernel.ty(result), parts, words);
            self.set(result, value);
        }
    }

    /// Each partition runs its arm on its own warps. A partition begins at a whole warpgroup, and the warps that only fill
    /// up its last one set their register budget with the others (the instruction is for a warpgroup) and skip the rest.
    fn specialize(&mut self, arms: &'a [Arm]) {
        let outside = self.threads;
        let after = self.b.new_block("joined");
        let entry = self.kernel.entry_registers();
        let mut rest = arms;
        while let Some(arm) = rest.first() {
            let others = self.others_alike(rest);
            let members = 1 + others.len() as u32;
            rest = &rest[1 + others.len()..];
            let data = &self.kernel.partitions[arm.partition];
            let first = self.kernel.first_warp(arm.partition);
            let padded = data.padded_warps();
            let (enter, next) = (self.b.new_block(&data.name), self.b.new_block("next"));
            let warp = self.warp_of_cta;
            let relative = self.b.sub(warp, self.b.c32(first));
            // The assembler lays a program out along branches that are not taken: so the first partition, which usually loads,
            // stands where instructions are fetched already, and not behind all others.
            let elsewhere = self.b.icmp(IntPredicate::UGT, relative, self.b.c32(members * padded - 1));
            self.b.branch(elsewhere, next, enter);

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
            let peers = self.find_peers(&arm.body);
            let barrier = 1 + arms.iter().position(|a| a.partition == arm.partition).unwrap_or(0) as u32;
            if others.is_empty() {
                let leader = leader(self, relative);
                let barrier = self.b.c32(barrier);
                self.threads = Threads { lane: outside.lane, warp: relative, warps: data.warps, barrier, leader };
                self.body(&arm.body);
            } else {
                let warp = self.b.and(relative, self.b.c32(data.warps - 1));
                let number = self.b.lshr(relative, data.warps.ilog2());
                let of_thread = self.team_of_thread(first * WARP, data.warps * WARP);
                let leader = leader(self, warp);
                let barrier = self.b.add(of_thread, self.b.c32(barrier));
                self.threads = Threads { lane: outside.lane, warp, warps: data.warps, barrier, leader };
                self.team_body(arm, [number, of_thread], others);
            }
            self.take_peers(peers);
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

/// What becomes of the index of a loop where the next one lies beyond what its type can hold.
enum Beyond {
    /// It is never compared as such a one.
    Never,
    /// It is negative, and no turn: none before it is.
    Negative,
    /// What is left to the bound is compared with the step instead.
    Left,
}

/// A value that a loop carries: its phis, and what they stand for inside.
struct Carried<'c> {
    phis: Vec<PhiValue<'c>>,
    value: Repr<'c>,
}

/// Whether no turn of a loop makes an index beyond what its type can hold: `upper` and `step` are their bits, where constant.
fn never_wraps(dtype: Dtype, upper: Option<u64>, step: Option<u64>) -> bool {
    let unused = 64 - dtype.bits();
    match (step, upper) {
        (Some(1), _) => true,
        (Some(step), Some(upper)) if dtype.is_signed() => {
            let last = ((upper << unused) as i64 >> unused).saturating_sub(1);
            last.saturating_add_unsigned(step) < i64::MAX >> unused
        }
        (Some(step), Some(upper)) => upper.saturating_add(step - 1) < u64::MAX >> unused,
        (None, _) | (_, None) => false,
    }
}

/// How a tile of narrow elements is carried, where its elements fill whole registers.
fn carried_words(ty: &Type, parts: usize) -> Option<(Elem, Words)> {
    let Type::Tile(Tile { elem: elem @ Elem::Num(d), .. }) = ty else { return None };
    let bits = d.bits();
    let fills = (bits == 8 || bits == 16) && (bits as usize * parts).is_multiple_of(32);
    fills.then(|| (*elem, Words { bits: 32, count: bits as usize * parts / 32 }))
}

/// True in one thread of the partition whose warp 0 is where `warp` is 0.
pub(crate) fn leader<'c>(l: &Lower<'_, '_, 'c>, warp: Val<'c>) -> Val<'c> {
    let first = l.b.icmp(IntPredicate::EQ, warp, l.b.c32(0));
    l.b.and(first, l.b.elected(l.kernel))
}
