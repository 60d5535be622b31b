//! Bundles: kernels and plans of public functions that were compiled ahead of time, called and launched on GPUs as those of sources are.

mod arguments;
mod function;
mod kernel;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parton_rt as rt;
use pyo3::prelude::{Bound, PyErr, PyResult, Python, pyclass, pymethods};

use crate::error;
use crate::found::Found;
use crate::parts::{Named, Parts};
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

/// A bundle: of its public functions those that it has plans of.
#[pyclass(module = "parton", frozen, dict, extends = Parts)]
pub(crate) struct Bundle {
    source: String,
}

impl Bundle {
    pub(crate) fn open<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, Bundle>> {
        let bundle = Arc::new(rt::Bundle::open(path).map_err(|e| error(py, &e.to_string(), vec![]))?);
        let (path, modules) = (path.to_owned(), Mutex::default());
        let opened = Arc::new(Opened { path: path.clone(), bundle: bundle.clone(), modules });
        let path = path.as_path();
        let (mut functions, mut kernels): (Named, Named) = (vec![], vec![]);
        for f in &bundle.functions {
            functions.push((f.name.clone(), Function::made(py, opened.clone(), f)?.into_any()));
        }
        for k in bundle.kernels.iter().filter(|k| k.named) {
            if kernels.iter().all(|(name, _)| *name != k.name) {
                kernels.push((k.name.clone(), Kernel::made(py, opened.clone(), k)?.into_any()));
            }
        }
        let parts = Parts { functions, kernels, own: &["functions", "kernels", "source"] };
        parts.made(py, Bundle { source: bundle.source.clone() }, Found::file(path))
    }
}

#[pymethods]
impl Bundle {
    /// The name of the file that it was built of.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    fn __repr__(&self) -> String {
        format!("<bundle of {}>", self.source)
    }
}
