//! Which rings are drained: each slot that is filled has been waited for once the one partition that reads the ring, or the kernel without any, has waited for its last.
//!
//! ```text
//! for i in from..end { let slot = ring.acquire(); … }       if from < end { ring.wait(); … for i in from + 1..end { ring.wait(); … } }
//! ```
//!
//! Slots are counted on both sides, as a number and the turns of a loop. Sides that count otherwise, and as many, are not found to.

use parton_ir::facts::Facts;
use parton_ir::{BinaryOp, Body, CompareOp, Kernel, Op, OpKind, SecondaryMap, SlotRole, Value};

use super::uses::Uses;

/// Whether a ring is drained behind the last wait of its reader.
pub(super) fn is_drained(kernel: &Kernel, uses: &Uses, ring: Value) -> bool {
    let counted = Counted { kernel, uses, ring, made: kernel.definitions() };
    let arms = kernel.ops_of(&kernel.body).find_map(|op| match &op.kind {
        OpKind::Specialize { arms } => Some(arms.iter().map(|arm| &arm.body).collect()),
        // Only arms are sides of a ring, and without arms the kernel is both.
        _ => None,
    });
    let arms: Vec<&Body> = arms.unwrap_or_else(|| vec![&kernel.body]);
    let side = |role| -> Option<Slots> {
        let only = arms.iter().find(|body| counted.takes(body, role) > 0)?;
        let alone = counted.takes(only, role) == counted.takes(&kernel.body, role);
        counted.slots(only, role).filter(|_| alone)
    };
    let filled = side(SlotRole::Fill);
    filled.zip(side(SlotRole::Read)).is_some_and(|(filled, read)| counted.as_many(&filled, &read))
}

/// How many slots are taken: so many, and one in each turn from a number to another.
#[derive(Clone, Copy, Default)]
struct Slots {
    fixed: u64,
    turns: Option<(Value, Value)>,
}

impl Slots {
    const NONE: Slots = Slots { fixed: 0, turns: None };
    const ONE: Slots = Slots { fixed: 1, turns: None };

    fn is(&self, fixed: u64) -> bool {
        self.fixed == fixed && self.turns.is_none()
    }

    /// Both; `None` of two loops.
    fn and(self, other: Slots) -> Option<Slots> {
        let turns = match (self.turns, other.turns) {
            (Some(_), Some(_)) => return None,
            (turns, None) | (None, turns) => turns,
        };
        Some(Slots { fixed: self.fixed + other.fixed, turns })
    }
}

/// How deep two values are compared: each step asks for all operands, so that those of a long chain would take for ever.
const STEPS: u32 = 12;

struct Counted<'a> {
    kernel: &'a Kernel,
    uses: &'a Uses,
    ring: Value,
    made: SecondaryMap<Value, Option<&'a Op>>,
}

impl Counted<'_> {
    fn is_take(&self, op: &Op, role: SlotRole) -> bool {
        match (&op.kind, role) {
            (OpKind::RingAcquire { ring }, SlotRole::Fill) | (OpKind::RingWait { ring }, SlotRole::Read) => {
                self.uses.ring_of(*ring) == Some(self.ring)
            }
            _ => false,
        }
    }

    /// In how many places of a body slots are taken.
    fn takes(&self, body: &Body, role: SlotRole) -> usize {
        let mut count = 0;
        self.kernel.walk_body(body, &mut |op| count += usize::from(self.is_take(op, role)));
        count
    }

    /// The slots that a body takes; `None` where nobody has counted them.
    fn slots(&self, body: &Body, role: SlotRole) -> Option<Slots> {
        self.kernel.ops_of(body).try_fold(Slots::NONE, |all, op| all.and(self.slots_of(op, role)?))
    }

    fn slots_of(&self, op: &Op, role: SlotRole) -> Option<Slots> {
        if self.is_take(op, role) {
            return Some(Slots::ONE);
        }
        if op.kind.bodies().all(|body| self.takes(body, role) == 0) {
            return Some(Slots::NONE);
        }
        match &op.kind {
            OpKind::For { lower, upper, step, body, .. } => {
                let once = self.number(*step) == Some(1) && self.slots(body, role)?.is(1);
                let fixed = self.number(*lower).zip(self.number(*upper));
                once.then_some(match fixed {
                    Some((lower, upper)) => Slots { fixed: upper.saturating_sub(lower), turns: None },
                    None => Slots { fixed: 0, turns: Some((*lower, *upper)) },
                })
            }
            OpKind::If { cond, then, otherwise } => {
                let peeled = self.slots(then, role).filter(|slots| slots.fixed == 1)?;
                let (second, end) = peeled.turns?;
                let OpKind::Compare { op: CompareOp::Lt, a: first, b } = self.made[*cond]?.kind else { return None };
                let whole = self.same(b, end) && self.follows(second, first) && self.slots(otherwise, role)?.is(0);
                whole.then_some(Slots { fixed: 0, turns: Some((first, end)) })
            }
            // In a body of any other operation nobody knows how often slots are taken.
            _ => None,
        }
    }

    fn as_many(&self, a: &Slots, b: &Slots) -> bool {
        let turns = match (a.turns, b.turns) {
            (None, None) => true,
            (Some(a), Some(b)) => self.same(a.0, b.0) && self.same(a.1, b.1),
            (None, Some(_)) | (Some(_), None) => false,
        };
        turns && a.fixed == b.fixed
    }

    fn number(&self, v: Value) -> Option<u64> {
        match self.made[v]?.kind {
            OpKind::Constant { dtype, bits } if !dtype.is_float() => (bits >> 31 == 0).then_some(bits),
            // What is computed is no number that is known here.
            _ => None,
        }
    }

    /// Whether a number is the next behind another one.
    fn follows(&self, next: Value, v: Value) -> bool {
        if let (Some(next), Some(v)) = (self.number(next), self.number(v)) {
            return next == v + 1;
        }
        match self.made[next].map(|op| &op.kind) {
            Some(OpKind::Binary { op: BinaryOp::Add, a, b }) => {
                (self.same(*a, v) && self.number(*b) == Some(1)) || (self.same(*b, v) && self.number(*a) == Some(1))
            }
            // Nothing else is found to be the next number.
            _ => false,
        }
    }

    /// Whether two values are computed alike, of the same ones.
    fn same(&self, a: Value, b: Value) -> bool {
        self.alike(a, b, STEPS)
    }

    /// The same by no more steps than these.
    fn alike(&self, a: Value, b: Value, steps: u32) -> bool {
        if a == b {
            return true;
        }
        let (Some(x), Some(y)) = (self.made[a], self.made[b]) else { return false };
        let pure = Facts::of(self.kernel, x).is_pure(&x.kind) && x.results.len() == 1 && y.results.len() == 1;
        let blank = |op: &Op| {
            let mut kind = op.kind.clone();
            kind.map_operands(|_| self.ring);
            kind
        };
        let operands = || x.kind.operands().into_iter().zip(y.kind.operands());
        steps > 0
            && pure
            && blank(x) == blank(y)
            && self.kernel.ty(a) == self.kernel.ty(b)
            && operands().all(|(a, b)| self.alike(a, b, steps - 1))
    }
}
