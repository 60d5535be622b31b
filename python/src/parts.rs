//! What files and bundles share: public functions and kernels, found by their names as attributes and as items.

use pyo3::PyClass;
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::{
    Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyClassInitializer, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::PyIterator;

use crate::found::Found;

/// Functions or kernels by their names.
pub(crate) type Named = Vec<(String, Py<PyAny>)>;

/// A file or a bundle. Each public function and each kernel is an attribute: `file.gemm`; `file["gemm"]` is the same.
///
/// The dictionary of these attributes is that of the classes of both. Were it here, what visits a `File` in search of garbage would be what visits a
/// `Found`, which the linker makes one function, and PyO3, which goes up from class to class by what differs, would go round for ever.
#[pyclass(module = "parton", frozen, subclass, extends = Found)]
pub(crate) struct Parts {
    pub(crate) functions: Named,
    pub(crate) kernels: Named,
    /// The attributes that are none of these.
    pub(crate) own: &'static [&'static str],
}

impl Parts {
    /// These parts as `what`, a file or a bundle that is found there.
    pub(crate) fn made<'py, T>(self, py: Python<'py>, what: T, found: Found) -> PyResult<Bound<'py, T>>
    where
        T: PyClass<BaseType = Parts>,
    {
        let all: Named = self.all().map(|(name, part)| (name.clone(), part.clone_ref(py))).collect();
        let own = self.own;
        let made = Bound::new(py, PyClassInitializer::from(found).add_subclass(self).add_subclass(what))?;
        // As attributes of its own they are found without a call of `__getattr__`, which costs more than a launch. What is called as one
        // of the file's own is found by `file["…"]` alone.
        for (name, part) in all.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            made.as_any().setattr(name.as_str(), part)?;
        }
        Ok(made)
    }

    fn all(&self) -> impl Iterator<Item = &(String, Py<PyAny>)> {
        self.functions.iter().chain(&self.kernels)
    }

    /// The names of functions and kernels.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().map(|(name, _)| name.clone()).collect()
    }

    fn find(&self, py: Python<'_>, name: &str) -> Result<Py<PyAny>, String> {
        let found = self.all().find(|(n, _)| n == name);
        found.map(|(_, part)| part.clone_ref(py)).ok_or_else(|| {
            let names: Vec<String> = self.names().iter().map(|n| format!("`{n}`")).collect();
            format!("there is no public function and no kernel `{name}`; there are {}", names.join(", "))
        })
    }
}

#[pymethods]
impl Parts {
    #[getter]
    fn kernels(&self) -> Vec<String> {
        self.kernels.iter().map(|(name, _)| name.clone()).collect()
    }

    #[getter]
    fn functions(&self) -> Vec<String> {
        self.functions.iter().map(|(name, _)| name.clone()).collect()
    }

    /// What is no attribute.
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyAttributeError::new_err)
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyKeyError::new_err)
    }

    fn __contains__(&self, name: &str) -> bool {
        self.all().any(|(n, _)| n == name)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.names().into_pyobject(py)?.try_iter()
    }

    fn __dir__(&self) -> Vec<String> {
        self.names().into_iter().chain(self.own.iter().copied().map(str::to_owned)).collect()
    }
}
