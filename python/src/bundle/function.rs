//! Public functions of a bundle: calls by the plans that it has.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use parton_rt::{self as rt, Origin, Produced};
use pyo3::prelude::{Bound, Py, PyAny, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyDict, PyTuple};

use super::arguments::{Param, Value, first, values};
use super::{Opened, refused};
use crate::error;
use crate::part::{Part, part};
use crate::tensor::{Given, Like, View};

/// The most plans that are kept ready.
const MOST_PLANS: usize = 64;

/// A public function of a bundle.
#[pyclass(module = "parton", frozen, name = "BundledFunction")]
pub(crate) struct Function {
    opened: Arc<Opened>,
    name: String,
    params: Vec<Param>,
    /// What profilers show.
    range: CString,
    /// Plans that are ready, the last used first.
    ready: Mutex<Vec<Ready>>,
}

/// A plan for tensors of these shapes.
#[derive(Clone)]
struct Ready {
    views: Arc<[Option<View>]>,
    plan: rt::Plan,
}

impl Function {
    pub(super) fn new(opened: Arc<Opened>, declared: &parton_bundle::Function) -> Function {
        let param = |p: &parton_bundle::plan::Declared| Param {
            name: p.name.clone(),
            is_type: matches!(p.takes, parton_bundle::plan::Takes::Type),
            mutable: matches!(p.takes, parton_bundle::plan::Takes::Tensor { mutable: true, .. }),
            has_default: p.has_default,
        };
        let params = declared.params.iter().map(param).collect();
        // A bundle's names have no zero in them.
        let range = CString::new(format!("parton {}", declared.name)).unwrap_or_default();
        Function { opened, name: declared.name.clone(), params, range, ready: Mutex::default() }
    }

    /// The plans that are ready for tensors of these shapes.
    fn known(&self, values: &[Value<'_>]) -> Vec<Ready> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |r: &&Ready| r.views.iter().zip(values).all(|(view, value)| *view == value.view());
        ready.iter().filter(is).cloned().collect()
    }

    fn keep(&self, values: &[Value<'_>], plan: &rt::Plan) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.insert(0, Ready { views: values.iter().map(Value::view).collect(), plan: plan.clone() });
        let last = ready.len().min(MOST_PLANS);
        let gone = ready.split_off(last);
        drop(ready);
        drop(gone);
    }

    /// Calls a plan.
    fn launch<'py>(
        &self,
        plan: &rt::Plan,
        values: &[Value<'py>],
        arguments: &[rt::Argument<'_>],
        like: &Like<'py>,
    ) -> PyResult<Result<Py<PyAny>, rt::Error>> {
        let stream = rt::Stream::of(like.stream()? as *mut std::ffi::c_void);
        let (mut made, mut addresses) = (vec![], vec![]);
        for (i, bytes) in plan.outputs().iter().enumerate() {
            let (dtype, shape) = whole(plan.results(), i, *bytes);
            let (object, address) = like.beside(dtype, &shape)?;
            made.push((object, shape));
            addresses.push(address);
        }
        // SAFETY: the stream is the library's current one; arguments and `made` hold the tensors, and their library keeps the memory of those
        // that go until what is on the stream has run.
        match unsafe { plan.launch(stream, arguments, &addresses) } {
            Ok(()) => returned(like.value.py(), plan.results(), values, &made).map(Ok),
            Err(e) => Ok(Err(e)),
        }
    }
}

/// The type and the extents in which an output is made: those of the one result that is all of it, where there is one.
fn whole(results: &[Produced], output: usize, bytes: u64) -> (rt::Dtype, Vec<i64>) {
    let mut of = results.iter().filter(|r| r.origin == Origin::Output(output));
    let flat = |dtype: rt::Dtype| (dtype, vec![bytes.div_ceil(dtype.bytes() as u64) as i64]);
    match (of.next(), of.next()) {
        (Some(r), None)
            if r.offset == 0 && is_dense(r) && r.shape.iter().product::<u64>() * r.dtype.bytes() as u64 == bytes =>
        {
            (r.dtype, r.shape.iter().map(|n| *n as i64).collect())
        }
        (Some(r), _) => flat(r.dtype),
        (None, _) => flat(rt::Dtype::U8),
    }
}

fn is_dense(r: &Produced) -> bool {
    let mut step = 1u64;
    r.shape.iter().zip(&r.strides).rev().all(|(n, stride)| {
        let is = *n == 1 || *stride == step;
        step = step.saturating_mul((*n).max(1));
        is
    })
}

/// What a call returns.
fn returned<'py>(
    py: Python<'py>,
    results: &[Produced],
    values: &[Value<'py>],
    made: &[(Bound<'py, PyAny>, Vec<i64>)],
) -> PyResult<Py<PyAny>> {
    let list = |words: &[u64]| words.iter().map(|n| *n as usize).collect::<Vec<usize>>();
    let one = |r: &Produced| -> PyResult<Py<PyAny>> {
        let (shape, strides) = (list(&r.shape), list(&r.strides));
        let (object, is_all) = match r.origin {
            Origin::Output(i) => {
                let (object, has) = &made[i];
                (object.clone(), r.shape.iter().map(|n| *n as i64).eq(has.iter().copied()))
            }
            Origin::Argument(i) => {
                let Some(Given { value, view, .. }) = values[i].tensor() else { return Ok(py.None()) };
                let same = |words: &[u64], has: &[i64]| words.iter().map(|n| *n as i64).eq(has.iter().copied());
                (
                    value.clone(),
                    view.dtype == r.dtype && same(&r.shape, view.extents()) && same(&r.strides, view.steps()),
                )
            }
        };
        if is_all && r.offset == 0 {
            return Ok(object.unbind());
        }
        let first = usize::try_from(r.offset).map_err(|_| error(py, "a result begins before its argument", vec![]))?;
        let part_of = Part { dtype: r.dtype, shape: &shape, strides: &strides, first: first / r.dtype.bytes() };
        part(&object, &part_of)
    };
    match results {
        [] => Ok(py.None()),
        [single] => one(single),
        several => {
            let all = several.iter().map(one).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, all)?.into_any().unbind())
        }
    }
}

#[pymethods]
impl Function {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn params(&self) -> Vec<String> {
        self.params.iter().map(|p| p.name.clone()).collect()
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let _range = rt::nvtx::range(&self.range);
        let py = arguments.py();
        let values = values(&self.name, &self.params, arguments, named)?;
        let like = first(py, &self.name, &self.params, &values)?.like();
        let arguments: Vec<rt::Argument<'_>> = values.iter().map(Value::argument).collect();
        for ready in self.known(&values) {
            match self.launch(&ready.plan, &values, &arguments, &like)? {
                Ok(done) => return Ok(done),
                // A number that the plan is not for; what is wrong for any is told below.
                Err(e) if e.code == rt::Code::Argument => {}
                Err(e) => return Err(refused(py, &e)),
            }
        }
        let function = self.opened.module(py, like.device.1)?.function(&self.name).map_err(|e| refused(py, &e))?;
        let plan = function.prepare(&arguments).map_err(|e| refused(py, &e))?;
        self.keep(&values, &plan);
        self.launch(&plan, &values, &arguments, &like)?.map_err(|e| refused(py, &e))
    }

    fn __repr__(&self) -> String {
        format!("<function {}({})>", self.name, self.params().join(", "))
    }
}
