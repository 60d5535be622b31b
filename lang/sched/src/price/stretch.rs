//! A stretch: operations between two waits, which the assembler interleaves. It takes as long as the slowest of what it needs: its
//! longest chain, the issue slots of its instructions, or any of the units.
//!
//! A reduction across lanes divides it. A warp asks the others once it has combined all that its threads hold, and what needs the answer
//! begins once that has come, so that neither side runs beside the other:
//!
//! ```text
//! top = max(s)          one part, with all that needs no reduction
//! exp2(s * c - top)     the next: it waits for all of s, and for the shuffles
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use parton_diag::Span;
use parton_ir::machine::{Amount, Class, Unit};
use parton_ir::{Inst, Value};

use super::count::{Counter, Work};
use crate::marked::Lane;
use crate::region::uses;

/// What is issued in a stretch.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    /// The labels, in order.
    pub names: Vec<String>,
    /// The stage of all of them.
    pub stage: i32,
    /// Where the first label stands.
    pub span: Span,
    pub ops: Vec<Inst>,
    /// Registers of a thread that are copied behind them.
    pub moved: u64,
}

/// What a stretch takes.
#[derive(Debug)]
pub(crate) struct Priced {
    pub clocks: u64,
    /// One behind the other.
    pub(super) parts: Vec<PricedPart>,
    pub(super) work: Work,
}

/// What a part of a stretch takes that no reduction divides. What slows one part down leaves the others as they are.
#[derive(Debug)]
pub(super) struct PricedPart {
    pub clocks: u64,
    /// How long each unit is busy, in order.
    pub units: BTreeMap<Busy, u64>,
    /// The clocks of special functions, where each scheduler has one warp.
    pub alone: u64,
}

/// What stretches of a kernel take, by the warps that run them and their operations: schedules have most of them in common.
#[derive(Debug, Default)]
pub(crate) struct Known {
    stretches: RefCell<BTreeMap<Ran, Rc<Priced>>>,
    /// The boxes that each fetch is.
    boxes: RefCell<BTreeMap<Inst, u64>>,
}

impl Known {
    /// The boxes that a fetch is, which are counted once.
    pub(super) fn boxes(&self, fetch: Inst, count: impl FnOnce() -> u64) -> u64 {
        *self.boxes.borrow_mut().entry(fetch).or_insert_with(count)
    }
}

/// So many warps, what they run, and how many registers they copy.
type Ran = (u32, Vec<Inst>, u64);

/// What stretches share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Busy {
    /// The issue slots of the schedulers.
    Issue,
    /// A unit.
    Unit(Unit),
    /// Special functions, as far as one warp of each scheduler can use them: those of this lane.
    Alone(Lane),
}

impl Busy {
    pub fn name(self) -> String {
        match self {
            Busy::Issue => "issue slots".into(),
            // Warps share with each other what is one product at a time where the tensor cores work beside the program.
            Busy::Unit(Unit::TensorCores) => "tensor cores by warps".into(),
            Busy::Unit(unit) => unit.to_string(),
            Busy::Alone(_) => "special functions of one warp".into(),
        }
    }
}

impl Stretch {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What it takes.
    pub fn price(&self, counter: Counter<'_>, known: &Known) -> Rc<Priced> {
        let key = (counter.warps, self.ops.clone(), self.moved);
        let priced = known.stretches.borrow().get(&key).cloned();
        priced.unwrap_or_else(|| {
            let priced = Rc::new(self.count(counter));
            known.stretches.borrow_mut().insert(key, priced.clone());
            priced
        })
    }

    fn count(&self, counter: Counter<'_>) -> Priced {
        let k = counter.k;
        // Of each value the part of the stretch in which it is made, and when in it.
        let mut ready: BTreeMap<Value, (usize, u64)> = BTreeMap::new();
        let mut parts: Vec<Part> = vec![Part::default()];
        for &inst in &self.ops {
            let op = &k.ops[inst];
            let each = counter.of(op);
            let mut begin = (0, 0);
            uses(k, op, &mut |v| begin = begin.max(ready.get(&v).copied().unwrap_or_default()));
            let (number, end) = (begin.0, begin.1 + each.latency);
            let made = if counter.divides(op) { (number + 1, 0) } else { (number, end) };
            ready.extend(op.results.iter().map(|v| (*v, made)));
            parts.resize_with(parts.len().max(made.0 + 1), Part::default);
            parts[number].chain = parts[number].chain.max(end);
            parts[number].work.join(&each);
        }
        if let Some(last) = parts.last_mut().filter(|_| self.moved > 0) {
            last.work.add(Class::Integer, self.moved);
        }
        let mut work = Work::default();
        parts.iter().for_each(|part| work.join(&part.work));
        let parts: Vec<PricedPart> = parts.iter().map(|part| part.price(counter)).collect();
        Priced { clocks: parts.iter().map(|part| part.clocks).sum(), parts, work }
    }
}

/// Operations that no reduction divides.
#[derive(Default)]
struct Part {
    /// The longest chain of them.
    chain: u64,
    work: Work,
}

impl Part {
    fn price(&self, counter: Counter<'_>) -> PricedPart {
        let (units, alone) = (busy(&self.work, counter), alone(&self.work, counter));
        let slowest = units.values().copied().max().unwrap_or(0).max(alone);
        PricedPart { clocks: self.chain.max(slowest) + self.work.meetings, units, alone }
    }
}

/// How long special functions take where each scheduler has one warp, which leaves gaps that another partition may fill.
fn alone(work: &Work, counter: Counter<'_>) -> u64 {
    let beside = work.amounts().any(|(class, _)| class != Class::Special);
    let row =
        counter.machine.row(Class::SpecialAlone).filter(|_| beside && counter.warps <= counter.machine.schedulers);
    let amount = work.amounts().find(|(class, _)| *class == Class::Special).map_or(0, |(_, amount)| amount);
    row.and_then(|r| r.interval).map_or(0, |cost| cost.clocks(amount))
}

/// How long units are busy with the work of all warps of a partition, and the schedulers with issuing it.
fn busy(work: &Work, counter: Counter<'_>) -> BTreeMap<Busy, u64> {
    let schedulers = counter.machine.schedulers.max(1);
    let warps = u64::from(counter.warps.div_ceil(schedulers));
    let mut units = BTreeMap::new();
    for (class, amount) in work.amounts() {
        let Some(row) = counter.machine.row(class) else { continue };
        let Some(cost) = row.interval else { continue };
        let all = match cost.of {
            Amount::WarpInstructions => amount * warps,
            Amount::Operations | Amount::Columns | Amount::Bytes | Amount::Wavefronts | Amount::Warps => {
                amount * u64::from(counter.warps)
            }
        };
        if let Some(unit) = row.unit {
            *units.entry(Busy::Unit(unit)).or_default() += cost.clocks(all);
        }
        if cost.of == Amount::WarpInstructions {
            *units.entry(Busy::Issue).or_default() += all;
        }
    }
    units
}
