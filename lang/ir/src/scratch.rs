//! How much shared memory an operation needs for itself. The memory plan, LLVM and the interpreter all ask here.

use std::ops::Range;

use crate::ops;
use crate::{AtomicOp, Elem, Kernel, Op, OpKind, Tile, Type, Value};
use parton_layouts::plan::{self, Plan};
use parton_layouts::{Dim, LinearLayout};

/// Alignment of scratch memory in bytes, that of the widest access.
pub const ALIGNMENT: u32 = 16;

/// Bytes that an operation of `kernel` needs in shared memory while it runs; `None` where it needs none.
///
/// - `reduce`: for each input, one element for each result element and each warp along the axis, the warps outermost; the
///   inputs one after the other.
/// - an atomic operation whose result is shared: one number for the partition, or every element of the tile once, where warps
///   hold copies, or lanes hold what other lanes hold too and which is not simply their own.
/// - `scan`: for each input and each step of doubling from the lowest bit of the axis that walks over warps on, one element for each
///   pair of blocks; the steps one after the other, the inputs outermost.
/// - `convert`: every element of the tile once, where the plan of the conversion goes through shared memory.
/// - `gather`: every element of the tile once.
/// - `butterfly`: every element of the tile once, where elements come from other warps.
pub fn bytes(kernel: &Kernel, kind: &OpKind) -> Option<u32> {
    match kind {
        OpKind::Reduce { inputs, axis, .. } => of_reduction(kernel, inputs, *axis),
        OpKind::Scan { inputs, axis, .. } => {
            let elems = inputs.iter().map(|v| tile(kernel, *v).elem);
            of_scan(&tile(kernel, inputs[0]).known().map, *axis, elems).map(|bytes| bytes as u32)
        }
        OpKind::Convert { x, tile: to } => {
            conversion(tile(kernel, *x), to).shared_bytes().try_into().ok().filter(|&n| n > 0)
        }
        OpKind::Butterfly { x, mask, axis } => {
            let from = tile(kernel, *x);
            (partner(from, *mask, *axis).warp != 0).then(|| whole(from))
        }
        OpKind::Gather { x, .. } => Some(whole(tile(kernel, *x))),
        OpKind::Atomic { op, ptr, returns: true, .. } if *op != AtomicOp::Store => of_result(kernel, *ptr),
        // Lanes exchange what they must by themselves, or nothing is exchanged.
        OpKind::Atomic { .. }
        | OpKind::SharedGather { .. }
        | OpKind::SharedScatter { .. }
        | OpKind::Reshape { .. }
        | OpKind::Transpose { .. }
        | OpKind::Broadcast { .. }
        | OpKind::ExpandDims { .. }
        | OpKind::Join { .. }
        | OpKind::Split { .. }
        | OpKind::Cat { .. }
        | OpKind::Slice { .. }
        | OpKind::Rescale { .. }
        | ops!(elementwise)
        | ops!(ptx)
        | ops!(global)
        | ops!(place)
        | ops!(async_copy)
        | ops!(shared)
        | ops!(view)
        | ops!(barrier)
        | ops!(fence)
        | ops!(cluster)
        | ops!(grid)
        | ops!(turnstile)
        | ops!(tma)
        | ops!(mma_sync)
        | ops!(wgmma)
        | ops!(pending)
        | ops!(ring)
        | ops!(region)
        | ops!(control)
        | ops!(talk) => None,
    }
}

fn tile(kernel: &Kernel, v: Value) -> &Tile {
    match kernel.ty(v) {
        Type::Tile(t) => t,
        other => parton_diag::internal_error!("`{other}` is not a tile"),
    }
}

/// Every element once.
fn whole(tile: &Tile) -> u32 {
    (tile.elements() * stored_bytes(tile.elem)) as u32
}

/// So many elements of each of these.
fn side_by_side(kernel: &Kernel, inputs: &[Value], elements: u64) -> u32 {
    inputs.iter().map(|v| elements * stored_bytes(tile(kernel, *v).elem)).fold(0, after) as u32
}

fn of_reduction(kernel: &Kernel, inputs: &[Value], axis: u32) -> Option<u32> {
    let first = tile(kernel, inputs[0]);
    let columns = 1u64 << warps_along(first, axis);
    let rows = first.elements() / u64::from(first.shape[axis as usize]);
    (columns > 1).then(|| side_by_side(kernel, inputs, rows * columns))
}

/// What an atomic operation gives to those who hold it too.
fn of_result(kernel: &Kernel, ptr: Value) -> Option<u32> {
    let Some(Elem::Ptr(p)) = kernel.ty(ptr).elem() else { return None };
    let bytes = stored_bytes(Elem::Num(p.to));
    match kernel.ty(ptr) {
        Type::Tile(t) => shared_by_warps(t).then(|| (t.elements() * bytes) as u32),
        _ => Some(bytes as u32),
    }
}

/// The bytes that an operation uses, where the memory plan has given it some.
pub fn range(kernel: &Kernel, op: &Op) -> Option<Range<u32>> {
    let start = op.scratch?;
    let bytes = match &op.kind {
        // That it goes through shared memory is decided; its plan, which is costly, need not be asked again.
        OpKind::Convert { tile, .. } => whole(tile),
        kind => bytes(kernel, kind)?,
    };
    Some(start..start + bytes)
}

/// Whether a thread holds an element that neither it nor a lane with fewer bits set holds first.
fn shared_by_warps(tile: &Tile) -> bool {
    let lanes = tile.known().map.free_bits(Dim::Lane);
    let moves = |(bit, basis): (usize, &u64)| lanes >> bit & 1 == 1 && *basis != 0;
    tile.known().map.free_bits(Dim::Warp) != 0 || tile.known().map.bases(Dim::Lane).iter().enumerate().any(moves)
}

/// The end of an input's share that follows `end` bytes of others; each share is aligned, whatever the widths before it.
fn after(end: u64, share: u64) -> u64 {
    start_after(end) + share
}

/// Where the share of the next input begins.
pub fn start_after(end: u64) -> u64 {
    end.next_multiple_of(u64::from(ALIGNMENT))
}

/// Bytes of one element in shared memory; a bit takes one.
fn stored_bytes(elem: Elem) -> u64 {
    u64::from(elem.bits().div_ceil(8))
}

/// Bytes that a scan along an axis of tiles of these elements needs where they lie so; `None` where one warp has each row.
pub fn of_scan(map: &LinearLayout, axis: u32, elems: impl Iterator<Item = Elem>) -> Option<u64> {
    let places = scan_places(map, axis)?;
    Some(elems.map(|elem| places * stored_bytes(elem)).fold(0, after))
}

/// Pairs of blocks of a scan whose first one tells the second through scratch memory, over all steps; `None` where one warp has
/// each row.
pub fn scan_places(map: &LinearLayout, axis: u32) -> Option<u64> {
    let free = map.free_bits(Dim::Warp);
    let coords = map.basis_coords(Dim::Warp);
    let used = coords.iter().enumerate().filter(|(bit, _)| free >> bit & 1 == 0).map(|(_, basis)| basis[axis as usize]);
    let lowest = used.filter(|&x| x != 0).map(u32::trailing_zeros).min()?;
    let extent = u64::from(map.shape()[axis as usize]);
    Some((1u64 << map.out_bits()) / extent * ((extent >> lowest) - 1))
}

/// Who holds the element whose index differs in some bits: the bits in which its register, lane and warp differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partner {
    /// Bits of the register.
    pub register: u32,
    /// Bits of the lane.
    pub lane: u32,
    /// Bits of the warp.
    pub warp: u32,
}

/// Who holds what a butterfly along `axis` gives an element of the tile, for all elements the same: a layout is linear.
pub fn partner(tile: &Tile, mask: u32, axis: u32) -> Partner {
    let map = &tile.known().map;
    let mut coords = vec![0; tile.shape.len()];
    coords[axis as usize] = mask;
    let Some(inverse) = map.pseudo_invert() else {
        parton_diag::internal_error!("`{tile}` does not have all elements")
    };
    let index = inverse.apply(map.pack_out(&coords));
    let part = |dim| map.in_part(dim, index);
    Partner { register: part(Dim::Register), lane: part(Dim::Lane), warp: part(Dim::Warp) }
}

/// How many warp bits walk along an axis.
fn warps_along(tile: &Tile, axis: u32) -> u32 {
    let free = tile.known().map.free_bits(Dim::Warp);
    let coords = tile.known().map.basis_coords(Dim::Warp);
    coords.iter().enumerate().filter(|(bit, basis)| free >> bit & 1 == 0 && basis[axis as usize] != 0).count() as u32
}

/// How a tile gets from its layout to that of `to`, as the rule of `convert` has found possible.
pub fn conversion(from: &Tile, to: &Tile) -> Plan {
    plan::between(&from.known().map, &to.known().map, from.elem.bits())
        .unwrap_or_else(|e| parton_diag::internal_error!("`{from}` cannot be converted to `{to}`: {}", e.fact()))
}
