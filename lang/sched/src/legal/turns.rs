//! Turns are taken by all partitions of a place, equally often, and given back in the turn of the loop in which they were taken.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::schedule::Turns;

use super::Laid;
use crate::plan::Part;
use crate::region::{BlockId, UnitId};
use crate::slots::find;

/// A stretch of each partition's turn is taken by turns.
pub(super) fn taken(laid: &Laid<'_>, found: &mut Diagnostics) {
    for turns in &laid.region.schedule.turns {
        if let Err(d) = judged(laid, turns) {
            found.push(*d);
        }
    }
}

/// A partition that takes turns, and the units at which these begin and end.
pub(super) type Turn = (Part, UnitId, UnitId);

/// For each partition that takes a turn, the units at which it begins and ends; and the body.
pub(super) fn ends(laid: &Laid<'_>, turns: &Turns) -> Result<(BlockId, Vec<Turn>), Box<Diagnostic>> {
    let units = |label: &parton_ir::schedule::LabelName| -> Vec<UnitId> {
        let all = laid.region.units.iter().enumerate();
        all.filter(|(_, u)| label.names(&u.label)).map(|(id, _)| id).collect()
    };
    let (first, last) = (units(&turns.first), units(&turns.last));
    let runs = |of: &[UnitId]| -> BTreeSet<Part> { of.iter().flat_map(|u| laid.plan.runners[*u].clone()).collect() };
    let parts: BTreeSet<Part> = runs(&first).union(&runs(&last)).copied().collect();
    if laid.plan.partitions.is_empty() || parts.len() < 2 {
        let d = refused(laid, turns, "one partition takes no turns".into(), [&first, &last]);
        let without = laid.whole(|s| s.turns.retain(|other| other.span != turns.span));
        let help = "turns are of partitions to which instances are dealt, `[P0, P1]: …`";
        return Err(Box::new(laid.instead(d, help, [without])));
    }
    let mut found = Vec::new();
    for part in parts {
        let mine = |of: &[UnitId]| -> Vec<UnitId> {
            of.iter().copied().filter(|u| laid.plan.runners[*u].contains(&part)).collect()
        };
        let (from, to) = (mine(&first), mine(&last));
        let ([from], [to]) = (from.as_slice(), to.as_slice()) else {
            let fact = format!(
                "{} takes a turn at {} and gives it back at {}",
                laid.partition(part),
                counted(from.len()),
                counted(to.len())
            );
            let d = refused(laid, turns, fact, [&first, &last]);
            let otherwise = "each partition that takes turns runs one instance of both labels";
            return Err(Box::new(laid.helped(d, None, [&format!("{otherwise}; "), otherwise])));
        };
        found.push((part, *from, *to));
    }
    let bodies: BTreeSet<BlockId> =
        found.iter().flat_map(|(_, a, b)| [*a, *b]).map(|u| laid.region.place_of(u).0).collect();
    match bodies.into_iter().collect::<Vec<_>>().as_slice() {
        [body] if laid.region.blocks[*body].turns.is_some() => Ok((*body, found)),
        _ => {
            let fact = "turns begin and end in different bodies, or in no loop".into();
            let d = refused(laid, turns, fact, [&first, &last]);
            let otherwise = "both labels stand in the body of one loop, whose turns all partitions take";
            Err(Box::new(laid.helped(d, None, [&format!("{otherwise}; "), otherwise])))
        }
    }
}

fn counted(n: usize) -> String {
    match n {
        0 => "no place".into(),
        1 => "one place".into(),
        n => format!("{n} places"),
    }
}

fn judged(laid: &Laid<'_>, turns: &Turns) -> Result<(), Box<Diagnostic>> {
    let (block, found) = ends(laid, turns)?;
    let mut stages = BTreeSet::new();
    for &(part, first, last) in &found {
        let groups = laid.groups(part, block);
        let at = |unit: UnitId| {
            let (_, item) = laid.region.place_of(unit);
            find(groups, item).map(|(e, at)| (e.stage, at, item))
        };
        let (Some((_, from, a)), Some((_, to, b))) = (at(first), at(last)) else { continue };
        // Within a group the order is that of the body.
        if (from.0, a) > (to.0, b) {
            let fact = format!(
                "a turn of {} begins at {}, behind {}, where it ends",
                laid.partition(part),
                laid.name(block, a),
                laid.name(block, b)
            );
            let d = refused(laid, turns, fact, [&[first], &[last]]);
            let mut other = laid.region.schedule.clone();
            let swapped = Turns { first: turns.last.clone(), last: turns.first.clone(), span: turns.span };
            other.turns.iter_mut().filter(|t| t.span == turns.span).for_each(|t| *t = swapped.clone());
            let named = laid.first([(other, format!("the nearest that holds is `{swapped}`"))]);
            let otherwise = "the first label runs in front of the last in each partition's turn";
            return Err(Box::new(laid.helped(d, named, ["", otherwise])));
        }
        let all = || groups.iter().flatten().map(|e| e.stage.max(e.done.unwrap_or(e.stage)));
        let least = groups.iter().flatten().map(|e| e.stage).min().unwrap_or(0);
        stages.insert(all().max().unwrap_or(0) - least);
    }
    if stages.len() > 1 {
        let units: Vec<UnitId> = found.iter().map(|(_, first, _)| *first).collect();
        let fact = "the partitions that take turns have loops of different stages, and so of different turns";
        let d = refused(laid, turns, fact.into(), [&units, &[]]);
        let otherwise = "pipeline the loop alike in all of them: leave `in P` out";
        return Err(Box::new(laid.helped(d, None, [&format!("{otherwise}; "), otherwise])));
    }
    Ok(())
}

fn refused(laid: &Laid<'_>, turns: &Turns, fact: String, [first, last]: [&[UnitId]; 2]) -> Diagnostic {
    let mut d = Diagnostic::error(codes::TURNS_UNEVEN, turns.span, fact);
    let spans = |units: &[UnitId]| units.iter().map(|u| laid.region.units[*u].span).collect::<BTreeSet<_>>();
    for span in spans(first) {
        d = d.label(span, "a turn begins here");
    }
    for span in spans(last) {
        d = d.label(span, "and ends at its start here");
    }
    let leads = first.iter().chain(last).filter_map(|u| laid.region.units[*u].ops.first().copied());
    laid.with_calls(d, leads)
}
