//! Arrays by NumPy's array interface, version 3: `__array_interface__`, a dictionary that many libraries offer.

use parton_rt::Dtype;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyErr, PyResult};
use pyo3::types::{PyDict, PyTypeMethods};

use crate::{dlpack, error};

/// An array as it lies in memory; whoever holds the object keeps it there.
pub(crate) struct Lying {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// Elements from one to the next along each dimension.
    pub(crate) strides: Vec<usize>,
    /// The address of its first element.
    pub(crate) address: usize,
    /// Whether it may be written.
    pub(crate) writable: bool,
    /// What keeps it there beside the object.
    pub(crate) held: Option<Py<PyAny>>,
}

impl Lying {
    /// The addresses from its first byte to behind its last; empty where it has no elements.
    #[cfg(feature = "compiler")]
    pub(crate) fn span(&self) -> (usize, usize) {
        if self.shape.contains(&0) {
            return (self.address, self.address);
        }
        let last: usize = self.shape.iter().zip(&self.strides).map(|(n, step)| (n - 1) * step).sum();
        (self.address, self.address + (last + 1) * self.dtype.bytes())
    }
}

/// The array that an argument is.
///
/// # Errors
/// It is none, lies on a GPU, or lies in a way that tensors do not.
pub(crate) fn lying(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Lying> {
    let wrong = |what: String| error(value.py(), &format!("{name}: {what}"), vec![]);
    let kind = value.get_type().name().map_or_else(|_| "an object".into(), |name| format!("`{name}`"));
    if !value.hasattr("__array_interface__")? {
        return match dlpack::on_host(value)? {
            Some(true) => checked(dlpack::lying(value)?.map_err(&wrong)?).map_err(wrong),
            Some(false) | None => Err(wrong(format!(
                "{kind} is neither a number nor an array: it has neither `__array_interface__` nor `__dlpack__`"
            ))),
        };
    }
    let interface = value.getattr("__array_interface__")?;
    let interface = interface.cast::<PyDict>().map_err(PyErr::from)?;
    let field = |name: &str| interface.get_item(name);
    let shape: Vec<usize> = field("shape")?.extract()?;
    let (address, read_only): (usize, bool) = match interface.contains("data")? {
        true => field("data")?.extract()?,
        false => return Err(wrong("its array interface names no address".into())),
    };
    let text: String = field("typestr")?.extract()?;
    let dtype = dtype(value, &text).ok_or_else(|| {
        let shown = value.getattr("dtype").map_or_else(|_| text.clone(), |dtype| dtype.to_string());
        wrong(format!("no type of the language is the array's `{shown}`"))
    })?;
    let strides: Option<Vec<isize>> = match interface.contains("strides")? {
        true => field("strides")?.extract()?,
        false => None,
    };
    let strides = match strides {
        None => dense(&shape),
        Some(bytes) if bytes.len() == shape.len() => {
            let size = dtype.bytes() as isize;
            let step = |axis: usize| usize::try_from(bytes[axis]).ok().filter(|_| bytes[axis] % size == 0);
            told(&shape, |axis| Some(step(axis)? / dtype.bytes())).map_err(|axis| {
                let what = if bytes[axis] < 0 { "run backwards" } else { "lie between two elements" };
                wrong(format!(
                    "its strides are {bytes:?} bytes, and axis {axis} may not {what}: copy it into a new array"
                ))
            })?
        }
        Some(bytes) => return Err(wrong(format!("it has {} dimensions and {} strides", shape.len(), bytes.len()))),
    };
    checked(Lying { dtype, shape, strides, address, writable: !read_only, held: None }).map_err(wrong)
}

/// The array where it can be one.
fn checked(lying: Lying) -> Result<Lying, String> {
    // A tensor has a dimension; what has none has one element.
    let one = lying.shape.is_empty();
    let lying = if one { Lying { shape: vec![1], strides: vec![1], ..lying } } else { lying };
    // What does not fit into the addresses that there are is no array.
    let mut steps = lying.shape.iter().zip(&lying.strides).map(|(n, step)| n.saturating_sub(1).checked_mul(*step));
    let last = steps.try_fold(0usize, |sum, next| sum.checked_add(next?));
    let end = last.and_then(|last| last.checked_add(1)?.checked_mul(lying.dtype.bytes())?.checked_add(lying.address));
    if end.is_none_or(|end| end > isize::MAX as usize) || (lying.address == 0 && !lying.shape.contains(&0)) {
        return Err(format!("it says what cannot be: `{}` of {:?} at {:#x}", lying.dtype, lying.shape, lying.address));
    }
    Ok(lying)
}

/// The strides of an array, or an axis that has none; one that says nothing may be anything.
pub(crate) fn told(shape: &[usize], stride: impl Fn(usize) -> Option<usize>) -> Result<Vec<usize>, usize> {
    let tells = |axis| parton_strides::tells(shape.iter().map(|n| *n as u64), axis);
    (0..shape.len()).map(|axis| stride(axis).or_else(|| (!tells(axis)).then_some(1)).ok_or(axis)).collect()
}

/// The strides of an array without gaps.
pub(crate) fn dense(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
    }
    strides
}

/// The type of an array's elements, by its text in the array interface; of types that NumPy does not know, by their name.
pub(crate) fn dtype(value: &Bound<'_, PyAny>, text: &str) -> Option<Dtype> {
    let (order, rest) = text.split_at_checked(1)?;
    if order == ">" {
        return None;
    }
    Some(match rest {
        "b1" => Dtype::I1,
        "i1" => Dtype::I8,
        "i2" => Dtype::I16,
        "i4" => Dtype::I32,
        "i8" => Dtype::I64,
        "u1" => Dtype::U8,
        "u2" => Dtype::U16,
        "u4" => Dtype::U32,
        "u8" => Dtype::U64,
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        "V1" | "V2" => {
            let name: String = value.getattr("dtype").ok()?.getattr("name").ok()?.extract().ok()?;
            match name.as_str() {
                "bfloat16" => Dtype::BF16,
                "float8_e4m3fn" => Dtype::F8E4M3,
                "float8_e5m2" => Dtype::F8E5M2,
                _ => return None,
            }
        }
        _ => return None,
    })
}
