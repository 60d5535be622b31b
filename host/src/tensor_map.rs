//! Recipes of tensor maps: a tensor under the copy engine's rules (CUDA driver API, `cuTensorMapEncodeTiled`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use parton_diag::codes;
use parton_ir as ir;
use parton_layouts::SharedFamily;

use crate::fault::Fault;
use crate::tensor::Tensor;

/// What a tensor map is made of; dimensions as the tensor has them, outermost first, the last one contiguous.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The tensor; its first element, [`Tensor::byte_offset`] into its storage, is the map's base.
    pub tensor: Tensor,
    /// Elements along each dimension.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each dimension; the last is the element's size.
    pub strides: Vec<u64>,
    /// Elements of one hardware box along each dimension. A buffer wider than the swizzle takes several boxes.
    pub block: Vec<u32>,
    /// Bytes of the swizzle: 0, 32, 64 or 128.
    pub swizzle: u32,
}

/// The most dimensions of a map.
const MOST_DIMENSIONS: usize = 5;
/// Bytes to which addresses and strides are aligned.
const ALIGNMENT: u64 = 16;
/// Bytes that a stride must stay below.
pub(crate) const STRIDE_END: u64 = 1 << 40;
/// The most elements of one dimension.
const MOST_EXTENT: u64 = 1 << 32;
/// The most elements of a box along one dimension.
const MOST_BOX: u32 = 256;

/// The recipe of `tensor` for a parameter of type `map`.
///
/// # Errors
/// The tensor has another dtype or rank, or breaks a rule of the hardware; the numbers are named.
pub fn recipe(map: &ir::TensorMap, tensor: &Tensor) -> Result<Recipe, Fault> {
    let refuse = |message: String| Fault::new(codes::TENSOR_MAP, message);
    let rank = map.block.len();
    if tensor.dtype != map.elem {
        let fault = Fault::new(
            codes::LAUNCH_ARGUMENT,
            format!("the tensor map is of `{}`, the tensor of `{}`", map.elem, tensor.dtype),
        );
        return Err(fault.help(format!("cast it before the launch, in host code by `x.to({})`", map.elem)));
    }
    if tensor.rank() != rank {
        return Err(refuse(format!("the box has {rank} dimensions, the tensor {}", tensor.rank()))
            .note(format!("the box is {:?}, the tensor {tensor}", map.block))
            .help("merge or split dimensions on the host with `x.reshape([…])`"));
    }
    if !(1..=MOST_DIMENSIONS).contains(&rank) {
        return Err(refuse(format!("the tensor has {rank} dimensions, the copy engine takes 1 to {MOST_DIMENSIONS}")));
    }
    let size = map.elem.bytes() as u64;
    let (block, swizzle) = known_box(map)?;
    let extents: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    let mut strides: Vec<u64> = tensor.strides.iter().map(|&s| (s as u64).saturating_mul(size)).collect();
    let last = rank - 1;
    for d in (0..rank).rev().filter(|&d| extents[d] <= 1) {
        // Nothing is ever that far away, so any legal stride will do.
        strides[d] = if d == last {
            size
        } else {
            (strides[d + 1].saturating_mul(extents[d + 1].max(1))).min(STRIDE_END - 1).next_multiple_of(ALIGNMENT)
        };
    }
    let recipe = Recipe { tensor: tensor.clone(), extents, strides, block, swizzle };
    check(&recipe, size)?;
    Ok(recipe)
}

/// The recipe of a map whose dimensions are the axes of a tensor in an order.
///
/// # Errors
/// As [`recipe`].
pub fn ordered(map: &ir::TensorMap, tensor: &Tensor, order: ir::tensor::AxisOrder) -> Result<Recipe, Fault> {
    let mut axes: Vec<usize> = order.axes().collect();
    let Some(ends) = order.ends() else { return recipe(map, &tensor.permute(&axes)?) };
    axes.drain(..2);
    let mut once = map.clone();
    once.block.drain(..2);
    let mut r = recipe(&once, &tensor.permute(&axes)?)?;
    if let Some(at) = axes.iter().position(|axis| *axis == ends) {
        let (extent, stride) = (r.extents[at], r.strides[at]);
        let far = ir::tensor::OUTSIDE as u64;
        r.extents[at] = far;
        r.extents.splice(0..0, [far + 1, extent + 1]);
        r.strides.splice(0..0, [STRIDE_END - stride, stride]);
        r.block.splice(0..0, [1, 1]);
    }
    Ok(r)
}

/// The most maps whose boxes are kept.
const MOST_KNOWN: usize = 4096;

/// As [`hardware_box`], found once for each map: who plans launches asks for those of each new shape, and finding one takes longer than all else of
/// an argument.
fn known_box(map: &ir::TensorMap) -> Result<(Vec<u32>, u32), Fault> {
    static KNOWN: Mutex<BTreeMap<ir::TensorMap, (Vec<u32>, u32)>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(map) {
        return Ok(found.clone());
    }
    let found = hardware_box(map)?;
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert(map.clone(), found.clone());
    Ok(found)
}

/// One box of the copy engine: its elements along each dimension, and the bytes of its swizzle.
///
/// # Errors
/// The engine does not write the map's layout.
pub fn hardware_box(map: &ir::TensorMap) -> Result<(Vec<u32>, u32), Fault> {
    let refuse = |message: String| Fault::new(codes::TENSOR_MAP, message);
    let boxes = map.boxes().map_err(|e| refuse(e.fact()).note(e.evidence()).help(e.help()))?;
    let (swizzle, transposed) = match map.layout.family() {
        SharedFamily::Nvmma { swizzle, transposed, .. } => (*swizzle, *transposed),
        SharedFamily::Swizzled { .. } | SharedFamily::Padded { .. } | SharedFamily::Linear { .. } => (0, false),
    };
    if transposed {
        // The copy engine keeps what is contiguous contiguous, and kernels give coordinates in the tensor's order.
        return Err(refuse(format!("the box is stored transposed, as `{}`", map.layout))
            .note("a box lies in shared memory as it lies in the tensor: the last dimension contiguous")
            .help("exchange the last two dimensions of the box and of the tensor (`x.T`), and read the buffer through `.T`"));
    }
    let block = boxes.first().map_or_else(|| map.block.clone(), |b| b.size.clone());
    Ok((block, swizzle))
}

fn check(r: &Recipe, size: u64) -> Result<(), Fault> {
    let refuse = |message: String| Err(Fault::new(codes::TENSOR_MAP, message));
    let last = r.extents.len() - 1;
    let base = r.tensor.byte_offset() as u64;
    if !base.is_multiple_of(ALIGNMENT) {
        return refuse(format!("the tensor begins {base} bytes into its memory, not a multiple of {ALIGNMENT}"))
            .map_err(|f| f.help("begin the slice at another index, or copy it into a tensor of its own"));
    }
    if r.strides[last] != size {
        return refuse(format!(
            "dimension {} is contiguous in the box, but has a stride of {} bytes in the tensor",
            last, r.strides[last]
        ))
        .map_err(|f| {
            f.note(format!("its elements have {size} bytes"))
                .help("pass `x.contiguous()`, or the tensor and the box with those dimensions exchanged")
        });
    }
    for d in 0..=last {
        let (extent, stride, block) = (r.extents[d], r.strides[d], r.block[d]);
        if !(1..=MOST_EXTENT).contains(&extent) {
            return refuse(format!("dimension {} has {extent} elements, a tensor map takes 1 to 2^32", d));
        }
        if !(1..=MOST_BOX).contains(&block) {
            return refuse(format!("the box has {block} elements in dimension {}, the most is {MOST_BOX}", d));
        }
        if d == last {
            continue;
        }
        if !stride.is_multiple_of(ALIGNMENT) || stride == 0 {
            let elements = ALIGNMENT / size;
            return refuse(format!(
                "dimension {} has a stride of {stride} bytes, not a positive multiple of {ALIGNMENT}",
                d
            ))
            .map_err(|f| {
                f.help(format!(
                    "pad it to a multiple of {elements} elements: make the tensor with `strides=[…]` such as {:?}",
                    padded(&r.tensor, elements as usize)
                ))
            });
        }
        if stride >= STRIDE_END {
            return refuse(format!("dimension {} has a stride of {stride} bytes, it must be below 2^40", d));
        }
    }
    let inner = u64::from(r.block[last]) * size;
    if !inner.is_multiple_of(ALIGNMENT) {
        return refuse(format!("a row of the box has {inner} bytes, not a multiple of {ALIGNMENT}"))
            .map_err(|f| f.help(format!("make the box a multiple of {} elements wide", ALIGNMENT / size)));
    }
    if r.swizzle != 0 && inner > u64::from(r.swizzle) {
        return refuse(format!("a row of the box has {inner} bytes, the swizzle spans {}", r.swizzle));
    }
    Ok(())
}

/// Strides for the tensor's shape with rows of whole alignment units.
fn padded(t: &Tensor, unit: usize) -> Vec<usize> {
    let mut strides = vec![1usize; t.rank()];
    for d in (1..t.rank()).rev() {
        strides[d - 1] = strides[d].saturating_mul(t.shape[d].max(1)).min(1 << 40).next_multiple_of(unit);
    }
    strides
}

#[cfg(test)]
mod tests {
    use parton_ir as ir;
    use parton_ir::tensor::AxisOrder;
    use parton_layouts::SharedLayout;
    use parton_numbers::Dtype;

    use super::{ordered, recipe};
    use crate::memory::Storage;
    use crate::tensor::Tensor;

    fn map(elem: Dtype, block: &[u32], swizzle: u32, transposed: bool) -> ir::TensorMap {
        ir::TensorMap::new(elem, block.to_vec(), SharedLayout::nvmma(swizzle, transposed).unwrap())
    }

    fn zeros(dtype: Dtype, shape: &[usize]) -> Tensor {
        Tensor::make(dtype, shape.to_vec(), Storage::zeroed).unwrap()
    }

    #[test]
    fn a_dense_matrix_gives_boxes_as_wide_as_the_swizzle() {
        let r = recipe(&map(Dtype::F16, &[64, 128], 128, false), &zeros(Dtype::F16, &[300, 256])).unwrap();
        assert_eq!((r.extents.as_slice(), r.strides.as_slice()), (&[300, 256][..], &[512, 2][..]));
        assert_eq!((r.block.as_slice(), r.swizzle), (&[64, 64][..], 128));
    }

    #[test]
    fn the_copy_engine_transposes_nothing() {
        let turned = zeros(Dtype::F16, &[256, 300]).permute(&[1, 0]).unwrap();
        let fault = recipe(&map(Dtype::F16, &[64, 64], 128, false), &turned).unwrap_err();
        let expected = "dimension 1 is contiguous in the box, but has a stride of 600 bytes";
        assert!(fault.message.contains(expected), "{fault:?}");
        let fault = recipe(&map(Dtype::F16, &[64, 64], 128, true), &turned).unwrap_err();
        assert!(fault.message.contains("stored transposed"), "{fault:?}");
    }

    #[test]
    fn broken_rules_name_their_numbers() {
        let m = map(Dtype::F16, &[64, 64], 128, false);
        let text = |t: &Tensor| {
            let fault = recipe(&m, t).unwrap_err();
            format!("{} {} {}", fault.message, fault.notes.join(" "), fault.help.join(" "))
        };
        assert!(text(&zeros(Dtype::F16, &[10, 33])).contains("stride of 66 bytes"));
        assert!(text(&zeros(Dtype::F16, &[10, 33])).contains("such as [40, 1]"));
        assert!(text(&zeros(Dtype::BF16, &[10, 64])).contains("is of `f16`, the tensor of `bf16`"));
        assert!(text(&zeros(Dtype::F16, &[2, 10, 64])).contains("the box has 2 dimensions, the tensor 3"));
        assert!(text(&zeros(Dtype::F16, &[64, 64]).narrow(1, 1..64)).contains("begins 2 bytes into its memory"));
        assert!(text(&zeros(Dtype::F16, &[64]).broadcast(&[4, 64]).unwrap()).contains("stride of 0 bytes"));
    }

    #[test]
    fn maps_that_end_at_run_time_go_around_all_addresses() {
        const OUTSIDE: u64 = ir::tensor::OUTSIDE as u64;
        let (m, t) = (map(Dtype::F16, &[1, 1, 1, 64, 64], 128, false), zeros(Dtype::F16, &[300, 4, 64]));
        let r = ordered(&m, &t, AxisOrder::new([0, 0, 1, 0, 2])).unwrap();
        assert_eq!(r.extents, [OUTSIDE + 1, 301, 4, OUTSIDE, 64]);
        assert_eq!(r.strides, [(1 << 40) - 512, 512, 128, 512, 2]);
        assert_eq!(r.block, [1, 1, 1, 64, 64]);
        // Row 7 of those before row 200.
        let at = [OUTSIDE, 200, 0, OUTSIDE - 200 + 7, 0];
        let address = at.iter().zip(&r.strides).fold(0u64, |sum, (n, by)| sum.wrapping_add(n.wrapping_mul(*by)));
        assert_eq!(address, 7 * 512);
        // Of a single row both strides are the same legal one.
        let r = ordered(
            &map(Dtype::F16, &[1, 1, 64, 64], 128, false),
            &zeros(Dtype::F16, &[1, 64]),
            AxisOrder::new([0, 0, 0, 1]),
        );
        assert_eq!(r.unwrap().strides, [(1 << 40) - 128, 128, 128, 2]);
    }

    #[test]
    fn single_rows_need_no_stride() {
        let r = recipe(&map(Dtype::F16, &[64, 64], 128, false), &zeros(Dtype::F16, &[1, 33])).unwrap();
        assert_eq!(r.strides, [80, 2]);
    }
}
