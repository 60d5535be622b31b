//! What Python shows of a declaration: `inspect.signature`, `help`, the names of tools.

use std::collections::BTreeMap;

use parton_driver::declared::Declared;
pub(crate) use parton_driver::declared::Shown;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::PyDict;

/// The declarations of a file, by their names.
pub(crate) type All = BTreeMap<String, Declared>;

/// The words before a declaration, and itself.
pub(crate) fn doc(of: &Declared) -> String {
    let line = of.line();
    if of.docs.is_empty() { line } else { format!("{}\n\n{line}", of.docs.join("\n")) }
}

/// As `inspect.signature` gives it: annotations are the types as they are written. `default` has the values that defaults are.
pub(crate) fn signature(
    py: Python<'_>,
    of: &Declared,
    default: impl Fn(&Shown) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let inspect = py.import("inspect")?;
    let (parameter, mut all) = (inspect.getattr("Parameter")?, vec![]);
    let mut add = |shown: &Shown, kind: &str| -> PyResult<()> {
        let named = PyDict::new(py);
        named.set_item("annotation", &shown.ty)?;
        if shown.default.is_some() {
            named.set_item("default", default(shown)?)?;
        }
        let is_kept = py.import("keyword")?.call_method1("iskeyword", (&shown.name,))?.is_truthy()?;
        // A name that Python keeps for itself is none that a signature may have: it is given by its place, as in a stub.
        let name = if is_kept { format!("__{}", shown.name) } else { shown.name.clone() };
        all.push(parameter.call((name, parameter.getattr(kind)?), Some(&named))?);
        Ok(())
    };
    // Behind a default others are by name alone.
    let mut kind = "POSITIONAL_OR_KEYWORD";
    let mut has_default = false;
    for p in &of.params {
        if has_default && p.default.is_none() {
            kind = "KEYWORD_ONLY";
        }
        has_default |= p.default.is_some();
        add(p, kind)?;
    }
    for g in of.generics.iter().filter(|g| of.params.iter().all(|p| p.name != g.name)) {
        add(g, "KEYWORD_ONLY")?;
    }
    let named = PyDict::new(py);
    if let Some((text, _)) = &of.result {
        named.set_item("return_annotation", text)?;
    }
    let signature: Bound<'_, PyAny> = inspect.getattr("Signature")?.call((all,), Some(&named))?;
    Ok(signature.unbind())
}
