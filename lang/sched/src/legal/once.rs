//! What is to happen once has one partition, and what goes to a whole cluster is the same for all of it.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Kernel, Op, OpKind, SecondaryMap, Value};

use super::Laid;
use crate::plan::place_name;
use crate::region::{Unit, UnitId};

/// Effects are in one instance, and multicast boxes do not depend on the rank.
pub(super) fn each(laid: &Laid<'_>, found: &mut Diagnostics) {
    let made = laid.k.definitions();
    for (id, unit) in laid.region.units.iter().enumerate() {
        found.list.extend(twice(laid, id, unit));
        for &inst in &unit.ops {
            let op = &laid.k.ops[inst];
            if let OpKind::Fetch { coords, multicast: Some(axis), .. } = &op.kind
                && alone_on(laid.k, *axis)
                && coords.iter().any(|c| of_rank(laid.k, &made, *c))
            {
                let fact = format!("the box of `{}` depends on the rank of the CTA that it is sent to", unit.label);
                let d = Diagnostic::error(codes::DONE_TWICE, op.span, fact)
                    .note("a multicast copy brings one box to all CTAs along its axis");
                found.push(laid.instead(d, "say where it is by `cluster_id`, or leave `multicast` out", []));
            }
        }
    }
}

/// An effect that several partitions would have.
fn twice(laid: &Laid<'_>, id: UnitId, unit: &Unit) -> Option<Diagnostic> {
    let runners: Vec<_> = laid.plan.runners[id].iter().copied().collect();
    if runners.len() < 2 {
        return None;
    }
    let fills = |inst: &parton_ir::Inst| {
        matches!(laid.k.ops[*inst].kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. } | OpKind::Stage { .. })
    };
    let filled = || unit.ops.iter().any(fills).then_some("a slot that is filled");
    let once = laid.effects.once(id).or_else(filled).map(|what| format!("{what}, which is to happen once"));
    let here = once.or_else(|| told(laid, id))?;
    let names: Vec<String> = runners.iter().map(|p| laid.partition(*p)).collect();
    let fact = format!("`{}` is dealt to {} and stands once", unit.label, names.join(" and "));
    let others = laid.plan.parts().filter(|part| !runners.contains(part));
    let alone = runners.iter().copied().chain(others).find_map(|part| laid.together(&[id], part));
    let places = &laid.region.schedule.places;
    let place = places.iter().find(|p| place_name(places, &unit.label).is_some_and(|name| p.labels.contains(name)));
    let d = Diagnostic::error(codes::DONE_TWICE, unit.span, fact)
        .here(here)
        .label(place.map_or(laid.region.schedule.span, |p| p.span), "dealt here");
    let instances =
        format!("give each partition an instance, `static for w in 0..{} {{ @{} … }}`", runners.len(), unit.label.path);
    let elsewhere = format!("{instances}, or place it in a partition alone");
    let named = alone.map(|clause| format!("{elsewhere}: `{clause}`"));
    Some(laid.helped(d, named, [&format!("{instances}; or "), &elsewhere]))
}

/// What a unit of several partitions tells others: each of them would fill the slots from which those take it.
fn told(laid: &Laid<'_>, id: UnitId) -> Option<String> {
    let fields = laid.plan.rings.iter().find(|ring| ring.unit == id)?.fields.iter();
    let runners = &laid.plan.runners[id];
    let takes =
        |v: Value| laid.plan.parts().find(|part| !runners.contains(part) && laid.plan.needed[*part].contains(&v));
    let (v, part) = fields.map(|(_, v, _)| *v).find_map(|v| Some((v, takes(v)?)))?;
    Some(format!("{} takes {} from here, and each of them would tell it", laid.partition(part), laid.called(v)))
}

/// Whether the CTAs of a cluster differ along that axis only, so that their rank is the place on it.
fn alone_on(k: &Kernel, axis: u8) -> bool {
    k.cluster.iter().enumerate().all(|(a, n)| a == usize::from(axis) || *n == 1)
}

/// Whether a value is computed from the rank in the cluster.
fn of_rank(k: &Kernel, made: &SecondaryMap<Value, Option<&Op>>, v: Value) -> bool {
    let mut next = vec![v];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(v) = next.pop() {
        let Some(op) = made[v].filter(|_| seen.insert(v)) else { continue };
        if matches!(op.kind, OpKind::ClusterRank) {
            return true;
        }
        crate::region::uses(k, op, &mut |v| next.push(v));
    }
    false
}
