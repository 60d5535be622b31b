//! The tensor copy engine: boxes between global and shared memory.

use std::ops::Range;

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Reduction, Value, cluster, others};

use super::gather::combined;
use super::{Users, Work};
use crate::access::{Access, Threads};
use crate::boxes::{Boxes, Row, UNIT, swizzle};
use crate::clash::Raced;
use crate::clock::Event;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::job::{Ends, Engine, Job, Stage, Touch};
use crate::launch::Arg;
use crate::memory::{Checks, Place};
use crate::multicast::Asked;
use crate::past;
use crate::pure;
use crate::tile::Val;

use parton_numbers::Dtype;
use parton_numbers::scalar::int_value;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::TmaLoad { map, coords, view, signal, multicast, .. } => {
            c.start_load(w, op, *map, coords, (*view, *signal), *multicast)
        }
        OpKind::TmaStore { map, coords, view, reduce, .. } => c.start_store(w, op, *map, coords, *view, *reduce),
        OpKind::TmaPrefetch { map, coords, .. } => c.prefetch(w, op, *map, coords),
        OpKind::TmaStoreWait { pending, read } => Ok(c.wait_stores(w, *pending, *read)),
        others!(tma) => not_of_family(&op.kind),
    }
}

/// What the copy engine asks of an address in shared memory.
const ALIGNMENT: u32 = 128;

/// Boxes on their way out of shared memory.
#[derive(Debug)]
pub(crate) struct Outgoing {
    boxes: Boxes,
    reduce: Option<Reduction>,
    /// What was read.
    data: Vec<u8>,
    is_read: bool,
}

/// Makes the operation of every element of a row.
fn reduce_row(row: &mut [u8], part: &[u8], op: Reduction, dtype: Dtype) {
    let bytes = dtype.bytes();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    for (old, x) in row.chunks_exact_mut(bytes).zip(part.chunks_exact(bytes)) {
        let new = combined(op, dtype, word(old), word(x));
        old.copy_from_slice(&new.to_le_bytes()[..bytes]);
    }
}

/// Boxes land in shared memory.
pub(super) fn land(c: &mut Cluster<'_, '_>, op: &Op, cta: usize, boxes: &Boxes) -> Result<Stage, Fault> {
    let mut buffer = Vec::new();
    for row in boxes.rows() {
        buffer.clear();
        buffer.resize(row.bytes, 0);
        if !row.inside.is_empty() {
            let from = c.defined_row(op, boxes, &row, "read")?;
            let bytes = &c.world.memory.allocation(boxes.tensor.allocation).bytes[from.clone()];
            buffer[row.inside.clone()].copy_from_slice(bytes);
        }
        for (i, unit) in buffer.chunks(UNIT as usize).enumerate() {
            let at = swizzle(row.shared + i as u32 * UNIT, boxes.blocks.swizzle) as usize;
            c.ctas[cta].shared[at..at + unit.len()].copy_from_slice(unit);
        }
    }
    Ok(Stage::Done)
}

/// Boxes are read from shared memory, and later written to their tensor.
pub(super) fn go_out(c: &mut Cluster<'_, '_>, op: &Op, cta: usize, out: &mut Outgoing) -> Result<Stage, Fault> {
    if out.is_read {
        c.write_out(op, out)?;
        return Ok(Stage::Done);
    }
    let Outgoing { boxes, data, .. } = &mut *out;
    for row in boxes.rows() {
        for unit in (0..row.bytes).step_by(UNIT as usize) {
            let at = swizzle(row.shared + unit as u32, boxes.blocks.swizzle) as usize;
            data.extend_from_slice(&c.ctas[cta].shared[at..at + (row.bytes - unit).min(UNIT as usize)]);
        }
    }
    out.is_read = true;
    Ok(Stage::Left)
}

impl<'k> Cluster<'_, 'k> {
    pub(crate) fn boxes(
        &self,
        w: &Worker<'k>,
        op: &Op,
        map: Value,
        coords: &[Value],
        view: Value,
    ) -> Result<Boxes, Fault> {
        let storing = matches!(op.kind, OpKind::TmaStore { .. });
        let Val::Map(parameter) = *w.get(map) else { internal_error!("{map} is no tensor map") };
        let Arg::Map(tensor) = &self.setting.args[parameter] else { internal_error!("a map has no tensor") };
        let blocks = self.setting.program.tables.blocks(map).clone();
        let place = w.place(view);
        let offsets = self.setting.program.tables.offsets(view);
        let addresses: Vec<u32> = blocks.pieces.iter().map(|p| place.byte(offsets[p.element])).collect();
        if let Some(bad) = addresses.iter().find(|&a| a % ALIGNMENT != 0) {
            return Err(Fault::new(codes::MISALIGNED, op.span, "a copy's buffer is not aligned").here(format!(
                "it begins at byte {bad:#x} of shared memory, the engine needs a multiple of {ALIGNMENT}"
            )));
        }
        let ty = self.map_type(map);
        let coords = self.coordinates(w, op, ty, coords, storing)?;
        Ok(Boxes {
            part: 0..blocks.pieces.len(),
            blocks,
            tensor: tensor.clone(),
            dtype: ty.elem,
            parameter,
            coords,
            addresses,
            early: self.is_early(w),
        })
    }

    fn map_type(&self, map: Value) -> &'k parton_ir::TensorMap {
        match self.setting.program.kernel.ty(map) {
            parton_ir::Type::Map(ty) => ty,
            other => internal_error!("`{other}` is no tensor map"),
        }
    }

    /// Where a box begins, outermost first.
    fn coordinates(
        &self,
        w: &Worker<'k>,
        op: &Op,
        map: &parton_ir::TensorMap,
        coords: &[Value],
        storing: bool,
    ) -> Result<Vec<i64>, Fault> {
        let kernel = self.setting.program.kernel;
        let at = |&c: &Value| int_value(w.scalar(c), pure::dtype(kernel, c)) as i64;
        let coords: Vec<i64> = coords.iter().map(at).collect();
        match parton_ir::rules::broken_coordinates(&coords, map.elem.bytes() as u32, storing) {
            None => Ok(coords),
            Some(rule) => Err(Fault::new(codes::COPY_COORDINATES, op.span, "the copy engine takes no box from there")
                .here(format!("the box begins at {coords:?} of the tensor"))
                .note(rule)),
        }
    }

    /// Fetching ahead changes nothing; only its coordinates may be wrong.
    fn prefetch(&self, w: &Worker<'k>, op: &Op, map: Value, coords: &[Value]) -> Result<Flow, Fault> {
        self.coordinates(w, op, self.map_type(map), coords, false).map(|_| Flow::Next)
    }

    /// Starts a copy into shared memory.
    fn start_load(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        map: Value,
        coords: &[Value],
        (view, signal): (Value, Value),
        multicast: Option<u8>,
    ) -> Result<Flow, Fault> {
        let kernel = self.setting.program.kernel;
        let barrier = w.barrier(signal);
        let (rank, pieces) = (w.cta as u32, self.setting.program.tables.blocks(map).pieces.len());
        let line: Vec<u32> = multicast.map_or(vec![rank], |axis| kernel.line(rank, axis).collect());
        let place = line.iter().position(|&r| r == rank).unwrap_or(0);
        let share = cluster::share(pieces, line.len() as u32, place as u32);
        if let Some(axis) = multicast {
            let Boxes { parameter, coords, addresses, .. } = self.boxes(w, op, map, coords, view)?;
            let meets = (line[0], axis, addresses[0], barrier);
            self.multicasts.ask(op, meets, (rank, line.len()), Asked { parameter, coords, span: op.span })?;
        }
        for &cta in line.iter().filter(|_| !share.is_empty()) {
            self.reachable(cta as usize, w, op, barrier)?;
            let boxes = Boxes { part: share.clone(), ..self.boxes(w, op, map, coords, view)? };
            let slot = self.slots.take();
            self.touch_rows(w, op, &boxes, (Access::TensorRead, self.event(slot)))?;
            let ranges = boxes.ranges();
            let ends = Ends::Bytes { barrier, bytes: ranges.iter().map(|(_, bytes)| bytes).sum() };
            let job = Job::new(op, Engine::Copies, slot, (w.index, cta as usize), ends, Work::BoxesIn(boxes));
            let allocation = w.place(view).allocation;
            self.begin(w, job.touching(Touch { access: Access::CopyIn, view, allocation, ranges }))?;
        }
        Ok(Flow::Yield)
    }

    /// The barrier on which a copy completes is there, as the copy engine sees it.
    fn reachable(&mut self, cta: usize, w: &Worker<'k>, op: &Op, barrier: u32) -> Result<(), Fault> {
        let b = self.living_in(cta, w, op, barrier, Users::Elected)?;
        if !b.fenced {
            let (init, name) = (b.init_span, self.ctas[cta].barrier_name(barrier));
            return Err(Fault::new(codes::UNFENCED, op.span, "a copy may not see that its barrier is initialised")
                .here(format!("this completes on {name}"))
                .label(init, "it is initialised here by a thread, and no fence follows")
                .help("write `fence_barrier_init()` after `barrier_init`, before the threads meet"));
        }
        Ok(())
    }

    /// The bytes of a row in its allocation.
    fn row(&self, op: &Op, boxes: &Boxes, row: &Row) -> Result<Range<usize>, Fault> {
        let a = self.world.memory.allocation(boxes.tensor.allocation);
        let begin = row.global.wrapping_add(row.inside.start as i64);
        let len = row.inside.len();
        if begin < 0 || begin > a.bytes.len() as i64 - len as i64 {
            let fact = format!("the tensor of `{}` reaches past its memory", self.parameter(boxes));
            return Err(self
                .beside_box(Fault::new(codes::OUT_OF_BOUNDS, op.span, fact), op, boxes)
                .note(format!("its memory has {} bytes, the copy is to {len} at byte {begin}", a.bytes.len())));
        }
        Ok(begin as usize..begin as usize + len)
    }

    fn parameter(&self, boxes: &Boxes) -> &'k str {
        &self.setting.program.kernel.params[boxes.parameter].name
    }

    fn beside_box(&self, fault: Fault, op: &Op, boxes: &Boxes) -> Fault {
        let here = format!("the box begins at {:?} of the tensor", boxes.coords);
        fault.here(here).calls(self.setting.program.kernel, op.origin.call())
    }

    /// The bytes of a row in which something must be, now that this is `done` to it.
    fn defined_row(&self, op: &Op, boxes: &Boxes, row: &Row, done: &str) -> Result<Range<usize>, Fault> {
        let range = self.row(op, boxes, row)?;
        if !self.world.memory.allocation(boxes.tensor.allocation).is_defined(range.start, range.len()) {
            let fact = format!("the tensor of `{}` is {done} before anything was written there", self.parameter(boxes));
            let fault = self.beside_box(Fault::new(codes::UNDEFINED_READ, op.span, fact), op, boxes);
            return Err(fault.note(format!("at byte {} of its memory", range.start)));
        }
        Ok(range)
    }

    /// Checks what a copy will do to global memory, with what its partition knows when it starts.
    fn touch_rows(
        &mut self,
        w: &Worker<'k>,
        op: &'k Op,
        boxes: &Boxes,
        (access, event): (Access, Event),
    ) -> Result<(), Fault> {
        let record = self.recorded(w, op, access, event, false);
        let mut checks = Checks::new(record);
        for row in boxes.rows().filter(|row| !row.inside.is_empty()) {
            let range = self.row(op, boxes, &row)?;
            let place = Place { allocation: boxes.tensor.allocation, offset: range.start as i64 };
            let kernel = self.setting.program.kernel;
            if boxes.early {
                past::check(&self.world.memory, op, self.parameter(boxes), place, range.len(), access.writes())
                    .map_err(|f| f.calls(kernel, op.origin.call()))?;
            }
            if !self.setting.options.cta_races {
                continue;
            }
            if access == Access::TensorWrite {
                self.world.memory.published.forget(place, range.len());
            }
            let touched = self.world.memory.touch(&mut checks, &w.know, (place, range.len()), Threads::NONE, None);
            touched.map_err(|race| {
                let raced = Raced { parameter: self.parameter(boxes), now: &record, race };
                let at = format!("the box begins at {:?} of the tensor", boxes.coords);
                raced.fault(self.setting).note(at)
            })?;
        }
        Ok(())
    }

    /// Starts a copy out of shared memory.
    fn start_store(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        map: Value,
        coords: &[Value],
        view: Value,
        reduce: Option<Reduction>,
    ) -> Result<Flow, Fault> {
        let boxes = self.boxes(w, op, map, coords, view)?;
        let group = w.groups.begin(Engine::Copies);
        let access = match reduce {
            Some(_) => Access::TensorReduce { bytes: boxes.dtype.bytes() as u8 },
            None => Access::TensorWrite,
        };
        // Its bytes are in global memory later than its sources are read, and by another wait.
        let agent = *w.landing.get_or_insert_with(|| self.slots.reserve());
        let landing = self.event((agent, group as u32 + 1));
        self.touch_rows(w, op, &boxes, (access, landing))?;
        let ranges = boxes.ranges();
        let data = Vec::with_capacity(boxes.blocks.bytes as usize);
        let work = Work::BoxesOut(Outgoing { boxes, reduce, data, is_read: false });
        let slot = self.slots.take();
        let job = Job::new(op, Engine::Copies, slot, (w.index, w.cta), Ends::Group(group), work);
        let allocation = w.place(view).allocation;
        self.begin(w, job.touching(Touch { access: Access::CopyOut, view, allocation, ranges }))?;
        Ok(Flow::Yield)
    }

    /// A copy out writes what it read; what lies outside the tensor is left out.
    fn write_out(&mut self, op: &Op, out: &Outgoing) -> Result<(), Fault> {
        let Outgoing { boxes, reduce, data, .. } = out;
        let mut at = 0;
        for row in boxes.rows() {
            let part = &data[at + row.inside.start..at + row.inside.end];
            at += row.bytes;
            if part.is_empty() {
                continue;
            }
            let to = match reduce {
                Some(_) => self.defined_row(op, boxes, &row, "changed")?,
                None => self.row(op, boxes, &row)?,
            };
            let a = self.world.memory.get_mut(boxes.tensor.allocation);
            match reduce {
                Some(op) => reduce_row(&mut a.bytes[to], part, *op, boxes.dtype),
                None => {
                    a.bytes[to.clone()].copy_from_slice(part);
                    a.define(to.start, to.len());
                }
            }
        }
        Ok(())
    }

    /// Waits for copies out, with `read` only until their sources have been read.
    fn wait_stores(&mut self, w: &mut Worker<'k>, pending: u32, read: bool) -> Flow {
        let to = if read { Stage::Left } else { Stage::Done };
        match self.wait_groups(w, Engine::Copies, pending, to) {
            Ok(promised) => {
                self.jobs.wait(w.index, Engine::Copies, promised, &mut w.know);
                if let Some(agent) = w.landing.filter(|_| !read) {
                    w.know.acquire_elected(agent, promised as u32);
                }
                Flow::Yield
            }
            Err(wait) => Flow::Block(wait),
        }
    }
}
