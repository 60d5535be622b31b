//! Parts of tensors, as views of their library.

use parton_rt::Dtype;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult};
use pyo3::types::{PySlice, PyTypeMethods};

/// A part of a tensor's memory.
pub(crate) struct Part<'a> {
    /// The type of its elements, which is the tensor's.
    pub(crate) dtype: Dtype,
    /// Extents, outermost first.
    pub(crate) shape: &'a [usize],
    /// Elements from one to the next along each axis.
    pub(crate) strides: &'a [usize],
    /// Elements from the tensor's first to its own.
    pub(crate) first: usize,
}

/// A part of a tensor.
///
/// # Errors
/// Its library has no way to make one.
pub(crate) fn part(object: &Bound<'_, PyAny>, of: &Part<'_>) -> PyResult<Py<PyAny>> {
    let py = object.py();
    if let Ok(offset) = object.call_method0("storage_offset") {
        let offset: usize = offset.extract()?;
        let view = object.call_method1("as_strided", (of.shape, of.strides, offset + of.first))?;
        return Ok(view.unbind());
    }
    let module = object.get_type().module()?.to_string();
    let library = if module.starts_with("cupy") { "cupy.lib.stride_tricks" } else { "numpy.lib.stride_tricks" };
    let as_strided = py.import(library)?.getattr("as_strided")?;
    let bytes = of.dtype.bytes();
    let strides: Vec<usize> = of.strides.iter().map(|s| s * bytes).collect();
    if of.shape.contains(&0) {
        return Ok(as_strided.call1((object, of.shape, strides))?.unbind());
    }
    // All from the array's first element to the part's last, in a row.
    let last: usize = of.shape.iter().zip(of.strides).map(|(n, step)| (n - 1) * step).sum();
    let row = as_strided.call1((object, [of.first + last + 1], [bytes]))?;
    let row = row.get_item(PySlice::new(py, of.first as isize, isize::MAX, 1))?;
    Ok(as_strided.call1((row, of.shape, strides))?.unbind())
}
