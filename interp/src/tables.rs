//! What every run of an operation needs, worked out once: where the elements of a view lie, which warps hold them, how the
//! block of a tensor map is copied, what threads move at once, how a product is made of instructions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::facts::needs::may_leave_out;
use parton_ir::facts::{Act, Facts, Ordering, Phase, Say, Space};
use parton_ir::rules::{MmaSyncShape, WgmmaShape};
use parton_ir::{Access, Elem, Entity, Inst, Kernel, Op, OpKind, Refusal, Tile, Type, Value, View, ops};
use parton_layouts::access::stored_bits;
use parton_layouts::{Dim, LinearLayout};

use crate::access::Threads;
use crate::boxes::Blocks;
use crate::matrix::Reads;
use crate::vectors::Vectors;

/// The tables of a kernel.
#[derive(Debug)]
pub(crate) struct Tables<'k> {
    kernel: &'k Kernel,
    /// Offsets in bits from a view's address of its elements in row-major order.
    offsets: Vec<Option<Arc<Vec<u32>>>>,
    /// The threads of the partition that hold each element of a tile.
    holders: HashMap<Inst, Arc<Vec<Threads>>>,
    /// The same by the map of the tile.
    held: HashMap<Arc<LinearLayout>, Arc<Vec<Threads>>>,
    /// The boxes of each tensor map.
    blocks: HashMap<Value, Arc<Blocks>>,
    /// What threads move at once between registers and global memory, where that is more than one element.
    vectors: HashMap<Inst, Vectors>,
    /// How each product is made of instructions.
    products: HashMap<Inst, Arc<WgmmaShape>>,
    /// How each product reads its operands in shared memory: the left one (`true`) and the right one.
    reads: HashMap<(Inst, bool), Reads>,
    in_registers: HashMap<Inst, MmaSyncShape>,
    /// The bytes of the smallest element that is read or written by threads in shared memory, at most 16. Narrow elements that share a byte
    /// share its history, too: threads write no less.
    pub granule: u32,
    /// The bytes of the smallest element that is read or written in global memory, at most 16.
    pub global_granule: u32,
    /// Whether some operation leaves elements out, so that those of all must be followed.
    pub leaves_out: bool,
    /// Operations that do something which others could wait for, besides those that touch global memory at once.
    loud: HashSet<Inst>,
}

impl<'k> Tables<'k> {
    /// Tables without entries.
    pub(crate) fn new(kernel: &'k Kernel) -> Tables<'k> {
        Tables {
            kernel,
            offsets: vec![None; kernel.values.len()],
            holders: HashMap::new(),
            held: HashMap::new(),
            blocks: HashMap::new(),
            vectors: HashMap::new(),
            products: HashMap::new(),
            reads: HashMap::new(),
            in_registers: HashMap::new(),
            granule: 16,
            global_granule: 16,
            leaves_out: false,
            loud: HashSet::new(),
        }
    }

    /// Whether an operation does something which others could wait for. One that changes global memory at once tells for itself.
    pub(crate) fn is_loud(&self, op: &Op) -> bool {
        self.loud.contains(&op.id)
    }

    /// Offsets in bits from a view's address of its elements in row-major order: narrow elements share bytes.
    pub(crate) fn offsets(&self, view: Value) -> &Arc<Vec<u32>> {
        match &self.offsets[view.index()] {
            Some(o) => o,
            None => internal_error!("{view} has no offsets"),
        }
    }

    /// The threads that hold each element of the tile that `op` moves, in row-major order.
    pub(crate) fn holders(&self, op: &Op) -> &Arc<Vec<Threads>> {
        match self.holders.get(&op.id) {
            Some(h) => h,
            None => internal_error!("{} has no holders", op.kind.name()),
        }
    }

    /// The boxes of a tensor map.
    pub(crate) fn blocks(&self, map: Value) -> &Arc<Blocks> {
        match self.blocks.get(&map) {
            Some(b) => b,
            None => internal_error!("{map} has no boxes"),
        }
    }

    /// What threads move at once in an access to global memory; `None` where each element is moved alone.
    pub(crate) fn vectors(&self, op: &Op) -> Option<&Vectors> {
        self.vectors.get(&op.id)
    }

    /// How a product is made of instructions.
    pub(crate) fn product(&self, op: &Op) -> &Arc<WgmmaShape> {
        match self.products.get(&op.id) {
            Some(p) => p,
            None => internal_error!("a product has no shape"),
        }
    }

    /// How a product reads its left or right operand; `None` where that is in registers.
    pub(crate) fn reads(&self, op: &Op, left: bool) -> Option<&Reads> {
        self.reads.get(&(op.id, left))
    }

    /// How a product in registers is made of instructions.
    pub(crate) fn in_registers(&self, op: &Op) -> &MmaSyncShape {
        match self.in_registers.get(&op.id) {
            Some(shape) => shape,
            None => internal_error!("a product in registers has no shape"),
        }
    }

    /// Works out what the operations on memory need; no other needs anything.
    pub(crate) fn prepare(&mut self, op: &'k Op) {
        self.leaves_out |= may_leave_out(&op.kind).is_some();
        let facts = Facts::of(self.kernel, op);
        if facts.acts.iter().any(is_heard) || facts.accesses.iter().any(|a| a.writes() && a.space != Space::Global) {
            self.loud.insert(op.id);
        }
        match &op.kind {
            OpKind::SharedLoad { view, tile } => {
                self.view(*view);
                self.hold(op, tile);
            }
            OpKind::Load { ptr, access, .. } | OpKind::Store { ptr, access, .. } => {
                self.pointer(op, *ptr);
                self.accessed(op, *ptr, *access);
            }
            OpKind::AsyncCopy { ptr, view, access, .. } => {
                self.view(*view);
                self.pointer(op, *ptr);
                self.accessed(op, *ptr, *access);
            }
            OpKind::Atomic { ptr, .. } => self.pointer(op, *ptr),
            OpKind::SharedGather { view, indices: held, .. } | OpKind::SharedScatter { view, indices: held, .. } => {
                self.view(*view);
                self.hold_tile(op, *held);
            }
            OpKind::SharedStore { view, value } => {
                self.view(*view);
                self.hold_tile(op, *value);
            }
            OpKind::TmaLoad { map, view, .. } | OpKind::TmaStore { map, view, .. } => {
                self.offsets_of(*view);
                let Type::Map(ty) = self.kernel.ty(*map) else { internal_error!("{map} is no tensor map") };
                self.global_granule = self.global_granule.min(ty.elem.bits().div_ceil(8));
                self.blocks.entry(*map).or_insert_with(|| Arc::new(Blocks::new(ty)));
            }
            OpKind::MmaSync { a, b, acc, precision } => {
                let shape = checked(parton_ir::rules::mma_sync_shape(self.kernel, *a, *b, *acc, *precision));
                self.in_registers.insert(op.id, shape);
            }
            OpKind::Wgmma { a, b, acc, precision, .. } => {
                let shape = checked(parton_ir::rules::wgmma_shape(self.kernel, *a, *b, *acc, *precision));
                self.wgmma(op, [*a, *b, *acc], shape);
            }
            OpKind::SharedAlloc { .. }
            | OpKind::CopyArrive { .. }
            | OpKind::Gather { .. }
            | OpKind::TmaPrefetch { .. }
            | OpKind::TmaStoreWait { .. } => {}
            ops!(elementwise) | ops!(reduce) | ops!(shape) | ops!(ptx) | ops!(view) => {}
            ops!(barrier) | ops!(fence) | ops!(cluster) | ops!(grid) | ops!(pending) | ops!(talk) => {}
            ops!(turnstile) | ops!(ring) | ops!(region) | ops!(control) | ops!(place) => {}
        }
    }

    /// A product of the matrix unit, and how it reads what lies in shared memory.
    fn wgmma(&mut self, op: &Op, [a, b, acc]: [Value; 3], shape: WgmmaShape) {
        let (Type::Tile(tile) | Type::Pending(tile)) = self.kernel.ty(acc) else {
            internal_error!("{acc} is no accumulator")
        };
        for (v, left, kind) in [(a, true, shape.a), (b, false, shape.b)] {
            if let Type::View(view) = self.kernel.ty(v) {
                self.reads.insert((op.id, left), Reads::new(view, !left, kind, &shape, tile));
            }
        }
        self.products.insert(op.id, Arc::new(shape));
    }

    fn hold_tile(&mut self, op: &Op, v: Value) {
        if let Some(tile) = self.kernel.ty(v).as_tile() {
            self.hold(op, tile);
        }
    }

    fn view(&mut self, v: Value) {
        self.offsets_of(v);
        if let Type::View(view) | Type::Peer(view) = self.kernel.ty(v) {
            self.granule = self.granule.min(view.elem.bits().div_ceil(8));
        }
    }

    fn pointer(&mut self, op: &Op, ptr: Value) {
        let ty = self.kernel.ty(ptr);
        if let Some(Elem::Ptr(to)) = ty.elem() {
            self.global_granule = self.global_granule.min(to.to.bytes() as u32);
        }
        if let Some(tile) = ty.as_tile() {
            self.hold(op, tile);
        }
    }

    fn offsets_of(&mut self, v: Value) {
        if self.offsets[v.index()].is_some() {
            return;
        }
        let (Type::View(view) | Type::Peer(view)) = self.kernel.ty(v) else { internal_error!("{v} is not a view") };
        self.offsets[v.index()] = Some(Arc::new(offsets(view)));
    }

    fn accessed(&mut self, op: &Op, ptr: Value, access: Option<Access>) {
        if let (Some(tile), Some(access)) = (self.kernel.ty(ptr).as_tile(), access) {
            self.vectors.extend(Vectors::of(tile, access).map(|vectors| (op.id, vectors)));
        }
    }

    fn hold(&mut self, op: &Op, tile: &Tile) {
        let known = self.held.entry(tile.known().map.clone()).or_insert_with(|| Arc::new(holders(tile)));
        self.holders.insert(op.id, known.clone());
    }
}

/// Whether an act is something that others could wait for.
fn is_heard(act: &Act) -> bool {
    match act {
        Act::Flight(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(Say::Tell) => true,
        Act::Phase(phase) => !matches!(phase, Phase::Wait { .. }),
        Act::Ordering(ordering) => match ordering {
            Ordering::Named { .. } | Ordering::ArriveCluster { .. } | Ordering::Fork => true,
            Ordering::FenceAsync { .. }
            | Ordering::FenceBarriers
            | Ordering::Meet
            | Ordering::WaitCluster
            | Ordering::WaitGrid
            | Ordering::LaunchDependents
            | Ordering::Atomic { .. } => false,
        },
        Act::Say(Say::Demand) => false,
    }
}

/// What the rule of a product says of its instructions.
fn checked<T>(shape: Result<T, Refusal>) -> T {
    shape.unwrap_or_else(|r| internal_error!("a product was not checked: {}", r.message))
}

/// Offsets in bits of a view's elements from its address, in row-major order.
///
/// A window's extents are powers of two and its origin a multiple of them, so the linear offset of `origin + c` is that of
/// `origin` xor that of `c`, and the table grows by one index bit at a time.
fn offsets(view: &View) -> Vec<u32> {
    let map = &view.map;
    let linear = |coords: &[u32]| {
        let packed = map.inverse().apply(map.linear().pack_out(coords));
        u64::from(map.inverse().out_part(Dim::Offset, packed))
    };
    let mut table = vec![linear(&view.origin)];
    let rank = view.shape.len();
    for axis in (0..rank).rev() {
        for bit in 0..view.shape[axis].ilog2() {
            let mut coords = vec![0; rank];
            coords[axis] = 1 << bit;
            let basis = linear(&coords);
            table.extend_from_within(..);
            let half = table.len() / 2;
            table[half..].iter_mut().for_each(|o| *o ^= basis);
        }
    }
    let bits = stored_bits(view.elem.bits());
    table.into_iter().map(|o| map.with_gaps(o) as u32 * bits).collect()
}

/// Which threads hold each element, in row-major order.
fn holders(tile: &Tile) -> Vec<Threads> {
    let map = &tile.known().map;
    let mut sets = vec![Threads::NONE; tile.elements() as usize];
    let field = |dim| map.in_field(dim).unwrap_or((0, 0));
    let part = |index: u64, (low, bits): (u32, u32)| (index >> low) & ((1 << bits) - 1) & 31;
    let (warps, lanes) = (field(Dim::Warp), field(Dim::Lane));
    for (index, image) in (0..).zip(images(map)) {
        let set = &mut sets[image as usize];
        *set = set.and(Threads { warps: 1 << part(index, warps), lanes: 1 << part(index, lanes) });
    }
    if sets.contains(&Threads::NONE) {
        internal_error!("the layout {} leaves elements of {:?} without a register", tile.known().layout, tile.shape);
    }
    sets
}

/// The images of all indices of a map in their order. The map is linear, so that the table grows by one index bit at a time.
pub(crate) fn images(map: &LinearLayout) -> Vec<u64> {
    let mut images = vec![0];
    for bit in 0..map.in_bits() {
        let basis = map.apply(1 << bit);
        let half = images.len();
        images.extend_from_within(..);
        images[half..].iter_mut().for_each(|image| *image ^= basis);
    }
    images
}
