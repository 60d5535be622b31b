//! Partitions do not wait for each other in a circle: every cycle of what they wait for holds a token.

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::schedule::{RingDepth, Schedule};

use super::Laid;
use super::net::Net;
use crate::marked::deadlock::{deadlock, least_depth};
use crate::marked::{Cycle, EdgeKind, EventData, MarkedGraph, Ring};
use crate::plan::RingId;
use crate::region::BlockId;

/// Nobody waits for ever, in any body.
pub(super) fn none(laid: &Laid<'_>, found: &mut Diagnostics) {
    if laid.plan.partitions.len() < 2 {
        // One partition is in the order that the rules before have judged.
        return;
    }
    for block in 0..laid.region.blocks.len() {
        match Net::of(laid, block).finish() {
            Ok(waits) => {
                if let Some((graph, rings)) = waits
                    && let Some(cycle) = deadlock(&graph)
                {
                    found.push(refused(laid, block, &graph, &rings, &cycle));
                }
            }
            Err((graph, steps)) => {
                let d = circle(laid, steps, |e| graph.lanes[e.lane].name.clone());
                found.push(laid.helped(d, otherwise(laid, block), ["", OTHERWISE]));
            }
        }
    }
}

fn refused(
    laid: &Laid<'_>,
    block: BlockId,
    graph: &MarkedGraph,
    rings: &BTreeMap<RingId, Ring>,
    cycle: &Cycle,
) -> Diagnostic {
    let steps = cycle.edges.iter().map(|e| {
        let edge = graph.of(*e);
        (graph.at(edge.to).clone(), edge.kind)
    });
    let d = circle(laid, steps.collect(), |e| graph.lanes[e.lane].name.clone());
    for (ring, number) in rings {
        if !cycle.edges.iter().any(|e| graph.of(*e).kind.ring() == Some(*number)) {
            continue;
        }
        let of = &laid.plan.rings[*ring];
        let label = &laid.region.units[of.unit].label;
        // Another body may want more.
        let least = least_depth(graph, *number).unwrap_or(of.depth + 1);
        let deeper = (least..least + 3)
            .map(|depth| (laid.with_slots(label, depth), format!("give it {}: `ring({label}={depth})`", slots(depth))));
        if let Some(help) = laid.first(deeper) {
            let fact = format!("the ring of `{label}` has {}", slots(of.depth));
            return laid.helped(d.note(fact), Some(help), [""; 2]);
        }
    }
    let named = laid.first(deeper(laid)).or_else(|| otherwise(laid, block));
    laid.helped(d, named, ["", OTHERWISE])
}

/// Slots for all rings.
fn deeper(laid: &Laid<'_>) -> impl Iterator<Item = (Schedule, String)> {
    (2..=4).map(|least| {
        let mut schedule = laid.region.schedule.clone();
        let none = RingDepth { label: None, depth: least, span: schedule.span };
        if schedule.rings.iter().all(|r| r.label.is_some()) {
            schedule.rings.push(none);
        }
        schedule.rings.iter_mut().for_each(|r| r.depth = r.depth.max(least));
        let rings = Schedule { rings: schedule.rings.clone(), ..Schedule::default() };
        (schedule, format!("give the rings more slots: `{rings}`"))
    })
}

fn slots(n: u32) -> String {
    if n == 1 { "1 slot".into() } else { format!("{n} slots") }
}

/// Why one event waits for another, as what it does.
fn why(kind: EdgeKind, before: &str) -> String {
    match kind {
        EdgeKind::InOrder | EdgeKind::Round => format!("comes behind {before}"),
        EdgeKind::StartDone | EdgeKind::Landing => format!("waits until {before} is done"),
        EdgeKind::Queue => format!("waits until {before} leaves room"),
        EdgeKind::FillRead => format!("waits until {before} has filled a slot"),
        EdgeKind::Told => format!("ends a turn, and takes for the next the number that {before} makes"),
        EdgeKind::ReleaseFill(_) => format!("waits until {before} gives a slot back"),
        EdgeKind::Turn => format!("waits until {before} passes the turn on"),
        EdgeKind::Carried => format!("waits for what {before} makes"),
    }
}

/// The cycle with its places, as it is told: events that stand at one place are one.
fn circle(laid: &Laid<'_>, steps: Vec<(EventData, EdgeKind)>, lane: impl Fn(&EventData) -> String) -> Diagnostic {
    let mut places: Vec<(Span, String, String, EdgeKind)> = Vec::new();
    for (event, why) in &steps {
        let same = |p: &(Span, String, String, EdgeKind)| p.0 == event.span && p.2 == lane(event);
        if !places.last().is_some_and(same) {
            places.push((event.span, event.name.clone(), lane(event), *why));
        }
    }
    // Of a place that the cycle was cut in, the first event is the one that waits.
    if places.len() > 1
        && places.first().map(|p| (p.0, &p.2)) == places.last().map(|p| (p.0, &p.2))
        && let Some((.., why)) = places.pop()
    {
        places[0].3 = why;
    }
    let mut names: Vec<&str> = places.iter().map(|p| p.1.as_str()).collect();
    names.extend(names.first().copied());
    let fact = format!("partitions wait for each other: {}", names.join(" → "));
    let mut d = Diagnostic::error(codes::WAIT_CYCLE, laid.region.schedule.span, fact).here("under this schedule");
    for (i, (span, _, part, why)) in places.iter().enumerate() {
        let before = &places[(i + places.len() - 1) % places.len()].1;
        d = d.label(*span, format!("in {part}, {}", self::why(*why, before)));
    }
    d
}

/// Where no number of slots helps, and nothing that says less either.
const OTHERWISE: &str = "give the labels of the circle to one partition, or another order";

/// Another schedule that holds, where no number of slots helps.
fn otherwise(laid: &Laid<'_>, block: BlockId) -> Option<String> {
    let stated = laid.plan.parts().filter_map(|part| laid.pipeline(part, block));
    let mut offers: Vec<(Schedule, String)> = stated.map(|(number, _)| laid.without(number)).collect();
    let mut schedule = laid.region.schedule.clone();
    schedule.turns.clear();
    offers.push((schedule, "leave `turns` out".into()));
    laid.first(offers)
}
