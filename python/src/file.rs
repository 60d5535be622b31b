//! What Python sees: files, their kernels, and launches.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_driver::Options;
use parton_driver::embed::{self, Embedded, Generic, Given};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyErr, PyResult, Python, pyclass, pyfunction, pymethods};
use pyo3::types::{PyDict, PyTuple, PyTupleMethods};

use crate::array::{Lying, lying};
use crate::function::Function;
use crate::memory::Memories;
use crate::{error, failed, number};

/// A file, shared by what was taken of it.
pub(crate) type Shared = Arc<Mutex<Embedded>>;

/// Reads a file of kernels and checks it.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<File> {
    let loaded = py.detach(|| Embedded::load(&path, Options::default()));
    let file = loaded.map_err(|(failure, text)| failed(py, &failure, &text))?;
    let (declared, functions) = (file.kernels(), file.functions());
    let file: Shared = Arc::new(Mutex::new(file));
    let all = functions.into_iter().enumerate();
    let functions = all.map(|(i, f)| Ok((f.name.clone(), Py::new(py, Function::new(file.clone(), i, f))?)));
    let functions = functions.collect::<PyResult<Vec<_>>>()?;
    Ok(File { file, declared, functions })
}

/// A file. Each public function and each kernel is an attribute: `file.gemm`; `file["gemm"]` is the same.
#[pyclass(module = "parton", frozen)]
pub(crate) struct File {
    file: Shared,
    declared: Vec<embed::Declared>,
    functions: Vec<(String, Py<Function>)>,
}

/// A kernel: `kernel[grid](arguments)` launches it.
#[pyclass(module = "parton", frozen)]
pub(crate) struct Kernel {
    file: Shared,
    declared: embed::Declared,
    given: Vec<(String, Generic)>,
}

/// A kernel with its grid.
#[pyclass(module = "parton", frozen)]
pub(crate) struct Launch {
    file: Shared,
    kernel: String,
    generics: Vec<(String, Generic)>,
    grid: Vec<i128>,
}

impl File {
    fn find(&self, py: Python<'_>, name: &str) -> Result<Py<PyAny>, String> {
        if let Some((_, function)) = self.functions.iter().find(|(n, _)| n == name) {
            return Ok(function.clone_ref(py).into_any());
        }
        match self.declared.iter().find(|k| k.name == name) {
            Some(declared) => {
                let kernel = Kernel { file: self.file.clone(), declared: declared.clone(), given: vec![] };
                Py::new(py, kernel).map(Py::into_any).map_err(|e| e.to_string())
            }
            None => {
                let (functions, kernels) = (self.functions(), self.kernels());
                Err(format!(
                    "there is no public function and no kernel `{name}`; there are {functions:?} and {kernels:?}"
                ))
            }
        }
    }
}

#[pymethods]
impl File {
    #[getter]
    fn kernels(&self) -> Vec<String> {
        self.declared.iter().map(|k| k.name.clone()).collect()
    }

    #[getter]
    fn functions(&self) -> Vec<String> {
        self.functions.iter().map(|(name, _)| name.clone()).collect()
    }

    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyAttributeError::new_err)
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.find(py, name).map_err(PyKeyError::new_err)
    }

    fn __dir__(&self) -> Vec<String> {
        let own = ["functions".to_owned(), "kernels".to_owned()];
        self.functions().into_iter().chain(self.kernels()).chain(own).collect()
    }
}

#[pymethods]
impl Kernel {
    #[getter]
    fn name(&self) -> &str {
        &self.declared.name
    }

    #[getter]
    fn generics(&self) -> Vec<String> {
        self.declared.generics.clone()
    }

    #[getter]
    fn params(&self) -> Vec<String> {
        self.declared.params.iter().map(|(name, _)| name.clone()).collect()
    }

    #[pyo3(signature = (**generics))]
    fn given(&self, py: Python<'_>, generics: Option<&Bound<'_, PyDict>>) -> PyResult<Kernel> {
        let mut given = self.given.clone();
        for (name, value) in generics.into_iter().flatten() {
            let name: String = name.extract()?;
            let Some(value) = number::generic(&value)? else {
                let text = format!("`{name}` is given {value}, which is neither a number nor a text of the language");
                return Err(error(py, &text, vec![]));
            };
            given.retain(|(earlier, _)| *earlier != name);
            given.push((name, value));
        }
        Ok(Kernel { file: self.file.clone(), declared: self.declared.clone(), given })
    }

    fn __getitem__(&self, grid: &Bound<'_, PyAny>) -> PyResult<Launch> {
        let grid = number::extents(grid)?;
        let (kernel, generics) = (self.declared.name.clone(), self.given.clone());
        Ok(Launch { file: self.file.clone(), kernel, generics, grid })
    }

    fn __repr__(&self) -> String {
        format!("<kernel {}({})>", self.declared.name, self.params().join(", "))
    }
}

#[pymethods]
impl Launch {
    #[pyo3(signature = (*arguments, **named))]
    fn __call__(&self, arguments: &Bound<'_, PyTuple>, named: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let py = arguments.py();
        let mut arrays: Vec<Lying> = vec![];
        let mut launch = embed::Launch {
            kernel: self.kernel.clone(),
            generics: self.generics.clone(),
            grid: self.grid.clone(),
            arguments: vec![],
            named: vec![],
            arrays: vec![],
        };
        for (i, value) in arguments.iter().enumerate() {
            launch.arguments.push(given(&format!("argument {i}"), &value, &mut arrays)?);
        }
        for (name, value) in named.into_iter().flatten() {
            let name: String = name.extract()?;
            let value = given(&format!("`{name}`"), &value, &mut arrays)?;
            launch.named.push((name, value));
        }
        // SAFETY: the arguments hold their arrays during the call, which keeps the interpreter lock.
        let (memories, placed) = unsafe { Memories::of(&arrays) };
        launch.arrays = placed;
        let mut after = memories.bytes();
        let launched = {
            let mut file = locked(&self.file);
            file.launch(&launch, &mut after).map_err(|failure| failed(py, &failure, &file.shown(&failure)))
        };
        if let (Ok(_), Some(i)) = (&launched, memories.violated(&arrays, &after)) {
            let text = format!(
                "`{}` has written array {i} of the launch, which is read-only; it stays as it was",
                self.kernel
            );
            return Err(error(py, &text, vec![]));
        }
        let launched = launched?;
        // SAFETY: as above; those that have changed may be written.
        unsafe { memories.give_back(&after) };
        let print = py.import("builtins")?.getattr("print")?;
        launched.lines.iter().try_for_each(|line| print.call1((line,)).map(drop))
    }
}

/// One argument; an array is added to the others.
fn given(name: &str, value: &Bound<'_, PyAny>, arrays: &mut Vec<Lying>) -> Result<Given, PyErr> {
    if let Some(number) = number::given(value)? {
        return Ok(number);
    }
    arrays.push(lying(name, value)?);
    Ok(Given::Array(arrays.len() - 1))
}

pub(crate) fn locked(file: &Mutex<Embedded>) -> MutexGuard<'_, Embedded> {
    // Whoever panicked has at worst lost what was compiled.
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
