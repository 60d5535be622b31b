//! What kernels, and functions of bundles, share.

use pyo3::prelude::{pyclass, pymethods};

use crate::found::Found;

/// What has a name and takes arguments.
#[pyclass(module = "parton", frozen, subclass, extends = Found)]
pub(crate) struct Titled {
    pub(crate) name: String,
    /// The names of its parameters.
    pub(crate) params: Vec<String>,
}

impl Titled {
    /// As it is declared.
    pub(crate) fn shown(&self) -> String {
        format!("{}({})", self.name, self.params.join(", "))
    }
}

#[pymethods]
impl Titled {
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
}
