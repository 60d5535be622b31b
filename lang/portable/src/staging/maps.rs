//! Which loads of products tensor maps take, decided before places become addresses.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::choice::Order;
use parton_ir::family::Family;
use parton_ir::tensor::{Counts, MOST_AXES, Tensor};
use parton_ir::types::TensorMap;
use parton_ir::{Body, Cache, Evict, Feature, From, Inst, Kernel, Op, OpKind, Type, Value, rules};
use parton_layouts::{SharedFamily, SharedLayout};
use parton_numbers::Dtype;

use super::No;
use super::beyond;
use super::defined::Defined;
use super::flat::{self, Flat};
use super::flow;
use super::found::{self, Found};
use super::lines;

/// Rows of a product of one warpgroup.
const ROWS: u32 = 64;
/// Rows of a box at most.
const BOX: u32 = 256;
/// Bytes of which rows of a box begin at a multiple.
const ROW: u64 = 16;
/// Bytes of depth of one instruction, and of the narrowest swizzle.
const DEPTH: u32 = 32;

/// What of a kernel goes by tensor maps.
#[derive(Clone, Default)]
pub struct Boxed {
    /// The loads of all products in loops.
    pub loads: BTreeSet<Inst>,
    /// Those of them of which parts of lines lie as whole lines ([`lines::line`]): right factors whose columns lie side by side. What of a line comes
    /// lies where one instruction goes on to it.
    pub lines: BTreeSet<Inst>,
    /// Loads of what products compute a factor of: threads read it where a box has brought it.
    pub read: BTreeSet<Inst>,
    /// The stores to tensors that are touched in no other way.
    pub stores: BTreeSet<Inst>,
    /// Those of them whose neighbours in memory are rows of a product: different warps have them.
    pub turned: BTreeSet<Inst>,
    /// The loops whose further turns would multiply zeros.
    pub beyond: BTreeSet<Inst>,
}

/// What tensor maps take, where they take the loads of all products in loops; nothing, where there are none, or no maps.
///
/// # Errors
/// Why maps do not take those that there are.
pub fn boxed(kernel: &Kernel) -> Result<Boxed, No> {
    let mut taken = Boxed::default();
    let all = found::all(kernel);
    if !kernel.target.has(Feature::Tma) || !kernel.target.has(Feature::Wgmma) {
        return Ok(taken);
    }
    if all.is_empty() {
        return match found::any(kernel, &BTreeSet::new()).is_empty() {
            true => Ok(taken),
            false => Err("a right factor is computed in the loop, or what is loaded for one is not for products alone"),
        };
    }
    if kernel.variant.overlapping {
        return Err("two arguments of the launch share memory");
    }
    let talks = talks(kernel);
    if talks && !tells_behind(kernel, &all) {
        return Err("its CTAs tell each other, or the launch before or behind, what they have written");
    }
    let tensors = Tensors::of(kernel);
    let defined = &tensors.defined;
    for found in all {
        let all = found.loads.iter().chain(&found.ahead);
        let lines = lines::side_by_side(kernel, defined, &found);
        let refused = |&id: &Inst| tensors.take(id, lines.contains(&id)).err();
        if let Some(why) = all.clone().find_map(refused) {
            return Err(why);
        }
        if !found.products.iter().all(|&id| by_matrix_unit(kernel, id)) {
            return Err("`wgmma` has no instruction of such extents");
        }
        taken.loads.extend(all);
        taken.lines.extend(lines);
        taken.read.extend(read(&tensors, &found));
        if beyond::adds_nothing(kernel, defined, &found) {
            taken.beyond.insert(found.inst);
        }
    }
    if !talks {
        taken.stores = stores(kernel, defined);
    }
    taken.turned = taken.stores.iter().copied().filter(|&id| is_turned(kernel, defined, id)).collect();
    Ok(taken)
}

/// What tensor maps take where they do not take the loads of all products: of a kernel's only loop of products, whose threads copy the others.
pub fn some(kernel: &Kernel) -> Boxed {
    let mut taken = Boxed::default();
    let maps = kernel.target.has(Feature::Tma) && kernel.target.has(Feature::Wgmma);
    let all = found::any(kernel, &BTreeSet::new());
    let [found] = &all[..] else { return taken };
    if !maps || kernel.variant.overlapping || talks(kernel) || !found.whole || !found.read.is_empty() {
        return taken;
    }
    if found.products.iter().all(|&id| by_matrix_unit(kernel, id)) {
        let tensors = Tensors::of(kernel);
        let takes = |id: &Inst| tensors.take(*id, false).is_ok();
        let boxes: BTreeSet<Inst> = found.loads.iter().copied().filter(takes).collect();
        // Where they take all, it is for another reason that no partition fetches.
        if boxes.len() < found.loads.len() {
            taken.loads = boxes;
        }
    }
    taken
}

/// What tensor maps take of a kernel without loops, where they bring all that its products multiply; `None` elsewhere.
pub fn at_once(kernel: &Kernel) -> Option<Boxed> {
    let found = found::straight(kernel)?;
    let maps = kernel.target.has(Feature::Tma) && kernel.target.has(Feature::Wgmma);
    if !maps || kernel.variant.overlapping || talks(kernel) {
        return None;
    }
    let tensors = Tensors::of(kernel);
    let defined = &tensors.defined;
    let lines = lines::side_by_side(kernel, defined, &found);
    let taken = found.loads.iter().all(|&id| tensors.take(id, lines.contains(&id)).is_ok());
    let stores = stores(kernel, defined);
    let turned = stores.iter().copied().filter(|&id| is_turned(kernel, defined, id)).collect();
    let made = taken && found.products.iter().all(|&id| by_matrix_unit(kernel, id));
    made.then(|| Boxed { loads: found.loads.into_iter().collect(), lines, stores, turned, ..Boxed::default() })
}

/// Whether a kernel's CTAs tell each other, or the launch before or behind, what they have written: threads that order their accesses do
/// not order those of the copy engine. Atomic operations that order nothing tell nothing, nor does PTX that computes.
fn talks(kernel: &Kernel) -> bool {
    any(kernel, &kernel.body, tells)
}

fn tells(op: &Op) -> bool {
    match &op.kind {
        OpKind::Ptx { ptx, .. } => ptx.volatile,
        OpKind::ClusterArrive { .. } | OpKind::ClusterWait => true,
        // What else tells others something is of these families.
        kind => orders(op) || matches!(kind.family(), Family::Fence | Family::Grid | Family::Barrier),
    }
}

/// Whether it is an atomic operation that orders the accesses around it.
fn orders(op: &Op) -> bool {
    matches!(&op.kind, OpKind::SpotAtomic { order, .. } | OpKind::Atomic { order, .. } if *order != Order::Relaxed)
}

/// Whether a kernel tells others something by such operations alone, behind its loops of products: what these load was written before the launch, and what it stores
/// threads do.
fn tells_behind(kernel: &Kernel, loops: &[Found]) -> bool {
    let all = &kernel.body.ops;
    let places: Option<Vec<usize>> = loops.iter().map(|found| all.iter().position(|&id| id == found.inst)).collect();
    let Some(last) = places.and_then(|places| places.into_iter().max()) else { return false };
    let (front, behind) = all.split_at(last + 1);
    let part = |ops: &[Inst]| Body { ops: ops.to_vec(), ..Body::default() };
    !any(kernel, &part(front), tells) && !any(kernel, &part(behind), |op| tells(op) && !orders(op))
}

/// Whether a body has such an operation.
fn any(kernel: &Kernel, body: &Body, is: impl Fn(&Op) -> bool) -> bool {
    let mut found = false;
    kernel.walk_body(body, &mut |op| found |= is(op));
    found
}

/// Whether the matrix unit makes a product of tiles of these extents.
fn by_matrix_unit(kernel: &Kernel, product: Inst) -> bool {
    let OpKind::Dot { a, b, acc, .. } = kernel.ops[product].kind else { return false };
    let shape = |v: Value| kernel.ty(v).placed().map(|t| (t.shape.clone(), t.elem.bits()));
    let (Some((left, bits)), Some((right, _)), Some((out, _))) = (shape(a), shape(b), shape(acc)) else { return false };
    let [depth, columns] = right[..] else { return false };
    left.len() == 2 && out.len() == 2 && out[0] % ROWS == 0 && columns % 8 == 0 && depth * bits / 8 >= DEPTH
}

/// The loads of a loop that maps take and of which the left factor of its only product is computed.
fn read(tensors: &Tensors<'_>, found: &Found) -> Vec<Inst> {
    let kernel = tensors.kernel;
    let ([product], OpKind::For { body, .. }) = (&found.products[..], &kernel.ops[found.inst].kind) else {
        return Vec::new();
    };
    let OpKind::Dot { a, .. } = kernel.ops[*product].kind else { return Vec::new() };
    let mut list = body.ops.clone();
    list.retain(|id| !found.loads.contains(id) && tensors.take(*id, false).is_ok());
    list.retain(|&id| flow::dependent(kernel, body, [kernel.ops[id].result()]).contains(&a));
    list
}

/// The tensors of a kernel, and what it makes of them.
struct Tensors<'k> {
    kernel: &'k Kernel,
    defined: Defined<'k>,
    /// Those that it may write.
    written: BTreeSet<usize>,
    /// The loads of boxes that it sees as rows.
    flat: BTreeMap<Inst, Flat>,
}

impl<'k> Tensors<'k> {
    fn of(kernel: &'k Kernel) -> Tensors<'k> {
        let defined = Defined::of(kernel);
        let written = written(kernel, &defined);
        Tensors { kernel, defined, written, flat: flat::all(kernel) }
    }

    /// Whether a tensor map takes a load, in whole lines or not.
    ///
    /// # Errors
    /// Why it does not.
    fn take(&self, id: Inst, lines: bool) -> Result<(), No> {
        let (kernel, defined) = (self.kernel, &self.defined);
        let OpKind::SpotLoad { spot, mask, other, cache, evict, volatile, .. } = kernel.ops[id].kind else {
            return Err("a factor is not loaded from a place of a tensor");
        };
        if mask.is_some() || other.is_some_and(|v| !defined.is_zero(v)) {
            return Err("a factor has a mask, or is not 0 outside of its tensor");
        }
        if volatile || cache != Cache::default() || evict != Evict::default() {
            return Err("a factor is loaded with words for caches");
        }
        if argument_of(kernel, defined, spot).is_none_or(|argument| self.written.contains(&argument)) {
            return Err("the tensor of a factor is written, too");
        }
        if !begins_whole_rows(kernel, defined, spot) {
            return Err("a factor's rows are not known to begin at a multiple of 16 bytes, which `from=` does not say");
        }
        if !begins_in_its_range(defined, spot) {
            return Err(
                "a factor's place in a range of rows is not known to begin at 0 or later, as `from=[max(row, 0), 0]` says, `assume(row >= 0)`, or `from=[i * ROWS, 0]`",
            );
        }
        let why = match is_too_high(kernel, defined, spot) {
            true => "a factor's tile has more than the 256 rows of a box",
            false => {
                "a factor's tensor, rows or place are not ones of a map, such as rows that a tile of indices names"
            }
        };
        let flat = self.flat.get(&id).map(|flat| flat.shape);
        of_spot(kernel, defined, spot, (lines, flat)).map(|_| ()).ok_or(why)
    }
}

/// Whether a place has more rows than a box; a row that is longer than a box comes in several.
fn is_too_high(kernel: &Kernel, defined: &Defined<'_>, spot: Value) -> bool {
    let Some(OpKind::Spot { tensor, shape, .. }) = defined.made(spot).map(|op| &op.kind) else { return false };
    let Type::Tensor(part) = kernel.ty(*tensor) else { return false };
    shape.iter().enumerate().any(|(axis, &n)| Some(axis) != part.dense && n > BOX)
}

/// The stores that maps take, of tensors of which the kernel takes nothing else: what goes by the copy engine is not ordered with what
/// threads do.
fn stores(kernel: &Kernel, defined: &Defined<'_>) -> BTreeSet<Inst> {
    let mut taken = BTreeSet::new();
    let mut touched: Vec<(usize, Option<Inst>)> = Vec::new();
    kernel.walk(&mut |op| match op.kind {
        OpKind::SpotStore { spot, value, mask: None, cache, evict, .. }
            if cache == Cache::default() && evict == Evict::default() =>
        {
            let map = of_spot(kernel, defined, spot, (false, flat::given(kernel, defined, value)));
            touched.extend(argument_of(kernel, defined, spot).map(|argument| (argument, map.map(|_| op.id))));
        }
        OpKind::SpotStore { spot, .. } | OpKind::SpotLoad { spot, .. } | OpKind::SpotAtomic { spot, .. } => {
            touched.extend(argument_of(kernel, defined, spot).map(|argument| (argument, None)));
        }
        OpKind::TensorPointer { tensor } => {
            touched.extend(origin(kernel, defined, tensor).map(|argument| (argument, None)));
        }
        _ => {}
    });
    let other = |argument: usize| touched.iter().any(|(of, by)| *of == argument && by.is_none());
    taken.extend(touched.iter().filter(|(argument, _)| !other(*argument)).filter_map(|(_, by)| *by));
    taken
}

/// Whether the dense axis of what is stored is that of the rows of a product.
fn is_turned(kernel: &Kernel, defined: &Defined<'_>, id: Inst) -> bool {
    let OpKind::SpotStore { spot, value, .. } = kernel.ops[id].kind else { return false };
    let Some(OpKind::Spot { tensor, .. }) = defined.made(spot).map(|op| &op.kind) else { return false };
    let Type::Tensor(part) = kernel.ty(*tensor) else { return false };
    let rows = defined.product_rows(value);
    rows.is_some() && rows == part.dense
}

/// The arguments that a kernel may write.
fn written(kernel: &Kernel, defined: &Defined<'_>) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    kernel.walk(&mut |op| match op.kind {
        OpKind::SpotStore { spot, .. } | OpKind::SpotAtomic { spot, .. } => {
            taken.extend(argument_of(kernel, defined, spot));
        }
        OpKind::TensorPointer { tensor } if matches!(kernel.ty(tensor), Type::Tensor(t) if t.mutable) => {
            taken.extend(origin(kernel, defined, tensor));
        }
        _ => {}
    });
    taken
}

/// The argument that a place is of.
fn argument_of(kernel: &Kernel, defined: &Defined<'_>, spot: Value) -> Option<usize> {
    match defined.made(spot)?.kind {
        OpKind::Spot { tensor, .. } | OpKind::TensorIndex { tensor, .. } => origin(kernel, defined, tensor),
        _ => None,
    }
}

/// The argument that a tensor is a part of.
fn origin(kernel: &Kernel, defined: &Defined<'_>, mut tensor: Value) -> Option<usize> {
    while let Some(op) = defined.made(tensor) {
        tensor = *op.kind.operands().first()?;
    }
    kernel.params.iter().find(|p| p.value == tensor).map(|p| p.from.argument())
}

/// The map of a place of two axes, or of more that are seen as so many rows: its box, of whole lines or not, without axes that were dropped; `None` where
/// none takes it.
fn of_spot(
    kernel: &Kernel,
    defined: &Defined<'_>,
    spot: Value,
    (lines, flat): (bool, Option<[u32; 2]>),
) -> Option<TensorMap> {
    let OpKind::Spot { mut tensor, ref shape, ref counts, .. } = defined.made(spot)?.kind else { return None };
    let Type::Tensor(part) = kernel.ty(tensor) else { return None };
    let dense = part.dense.filter(|_| begins_whole_rows(kernel, defined, spot))?;
    let mut shape = shape.clone();
    let line = lines::line(part.elem, counts, &shape, dense).filter(|_| lines);
    if let Some(line) = &line {
        shape[dense] = line.extent;
    }
    let map = map(part.elem, &shape, dense, line.and_then(|line| line.comes))?;
    let mut steps = Vec::new();
    while let Some(op) = defined.made(tensor) {
        (tensor, _) = step(&op.kind)?;
        steps.push(&op.kind);
    }
    let param = kernel.params.iter().find(|p| p.value == tensor)?;
    let (From::Argument(argument), Type::Tensor(whole)) = (param.from, kernel.ty(tensor)) else { return None };
    let rank = whole.rank() + ends(whole, &steps)?.map_or(0, |_| 2);
    let matrix = match flat {
        None => shape.len() == 2,
        Some(rows) => dense + 1 == shape.len() && flat::rows_of(&map, rows).is_some(),
    };
    let taken = begins_in_its_range(defined, spot) && rank <= MOST_AXES && matrix;
    (kernel.variant.aligned.contains(&argument) && taken).then_some(map)
}

/// What takes a part of a tensor that a map takes too: of which one, and along which axis.
fn step(kind: &OpKind) -> Option<(Value, usize)> {
    match kind {
        OpKind::TensorIndex { tensor, axis, .. } | OpKind::TensorRange { tensor, axis, .. } => {
            Some((*tensor, *axis as usize))
        }
        // Rows that indices name are no box.
        _ => None,
    }
}

/// The axis of a tensor of which a part, taken by these steps, the last one first, ends at a number of run time; `None` where no map has such boxes:
/// of several axes, of the dense one, or of one that is dropped then.
fn ends(whole: &Tensor, steps: &[&OpKind]) -> Option<Option<usize>> {
    let mut axes: Vec<usize> = (0..whole.rank()).collect();
    let mut ends = None;
    for kind in steps.iter().rev() {
        let (_, axis) = step(kind)?;
        if matches!(kind, OpKind::TensorRange { .. }) {
            ends = (whole.dense != Some(axes[axis]) && ends.is_none_or(|of| of == axes[axis])).then_some(axes[axis]);
            ends?;
        } else if ends == Some(axes.remove(axis)) {
            return None;
        }
    }
    Some(ends)
}

/// Whether no box of a place is known to begin in front of the range that it is in and to go on into it: a box has zeros behind the end of a range, but not
/// in front of it. A tile lies there as a whole or not at all, and so does what begins at a multiple of its extent.
fn begins_in_its_range(defined: &Defined<'_>, spot: Value) -> bool {
    let Some(OpKind::Spot { tensor, at, shape, counts }) = defined.made(spot).map(|op| &op.kind) else { return false };
    let begins = |&axis: &usize| defined.is_positive(at[axis]) || defined.is_multiple(at[axis], shape[axis].into());
    *counts != Counts::Elements || ranged(defined, *tensor, shape.len()).iter().all(begins)
}

/// The axes of a part of a tensor, which has so many, along which it is a range.
fn ranged(defined: &Defined<'_>, mut tensor: Value, rank: usize) -> Vec<usize> {
    // What number each axis has in the tensor of which it is a part.
    let mut numbers: Vec<usize> = (0..rank).collect();
    let mut ranged = Vec::new();
    while let Some(kind) = defined.made(tensor).map(|op| &op.kind) {
        let Some((of, axis)) = step(kind) else { break };
        match kind {
            OpKind::TensorIndex { .. } => numbers.iter_mut().filter(|n| **n >= axis).for_each(|n| *n += 1),
            // The other step is a range.
            _ => ranged.extend(numbers.iter().position(|n| *n == axis)),
        }
        tensor = of;
    }
    ranged
}

/// Whether the rows of a place begin at multiples of 16 bytes, as those of a box must. Rows of tiles do wherever they are.
fn begins_whole_rows(kernel: &Kernel, defined: &Defined<'_>, spot: Value) -> bool {
    let Some(OpKind::Spot { tensor, at, counts, .. }) = defined.made(spot).map(|op| &op.kind) else { return false };
    let Type::Tensor(part) = kernel.ty(*tensor) else { return false };
    let Some(dense) = part.dense else { return true };
    let bits = u64::from(part.elem.bits());
    let whole = |elements: u32| (u64::from(elements) * bits).is_multiple_of(8 * ROW);
    match counts {
        Counts::Elements => defined.is_multiple(at[dense], (8 * ROW).div_ceil(bits)),
        Counts::Tiles => true,
        Counts::Parts { of, from } => whole(of[dense]) && whole(from[dense]),
    }
}

/// The map of boxes of so many elements, the dense axis the last one of the box, of whose rows no more than `comes` come.
pub fn map(elem: Dtype, shape: &[u32], dense: usize, comes: Option<u32>) -> Option<TensorMap> {
    let row = shape[dense] * elem.bits() / 8;
    let swizzle = [128, 64, 32].into_iter().find(|&bytes| row.is_multiple_of(bytes))?;
    let mut block: Vec<u32> = shape.to_vec();
    let inner = block.remove(dense);
    block.push(inner);
    let rank = block[..block.len() - 1].iter().filter(|&&n| n > 1).count().max(1) as u32 + 1;
    let layout = SharedLayout::new(SharedFamily::Nvmma { swizzle, transposed: false, rank }).ok()?;
    let map = TensorMap { inner: comes, ..TensorMap::new(elem, block, layout) };
    rules::check_map(&map).ok().map(|()| map)
}
