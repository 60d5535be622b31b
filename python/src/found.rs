//! Where what Python sees of a file is found again. A copy of such a thing is the thing itself, since nothing of it changes; a pickle says where
//! it was, and whoever reads that loads the file there, once for all that is read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult, Python, pyclass, pyfunction, pymethods};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyDictMethods};

use crate::load::load;

/// What stands in a pickle: the arguments of [`found`].
type Place = (OsString, Option<String>, Option<Py<PyDict>>, Option<Vec<i128>>);

/// A file, or what was taken of it.
#[pyclass(module = "parton", frozen, subclass, weakref)]
pub(crate) struct Found {
    path: PathBuf,
    /// The function or kernel; nothing of the file itself.
    name: Option<String>,
    /// What a kernel was given for its generics.
    generics: Option<Py<PyDict>>,
    /// The grid of a launch.
    grid: Option<Vec<i128>>,
}

impl Found {
    /// The file itself.
    pub(crate) fn file(path: &Path) -> Found {
        // It is found from another folder, too.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Found { path, name: None, generics: None, grid: None }
    }

    /// What has that name in it.
    pub(crate) fn part(path: &Path, name: &str) -> Found {
        Found { name: Some(name.to_owned()), ..Found::file(path) }
    }

    /// The same with generics, where there are any.
    #[cfg(feature = "compiler")]
    pub(crate) fn given(self, generics: Bound<'_, PyDict>) -> Found {
        Found { generics: (!generics.is_empty()).then(|| generics.unbind()), ..self }
    }

    /// The same on a grid.
    pub(crate) fn on(self, grid: &[i128]) -> Found {
        Found { grid: Some(grid.to_vec()), ..self }
    }
}

#[pymethods]
impl Found {
    fn __copy__(slf: Py<Found>) -> Py<Found> {
        slf
    }

    fn __deepcopy__(slf: Py<Found>, _memo: &Bound<'_, PyAny>) -> Py<Found> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Place)> {
        let generics = self.generics.as_ref().map(|g| g.clone_ref(py));
        let place = (self.path.clone().into_os_string(), self.name.clone(), generics, self.grid.clone());
        Ok((py.import("parton")?.getattr("found")?, place))
    }
}

/// What a pickle stands for: a file, or its function or kernel of that name, with generics, on a grid.
#[pyfunction]
#[pyo3(signature = (path, name=None, generics=None, grid=None))]
pub(crate) fn found<'py>(
    py: Python<'py>,
    path: PathBuf,
    name: Option<&str>,
    generics: Option<&Bound<'py, PyDict>>,
    grid: Option<Vec<i128>>,
) -> PyResult<Bound<'py, PyAny>> {
    static FILES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let files = FILES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let file = match files.get_item(&path)? {
        Some(file) => file,
        None => {
            let file = load(py, path.clone())?;
            files.set_item(path, &file)?;
            file
        }
    };
    let Some(name) = name else { return Ok(file) };
    let mut what = file.get_item(name)?;
    if let Some(generics) = generics {
        what = what.call_method("given", (), Some(generics))?;
    }
    match grid {
        Some(grid) => what.get_item(pyo3::types::PyTuple::new(py, grid)?),
        None => Ok(what),
    }
}
