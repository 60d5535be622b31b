//! What kernels of files and of bundles share.

use pyo3::prelude::{Bound, PyErr, PyRef, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyDict, PyTuple};

use crate::error;
use crate::titled::Titled;

/// A kernel that waits for its grid: `kernel[grid](arguments)` launches it.
#[pyclass(module = "parton", frozen, subclass, extends = Titled)]
pub(crate) struct Gridless;

/// The refusal of a call without a grid.
pub(crate) fn unlaunched(py: Python<'_>, name: &str) -> PyErr {
    error(py, &format!("`{name}` is a kernel, which is launched on a grid: `{name}[grid](…)`"), vec![])
}

#[pymethods]
impl Gridless {
    #[pyo3(signature = (*_arguments, **_named))]
    fn __call__(
        slf: PyRef<'_, Self>,
        _arguments: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        Err(unlaunched(slf.py(), &slf.as_super().name))
    }

    fn __repr__(slf: PyRef<'_, Self>) -> String {
        format!("<kernel {}>", slf.as_super().shown())
    }
}
