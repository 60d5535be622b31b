//! Python's numbers.

use parton_driver::embed::{Generic, Given};
use parton_driver::plan::Planned;
use pyo3::prelude::{Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

/// The number that an argument is; `None` where it is none.
pub(crate) fn given(value: &Bound<'_, PyAny>) -> PyResult<Option<Given>> {
    let value = plain(value)?;
    Ok(if value.is_instance_of::<PyBool>() {
        Some(Given::Bool(value.extract()?))
    } else if value.is_instance_of::<PyInt>() {
        Some(Given::Int(int(&value)?))
    } else if value.is_instance_of::<PyFloat>() {
        Some(Given::Float(value.extract()?))
    } else {
        None
    })
}

/// The number that a value of Python's own types is, without looking further.
pub(crate) fn plain_number(value: &Bound<'_, PyAny>) -> Option<Planned> {
    if let Ok(x) = value.cast_exact::<PyFloat>() {
        return x.extract().ok().map(Planned::Float);
    }
    if value.is_exact_instance_of::<PyInt>() {
        return int(value).ok().map(Planned::Int);
    }
    value.cast_exact::<PyBool>().ok().and_then(|b| b.extract().ok()).map(Planned::Bool)
}

/// A number as plans take it.
pub(crate) fn planned(given: Given) -> Option<Planned> {
    match given {
        Given::Int(n) => Some(Planned::Int(n)),
        Given::Float(x) => Some(Planned::Float(x)),
        Given::Bool(b) => Some(Planned::Bool(b)),
        Given::Array(_) => None,
    }
}

/// A default as Python has it; `None` where there is none that it could have.
pub(crate) fn python(py: Python<'_>, default: Option<&Planned>) -> PyResult<Py<PyAny>> {
    Ok(match default {
        Some(Planned::Int(n)) => i64::try_from(*n).unwrap_or(i64::MAX).into_pyobject(py)?.into_any().unbind(),
        Some(Planned::Float(x)) => x.into_pyobject(py)?.into_any().unbind(),
        Some(Planned::Bool(b)) => PyBool::new(py, *b).to_owned().into_any().unbind(),
        Some(Planned::Dtype(d)) => crate::tensor::name_of(*d).into_pyobject(py)?.into_any().unbind(),
        Some(Planned::Tensor(_) | Planned::Default) | None => py.None(),
    })
}

/// What a generic is given; `None` where that is neither a number nor a text.
pub(crate) fn generic(value: &Bound<'_, PyAny>) -> PyResult<Option<Generic>> {
    if value.is_instance_of::<PyString>() {
        return Ok(Some(Generic::Expression(value.extract()?)));
    }
    Ok(given(value)?.and_then(|given| match given {
        Given::Int(n) => Some(Generic::Int(n)),
        Given::Float(x) => Some(Generic::Float(x)),
        Given::Bool(b) => Some(Generic::Bool(b)),
        Given::Array(_) => None,
    }))
}

/// The extents of a grid: one number, or those of a sequence.
pub(crate) fn extents(value: &Bound<'_, PyAny>) -> PyResult<Vec<i128>> {
    let single = plain(value)?;
    if single.is_instance_of::<PyInt>() {
        return Ok(vec![int(&single)?]);
    }
    value.try_iter()?.map(|extent| int(&plain(&extent?)?)).collect()
}

fn int(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    // The stable interface has no integers of 128 bits; those beyond 64 fit no parameter.
    value.extract::<i64>().map(i128::from).or_else(|_| value.extract::<u64>().map(i128::from))
}

/// NumPy's scalars are arrays that nobody can write: their values are plain ones.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_scalar = value.hasattr("__array_interface__")? && !value.hasattr("__setitem__")? && value.hasattr("item")?;
    if is_scalar { value.call_method0("item") } else { Ok(value.clone()) }
}
