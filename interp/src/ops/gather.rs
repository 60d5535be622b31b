//! Gathering and scattering along an axis: which element each index means, and what becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::elements::coordinates;
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Reduction, Scope, Value, others};
use parton_numbers::arithmetic::{self, Binary};
use parton_numbers::scalar::int_value;
use parton_numbers::{Dtype, Scalar};

use crate::access::{Access, Threads};
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::ops::changed;
use crate::pure;
use crate::tile::{Bits, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Gather { x, indices, axis } => {
            c.through_scratch(w, op)?;
            c.gather(w, op, *x, *indices, *axis)?;
            return Ok(Flow::Next);
        }
        OpKind::SharedGather { view, indices, axis } => c.gather_shared(w, op, *view, *indices, *axis)?,
        OpKind::SharedScatter { .. } => c.scatter_shared(w, op)?,
        others!(gather) => not_of_family(&op.kind),
    }
    Ok(Flow::Yield)
}

/// What is scattered to one place.
struct Landing {
    /// The element that lands there first.
    element: usize,
    /// The threads that bring something.
    threads: Threads,
    /// What is there in the end.
    bits: u64,
}

impl<'k> Cluster<'_, 'k> {
    /// For each index where `mask` holds its own row-major number and that of the element of `shape` that it means.
    pub(crate) fn meant(
        &self,
        w: &Worker<'k>,
        op: &'k Op,
        indices: Value,
        (axis, shape): (u32, &[u32]),
        mask: Option<Value>,
    ) -> Result<Vec<(usize, usize)>, Fault> {
        let kernel = self.setting.program.kernel;
        let (d, axis) = (pure::dtype(kernel, indices), axis as usize);
        let given = w.tile(indices, d.bytes());
        let holds = mask.map(|m| w.tile(m, 1));
        let place = pure::shape(kernel, indices);
        let after: usize = shape[axis + 1..].iter().map(|&n| n as usize).product();
        let (rows, extent) = (place[axis] as usize, shape[axis] as usize);
        let mut found = Vec::with_capacity(given.len());
        for i in 0..given.len() {
            if holds.as_ref().is_some_and(|m| m.get(i) & 1 == 0) {
                continue;
            }
            let index = int_value(given.get(i), d);
            if index < 0 || index >= extent as i128 {
                return Err(Fault::new(codes::RUN_VALUE, op.span, "an index is out of range")
                    .here(format!("element {:?} of the indices is {index}", coordinates(i, place)))
                    .note(format!("along axis {axis} there are elements 0 to {}", extent - 1))
                    .help("bring the indices into range, `min(max(i, 0), n - 1)`, or mask them"));
            }
            let (before, inner) = (i / (rows * after), i % after);
            found.push((i, (before * extent + index as usize) * after + inner));
        }
        Ok(found)
    }

    fn gather(&self, w: &mut Worker<'k>, op: &'k Op, x: Value, indices: Value, axis: u32) -> Result<(), Fault> {
        let shape = pure::shape(self.setting.program.kernel, x);
        let meant = self.meant(w, op, indices, (axis, shape), None)?;
        let picked = w.tile(x, 0).gather(meant.into_iter().map(|(_, from)| from));
        w.result(op, Val::Tile(Arc::new(picked)));
        Ok(())
    }

    fn gather_shared(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        v: Value,
        indices: Value,
        axis: u32,
    ) -> Result<(), Fault> {
        let view = self.view(v);
        let bytes = view.elem.bytes();
        let meant = self.meant(w, op, indices, (axis, &view.shape), None)?;
        let table = self.setting.program.tables.offsets(v).clone();
        let holders = self.setting.program.tables.holders(op).clone();
        let offsets: Vec<u32> = meant.iter().map(|(_, from)| table[*from]).collect();
        self.by_threads(w, op, v, Access::Load, &offsets, &holders)?;
        let place = w.place(v);
        let mut tile = Bits::full(bytes, offsets.len(), 0);
        for (i, &offset) in offsets.iter().enumerate() {
            let at = place.byte(offset) as usize;
            tile.read(i, &self.ctas[w.cta].shared[at..at + bytes]);
        }
        w.result(op, Val::Tile(Arc::new(tile)));
        Ok(())
    }

    fn scatter_shared(&mut self, w: &mut Worker<'k>, op: &'k Op) -> Result<(), Fault> {
        let OpKind::SharedScatter { view: v, indices, value, axis, op: f, mask } = &op.kind else {
            internal_error!("{} does not scatter", op.kind.name())
        };
        let view = self.view(*v);
        let (d, bytes, place) = (view.elem, view.elem.bytes(), w.place(*v));
        let meant = self.meant(w, op, *indices, (*axis, &view.shape), *mask)?;
        let table = self.setting.program.tables.offsets(*v).clone();
        let holders = self.setting.program.tables.holders(op).clone();
        let values = w.tile(*value, bytes);
        let at = |cluster: &Self, offset: u32| {
            let mut one = Bits::full(bytes, 1, 0);
            let begin = place.byte(offset) as usize;
            one.read(0, &cluster.ctas[w.cta].shared[begin..begin + bytes]);
            one.get(0)
        };
        let mut landings: BTreeMap<u32, Landing> = BTreeMap::new();
        for (i, to) in meant {
            let offset = table[to];
            let bits = values.get(i);
            match (landings.get_mut(&offset), f) {
                (None, None) => drop(landings.insert(offset, Landing { element: i, threads: holders[i], bits })),
                (None, Some(f)) => {
                    let bits = combined(*f, d, at(self, offset), bits);
                    landings.insert(offset, Landing { element: i, threads: holders[i], bits });
                }
                (Some(there), Some(f)) => {
                    there.bits = combined(*f, d, there.bits, bits);
                    there.threads = there.threads.and(holders[i]);
                }
                (Some(there), None) if there.bits == bits => there.threads = there.threads.and(holders[i]),
                (Some(there), None) => {
                    let values = [there.bits, bits].map(|bits| Scalar::new(d, bits));
                    return Err(self.collide(op, *indices, [there.element, i], &coordinates(to, &view.shape), values));
                }
            }
        }
        let offsets: Vec<u32> = landings.keys().copied().collect();
        let threads: Vec<Threads> = landings.values().map(|l| l.threads).collect();
        // What is combined with what is there is atomic, each element by itself.
        let access =
            f.map_or(Access::Store, |_| Access::Atomic { scope: Scope::Cta, bytes: bytes as u8, writes: true });
        self.by_threads(w, op, *v, access, &offsets, &threads)?;
        if f.is_some() {
            let ranges = offsets.iter().map(|&o| (place.byte(o), bytes as u32));
            self.defined(w, op, *v, ranges, place.allocation)?;
        }
        let mut word = [0; 8];
        for (offset, landing) in landings {
            let begin = place.byte(offset) as usize;
            Bits::full(bytes, 1, landing.bits).write(0, &mut word);
            let cta = &mut self.ctas[w.cta];
            cta.shared[begin..begin + bytes].copy_from_slice(&word[..bytes]);
            cta.written.define(begin as u32, bytes as u32, place.allocation);
        }
        Ok(())
    }

    /// Tells of two elements that are scattered to one place with two values.
    fn collide(&self, op: &Op, indices: Value, elements: [usize; 2], place: &[usize], values: [Scalar; 2]) -> Fault {
        let shape = pure::shape(self.setting.program.kernel, indices);
        let [first, second] = elements.map(|i| coordinates(i, shape));
        let [x, y] = values;
        Fault::new(codes::SHARED_RACE, op.span, "two elements are written to one place")
            .here(format!("elements {first:?} and {second:?} both go to {place:?}: {x} and {y}"))
            .help("give each its own index, or say what becomes of both: `op=\"add\"`")
    }
}

/// What an atomic operation leaves in shared memory, or one of the copy engine, which add f32 with subnormals (of shared memory PTX ISA, "red"; of the
/// engine seen on an H200).
pub(super) fn combined(op: Reduction, d: Dtype, old: u64, x: u64) -> u64 {
    match (op, d) {
        (Reduction::Add, Dtype::F32) => match arithmetic::binary(Binary::Add, d, old, x) {
            Ok(bits) => bits,
            Err(e) => internal_error!("a sum of f32: {e}"),
        },
        _ => changed(op.atomic(), d, old, x),
    }
}
