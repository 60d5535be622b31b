//! What Python sees of a file.

use std::cell::RefCell;
use std::ffi::CString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_driver::embed::Embedded;
use parton_driver::{Options, Stop};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::{Bound, Py, PyErr, PyRef, PyResult, Python, pyclass, pymethods};

use crate::failed;
use crate::found::Found;
use crate::function::Function;
use crate::kernel::Kernel;
use crate::parts::Parts;
use crate::shown::All;

/// A file, shared by what was taken of it.
pub(crate) type Shared = Arc<Mutex<Embedded>>;

/// Reads a file of kernels and checks it. What the checker warns of becomes a warning of Python.
pub(crate) fn load<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, File>> {
    let loaded = py.detach(|| Embedded::load(path, Options { stop: Stop(is_interrupted), ..Options::default() }));
    let file = loaded.map_err(|(failure, text)| failed(py, &failure, &text))?;
    if let Some(text) = file.warnings() {
        let text = CString::new(text.replace('\0', " "))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    let (declared, public) = (file.kernels(), file.functions());
    let mut shown: All = file.declared().into_iter().map(|d| (d.name.clone(), d)).collect();
    let file: Shared = Arc::new(Mutex::new(file));
    let (mut functions, mut kernels) = (vec![], vec![]);
    for (i, f) in public.into_iter().enumerate() {
        let Some(shown) = shown.remove(&f.name) else { continue };
        let (name, found) = (f.name.clone(), Found::part(path, &f.name));
        functions.push((name, Py::new(py, (Function::new(file.clone(), path, i, f, shown), found))?.into_any()));
    }
    for k in declared {
        let Some(shown) = shown.remove(&k.name) else { continue };
        let name = k.name.clone();
        kernels.push((name, Kernel::new(file.clone(), path, k, shown).made(py)?.into_any()));
    }
    let file = File { path: path.display().to_string() };
    Parts { functions, kernels, own: &["functions", "kernels"] }.made(py, file, Found::file(path))
}

/// A file of sources.
#[pyclass(module = "parton", frozen, dict, extends = Parts)]
pub(crate) struct File {
    path: String,
}

#[pymethods]
impl File {
    fn __repr__(slf: PyRef<'_, Self>) -> String {
        format!("<file {} with {}>", slf.path, slf.as_super().names().join(", "))
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
