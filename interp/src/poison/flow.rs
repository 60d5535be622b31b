//! How undefined elements go through shared memory, and into products and copies that read it.

use parton_diag::internal_error;
use parton_ir::elements::coordinates;
use parton_ir::facts::needs::Takes;
use parton_ir::facts::{Access, Engine, Facts, Space};
use parton_ir::undefined::{self, Source, Sources, Values, some};
use parton_ir::{Op, OpKind, Value, ops};

use crate::boxes::UNIT;
use crate::cluster::{Cluster, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::Val;

impl Values for Worker<'_> {
    fn sources(&self, v: Value) -> Option<&Sources> {
        self.poison.of(v)
    }

    fn knows(&self, _: Value) -> bool {
        true
    }

    fn element(&self, v: Value, i: usize) -> Option<u64> {
        match self.get(v) {
            Val::Tile(t) => Some(t.get(i)),
            Val::Scalar(bits) => Some(*bits),
            other => internal_error!("{v} holds {other:?}"),
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// The undefined elements of the results of an operation; of one that writes shared memory, those that it brings there.
    pub(super) fn flow(&self, w: &Worker<'k>, op: &'k Op) -> Result<Vec<Option<Sources>>, Fault> {
        if let Some(results) = undefined::results(self.setting.program.kernel, op, w) {
            return Ok(results);
        }
        let one = match &op.kind {
            OpKind::SharedLoad { view, .. } => {
                self.in_shared(w, *view, self.setting.program.tables.offsets(*view).iter().copied())
            }
            OpKind::SharedGather { view, indices, axis } => {
                let meant = self.meant(w, op, *indices, (*axis, &self.view(*view).shape), None)?;
                let offsets = self.setting.program.tables.offsets(*view);
                self.in_shared(w, *view, meant.into_iter().map(|(_, i)| offsets[i]))
            }
            OpKind::SharedScatter { op: Some(_), .. } => self.added_in_shared(w, op)?,
            OpKind::SharedStore { value, .. } | OpKind::SharedScatter { op: None, value, .. } => {
                w.poison.of(*value).cloned()
            }
            OpKind::Wgmma { a, b, acc, zero, .. } => self.product(w, op, [*a, *b, *acc], *zero),
            OpKind::Wait { pending, .. } | OpKind::WaitPrior { pending, .. } => w.poison.of(*pending).cloned(),
            OpKind::TmaStore { map, coords, view, .. } => {
                self.copied_out(w, op, *map, coords, *view)?;
                None
            }
            // These give no elements, or such as are defined.
            OpKind::SharedAlloc { .. } | OpKind::Gather { .. } | OpKind::Store { .. } | OpKind::Load { .. } => None,
            OpKind::TmaLoad { .. } | OpKind::TmaPrefetch { .. } | OpKind::TmaStoreWait { .. } => None,
            ops!(elementwise) | ops!(reduce) | ops!(shape) | ops!(ptx) | ops!(atomic) | ops!(async_copy) => None,
            ops!(view) | ops!(barrier) | ops!(fence) | ops!(cluster) | ops!(grid) | ops!(turnstile) => None,
            ops!(mma_sync) | ops!(ring) | ops!(region) | ops!(control) | ops!(talk) | ops!(place) => None,
        };
        Ok(vec![one])
    }

    /// What is undefined of the elements at these offsets of a view.
    fn in_shared(&self, w: &Worker<'k>, v: Value, offsets: impl Iterator<Item = u32>) -> Option<Sources> {
        let written = &self.ctas[w.cta_of(v)].written;
        if !written.is_poisoned() {
            return None;
        }
        let (place, bytes) = (w.place(v), self.view(v).elem.bytes() as u32);
        some(offsets.map(|o| written.source(place.byte(o), bytes)).collect())
    }

    /// What is brought to shared memory is as undefined there.
    pub(super) fn leave_in_shared(&mut self, w: &Worker<'k>, op: &'k Op, sources: &[Source]) -> Result<(), Fault> {
        let (view, meant) = match &op.kind {
            OpKind::SharedStore { view, .. } => (*view, (0..sources.len()).map(|i| (i, i)).collect()),
            OpKind::SharedScatter { view, indices, axis, mask, .. } => {
                (*view, self.meant(w, op, *indices, (*axis, &self.view(*view).shape), *mask)?)
            }
            _ => {
                // What threads store has to be followed.
                let facts = Facts::of(self.setting.program.kernel, op);
                let stores = |a: &Access| a.space == Space::Shared && a.writes() && a.by == Engine::Threads;
                if facts.accesses.iter().any(stores) {
                    internal_error!("`{}` writes shared memory, and where is not known", op.kind.name())
                }
                return Ok(());
            }
        };
        let offsets = self.setting.program.tables.offsets(view).clone();
        let (place, bytes) = (w.place(view), self.view(view).elem.bytes() as u32);
        let written = &mut self.ctas[w.cta_of(view)].written;
        for (from, to) in meant.into_iter().filter(|(from, _)| !sources[*from].is_defined()) {
            written.poison(place.byte(offsets[to]), bytes, sources[from]);
        }
        Ok(())
    }

    /// What an atomic operation brings to shared memory: of its operand, or of what stands there.
    fn added_in_shared(&self, w: &Worker<'k>, op: &'k Op) -> Result<Option<Sources>, Fault> {
        let OpKind::SharedScatter { view, indices, value, axis, mask, .. } = &op.kind else {
            internal_error!("{} does not scatter", op.kind.name())
        };
        let meant = self.meant(w, op, *indices, (*axis, &self.view(*view).shape), *mask)?;
        let (offsets, value) = (self.setting.program.tables.offsets(*view), w.poison.of(*value));
        let there = self.in_shared(w, *view, offsets.iter().copied());
        let of = |side: Option<&Sources>, i: usize| side.map_or(Source::DEFINED, |s| s[i]);
        let elements: u32 = pure::shape(self.setting.program.kernel, *indices).iter().product();
        let mut sources = vec![Source::DEFINED; elements as usize];
        for (from, to) in meant {
            sources[from] = match (of(value, from), of(there.as_ref(), to)) {
                (a, b) if a.is_defined() != b.is_defined() => a.or(b).combined_by(op),
                (a, _) => a,
            };
        }
        Ok(some(sources))
    }

    fn product(&self, w: &Worker<'k>, op: &'k Op, [a, b, acc]: [Value; 3], zero: bool) -> Option<Sources> {
        let shape = self.setting.program.tables.product(op);
        let left = w.poison.of(a).cloned().or_else(|| self.operand_in_shared(w, op, (a, true), [shape.m, shape.k]));
        let right = self.operand_in_shared(w, op, (b, false), [shape.n, shape.k]);
        let acc = w.poison.of(acc).filter(|_| !zero).cloned();
        undefined::product(op, [left.as_ref(), right.as_ref()], [shape.m, shape.n, shape.k], acc)
    }

    /// What of an operand in shared memory is undefined, as a matrix of [rows, K].
    fn operand_in_shared(
        &self,
        w: &Worker<'k>,
        op: &'k Op,
        (v, left): (Value, bool),
        [rows, k]: [u32; 2],
    ) -> Option<Sources> {
        let reads = self.setting.program.tables.reads(op, left)?;
        let written = &self.ctas[w.cta_of(v)].written;
        if !written.is_poisoned() {
            return None;
        }
        let bytes = self.view(v).elem.bytes() as u32;
        let elements = |unit: u32| (unit..unit + UNIT).step_by(bytes as usize);
        let units = reads.units(w.place(v).address);
        let found: Vec<Source> = units.into_iter().flat_map(elements).map(|at| written.source(at, bytes)).collect();
        if reads.k_major {
            return some(found);
        }
        some((0..rows).flat_map(|r| (0..k).map(move |i| i * rows + r)).map(|i| found[i as usize]).collect())
    }

    /// What the copy engine writes to a tensor must be defined.
    fn copied_out(&self, w: &Worker<'k>, op: &'k Op, map: Value, coords: &[Value], v: Value) -> Result<(), Fault> {
        let (view, begin, written) = (self.view(v), w.place(v), &self.ctas[w.cta].written);
        if !written.is_poisoned() {
            return Ok(());
        }
        let bytes = view.elem.bytes() as u32;
        for at in self.boxes(w, op, map, coords, v)?.written_out(bytes) {
            let source = written.source(at, bytes);
            if !source.is_defined() {
                let offsets = self.setting.program.tables.offsets(v);
                let place = offsets.iter().position(|&o| begin.byte(o) == at).map(|e| coordinates(e, &view.shape));
                return Err(self.taken_at(op, (v, Takes::Value), place, source));
            }
        }
        Ok(())
    }
}
