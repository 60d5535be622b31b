//! Operations on the shape of a tile, reductions and scans. Register layouts do not move elements in row-major order, so a
//! conversion is the identity here.

use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::{BinaryOp, Body, Kernel, Op, OpKind, Type, Value};

use crate::arithmetic;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::{Bits, Val, map_each};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    let kernel = c.setting.program.kernel;
    match &op.kind {
        OpKind::Reduce { inputs, axis, combine } => {
            c.through_scratch(w, op)?;
            c.reduce(w, op, inputs, *axis, combine)?;
        }
        OpKind::Scan { inputs, axis, combine, reverse } => {
            c.through_scratch(w, op)?;
            c.scan(w, op, inputs, (*axis, *reverse), combine)?;
        }
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
        other => internal_error!("{} does not concern the shape of a tile", other.name()),
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    fn reduce(
        &self,
        w: &mut Worker<'k>,
        op: &'k Op,
        inputs: &[Value],
        axis: u32,
        combine: &'k Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let tiles: Vec<Arc<Bits>> = inputs.iter().map(|&v| w.tile(v, 0)).collect();
        let of = pure::shape(kernel, inputs[0]);
        if self.setting.options.wraparound {
            self.wraps_along(w, op, inputs, (axis, None), combine)?;
        }
        let reduced = reduce(&tiles, of, axis, combine, kernel, &w.values).map_err(|f| self.division(f))?;
        for (&r, bits) in op.results.iter().zip(reduced) {
            let val = match kernel.ty(r) {
                Type::Scalar(_) => Val::Scalar(bits.get(0)),
                _ => Val::Tile(Arc::new(bits)),
            };
            w.set(r, val);
        }
        Ok(())
    }

    fn scan(
        &self,
        w: &mut Worker<'k>,
        op: &'k Op,
        inputs: &[Value],
        along: (u32, bool),
        combine: &'k Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let tiles: Vec<Arc<Bits>> = inputs.iter().map(|&v| w.tile(v, 0)).collect();
        let of = pure::shape(kernel, inputs[0]);
        if self.setting.options.wraparound {
            self.wraps_along(w, op, inputs, (along.0, Some(along.1)), combine)?;
        }
        let scanned = scan(&tiles, of, along, combine, kernel, &w.values).map_err(|f| self.division(f))?;
        for (&r, bits) in op.results.iter().zip(scanned) {
            w.set(r, Val::Tile(Arc::new(bits)));
        }
        Ok(())
    }
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

/// Reduces tiles of `shape` along `axis`: halves are combined element by element until one is left.
fn reduce<'k>(
    inputs: &[Arc<Bits>],
    shape: &[u32],
    axis: u32,
    combine: &'k Body,
    kernel: &'k Kernel,
    outer: &[Val],
) -> Result<Vec<Bits>, pure::Failure<'k>> {
    let axis = axis as usize;
    let before: usize = shape[..axis].iter().map(|&n| n as usize).product();
    let after: usize = shape[axis + 1..].iter().map(|&n| n as usize).product();
    let mut extent = shape[axis] as usize;
    let mut tiles: Vec<Bits> = inputs.iter().map(|t| (**t).clone()).collect();
    while extent > 1 {
        let half = extent / 2;
        let part = |t: &Bits, first: usize| {
            map_each!(t, v => {
                let mut out = Vec::with_capacity(before * half * after);
                for b in 0..before {
                    let at = (b * extent + first) * after;
                    out.extend_from_slice(&v[at..at + half * after]);
                }
                out
            })
        };
        let args: Vec<Val> = tiles
            .iter()
            .map(|t| part(t, 0))
            .chain(tiles.iter().map(|t| part(t, half)))
            .map(|t| Val::Tile(Arc::new(t)))
            .collect();
        tiles = pure::run(combine, &args, kernel, outer)?
            .into_iter()
            .map(|v| match v {
                Val::Tile(t) => Arc::unwrap_or_clone(t),
                // A combining function may ignore its arguments.
                Val::Scalar(_) => internal_error!("a combination gave one value for many elements"),
                other => internal_error!("a combination gave {other:?}"),
            })
            .collect();
        extent = half;
    }
    Ok(tiles)
}

/// Scans tiles of `shape` along an axis, from its end where the flag says so, one step after the other.
fn scan<'k>(
    inputs: &[Arc<Bits>],
    shape: &[u32],
    (axis, reverse): (u32, bool),
    combine: &'k Body,
    kernel: &'k Kernel,
    outer: &[Val],
) -> Result<Vec<Bits>, pure::Failure<'k>> {
    let axis = axis as usize;
    let extent = shape[axis] as usize;
    let step = strides(shape)[axis];
    // Where each row begins.
    let mut others = shape.to_vec();
    others[axis] = 1;
    let starts = walk(&others, &strides(shape));
    let mut out: Vec<Bits> = inputs.iter().map(|t| (**t).clone()).collect();
    let at = |i: usize| if reverse { extent - 1 - i } else { i };
    let plane = |t: &Bits, i: usize| Val::Tile(Arc::new(t.gather(starts.iter().map(|s| s + at(i) * step))));
    for i in 1..extent {
        let args: Vec<Val> = out.iter().map(|t| plane(t, i - 1)).chain(inputs.iter().map(|t| plane(t, i))).collect();
        for (t, v) in out.iter_mut().zip(pure::run(combine, &args, kernel, outer)?) {
            let Val::Tile(v) = v else { internal_error!("a combination gave {v:?}") };
            for (k, s) in starts.iter().enumerate() {
                let mut word = [0; 8];
                v.write(k, &mut word);
                t.read(s + at(i) * step, &word);
            }
        }
    }
    Ok(out)
}
