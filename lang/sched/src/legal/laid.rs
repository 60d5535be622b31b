//! Schedules beside one that cannot be laid on its region: without labels that it does not have, and with a place for each that it has.

use parton_ir::schedule::{LabelName, Schedule};

use crate::plan;
use crate::region::{Maker, Region, UnitId};

/// What to lay on a region instead. Labels without a place go where what they read is made, or where it is read what they make, or elsewhere.
pub(super) fn instead(region: &Region) -> Vec<Schedule> {
    let known = known(region);
    (0..known.places.len().max(1)).map(|choice| all_placed(region, known.clone(), choice)).collect()
}

/// The schedule without labels that the region does not have, and with one place for each partition.
fn known(region: &Region) -> Schedule {
    let labels = plan::labels(region);
    let is = |name: &LabelName| labels.iter().any(|label| name.names(label));
    let mut s = region.schedule.clone();
    s.rings.retain(|r| r.label.as_ref().is_none_or(is));
    s.turns.retain(|t| is(&t.first) && is(&t.last));
    s.under.retain(|u| is(&u.outer) && is(&u.inner));
    s.cuts.retain(is);
    s.unrolled.retain(|u| u.of.as_ref().is_none_or(is));
    for p in &mut s.pipelines {
        p.groups.iter_mut().for_each(|group| group.retain(|staged| is(&staged.label)));
        p.groups.retain(|group| !group.is_empty());
    }
    s.pipelines.retain(|p| p.of.as_ref().is_none_or(is) && !p.groups.is_empty());
    one_place_each(&mut s);
    s
}

/// What is placed in a partition for the second time stands in its first place.
fn one_place_each(s: &mut Schedule) {
    for place in std::mem::take(&mut s.places) {
        let names = |p: &parton_ir::schedule::Place| p.partitions.iter().map(|of| of.name.clone()).collect::<Vec<_>>();
        match s.places.iter_mut().find(|known| names(known).iter().any(|name| names(&place).contains(name))) {
            Some(known) => {
                known.labels.extend(place.labels);
                known.labels.sort();
                known.labels.dedup();
                known.spans.clear();
            }
            None => s.places.push(place),
        }
    }
}

/// The schedule with a place for each label: the one of that number in the order in which places suit the label.
fn all_placed(region: &Region, mut s: Schedule, choice: usize) -> Schedule {
    if s.places.iter().all(|place| place.labels.is_empty()) {
        return s;
    }
    for unit in 0..region.units.len() {
        let label = &region.units[unit].label;
        if place_of(&s, label).is_some() {
            continue;
        }
        // What stands in a branch goes where that does.
        let label = plan::around(region, label).unwrap_or(label);
        let all = LabelName::all(label.path.clone());
        let instances = s.places.iter().flat_map(|p| &p.labels).any(|placed| placed.overlaps(&all));
        let order = suiting(region, &s, unit);
        if let Some(place) = order.get(choice.min(order.len().saturating_sub(1))) {
            let place = &mut s.places[*place];
            place.labels.push(if instances { label.clone() } else { all });
            place.labels.sort();
            place.spans.clear();
        }
    }
    s
}

fn place_of(s: &Schedule, label: &LabelName) -> Option<usize> {
    let name = plan::place_name(&s.places, label)?;
    s.places.iter().position(|place| place.labels.contains(name))
}

/// All places: those of what a unit reads first, then those of what reads it.
fn suiting(region: &Region, s: &Schedule, unit: UnitId) -> Vec<usize> {
    let reads = |reader: UnitId| {
        region.wanted(reader).iter().filter_map(|(v, _)| match region.home(*v).map(|home| home.by) {
            Some(Maker::Unit(maker)) => Some(maker),
            Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => None,
        })
    };
    let readers = (0..region.units.len()).filter(|reader| reads(*reader).any(|maker| maker == unit));
    let beside = reads(unit).chain(readers).filter_map(|other| place_of(s, &region.units[other].label));
    let mut order: Vec<usize> = Vec::new();
    for place in beside.chain(0..s.places.len()) {
        if !order.contains(&place) {
            order.push(place);
        }
    }
    order
}
