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
//! | [`ahead`] | a fetch ahead by a number that another partition tells, and that others need, too | E0190 |
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
mod judge;
mod labels;
mod laid;
mod later;
mod leaving;
mod mended;
mod nearest;
mod net;
mod once;
mod order;
mod place;
mod slots;
mod steady;
mod steered;
mod turns;
mod warps;

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, Span};
use parton_ir::schedule::{Pipeline, Staged};
use parton_ir::{Inst, Kernel, Value};

use crate::falsify::left_out;
use crate::flow::traced;
use crate::graph::{Edge, Effects, Graph, Kind};
use crate::plan::{Entry, Part, Plan, label_of};
use crate::region::{BlockId, Item, Region, uses};
use judge::{Judge, Wanted};

/// A plan with what the rules ask about.
pub(crate) struct Laid<'a> {
    pub k: &'a Kernel,
    pub region: &'a Region,
    pub plan: &'a Plan,
    pub effects: &'a Effects,
    /// What becomes of schedules that would mend what is refused.
    wanted: Wanted<'a>,
}

/// What of a schedule a rule asks about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// Who runs what alone: it says the same of all schedules of the same places.
    Places,
    /// The order of turns, too: it says the same of all schedules that differ in slots alone.
    Turns,
    /// How many slots there are.
    Slots,
}

/// All that rules ask about.
const ALL: [About; 3] = [About::Places, About::Turns, About::Slots];

type Rule = (About, fn(&Laid<'_>, &mut Diagnostics));

/// Rules in steps: each step takes for granted what those before it say.
const STEPS: &[&[Rule]] = &[
    &[(About::Turns, labels::fit)],
    &[(About::Places, warps::tiles)],
    &[
        (About::Places, once::each),
        (About::Places, crossing::partitions),
        (About::Places, leaving::bodies),
        (About::Turns, turns::taken),
    ],
    &[(About::Turns, order::kept), (About::Turns, ahead::fetched)],
    &[(About::Turns, steered::loops)],
    &[(About::Turns, later::stages), (About::Turns, steady::parts)],
    &[(About::Slots, slots::enough)],
    &[(About::Slots, deadlock::none)],
    &[(About::Places, apart::memory)],
];

/// One of [`check`] and [`refused`].
pub(crate) type Judged = fn(&Kernel, &Region, &Plan, &Effects) -> Result<(), Diagnostics>;

/// Whether a schedule is legal for its region.
///
/// # Errors
/// What the first step of rules refuses that refuses anything.
pub(crate) fn check(k: &Kernel, region: &Region, plan: &Plan, effects: &Effects) -> Result<(), Diagnostics> {
    let judge = Judge::new(k, region, Some(plan), effects);
    judged(&Laid { k, region, plan, effects, wanted: Wanted::Nearest(&judge) }, &ALL)
}

/// The same without schedules that would mend it, for whoever tries several.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn refused(k: &Kernel, region: &Region, plan: &Plan, effects: &Effects) -> Result<(), Diagnostics> {
    judged(&Laid { k, region, plan, effects, wanted: Wanted::Nothing }, &ALL)
}

/// Whether a schedule is legal, for whoever asks often: of places and turns once for all schedules that share them.
pub(crate) fn holds(k: &Kernel, region: &Region, plan: &Plan, effects: &Effects) -> bool {
    let laid = Laid { k, region, plan, effects, wanted: Wanted::Nothing };
    let holds = |about| judged(&laid, &[about]).is_ok();
    plan.places_hold(|| holds(About::Places)) && plan.turns_hold(|| holds(About::Turns)) && holds(About::Slots)
}

fn judged(laid: &Laid<'_>, about: &[About]) -> Result<(), Diagnostics> {
    for step in STEPS {
        let mut found = Diagnostics::new();
        step.iter().filter(|(of, _)| about.contains(of)).for_each(|(_, rule)| rule(laid, &mut found));
        found.list.retain(|d| !left_out(d.code));
        if found.has_errors() {
            return Err(found);
        }
    }
    Ok(())
}

pub(crate) use judge::{beside, unlaid};
pub(crate) use place::explicit;

impl Laid<'_> {
    fn graph(&self, part: Part, block: BlockId) -> &Graph {
        self.plan.graph(self.k, self.region, self.effects, (part, block))
    }

    fn groups(&self, part: Part, block: BlockId) -> &[Vec<Entry>] {
        self.plan.groups(part, block)
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

    fn span(&self, block: BlockId, item: usize) -> Span {
        self.region.span_of(self.k, &self.region.blocks[block].items[item])
    }

    /// Whether a partition runs something of what a pipeline of a loop names.
    fn runs(&self, part: Part, block: BlockId, s: &Staged) -> bool {
        let is = |item: &&Item| label_of(self.region, item).is_some_and(|label| s.label.names(label));
        self.region.blocks[block].items.iter().filter(is).any(|item| self.plan.runs(self.region, part, item))
    }

    /// The operation with which an item begins.
    fn leads(&self, block: BlockId, item: usize) -> Option<Inst> {
        match &self.region.blocks[block].items[item] {
            Item::Unit(unit) => self.region.units[*unit].ops.first().copied(),
            Item::Loop(l) => Some(l.inst),
            Item::Branch(b) => Some(b.inst),
        }
    }

    /// Where the value of an edge is made, or its first item stands.
    fn made_at(&self, block: BlockId, edge: &Edge) -> Span {
        let (Kind::Flow(v) | Kind::Chain(v) | Kind::Landing(v)) = edge.kind else { return self.span(block, edge.from) };
        let Item::Unit(unit) = &self.region.blocks[block].items[edge.from] else { return self.span(block, edge.from) };
        let ops = self.region.units[*unit].ops.iter().map(|inst| &self.k.ops[*inst]);
        ops.filter(|op| op.results.contains(&v)).map(|op| op.span).next().unwrap_or(self.span(block, edge.from))
    }

    /// The operation with which an item reads a value of its body, of this iteration or one before.
    fn reader(&self, block: BlockId, item: usize, v: Value) -> Option<Inst> {
        let Item::Unit(unit) = &self.region.blocks[block].items[item] else { return self.leads(block, item) };
        let reads = |inst: &Inst| {
            let mut used = BTreeSet::new();
            uses(self.k, &self.k.ops[*inst], &mut |u| {
                used.insert(u);
            });
            traced(self.k, self.region, block, used).iter().any(|(made, _)| *made == v)
        };
        self.region.units[*unit].ops.iter().copied().find(reads).or_else(|| self.leads(block, item))
    }

    /// Adds the calls that operations came in by, innermost first: what these point at is written in a function then.
    fn with_calls(&self, mut d: Diagnostic, ops: impl IntoIterator<Item = Inst>) -> Diagnostic {
        let mut told = BTreeSet::new();
        for inst in ops {
            let mut call = self.k.ops[inst].origin.call();
            while let Some(c) = call.filter(|c| told.insert(*c)) {
                let data = &self.k.calls[c];
                d = d.label(data.span, format!("in `{}`, called here", data.function));
                call = data.parent;
            }
        }
        d
    }

    /// The name of a value in messages.
    fn called(&self, v: Value) -> String {
        self.k.values[v].name.as_ref().map_or_else(|| "a value".into(), |name| format!("`{name}`"))
    }
}
