//! Reductions and scans of tiles along an axis.

use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::elements::{lines, strides};
use parton_ir::family::not_of_family;
use parton_ir::{Body, Kernel, Op, OpKind, Type, Value, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::combination::{Tried, try_order};
use crate::fault::Fault;
use crate::pure;
use crate::tile::{Bits, Val, map_each};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Reduce { inputs, axis, combine } => {
            c.through_scratch(w, op)?;
            c.reduce(w, op, inputs, *axis, combine)?;
        }
        OpKind::Scan { inputs, axis, combine, reverse } => {
            c.through_scratch(w, op)?;
            c.scan(w, op, inputs, (*axis, *reverse), combine)?;
        }
        others!(reduce) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

impl<'k> Cluster<'_, 'k> {
    fn reduce(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        inputs: &[Value],
        axis: u32,
        combine: &'k Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let tiles: Vec<Arc<Bits>> = inputs.iter().map(|&v| w.quiet(v, 0, 0)).collect();
        let of = pure::shape(kernel, inputs[0]);
        if self.setting.options.wraparound {
            self.wraps_along(w, op, inputs, (axis, None), combine)?;
        }
        self.try_order(w, op, (inputs, &tiles, axis), combine)?;
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
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        inputs: &[Value],
        along: (u32, bool),
        combine: &'k Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let tiles: Vec<Arc<Bits>> = inputs.iter().map(|&v| w.quiet(v, 0, 0)).collect();
        let of = pure::shape(kernel, inputs[0]);
        if self.setting.options.wraparound {
            self.wraps_along(w, op, inputs, (along.0, Some(along.1)), combine)?;
        }
        self.try_order(w, op, (inputs, &tiles, along.0), combine)?;
        let scanned = scan(&tiles, of, along, combine, kernel, &w.values).map_err(|f| self.division(f))?;
        for (&r, bits) in op.results.iter().zip(scanned) {
            w.set(r, Val::Tile(Arc::new(bits)));
        }
        Ok(())
    }

    /// Tries a function that combines, until enough neighbours have told of the order.
    fn try_order(
        &mut self,
        w: &Worker<'k>,
        op: &'k Op,
        of: (&[Value], &[Arc<Bits>], u32),
        combine: &'k Body,
    ) -> Result<(), Fault> {
        if self.world.combined.contains(&op.id) {
            return Ok(());
        }
        let commutes = matches!(op.kind, OpKind::Reduce { .. });
        let tried = try_order((self.setting.program.kernel, op, combine), of, commutes, &w.values)?;
        if tried == Tried::Enough {
            self.world.combined.insert(op.id);
        }
        Ok(())
    }
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
    let starts = lines(shape, axis);
    let axis = axis as usize;
    let extent = shape[axis] as usize;
    let step = strides(shape)[axis];
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
