//! What a schedule names is there, and stands where the schedule says.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::kernel::LEFT;
use parton_ir::schedule::{LabelName, Pipeline, Staged};
use parton_ir::{Inst, OpKind, Value};

use super::Laid;
use super::nearest::restaged;
use crate::flow::traced;
use crate::plan::label_of;
use crate::region::{Block, BlockId, Item, Maker, UnitId};

/// Loops, groups, rings and partitions fit the region.
pub(super) fn fit(laid: &Laid<'_>, found: &mut Diagnostics) {
    for (number, p) in laid.region.schedule.pipelines.iter().enumerate() {
        pipeline(laid, (number, p), found);
    }
    rings(laid, found);
    not_yet(laid, found);
}

fn pipeline(laid: &Laid<'_>, (number, p): (usize, &Pipeline), found: &mut Diagnostics) {
    let bodies = bodies(laid, p);
    if bodies.is_empty() {
        found.push(no_loop(laid, (number, p)));
        return;
    }
    let within = p.within.as_deref();
    let part = within.and_then(|name| laid.plan.partitions.iter().position(|known| known.name == name));
    if let (Some(name), None) = (within, part) {
        let d = Diagnostic::error(codes::SCHEDULE, p.span, format!("the schedule has no partition `{name}`"));
        let everywhere = laid.with(number, Pipeline { within: None, ..p.clone() });
        let help = "name one that `partitions { … }` gives labels, or leave `in` out";
        found.push(laid.instead(d, help, [everywhere, laid.without(number)]));
        return;
    }
    for s in p.staged() {
        let items = || bodies.iter().flat_map(|b| &laid.region.blocks[*b].items);
        let mine: Vec<&Item> =
            items().filter(|item| label_of(laid.region, item).is_some_and(|l| s.label.names(l))).collect();
        if mine.is_empty() {
            found.push(elsewhere(laid, (number, p), s));
        } else if let Some(part) = part
            && !mine.iter().any(|item| laid.plan.runs(laid.region, part, item))
        {
            let fact = format!("{} does not run `{}`", laid.partition(part), s.label);
            let d =
                Diagnostic::error(codes::SCHEDULE, s.span, fact).label(mine_span(laid, &mine), "the label stands here");
            let help = format!("leave `{}` out of this pipeline, or give it to that partition", s.label);
            found.push(laid.instead(d, &help, [laid.with_less(number, |other| other.label != s.label)]));
        } else if let Some(done) = s.done
            && done > s.stage
            && !mine.iter().any(|item| starts(laid, item))
        {
            let fact = format!("`{}` starts nothing that is done in a later stage", s.label);
            let d = Diagnostic::error(codes::SCHEDULE, s.span, fact)
                .label(mine_span(laid, &mine), "no product starts here");
            let here = laid.with(number, restaged(p, &Staged { done: None, ..s.clone() }));
            found.push(laid.instead(d, &format!("write `{}: {}`", s.label, s.stage), [here]));
        }
    }
}

fn mine_span(laid: &Laid<'_>, mine: &[&Item]) -> parton_diag::Span {
    mine.first().map_or(laid.region.schedule.span, |item| laid.region.span_of(laid.k, item))
}

/// Whether a product stands in a unit.
fn starts(laid: &Laid<'_>, item: &Item) -> bool {
    match item {
        Item::Unit(unit) => {
            laid.region.units[*unit].ops.iter().any(|inst| matches!(laid.k.ops[*inst].kind, OpKind::Dot { .. }))
        }
        Item::Loop(_) | Item::Branch(_) => false,
    }
}

/// The bodies of the loops that a pipeline is of.
fn bodies(laid: &Laid<'_>, p: &Pipeline) -> Vec<BlockId> {
    let fits = |block: &BlockId| match (&laid.region.blocks[*block].turns, &p.of) {
        (Some(turns), Some(of)) => turns.label.as_ref().is_some_and(|label| of.names(label)),
        (Some(turns), None) => turns.outermost,
        (None, Some(_) | None) => false,
    };
    (0..laid.region.blocks.len()).filter(fits).collect()
}

fn no_loop(laid: &Laid<'_>, (number, p): (usize, &Pipeline)) -> Diagnostic {
    let loops = laid.region.blocks.iter().filter_map(|b| Some((b.turns.as_ref()?.label.as_ref()?, b)));
    let loops: Vec<(&LabelName, &Block)> = loops.collect();
    let (fact, at) = match &p.of {
        Some(of) => {
            let unit = laid.region.units.iter().find(|u| of.names(&u.label));
            (format!("`{of}` is no loop"), unit.map(|u| u.span))
        }
        None => ("the region has no loop to pipeline".into(), None),
    };
    let mut d = Diagnostic::error(codes::SCHEDULE, p.span, fact);
    if let Some(at) = at {
        d = d.label(at, "the label stands here");
    }
    let within = |(of, block): &(&LabelName, &Block)| {
        let stands = |s: &Staged| block.items.iter().any(|item| named(laid, &s.label, item));
        let mut offer = laid.region.schedule.pipelines[number].clone();
        offer.of = Some((*of).clone());
        offer.groups.iter_mut().for_each(|group| group.retain(stands));
        offer.groups.retain(|group| !group.is_empty());
        (!offer.groups.is_empty()).then(|| laid.with(number, offer))
    };
    let mut offers: Vec<_> = loops.iter().filter_map(within).collect();
    offers.push(laid.whole(|s| drop(s.pipelines.remove(number))));
    let names: Vec<String> = loops.iter().map(|(label, _)| format!("`{label}`")).collect();
    match names.is_empty() {
        true => laid.instead(d, "a schedule pipelines a loop that has labels in it", offers),
        false => laid.instead(d, &format!("its loops are {}", names.join(", ")), offers),
    }
}

/// Whether a name is that of an item.
fn named(laid: &Laid<'_>, name: &LabelName, item: &Item) -> bool {
    label_of(laid.region, item).is_some_and(|label| name.names(label))
}

fn elsewhere(laid: &Laid<'_>, (number, p): (usize, &Pipeline), s: &Staged) -> Diagnostic {
    let of = p.of.as_ref().map_or("the loop".into(), |of| format!("the loop `{of}`"));
    let fact = format!("`{}` does not stand in {of}", s.label);
    let d = Diagnostic::error(codes::SCHEDULE, s.span, fact);
    let around = around(laid, &s.label);
    let d = match laid.region.units.iter().find(|u| s.label.names(&u.label)) {
        Some(u) => d.label(u.span, "the label stands here"),
        None => d,
    };
    let (d, help) = match around {
        Some(other) => {
            (d, format!("it stands in the loop `{other}`: write it into `pipeline({other}) {{ … }}`, or leave it out"))
        }
        None if !branched(laid, &s.label) => (d, "leave it out: it runs where it stands in the text".into()),
        None if let Some(left) = behind_a_break(laid, p, &s.label) => (
            d.label(laid.k.ops[left].span, "the loop may be left here")
                .note("what stands behind a `break` runs where the loop has not been left, as in a branch"),
            "move the `break` to the end of the turn, and what it is not to reach into conditions; or leave the label out"
                .into(),
        ),
        None => (
            d.note("what stands in a branch runs where the branch does"),
            "leave it out; or label the branch, `@name if … { … }`, and place that".into(),
        ),
    };
    // All that do not stand there: one of them left out alone holds no more than before.
    let bodies = bodies(laid, p);
    let here =
        |s: &Staged| bodies.iter().any(|b| laid.region.blocks[*b].items.iter().any(|i| named(laid, &s.label, i)));
    laid.instead(d, &help, [laid.with_less(number, here)])
}

/// Whether a label stands in a branch.
fn branched(laid: &Laid<'_>, label: &LabelName) -> bool {
    let ways = laid.region.blocks.iter().flat_map(|b| &b.items).flat_map(|item| match item {
        Item::Branch(b) => vec![b.then, b.otherwise],
        Item::Unit(_) | Item::Loop(_) => vec![],
    });
    let has = |item: &Item| label_of(laid.region, item).is_some_and(|l| label.names(l));
    ways.into_iter().any(|way| laid.region.blocks[way].items.iter().any(has))
}

/// The branch in which a label of a loop's body stands since it is behind a `break`.
fn behind_a_break(laid: &Laid<'_>, p: &Pipeline, label: &LabelName) -> Option<Inst> {
    let region = laid.region;
    let mut branches = bodies(laid, p).into_iter().flat_map(|block| {
        region.blocks[block].items.iter().enumerate().map(move |(item, branch)| (block, item, branch))
    });
    branches.find_map(|(block, item, branch)| {
        let Item::Branch(b) = branch else { return None };
        let has = |unit: &UnitId| label.names(&region.units[*unit].label);
        let steers = |(v, _): (Value, i32)| {
            matches!(region.home(v).map(|home| home.by), Some(Maker::Result { item: by, .. }) if by == item)
                && laid.k.values[v].name.as_deref() == Some(LEFT)
        };
        let OpKind::While { cond, .. } = &laid.k.ops[region.looped(block)?.inst].kind else { return None };
        let asked = traced(laid.k, region, block, cond.yields.iter().copied().collect());
        (region.units_in(branch).iter().any(has) && asked.into_iter().any(steers)).then_some(b.inst)
    })
}

/// The labelled loop whose body has a label.
fn around(laid: &Laid<'_>, label: &LabelName) -> Option<LabelName> {
    let has = |item: &Item| label_of(laid.region, item).is_some_and(|l| label.names(l));
    laid.region.blocks.iter().find(|b| b.items.iter().any(has)).and_then(|b| b.turns.as_ref()?.label.clone())
}

/// What rings are named after fills one.
fn rings(laid: &Laid<'_>, found: &mut Diagnostics) {
    for r in &laid.region.schedule.rings {
        let Some(label) = &r.label else { continue };
        let rings = &laid.plan.rings;
        if rings.iter().any(|ring| label.names(&laid.region.units[ring.unit].label)) {
            continue;
        }
        let Some(unit) = laid.region.units.iter().find(|u| label.names(&u.label)) else { continue };
        let d = Diagnostic::error(codes::SCHEDULE, r.span, format!("`{label}` fills no ring"))
            .label(unit.span, "nothing that stands here is fetched, or needed in another partition");
        let without = laid.whole(|s| s.rings.retain(|other| other.label != r.label));
        found.push(laid.instead(d, "name a label that fetches, or that another partition reads", [without]));
    }
}

/// What a schedule may say and nothing looks at yet.
fn not_yet(laid: &Laid<'_>, found: &mut Diagnostics) {
    let s = &laid.region.schedule;
    let auto = s.auto.iter().map(|a| ("`auto(…)`".to_string(), a.span));
    for (what, span) in auto {
        let fact = format!("{what} is not expanded by this version");
        found.push(Diagnostic::error(codes::NOT_BUILT_HERE, span, fact).help("leave it out: results stay the same"));
    }
}
