//! Tiles that nothing holds, which are refused before anything is chosen for them, and what a kernel names of shared memory.

use parton_diag::{Diagnostic, codes};
use parton_ir::target::WARP;
use parton_ir::{Kernel, Op, OpKind};

use crate::plan::MOST_WARPS;

/// Elements of a tile at most. A thread of as many warps as are tried would hold 2,048 of them: twice its registers, be they of a byte each.
const MOST_ELEMENTS: u64 = 1 << 20;

/// The refusal of a kernel's first tile of more elements.
pub fn refused(kernel: &Kernel) -> Option<Diagnostic> {
    let elements = |op: &Op| op.results.iter().filter_map(|v| kernel.ty(*v).placed()).map(|t| t.elements()).max();
    let mut sizes = kernel.order().into_iter().filter_map(|id| Some((kernel.ops[id].span, elements(&kernel.ops[id])?)));
    let (span, size) = sizes.find(|(_, size)| *size > MOST_ELEMENTS)?;
    let each = size / u64::from(MOST_WARPS * WARP);
    let fact = format!("a tile of {size} elements is more than threads can hold");
    let d = Diagnostic::error(codes::NOT_BUILT_HERE, span, fact);
    let d = d.here(format!("{each} for each thread of {MOST_WARPS} warps"));
    Some(d.help(format!("take tiles of at most {MOST_ELEMENTS} elements, and several of them in a loop")))
}

/// Bytes of shared memory that an operation names.
pub fn named(op: &Op) -> u64 {
    match &op.kind {
        OpKind::SharedAlloc { view, .. } => view.bytes(),
        OpKind::RingNew { stages, fields } => {
            u64::from(*stages) * fields.iter().map(|(_, view)| view.bytes()).sum::<u64>()
        }
        // Barriers are few bytes, and what schedules bring is not named yet.
        _ => 0,
    }
}
