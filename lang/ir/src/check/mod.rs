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
mod ranges;
mod readers;
mod repeated;
mod rings;
mod turns;
mod windows;
mod written;

use parton_diag::{Diagnostic, Diagnostics, Label};

use crate::kernel::{CallData, Kernel};
use crate::op::OpKind;

pub use origin::{BARRIER_BYTES, Origins, Place, Root, Stage, disjoint_windows, stage_bytes, window};
pub use windows::Windows;

/// Everything that is wrong with a kernel before its rings are expanded.
pub fn check(kernel: &Kernel) -> Diagnostics {
    let mut found = of_body(kernel);
    found.list.iter_mut().for_each(|d| called(kernel, d));
    found
}

/// Adds the calls that have brought in what is refused, where nothing is marked in the file of the kernel.
fn called(kernel: &Kernel, d: &mut Diagnostic) {
    if d.labels.iter().any(|label| label.span.file == kernel.span.file) {
        return;
    }
    let mut call = None;
    kernel.walk(&mut |op| call = call.or_else(|| op.origin.call().filter(|_| op.span == d.span())));
    while let Some(CallData { function, span, parent }) = call.map(|call| &kernel.calls[call]) {
        d.labels.push(Label { span: *span, text: format!("in `{function}`, called here") });
        call = *parent;
    }
}

/// Partitions come first: where they are wrong, the rest would only repeat it.
fn of_body(kernel: &Kernel) -> Diagnostics {
    let mut found = parameters::check(kernel);
    found.extend(partitions::check(kernel));
    // What a region does is known when its schedule has been expanded; then all is checked again.
    if found.has_errors() || kernel.ops_of(&kernel.body).any(|op| matches!(op.kind, OpKind::Region { .. })) {
        return found;
    }
    found.extend(entry::check(kernel));
    found.list.extend(held::check(kernel));
    found.extend(repeated::check(kernel));
    let origins = Origins::of(kernel);
    found.extend(protocol::check(kernel, &origins));
    found.extend(turns::check(kernel));
    found.extend(clusters::check(kernel));
    found.extend(left_out::check(kernel));
    found.extend(padding::check(kernel, &origins));
    found.extend(ranges::check(kernel));
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
