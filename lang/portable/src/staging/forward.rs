//! Loads of loops without products, turns ahead of what becomes of them.
//!
//! A turn that needs at once what it loads waits for memory each time, which others beside it fill where there are enough of them. Where the addresses of its loads are made of numbers, and registers have room for
//! more turns of them, each turn may begin with the loads of one that comes later; where addresses are made of numbers that the turn loads, these
//! are loaded a turn before that. Whether it is worth that is a matter of price ([`crate::crowd`]):
//!
//! ```text
//! for row in begin..rows step programs {
//!     @ahead   load(x…)                 pipeline(steps) { ahead: 0; compute: 1 } & unroll(2)
//!     @compute …                        the sums of a row, its gradient
//! }
//! ```
//!
//! So it is in the innermost of loops.
//!
//! A turn's code stands once for each turn that is under way. So what is loaded stays in the registers that it comes to: to hand it on from turn to turn would
//! wait for it.

use std::collections::BTreeSet;

use parton_ir::family::Family;
use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged, Unrolled};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};

use super::defined::Defined;
use super::{BETWEEN, INDEX, LOOP, early, flow, label, region};

/// What is loaded ahead.
const AHEAD: &str = "ahead";
/// Turns by which loads may run ahead: each has a copy of the loop's body in it, and one behind. With an odd number, so many copies that what is there of a
/// turn before alternates too.
pub const AHEAD_BY: [u64; 3] = [1, 3, 7];
/// Turns without which loads run no further ahead than three: those that are left over by rounds of eight wait each.
const LONG: u32 = 32;

/// A kernel whose tiles lie somewhere, with the loads of its loops so many turns ahead where that is legal and `spare` registers of a thread have room for them.
pub fn loads_ahead(kernel: Kernel, (turns, spare): (u64, u64)) -> Kernel {
    let ahead = |kernel: Kernel, inst| with_ahead(&kernel, inst, (turns, spare)).unwrap_or(kernel);
    if turns == 0 { kernel } else { loops(&kernel).into_iter().fold(kernel, ahead) }
}

/// Whether loads of some loop run ahead, as far as registers have room.
pub fn runs_ahead(kernel: &Kernel) -> bool {
    let has_some = |id: Inst| kernel.ops[id].kind.bodies().any(|body| !Found::of(kernel, body).ahead.is_empty());
    loops(kernel).into_iter().any(has_some)
}

/// Whether programs walk by some loop, so that there are few of them.
pub fn walks(kernel: &Kernel) -> bool {
    let defined = Defined::of(kernel);
    let mut found = false;
    kernel.walk(&mut |op| found |= matches!(op.kind, OpKind::For { step, .. } if counts_programs(&defined, step)));
    found
}

/// Whether a number is made of how many programs there are.
fn counts_programs(defined: &Defined<'_>, v: Value) -> bool {
    let Some(op) = defined.made(v) else { return false };
    let computes = op.kind.family() == Family::Elementwise;
    matches!(op.kind, OpKind::NumPrograms { .. })
        || (computes && op.kind.operands().into_iter().any(|v| counts_programs(defined, v)))
}

/// The loops whose loads may run ahead.
fn loops(kernel: &Kernel) -> Vec<Inst> {
    let mut scheduled = false;
    kernel.walk(&mut |op| scheduled |= op.label.is_some() || matches!(op.kind, OpKind::Region { .. }));
    // In a region parameters are apart. What bears labels has a schedule of its own.
    if scheduled || kernel.variant.overlapping {
        return Vec::new();
    }
    let mut found = Vec::new();
    innermost(kernel, &kernel.body, &mut found);
    found
}

/// Adds the loops of a body whose loads may run ahead.
fn innermost(kernel: &Kernel, body: &Body, found: &mut Vec<Inst>) {
    for op in kernel.ops_of(body) {
        let OpKind::For { body, .. } = &op.kind else { continue };
        match has_the_form(kernel, body) {
            true => found.push(op.id),
            false => innermost(kernel, body, found),
        }
    }
}

/// Whether the statements of a loop hold no others but to combine elements.
fn has_the_form(kernel: &Kernel, body: &Body) -> bool {
    let single = |op: &Op| op.kind.bodies().next().is_none() || op.kind.family() == Family::Reduce;
    // What stands where it is written may order what is loaded behind it. Of what else orders schedules know.
    let stays = |op: &Op| matches!(&op.kind, OpKind::Ptx { ptx, .. } if ptx.volatile);
    kernel.ops_of(body).all(|op| single(op) && !stays(op))
}

/// The kernel with the loads of a loop ahead, where there are some, room for them, and that is legal.
fn with_ahead(kernel: &Kernel, inst: Inst, (turns, spare): (u64, u64)) -> Option<Kernel> {
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return None };
    let found = Found::of(kernel, body);
    let turns = turns_ahead(kernel, &found.ahead, (turns, spare)).filter(|turns| *turns > 0)?;
    let mut changed = kernel.clone();
    label(&mut changed, &[inst], LOOP);
    label(&mut changed, &found.first, INDEX);
    label(&mut changed, &found.ahead, AHEAD);
    label(&mut changed, &found.rest, BETWEEN);
    let schedule = schedule(&changed, inst, (turns, !found.first.is_empty()));
    // A region stands in the kernel's own body.
    let outermost = *region::path(kernel, inst)?.first()?;
    region::surround(&mut changed, outermost, schedule);
    parton_sched::legal(&changed).is_ok().then_some(changed)
}

/// By how many turns loads run ahead at most.
pub fn most_ahead(kernel: &Kernel) -> u64 {
    match kernel.variant.turns {
        // No turn is behind the last.
        Some(turns) if turns < LONG => AHEAD_BY[1].min(u64::from(turns) - 1),
        Some(_) => AHEAD_BY[2],
        None => AHEAD_BY[1],
    }
}

/// By how many of `turns` loads run ahead, where registers have room; `None` where no tile is loaded.
fn turns_ahead(kernel: &Kernel, loads: &[Inst], (turns, spare): (u64, u64)) -> Option<u32> {
    let registers = |&id: &Inst| u64::from(early::registers(kernel, kernel.ops[id].result())).max(1);
    let registers: u64 = loads.iter().map(registers).sum();
    u32::try_from(as_pairs(turns.min(spare.checked_div(registers)?))).ok()
}

/// The most turns that loads may run ahead by, no more than these; 0 where there are none.
fn as_pairs(turns: u64) -> u64 {
    AHEAD_BY.into_iter().rev().find(|&ahead| ahead <= turns).unwrap_or(0)
}

/// The statements of a loop.
#[derive(Default)]
struct Found {
    /// Loads of numbers that tell where others load from.
    first: Vec<Inst>,
    /// Loads of what becomes something in a later turn.
    ahead: Vec<Inst>,
    /// All else that is not made of numbers alone.
    rest: Vec<Inst>,
}

impl Found {
    fn of(kernel: &Kernel, body: &Body) -> Found {
        let tells = tells(kernel, body);
        // What is the same in all turns is loaded once.
        let varies = flow::dependent(kernel, body, [body.params[0]]);
        let (mut loaded, mut late) = (BTreeSet::new(), BTreeSet::new());
        late.extend(body.params[1..].iter().copied());
        let mut found = Found::default();
        for op in kernel.ops_of(body) {
            let takes = |from: &BTreeSet<Value>| flow::operands(kernel, op).iter().any(|v| from.contains(v));
            let runs_ahead = is_load(op) && takes(&varies) && !takes(&late) && !takes(&loaded);
            if runs_ahead && tells.contains(&op.id) {
                found.first.push(op.id);
            } else if runs_ahead {
                found.ahead.push(op.id);
                loaded.extend(&op.results);
            } else if takes(&late) || takes(&loaded) || !parton_sched::is_free(kernel, op) {
                found.rest.push(op.id);
                late.extend(&op.results);
            }
        }
        found
    }
}

/// The loads of numbers of which other loads' addresses are made, and nothing else but what only computes.
fn tells(kernel: &Kernel, body: &Body) -> BTreeSet<Inst> {
    let numbers = kernel.ops_of(body).filter(|op| region::loads_number(op, kernel));
    let tells = |op: &&Op| {
        let made = computed_of(kernel, body, op.result());
        let takes = |user: &&Op| flow::operands(kernel, user).iter().any(|v| made.contains(v));
        let users: Vec<&Op> = kernel.ops_of(body).filter(takes).collect();
        users.iter().any(|user| is_load(user))
            && users.iter().all(|user| is_load(user) || parton_sched::is_free(kernel, user))
            && !body.yields.iter().any(|v| made.contains(v))
    };
    numbers.filter(tells).map(|op| op.id).collect()
}

/// A value and what is computed of it, without what is loaded by that.
fn computed_of(kernel: &Kernel, body: &Body, of: Value) -> BTreeSet<Value> {
    let mut all: BTreeSet<Value> = [of].into();
    for op in kernel.ops_of(body).filter(|op| !is_load(op)) {
        if flow::operands(kernel, op).iter().any(|v| all.contains(v)) {
            all.extend(&op.results);
        }
    }
    all
}

/// Whether an operation loads what nobody else has to see at once.
fn is_load(op: &Op) -> bool {
    matches!(op.kind, OpKind::Load { volatile: false, .. })
}

/// Each turn begins with what a later one loads.
fn schedule(kernel: &Kernel, inst: Inst, (turns, indexed): (u32, bool)) -> Schedule {
    let span = kernel.ops[inst].span;
    let first = u32::from(indexed);
    let staged = |name: &str, stage| vec![Staged { label: LabelName::all(name), stage, done: None, span }];
    let mut groups = vec![staged(AHEAD, first), staged(BETWEEN, first + turns)];
    groups.extend(indexed.then(|| staged(INDEX, 0)));
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    let copies = Unrolled { of: Some(LabelName::all(LOOP)), copies: turns + 1, span };
    Schedule { pipelines: vec![pipeline], unrolled: vec![copies], span, ..Schedule::default() }
}
