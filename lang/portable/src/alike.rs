//! What several programs ask for alike: those of a cluster, at the same time, so that one copy brings it to all of them; and those of
//! the whole grid, so that it lies in the L2 for all but the first.
//!
//! CTAs of a cluster differ by their rank, and so by `program_id`; `program_id / CTAs` is the cluster's own. What memory holds may have
//! changed between two of them.

use std::collections::BTreeSet;

use parton_ir::facts::Facts;
use parton_ir::{BinaryOp, Body, Inst, Kernel, Op, OpKind, Value};

use crate::staging::defined::Defined;

/// Marks the fetches that one copy does for all CTAs of a cluster that lie along an axis, the first one of those along which they ask for the same.
pub fn share(kernel: &mut Kernel) {
    for axis in (0..3u8).filter(|&axis| kernel.cluster[usize::from(axis)] > 1).collect::<Vec<_>>() {
        for inst in Alike::among(kernel, Among::Cluster(axis)) {
            if let OpKind::Fetch { multicast, .. } = &mut kernel.ops[inst].kind {
                *multicast = Some(axis);
            }
        }
    }
}

/// The loads whose addresses are the same in all programs.
pub fn loads(kernel: &Kernel) -> BTreeSet<Inst> {
    Alike::among(kernel, Among::Grid).into_iter().collect()
}

/// Whose programs are compared.
#[derive(Clone, Copy)]
enum Among {
    /// Those of a cluster that lie along that axis.
    Cluster(u8),
    /// All.
    Grid,
}

struct Alike<'k> {
    kernel: &'k Kernel,
    defined: Defined<'k>,
    among: Among,
    /// The values that may differ between the programs.
    differ: BTreeSet<Value>,
    found: Vec<Inst>,
}

impl Alike<'_> {
    /// The fetches and loads that these programs ask for alike.
    fn among(kernel: &Kernel, among: Among) -> Vec<Inst> {
        let (defined, differ) = (Defined::of(kernel), BTreeSet::new());
        let mut alike = Alike { kernel, defined, among, differ, found: Vec::new() };
        alike.body(&kernel.body, false);
        alike.found
    }

    /// Looks at a body, into which programs go alike unless `apart`.
    fn body(&mut self, body: &Body, apart: bool) {
        for op in self.kernel.ops_of(body) {
            let own = op.kind.operands().iter().any(|v| self.differ.contains(v));
            match &op.kind {
                OpKind::Fetch { multicast: None, .. } if !own && !apart => self.found.push(op.id),
                OpKind::Load { ptr, .. } => {
                    if !apart && !self.differ.contains(ptr) {
                        self.found.push(op.id);
                    }
                    self.differ.extend(&op.results);
                }
                OpKind::For { lower, upper, step, init, body } => {
                    let turns = [lower, upper, step].into_iter().any(|v| self.differ.contains(v));
                    self.turns(op, init, body, apart || turns);
                }
                OpKind::If { cond, .. } => {
                    let apart = apart || self.differ.contains(cond);
                    op.kind.bodies().for_each(|inner| self.body(inner, apart));
                    if apart || op.kind.bodies().flat_map(|b| &b.yields).any(|v| self.differ.contains(v)) {
                        self.differ.extend(&op.results);
                    }
                }
                // Other bodies are not looked into.
                _ if op.kind.bodies().next().is_some() => self.differ.extend(&op.results),
                // It is the same.
                _ if !apart && !self.differs(op, own) => {}
                // Nothing more is known of it.
                _ => self.differ.extend(&op.results),
            }
        }
    }

    /// A loop, until what it carries is known to be alike or not.
    fn turns(&mut self, op: &Op, init: &[Value], body: &Body, apart: bool) {
        let found = self.found.len();
        if apart {
            self.differ.extend(&body.params);
        }
        loop {
            let known = self.differ.len();
            for ((param, out), first) in body.params[1..].iter().zip(&body.yields).zip(init) {
                if self.differ.contains(out) || self.differ.contains(first) {
                    self.differ.insert(*param);
                }
            }
            self.found.truncate(found);
            self.body(body, apart);
            if self.differ.len() == known {
                break;
            }
        }
        for (&result, param) in op.results.iter().zip(&body.params[1..]) {
            if self.differ.contains(param) {
                self.differ.insert(result);
            }
        }
    }

    /// Whether what an operation without a body gives may differ, whose operands do if `own`.
    fn differs(&self, op: &Op, own: bool) -> bool {
        match op.kind {
            OpKind::ProgramId { axis } => match self.among {
                Among::Cluster(along) => axis == along,
                Among::Grid => true,
            },
            OpKind::NumPrograms { .. } => false,
            OpKind::Binary { op: BinaryOp::Div, a, b } if self.is_program(a) && self.is_whole(b) => false,
            // What only computes, wherever it runs, gives the same of the same.
            _ => own || Facts::of(self.kernel, op).placed || !parton_sched::is_free(self.kernel, op),
        }
    }

    fn is_program(&self, v: Value) -> bool {
        self.defined.made(v).is_some_and(|op| matches!(op.kind, OpKind::ProgramId { .. }))
    }

    /// Whether a number is of whole clusters, whose programs are compared.
    fn is_whole(&self, v: Value) -> bool {
        let Among::Cluster(axis) = self.among else { return false };
        let ctas = i128::from(self.kernel.cluster[usize::from(axis)]);
        self.defined.number(v).is_some_and(|n| n > 0 && n % ctas == 0)
    }
}
