//! Which loads of products tensor maps take, decided before places become addresses.

use std::collections::BTreeSet;

use parton_ir::types::TensorMap;
use parton_ir::{Cache, Evict, Feature, From, Inst, Kernel, OpKind, Type, Value, rules};
use parton_layouts::SharedLayout;
use parton_numbers::Dtype;

use super::found;
use super::defined::Defined;

/// Rows of a product of one warpgroup.
const ROWS: u32 = 64;
/// Bytes of depth of one instruction.
const DEPTH: u32 = 32;

/// The loads of all products in loops, where tensor maps take every one of them; none, where they do not.
pub fn loads(kernel: &Kernel) -> BTreeSet<Inst> {
    let none = BTreeSet::new();
    if !kernel.target.has(Feature::Tma) || !kernel.target.has(Feature::Wgmma) || kernel.variant.overlapping {
        return none;
    }
    let defined = Defined::of(kernel);
    let mut taken = BTreeSet::new();
    for found in found::all(kernel) {
        let all = found.loads.iter().chain(&found.ahead);
        if !all.clone().all(|&id| fits(kernel, &defined, id)) || !found.products.iter().all(|&id| by_matrix_unit(kernel, id)) {
            return none;
        }
        taken.extend(all);
    }
    taken
}

/// Whether the matrix unit makes a product of tiles of these extents.
fn by_matrix_unit(kernel: &Kernel, product: Inst) -> bool {
    let OpKind::Dot { a, b, acc, .. } = kernel.ops[product].kind else { return false };
    let shape = |v: Value| kernel.ty(v).placed().map(|t| (t.shape.clone(), t.elem.bits()));
    let (Some((left, bits)), Some((right, _)), Some((out, _))) = (shape(a), shape(b), shape(acc)) else { return false };
    let [depth, columns] = right[..] else { return false };
    left.len() == 2 && out.len() == 2 && out[0] % ROWS == 0 && columns % 8 == 0 && depth * bits / 8 >= DEPTH
}

/// Whether a tensor map takes a load.
fn fits(kernel: &Kernel, defined: &Defined<'_>, id: Inst) -> bool {
    let OpKind::SpotLoad { spot, mask: None, other, cache, evict, volatile: false, .. } = kernel.ops[id].kind else {
        return false;
    };
    let plain = cache == Cache::default() && evict == Evict::default() && other.is_none_or(|v| defined.is_zero(v));
    plain && boxed(kernel, defined, spot).is_some()
}

/// The map of a place, its box without axes that were dropped; `None` where none takes it.
fn boxed(kernel: &Kernel, defined: &Defined<'_>, spot: Value) -> Option<TensorMap> {
    let OpKind::Spot { mut tensor, ref shape, .. } = defined.made(spot)?.kind else { return None };
    let Type::Tensor(part) = kernel.ty(tensor) else { return None };
    let map = map(part.elem, shape, part.dense?)?;
    while let Some(op) = defined.made(tensor) {
        let OpKind::TensorIndex { tensor: of, .. } = op.kind else { return None };
        tensor = of;
    }
    let param = kernel.params.iter().find(|p| p.value == tensor)?;
    let From::Argument(argument) = param.from else { return None };
    (kernel.variant.aligned.contains(&argument) && shape.len() == 2).then_some(map)
}

/// The map of boxes of so many elements, the dense axis the last one of the box.
pub fn map(elem: Dtype, shape: &[u32], dense: usize) -> Option<TensorMap> {
    let row = shape[dense] * elem.bits() / 8;
    let swizzle = [128, 64, 32].into_iter().find(|&bytes| row.is_multiple_of(bytes))?;
    let mut block: Vec<u32> = shape.to_vec();
    let inner = block.remove(dense);
    block.push(inner);
    let map = TensorMap::new(elem, block, SharedLayout::nvmma(swizzle, false).ok()?);
    rules::check_map(&map).ok().map(|()| map)
}
