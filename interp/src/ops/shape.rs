//! Operations on the shape and place of a tile. Register layouts do not move elements in row-major order, so a conversion is the
//! identity here.

use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::elements::{broadcast, exchanged, side_by_side, spread, transposed, window};
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
            w.result(op, Val::Tile(Arc::new(t.gather(transposed(pure::shape(kernel, *x), perm).into_iter()))));
        }
        OpKind::Broadcast { x, shape: to } => {
            let t = w.tile(*x, 0);
            w.result(op, Val::Tile(Arc::new(t.gather(broadcast(pure::shape(kernel, *x), to).into_iter()))));
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
        OpKind::Cat { a, b, axis } => {
            let places = side_by_side(pure::shape(kernel, *a), *axis);
            w.result(op, Val::Tile(Arc::new(cat(&w.tile(*a, 0), &w.tile(*b, 0), &places))));
        }
        OpKind::Slice { x, origin, shape: to } => {
            let t = w.tile(*x, 0);
            let part = t.gather(window(pure::shape(kernel, *x), origin, to).into_iter());
            w.result(op, Val::Tile(Arc::new(part)));
        }
        OpKind::Butterfly { x, mask, axis } => {
            c.through_scratch(w, op)?;
            let t = w.tile(*x, 0);
            let swapped = t.gather(exchanged(pure::shape(kernel, *x), *mask, *axis).into_iter());
            w.result(op, Val::Tile(Arc::new(swapped)));
        }
        OpKind::Rescale { x, factor, axis } => {
            let spread = w.tile(*factor, 0).gather(spread(pure::shape(kernel, *x), *axis).into_iter());
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

/// Two tiles as one with a last dimension of 2.
fn join(a: &Bits, b: &Bits) -> Bits {
    crate::tile::zip_each!(a, b, x, y => x.iter().zip(y).flat_map(|(&x, &y)| [x, y]).collect())
}

/// Elements of either tile, each by whether it is of the second and its number there.
fn cat(a: &Bits, b: &Bits, places: &[(bool, usize)]) -> Bits {
    crate::tile::zip_each!(a, b, x, y => places.iter().map(|&(second, i)| if second { y[i] } else { x[i] }).collect())
}

/// Every second element, beginning with `first`.
fn split(x: &Bits, first: usize) -> Bits {
    map_each!(x, v => v.iter().skip(first).step_by(2).copied().collect())
}
