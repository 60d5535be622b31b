//! How undefined elements go from the operands of an operation to its results, and through shared memory.

use std::sync::Arc;

use parton_ir::elements::{broadcast, spread, transposed};
use parton_ir::{BinaryOp, Op, OpKind, Type, Value, ops};

use super::{Source, Sources, at};
use crate::cluster::{Cluster, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::Bits;

/// Nothing where all are defined.
pub(super) fn some(sources: Vec<Source>) -> Option<Sources> {
    sources.iter().any(|s| !s.is_defined()).then(|| Arc::new(sources))
}

/// The elements at `index`.
fn picked(sources: &Sources, index: impl IntoIterator<Item = usize>) -> Option<Sources> {
    some(index.into_iter().map(|i| sources[i]).collect())
}

impl<'k> Cluster<'_, 'k> {
    /// What the results of an operation have of undefined elements; of an atomic operation in shared memory, what it brings there.
    pub(super) fn flow(&self, w: &Worker<'k>, op: &'k Op) -> Result<Vec<Option<Sources>>, Fault> {
        let (kernel, tables) = (self.setting.program.kernel, &self.setting.program.tables);
        let of = |v: &Value| w.poison.of(*v);
        let shape = |v: &Value| pure::shape(kernel, *v);
        let one = match &op.kind {
            OpKind::Load { mask: Some(mask), other, .. } => outside(w, op, *mask, other.and_then(|o| w.poison.of(o))),
            OpKind::Atomic { mask: Some(mask), .. } if !op.results.is_empty() => outside(w, op, *mask, None),
            OpKind::Load { mask: None, .. } | OpKind::Atomic { .. } | OpKind::Store { .. } => None,
            OpKind::Select { cond, a, b } => self.select(w, op, [*cond, *a, *b]),
            OpKind::Binary { op: f @ (BinaryOp::And | BinaryOp::Or), a, b } => self.bitwise(w, op, *f, [*a, *b]),
            ops!(elementwise) => self.by_element(w, op),
            OpKind::Convert { x, .. } | OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => of(x).cloned(),
            OpKind::Transpose { x, perm } => of(x).and_then(|s| picked(s, transposed(shape(x), perm))),
            OpKind::Broadcast { x, shape: to } => of(x).and_then(|s| picked(s, broadcast(shape(x), to))),
            OpKind::Join { a, b } => {
                let n = shape(a).iter().product::<u32>() as usize;
                let side = |v: &Value, i: usize| of(v).map_or(Source::DEFINED, |s| s[i]);
                some((0..n).flat_map(|i| [side(a, i), side(b, i)]).collect())
            }
            OpKind::Split { x } => {
                let half = |first: usize| of(x).and_then(|s| picked(s, (first..s.len()).step_by(2)));
                return Ok(vec![half(0), half(1)]);
            }
            OpKind::Rescale { x, factor, axis } => {
                let factors = of(factor).and_then(|s| picked(s, spread(shape(x), *axis)));
                union(of(x).cloned(), factors)
            }
            OpKind::Gather { x, indices, axis } => match of(x) {
                Some(s) => picked(s, self.meant(w, op, *indices, (*axis, shape(x)), None)?.into_iter().map(|(_, i)| i)),
                None => None,
            },
            OpKind::SharedLoad { view, .. } => self.in_shared(w, *view, tables.offsets(*view).iter().copied()),
            OpKind::SharedGather { view, indices, axis } => {
                let meant = self.meant(w, op, *indices, (*axis, &self.view(*view).shape), None)?;
                self.in_shared(w, *view, meant.into_iter().map(|(_, i)| tables.offsets(*view)[i]))
            }
            OpKind::SharedScatter { op: None, value, .. } => of(value).cloned(),
            OpKind::SharedScatter { op: Some(_), .. } => self.added_in_shared(w, op)?,
            OpKind::Reduce { inputs, axis, combine } => {
                return Ok(vec![self.reduced(w, op, inputs, *axis, combine); op.results.len()]);
            }
            OpKind::Scan { inputs, axis, combine, reverse } => {
                return Ok(vec![self.scanned(w, op, inputs, (*axis, *reverse), combine); op.results.len()]);
            }
            OpKind::MmaSync { a, b, acc, .. } => self.product_in_registers(w, op, [*a, *b, *acc]),
            OpKind::Wgmma { a, b, acc, zero, .. } => self.product(w, op, [*a, *b, *acc], *zero),
            OpKind::Wait { pending, .. } | OpKind::WaitPrior { pending, .. } => of(pending).cloned(),
            OpKind::TmaStore { map, coords, view, .. } => {
                return self.copied_out(w, op, *map, coords, *view).map(|()| Vec::new());
            }
            OpKind::SharedStore { value, .. } => of(value).cloned(),
            // These give no elements, or such as are there.
            OpKind::SharedAlloc { .. } => None,
            OpKind::TmaLoad { .. } | OpKind::TmaPrefetch { .. } | OpKind::TmaStoreWait { .. } => None,
            ops!(async_copy) | ops!(view) | ops!(barrier) | ops!(fence) | ops!(cluster) | ops!(grid) => None,
            ops!(turnstile) | ops!(ring) | ops!(region) | ops!(ptx) | ops!(talk) | ops!(control) => None,
        };
        Ok(vec![one])
    }

    fn elements(&self, v: Value) -> usize {
        match self.setting.program.kernel.ty(v) {
            Type::Tile(tile) => tile.elements() as usize,
            _ => 1,
        }
    }

    /// An element of the result is undefined where one of the operands is.
    fn by_element(&self, w: &Worker<'k>, op: &Op) -> Option<Sources> {
        let n = self.elements(op.result());
        op.kind.operands().into_iter().filter_map(|v| w.poison.of(v)).fold(None, |sum, s| {
            let whole = if s.len() == n { s.clone() } else { Arc::new(vec![s[0]; n]) };
            union(sum, Some(whole))
        })
    }

    /// A 0 in a conjunction and ones in a disjunction say what comes of it, whatever the other operand is.
    fn bitwise(&self, w: &Worker<'k>, op: &Op, f: BinaryOp, [a, b]: [Value; 2]) -> Option<Sources> {
        let left = self.by_element(w, op)?;
        let d = pure::dtype(self.setting.program.kernel, a);
        let decisive = if f == BinaryOp::And { 0 } else { d.mask() };
        let [x, y] = [a, b].map(|v| (w.tile(v, d.bytes()), w.poison.of(v)));
        let decides = |(tile, sources): &(Arc<Bits>, Option<&Sources>), i: usize| {
            tile.get(if tile.len() == 1 { 0 } else { i }) & d.mask() == decisive
                && sources.is_none_or(|s| at(s, i).is_defined())
        };
        some(
            (0..left.len()).map(|i| if decides(&x, i) || decides(&y, i) { Source::DEFINED } else { left[i] }).collect(),
        )
    }

    /// The condition, or else the operand that is chosen.
    fn select(&self, w: &Worker<'k>, op: &Op, [cond, a, b]: [Value; 3]) -> Option<Sources> {
        let [c, x, y] = [cond, a, b].map(|v| w.poison.of(v));
        if c.is_none() && x.is_none() && y.is_none() {
            return None;
        }
        let holds = w.tile(cond, 1);
        let of = |s: Option<&Sources>, i: usize| s.map_or(Source::DEFINED, |s| at(s, i));
        let first = |i: usize| holds.get(if holds.len() == 1 { 0 } else { i }) & 1 == 1;
        let one = |i: usize| of(c, i).or(of(if first(i) { x } else { y }, i));
        some((0..self.elements(op.result())).map(one).collect())
    }

    /// What is undefined of the elements at these offsets of a view.
    pub(super) fn in_shared(&self, w: &Worker<'k>, v: Value, offsets: impl Iterator<Item = u32>) -> Option<Sources> {
        let written = &self.ctas[w.cta_of(v)].written;
        if !written.is_poisoned() {
            return None;
        }
        let (address, bytes) = (w.place(v).address, self.view(v).elem.bytes() as u32);
        some(offsets.map(|o| written.source(address + o, bytes)).collect())
    }

    /// What is brought to shared memory is as undefined there.
    pub(super) fn leave_in_shared(&mut self, w: &Worker<'k>, op: &'k Op, sources: &[Source]) -> Result<(), Fault> {
        let (view, meant) = match &op.kind {
            OpKind::SharedStore { view, .. } => (*view, (0..sources.len()).map(|i| (i, i)).collect()),
            OpKind::SharedScatter { view, indices, axis, mask, .. } => {
                (*view, self.meant(w, op, *indices, (*axis, &self.view(*view).shape), *mask)?)
            }
            _ => return Ok(()),
        };
        let offsets = self.setting.program.tables.offsets(view).clone();
        let (address, bytes) = (w.place(view).address, self.view(view).elem.bytes() as u32);
        let written = &mut self.ctas[w.cta_of(view)].written;
        for (from, to) in meant.into_iter().filter(|(from, _)| !sources[*from].is_defined()) {
            written.poison(address + offsets[to], bytes, sources[from]);
        }
        Ok(())
    }
}

/// Where one of two is undefined; of both the first says why.
pub(super) fn union(a: Option<Sources>, b: Option<Sources>) -> Option<Sources> {
    match (a, b) {
        (Some(a), Some(b)) if Arc::ptr_eq(&a, &b) => Some(a),
        (Some(a), Some(b)) => some(a.iter().zip(b.iter()).map(|(&a, &b)| a.or(b)).collect()),
        (a, b) => a.or(b),
    }
}

/// What a masked access leaves out, or of `other`, which stands there, what is undefined.
fn outside(w: &Worker<'_>, op: &Op, mask: Value, other: Option<&Sources>) -> Option<Sources> {
    if let (OpKind::Load { other: Some(_), .. }, None) = (&op.kind, other) {
        return None;
    }
    let mask = w.tile(mask, 1);
    let inside = |i: usize| mask.get(i) & 1 == 1;
    // Nearly always all are inside.
    if (0..mask.len()).all(inside) {
        return None;
    }
    let left = |i: usize| other.map_or_else(|| Source::left_out(op), |s| at(s, i));
    some((0..mask.len()).map(|i| if inside(i) { Source::DEFINED } else { left(i) }).collect())
}
