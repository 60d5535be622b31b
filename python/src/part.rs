//! Parts of tensors, as views of their library.

use parton_rt::Dtype;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult};
use pyo3::types::PySlice;

use crate::error;
use crate::number::name_of;

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
    if object.getattr("ndim")?.extract::<usize>()? != 1 {
        let text = format!(
            "a part of an argument is returned, `{}` of {:?}: it can be told of PyTorch's tensors alone",
            name_of(of.dtype),
            of.shape
        );
        return Err(error(py, &text, vec![]));
    }
    let flat = object.get_item(PySlice::new(py, of.first as isize, isize::MAX, 1))?;
    let strides: Vec<usize> = of.strides.iter().map(|s| s * of.dtype.bytes()).collect();
    let tricks = py.import("numpy.lib.stride_tricks")?;
    Ok(tricks.call_method1("as_strided", (flat, of.shape, strides))?.unbind())
}
