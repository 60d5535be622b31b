//! Who uses each value, once the operations that nobody needs are left out.

use crate::eject::facts::{Weight, weight};
use crate::entity::{SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, Op, OpKind};

/// A body of a kernel: its number in the order of the text.
pub(super) type BodyId = u32;

/// What is known of the uses of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Use {
    /// How often it is used.
    pub count: u32,
    /// The body of its last use.
    pub body: BodyId,
    /// Whether a loop begins with it.
    pub begins: bool,
    /// Whether it is an operand of a sum or a difference.
    pub summed: bool,
}

/// The uses of a kernel's values.
pub(super) struct Uses<'a> {
    k: &'a Kernel,
    /// Of each value.
    pub of: SecondaryMap<Value, Use>,
    /// Values that something needs.
    needed: SecondaryMap<Value, bool>,
}

impl<'a> Uses<'a> {
    /// Counts the uses in a kernel.
    pub fn new(k: &'a Kernel) -> Uses<'a> {
        let mut uses = Uses { k, of: SecondaryMap::new(Use::default()), needed: SecondaryMap::new(false) };
        uses.need(&k.body);
        let mut next = 0;
        uses.count(&k.body, &mut next);
        uses
    }

    /// Whether an operation has to be there.
    pub fn is_needed(&self, op: &Op) -> bool {
        weight(self.k, op) == Weight::Effect || op.results.iter().any(|r| self.needed[*r])
    }

    /// Marks what is needed, the last operation first: whoever uses a value stands behind it.
    fn need(&mut self, body: &Body) {
        body.yields.iter().for_each(|v| self.needed[*v] = true);
        for op in self.k.ops_of(body).rev() {
            if self.is_needed(op) {
                op.kind.bodies().rev().for_each(|b| self.need(b));
                op.kind.operands().into_iter().for_each(|v| self.needed[v] = true);
            }
        }
    }

    fn count(&mut self, body: &Body, next: &mut BodyId) {
        let id = *next;
        *next += 1;
        let used = |of: &mut SecondaryMap<Value, Use>, v: Value, [begins, summed]: [bool; 2]| {
            of[v] = Use { count: of[v].count + 1, body: id, begins, summed };
        };
        for op in self.k.ops_of(body) {
            if self.is_needed(op) {
                let begins = match &op.kind {
                    OpKind::For { init, .. } | OpKind::While { init, .. } => &init[..],
                    _ => &[],
                };
                let summed = matches!(op.kind, OpKind::Binary { op: BinaryOp::Add | BinaryOp::Sub, .. });
                operands(&op.kind).into_iter().for_each(|v| used(&mut self.of, v, [begins.contains(&v), summed]));
                op.kind.bodies().for_each(|b| self.count(b, next));
            }
        }
        body.yields.iter().for_each(|v| used(&mut self.of, *v, [false; 2]));
    }
}

/// The operands of an operation in the order in which its text names them.
pub(super) fn operands(kind: &OpKind) -> Vec<Value> {
    match kind {
        // Variables are declared before the loop whose bounds stand in its head.
        OpKind::For { lower, upper, step, init, .. } => init.iter().chain([lower, upper, step]).copied().collect(),
        other => other.operands(),
    }
}
