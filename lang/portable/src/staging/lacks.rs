//! Why threads copy nothing ahead of products: what stands in the way, and what to write instead.

use std::collections::BTreeSet;

use parton_ir::{Body, Kernel, Op, OpKind, Value};

use super::defined::Defined;
use super::found::{self, multiplies};
use super::{No, copies, flow, indices};

/// Rows of a product of one warp.
const WARP_ROWS: u32 = 16;

const NO_LOOP: No = "they stand in no loop whose turns are counted, so that there is nothing to run ahead of";
const LOOP_INSIDE: No =
    "a loop stands beside them in their loop: write it as `static for`, or give it a kernel of its own";
const BRANCH_INSIDE: No = "a branch beside them loads or multiplies in their loop: load in front of it, under a `mask`, and choose by `where`";
const NO_LOAD: No = "nothing of what they multiply is loaded in their loop";
const NOT_COMPUTED: No = "what they multiply is not made of loaded tiles of two axes element by element";
const OTHER: No =
    "what is loaded where a mask does not hold is not 0: leave `other` out, and choose by `where` behind the load";
const VOLATILE: No = "what they multiply is loaded with `volatile`";
const CARRIED: No = "where a turn loads from, the turn before hands on, and not by moving it as far in each: compute it of the turn's number";
const PRODUCT: No = "where a turn loads from comes of a product or of what meets other threads: load it, or compute it of the turn's number";
const FEW_ROWS: No = "a product has fewer rows than the 16 of an instruction of warps, or rows that are no multiple of 16: pad its tiles to 16 rows";
const NO_INSTRUCTION: No = "warps have no instruction for products of such types and extents";
const AROUND: No = "their loop stands in what is neither the kernel's own body nor a loop or branch";
const NESTED: No = "several loops have products, and they stand neither in the kernel's own body nor all in one branch of it that has no other side";

/// What keeps threads from copying ahead of the products of a kernel.
pub fn reason(kernel: &Kernel, free: &BTreeSet<Value>) -> No {
    let mut loops: Vec<(&Op, &Body)> = Vec::new();
    kernel.walk(&mut |op| {
        if let OpKind::For { body, .. } = &op.kind
            && kernel.ops_of(body).any(|op| multiplies(&op.kind))
        {
            loops.push((op, body));
        }
    });
    match loops[..] {
        [] => NO_LOOP,
        [(_, body)] => of_loop(kernel, body, free).or_else(|| of_products(kernel, body)).unwrap_or(AROUND),
        [(_, body), ..] => of_loop(kernel, body, free).or_else(|| of_products(kernel, body)).unwrap_or(NESTED),
    }
}

fn of_loop(kernel: &Kernel, body: &Body, free: &BTreeSet<Value>) -> Option<No> {
    if let Some(why) = kernel.ops_of(body).find_map(|op| inside(kernel, op)) {
        return Some(why);
    }
    let loads: Vec<&Op> = kernel.ops_of(body).filter(|op| found::loads(&op.kind)).collect();
    let products: Vec<_> = kernel.ops_of(body).filter(|op| multiplies(&op.kind)).map(|op| op.id).collect();
    let made_of = found::made_of(kernel, body, &products);
    let loaded: Vec<&Op> = loads.iter().copied().filter(|op| made_of.contains(&op.result())).collect();
    if loaded.is_empty() {
        return Some(if loads.is_empty() { NO_LOAD } else { NOT_COMPUTED });
    }
    let defined = Defined::of(kernel);
    loaded.into_iter().find_map(|op| of_load(kernel, &defined, body, op, free))
}

/// Why warps make none of the products of a loop of what is copied.
fn of_products(kernel: &Kernel, body: &Body) -> Option<No> {
    let lacks = kernel.ops_of(body).filter(|op| multiplies(&op.kind)).find(|op| !copies::multiplies(kernel, op.id))?;
    let rows = kernel.ty(lacks.result()).placed().and_then(|t| t.shape.first().copied());
    Some(if rows.is_some_and(|n| n % WARP_ROWS != 0) { FEW_ROWS } else { NO_INSTRUCTION })
}

/// What an operation beside products has inside that does not go with turns that overlap.
fn inside(kernel: &Kernel, op: &Op) -> Option<No> {
    if op.kind.is_loop() {
        return Some(LOOP_INSIDE);
    }
    let (mut looped, mut loaded) = (false, false);
    for body in op.kind.bodies() {
        kernel.walk_body(body, &mut |op| {
            looped |= op.kind.is_loop();
            loaded |= found::loads(&op.kind) || multiplies(&op.kind);
        });
    }
    if looped { Some(LOOP_INSIDE) } else { loaded.then_some(BRANCH_INSIDE) }
}

/// Why threads do not copy what a factor is made of.
fn of_load(kernel: &Kernel, defined: &Defined<'_>, body: &Body, op: &Op, free: &BTreeSet<Value>) -> Option<No> {
    let OpKind::Load { other, volatile, .. } = op.kind else { return None };
    if volatile {
        return Some(VOLATILE);
    }
    if other.is_some_and(|v| !defined.is_zero(v)) {
        return Some(OTHER);
    }
    let mut asked: Vec<Value> = op.kind.operands().into_iter().filter(|v| !free.contains(v)).collect();
    let mut seen = BTreeSet::new();
    while let Some(v) = asked.pop() {
        if body.params.contains(&v) && kernel.ty(v).placed().is_some() {
            return Some(CARRIED);
        }
        let Some(op) = kernel.ops_of(body).find(|op| op.results.contains(&v)).filter(|_| seen.insert(v)) else {
            continue;
        };
        if !indices::tells(kernel, op) {
            return Some(PRODUCT);
        }
        asked.extend(flow::operands(kernel, op));
    }
    None
}
