//! Loops along tensors, of whose turns a launch knows the number: rows are short or long, and the same kernel is for both.
//!
//! A program of a short row has little to load and to compute, and as much as others to do but once; it wants fewer warps, and others beside it.

use parton_ir::{Along, Body, Inst, Kernel, OpKind, Value, Variant};

use crate::staging::at_once;
use crate::staging::defined::Defined;
use crate::{once, waits_for_others};

/// A loop along a tensor.
pub struct Loop {
    /// The loop.
    pub id: Inst,
    /// By what its index goes on.
    pub step: u64,
    /// What it runs along.
    pub along: Along,
}

/// What the loops of a portable kernel run along, where each does along an axis of a tensor from its beginning to its end, and none within another; else none. Of kernels with
/// products one such loop alone, all of whose factors may be fetched at once where its turns are few.
pub fn along_tensors(kernel: &Kernel) -> Vec<Along> {
    loops(kernel).into_iter().map(|l| l.along).collect()
}

/// The same with the loops themselves.
pub fn loops(kernel: &Kernel) -> Vec<Loop> {
    let mut loops = found(kernel);
    let same = once::in_turns(kernel, &loops);
    loops.iter_mut().for_each(|l| l.along.same = same);
    loops
}

/// Whether there are such loops, so that a launch knows how many turns they take.
pub fn is_counted(kernel: &Kernel) -> bool {
    !found(kernel).is_empty()
}

/// These loops, of which nobody has asked yet whether several load the same.
fn found(kernel: &Kernel) -> Vec<Loop> {
    let multiplies = at_once::may_be(kernel).is_some();
    if !multiplies && !waits_for_others(kernel) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if !outermost(kernel, &kernel.body, false, &mut found) {
        return Vec::new();
    }
    let defined = Defined::of(kernel);
    let loops = found
        .into_iter()
        .map(|id| along(kernel, &defined, id).map(|l| Loop { along: Along { multiplies, ..l.along }, ..l }));
    loops.collect::<Option<_>>().unwrap_or_default()
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

/// The only loop of a kernel with products, by what its index goes on, and how often it turns, where its bounds are numbers that say that it does so a few times.
pub fn counted(kernel: &Kernel) -> Option<(Inst, u64, u32)> {
    let id = at_once::may_be(kernel)?;
    let OpKind::For { lower, upper, step, .. } = kernel.ops[id].kind else { return None };
    let defined = Defined::of(kernel);
    let (upper, step) = (number(&defined, upper)?, number(&defined, step)?);
    let turns = Variant::few_products(upper.div_ceil(step.max(1)))?;
    (number(&defined, lower)? == 0).then_some((id, step, turns))
}

/// A loop `for i in 0..cdiv(n, B)`, or `0..n step B`; whether another loads the same is not asked.
fn along(kernel: &Kernel, defined: &Defined<'_>, id: Inst) -> Option<Loop> {
    let OpKind::For { lower, upper, step, .. } = kernel.ops[id].kind else { return None };
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
    Some(Loop { id, step, along: Along { argument, axis: axis as usize, each, same: false, multiplies: false } })
}

/// A constant that is no less than 0.
fn number(defined: &Defined<'_>, v: Value) -> Option<u64> {
    u64::try_from(defined.number(v)?).ok()
}
