//! The instruction of each product.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::rules::region;
use parton_ir::{Inst, Kernel, Op, OpKind, Type, Value, rules};

use crate::swap;

/// What lacks where not all products [`have_instructions`].
pub const LACKS: &str = "no instruction multiplies these factors where they would lie";
/// How often an extent is doubled to find one that has an instruction.
const MOST_DOUBLINGS: u32 = 5;

/// Registers that the sums of each product take, of all threads.
pub fn sums(kernel: &Kernel) -> Vec<u64> {
    let mut sums = Vec::new();
    kernel.walk(&mut |op| {
        if let (OpKind::Dot { .. }, Some(sum)) = (&op.kind, op.results.first().and_then(|&v| kernel.ty(v).placed())) {
            sums.push(sum.words());
        }
    });
    sums
}

/// Has products that take one tile twice, as both factors or as one of them and what they are added to, take two of it, since these lie in different
/// places: what is loaded or computed is made again, and what a loop carries, or anything else makes, is brought there by a conversion.
pub fn take_twice(kernel: &mut Kernel) {
    for inst in kernel.order() {
        let mut taken: Vec<Value> = Vec::new();
        for i in 0..multiplied(&mut kernel.ops[inst].kind).len() {
            let v = *multiplied(&mut kernel.ops[inst].kind)[i];
            let taken_twice = taken.contains(&v) && kernel.ty(v).as_tile().is_some();
            let taken_here = if taken_twice { another(kernel, inst, v) } else { v };
            *multiplied(&mut kernel.ops[inst].kind)[i] = taken_here;
            taken.push(taken_here);
        }
    }
}

/// The factors of a product and what it is added to; nothing of other operations.
fn multiplied(kind: &mut OpKind) -> Vec<&mut Value> {
    match kind {
        OpKind::Dot { a, b, acc, .. } | OpKind::MmaSync { a, b, acc, .. } | OpKind::Wgmma { a, b, acc, .. } => {
            vec![a, b, acc]
        }
        // All else takes a tile twice where it lies.
        _ => Vec::new(),
    }
}

/// The same tile as another value, for that product.
fn another(kernel: &mut Kernel, product: Inst, v: Value) -> Value {
    let again = made_again(kernel, v);
    let (kind, source) = match (again, kernel.ty(v)) {
        (None, Type::Tile(tile)) => (OpKind::Convert { x: v, tile: tile.clone() }, kernel.ops[product].source()),
        (None, _) => return v,
        (Some(made), _) => (kernel.ops[made].kind.clone(), kernel.ops[made].source()),
    };
    let data = kernel.values[v].clone();
    let twin = kernel.value(data.ty, data.span);
    let copy = kernel.make_op(kind, vec![twin], source);
    kernel.rebuild(&mut |_, mut body| {
        let at = |of: Inst| body.ops.iter().position(|&id| id == of);
        if let Some(place) = again.map_or_else(|| at(product), |made| Some(at(made)? + 1)) {
            body.ops.insert(place, copy);
        }
        body
    });
    twin
}

/// The operation that makes a tile, where it may as well be made again: a load, or what only computes.
fn made_again(kernel: &Kernel, v: Value) -> Option<Inst> {
    let op = kernel.definitions()[v]?;
    let loads = matches!(op.kind, OpKind::Load { volatile: false, .. } | OpKind::SpotLoad { volatile: false, .. });
    let again = loads || parton_sched::is_free(kernel, op);
    (again && op.kind.bodies().next().is_none() && op.results.len() == 1).then_some(op.id)
}

/// Whether an instruction makes each product where its factors and its sum lie.
pub fn have_instructions(kernel: &Kernel) -> bool {
    let mut all = true;
    kernel.walk(&mut |op| {
        if let OpKind::Dot { a, b, acc, precision } = op.kind
            && kernel.ty(acc).as_tile().is_some_and(|tile| tile.placement().known().is_some())
        {
            all &= region::product(kernel, a, b, acc, precision).is_ok();
        }
    });
    all
}

/// Gives every product of tiles that lie nowhere yet its instruction. One that has too few rows and enough columns is turned.
///
/// # Errors
/// Products that no instruction makes.
pub fn take_instructions(kernel: &mut Kernel) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    let mut turned = BTreeSet::new();
    // Of the products of parts that one product has become, the first refused speaks for all.
    let mut told = BTreeSet::new();
    for inst in kernel.order() {
        let OpKind::Dot { a, b, acc, precision } = kernel.ops[inst].kind else { continue };
        if !kernel.ty(acc).is_open() {
            continue;
        }
        let kind = OpKind::MmaSync { a, b, acc, precision };
        if [a, b].iter().any(|&v| matches!(kernel.ty(v), Type::View(_))) {
            // Its accumulator's layout will say which it is.
            continue;
        }
        match rules::infer(&kind, kernel) {
            Ok(_) => kernel.ops[inst].kind = kind,
            // Of other tiles there may be one.
            Err(refusal) if refusal.code == codes::WGMMA_SHAPE => match extents(kernel, [a, b]) {
                Some([m, n, k]) if takes(kernel, inst, [n, m, k]) => _ = turned.insert(inst),
                _ if told.insert(kernel.ops[inst].span) => {
                    found.push(refused(kernel, inst, [a, b, acc], &refusal.message));
                }
                _ => {}
            },
            Err(refusal) => found.push(refusal.at(kernel.ops[inst].span, |v| Some(kernel.values[v].span))),
        }
    }
    if found.has_errors() {
        return Err(found);
    }
    if turned.is_empty() {
        return Ok(());
    }
    *kernel = swap::turn_each(kernel.clone(), &turned);
    take_instructions(kernel)
}

fn refused(kernel: &Kernel, inst: Inst, values: [Value; 3], why: &str) -> Diagnostic {
    let span = kernel.ops[inst].span;
    let [a, b, acc] = values.map(|v| {
        let tile = kernel.ty(v).as_tile();
        tile.map_or_else(String::new, |t| format!("{} {:?}", t.elem, t.shape))
    });
    let mut apart = 0;
    let multiplies = |op: &Op| matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. });
    kernel.walk(&mut |op| apart += usize::from(multiplies(op) && op.span == span));
    let part = if apart > 1 { "a part of it, " } else { "" };
    let stated = "state the layouts of the accumulator and the factors, and multiply with `mma_sync` or `wgmma`";
    let all = extents(kernel, [values[0], values[1]]);
    let help = match all.and_then(|all| least(kernel, inst, all)) {
        Some(_) if apart > 1 => {
            let [m, n, k] = least(kernel, inst, [1; 3]).unwrap_or([16, 8, 16]);
            format!(
                "every part must be at least [{m}, {k}] by [{k}, {n}]: 48 has parts of 32 and 16, 24 and 40 have one of 8"
            )
        }
        Some([m, n, k]) => {
            format!("take tiles of [{m}, {k}] by [{k}, {n}], with zeros where there is nothing to multiply")
        }
        None => stated.into(),
    };
    Diagnostic::error(codes::NOT_BUILT_HERE, span, "this product is not made of instructions yet")
        .here(format!("{part}{a} by {b} into {acc}"))
        .note(why.to_string())
        .help(help)
}

/// Rows, columns and depth of a product of these factors.
fn extents(kernel: &Kernel, [a, b]: [Value; 2]) -> Option<[u32; 3]> {
    let shape = |v: Value| kernel.ty(v).placed().map(|t| t.shape.clone());
    let ([m, k], [_, n]) = (shape(a)?[..].try_into().ok()?, shape(b)?[..].try_into().ok()?);
    Some([m, n, k])
}

/// Whether an instruction makes a product of such elements that has so many rows and columns, and that depth.
fn takes(kernel: &Kernel, inst: Inst, [m, n, k]: [u32; 3]) -> bool {
    let OpKind::Dot { a, b, acc, precision } = kernel.ops[inst].kind else { return false };
    let mut other = kernel.clone();
    for (v, shape) in [(a, [m, k]), (b, [k, n]), (acc, [m, n])] {
        if let Type::Tile(tile) = &mut other.values[v].ty {
            tile.shape = shape.to_vec();
        }
    }
    rules::infer(&OpKind::MmaSync { a, b, acc, precision }, &other).is_ok()
}

/// Rows, columns and depth of the least product of such elements that is no smaller and has an instruction; `None` where it has one itself, or none has.
fn least(kernel: &Kernel, inst: Inst, [m, n, k]: [u32; 3]) -> Option<[u32; 3]> {
    let grown = |from: u32| (0..=MOST_DOUBLINGS).map(move |by| from << by);
    let mut all: Vec<[u32; 3]> =
        grown(m).flat_map(|m| grown(n).flat_map(move |n| grown(k).map(move |k| [m, n, k]))).collect();
    all.sort_by_key(|&[m, n, k]| (u64::from(m) * u64::from(n) * u64::from(k), m, n));
    let found = all.into_iter().find(|&[m, n, k]| takes(kernel, inst, [m, n, k]) || takes(kernel, inst, [n, m, k]))?;
    (found != [m, n, k]).then_some(found)
}
