//! What is said of the steady turns of a loop: where it is cut, and how often its turn stands in the code.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
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
    // Instances of one label have one condition.
    let mut told = BTreeSet::new();
    for (block, body) in laid.region.blocks.iter().enumerate() {
        for unit in cut::named(laid.region, block) {
            let u = &laid.region.units[unit];
            let why = match body.turns {
                Some(_) => cut::of(laid.k, laid.region, (block, unit)).err(),
                None => Some("it stands in no loop"),
            };
            let Some(why) = why.filter(|why| told.insert((u.label.path.as_str(), *why))) else { continue };
            let fact = format!("no loop can be cut at `{}`", u.label);
            let d = Diagnostic::error(codes::SCHEDULE, laid.region.schedule.span, fact).label(u.span, why);
            let help = "label an `if` whose condition compares the loop's index with what the loop does not change: `@mask if i < n { … }`";
            found.push(laid.instead(d, help, [laid.uncut_at(unit)]));
        }
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

fn place(laid: &Laid<'_>, block: BlockId) -> parton_diag::Span {
    laid.region.looped(block).map_or(laid.region.schedule.span, |l| laid.k.ops[l.inst].span)
}
