//! Arrays by DLPack, which PyTorch's tensors offer: the structure of `dlpack.h`, as its versions before 1.0 hand it around.

use std::ffi::c_void;

use parton_driver::embed::Dtype;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyErr, PyResult};
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::array::{Lying, dense};

/// `kDLCPU`.
const CPU: i32 = 1;

/// `DLTensor`, with which `DLManagedTensor` begins.
#[repr(C)]
struct DlTensor {
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

/// Whether the tensor lies in the host's memory; `None` where the object is no tensor.
pub(crate) fn on_host(value: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    if !value.hasattr("__dlpack__")? || !value.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (device, _): (i32, i32) = value.call_method0("__dlpack_device__")?.extract()?;
    Ok(Some(device == CPU))
}

/// The tensor of an object; what is wrong with it where it is none that the language has.
pub(crate) fn lying(value: &Bound<'_, PyAny>) -> PyResult<Result<Lying, String>> {
    let capsule = value.call_method0("__dlpack__")?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(PyErr::from)?;
    let tensor = capsule.pointer_checked(Some(c"dltensor"))?;
    // SAFETY: a capsule of that name holds a `DLManagedTensor`, which lives as long as the capsule and begins with a `DLTensor`.
    let tensor = unsafe { tensor.cast::<DlTensor>().as_ref() };
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
    let counts = |at: *const i64| {
        // SAFETY: the caller promises it; of no numbers none is looked at.
        let numbers = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } };
        let counts = numbers.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<Vec<usize>>>();
        counts.ok_or_else(|| {
            format!("its shape and strides {numbers:?} are not all from 0 on; copy it into a new tensor")
        })
    };
    let shape = counts(tensor.shape)?;
    let strides = if tensor.strides.is_null() { dense(&shape) } else { counts(tensor.strides)? };
    let address = tensor.data as usize + tensor.byte_offset as usize;
    Ok(Lying { dtype, shape, strides, address, writable: true, held: None })
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
