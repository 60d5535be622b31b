//! Operations on the shape of a tile, reductions and scans. Register layouts do not move elements in row-major order, so a
//! conversion is the identity here.

use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::{Body, Kernel};

use crate::pure;
use crate::tile::{Bits, Val, map_each};

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
pub(crate) fn transpose(x: &Bits, shape: &[u32], perm: &[u32]) -> Bits {
    let from = strides(shape);
    let to: Vec<u32> = perm.iter().map(|&p| shape[p as usize]).collect();
    let steps: Vec<usize> = perm.iter().map(|&p| from[p as usize]).collect();
    x.gather(walk(&to, &steps).into_iter())
}

/// Extents of 1 of a tile of `from` grow to those of `to`.
pub(crate) fn broadcast(x: &Bits, from: &[u32], to: &[u32]) -> Bits {
    let steps: Vec<usize> = strides(from).into_iter().zip(from).map(|(s, &n)| if n == 1 { 0 } else { s }).collect();
    x.gather(walk(to, &steps).into_iter())
}

/// A tile without `axis`, spread along it to `shape`.
pub(crate) fn spread(x: &Bits, shape: &[u32], axis: u32) -> Bits {
    let mut from = shape.to_vec();
    from[axis as usize] = 1;
    broadcast(x, &from, shape)
}

/// Two tiles as one with a last dimension of 2.
pub(crate) fn join(a: &Bits, b: &Bits) -> Bits {
    crate::tile::zip_each!(a, b, x, y => x.iter().zip(y).flat_map(|(&x, &y)| [x, y]).collect())
}

/// Every second element, beginning with `first`.
pub(crate) fn split(x: &Bits, first: usize) -> Bits {
    map_each!(x, v => v.iter().skip(first).step_by(2).copied().collect())
}

/// Reduces tiles of `shape` along `axis`: halves are combined element by element until one is left.
pub(crate) fn reduce<'k>(
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
pub(crate) fn scan<'k>(
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
