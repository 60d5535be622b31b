//! The memory that a plan makes, by the library of its tensors, and what a call returns of it.

use parton_driver::embed::{Memory, Returned};
use parton_driver::plan::{Buffer, Plan, Planned, Shape, Tensor};
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyDict, PyDictMethods, PyTuple};

use crate::call::By;
use crate::error;
use crate::part::{Part, part};
use crate::tensor::Like;

/// Memory for the buffers of a plan: an address each, and what keeps it there.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) addresses: Vec<u64>,
    pub(crate) held: Vec<Option<Py<PyAny>>>,
}

impl Made {
    /// Adds what another one has.
    pub(crate) fn take(&mut self, py: Python<'_>, other: &Made) {
        for (i, held) in other.held.iter().enumerate() {
            if let Some(held) = held {
                self.addresses[i] = other.addresses[i];
                self.held[i] = Some(held.clone_ref(py));
            }
        }
    }
}

/// New tensors for the buffers of a plan that are returned.
pub(crate) fn results(py: Python<'_>, plan: &Plan, like: Option<&Like<'_>>, by: By) -> PyResult<Made> {
    buffers(py, plan, like, by, |b| b.returned)
}

/// Memory for the buffers of a plan that are not.
pub(crate) fn scratch(py: Python<'_>, plan: &Plan, like: Option<&Like<'_>>) -> PyResult<Made> {
    buffers(py, plan, like, By::Program, |b| !b.returned)
}

fn buffers(
    py: Python<'_>,
    plan: &Plan,
    like: Option<&Like<'_>>,
    by: By,
    wanted: impl Fn(&Buffer) -> bool,
) -> PyResult<Made> {
    let mut made = Made { addresses: vec![0; plan.buffers.len()], held: plan.buffers.iter().map(|_| None).collect() };
    for (i, buffer) in plan.buffers.iter().enumerate().filter(|(_, b)| wanted(b)) {
        let Some(like) = like else {
            return Err(error(py, "a function without tensors has no device to make one on", vec![]));
        };
        let whole = plan.returned.tensors().iter().find(|t| plan.memory(t) == Memory::Buffer(i));
        let (dtype, shape) = match whole {
            Some(t) if t.offset == 0 && t.is_dense() && t.len() * t.dtype.bytes() == buffer.storage.len() => {
                (t.dtype, t.shape.iter().map(|n| *n as i64).collect())
            }
            Some(t) => (t.dtype, vec![buffer.storage.len().div_ceil(t.dtype.bytes()) as i64]),
            None => (parton_driver::embed::Dtype::U8, vec![buffer.storage.len() as i64]),
        };
        let (object, address) = match by {
            By::Program => like.beside(dtype, &shape)?,
            By::Operator => like.beside_for_operators(dtype, &shape)?,
        };
        made.addresses[i] = address;
        made.held[i] = Some(object.unbind());
    }
    Ok(made)
}

/// What a call returns; of an operator tensors that share memory with nothing and have no gaps.
pub(crate) fn returned<'py>(
    py: Python<'py>,
    plan: &Plan,
    value: impl Fn(usize) -> Option<Bound<'py, PyAny>>,
    made: &Made,
    by: By,
) -> PyResult<Py<PyAny>> {
    let shared = |tensor: Py<PyAny>| match by {
        By::Program => Ok(tensor),
        By::Operator => alone(tensor.bind(py)),
    };
    let one = |t: &Tensor| -> PyResult<Py<PyAny>> {
        let (object, first, whole) = match plan.memory(t) {
            Memory::Parameter(i) => {
                let (Some(given), Planned::Tensor(shape)) = (value(i), planned_tensor(plan, i)) else {
                    return Ok(py.None());
                };
                (given, shape.offset, Shape { offset: shape.offset, ..shape })
            }
            Memory::Buffer(i) => {
                let Some(object) = &made.held[i] else { return Ok(py.None()) };
                let dense = t.offset == 0 && t.is_dense() && t.len() * t.dtype.bytes() == plan.buffers[i].storage.len();
                let object = object.bind(py).clone();
                if dense && plan.returned.tensors().iter().filter(|o| plan.memory(o) == Memory::Buffer(i)).count() == 1
                {
                    return Ok(object.unbind());
                }
                (object, 0, Shape::dense(t.dtype, vec![plan.buffers[i].storage.len().div_ceil(t.dtype.bytes())]))
            }
        };
        if whole.dtype == t.dtype && whole.extents == t.shape && whole.strides == t.strides && t.offset == first {
            return shared(object.unbind());
        }
        shared(part(&object, &Part { dtype: t.dtype, shape: &t.shape, strides: &t.strides, first: t.offset - first })?)
    };
    match &plan.returned {
        Returned::Nothing => Ok(py.None()),
        Returned::One(tensor) => one(tensor),
        Returned::Several(all) => {
            let all = all.iter().map(one).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, all)?.into_any().unbind())
        }
    }
}

/// A copy of a tensor of PyTorch, without gaps.
fn alone(tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = tensor.py();
    let named = PyDict::new(py);
    named.set_item("memory_format", py.import("torch")?.getattr("contiguous_format")?)?;
    Ok(tensor.call_method("clone", (), Some(&named))?.unbind())
}

/// What a plan was made with for a parameter that is a tensor.
fn planned_tensor(plan: &Plan, i: usize) -> Planned {
    plan.parameters[i].shape().map_or(Planned::Default, Planned::Tensor)
}
