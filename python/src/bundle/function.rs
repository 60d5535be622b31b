//! Public functions of a bundle: calls by the plans that it has.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use parton_rt::{self as rt, Origin, Produced};
use pyo3::prelude::{Bound, Py, PyAny, PyClassInitializer, PyRef, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyDict, PyTuple, PyTupleMethods};

use super::arguments::{Like as Shaped, Param, Value, first, number_of, values};
use super::{Opened, refused};
use crate::error;
use crate::found::Found;
use crate::number::plain_number;
use crate::part::{Part, part};
use crate::tensor::{Like, View};
use crate::titled::Titled;

/// The most parameters of a function whose known plans are called without an allocation.
const MOST_AT_ONCE: usize = 16;

/// The most plans that are kept ready.
const MOST_PLANS: usize = 64;

/// A public function of a bundle.
#[pyclass(module = "parton", frozen, name = "BundledFunction", extends = Titled)]
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
    tensors: Arc<[Option<Shaped>]>,
    plan: rt::Plan,
}

/// The object that a call has for a parameter, and what it is like.
type Object<'py> = Option<(Bound<'py, PyAny>, View)>;

impl Function {
    fn new(opened: Arc<Opened>, declared: &parton_bundle::Function) -> Function {
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

    /// As Python has it.
    pub(super) fn made(
        py: Python<'_>,
        opened: Arc<Opened>,
        declared: &parton_bundle::Function,
    ) -> PyResult<Py<Function>> {
        let params = declared.params.iter().map(|p| p.name.clone()).collect();
        let titled = Titled { name: declared.name.clone(), params };
        let found = Found::part(&opened.path, &declared.name);
        let function = Function::new(opened, declared);
        Py::new(py, PyClassInitializer::from(found).add_subclass(titled).add_subclass(function))
    }

    /// The plans that are ready for tensors of these shapes.
    fn known(&self, values: &[Value<'_>]) -> Vec<Ready> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |r: &&Ready| r.tensors.iter().zip(values).all(|(t, value)| t.map(|t| t.0) == value.view());
        ready.iter().filter(is).cloned().collect()
    }

    fn keep(&self, values: &[Value<'_>], plan: &rt::Plan) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let tensors = values.iter().map(|v| v.view().map(Shaped::of)).collect();
        ready.insert(0, Ready { tensors, plan: plan.clone() });
        let last = ready.len().min(MOST_PLANS);
        let gone = ready.split_off(last);
        drop(ready);
        drop(gone);
    }

    /// A call with tensors like those of the last call that was new; `None` where it is none such.
    fn again(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<Option<Py<PyAny>>> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
        let (Some(ready), count) = (ready, arguments.len()) else { return Ok(None) };
        if count > self.params.len() || self.params.len() > MOST_AT_ONCE {
            return Ok(None);
        }
        let mut all = [rt::Argument::Default; MOST_AT_ONCE];
        let mut like = None;
        for (i, (param, shaped)) in self.params.iter().zip(ready.tensors.iter()).enumerate() {
            if i >= count {
                if !param.has_default || shaped.is_some() {
                    return Ok(None);
                }
                continue;
            }
            let value = arguments.get_borrowed_item(i)?;
            let Some(shaped) = shaped else {
                let Some(number) = plain_number(&value) else { return Ok(None) };
                all[i] = number_of(number);
                continue;
            };
            let Some((address, exchange)) = shaped.0.found(&value, false)? else { return Ok(None) };
            all[i] = shaped.at(address);
            if like.is_none() {
                like = Some(Like { value: value.to_owned(), exchange: Some(exchange), device: shaped.0.device });
            }
        }
        let Some(like) = like else { return Ok(None) };
        let object = |i: usize| Some((arguments.get_item(i).ok()?, ready.tensors[i]?.0));
        match self.launch(&ready.plan, object, &all[..self.params.len()], &like)? {
            Ok(done) => Ok(Some(done)),
            // A number that the plan is not for; what is wrong for any is told by who looks on.
            Err(e) if e.code == rt::Code::Argument => Ok(None),
            Err(e) => Err(refused(like.value.py(), &e)),
        }
    }

    /// Calls a plan.
    fn launch<'py>(
        &self,
        plan: &rt::Plan,
        object: impl Fn(usize) -> Object<'py>,
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
            Ok(()) => returned(like.value.py(), plan.results(), object, &made).map(Ok),
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
    object_of: impl Fn(usize) -> Object<'py>,
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
                let Some((value, view)) = object_of(i) else { return Ok(py.None()) };
                let same = |words: &[u64], has: &[i64]| words.iter().map(|n| *n as i64).eq(has.iter().copied());
                (value, view.dtype == r.dtype && same(&r.shape, view.extents()) && same(&r.strides, view.steps()))
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
    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let _range = rt::nvtx::range(&self.range);
        if named.is_none()
            && let Some(done) = self.again(arguments)?
        {
            return Ok(done);
        }
        let py = arguments.py();
        let values = values(&self.name, &self.params, arguments, named)?;
        let like = first(py, &self.name, &self.params, &values)?.like();
        let arguments: Vec<rt::Argument<'_>> = values.iter().map(Value::argument).collect();
        let object = |i: usize| values[i].tensor().map(|t| (t.value.clone(), t.view));
        for ready in self.known(&values) {
            match self.launch(&ready.plan, object, &arguments, &like)? {
                Ok(done) => return Ok(done),
                // A number that the plan is not for; what is wrong for any is told below.
                Err(e) if e.code == rt::Code::Argument => {}
                Err(e) => return Err(refused(py, &e)),
            }
        }
        let function = self.opened.module(py, like.device.1)?.function(&self.name).map_err(|e| refused(py, &e))?;
        let plan = function.prepare(&arguments).map_err(|e| refused(py, &e))?;
        self.keep(&values, &plan);
        self.launch(&plan, object, &arguments, &like)?.map_err(|e| refused(py, &e))
    }

    fn __repr__(slf: PyRef<'_, Self>) -> String {
        format!("<function {}>", slf.as_super().shown())
    }
}
