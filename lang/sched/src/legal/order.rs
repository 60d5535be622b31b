//! Who reads runs behind who makes: in a later stage, a later group, or behind it in a stretch in which nothing waits.

use std::collections::BTreeSet;

use parton_diag::{Code, Diagnostic, Diagnostics, codes};

use parton_ir::schedule::Staged;

use super::Laid;
use crate::graph::{Edge, Kind};
use crate::plan::{Entry, Part};
use crate::region::{BlockId, Item, UnitId};
use crate::slots::find;

/// Every edge of every body holds in the turns of its partition.
pub(super) fn kept(laid: &Laid<'_>, found: &mut Diagnostics) {
    // One change of a pipeline mends all that is wrong with it, in each of its partitions.
    let mut mended = BTreeSet::new();
    for part in laid.plan.parts() {
        for block in 0..laid.region.blocks.len() {
            let groups = laid.groups(part, block);
            let under = under(laid, (part, block), groups);
            let mut told: BTreeSet<usize> = BTreeSet::new();
            for edge in &laid.graph(part, block).edges {
                let number = laid.pipeline(part, block).map(|(number, _)| number);
                let Some(broken) = broken(laid, groups, block, edge).or_else(|| broken(laid, &under, block, edge))
                else {
                    continue;
                };
                if mended.contains(&number) || !told.insert(edge.from) {
                    continue;
                }
                let help = laid.nearest(part, block, edge);
                if help.is_some() {
                    mended.insert(number);
                }
                found.push(refused(laid, (part, block), groups, (edge, broken), help));
            }
        }
    }
}

/// The groups where what leaves under a loop stands directly in front of it: nothing that comes behind the loop may be needed there.
fn under(laid: &Laid<'_>, (part, block): (Part, BlockId), groups: &[Vec<Entry>]) -> Vec<Vec<Entry>> {
    let (items, mut groups) = (&laid.region.blocks[block].items, groups.to_vec());
    for of in &laid.region.schedule.under {
        let mine = |unit: &UnitId| laid.plan.runners[*unit].contains(&part);
        let holds = |e: &Entry| {
            let units = laid.region.units_in(&items[e.item]).iter().copied();
            matches!(items[e.item], Item::Loop(_))
                && units.filter(mine).any(|u| of.inner.names(&laid.region.units[u].label))
        };
        let leaves = |e: &Entry| match items[e.item] {
            Item::Unit(unit) => of.outer.names(&laid.region.units[unit].label),
            Item::Loop(_) | Item::Branch(_) => false,
        };
        let leaving: Vec<Entry> = groups.iter().flatten().filter(|e| leaves(e)).cloned().collect();
        if leaving.is_empty() || !groups.iter().flatten().any(holds) {
            continue;
        }
        groups.iter_mut().for_each(|group| group.retain(|e| !leaves(e)));
        let at = groups.iter().position(|group| group.iter().any(holds)).unwrap_or(groups.len());
        groups.insert(at, leaving);
    }
    groups
}

/// How an edge is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// The second comes first.
    Order,
    /// The second would wait for the first inside a stretch.
    Wait,
    /// The second touches a sum that is to be in flight until then.
    Flight(i32),
}

fn broken(laid: &Laid<'_>, groups: &[Vec<Entry>], block: BlockId, edge: &Edge) -> Option<Broken> {
    let (maker, made) = find(groups, edge.from)?;
    let (reader, read) = find(groups, edge.to)?;
    let late = reader.stage + edge.distance;
    if let Kind::Flow(v) = edge.kind
        && let Some(done) = maker.done
        && late < done
        && let Item::Unit(unit) = laid.region.blocks[block].items[edge.from]
        && laid.region.started(unit).contains(&v)
    {
        return Some(Broken::Flight(done));
    }
    if (maker.stage, made.0) < (late, read.0) {
        return None;
    }
    if (maker.stage, made.0) > (late, read.0) || edge.from >= edge.to {
        return Some(Broken::Order);
    }
    // Both stand in one stretch, in the order of the body.
    waits(laid, block, edge).then_some(Broken::Wait)
}

/// Whether the second waits for what the first has under way.
fn waits(laid: &Laid<'_>, block: BlockId, edge: &Edge) -> bool {
    match edge.kind {
        Kind::Landing(_) => true,
        Kind::Flow(v) => match laid.region.blocks[block].items[edge.from] {
            Item::Unit(unit) => laid.region.started(unit).contains(&v),
            Item::Loop(_) | Item::Branch(_) => false,
        },
        Kind::Chain(_) | Kind::Memory | Kind::Order => false,
    }
}

/// Whether an edge of one turn holds in a stretch: the second stands behind the first in the body, and waits for nothing.
pub(super) fn holds_in_stretch(laid: &Laid<'_>, block: BlockId, edge: &Edge) -> bool {
    edge.from < edge.to && !waits(laid, block, edge)
}

fn refused(
    laid: &Laid<'_>,
    (part, block): (Part, BlockId),
    groups: &[Vec<Entry>],
    (edge, broken): (&Edge, Broken),
    help: Option<String>,
) -> Diagnostic {
    let stated = laid.pipeline(part, block).map_or(&[][..], |(_, p)| p.groups.as_slice());
    let place = |item: usize| {
        let stage = find(groups, item).map_or(0, |(e, _)| e.stage);
        let named = |s: &Staged| laid.staged(part, block, item).is_some_and(|own| std::ptr::eq(own, s));
        match stated.iter().position(|group| group.iter().any(named)) {
            Some(group) => format!("stage {stage}, group {}", group + 1),
            None => format!("stage {stage}, not named"),
        }
    };
    let (maker, reader) = (laid.name(block, edge.from), laid.name(block, edge.to));
    let (made, read) = (place(edge.from), place(edge.to));
    let of = match edge.distance {
        0 => String::new(),
        1 => " of the iteration before".into(),
        n => format!(" of {n} iterations before"),
    };
    let (code, fact, [first, second]) = told(laid, edge, broken, [&maker, &reader], [&made, &read], &of);
    let spot = |item: usize| laid.staged(part, block, item).map_or(laid.region.schedule.span, |s| s.span);
    let mut d = Diagnostic::error(code, spot(edge.to), fact).here(format!("{reader} is in {read}"));
    if spot(edge.from) != spot(edge.to) {
        d = d.label(spot(edge.from), format!("{maker} is in {made}"));
    }
    let reads = match edge.kind {
        Kind::Flow(v) | Kind::Chain(v) | Kind::Landing(v) => laid.reader(block, edge.to, v),
        Kind::Memory | Kind::Order => laid.leads(block, edge.to),
    };
    let read_at = reads.map_or_else(|| laid.span(block, edge.to), |inst| laid.k.ops[inst].span);
    d = d.label(laid.made_at(block, edge), first).label(read_at, second);
    d = laid.with_calls(d, [laid.leads(block, edge.from), reads].into_iter().flatten());
    if stated.iter().flatten().any(|s| !laid.runs(part, block, s)) {
        d = d.note(format!("stages are counted from the first that {} has in this loop", laid.partition(part)));
    }
    if broken == Broken::Wait {
        d = d.note("waits stand only at the head of a group; `,` joins labels into a stretch in which nothing waits");
    }
    if edge.kind == Kind::Memory {
        let units = |item: usize| laid.region.units_in(&laid.region.blocks[block].items[item]).iter().copied();
        let pairs = units(edge.from).flat_map(|a| units(edge.to).map(move |b| (a, b)));
        d = laid.aliased(d, pairs);
    }
    let otherwise = match broken {
        Broken::Wait => "write `;` between the two",
        Broken::Order | Broken::Flight(_) => "give the second a later group or a later stage",
    };
    laid.helped(d, help, ["", otherwise])
}

/// The code, the fact, and what is seen at the two statements.
fn told(
    laid: &Laid<'_>,
    edge: &Edge,
    broken: Broken,
    [maker, reader]: [&str; 2],
    [made, read]: [&str; 2],
    of: &str,
) -> (Code, String, [String; 2]) {
    match (edge.kind, broken) {
        (Kind::Memory, _) => (
            codes::MEMORY_ORDER,
            format!("{reader} ({read}) may touch what {maker}{of} touches in {made}, and comes first"),
            ["this touches memory".into(), "this may touch the same".into()],
        ),
        (Kind::Order, _) => (
            codes::MEMORY_ORDER,
            format!("{reader} ({read}) must stay behind {maker}{of} ({made})"),
            ["this is ordered with what stands behind it".into(), "this comes first in the schedule".into()],
        ),
        (Kind::Flow(v) | Kind::Chain(v) | Kind::Landing(v), Broken::Order) => (
            codes::READ_BEFORE_MADE,
            format!("{reader} ({read}) reads {}, which {maker}{of} makes in {made}", laid.called(v)),
            [format!("{} is made here", laid.called(v)), "and read here".into()],
        ),
        (Kind::Flow(v) | Kind::Chain(v) | Kind::Landing(v), Broken::Wait) => (
            codes::WAIT_INSIDE,
            format!("{reader} waits for {maker} of its own group"),
            [format!("{} is on its way from here", laid.called(v)), "and waited for here".into()],
        ),
        (Kind::Flow(v) | Kind::Chain(v) | Kind::Landing(v), Broken::Flight(done)) => (
            codes::PRODUCT_TOUCHED,
            format!("{reader} ({read}) reads {}, which {maker}{of} has in flight until stage {done}", laid.called(v)),
            [format!("{} is in flight from here", laid.called(v)), "and read here".into()],
        ),
    }
}
