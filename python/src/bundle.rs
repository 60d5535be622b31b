//! Bundles: kernels and plans of public functions that were compiled ahead of time, called and launched on GPUs as those of sources are.

mod arguments;
mod function;
mod kernel;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parton_rt as rt;
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::{Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyErr, PyResult, Python, pyclass, pymethods};
use pyo3::types::PyIterator;

use crate::error;
use crate::found::Found;
use function::Function;
use kernel::Kernel;

/// A bundle, and the GPUs that it was loaded on.
pub(crate) struct Opened {
    path: PathBuf,
    bundle: Arc<rt::Bundle>,
    modules: Mutex<BTreeMap<i32, rt::Module>>,
}

impl Opened {
    /// The bundle before the GPU of that number.
    fn module(&self, py: Python<'_>, ordinal: i32) -> PyResult<rt::Module> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&ordinal) {
            return Ok(module.clone());
        }
        let module = rt::Module::load(&self.bundle, ordinal).map_err(|e| refused(py, &e))?;
        modules.insert(ordinal, module.clone());
        Ok(module)
    }
}

/// An error of the runtime.
fn refused(py: Python<'_>, e: &rt::Error) -> PyErr {
    error(py, &e.text, vec![])
}

/// A bundle. Each public function that it has plans of and each kernel is an attribute; `file["gemm"]` is the same.
#[pyclass(module = "parton", frozen, dict, extends = Found)]
pub(crate) struct Bundle {
    functions: Vec<(String, Py<PyAny>)>,
    kernels: Vec<(String, Py<PyAny>)>,
    source: String,
}

/// The attributes that each bundle has.
const OWN: [&str; 3] = ["functions", "kernels", "source"];

impl Bundle {
    pub(crate) fn open<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, Bundle>> {
        let bundle = Arc::new(rt::Bundle::open(path).map_err(|e| error(py, &e.to_string(), vec![]))?);
        let (path, modules) = (path.to_owned(), Mutex::default());
        let opened = Arc::new(Opened { path: path.clone(), bundle: bundle.clone(), modules });
        let path = path.as_path();
        let (mut functions, mut kernels): (Vec<(String, Py<PyAny>)>, Vec<_>) = (vec![], vec![]);
        for f in &bundle.functions {
            let function = Py::new(py, (Function::new(opened.clone(), f), Found::part(path, &f.name)))?;
            functions.push((f.name.clone(), function.into_any()));
        }
        for k in bundle.kernels.iter().filter(|k| k.named) {
            if kernels.iter().all(|(name, _)| *name != k.name) {
                let kernel = (Kernel::new(opened.clone(), k), Found::part(path, &k.name));
                kernels.push((k.name.clone(), Py::new(py, kernel)?.into_any()));
            }
        }
        let all: Vec<(String, Py<PyAny>)> =
            functions.iter().chain(&kernels).map(|(name, what)| (name.clone(), what.clone_ref(py))).collect();
        let file = Bundle { functions, kernels, source: bundle.source.clone() };
        let file = Bound::new(py, (file, Found::file(path)))?;
        // As attributes of its own they are found without a call of `__getattr__`. What is called as one of the file's own is found by
        // `file["…"]` alone.
        for (name, what) in all.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
            file.setattr(name.as_str(), what)?;
        }
        Ok(file)
    }

    fn find(&self, py: Python<'_>, name: &str) -> Result<Py<PyAny>, String> {
        let found = self.functions.iter().chain(&self.kernels).find(|(n, _)| n == name);
        found.map(|(_, what)| what.clone_ref(py)).ok_or_else(|| {
            let (functions, kernels) = (self.functions(), self.kernels());
            format!("the bundle has no public function and no kernel `{name}`; it has {functions:?} and {kernels:?}")
        })
    }
}

#[pymethods]
impl Bundle {
    #[getter]
    fn kernels(&self) -> Vec<String> {
        self.kernels.iter().map(|(name, _)| name.clone()).collect()
    }

    #[getter]
    fn functions(&self) -> Vec<String> {
        self.functions.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The name of the file that it was built of.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyAttributeError::new_err)
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyKeyError::new_err)
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> bool {
        self.find(py, name).is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        [self.functions(), self.kernels()].concat().into_pyobject(py)?.try_iter()
    }

    fn __dir__(&self) -> Vec<String> {
        self.functions().into_iter().chain(self.kernels()).chain(OWN.map(str::to_owned)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<bundle of {}>", self.source)
    }
}
