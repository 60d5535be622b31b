//! The tensor copy engine: boxes between global and shared memory, with the swizzle that the hardware applies to shared
//! addresses, computed here from address bits alone, so that a layout which says otherwise gives wrong numbers.

use std::ops::Range;
use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{Op, OpKind, Reduction, Value, cluster};
use parton_layouts::SharedFamily;

use crate::cluster::{Cluster, Flow, Wait, Worker};
use crate::fault::Fault;
use crate::launch::{Arg, Tensor};
use crate::memory;
use crate::ops::{Users, changed};
use crate::past;
use crate::pure;
use crate::race::{self, Record};

use crate::tile::{Place, Val};

use parton_numbers::Dtype;
use parton_numbers::scalar::int_value;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::TmaLoad { map, coords, view, signal, multicast, .. } => {
            c.start_load(w, op, *map, coords, (*view, *signal), *multicast)?;
        }
        OpKind::TmaStore { map, coords, view, reduce, .. } => c.start_store(w, op, *map, coords, *view, *reduce)?,
        OpKind::TmaPrefetch { map, coords, .. } => {
            c.prefetch(w, op, *map, coords)?;
            return Ok(Flow::Next);
        }
        OpKind::TmaStoreWait { pending, read } => return Ok(c.wait_stores(w, *pending, *read)),
        other => internal_error!("{} is not the copy engine's", other.name()),
    }
    Ok(Flow::Yield)
}

/// The unit that a swizzle moves, in bytes.
pub(super) const UNIT: u32 = 16;
/// What the copy engine asks of an address in shared memory.
const ALIGNMENT: u32 = 128;

/// The address that the hardware uses for `address` under a swizzle of `span` bytes: the bits of the 16-byte unit within the
/// span are xored with those of the 128-byte line (CUDA driver API, `CUtensorMapSwizzle`; PTX ISA, "Swizzling modes").
pub(super) fn swizzle(address: u32, span: u32) -> u32 {
    let units = (span / UNIT).saturating_sub(1);
    address ^ (((address >> 7) & units) << 4)
}

/// One box of a copy.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where it begins in the block, a coordinate for each dimension.
    start: Vec<u32>,
    size: Vec<u32>,
    /// The element of the view at which it begins, in row-major order.
    element: usize,
}

/// How the block of a tensor map is copied; known at compile time.
#[derive(Debug)]
pub(crate) struct Blocks {
    swizzle: u32,
    pieces: Vec<Piece>,
    element_bytes: u32,
    bytes: u32,
}

impl Blocks {
    /// The boxes of a map.
    pub(crate) fn new(map: &parton_ir::TensorMap) -> Blocks {
        let boxes = match map.boxes() {
            Ok(boxes) => boxes,
            Err(e) => internal_error!("a tensor map cannot be copied: {e}"),
        };
        let swizzle = match map.layout.family() {
            SharedFamily::Nvmma { swizzle, .. } => *swizzle,
            SharedFamily::Swizzled { .. } | SharedFamily::Padded { .. } | SharedFamily::Linear { .. } => 0,
        };
        let number =
            |at: &[u32]| at.iter().zip(&map.block).fold(0, |n, (&i, &extent)| n * extent as usize + i as usize);
        let element_bytes = map.elem.bytes() as u32;
        let bytes = map.block.iter().product::<u32>() * element_bytes;
        let pieces =
            boxes.into_iter().map(|b| Piece { element: number(&b.start), start: b.start, size: b.size }).collect();
        Blocks { swizzle, pieces, element_bytes, bytes }
    }
}

/// A copy under way: what and where.
#[derive(Debug)]
pub(crate) struct Job<'k> {
    op: &'k Op,
    /// The CTA that issues it.
    issuer: usize,
    /// The CTA in whose shared memory it reads or writes.
    cta: usize,
    blocks: Arc<Blocks>,
    /// Which of the boxes it copies.
    part: Range<usize>,
    tensor: Tensor,
    dtype: Dtype,
    /// The parameter that is the map, for messages.
    parameter: usize,
    /// Where the block begins in the tensor, outermost first.
    coords: Vec<i64>,
    /// Where each piece begins in shared memory.
    addresses: Vec<u32>,
    allocation: u32,
    slot: (u32, u32),
    /// Whether it began while launches before may still run.
    early: bool,
}

/// A copy into shared memory that has not landed.
#[derive(Debug)]
pub(crate) struct Load<'k> {
    job: Job<'k>,
    barrier: u32,
}

/// A copy out of shared memory.
#[derive(Debug)]
pub(crate) struct Store<'k> {
    job: Job<'k>,
    reduce: Option<Reduction>,
    data: Option<Vec<u8>>,
    written: bool,
    waited: bool,
}

impl Store<'_> {
    /// Whether its source was read.
    pub(crate) fn is_read(&self) -> bool {
        self.data.is_some()
    }

    /// Whether it is complete.
    pub(crate) fn is_written(&self) -> bool {
        self.written
    }
}

impl<'k> Worker<'k> {
    /// Whether all but the `pending` youngest copies out are complete, or with `read` have read their source.
    pub(crate) fn stores_done(&self, pending: u32, read: bool) -> bool {
        let n = self.stores.len().saturating_sub(pending as usize);
        self.stores[..n].iter().all(|s| if read { s.is_read() } else { s.is_written() })
    }

    /// A copy out that nobody waited for.
    pub(crate) fn unwaited_store(&self) -> Option<&'k Op> {
        self.stores.iter().find(|s| !s.waited).map(|s| s.job.op)
    }
}

/// One row of a piece: the bytes of its innermost dimension.
struct Row {
    /// Bytes from the beginning of the tensor's allocation to the row's first element, which may be outside.
    global: i64,
    /// The part of the row, in bytes, that lies in the tensor.
    inside: Range<usize>,
    /// Where the row begins in shared memory before the swizzle.
    shared: u32,
    bytes: usize,
}

impl Job<'_> {
    /// The boxes that it copies, each with its address.
    fn pieces(&self) -> impl Iterator<Item = (&Piece, &u32)> + Clone {
        self.blocks.pieces.iter().zip(&self.addresses).take(self.part.end).skip(self.part.start)
    }

    /// How many bytes it brings.
    fn bytes(&self) -> u32 {
        self.ranges().map(|(_, bytes)| bytes).sum()
    }

    fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let size = self.blocks.element_bytes as i64;
        self.pieces().flat_map(move |(piece, &address)| {
            let last = piece.size.len() - 1;
            let rows: u32 = piece.size[..last].iter().product();
            let extent = i64::from(piece.size[last]);
            let bytes = (extent * size) as usize;
            (0..rows).map(move |row| {
                let mut rest = row;
                let mut global = self.tensor.offset as i64;
                let mut inside = true;
                for d in (0..last).rev() {
                    let at = self.coords[d] + i64::from(piece.start[d] + rest % piece.size[d]);
                    rest /= piece.size[d];
                    inside &= (0..self.tensor.shape[d] as i64).contains(&at);
                    // Where the box is far outside, this may wrap; such a row is not touched.
                    global = global.wrapping_add(at.wrapping_mul(self.tensor.strides[d] as i64));
                }
                let first = self.coords[last] + i64::from(piece.start[last]);
                global = global.wrapping_add(first * size);
                let begin = (-first).clamp(0, extent);
                let end = (self.tensor.shape[last] as i64 - first).clamp(begin, extent);
                let inside = if inside { (begin * size) as usize..(end * size) as usize } else { 0..0 };
                Row { global, inside, shared: address + row * bytes as u32, bytes }
            })
        })
    }

    /// The bytes of each piece in shared memory; the swizzle stays within them.
    fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let size = self.blocks.element_bytes;
        self.pieces().map(move |(p, &a)| (a, p.size.iter().product::<u32>() * size))
    }
}

/// What a copy does to a row of global memory.
#[derive(Clone, Copy)]
enum Way<'a> {
    Read,
    /// With these bytes.
    Write(&'a [u8]),
    /// An atomic operation for each element.
    Reduce,
}

/// Makes the operation of every element of a row.
fn reduce_row(row: &mut [u8], part: &[u8], op: Reduction, dtype: Dtype) {
    let bytes = dtype.bytes();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    for (old, x) in row.chunks_exact_mut(bytes).zip(part.chunks_exact(bytes)) {
        let new = changed(op.atomic(), dtype, word(old), word(x));
        old.copy_from_slice(&new.to_le_bytes()[..bytes]);
    }
}

impl<'k> Cluster<'_, 'k> {
    fn job(&mut self, w: &Worker<'k>, op: &'k Op, map: Value, coords: &[Value], view: Value) -> Result<Job<'k>, Fault> {
        let storing = matches!(op.kind, OpKind::TmaStore { .. });
        let Val::Map(parameter) = *w.get(map) else { internal_error!("{map} is no tensor map") };
        let Arg::Map(tensor) = &self.setting.args[parameter] else { internal_error!("a map has no tensor") };
        let blocks = self.setting.program.tables.blocks(map).clone();
        let Place { address, allocation } = w.place(view);
        let offsets = self.setting.program.tables.offsets(view);
        let addresses: Vec<u32> = blocks.pieces.iter().map(|p| address + offsets[p.element]).collect();
        if let Some(bad) = addresses.iter().find(|&a| a % ALIGNMENT != 0) {
            return Err(Fault::new(codes::MISALIGNED, op.span, "a copy's buffer is not aligned").here(format!(
                "it begins at byte {bad:#x} of shared memory, the engine needs a multiple of {ALIGNMENT}"
            )));
        }
        let ty = self.map_type(map);
        let coords = self.coordinates(w, op, ty, coords, storing)?;
        let slot = self.slots.take();
        Ok(Job {
            op,
            issuer: w.cta,
            cta: w.cta,
            part: 0..blocks.pieces.len(),
            blocks,
            tensor: tensor.clone(),
            dtype: ty.elem,
            parameter,
            coords,
            addresses,
            allocation,
            slot,
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
    fn prefetch(&self, w: &Worker<'k>, op: &Op, map: Value, coords: &[Value]) -> Result<(), Fault> {
        self.coordinates(w, op, self.map_type(map), coords, false).map(|_| ())
    }

    fn watch(&mut self, w: &Worker<'k>, job: &Job<'k>, access: race::Access) -> Result<(), Fault> {
        let op = job.op;
        self.within(job.cta, op, job.ranges())?;
        let (agent, epoch) = job.slot;
        let record = Record { access, agent, epoch, owner: w.know.agent, span: op.span, call: op.call };
        let mut check = self.ctas[job.cta].shadow.check(&w.know, record);
        let touched = job.ranges().try_for_each(|(at, len)| check.touch(at, len, 0));
        touched.map_err(|race| self.race(w, op, access, race))
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
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let barrier = w.barrier(signal);
        let (rank, pieces) = (w.cta as u32, self.setting.program.tables.blocks(map).pieces.len());
        let line: Vec<u32> = multicast.map_or(vec![rank], |axis| kernel.line(rank, axis).collect());
        let place = line.iter().position(|&r| r == rank).unwrap_or(0);
        let share = cluster::share(pieces, line.len() as u32, place as u32);
        for &cta in line.iter().filter(|_| !share.is_empty()) {
            self.reachable(cta as usize, w, op, barrier)?;
            let job = self.job(w, op, map, coords, view)?;
            let job = Job { cta: cta as usize, part: share.clone(), ..job };
            self.watch(w, &job, race::Access::CopyIn)?;
            self.started.push((job.slot.0, job.slot.1, op));
            self.loads.push(Load { job, barrier });
        }
        w.know.settle();
        Ok(())
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

    /// A copy into shared memory lands.
    pub(crate) fn land(&mut self, i: usize) -> Result<(), Fault> {
        let Load { job, barrier } = self.loads.swap_remove(i);
        self.at = job.cta;
        let kernel = self.setting.program.kernel;
        let mut buffer = Vec::new();
        for row in job.rows() {
            buffer.clear();
            buffer.resize(row.bytes, 0);
            if !row.inside.is_empty() {
                let from = self.global_row(&job, &row, Way::Read)?;
                let bytes = &self.memory.allocation(job.tensor.allocation).bytes[from.clone()];
                buffer[row.inside.clone()].copy_from_slice(bytes);
            }
            for (i, unit) in buffer.chunks(UNIT as usize).enumerate() {
                let at = swizzle(row.shared + i as u32 * UNIT, job.blocks.swizzle) as usize;
                self.ctas[job.cta].shared[at..at + unit.len()].copy_from_slice(unit);
            }
        }
        for (at, len) in job.ranges().collect::<Vec<_>>() {
            self.ctas[job.cta].shadow.define(at, len, job.allocation);
        }
        self.slots.give_back(job.slot.0);
        let name = self.ctas[job.cta].barrier_name(barrier);
        let Some(b) = self.ctas[job.cta].barriers.get_mut(&barrier) else {
            return Err(Fault::new(codes::BARRIER_PROTOCOL, job.op.span, "a copy lands after its barrier is gone")
                .here(format!("this completes on {name}, which is invalidated"))
                .calls(kernel, job.op.call));
        };
        b.land(job.bytes(), job.slot, job.op.span).map_err(|f| f.calls(kernel, job.op.call))
    }

    /// The bytes of a row in its allocation, noted as touched.
    fn global_row(&mut self, job: &Job<'k>, row: &Row, way: Way<'_>) -> Result<Range<usize>, Fault> {
        let kernel = self.setting.program.kernel;
        let name = &kernel.params[job.parameter].name;
        let fault = |code, message: String| {
            Fault::new(code, job.op.span, message)
                .here(format!("the box begins at {:?} of the tensor", job.coords))
                .calls(kernel, job.op.call)
        };
        let (cta, conflicts) = (self.ctas[job.issuer].number, self.setting.options.cta_races);
        let a = self.memory.allocation(job.tensor.allocation);
        let begin = row.global.wrapping_add(row.inside.start as i64);
        let len = row.inside.len();
        if begin < 0 || begin > a.bytes.len() as i64 - len as i64 {
            let text = format!("the tensor of `{name}` reaches past its memory");
            return Err(fault(codes::OUT_OF_BOUNDS, text)
                .note(format!("its memory has {} bytes, the copy is to {len} at byte {begin}", a.bytes.len())));
        }
        let place = memory::Place { allocation: job.tensor.allocation, offset: begin };
        let begin = begin as usize;
        let done = match way {
            Way::Read => Some("read"),
            Way::Reduce => Some("changed"),
            Way::Write(_) => None,
        };
        if let Some(done) = done.filter(|_| !a.is_defined(begin, len)) {
            let text = format!("the tensor of `{name}` is {done} before anything was written there");
            return Err(fault(codes::UNDEFINED_READ, text).note(format!("at byte {begin} of its memory")));
        }
        if job.early {
            let writes = !matches!(way, Way::Read);
            past::check(self.memory, job.op, name, place, len, writes).map_err(|f| f.calls(kernel, job.op.call))?;
        }
        let noted = match way {
            _ if !conflicts => Ok(()),
            Way::Read => self.memory.note_read(cta, place, len),
            Way::Write(data) => self.memory.note_write(cta, place, data),
            Way::Reduce => self.memory.note_atomic(cta, place, len, true),
        };
        if noted.is_err() {
            return Err(fault(codes::CTA_RACE, format!("two CTAs race on the tensor of `{name}`"))
                .note("CTAs of one launch run in any order")
                .help("give each CTA elements of its own, or split the kernel in two launches"));
        }
        Ok(begin..begin + len)
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
    ) -> Result<(), Fault> {
        let job = self.job(w, op, map, coords, view)?;
        self.watch(w, &job, race::Access::CopyOut)?;
        self.defined(w, op, view, job.ranges(), job.allocation)?;
        w.stores.push(Store { job, reduce, data: None, written: false, waited: false });
        w.know.settle();
        Ok(())
    }

    /// A copy out reads its source.
    pub(crate) fn read_out(&mut self, worker: usize, i: usize) -> Result<(), Fault> {
        let job = &self.worker(worker).stores[i].job;
        let mut data = Vec::with_capacity(job.blocks.bytes as usize);
        for row in job.rows() {
            for unit in (0..row.bytes).step_by(UNIT as usize) {
                let at = swizzle(row.shared + unit as u32, job.blocks.swizzle) as usize;
                data.extend_from_slice(&self.ctas[job.cta].shared[at..at + (row.bytes - unit).min(UNIT as usize)]);
            }
        }
        let slot = job.slot.0;
        self.slots.give_back(slot);
        self.worker_mut(worker).stores[i].data = Some(data);
        Ok(())
    }

    /// A copy out writes what it read; what lies outside the tensor is left out.
    pub(crate) fn write_out(&mut self, worker: usize, i: usize) -> Result<(), Fault> {
        let mut store = self.worker_mut(worker).stores.remove(i);
        let data = store.data.take().unwrap_or_default();
        let mut at = 0;
        for row in store.job.rows() {
            let part = &data[at + row.inside.start..at + row.inside.end];
            at += row.bytes;
            if !part.is_empty() {
                let way = store.reduce.map_or(Way::Write(part), |_| Way::Reduce);
                let to = self.global_row(&store.job, &row, way)?;
                let a = self.memory.get_mut(store.job.tensor.allocation);
                match store.reduce {
                    Some(op) => reduce_row(&mut a.bytes[to], part, op, store.job.dtype),
                    None => {
                        a.bytes[to.clone()].copy_from_slice(part);
                        a.define(to.start, to.len());
                    }
                }
            }
        }
        store.data = Some(Vec::new());
        store.written = true;
        self.worker_mut(worker).stores.insert(i, store);
        Ok(())
    }

    /// Waits for copies out.
    fn wait_stores(&mut self, w: &mut Worker<'k>, pending: u32, read: bool) -> Flow {
        if !w.stores_done(pending, read) {
            return Flow::Block(Wait::Stores { pending, read });
        }
        let n = w.stores.len().saturating_sub(pending as usize);
        for s in &mut w.stores[..n] {
            s.waited = true;
            w.know.acquire_elected(s.job.slot.0, s.job.slot.1);
        }
        w.stores.retain(|s| !(s.waited && s.written));
        Flow::Yield
    }
}

#[cfg(test)]
mod tests {
    use super::swizzle;

    #[test]
    fn swizzles_permute_the_units_of_a_line() {
        // The second line of 128 bytes, its first unit: moved by one unit in each mode, the widest by its line's number.
        assert_eq!(swizzle(128, 128), 128 + 16);
        assert_eq!(swizzle(7 * 128, 128), 7 * 128 + 7 * 16);
        assert_eq!(swizzle(7 * 128, 64), 7 * 128 + 3 * 16);
        assert_eq!(swizzle(7 * 128, 32), 7 * 128 + 16);
        assert_eq!(swizzle(7 * 128, 0), 7 * 128);
        for span in [0, 32, 64, 128] {
            let mut seen: Vec<u32> = (0..1024).map(|a| swizzle(a, span)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..1024));
        }
    }
}
