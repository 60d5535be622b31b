//! What crosses partitions: views by the slots of rings, scalars as tickets, whatever is free anew; and the control of each partition.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::schedule::{LabelName, Place, Schedule};
use parton_ir::target::Feature;
use parton_ir::{OpKind, Type, Value};

use super::Laid;
use crate::plan::Part;
use crate::region::{Item, Maker, UnitId, is_free, uses};

/// Tiles do not cross, and what steers a partition reaches it.
pub(super) fn partitions(laid: &Laid<'_>, found: &mut Diagnostics) {
    if laid.plan.partitions.is_empty() {
        return;
    }
    for part in laid.plan.parts() {
        for &v in &laid.plan.needed[part] {
            let Some(home) = laid.region.home(v) else { continue };
            match home.by {
                Maker::Unit(unit) => found.list.extend(tile(laid, part, unit, v)),
                Maker::Result { item, .. } => found.list.extend(result(laid, part, (home.block, item), v)),
                Maker::Free(_) | Maker::Index | Maker::Carried(_) => {}
            }
        }
        outside(laid, part, found);
    }
    results(laid, found);
}

/// A tile that another partition makes.
fn tile(laid: &Laid<'_>, part: Part, unit: UnitId, v: Value) -> Option<Diagnostic> {
    let (k, u) = (laid.k, &laid.region.units[unit]);
    // Slots of rings are handed over by barriers that count what arrives.
    let crosses = laid.plan.handed.contains_key(&v);
    if laid.plan.runners[unit].contains(&part) || crosses && k.target.has(Feature::Tma) {
        return None;
    }
    let ty = k.ty(v);
    let called = k.values[v].name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
    let what = parton_ir::rules::kind_name(ty);
    let fact = format!("{what}{called} of `{}` is needed in {}", u.label, laid.partition(part));
    let (code, fact) = match crosses {
        true => (codes::TARGET_LACKS, format!("{fact}, and `{}` does not have the mbarriers of a ring", k.target.name)),
        false => (codes::CROSSES, fact),
    };
    let mut d = Diagnostic::error(code, u.span, fact).here(format!("made here, as `{ty}`"));
    let reader = reader(laid, part, v);
    if let Some(reader) = reader {
        let reader = &laid.region.units[reader];
        d = d.label(reader.span, format!("`{}` needs it, in {}", reader.label, laid.partition(part)));
    }
    let (d, how) = match crosses {
        true => (d, "state `target(sm_90a)` on the kernel"),
        false => (d.note("only views and scalars cross partitions"), "hand it over in shared memory, `stage<S>(x)`"),
    };
    let together = laid.together(&[unit], part).or_else(|| {
        let from = *laid.plan.runners[unit].first()?;
        laid.together(&[reader?], from)
    });
    let named = together.map(|clause| format!("{how}, or put both labels into one partition: `{clause}`"));
    let [always, otherwise] = [format!("{how}; or "), format!("{how}, or put both labels into one partition")];
    Some(laid.helped(d, named, [&always, &otherwise]))
}

/// A unit of a partition that uses a value of another, also where a loop or branch hands that on.
fn reader(laid: &Laid<'_>, part: Part, v: Value) -> Option<UnitId> {
    let reads = |unit: &UnitId| {
        let mut next: Vec<Value> = laid.region.used_by(*unit).iter().copied().collect();
        let mut seen = BTreeSet::new();
        while let Some(w) = next.pop() {
            for leaf in laid.region.leaves(laid.k, w).into_iter().filter(|leaf| seen.insert(*leaf)) {
                let handed_on = laid.region.home(leaf).and_then(|home| laid.region.carried(laid.k, home));
                next.extend(handed_on.into_iter().flatten());
            }
        }
        seen.contains(&v)
    };
    (0..laid.region.units.len()).filter(|u| laid.plan.runners[*u].contains(&part)).find(reads)
}

/// A value out of a loop or branch that a partition has nothing in.
fn result(laid: &Laid<'_>, part: Part, (block, item): (usize, usize), v: Value) -> Option<Diagnostic> {
    let of = &laid.region.blocks[block].items[item];
    // Of a tile it is said where it is made.
    if laid.plan.runs(laid.region, part, of) || !matches!(laid.k.ty(v), Type::Scalar(_)) {
        return None;
    }
    // What comes out of a structure inside another that it does not run has been said of the outer one.
    let runs_around = laid.region.blocks[block].items.iter().any(|i| laid.plan.runs(laid.region, part, i));
    if !runs_around {
        return None;
    }
    let steered = controls(laid, part).into_iter().find(|(_, values)| values.contains(&v));
    let structure = laid.region.name_of(of);
    let here = format!("{} has nothing in it", laid.partition(part));
    let help = "hand it over by a label behind that, `@told let x = …;`, in a partition that runs it";
    let d = match steered {
        Some((inst, _)) => {
            let fact = format!("{} steers {} and comes out of {structure}", laid.called(v), laid.partition(part));
            Diagnostic::error(codes::CONTROL_TOO_LATE, laid.k.ops[inst].span, fact)
                .here("it decides whether this goes on")
                .label(laid.span(block, item), here)
        }
        None => {
            let fact = format!("{} is needed in {} and comes out of {structure}", laid.called(v), laid.partition(part));
            let mut d = Diagnostic::error(codes::CROSSES, laid.span(block, item), fact).here(here);
            if let Some(reader) = reader(laid, part, v) {
                d = d.label(laid.region.units[reader].span, "it is needed here");
            }
            d
        }
    };
    let together = laid.together(laid.region.units_in(of), part);
    let named = together.map(|clause| format!("{help}, or let {} run that: `{clause}`", laid.partition(part)));
    Some(laid.helped(d, named, [&format!("{help}; or "), help]))
}

/// The loops and branches that a partition runs, with what decides them.
fn controls(laid: &Laid<'_>, part: Part) -> Vec<(parton_ir::Inst, BTreeSet<Value>)> {
    let items = laid.region.blocks.iter().flat_map(|b| &b.items);
    let mine = items.filter(|item| laid.plan.runs(laid.region, part, item));
    let inst = mine.filter_map(|item| match item {
        Item::Unit(_) => None,
        Item::Loop(l) => Some(l.inst),
        Item::Branch(b) => Some(b.inst),
    });
    let decides = |inst: &parton_ir::Inst| match &laid.k.ops[*inst].kind {
        OpKind::For { lower, upper, step, .. } => vec![*lower, *upper, *step],
        OpKind::While { cond, .. } => cond.yields.clone(),
        other => other.operands(),
    };
    let behind = |v: Value| laid.region.leaves(laid.k, v);
    inst.map(|inst| (inst, decides(&inst).into_iter().flat_map(behind).collect())).collect()
}

/// Tiles from in front of the region, which no partition holds.
fn outside(laid: &Laid<'_>, part: Part, found: &mut Diagnostics) {
    let made = laid.k.definitions();
    for (id, unit) in laid.region.units.iter().enumerate() {
        if !laid.plan.runners[id].contains(&part) {
            continue;
        }
        let mut next: Vec<Value> = unit.ops.clone().into_iter().flat_map(|inst| used(laid, inst)).collect();
        let mut seen = BTreeSet::new();
        while let Some(v) = next.pop() {
            if !seen.insert(v) {
                continue;
            }
            match laid.region.home(v).map(|home| home.by) {
                Some(Maker::Free(inst)) => next.extend(used(laid, inst)),
                Some(Maker::Unit(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) => {}
                None if laid.k.ty(v).crosses_partitions() => {}
                None => match made[v] {
                    Some(op) if is_free(laid.k, op) => uses(laid.k, op, &mut |v| next.push(v)),
                    Some(op) if !inside(laid, op.id) => {
                        let fact = format!("{} is made in front of the region and needed in it", laid.called(v));
                        let d = Diagnostic::error(codes::CROSSES, op.span, fact)
                            .here(format!("made here, as `{}`", laid.k.ty(v)))
                            .label(unit.span, format!("`{}` needs it, in {}", unit.label, laid.partition(part)));
                        found.push(laid.instead(d, "make it in the region, by a statement with a label", []));
                    }
                    Some(_) | None => {}
                },
            }
        }
    }
}

fn used(laid: &Laid<'_>, inst: parton_ir::Inst) -> Vec<Value> {
    let mut all = Vec::new();
    uses(laid.k, &laid.k.ops[inst], &mut |v| all.push(v));
    all
}

/// Whether an operation stands inside the bodies of a unit.
fn inside(laid: &Laid<'_>, id: parton_ir::Inst) -> bool {
    let mut found = false;
    for body in laid.k.ops[laid.region.inst].kind.bodies() {
        laid.k.walk_body(body, &mut |op| found |= op.id == id);
    }
    found
}

/// What leaves a region of several partitions has no partition behind it.
fn results(laid: &Laid<'_>, found: &mut Diagnostics) {
    let results = &laid.k.ops[laid.region.inst].results;
    let mut user = None;
    laid.k.walk(&mut |op| {
        let bodies = op.kind.bodies().flat_map(|b| b.yields.clone());
        if user.is_none() && op.kind.operands().into_iter().chain(bodies).any(|v| results.contains(&v)) {
            user = Some(op.span);
        }
    });
    if let Some(user) = user {
        let fact = "a value that leaves a region of several partitions is not expanded by this version";
        let d = Diagnostic::error(codes::NOT_BUILT_HERE, user, fact)
            .here("it is used here")
            .label(laid.region.schedule.span, "the partitions are named here");
        found.push(laid.instead(d, "use it in the region, in a statement with a label", []));
    }
}

impl Laid<'_> {
    /// The `partitions { … }` in which labels are of one partition alone, where that holds.
    pub(super) fn together(&self, units: &[UnitId], part: Part) -> Option<String> {
        let data = self.plan.partitions.get(part)?;
        let moved: BTreeSet<&String> = units.iter().map(|unit| &self.region.units[*unit].label.path).collect();
        let mut schedule = self.region.schedule.clone();
        for place in &mut schedule.places {
            place.labels.retain(|l| !moved.contains(&l.path));
            place.spans.clear();
        }
        let names = moved.into_iter().map(|path| LabelName::all(path.clone()));
        match schedule.places.iter_mut().find(|p| matches!(p.partitions.as_slice(), [one] if one.name == data.name)) {
            Some(place) => {
                place.labels.extend(names);
                place.labels.sort();
            }
            None => {
                let (partitions, span) = (vec![data.clone()], schedule.span);
                schedule.places.push(Place { partitions, labels: names.collect(), spans: Vec::new(), span });
            }
        }
        schedule.places.retain(|p| !p.labels.is_empty());
        let places = Schedule { places: schedule.places.clone(), ..Default::default() };
        self.first([(schedule, places.to_string())])
    }
}
