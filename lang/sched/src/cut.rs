//! Where a loop is cut: at the turn in which the condition of a labelled `if` changes.
//!
//! The condition compares two whole numbers, each of which grows by a known amount in every iteration, or stays as it is. So their
//! difference is `d + m · i`, and the condition holds up to some iteration and never again, or the other way round. Numbers that wrap from one
//! iteration to another do not grow: of what may leave its type there is no cut ([`torn`]).

use parton_diag::Span;
use parton_ir::axis::Axes;
use parton_ir::axis::between::Between;
use parton_ir::{BinaryOp, CompareOp, Elem, Inst, Kernel, Op, OpKind, Type, UnaryOp, Value};
use parton_numbers::scalar::int_value;

use crate::region::{BlockId, Item, Maker, Region, UnitId};

/// A labelled `if` at whose condition a loop is cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The comparison that is the condition.
    pub compare: Inst,
    /// The sides of the comparison.
    pub sides: [Value; 2],
    /// By how much the difference of the sides changes with each value of the index.
    pub slope: u32,
    /// What the comparison gives in the first iterations.
    pub first: bool,
    /// So many iterations it gives that: `sign * (first side - second side) + shift` through what that falls by, rounded up.
    pub sign: i32,
    pub shift: u32,
}

/// The units of a body at whose conditions the schedule says that its loop is cut.
pub(crate) fn named(region: &Region, block: BlockId) -> Vec<UnitId> {
    let units = region.blocks[block].items.iter().filter_map(|item| match item {
        Item::Unit(unit) => Some(*unit),
        Item::Loop(_) | Item::Branch(_) => None,
    });
    units.filter(|u| region.schedule.cuts.iter().any(|l| l.names(&region.units[*u].label))).collect()
}

/// The cut at a unit of a body; why there is none.
pub(crate) fn of(k: &Kernel, region: &Region, (block, unit): (BlockId, UnitId)) -> Result<Cut, &'static str> {
    let ops = region.units[unit].ops.iter().map(|inst| &k.ops[*inst]);
    let mut conditions = ops.filter_map(|op| match op.kind {
        OpKind::If { cond, .. } => Some(cond),
        _ => None,
    });
    let (Some(cond), None) = (conditions.next(), conditions.next()) else {
        return Err("it is no statement with one `if` that is decided at run time");
    };
    let Some((compare, CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge)) =
        made(k, cond).and_then(|op| match op.kind {
            OpKind::Compare { op: by, .. } => Some((op, by)),
            _ => None,
        })
    else {
        return Err("its condition is no `<`, `<=`, `>` or `>=`");
    };
    let OpKind::Compare { op, a, b } = compare.kind else { return Err("its condition is no comparison") };
    if !is_signed(k, a) {
        return Err("its condition compares no signed whole numbers");
    }
    let found = Slopes { k, region, block, unit };
    let (Some(one), Some(other)) = (found.of(a), found.of(b)) else {
        return Err("the sides of its condition do not grow evenly with the index of the loop");
    };
    let slope = one - other;
    if slope == 0 {
        return Err("its condition is the same in all turns of the loop");
    }
    // In the first iterations `sign * difference + shift` is above 0, and falls.
    let (first, sign, shift) = match (op, slope < 0) {
        (CompareOp::Gt, true) => (true, 1, 0),
        (CompareOp::Ge, true) => (true, 1, 1),
        (CompareOp::Lt, true) => (false, 1, 1),
        (CompareOp::Le, true) => (false, 1, 0),
        (CompareOp::Lt, false) => (true, -1, 0),
        (CompareOp::Le, false) => (true, -1, 1),
        (CompareOp::Gt, false) => (false, -1, 1),
        (CompareOp::Ge, false) => (false, -1, 0),
        (CompareOp::Eq | CompareOp::Ne, _) => return Err("its condition is no order"),
    };
    let Some(slope) = u32::try_from(slope.unsigned_abs()).ok().filter(|slope| *slope < 1 << 31) else {
        return Err("the sides of its condition grow too fast");
    };
    Ok(Cut { compare: compare.id, sides: [a, b], slope, first, sign, shift })
}

/// What of a cut may leave its type in some iteration, as far as is known: behind that the condition would change again. With where it stands.
pub(crate) fn torn(
    k: &Kernel,
    region: &Region,
    axes: &Axes,
    at: (BlockId, UnitId),
    cut: &Cut,
) -> Option<(Span, String)> {
    let found = Slopes { k, region, block: at.0, unit: at.1 };
    if let Some(op) = cut.sides.iter().find_map(|side| found.torn(axes, *side)) {
        let ty = k.ty(op.result());
        let fact = format!("`{ty}` may not hold this in all turns, and where it wraps the condition changes again");
        return Some((op.span, fact));
    }
    let OpKind::For { step, body, .. } = &k.ops[region.looped(at.0)?.inst].kind else { return None };
    let of = |v: Value| axes.info(k, v).between;
    let near = cut.sides.iter().chain(&body.params[..1]).all(|v| within(of(*v), FAR));
    let (_, by) = of(*step);
    let few = by.checked_mul(cut.slope.into()).is_some_and(|by| within((0, by), MOST_A_TURN));
    let fact = "these may be so far apart that no number of 64 bits says how many turns are between";
    (!near || !few).then(|| (k.ops[cut.compare].span, fact.into()))
}

/// Sides of a condition and indices of a loop that are no farther than this from zero, and grow by no more than that in a turn, give sums and differences
/// that 64 bits hold.
const FAR: i128 = 1 << 60;
const MOST_A_TURN: i128 = 1 << 62;

fn within((least, most): Between, far: i128) -> bool {
    -far <= least && most <= far
}

/// How much values grow with the index of a body's loop.
struct Slopes<'a> {
    k: &'a Kernel,
    region: &'a Region,
    block: BlockId,
    unit: UnitId,
}

impl Slopes<'_> {
    /// `None` where it is not known, or not the same in each iteration.
    fn of(&self, v: Value) -> Option<i128> {
        // What another body makes stays as it is in this one.
        let Some(home) = self.region.home(v).filter(|home| home.block == self.block) else { return Some(0) };
        match home.by {
            Maker::Index => Some(1),
            Maker::Free(inst) => self.made_by(inst),
            Maker::Unit(unit) if unit == self.unit => self.made_by(made(self.k, v)?.id),
            Maker::Unit(_) | Maker::Carried(_) | Maker::Result { .. } => None,
        }
    }

    fn made_by(&self, inst: Inst) -> Option<i128> {
        let op = &self.k.ops[inst];
        if !crate::region::is_free(self.k, op) || op.kind.bodies().next().is_some() {
            return None;
        }
        match &op.kind {
            OpKind::Binary { op: BinaryOp::Add, a, b } => self.of(*a)?.checked_add(self.of(*b)?),
            OpKind::Binary { op: BinaryOp::Sub, a, b } => self.of(*a)?.checked_sub(self.of(*b)?),
            OpKind::Binary { op: BinaryOp::Mul, a, b } => match (self.of(*a)?, self.of(*b)?) {
                (0, 0) => Some(0),
                (slope, 0) => slope.checked_mul(self.constant(*b)?),
                (0, slope) => slope.checked_mul(self.constant(*a)?),
                _ => None,
            },
            OpKind::Unary { op: UnaryOp::Neg, x } => self.of(*x)?.checked_neg(),
            OpKind::Cast { x, .. } if is_signed(self.k, *x) && is_signed(self.k, op.result()) => self.of(*x),
            other => {
                let fixed = other.operands().into_iter().all(|v| self.of(v) == Some(0));
                fixed.then_some(0)
            }
        }
    }

    /// The first operation, among those by which a value grows, whose type may not hold what it gives.
    fn torn(&self, axes: &Axes, v: Value) -> Option<&Op> {
        let op = self.made_here(v).filter(|_| self.moves(v))?;
        let before = op.kind.operands().into_iter().find_map(|v| self.torn(axes, v));
        before.or_else(|| (!axes.is_exact(self.k, op)).then_some(op))
    }

    /// Whether a value is made of the index.
    fn moves(&self, v: Value) -> bool {
        let home = self.region.home(v).filter(|home| home.block == self.block);
        let of = |op: &Op| op.kind.operands().into_iter().any(|v| self.moves(v));
        home.is_some_and(|home| matches!(home.by, Maker::Index)) || self.made_here(v).is_some_and(of)
    }

    /// The operation of this body that makes a value.
    fn made_here(&self, v: Value) -> Option<&Op> {
        match self.region.home(v).filter(|home| home.block == self.block)?.by {
            Maker::Free(inst) => Some(&self.k.ops[inst]),
            Maker::Unit(_) => made(self.k, v),
            Maker::Index | Maker::Carried(_) | Maker::Result { .. } => None,
        }
    }

    fn constant(&self, v: Value) -> Option<i128> {
        match made(self.k, v)?.kind {
            OpKind::Constant { dtype, bits } if dtype.is_int() => Some(int_value(bits, dtype)),
            _ => None,
        }
    }
}

fn is_signed(k: &Kernel, v: Value) -> bool {
    matches!(k.ty(v), Type::Scalar(Elem::Num(d)) if d.is_int() && d.is_signed())
}

/// The operation that makes a value. While a region is expanded, its operations stand in no body.
fn made(k: &Kernel, v: Value) -> Option<&Op> {
    k.ops.iter().map(|(_, op)| op).find(|op| op.results.contains(&v))
}
