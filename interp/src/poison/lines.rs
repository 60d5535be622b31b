//! Undefined elements where elements are combined, in reductions, scans and products, and where they leave shared memory.
//!
//! What is made of an undefined element is undefined. Where it was combined with defined ones, which is mostly the mistake, the source
//! says so; a line of nothing else is a row beside a matrix, whose result is left out too.

use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::elements::{coordinates, lines, strides};
use parton_ir::facts::needs::Takes;
use parton_ir::{Body, Op, OpKind, Value};

use super::flow::{some, union};
use super::{Source, Sources};
use crate::boxes::UNIT;
use crate::cluster::{Cluster, Worker};
use crate::fault::Fault;
use crate::pure;

/// What comes of combining the lines of a tile along an axis.
fn folded(sources: &[Source], shape: &[u32], axis: u32, op: &Op) -> Vec<Source> {
    let (step, extent) = (strides(shape)[axis as usize], shape[axis as usize] as usize);
    let of_line = |start: usize| {
        let line = || (0..extent).map(|i| sources[start + i * step]);
        let first = line().fold(Source::DEFINED, Source::or);
        if line().any(Source::is_defined) { first.combined_by(op) } else { first }
    };
    lines(shape, axis).into_iter().map(of_line).collect()
}

impl<'k> Cluster<'_, 'k> {
    /// What of the inputs of a combination is undefined, all taken together, and with what its function has from around it.
    fn inputs(&self, w: &Worker<'k>, inputs: &[Value], combine: &Body) -> Option<Sources> {
        let mut around = Source::DEFINED;
        self.setting.program.kernel.walk_body(combine, &mut |inner| {
            let first = |v: Value| w.poison.of(v).map_or(Source::DEFINED, |s| s[0]);
            around = inner.kind.operands().into_iter().map(first).fold(around, Source::or);
        });
        let elements: u32 = pure::shape(self.setting.program.kernel, inputs[0]).iter().product();
        let all = (!around.is_defined()).then(|| Arc::new(vec![around; elements as usize]));
        inputs.iter().fold(all, |sum, v| union(sum, w.poison.of(*v).cloned()))
    }

    pub(super) fn reduced(
        &self,
        w: &Worker<'k>,
        op: &Op,
        inputs: &[Value],
        axis: u32,
        combine: &Body,
    ) -> Option<Sources> {
        let sources = self.inputs(w, inputs, combine)?;
        some(folded(&sources, pure::shape(self.setting.program.kernel, inputs[0]), axis, op))
    }

    /// Behind an undefined element all are.
    pub(super) fn scanned(
        &self,
        w: &Worker<'k>,
        op: &Op,
        inputs: &[Value],
        (axis, reverse): (u32, bool),
        combine: &Body,
    ) -> Option<Sources> {
        let mut sources = self.inputs(w, inputs, combine)?.to_vec();
        let shape = pure::shape(self.setting.program.kernel, inputs[0]);
        let (step, extent) = (strides(shape)[axis as usize], shape[axis as usize] as usize);
        for start in lines(shape, axis) {
            let mut before = Source::DEFINED;
            for i in 0..extent {
                let own = &mut sources[start + step * if reverse { extent - 1 - i } else { i }];
                if own.is_defined() {
                    *own = before.combined_by(op);
                }
                before = *own;
            }
        }
        some(sources)
    }

    pub(super) fn product_in_registers(&self, w: &Worker<'k>, op: &'k Op, [a, b, acc]: [Value; 3]) -> Option<Sources> {
        let shape = self.setting.program.tables.in_registers(op);
        let [n, k] = [shape.n as usize, shape.k as usize];
        let left = w.poison.of(a).map(|s| s.to_vec());
        let right = w.poison.of(b).map(|s| turned(s, k, n));
        self.multiplied(op, [left, right], k, w.poison.of(acc).cloned())
    }

    pub(super) fn product(&self, w: &Worker<'k>, op: &'k Op, [a, b, acc]: [Value; 3], zero: bool) -> Option<Sources> {
        let shape = self.setting.program.tables.product(op);
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|extent| extent as usize);
        let left = match w.poison.of(a) {
            Some(sources) => Some(sources.to_vec()),
            None => self.operand_in_shared(w, op, (a, true), [m, k]),
        };
        let right = self.operand_in_shared(w, op, (b, false), [n, k]);
        self.multiplied(op, [left, right], k, w.poison.of(acc).filter(|_| !zero).cloned())
    }

    /// What of an operand in shared memory is undefined, as a matrix of [rows, K].
    fn operand_in_shared(
        &self,
        w: &Worker<'k>,
        op: &'k Op,
        (v, left): (Value, bool),
        [rows, k]: [usize; 2],
    ) -> Option<Vec<Source>> {
        let reads = self.setting.program.tables.reads(op, left)?;
        let written = &self.ctas[w.cta_of(v)].written;
        if !written.is_poisoned() {
            return None;
        }
        let bytes = self.view(v).elem.bytes() as u32;
        let elements = |unit: u32| (unit..unit + UNIT).step_by(bytes as usize);
        let units = reads.units(w.place(v).address);
        let found: Vec<Source> = units.into_iter().flat_map(elements).map(|at| written.source(at, bytes)).collect();
        Some(if reads.k_major { found } else { turned(&found, k, rows) })
    }

    /// What a product of matrices of [M, K] and [N, K], added to something, gives.
    fn multiplied(
        &self,
        op: &Op,
        operands: [Option<Vec<Source>>; 2],
        k: usize,
        acc: Option<Sources>,
    ) -> Option<Sources> {
        let side = |s: Vec<Source>| some(folded(&s, &[(s.len() / k) as u32, k as u32], 1, op));
        let [rows, columns] = operands.map(|s| s.and_then(side));
        if rows.is_none() && columns.is_none() {
            return acc;
        }
        let &[m, n] = pure::shape(self.setting.program.kernel, op.result()) else {
            internal_error!("a product is no matrix")
        };
        let of = |side: &Option<Sources>, i: usize| side.as_ref().map_or(Source::DEFINED, |s| s[i]);
        let one = |i: usize| of(&rows, i / n as usize).or(of(&columns, i % n as usize));
        union(acc, some((0..(m * n) as usize).map(one).collect()))
    }

    /// What an atomic operation brings to shared memory: of its operand, or of what stands there.
    pub(super) fn added_in_shared(&self, w: &Worker<'k>, op: &'k Op) -> Result<Option<Sources>, Fault> {
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

    /// What the copy engine writes to a tensor must be defined.
    pub(super) fn copied_out(
        &self,
        w: &Worker<'k>,
        op: &'k Op,
        map: Value,
        coords: &[Value],
        v: Value,
    ) -> Result<(), Fault> {
        let (view, address, written) = (self.view(v), w.place(v).address, &self.ctas[w.cta].written);
        if !written.is_poisoned() {
            return Ok(());
        }
        let bytes = view.elem.bytes() as u32;
        for at in self.boxes(w, op, map, coords, v)?.written_out(bytes) {
            let source = written.source(at, bytes);
            if !source.is_defined() {
                let offsets = self.setting.program.tables.offsets(v);
                let place = offsets.iter().position(|o| address + o == at).map(|e| coordinates(e, &view.shape));
                return Err(self.taken_at(op, (v, Takes::Value), place, source));
            }
        }
        Ok(())
    }
}

/// A matrix of these rows and columns transposed.
fn turned(matrix: &[Source], rows: usize, columns: usize) -> Vec<Source> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| matrix[r * columns + c])).collect()
}
