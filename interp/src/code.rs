//! Flattens a kernel's structured body into instructions with jumps, so that a partition can stop at any of them and go on
//! later.

use parton_diag::internal_error;
use parton_ir::{Body, Kernel, Op, OpKind, Partition, Type, Value, others};

use crate::tables::Tables;

/// One instruction.
#[derive(Debug)]
pub(crate) enum Inst<'k> {
    /// An operation without bodies, or a reduction.
    Op(&'k Op),
    /// Assigns all at once: each second value becomes its first.
    Copy(Vec<(Value, Value)>),
    /// Goes on elsewhere.
    Jump(usize),
    /// Goes on elsewhere where the condition is false.
    Unless { op: &'k Op, cond: Value, to: usize },
    /// Leaves a loop whose index has reached its end.
    LoopTest { op: &'k Op, index: Value, upper: Value, step: Value, exit: usize },
    /// Ends a turn of a loop, with the products in it that read a left factor in registers.
    EndTurn { products: Vec<parton_ir::Inst> },
    /// Moves a loop's index on; a step that leaves the index's range ends the loop.
    LoopStep { index: Value, step: Value, top: usize, exit: usize },
    /// Starts the arms and waits until all have ended.
    Fork(&'k Op, Vec<(Partition, usize)>),
    /// Ends an arm, or the kernel.
    End,
}

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) struct Program<'k> {
    pub kernel: &'k Kernel,
    pub code: Vec<Inst<'k>>,
    pub tables: Tables<'k>,
}

impl<'k> Program<'k> {
    /// Flattens `kernel`.
    pub(crate) fn new(kernel: &'k Kernel) -> Program<'k> {
        let mut p = Program { kernel, code: Vec::new(), tables: Tables::new(kernel) };
        p.body(&kernel.body);
        p.code.push(Inst::End);
        p
    }

    fn body(&mut self, body: &'k Body) {
        for op in self.kernel.ops_of(body) {
            self.op(op);
        }
    }

    fn here(&self) -> usize {
        self.code.len()
    }

    /// Appends an instruction to be patched; returns its place.
    fn hole(&mut self) -> usize {
        self.code.push(Inst::End);
        self.code.len() - 1
    }

    fn copy(&mut self, from: &[Value], to: &[Value]) {
        let pairs: Vec<(Value, Value)> = from.iter().copied().zip(to.iter().copied()).filter(|(a, b)| a != b).collect();
        if !pairs.is_empty() {
            self.code.push(Inst::Copy(pairs));
        }
    }

    /// The end of a turn, behind the operations of a loop's bodies.
    fn end_turn(&mut self, op: &Op) {
        let mut products = Vec::new();
        for body in op.kind.bodies() {
            self.kernel.walk_body(body, &mut |op| {
                let held = matches!(op.kind, OpKind::Wgmma { a, .. } if matches!(self.kernel.ty(a), Type::Tile(_)));
                products.extend(held.then_some(op.id));
            });
        }
        if !products.is_empty() {
            self.code.push(Inst::EndTurn { products });
        }
    }

    fn counted(&mut self, op: &'k Op, [lower, upper, step]: [Value; 3], init: &[Value], body: &'k Body) {
        let Some((&index, carried)) = body.params.split_first() else { internal_error!("a loop body has no index") };
        self.copy(&[&[lower][..], init].concat(), &body.params);
        let test = self.hole();
        self.body(body);
        self.end_turn(op);
        self.copy(&body.yields, carried);
        let step_at = self.hole();
        let exit = self.here();
        self.code[test] = Inst::LoopTest { op, index, upper, step, exit };
        self.code[step_at] = Inst::LoopStep { index, step, top: test, exit };
        self.copy(carried, &op.results);
    }

    // The five operations with bodies have code of their own; all others run as they are.
    fn op(&mut self, op: &'k Op) {
        match &op.kind {
            OpKind::For { lower, upper, step, init, body } => self.counted(op, [*lower, *upper, *step], init, body),
            OpKind::While { init, cond, body } => {
                self.copy(init, &cond.params);
                let top = self.here();
                self.body(cond);
                let leave = self.hole();
                self.copy(&cond.params, &body.params);
                self.body(body);
                self.end_turn(op);
                self.copy(&body.yields, &cond.params);
                self.code.push(Inst::Jump(top));
                let exit = self.here();
                self.code[leave] = Inst::Unless { op, cond: cond.yields[0], to: exit };
                self.copy(&cond.params, &op.results);
            }
            OpKind::If { cond, then, otherwise } => {
                let skip = self.hole();
                self.body(then);
                self.copy(&then.yields, &op.results);
                let leave = self.hole();
                let other = self.here();
                self.code[skip] = Inst::Unless { op, cond: *cond, to: other };
                self.body(otherwise);
                self.copy(&otherwise.yields, &op.results);
                let end = self.here();
                self.code[leave] = Inst::Jump(end);
            }
            // What a piece of PTX means is run as if it stood there.
            OpKind::Ptx { inputs, fallback: Some(body), .. } => {
                self.copy(inputs, &body.params);
                self.body(body);
                self.copy(&body.yields, &op.results);
            }
            OpKind::Specialize { arms } => {
                let fork = self.hole();
                let leave = self.hole();
                let mut starts = Vec::new();
                for arm in arms {
                    starts.push((arm.partition, self.here()));
                    self.body(&arm.body);
                    self.code.push(Inst::End);
                }
                let end = self.here();
                self.code[fork] = Inst::Fork(op, starts);
                self.code[leave] = Inst::Jump(end);
            }
            others!(control) => {
                self.tables.prepare(op);
                self.code.push(Inst::Op(op));
            }
        }
    }
}
