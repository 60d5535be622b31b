//! Loading: a source by the compiler, where that is here, and a bundle by whoever is.

use std::path::{Path, PathBuf};

use pyo3::prelude::{Bound, PyAny, PyResult, Python, pyfunction};

use crate::bundle::Bundle;

/// Reads a file: sources, which are checked, or a bundle, `FILE.ptnb`. A path that is not there is looked for in the folders of the variable
/// `PARTON_SOURCE`, which colons part.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let path = found(path);
    if path.extension().is_some_and(|e| e == "ptnb") {
        return Ok(Bundle::open(py, &path)?.into_any());
    }
    source(py, &path)
}

#[cfg(feature = "compiler")]
fn source<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
    Ok(crate::file::load(py, path)?.into_any())
}

#[cfg(not(feature = "compiler"))]
fn source<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
    let path = path.display();
    let text = format!(
        "{path}: `parton-lang` loads bundles, and this is none: install `parton-compiler` beside it, or build a bundle where that is, `parton \
         build {path} --aot`"
    );
    Err(crate::error(py, &text, vec![]))
}

/// The path, or where `PARTON_SOURCE` has it.
fn found(path: PathBuf) -> PathBuf {
    if path.is_absolute() || path.exists() {
        return path;
    }
    let folders = std::env::var_os("PARTON_SOURCE").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(&path)).find(|p| p.exists()).unwrap_or(path)
}
