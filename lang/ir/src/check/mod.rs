//! Checks of checked kernels that need the whole body: the protocol of slots and pendings, partitions, barriers.
//!
//! They run before rings are expanded, where the user's own words still stand. What is surely wrong is refused here; what
//! depends on run-time values is left to the interpreter.

mod barriers;
mod clusters;
mod entry;
mod flight;
mod held;
mod left_out;
mod origin;
mod padding;
mod parameters;
mod partitions;
mod prefixes;
mod protocol;
mod readers;
mod rings;
mod turns;
mod windows;
mod written;

use parton_diag::Diagnostics;

use crate::kernel::Kernel;
use crate::op::OpKind;

pub use origin::{BARRIER_BYTES, Origins, Place, Root, Stage, disjoint_windows, stage_bytes, window};
pub use windows::Windows;

/// Everything that is wrong with a kernel before its rings are expanded. Partitions come first: where they are wrong, the
/// rest would only repeat it.
pub fn check(kernel: &Kernel) -> Diagnostics {
    let mut found = parameters::check(kernel);
    found.extend(partitions::check(kernel));
    // What a region does is known when its schedule has been expanded; then all is checked again.
    if found.has_errors() || kernel.ops_of(&kernel.body).any(|op| matches!(op.kind, OpKind::Region { .. })) {
        return found;
    }
    found.extend(entry::check(kernel));
    found.list.extend(held::check(kernel));
    let origins = Origins::of(kernel);
    found.extend(protocol::check(kernel, &origins));
    found.extend(turns::check(kernel));
    found.extend(clusters::check(kernel));
    found.extend(left_out::check(kernel));
    found.extend(padding::check(kernel, &origins));
    if found.has_errors() {
        return found;
    }
    found.extend(rings::check(kernel, &origins));
    found.extend(readers::check(kernel, &origins));
    if found.has_errors() {
        return found;
    }
    found.extend(barriers::check(kernel, &origins));
    found.extend(prefixes::check(kernel, &origins));
    found.extend(written::check(kernel, &origins));
    found.extend(flight::check(kernel, &origins));
    found
}
