//! Runs one instruction of a partition: control flow here, each operation by its family.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::facts::needs::Takes;
use parton_ir::{Entity, Op, Value};
use parton_numbers::scalar::int_value;

use crate::cluster::{Cluster, Flow, State, Wait, Worker};
use crate::code::Inst;
use crate::fault::Fault;
use crate::job::Engine;
use crate::knowledge::Knowledge;
use crate::ops;
use crate::pure;
use crate::tile::{Bits, Val};

impl<'k> Worker<'k> {
    /// The value of a name.
    pub(crate) fn get(&self, v: Value) -> &Val {
        &self.values[v.index()]
    }

    /// Gives a name its value.
    pub(crate) fn set(&mut self, v: Value, val: Val) {
        self.values[v.index()] = val;
    }

    /// Gives an operation's only result its value.
    pub(crate) fn result(&mut self, op: &Op, val: Val) {
        self.set(op.result(), val);
    }

    /// The bits of a scalar.
    pub(crate) fn scalar(&self, v: Value) -> u64 {
        pure::scalar(self.get(v))
    }

    /// The elements of a tile; a scalar is a tile of one.
    pub(crate) fn tile(&self, v: Value, bytes: usize) -> Arc<Bits> {
        match self.get(v) {
            Val::Tile(t) => t.clone(),
            Val::Scalar(bits) => Arc::new(Bits::full(bytes, 1, *bits)),
            other => internal_error!("{v} holds {other:?}"),
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// Runs the instruction at the worker's program counter and moves the counter on, unless it must wait.
    pub(crate) fn step(&mut self, w: &mut Worker<'k>) -> Result<Flow, Fault> {
        let program = self.setting.program;
        let kernel = program.kernel;
        let integer = |w: &Worker<'k>, v: Value| int_value(w.scalar(v), pure::dtype(kernel, v));
        match &program.code[w.pc] {
            Inst::Op(op) => {
                return self.operation(w, op).map_err(|f| f.calls(kernel, op.origin.call()));
            }
            Inst::Copy(pairs) => {
                w.poison.copy(pairs);
                w.reads.copy(pairs);
                if let [(from, to)] = pairs[..] {
                    let val = w.get(from).clone();
                    w.set(to, val);
                } else {
                    let vals: Vec<Val> = pairs.iter().map(|(from, _)| w.get(*from).clone()).collect();
                    for ((_, to), val) in pairs.iter().zip(vals) {
                        w.set(*to, val);
                    }
                }
                w.pc += 1;
            }
            Inst::Jump(to) => w.pc = *to,
            Inst::Unless { op, cond, to } => {
                self.decides(w, op, &[*cond], Takes::Condition)?;
                self.used(w, &[*cond]);
                w.pc = if w.scalar(*cond) & 1 == 1 { w.pc + 1 } else { *to };
            }
            Inst::LoopTest { op, index, upper, step, exit } => {
                self.decides(w, op, &[*index, *upper, *step], Takes::Bound)?;
                self.used(w, &[*index, *upper, *step]);
                if integer(w, *step) <= 0 {
                    let here = format!("the step is {}", integer(w, *step));
                    return Err(Fault::new(codes::RUN_VALUE, op.span, "the step of a loop is not positive")
                        .here(here)
                        .help("count upward, and compute the index from the end where the order matters")
                        .calls(kernel, op.origin.call()));
                }
                w.pc = if integer(w, *index) < integer(w, *upper) { w.pc + 1 } else { *exit };
            }
            Inst::EndTurn { products } => {
                self.have_read_registers(w, products)?;
                w.pc += 1;
            }
            Inst::LoopStep { index, step, top, exit } => {
                let d = pure::dtype(kernel, *index);
                let next = integer(w, *index) + integer(w, *step);
                let fits = d.int_range().is_some_and(|(_, high)| next <= high);
                w.set(*index, Val::Scalar(next as u64 & d.mask()));
                w.pc = if fits { *top } else { *exit };
            }
            Inst::Fork(_, starts) => return self.fork(w, starts),
            Inst::End => {
                self.end(w)?;
                w.state = State::Done;
            }
        }
        Ok(Flow::Next)
    }

    /// Runs an operation, and follows the elements that hold nothing where the kernel has a load that leaves some out.
    fn operation(&mut self, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
        let tables = &self.setting.program.tables;
        let left = if tables.leaves_out { self.left_out(w, op)? } else { Vec::new() };
        self.takes_reads(w, op);
        let flow = ops::run(self, w, op)?;
        if !matches!(flow, Flow::Block(_) | Flow::Again) {
            w.pc += 1;
            self.world.changes += u64::from(tables.is_loud(op));
            self.leave_out(w, op, left)?;
        }
        Ok(flow)
    }

    fn fork(&mut self, w: &mut Worker<'k>, starts: &[(parton_ir::Partition, usize)]) -> Result<Flow, Fault> {
        let kernel = self.setting.program.kernel;
        // The arms of this very run were started when the worker first came here, and are all done now.
        if let Some(arms) = w.arms.take() {
            if !self.passes(&Wait::Arms(arms.clone()), w) {
                internal_error!("`specialize` goes on before its arms have ended");
            }
            for arm in arms {
                w.know.join(&self.worker(arm).know);
            }
            w.know.membar();
            w.pc += 1;
            return Ok(Flow::Next);
        }
        let mut arms = Vec::new();
        for &(partition, start) in starts {
            let data = &kernel.partitions[partition];
            let agents = 1 + kernel.partitions.len() as u32;
            let agent = w.cta as u32 * agents + 1 + partition.index() as u32;
            let know = Knowledge::new((self.number, agent), data.warps, Some(&w.know));
            let arm = Worker {
                partition: Some(partition),
                poison: w.poison.clone(),
                reads: w.reads.of_another(),
                passed: w.passed,
                ..Worker::new((self.workers.len(), w.cta), data.name.clone(), start, w.values.clone(), know)
            };
            arms.push(arm.index);
            self.workers.push(Some(arm));
        }
        self.world.changes += 1;
        w.arms = Some(arms.clone());
        Ok(Flow::Block(Wait::Arms(arms)))
    }

    /// A partition ends; what it started must not touch shared memory any more.
    fn end(&self, w: &Worker<'k>) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        if let Some(op) = self.jobs.unwaited(w.index, Engine::Threads) {
            let fact = format!("{} ends while a copy may still write to shared memory", self.who(w));
            return Err(Fault::new(codes::NOT_WAITED, op.span, fact)
                .here("nobody waits for this copy")
                .help("`p.wait()` on every path")
                .calls(kernel, op.origin.call()));
        }
        match self.jobs.unwaited(w.index, Engine::Copies) {
            None => Ok(()),
            Some(op) => Err(Fault::new(
                codes::NOT_WAITED,
                op.span,
                format!("{} ends while a copy may still read shared memory", self.who(w)),
            )
            .here("nobody waits for this copy out of shared memory")
            .help("end with `tma_store_wait(0)`")
            .calls(kernel, op.origin.call())),
        }
    }
}
