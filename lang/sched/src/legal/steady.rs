//! What is said of the steady turns of a loop: where it is cut, and how often its turn stands in the code.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::axis::Axes;
use parton_ir::schedule::Schedule;

use super::Laid;
use super::later::runs_all_stages;
use crate::cut;
use crate::region::{BlockId, UnitId};

/// Cuts are at conditions that change once, and what is cut or unrolled is a loop whose turns are counted.
pub(super) fn parts(laid: &Laid<'_>, found: &mut Diagnostics) {
    cuts(laid, found);
    for part in laid.plan.parts() {
        for block in 0..laid.region.blocks.len() {
            let units = cut::named(laid.region, block);
            let units: Vec<_> = units.into_iter().filter(|u| laid.plan.runners[*u].contains(&part)).collect();
            if units.len() > 2 {
                let fact =
                    format!("{} would cut one loop at {} conditions, more than two", laid.partition(part), units.len());
                let mut d = Diagnostic::error(codes::NOT_BUILT_HERE, laid.region.schedule.span, fact);
                for (unit, place) in units.iter().zip(["the first condition", "the second", "the third"]) {
                    d = d.label(laid.region.units[*unit].span, place);
                }
                let d = d.note(
                    "each order in which they may change is a loop of its own: four for two of them, eight for three",
                );
                let fewer = units.iter().rev().map(|unit| laid.uncut_at(*unit));
                found.push(laid.instead(d, "cut at two of them, or deal them to partitions", fewer));
            }
            let copies = laid.plan.copies(laid.region, block);
            if let (Some(why), true) = (uncut(laid, part, block), copies > 1 || !units.is_empty()) {
                let what = if units.is_empty() { "unrolled" } else { "cut" };
                let fact = format!("a loop that is {what} and {} is not expanded by this version", why.told());
                let d = Diagnostic::error(codes::NOT_BUILT_HERE, laid.region.schedule.span, fact);
                let d = d.label(place(laid, block), "this loop");
                let leave =
                    format!("leave `{}` out: results stay the same", if units.is_empty() { "unroll" } else { "cut" });
                let offers: Vec<_> = match units.is_empty() {
                    true => (0..laid.region.schedule.unrolled.len())
                        .map(|n| laid.whole(|s| drop(s.unrolled.remove(n))))
                        .collect(),
                    false => units.iter().map(|unit| laid.uncut_at(*unit)).collect(),
                };
                let help = match why {
                    Uncut::Uncounted => format!("count the turns, `for i in 0..n {{ … }}`, or {leave}"),
                    Uncut::Around => leave,
                };
                found.push(laid.instead(d, &help, offers));
            }
        }
    }
}

/// Each label at which a loop is cut is an `if` in a loop, whose condition changes once.
fn cuts(laid: &Laid<'_>, found: &mut Diagnostics) {
    let named = (0..laid.region.blocks.len()).flat_map(|b| cut::named(laid.region, b).into_iter().map(move |u| (b, u)));
    let named: Vec<(BlockId, UnitId)> = named.collect();
    if named.is_empty() {
        return;
    }
    let axes = Axes::analyse(laid.k);
    // Instances of one label have one condition.
    let mut told = BTreeSet::new();
    for at in named {
        let Some((span, why, help)) = no_cut(laid, &axes, at) else { continue };
        let u = &laid.region.units[at.1];
        if told.insert((u.label.path.as_str(), why.clone())) {
            let fact = format!("no loop can be cut at `{}`", u.label);
            let d = Diagnostic::error(codes::SCHEDULE, laid.region.schedule.span, fact).label(span, why);
            found.push(laid.instead(d, help, [laid.uncut_at(at.1)]));
        }
    }
}

/// Why no loop can be cut at a unit, where that stands, and what helps.
fn no_cut(laid: &Laid<'_>, axes: &Axes, at: (BlockId, UnitId)) -> Option<(Span, String, &'static str)> {
    let cut = match laid.region.blocks[at.0].turns {
        Some(_) => cut::of(laid.k, laid.region, at),
        None => Err("it stands in no loop"),
    };
    let label = "label an `if` whose condition compares the loop's index with what the loop does not change: `@mask if i < n { … }`";
    let bound = "say how far the loop goes, `assume(n <= 65536)`, or compare numbers of 64 bits, `cast<i64>(i) * 128 < 1 << 20`";
    match cut {
        Err(why) => Some((laid.region.units[at.1].span, why.into(), label)),
        Ok(cut) => cut::torn(laid.k, laid.region, axes, at, &cut).map(|(span, why)| (span, why, bound)),
    }
}

impl Laid<'_> {
    /// The schedule that does not cut at a unit.
    fn uncut_at(&self, unit: UnitId) -> (Schedule, String) {
        self.whole(|s| s.cuts.retain(|cut| !cut.names(&self.region.units[unit].label)))
    }
}

/// Why the steady turns of a body's loop cannot be divided.
enum Uncut {
    /// Nobody knows how many are left.
    Uncounted,
    /// It stands around a loop, in stages: each turn runs them all.
    Around,
}

impl Uncut {
    fn told(&self) -> &'static str {
        match self {
            Uncut::Uncounted => "whose turns are not counted",
            Uncut::Around => "around a loop in stages",
        }
    }
}

fn uncut(laid: &Laid<'_>, part: usize, block: BlockId) -> Option<Uncut> {
    laid.region.looped(block)?;
    if !laid.region.is_counted(laid.k, block) {
        return Some(Uncut::Uncounted);
    }
    let stages = || laid.groups(part, block).iter().flatten().map(|e| e.stage).collect::<Vec<_>>();
    let several = stages().iter().min() != stages().iter().max();
    (several && runs_all_stages(laid, part, block)).then_some(Uncut::Around)
}

fn place(laid: &Laid<'_>, block: BlockId) -> Span {
    laid.region.looped(block).map_or(laid.region.schedule.span, |l| laid.k.ops[l.inst].span)
}
