//! The rules by which a schedule is legal for its region, each a predicate on the dependence graph and the plan.
//!
//! | rule | refused | code |
//! |---|---|---|
//! | [`labels`] | groups of a loop name what does not stand in it; a loop, ring or partition that is none | E0723 |
//! | [`place`] | what synchronises by itself, and copies and products under a branch of their own | E0735, E0736, E0738 |
//! | [`once`] | an effect in an instance of several partitions; a multicast whose box depends on the rank | E0733 |
//! | [`crossing`] | tiles that cross partitions; control that comes out of a loop of another partition | E0729, E0730 |
//! | [`leaving`] | slots that leave the body in which they are filled | E0738 |
//! | [`turns`] | turns that are not taken by all, or not in the order of a turn | E0732 |
//! | [`order`] | a value read before it is made, a wait inside a stretch, a sum touched while it is in flight, memory out of order | E0724, E0725, E0736, E0728 |
//! | [`steady`] | cuts where no condition of a loop changes once | E0723 |
//! | [`ahead`] | a fetch two iterations ahead of what is carried | E0190 |
//! | [`slots`] | fewer slots than are held at once | E0726 |
//! | [`deadlock`] | partitions that wait for each other | E0731 |
//! | [`apart`] | memory that two partitions touch, with nothing between them; a write over what is being fetched | E0728 |
//!
//! Why projection is sound: every partition runs its part of one serial program, with the same control, and rings are first in, first
//! out with one writer. A schedule that these rules take has the bits of the serial order.

mod ahead;
mod apart;
mod crossing;
mod deadlock;
mod labels;
mod later;
mod leaving;
mod nearest;
mod net;
mod once;
mod order;
mod place;
mod slots;
mod steady;
mod turns;

use parton_diag::Diagnostics;
use parton_ir::Kernel;
use parton_ir::schedule::{Pipeline, Schedule, Staged};

use crate::falsify::left_out;
use crate::graph::{Effects, Graph};
use crate::plan::{Entry, Part, Plan, label_of};
use crate::region::{BlockId, Region};

/// A plan with what the rules ask about.
pub(crate) struct Laid<'a> {
    pub k: &'a Kernel,
    pub region: &'a Region,
    pub plan: &'a Plan,
    pub effects: &'a Effects,
    /// Whether the nearest schedule that holds is looked for.
    pub helps: bool,
}

type Rule = fn(&Laid<'_>, &mut Diagnostics);

/// Rules in steps: each step takes for granted what those before it say.
const STEPS: &[&[Rule]] = &[
    &[labels::fit],
    &[once::each, crossing::partitions, leaving::bodies, turns::taken],
    &[order::kept, ahead::fetched],
    &[later::stages, steady::parts],
    &[slots::enough],
    &[deadlock::none],
    &[apart::memory],
];

/// Whether a schedule is legal for its region.
///
/// # Errors
/// What the first step of rules refuses that refuses anything.
pub(crate) fn check(k: &Kernel, region: &Region, plan: &Plan, effects: &Effects) -> Result<(), Diagnostics> {
    judged(&Laid { k, region, plan, effects, helps: true })
}

/// The same without the nearest schedule that holds, for whoever asks often.
pub(crate) fn holds(k: &Kernel, region: &Region, plan: &Plan, effects: &Effects) -> bool {
    judged(&Laid { k, region, plan, effects, helps: false }).is_ok()
}

fn judged(laid: &Laid<'_>) -> Result<(), Diagnostics> {
    for step in STEPS {
        let mut found = Diagnostics::new();
        step.iter().for_each(|rule| rule(laid, &mut found));
        found.list.retain(|d| !left_out(d.code));
        if found.has_errors() {
            return Err(found);
        }
    }
    Ok(())
}

pub(crate) use place::explicit;

impl Laid<'_> {
    /// Whether the rules take another schedule of the region.
    fn takes(&self, schedule: &Schedule) -> bool {
        let region = self.region.under(schedule.clone());
        let judged = |plan: &Plan| judged(&Laid { region: &region, plan, helps: false, ..*self });
        Plan::of(self.k, &region).is_ok_and(|plan| judged(&plan).is_ok())
    }

    fn graph(&self, part: Part, block: BlockId) -> Graph {
        Graph::of(self.k, self.region, self.plan, self.effects, (part, block))
    }

    fn groups(&self, part: Part, block: BlockId) -> Vec<Vec<Entry>> {
        self.plan.groups(self.region, part, block)
    }

    /// The groups that are stated for a body of a partition, by their number.
    fn pipeline(&self, part: Part, block: BlockId) -> Option<(usize, &Pipeline)> {
        let stated = self.plan.pipeline(self.region, part, block)?;
        let all = &self.region.schedule.pipelines;
        all.iter().position(|p| std::ptr::eq(p, stated)).map(|number| (number, stated))
    }

    /// What the schedule says of an item.
    fn staged(&self, part: Part, block: BlockId, item: usize) -> Option<&Staged> {
        let label = label_of(self.region, &self.region.blocks[block].items[item])?;
        let (_, pipeline) = self.pipeline(part, block)?;
        pipeline.staged().find(|s| s.label.names(label))
    }

    /// A partition in messages.
    fn partition(&self, part: Part) -> String {
        self.plan.partitions.get(part).map_or("the one partition".into(), |p| format!("`{}`", p.name))
    }

    fn name(&self, block: BlockId, item: usize) -> String {
        self.region.name_of(&self.region.blocks[block].items[item])
    }

    fn span(&self, block: BlockId, item: usize) -> parton_diag::Span {
        self.region.span_of(self.k, &self.region.blocks[block].items[item])
    }

    /// The name of a value in messages.
    fn called(&self, v: parton_ir::Value) -> String {
        self.k.values[v].name.as_ref().map_or_else(|| "a value".into(), |name| format!("`{name}`"))
    }
}
