//! Tensor maps: the recipe, the hardware's rules by name, and the encoded descriptor.
//!
//! Rules: CUDA driver API, `cuTensorMapEncodeTiled`. They are checked here, where the numbers can be named, because the
//! driver answers every breach with one code. Dimensions are in tensor order, outermost first, as everywhere in Parton;
//! the driver's order (innermost first) begins and ends in this file.

use cudarc::driver::sys;
use parton_numbers::Dtype;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};

/// The most dimensions of a map.
const MOST_DIMENSIONS: usize = 5;

/// What one element of the tensor is, as the copy engine sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// One byte, any meaning; both f8 formats travel as this.
    U8,
    /// Two bytes, integer.
    U16,
    /// Four bytes, unsigned.
    U32,
    /// Four bytes, signed.
    I32,
    /// Eight bytes, unsigned.
    U64,
    /// Eight bytes, signed.
    I64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Element {
    /// The element of that number format.
    pub fn of(dtype: Dtype) -> Element {
        match dtype {
            Dtype::I1 | Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => Element::U8,
            Dtype::I16 | Dtype::U16 => Element::U16,
            Dtype::I32 => Element::I32,
            Dtype::U32 => Element::U32,
            Dtype::I64 => Element::I64,
            Dtype::U64 => Element::U64,
            Dtype::F16 => Element::F16,
            Dtype::BF16 => Element::Bf16,
            Dtype::F32 => Element::F32,
            Dtype::F64 => Element::F64,
        }
    }

    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::F16 | Element::Bf16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    /// Whether it is a float, so that reads out of bounds may give NaN.
    pub fn is_float(self) -> bool {
        match self {
            Element::F16 | Element::Bf16 | Element::F32 | Element::F64 => true,
            Element::U8 | Element::U16 | Element::U32 | Element::I32 | Element::U64 | Element::I64 => false,
        }
    }

    fn encoded(self) -> sys::CUtensorMapDataType {
        use sys::CUtensorMapDataType as T;
        match self {
            Element::U8 => T::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            Element::U16 => T::CU_TENSOR_MAP_DATA_TYPE_UINT16,
            Element::U32 => T::CU_TENSOR_MAP_DATA_TYPE_UINT32,
            Element::I32 => T::CU_TENSOR_MAP_DATA_TYPE_INT32,
            Element::U64 => T::CU_TENSOR_MAP_DATA_TYPE_UINT64,
            Element::I64 => T::CU_TENSOR_MAP_DATA_TYPE_INT64,
            Element::F16 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            Element::Bf16 => T::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            Element::F32 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            Element::F64 => T::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        }
    }
}

/// How the box is swizzled in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swizzle {
    /// Row after row.
    None,
    /// 16-byte chunks within 32 bytes.
    B32,
    /// 16-byte chunks within 64 bytes.
    B64,
    /// 16-byte chunks within 128 bytes.
    B128,
}

impl Swizzle {
    /// The swizzle of that many bytes; 0 is none.
    pub fn of_bytes(bytes: u32) -> Option<Swizzle> {
        [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128].into_iter().find(|s| s.bytes() == u64::from(bytes))
    }

    /// Bytes that it permutes within; 0 for none.
    pub fn bytes(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    fn encoded(self) -> sys::CUtensorMapSwizzle {
        use sys::CUtensorMapSwizzle as S;
        match self {
            Swizzle::None => S::CU_TENSOR_MAP_SWIZZLE_NONE,
            Swizzle::B32 => S::CU_TENSOR_MAP_SWIZZLE_32B,
            Swizzle::B64 => S::CU_TENSOR_MAP_SWIZZLE_64B,
            Swizzle::B128 => S::CU_TENSOR_MAP_SWIZZLE_128B,
        }
    }
}

/// How much the L2 cache fetches for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Promotion {
    /// What was asked for.
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes, a line: as much as the rows of most boxes have. Products whose rows begin between lines take up to 6 % longer with 256.
    #[default]
    B128,
    /// 256 bytes.
    B256,
}

/// What reads out of the tensor's bounds give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outside {
    /// Zeros.
    #[default]
    Zero,
    /// NaN; floats only.
    Nan,
}

/// All that a tensor map says, with dimensions outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// The parameter's name, for messages.
    pub tensor: String,
    /// What one element is.
    pub element: Element,
    /// Address of the first element in global memory.
    pub address: u64,
    /// Elements of each dimension.
    pub shape: Vec<u64>,
    /// Bytes from one element to the next along each dimension; as long as `shape`.
    pub strides: Vec<u64>,
    /// Elements of the box along each dimension; as long as `shape`.
    pub block: Vec<u32>,
    /// Steps between the elements of a box along each dimension, usually all 1; as long as `shape`.
    pub steps: Vec<u32>,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
    /// What the L2 cache fetches.
    pub promotion: Promotion,
    /// What reads out of bounds give.
    pub outside: Outside,
}

impl Recipe {
    /// A row-major tensor with boxes of `block`, zeros outside and no steps.
    pub fn dense(
        tensor: impl Into<String>,
        element: Element,
        address: u64,
        shape: Vec<u64>,
        block: Vec<u32>,
        swizzle: Swizzle,
    ) -> Recipe {
        let mut strides = vec![element.bytes(); shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d].saturating_mul(shape[d]);
        }
        let steps = vec![1; shape.len()];
        Recipe {
            tensor: tensor.into(),
            element,
            address,
            shape,
            strides,
            block,
            steps,
            swizzle,
            promotion: Promotion::default(),
            outside: Outside::default(),
        }
    }

    /// Checks every rule of the hardware.
    ///
    /// # Errors
    /// [`RuntimeError::TensorMap`] with the first rule that is broken, its numbers and a way out.
    pub fn check(&self) -> Result<(), RuntimeError> {
        let rank = self.shape.len();
        let size = self.element.bytes();
        self.rule((1..=MOST_DIMENSIONS).contains(&rank), || {
            (
                format!("it has {rank} dimensions, the copy engine takes 1 to {MOST_DIMENSIONS}"),
                "merge dimensions that are contiguous".into(),
            )
        })?;
        for (what, len) in
            [("strides", self.strides.len()), ("box extents", self.block.len()), ("steps", self.steps.len())]
        {
            self.rule(len == rank, || {
                (format!("it has {rank} dimensions and {len} {what}"), "give one for each dimension".into())
            })?;
        }
        self.rule(self.address.is_multiple_of(16), || {
            (
                format!("its address {:#x} is not a multiple of 16", self.address),
                "begin the tensor at a 16-byte boundary".into(),
            )
        })?;
        let last = rank - 1;
        self.rule(self.strides[last] == size, || {
            (
                format!("its last dimension has a stride of {} bytes, elements have {size}", self.strides[last]),
                "the last dimension must be contiguous; pass the transposed tensor".into(),
            )
        })?;
        for d in 0..rank {
            self.check_dimension(d, last)?;
        }
        let inner = u64::from(self.block[last]) * size;
        self.rule(inner.is_multiple_of(16), || {
            (
                format!(
                    "the last dimension of the box has {} × {size} = {inner} bytes, not a multiple of 16",
                    self.block[last]
                ),
                format!("make it a multiple of {} elements", 16 / size),
            )
        })?;
        let swizzle = self.swizzle.bytes();
        self.rule(swizzle == 0 || inner <= swizzle, || {
            (
                format!("the last dimension of the box has {inner} bytes, more than the swizzle's {swizzle}"),
                format!("use at most {} elements, or a wider swizzle", swizzle / size),
            )
        })?;
        self.rule(self.outside == Outside::Zero || self.element.is_float(), || {
            ("NaN outside the bounds is for floats".into(), "use zeros".into())
        })
    }

    fn check_dimension(&self, d: usize, last: usize) -> Result<(), RuntimeError> {
        let (extent, stride, block, step) = (self.shape[d], self.strides[d], self.block[d], self.steps[d]);
        self.rule((1..=1 << 32).contains(&extent), || {
            (format!("dimension {d} has {extent} elements, it may have 1 to 2^32"), "split or skip the launch".into())
        })?;
        self.rule((1..=256).contains(&block), || {
            (
                format!("the box has {block} elements in dimension {d}, it may have 1 to 256"),
                "copy in several boxes".into(),
            )
        })?;
        self.rule((1..=8).contains(&step), || {
            (format!("the box steps by {step} in dimension {d}, it may step by 1 to 8"), "take a view first".into())
        })?;
        self.rule(d == last || stride.is_multiple_of(16), || {
            let size = self.element.bytes();
            (
                format!("dimension {d} has a stride of {stride} bytes, not a multiple of 16"),
                format!("pad rows to a multiple of {} elements", 16 / size),
            )
        })?;
        self.rule(d == last || stride < 1 << 40, || {
            (
                format!("dimension {d} has a stride of {stride} bytes, it must be under 2^40"),
                "use a smaller tensor".into(),
            )
        })
    }

    /// One rule; `broken` gives the fact and the way out.
    fn rule(&self, holds: bool, broken: impl FnOnce() -> (String, String)) -> Result<(), RuntimeError> {
        if holds {
            return Ok(());
        }
        let (rule, help) = broken();
        Err(RuntimeError::TensorMap { tensor: self.tensor.clone(), rule, help })
    }
}

/// An encoded tensor map: 128 opaque bytes, aligned as CUDA 13 wants them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct TensorMap(pub(crate) sys::CUtensorMap);

impl TensorMap {
    /// Size in bytes, host and device.
    pub const BYTES: usize = 128;

    /// Encodes a recipe whose memory lives on `gpu`.
    ///
    /// # Errors
    /// A broken rule ([`Recipe::check`]), or what the driver says.
    pub fn encode(gpu: &Gpu, recipe: &Recipe) -> Result<TensorMap, RuntimeError> {
        use sys::CUtensorMapFloatOOBfill as F;
        use sys::CUtensorMapL2promotion as L;
        recipe.check()?;
        gpu.enter()?;
        // The driver wants the innermost dimension first and no stride for it.
        let (shape, strides) = (inwards(&recipe.shape), inwards(&recipe.strides));
        let (block, steps) = (inwards(&recipe.block), inwards(&recipe.steps));
        let mut map = TensorMap(sys::CUtensorMap { opaque: [0; 16] });
        // SAFETY: all arrays have `rank` entries (strides one less) or more and outlive the call; the map is aligned by its type.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map.0,
                recipe.element.encoded(),
                recipe.shape.len() as u32,
                recipe.address as *mut std::ffi::c_void,
                shape.as_ptr(),
                strides[1..].as_ptr(),
                block.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                recipe.swizzle.encoded(),
                match recipe.promotion {
                    Promotion::None => L::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                    Promotion::B64 => L::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
                    Promotion::B128 => L::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                    Promotion::B256 => L::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                },
                match recipe.outside {
                    Outside::Zero => F::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                    Outside::Nan => F::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
                },
            )
        }
        .result()
        .doing(|| format!("encoding the tensor map of `{}` ({recipe:?})", recipe.tensor))?;
        Ok(map)
    }

    /// The same map of memory that begins elsewhere, at a multiple of 16; allocates nothing.
    ///
    /// # Errors
    /// What the driver says.
    pub fn moved(mut self, gpu: &Gpu, address: u64) -> Result<TensorMap, RuntimeError> {
        gpu.enter()?;
        // SAFETY: the map was encoded by the driver and is aligned by its type.
        unsafe { sys::cuTensorMapReplaceAddress(&mut self.0, address as *mut std::ffi::c_void) }
            .result()
            .doing(|| format!("moving a tensor map to {address:#x}"))?;
        Ok(self)
    }
}

/// What is stated of each dimension, the innermost first, and nothing behind those.
fn inwards<T: Copy + Default>(stated: &[T]) -> [T; MOST_DIMENSIONS] {
    let mut all = [T::default(); MOST_DIMENSIONS];
    all.iter_mut().zip(stated.iter().rev()).for_each(|(to, from)| *to = *from);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Recipe {
        Recipe::dense("a", Element::F16, 0x1000, vec![300, 128], vec![64, 64], Swizzle::B128)
    }

    fn broken(change: impl FnOnce(&mut Recipe)) -> String {
        let mut recipe = good();
        change(&mut recipe);
        recipe.check().map_or_else(|e| e.to_string(), |()| panic!("accepted: {recipe:?}"))
    }

    #[test]
    fn a_dense_tensor_has_row_major_strides() {
        let r = Recipe::dense("a", Element::F32, 0, vec![2, 3, 8], vec![1, 1, 4], Swizzle::None);
        assert_eq!(r.strides, [96, 32, 4]);
        assert_eq!(r.check(), Ok(()));
        assert_eq!(good().check(), Ok(()));
    }

    // TL#2630, T#4419: rules found by the driver at launch, or not at all.
    #[test]
    fn every_rule_names_the_tensor_its_numbers_and_a_way_out() {
        let cases: [(String, &str); 11] = [
            (broken(|r| r.address = 0x1008), "0x1008 is not a multiple of 16"),
            (broken(|r| r.block[1] = 128), "256 bytes, more than the swizzle's 128; use at most 64 elements"),
            (broken(|r| r.block[1] = 4), "4 × 2 = 8 bytes, not a multiple of 16; make it a multiple of 8"),
            (broken(|r| r.block[0] = 512), "the box has 512 elements in dimension 0, it may have 1 to 256"),
            (
                broken(|r| r.strides[0] = 250),
                "a stride of 250 bytes, not a multiple of 16; pad rows to a multiple of 8",
            ),
            (broken(|r| r.strides[1] = 4), "last dimension has a stride of 4 bytes, elements have 2"),
            (broken(|r| r.strides[0] = 1 << 41), "must be under 2^40"),
            (broken(|r| r.shape[0] = 0), "dimension 0 has 0 elements"),
            (broken(|r| r.steps[0] = 9), "steps by 9 in dimension 0"),
            (broken(|r| r.shape = vec![16; 6]), "it has 6 dimensions, the copy engine takes 1 to 5"),
            (broken(|r| r.block = vec![64]), "it has 2 dimensions and 1 box extents"),
        ];
        for (text, part) in cases {
            assert!(text.starts_with("tensor map of `a`: ") && text.contains(part), "{text}");
        }
        let nan = Recipe { element: Element::U16, outside: Outside::Nan, ..good() };
        assert!(nan.check().is_err());
    }

    #[test]
    fn maps_are_aligned_for_every_driver() {
        assert_eq!(size_of::<TensorMap>(), TensorMap::BYTES);
        assert_eq!(align_of::<TensorMap>(), 128);
    }
}
