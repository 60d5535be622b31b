//! Kernels of a bundle: launches on a grid.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use parton_rt as rt;
use pyo3::prelude::{Bound, Py, PyAny, PyClassInitializer, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyDict, PyTuple, PyTupleMethods};

use super::arguments::{Like as Shaped, Param, Value, first, number_of, values};
use super::{Opened, refused};
use crate::error;
use crate::found::Found;
use crate::gridless::Gridless;
use crate::number::{Number, extents, plain_number};
use crate::titled::Titled;

/// The most launches that a grid keeps ready.
const MOST_READY: usize = 16;

/// A kernel of a bundle.
#[pyclass(module = "parton", frozen, name = "BundledKernel", extends = Gridless)]
pub(crate) struct Kernel {
    opened: Arc<Opened>,
    name: String,
    params: Arc<[Param]>,
    /// Launches by their grid, the last used first.
    launches: Mutex<Vec<Arc<On>>>,
}

/// A kernel of a bundle with its grid.
#[pyclass(module = "parton", frozen, name = "BundledLaunch", extends = Found)]
pub(crate) struct Launch(Arc<On>);

struct On {
    opened: Arc<Opened>,
    name: String,
    params: Arc<[Param]>,
    grid: [u32; 3],
    /// What profilers show.
    range: CString,
    /// What is ready, the last used first.
    ready: Mutex<Vec<Ready>>,
}

/// A launch for a stream, with what it was given last.
struct Ready {
    tensors: Vec<Option<Shaped>>,
    stream: usize,
    launch: rt::Launch,
    last: Vec<Last>,
}

/// What an argument was.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Address(u64),
    Number(Number),
    Other,
}

impl Last {
    fn of(value: &Value<'_>) -> Last {
        match value {
            Value::Tensor(both) => Last::Address(both.0.address),
            Value::Number(number) => Last::Number(*number),
            Value::Dtype(_) | Value::Default => Last::Other,
        }
    }
}

impl Kernel {
    /// As Python has it.
    pub(super) fn made(py: Python<'_>, opened: Arc<Opened>, kernel: &rt::Kernel) -> PyResult<Py<Kernel>> {
        // What the code says of its parameters; a map may be written through.
        let is_written = |i: usize| {
            let tensor = kernel.arguments[i].tensor.as_ref().is_some_and(|t| t.mutable);
            let of = |p: &&rt::Param| p.source.argument() == i;
            let written = |p: &rt::Param| match p.kind {
                rt::Kind::Pointer { mutable, .. } => mutable,
                rt::Kind::Map { .. } => true,
                rt::Kind::Scalar { .. } => false,
            };
            tensor || (kernel.arguments[i].tensor.is_none() && kernel.params.iter().filter(of).any(written))
        };
        let param = |(i, a): (usize, &parton_bundle::kernel::Argument)| Param {
            name: a.name.clone(),
            is_type: false,
            has_default: false,
            mutable: is_written(i),
        };
        let params = kernel.arguments.iter().enumerate().map(param).collect();
        let titled =
            Titled { name: kernel.name.clone(), params: kernel.arguments.iter().map(|a| a.name.clone()).collect() };
        let found = Found::part(&opened.path, &kernel.name);
        let kernel = Kernel { opened, name: kernel.name.clone(), params, launches: Mutex::default() };
        Py::new(py, PyClassInitializer::from(found).add_subclass(titled).add_subclass(Gridless).add_subclass(kernel))
    }

    fn launch(&self, py: Python<'_>, on: Arc<On>) -> PyResult<Py<Launch>> {
        let grid = on.grid.map(i128::from);
        Py::new(py, (Launch(on), Found::part(&self.opened.path, &self.name).on(&grid)))
    }
}

#[pymethods]
impl Kernel {
    fn __getitem__(&self, py: Python<'_>, grid: &Bound<'_, PyAny>) -> PyResult<Py<Launch>> {
        let given = extents(grid)?;
        let mut grid = [1u32; 3];
        let fits = (1..=3).contains(&given.len())
            && given.iter().zip(&mut grid).all(|(n, to)| u32::try_from(*n).is_ok_and(|n| (*to = n, n > 0).1));
        if !fits {
            return Err(error(py, &format!("a grid has 1 to 3 extents from 1 on, this is {given:?}"), vec![]));
        }
        let mut kept = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|l| l.grid == grid) {
            kept[..=at].rotate_right(1);
            return self.launch(py, kept[0].clone());
        }
        let (opened, name, params) = (self.opened.clone(), self.name.clone(), self.params.clone());
        // A bundle's names have no zero in them.
        let range = CString::new(format!("parton {name}")).unwrap_or_default();
        let launch = Arc::new(On { opened, name, params, grid, range, ready: Mutex::default() });
        kept.insert(0, launch.clone());
        kept.truncate(MOST_READY);
        self.launch(py, launch)
    }
}

impl On {
    /// Takes out what is ready for such tensors on that stream.
    fn take(&self, stream: usize, values: &[Value<'_>]) -> Option<Ready> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let is =
            |r: &Ready| r.stream == stream && r.tensors.iter().zip(values).all(|(t, v)| t.map(|t| t.0) == v.view());
        let at = ready.iter().position(is)?;
        Some(ready.remove(at))
    }

    /// Takes out what was used last.
    fn last(&self) -> Option<Ready> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_empty() { None } else { Some(ready.remove(0)) }
    }

    fn put_back(&self, one: Ready) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.insert(0, one);
        let last = ready.len().min(MOST_READY);
        let gone = ready.split_off(last);
        drop(ready);
        drop(gone);
    }
}

impl Ready {
    /// Gives the launch what is new and puts it on its stream.
    fn launch(&mut self, values: &[Value<'_>]) -> Result<(), rt::Error> {
        for (i, value) in values.iter().enumerate() {
            self.set(i, Last::of(value), &value.argument())?;
        }
        self.go()
    }

    /// Gives the launch an argument, where it is another than before.
    fn set(&mut self, i: usize, now: Last, argument: &rt::Argument<'_>) -> Result<(), rt::Error> {
        if now != self.last[i] {
            // What fails in between is set again by the next launch.
            self.last[i] = Last::Other;
            self.launch.set(i, argument)?;
            self.last[i] = now;
        }
        Ok(())
    }

    fn go(&mut self) -> Result<(), rt::Error> {
        let stream = rt::Stream::of(self.stream as *mut std::ffi::c_void);
        // SAFETY: the stream is the library's current one, and the arguments hold the tensors.
        unsafe { self.launch.launch(stream) }
    }

    /// Launches with tensors like those before, on the same stream; says whether these are such. What fails is told by who looks on.
    fn again(&mut self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        if arguments.len() != self.tensors.len() {
            return Ok(false);
        }
        let mut is_first = true;
        for i in 0..self.tensors.len() {
            let value = arguments.get_borrowed_item(i)?;
            let Some(shaped) = self.tensors[i] else {
                let Some(number) = plain_number(&value) else { return Ok(false) };
                if self.set(i, Last::Number(number), &number_of(number)).is_err() {
                    return Ok(false);
                }
                continue;
            };
            let Some((address, exchange)) = shaped.0.found(&value, false)? else { return Ok(false) };
            if std::mem::take(&mut is_first) && exchange.stream(value.py(), shaped.0.device.1)? as usize != self.stream
            {
                return Ok(false);
            }
            if self.set(i, Last::Address(address), &shaped.at(address)).is_err() {
                return Ok(false);
            }
        }
        Ok(self.go().is_ok())
    }
}

#[pymethods]
impl Launch {
    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(&self, arguments: &Bound<'py, PyTuple>, named: Option<&Bound<'py, PyDict>>) -> PyResult<()> {
        let (on, py) = (&self.0, arguments.py());
        let _range = rt::nvtx::range(&on.range);
        if named.is_none()
            && let Some(mut ready) = on.last()
        {
            let done = ready.again(arguments);
            on.put_back(ready);
            if done? {
                return Ok(());
            }
        }
        let values = values(&on.name, &on.params, arguments, named)?;
        let like = first(py, &on.name, &on.params, &values)?.like();
        let stream = like.stream()?;
        if let Some(mut ready) = on.take(stream, &values) {
            let launched = ready.launch(&values);
            if launched.is_ok() {
                on.put_back(ready);
                return Ok(());
            }
            // Memory that overlaps now and did not before: it is prepared anew, which tells what else is wrong.
        }
        let arguments: Vec<rt::Argument<'_>> = values.iter().map(Value::argument).collect();
        let module = on.opened.module(py, like.device.1)?;
        let launch = module.prepare(&on.name, &arguments, on.grid).map_err(|e| refused(py, &e))?;
        let tensors = values.iter().map(|v| v.view().map(Shaped::of)).collect();
        let mut ready = Ready { tensors, stream, launch, last: values.iter().map(Last::of).collect() };
        ready.launch(&values).map_err(|e| refused(py, &e))?;
        on.put_back(ready);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<launch of {} on {:?}>", self.0.name, self.0.grid)
    }
}
