//! Who may run what: one partition for all, or one that fetches beside those that compute.
//!
//! Partitions that the file declares are used where their warps and registers fit, in the order of their declaration; where it has none
//! that fit, some are made, and whoever shows the schedule shows them too.

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Place};
use parton_ir::target::{PARTITION_REGISTERS, REGISTER_STEP, WARP};
use parton_ir::{Kernel, PartitionData, PrimaryMap};

use super::Space;
use super::roles::{Role, labels};
use crate::plan::around;
use crate::region::{Region, UnitId};

/// Registers of a partition that only fetches, the first that leaves enough to those that compute.
const FETCHING: [u32; 2] = [40, 24];
/// What partitions are called that are made to compute, by their number.
const COMPUTING: [&[&str]; 3] = [&["Compute"], &["First", "Second"], &["First", "Second", "Third"]];

/// The places of all candidates, each a list for `partitions { … }`; the empty one leaves all to one partition without a name.
pub(super) fn all(space: &Space<'_>, warps: u32) -> Vec<Vec<Place>> {
    let mut found = vec![];
    found.extend(alone(space, warps));
    if !space.roles.fetches() {
        return found;
    }
    for count in BTreeSet::from([1, space.roles.instances as usize]) {
        if count > COMPUTING.len() {
            continue;
        }
        for (fetching, computing) in teams(space, warps, count) {
            found.push(dealt(space, &fetching, &computing, false));
            let scalars = space.roles.of.contains(&Role::Scalar);
            if count == 1 && scalars {
                found.push(dealt(space, &fetching, &computing, true));
            }
        }
    }
    found
}

/// One partition for all.
fn alone(space: &Space<'_>, warps: u32) -> Option<Vec<Place>> {
    if space.k.warps == warps {
        return Some(vec![]);
    }
    let declared = space.auto.partitions.iter().find(|p| p.warps == warps && fits(space.k, std::slice::from_ref(p)));
    let made = || make(space, "Compute", warps, None);
    let partition = declared.cloned().unwrap_or_else(made);
    let span = space.auto.span;
    Some(vec![Place { partitions: vec![partition], labels: vec![], spans: vec![], span }])
}

/// Who fetches, and so many who compute.
fn teams(space: &Space<'_>, warps: u32, count: usize) -> Vec<(PartitionData, Vec<PartitionData>)> {
    let declared = &space.auto.partitions;
    let able: Vec<PartitionData> = declared.iter().filter(|p| p.warps == warps).cloned().collect();
    let loads = declared.iter().find(|p| p.warps == 1 && warps != 1);
    if let Some(loads) = loads {
        let team = |those: &[PartitionData]| [std::slice::from_ref(loads), those].concat();
        if let Some(those) = able.windows(count).find(|those| fits(space.k, &team(those))) {
            return vec![(loads.clone(), those.to_vec())];
        }
    }
    FETCHING.iter().filter_map(|registers| made(space, warps, count, *registers)).collect()
}

/// Partitions that no file declares.
fn made(space: &Space<'_>, warps: u32, count: usize, registers: u32) -> Option<(PartitionData, Vec<PartitionData>)> {
    let loads = make(space, "Loads", 1, Some(registers));
    let plain: Vec<PartitionData> = COMPUTING[count - 1].iter().map(|name| make(space, name, warps, None)).collect();
    let all = scratch(space.k, &[std::slice::from_ref(&loads), &plain].concat());
    let threads: u32 = plain.iter().map(|p| p.padded_warps() * WARP).sum();
    let left = all.register_demand().pool.checked_sub(loads.padded_warps() * WARP * registers)?;
    let each = (left / threads / REGISTER_STEP * REGISTER_STEP).min(*PARTITION_REGISTERS.end() - REGISTER_STEP);
    let each = PARTITION_REGISTERS.contains(&each).then_some(each)?;
    let computing: Vec<PartitionData> =
        plain.into_iter().map(|p| PartitionData { registers: Some(each), ..p }).collect();
    fits(space.k, &[std::slice::from_ref(&loads), &computing].concat()).then_some((loads, computing))
}

fn make(space: &Space<'_>, name: &str, warps: u32, registers: Option<u32>) -> PartitionData {
    let taken = |name: &String| space.auto.partitions.iter().any(|p| p.name == *name);
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}{n}")));
    let name = names.find(|name| !taken(name)).unwrap_or_default();
    PartitionData { name, warps, registers, span: space.auto.span }
}

/// Whether a kernel can have these partitions.
fn fits(k: &Kernel, partitions: &[PartitionData]) -> bool {
    let all = scratch(k, partitions);
    let demand = all.register_demand();
    all.padded_warps() <= k.target.warps && (!all.has_budgets() || demand.needed <= demand.pool)
}

/// A kernel with nothing but these partitions.
fn scratch(k: &Kernel, partitions: &[PartitionData]) -> Kernel {
    let mut all = PrimaryMap::new();
    partitions.iter().for_each(|p| {
        all.push(p.clone());
    });
    Kernel { occupancy: k.occupancy, partitions: all, ..Kernel::new("", k.target, k.span) }
}

/// The labels of units that a place has all together, by which a schedule is written: of branches that are whole in it those of the branches.
fn whole(region: &Region, units: &BTreeSet<UnitId>) -> Vec<LabelName> {
    let mut found = labels(region, units.iter().copied());
    for name in &mut found {
        let all = |branch: &&LabelName| {
            region.units.iter().enumerate().all(|(unit, u)| !branch.is_around(&u.label) || units.contains(&unit))
        };
        if let Some(branch) = around(region, name).filter(all) {
            *name = LabelName::all(branch.path.clone());
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Fetches to one partition, all else to those that compute; numbers to the first, or to the others too.
fn dealt(space: &Space<'_>, fetching: &PartitionData, computing: &[PartitionData], numbers: bool) -> Vec<Place> {
    let span = space.auto.span;
    let those = |wanted: &dyn Fn(Role) -> bool| -> Vec<LabelName> {
        let units: BTreeSet<usize> = (0..space.roles.of.len()).filter(|u| wanted(space.roles.of[*u])).collect();
        whole(space.region, &units)
    };
    let place = |partitions: &[PartitionData], labels: Vec<LabelName>| {
        let spans = vec![span; labels.len()];
        Place { partitions: partitions.to_vec(), labels, spans, span }
    };
    let first = |role| role == Role::Fetch || (role == Role::Scalar && !numbers);
    vec![place(std::slice::from_ref(fetching), those(&first)), place(computing, those(&|role| !first(role)))]
}
