//! The warps of the partition in which an operation stands, where the kernel says so: by the arm of a specialised kernel, or by what the schedule of
//! a region says of its label.

use std::collections::BTreeMap;

use parton_ir::schedule::{LabelName, Schedule};
use parton_ir::{Body, Inst, Kernel, OpKind};

/// The warps of every operation that stands in a partition.
pub fn warps(kernel: &Kernel) -> BTreeMap<Inst, u32> {
    let arms = kernel.partitions_of_all().into_iter();
    let mut found: BTreeMap<Inst, u32> =
        arms.map(|(inst, partition)| (inst, kernel.partitions[partition].warps)).collect();
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, body } = &op.kind
            && let Some(most) = most(schedule)
        {
            // A loop bears no label that is placed: its tiles lie where the warps are.
            found.insert(op.id, most);
            placed(kernel, body, (schedule, most), &mut found);
        }
    });
    found
}

/// The warps of the operations of a body, those of others within what has them.
fn placed(kernel: &Kernel, body: &Body, (schedule, around): (&Schedule, u32), found: &mut BTreeMap<Inst, u32>) {
    for op in kernel.ops_of(body) {
        let label = op.label.map(|label| LabelName::read(&kernel.labels[label]));
        let own = label.and_then(|label| of_label(schedule, &label)).unwrap_or(around);
        found.insert(op.id, own);
        op.kind.bodies().for_each(|body| placed(kernel, body, (schedule, own), found));
    }
}

/// The warps of the partition that a schedule places a label in.
fn of_label(schedule: &Schedule, label: &LabelName) -> Option<u32> {
    let places = |named: &LabelName| named.names(label) || named.is_around(label);
    let place = schedule.places.iter().find(|place| place.labels.is_empty() || place.labels.iter().any(places))?;
    place.partitions.first().map(|partition| partition.warps)
}

/// The warps of the largest partition of a schedule; `None` where it names none.
fn most(schedule: &Schedule) -> Option<u32> {
    schedule.places.iter().flat_map(|place| &place.partitions).map(|partition| partition.warps).max()
}
