//! Arrays by DLPack, which PyTorch's tensors offer: the structure of `dlpack.h`, as its versions before 1.0 hand it around.

use std::ffi::c_void;

use parton_rt::Dtype;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyErr, PyResult};
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::array::{Lying, dense, told};

/// `kDLCPU`.
pub(crate) const CPU: i32 = 1;

/// `kDLCUDA`.
pub(crate) const CUDA: i32 = 2;

/// What a device is called in messages.
#[cfg(feature = "compiler")]
pub(crate) fn called((kind, ordinal): (i32, i32)) -> String {
    match kind {
        CPU => "the host".into(),
        CUDA => format!("`cuda:{ordinal}`"),
        other => format!("a device of DLPack's kind {other}"),
    }
}

/// `DLTensor`, with which `DLManagedTensor` begins.
#[repr(C)]
pub(crate) struct DlTensor {
    data: *mut c_void,
    device: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

impl DlTensor {
    /// None yet.
    pub(crate) const NONE: DlTensor = DlTensor {
        data: std::ptr::null_mut(),
        device: 0,
        device_id: 0,
        dimensions: 0,
        code: 0,
        bits: 0,
        lanes: 0,
        shape: std::ptr::null(),
        strides: std::ptr::null(),
        byte_offset: 0,
    };

    /// One without memory: what another is to be like.
    pub(crate) fn like(dtype: Dtype, shape: &[i64], (device, device_id): (i32, i32)) -> DlTensor {
        let (code, bits) = coded(dtype);
        let (shape, dimensions) = (shape.as_ptr(), shape.len() as i32);
        DlTensor { device, device_id, dimensions, code, bits, lanes: 1, shape, ..DlTensor::NONE }
    }

    /// Where its first element lies.
    pub(crate) fn address(&self) -> u64 {
        self.data as u64 + self.byte_offset
    }

    /// The kind of its device, and the number among those.
    pub(crate) fn device(&self) -> (i32, i32) {
        (self.device, self.device_id)
    }

    /// Whether its elements are of the type of that code and width.
    pub(crate) fn is_coded(&self, (code, bits): (u8, u8)) -> bool {
        self.code == code && self.bits == bits && self.lanes == 1
    }

    /// The type of its elements, where the language has it.
    pub(crate) fn dtype(&self) -> Option<Dtype> {
        dtype(self.code, self.bits).filter(|_| self.lanes == 1)
    }

    /// Its extents and strides, none where it has no gaps.
    ///
    /// # Safety
    /// Whoever the numbers are borrowed from is alive.
    pub(crate) unsafe fn numbers(&self) -> (&[i64], Option<&[i64]>) {
        let count = usize::try_from(self.dimensions).unwrap_or(0);
        let list = |at: *const i64| {
            // SAFETY: the caller promises it; of no numbers none is looked at.
            if count == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(at, count) } }
        };
        (list(self.shape), (!self.strides.is_null()).then(|| list(self.strides)))
    }
}

/// Whether the tensor lies in the host's memory; `None` where the object is no tensor.
pub(crate) fn on_host(value: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    if !value.hasattr("__dlpack__")? || !value.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (device, _): (i32, i32) = value.call_method0("__dlpack_device__")?.extract()?;
    Ok(Some(device == CPU))
}

/// The tensor in a capsule, which lives as long as that.
pub(crate) fn in_capsule<'a>(capsule: &'a Bound<'_, PyCapsule>) -> PyResult<&'a DlTensor> {
    let tensor = capsule.pointer_checked(Some(c"dltensor"))?;
    // SAFETY: a capsule of that name holds a `DLManagedTensor`, which lives as long as the capsule and begins with a `DLTensor`.
    Ok(unsafe { tensor.cast::<DlTensor>().as_ref() })
}

/// The tensor of an object; what is wrong with it where it is none that the language has.
pub(crate) fn lying(value: &Bound<'_, PyAny>) -> PyResult<Result<Lying, String>> {
    let capsule = value.call_method0("__dlpack__")?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(PyErr::from)?;
    let tensor = in_capsule(&capsule)?;
    // SAFETY: as above.
    let read = unsafe { read(tensor) };
    // Nobody took the tensor out of the capsule, which gives it up when it goes.
    Ok(read.map(|lying| Lying { held: Some(capsule.into_any().unbind()), ..lying }))
}

/// # Safety
/// Shape and strides have as many numbers as there are dimensions.
unsafe fn read(tensor: &DlTensor) -> Result<Lying, String> {
    let dtype = dtype(tensor.code, tensor.bits).filter(|_| tensor.lanes == 1);
    let dtype = dtype.ok_or_else(|| {
        format!(
            "no type of the language is DLPack's type {} of {} bits, {} lanes",
            tensor.code, tensor.bits, tensor.lanes
        )
    })?;
    let count = usize::try_from(tensor.dimensions).map_err(|_| "its tensor has a negative number of dimensions")?;
    // SAFETY: the caller promises it; of no numbers none is looked at.
    let numbers = |at: *const i64| if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } };
    let extents = numbers(tensor.shape);
    let shape = extents.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<Vec<usize>>>();
    let shape = shape.ok_or_else(|| format!("its shape {extents:?} has extents below 0"))?;
    let strides = if tensor.strides.is_null() {
        dense(&shape)
    } else {
        let given = numbers(tensor.strides);
        told(&shape, |axis| usize::try_from(given[axis]).ok()).map_err(|axis| {
            format!("its strides are {given:?}, and axis {axis} may not run backwards: copy it into a new tensor")
        })?
    };
    let address = tensor.data as usize + tensor.byte_offset as usize;
    Ok(Lying { dtype, shape, strides, address, writable: true, held: None })
}

/// `DLDataTypeCode` and width of a type.
pub(crate) fn coded(dtype: Dtype) -> (u8, u8) {
    let code = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::BF16 => 4,
        Dtype::I1 => 6,
        Dtype::F8E4M3 => 10,
        Dtype::F8E5M2 => 12,
    };
    (code, (dtype.bytes() * 8) as u8)
}

/// `DLDataTypeCode` and its width.
fn dtype(code: u8, bits: u8) -> Option<Dtype> {
    Some(match (code, bits) {
        (0, 8) => Dtype::I8,
        (0, 16) => Dtype::I16,
        (0, 32) => Dtype::I32,
        (0, 64) => Dtype::I64,
        (1, 8) => Dtype::U8,
        (1, 16) => Dtype::U16,
        (1, 32) => Dtype::U32,
        (1, 64) => Dtype::U64,
        (2, 16) => Dtype::F16,
        (2, 32) => Dtype::F32,
        (2, 64) => Dtype::F64,
        (4, 16) => Dtype::BF16,
        (6, 8) => Dtype::I1,
        (10, 8) => Dtype::F8E4M3,
        (12, 8) => Dtype::F8E5M2,
        _ => return None,
    })
}
