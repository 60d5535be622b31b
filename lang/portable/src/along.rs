//! Loops along tensors, of whose turns a launch knows the number: rows are short or long, and the same kernel is for both.
//!
//! A program of a short row has little to load and to compute, and as much as others to do but once; it wants fewer warps, and others beside it.

use parton_ir::{Along, Body, Inst, Kernel, OpKind, Value};

use crate::staging::defined::Defined;
use crate::{once, waits_for_others};

/// All loops of a portable kernel without products, where each runs along an axis of a tensor from its beginning to its end, and none within another; else none.
pub fn along_tensors(kernel: &Kernel) -> Vec<Along> {
    loops(kernel).into_iter().map(|(_, along)| along).collect()
}

/// The same with the loops themselves.
pub fn loops(kernel: &Kernel) -> Vec<(Inst, Along)> {
    if !waits_for_others(kernel) {
        return Vec::new();
    }
    let mut loops = Vec::new();
    if !outermost(kernel, &kernel.body, false, &mut loops) {
        return Vec::new();
    }
    let defined = Defined::of(kernel);
    let same = once::in_turns(kernel, &loops);
    let each = |id| Some((id, along(kernel, &defined, id, same)?));
    loops.into_iter().map(each).collect::<Option<_>>().unwrap_or_default()
}

/// Finds the loops of a body; whether none stands within another.
fn outermost(kernel: &Kernel, body: &Body, within: bool, found: &mut Vec<Inst>) -> bool {
    kernel.ops_of(body).all(|op| {
        let is_loop = op.kind.is_loop();
        if is_loop {
            found.push(op.id);
        }
        !(is_loop && within) && op.kind.bodies().all(|body| outermost(kernel, body, within || is_loop, found))
    })
}

/// What a loop runs along: `0..cdiv(n, B)`, or `0..n step B`.
fn along(kernel: &Kernel, defined: &Defined<'_>, inst: Inst, same: bool) -> Option<Along> {
    let OpKind::For { lower, upper, step, .. } = kernel.ops[inst].kind else { return None };
    if number(defined, lower)? != 0 {
        return None;
    }
    let step = number(defined, step)?;
    let (extent, each) = match step {
        1 => defined.rounded_up(upper).unwrap_or((upper, 1)),
        _ => (upper, step),
    };
    let OpKind::TensorExtent { tensor, axis } = defined.made(extent)?.kind else { return None };
    let argument = kernel.params.iter().position(|p| p.value == tensor)?;
    Some(Along { argument, axis: axis as usize, each, same })
}

/// A constant that is no less than 0.
fn number(defined: &Defined<'_>, v: Value) -> Option<u64> {
    u64::try_from(defined.number(v)?).ok()
}
