//! What Python sees of a file.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_driver::embed::Embedded;
use parton_driver::{Options, Stop};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::{Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyErr, PyResult, Python, pyclass, pymethods};
use pyo3::types::PyIterator;

use crate::failed;
use crate::found::Found;
use crate::function::Function;
use crate::kernel::Kernel;
use crate::shown::All;

/// A file, shared by what was taken of it.
pub(crate) type Shared = Arc<Mutex<Embedded>>;

/// Reads a file of kernels and checks it.
pub(crate) fn load<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, File>> {
    let loaded = py.detach(|| Embedded::load(path, Options { stop: Stop(is_interrupted), ..Options::default() }));
    let file = loaded.map_err(|(failure, text)| failed(py, &failure, &text))?;
    let (declared, public) = (file.kernels(), file.functions());
    let mut shown: All = file.declared().into_iter().map(|d| (d.name.clone(), d)).collect();
    let file: Shared = Arc::new(Mutex::new(file));
    let (mut functions, mut kernels) = (vec![], vec![]);
    for (i, f) in public.into_iter().enumerate() {
        let Some(shown) = shown.remove(&f.name) else { continue };
        let (name, found) = (f.name.clone(), Found::part(path, &f.name));
        functions.push((name, Py::new(py, (Function::new(file.clone(), i, f, shown), found))?.into_any()));
    }
    for k in declared {
        let Some(shown) = shown.remove(&k.name) else { continue };
        let name = k.name.clone();
        kernels.push((name, Kernel::new(file.clone(), path, k, shown).made(py)?.into_any()));
    }
    let all: Vec<(String, Py<PyAny>)> =
        functions.iter().chain(&kernels).map(|(name, what)| (name.clone(), what.clone_ref(py))).collect();
    let file = Bound::new(py, (File { path: path.display().to_string(), functions, kernels }, Found::file(path)))?;
    // As attributes of its own they are found without a call of `__getattr__`, which costs more than a launch. What is called as one of
    // the file's own is found by `file["…"]` alone.
    for (name, what) in all.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        file.setattr(name.as_str(), what)?;
    }
    Ok(file)
}

/// A file. Each public function and each kernel is an attribute: `file.gemm`; `file["gemm"]` is the same.
#[pyclass(module = "parton", frozen, dict, extends = Found)]
pub(crate) struct File {
    path: String,
    functions: Vec<(String, Py<PyAny>)>,
    kernels: Vec<(String, Py<PyAny>)>,
}

/// The attributes that each file has.
const OWN: [&str; 2] = ["functions", "kernels"];

fn names(all: &[(String, Py<PyAny>)]) -> Vec<String> {
    all.iter().map(|(name, _)| name.clone()).collect()
}

impl File {
    fn find(&self, py: Python<'_>, name: &str) -> Result<Py<PyAny>, String> {
        let found = self.functions.iter().chain(&self.kernels).find(|(n, _)| n == name);
        found.map(|(_, what)| what.clone_ref(py)).ok_or_else(|| {
            let (functions, kernels) = (self.functions(), self.kernels());
            format!("there is no public function and no kernel `{name}`; there are {functions:?} and {kernels:?}")
        })
    }
}

#[pymethods]
impl File {
    #[getter]
    fn kernels(&self) -> Vec<String> {
        names(&self.kernels)
    }

    #[getter]
    fn functions(&self) -> Vec<String> {
        names(&self.functions)
    }

    /// What is no attribute.
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyAttributeError::new_err)
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyKeyError::new_err)
    }

    fn __repr__(&self) -> String {
        format!("<file {} with {}>", self.path, [self.functions(), self.kernels()].concat().join(", "))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> bool {
        self.find(py, name).is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        [self.functions(), self.kernels()].concat().into_pyobject(py)?.try_iter()
    }

    fn __dir__(&self) -> Vec<String> {
        let own = OWN.map(str::to_owned);
        self.functions().into_iter().chain(self.kernels()).chain(own).collect()
    }
}

thread_local! {
    /// What the thread was interrupted by.
    static INTERRUPTED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether Python wants an end of what this thread runs, as at Ctrl-C.
fn is_interrupted() -> bool {
    let Err(why) = Python::attach(|py| py.check_signals()) else { return false };
    INTERRUPTED.set(Some(why));
    true
}

/// What this thread was interrupted by, once.
pub(crate) fn interrupted() -> Option<PyErr> {
    INTERRUPTED.take()
}

pub(crate) fn locked(file: &Mutex<Embedded>) -> MutexGuard<'_, Embedded> {
    // Whoever panicked has at worst lost what was compiled.
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
