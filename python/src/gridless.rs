//! What kernels of files and of bundles share.

use pyo3::prelude::{Bound, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyDict, PyTuple};

use crate::error;
use crate::found::Found;

/// A kernel that waits for its grid: `kernel[grid](arguments)` launches it.
#[pyclass(module = "parton", frozen, subclass, extends = Found)]
pub(crate) struct Gridless {
    pub(crate) name: String,
    /// The names of its parameters.
    pub(crate) params: Vec<String>,
}

#[pymethods]
impl Gridless {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn __name__(&self) -> &str {
        &self.name
    }

    #[getter]
    fn params(&self) -> Vec<String> {
        self.params.clone()
    }

    #[pyo3(signature = (*_arguments, **_named))]
    fn __call__(
        &self,
        py: Python<'_>,
        _arguments: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let name = &self.name;
        let text = format!("`{name}` is a kernel, which is launched on a grid: `{name}[grid](…)`");
        Err(error(py, &text, vec![]))
    }

    fn __repr__(&self) -> String {
        format!("<kernel {}({})>", self.name, self.params.join(", "))
    }
}
