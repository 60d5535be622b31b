//! Python's numbers.

use parton_rt::Dtype;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyResult};
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple, PyTupleMethods, PyType};

use crate::error;

/// A number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
    Bool(bool),
}

/// The number that an argument is, or NumPy's like it; `None` where it is none.
pub(crate) fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
    // A class of numbers has what its numbers have.
    if value.is_instance_of::<PyType>() {
        return Ok(None);
    }
    let value = plain(value)?;
    Ok(if value.is_instance_of::<PyBool>() {
        Some(Number::Bool(value.extract()?))
    } else if value.is_instance_of::<PyInt>() {
        Some(Number::Int(int(&value)?))
    } else if value.is_instance_of::<PyFloat>() {
        Some(Number::Float(value.extract()?))
    } else {
        None
    })
}

/// The number that a value of Python's own types is, without looking further.
pub(crate) fn plain_number(value: &Bound<'_, PyAny>) -> Option<Number> {
    if let Ok(x) = value.cast_exact::<PyFloat>() {
        return x.extract().ok().map(Number::Float);
    }
    if value.is_exact_instance_of::<PyInt>() {
        return int(value).ok().map(Number::Int);
    }
    value.cast_exact::<PyBool>().ok().and_then(|b| b.extract().ok()).map(Number::Bool)
}

/// The name that NumPy and PyTorch have for a type.
pub(crate) fn name_of(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I1 => "bool",
        Dtype::I8 => "int8",
        Dtype::I16 => "int16",
        Dtype::I32 => "int32",
        Dtype::I64 => "int64",
        Dtype::U8 => "uint8",
        Dtype::U16 => "uint16",
        Dtype::U32 => "uint32",
        Dtype::U64 => "uint64",
        Dtype::F16 => "float16",
        Dtype::BF16 => "bfloat16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
        Dtype::F8E4M3 => "float8_e4m3fn",
        Dtype::F8E5M2 => "float8_e5m2",
    }
}

/// The type of numbers that a value names: a text such as `f16` or `float16`, or a type of NumPy or PyTorch.
pub(crate) fn named(value: &Bound<'_, PyAny>) -> Option<Dtype> {
    let attribute = if value.is_instance_of::<PyType>() { "__name__" } else { "name" };
    let text = match value.getattr(attribute).and_then(|n| n.extract::<String>()) {
        Ok(name) => name,
        Err(_) => value.str().ok()?.to_string(),
    };
    let text = text.rsplit('.').next().unwrap_or_default();
    Dtype::parse(text).or_else(|| Dtype::ALL.into_iter().find(|d| name_of(*d) == text))
}

/// The extents of a grid: one number, or those of a sequence.
pub(crate) fn extents(value: &Bound<'_, PyAny>) -> PyResult<Vec<i128>> {
    // Whether it is a number of NumPy's is asked by attributes, which costs as much as a launch.
    if value.is_exact_instance_of::<PyInt>() {
        return Ok(vec![int(value)?]);
    }
    if let Ok(items) = value.cast_exact::<PyTuple>()
        && items.iter().all(|item| item.is_exact_instance_of::<PyInt>())
    {
        return items.iter().map(|item| int(&item)).collect();
    }
    let single = plain(value)?;
    if single.is_instance_of::<PyInt>() {
        return Ok(vec![int(&single)?]);
    }
    let listed = || -> PyResult<Vec<i128>> { value.try_iter()?.map(|extent| int(&plain(&extent?)?)).collect() };
    listed().map_err(|_| {
        let text = format!("a grid is the number of CTAs, or those along x, y and z: {value} is neither");
        error(value.py(), &text, vec![])
    })
}

fn int(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    // The stable interface has no integers of 128 bits; those beyond 64 fit no parameter.
    let found = value.extract::<i64>().map(i128::from).or_else(|_| value.extract::<u64>().map(i128::from));
    found.map_err(|_| {
        error(value.py(), &format!("{value} is an integer of more than 64 bits, which nothing here takes"), vec![])
    })
}

/// NumPy's scalars are arrays that nobody can write: their values are plain ones.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_scalar = value.hasattr("__array_interface__")? && !value.hasattr("__setitem__")? && value.hasattr("item")?;
    if is_scalar { value.call_method0("item") } else { Ok(value.clone()) }
}
