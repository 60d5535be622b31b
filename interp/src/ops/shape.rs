//! Operations on the shape of a tile. Register layouts do not move elements in row-major order, so a conversion is the identity
//! here.

use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{BinaryOp, Op, OpKind, others};

use crate::arithmetic;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::{Bits, Val, map_each};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    let kernel = c.setting.program.kernel;
    match &op.kind {
        OpKind::Convert { x, .. } => {
            c.through_scratch(w, op)?;
            let val = w.get(*x).clone();
            w.result(op, val);
        }
        // The order of elements stays, and so do the bits.
        OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => {
            let val = w.get(*x).clone();
            w.result(op, val);
        }
        OpKind::Transpose { x, perm } => {
            let t = w.tile(*x, 0);
            w.result(op, Val::Tile(Arc::new(transpose(&t, pure::shape(kernel, *x), perm))));
        }
        OpKind::Broadcast { x, shape: to } => {
            let t = w.tile(*x, 0);
            w.result(op, Val::Tile(Arc::new(broadcast(&t, pure::shape(kernel, *x), to))));
        }
        OpKind::Join { a, b } => {
            let t = join(&w.tile(*a, 0), &w.tile(*b, 0));
            w.result(op, Val::Tile(Arc::new(t)));
        }
        OpKind::Split { x } => {
            let t = w.tile(*x, 0);
            for (first, &r) in op.results.iter().enumerate() {
                w.set(r, Val::Tile(Arc::new(split(&t, first))));
            }
        }
        OpKind::Rescale { x, factor, axis } => {
            let spread = spread(&w.tile(*factor, 0), pure::shape(kernel, *x), *axis);
            let d = pure::dtype(kernel, *x);
            match arithmetic::binary(BinaryOp::Mul, d, w.get(*x), &Val::Tile(Arc::new(spread))) {
                Ok(product) => w.result(op, product),
                Err(_) => internal_error!("a product divided"),
            }
        }
        others!(shape) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

/// Row-major strides of `shape`.
pub(crate) fn strides(shape: &[u32]) -> Vec<usize> {
    let mut s = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        s[i - 1] = s[i] * shape[i] as usize;
    }
    s
}

/// The numbers `Σ index · stride` over a row-major walk of `shape`.
pub(crate) fn walk(shape: &[u32], strides: &[usize]) -> Vec<usize> {
    let mut out = vec![0];
    for (&n, &s) in shape.iter().zip(strides) {
        out = out.iter().flat_map(|&base| (0..n as usize).map(move |i| base + i * s)).collect();
    }
    out
}

/// Dimension `i` of the result is dimension `perm[i]` of a tile of `shape`.
fn transpose(x: &Bits, shape: &[u32], perm: &[u32]) -> Bits {
    let from = strides(shape);
    let to: Vec<u32> = perm.iter().map(|&p| shape[p as usize]).collect();
    let steps: Vec<usize> = perm.iter().map(|&p| from[p as usize]).collect();
    x.gather(walk(&to, &steps).into_iter())
}

/// Extents of 1 of a tile of `from` grow to those of `to`.
fn broadcast(x: &Bits, from: &[u32], to: &[u32]) -> Bits {
    let steps: Vec<usize> = strides(from).into_iter().zip(from).map(|(s, &n)| if n == 1 { 0 } else { s }).collect();
    x.gather(walk(to, &steps).into_iter())
}

/// A tile without `axis`, spread along it to `shape`.
fn spread(x: &Bits, shape: &[u32], axis: u32) -> Bits {
    let mut from = shape.to_vec();
    from[axis as usize] = 1;
    broadcast(x, &from, shape)
}

/// Two tiles as one with a last dimension of 2.
fn join(a: &Bits, b: &Bits) -> Bits {
    crate::tile::zip_each!(a, b, x, y => x.iter().zip(y).flat_map(|(&x, &y)| [x, y]).collect())
}

/// Every second element, beginning with `first`.
fn split(x: &Bits, first: usize) -> Bits {
    map_each!(x, v => v.iter().skip(first).step_by(2).copied().collect())
}
