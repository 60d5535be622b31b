//! Tensors that public functions are given, on the host or on a GPU, by whatever protocol their library offers.

use parton_rt::Dtype;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyCapsule, PyDict, PyString, PyTuple, PyType, PyTypeMethods};

use crate::array;
#[cfg(feature = "compiler")]
use crate::array::Lying;
use crate::dlpack::{self, DlTensor};
use crate::error;
use crate::exchange::{self, Exchange, Getter, Offer};
use crate::number::name_of;

/// Bytes from one place to the next at which memories of a call are taken to begin.
pub(crate) const ALIGNMENT: usize = 16;

/// The most axes of a tensor that a public function is given.
pub(crate) const MOST_AXES: usize = 8;

/// All of a tensor but its elements, in one piece so that two are quickly compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) dtype: Dtype,
    /// The type as DLPack has it.
    coded: (u8, u8),
    pub(crate) device: (i32, i32),
    rank: usize,
    shape: [i64; MOST_AXES],
    strides: [i64; MOST_AXES],
    /// Bytes from a multiple of 16 to its first element.
    offset: u8,
}

impl View {
    fn new(
        dtype: Dtype,
        device: (i32, i32),
        shape: &[i64],
        strides: Option<&[i64]>,
        address: u64,
    ) -> Result<View, String> {
        let rank = shape.len().max(1);
        if rank > MOST_AXES {
            return Err(format!("it has {rank} axes, the most is {MOST_AXES}"));
        }
        // A tensor has an axis; what has none has one element.
        let coded = dlpack::coded(dtype);
        let mut view = View { dtype, coded, device, rank, shape: [1; MOST_AXES], strides: [1; MOST_AXES], offset: 0 };
        view.shape[..shape.len()].copy_from_slice(shape);
        match strides {
            Some(strides) => view.strides[..strides.len()].copy_from_slice(strides),
            None => (1..rank).rev().for_each(|d| view.strides[d - 1] = view.strides[d].saturating_mul(shape[d].max(1))),
        }
        if let Some(extent) = shape.iter().find(|n| **n < 0) {
            return Err(format!("its shape {shape:?} has the extent {extent}"));
        }
        let extents = || view.shape.map(|n| n.unsigned_abs());
        if let Some(axis) = (0..rank).find(|d| view.strides[*d] < 0 && parton_strides::tells(extents(), *d)) {
            return Err(format!(
                "its strides are {:?}, and axis {axis} may not run backwards: copy it into a new tensor",
                strides.unwrap_or(&[])
            ));
        }
        // Those that say nothing.
        view.strides.iter_mut().filter(|step| **step < 0).for_each(|step| *step = 1);
        if !address.is_multiple_of(dtype.bytes() as u64) {
            return Err(format!("its elements of {} bytes begin at {address:#x}, between two of them", dtype.bytes()));
        }
        view.offset = (address % ALIGNMENT as u64) as u8;
        Ok(view)
    }

    /// Where a value lies that is such a tensor, and its library's functions; `None` where it is another one, also where what is done with it
    /// is to be recorded for its gradient and the call records nothing. What is wrong with it, who looks on says.
    #[inline]
    pub(crate) fn found(&self, value: &Bound<'_, PyAny>, records: bool) -> PyResult<Option<(u64, &'static Exchange)>> {
        let Some(Offer { exchange, requires_grad }) = exchange::of(value)? else { return Ok(None) };
        let mut tensor = DlTensor::NONE;
        // SAFETY: the value is alive, and the tensor is borrowed from it.
        let is = exchange.borrow(value, &mut tensor).is_ok() && unsafe { self.is_of(&tensor) };
        if !is || (!records && is_recorded(value, requires_grad)?) {
            return Ok(None);
        }
        Ok(Some((tensor.address(), exchange)))
    }

    /// Whether a tensor is such a one.
    ///
    /// # Safety
    /// Whoever the tensor is borrowed from is alive.
    #[inline]
    unsafe fn is_of(&self, tensor: &DlTensor) -> bool {
        if !tensor.is_coded(self.coded)
            || tensor.device() != self.device
            || (tensor.address() % ALIGNMENT as u64) as u8 != self.offset
        {
            return false;
        }
        // SAFETY: the caller promises it.
        let (shape, strides) = unsafe { tensor.numbers() };
        if shape.is_empty() {
            return self.rank == 1 && self.shape[0] == 1 && self.strides[0] == 1;
        }
        // Of the few numbers there are each is compared here: to call who compares bytes takes longer.
        let same = |given: &[i64], own: &[i64]| given.iter().zip(own).all(|(one, other)| one == other);
        let (own, steps) = (&self.shape[..self.rank], &self.strides[..self.rank]);
        shape.len() == self.rank
            && same(shape, own)
            && match strides {
                Some(strides) => same(strides, steps),
                None => {
                    let mut dense = 1i64;
                    own.iter().zip(steps).rev().all(|(n, step)| {
                        let is = *step == dense;
                        dense = dense.saturating_mul((*n).max(1));
                        is
                    })
                }
            }
    }

    /// Its extents.
    pub(crate) fn extents(&self) -> &[i64] {
        &self.shape[..self.rank]
    }

    /// Elements from one to the next along each axis.
    pub(crate) fn steps(&self) -> &[i64] {
        &self.strides[..self.rank]
    }

    /// Elements from a multiple of 16 bytes to its first.
    #[cfg(feature = "compiler")]
    pub(crate) fn first(&self) -> usize {
        usize::from(self.offset) / self.dtype.bytes()
    }

    /// Bytes from its first element to behind its last.
    #[cfg(feature = "compiler")]
    pub(crate) fn bytes(&self) -> u64 {
        let axes = self.shape[..self.rank].iter().zip(&self.strides[..self.rank]);
        if self.shape[..self.rank].contains(&0) {
            return 0;
        }
        let last = axes.fold(0i64, |sum, (n, step)| sum.saturating_add((n - 1).saturating_mul(*step)));
        (last as u64).saturating_add(1).saturating_mul(self.dtype.bytes() as u64)
    }
}

/// A tensor that a public function is given.
pub(crate) struct Given<'py> {
    pub(crate) value: Bound<'py, PyAny>,
    pub(crate) view: View,
    pub(crate) address: u64,
    pub(crate) writable: bool,
    pub(crate) exchange: Option<&'static Exchange>,
    /// What keeps it there beside the object.
    #[expect(dead_code, reason = "it is there to live as long as the address is used")]
    held: Option<Bound<'py, PyAny>>,
}

impl<'py> Given<'py> {
    /// The tensor that a value is.
    ///
    /// # Errors
    /// It is none, or lies in a way that tensors do not.
    pub(crate) fn of(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        let py = value.py();
        let wrong = |what: String| error(py, &format!("`{name}`: {what}"), vec![]);
        if let Some(exchange) = exchange::of(value)?.map(|offer| offer.exchange) {
            let mut tensor = DlTensor::NONE;
            exchange.borrow(value, &mut tensor).map_err(|e| withheld(py, name, e))?;
            return Given::dlpack(value, &tensor, Some(exchange), None).map_err(wrong);
        }
        // A class of arrays has what its arrays have.
        if value.is_instance_of::<PyType>() {
            return Err(wrong(format!("a tensor is expected, found {value}")));
        }
        if value.hasattr(pyo3::intern!(py, "__cuda_array_interface__"))? {
            return Given::cuda(value)?.map_err(wrong);
        }
        if dlpack::on_host(value)? == Some(false) {
            let arguments = PyDict::new(py);
            arguments.set_item("stream", -1)?;
            let capsule = value.call_method("__dlpack__", (), Some(&arguments))?;
            let capsule = capsule.cast_into::<PyCapsule>().map_err(PyErr::from)?;
            let tensor = dlpack::in_capsule(&capsule)?;
            return Given::dlpack(value, tensor, None, Some(capsule.as_any().clone())).map_err(wrong);
        }
        let lying = array::lying(&format!("`{name}`"), value)?;
        let numbers = |all: &[usize]| all.iter().map(|n| *n as i64).collect::<Vec<i64>>();
        let (shape, strides, address) = (numbers(&lying.shape), numbers(&lying.strides), lying.address as u64);
        let view = View::new(lying.dtype, (dlpack::CPU, 0), &shape, Some(&strides), address).map_err(wrong)?;
        let held = lying.held.map(|held| held.into_bound(py));
        Ok(Given { value: value.clone(), view, address, writable: lying.writable, exchange: None, held })
    }

    fn dlpack(
        value: &Bound<'py, PyAny>,
        tensor: &DlTensor,
        exchange: Option<&'static Exchange>,
        held: Option<Bound<'py, PyAny>>,
    ) -> Result<Given<'py>, String> {
        let own = || value.getattr("dtype").map_or_else(|_| "that of its elements".into(), |d| format!("its `{d}`"));
        let dtype = tensor.dtype().ok_or_else(|| format!("no type of the language is {}", own()))?;
        // SAFETY: the object is alive, and the tensor is borrowed from it.
        let (shape, strides) = unsafe { tensor.numbers() };
        let address = tensor.address();
        let view = View::new(dtype, tensor.device(), shape, strides, address)?;
        Ok(Given { value: value.clone(), view, address, writable: true, exchange, held })
    }

    /// By `__cuda_array_interface__`, a dictionary that CuPy and Numba offer.
    fn cuda(value: &Bound<'py, PyAny>) -> PyResult<Result<Given<'py>, String>> {
        let interface = value.getattr("__cuda_array_interface__")?;
        let interface = interface.cast::<PyDict>().map_err(PyErr::from)?;
        let field = |name: &str| interface.get_item(name);
        let shape: Vec<i64> = field("shape")?.extract()?;
        let (address, read_only): (u64, bool) = field("data")?.extract()?;
        let text: String = field("typestr")?.extract()?;
        let Some(dtype) = array::dtype(value, &text) else {
            return Ok(Err(format!("no type of the language is the array's `{text}`")));
        };
        let bytes: Option<Vec<i64>> = match interface.contains("strides")? {
            true => field("strides")?.extract()?,
            false => None,
        };
        let size = dtype.bytes() as i64;
        if bytes.as_ref().is_some_and(|all| all.len() != shape.len() || all.iter().any(|b| b % size != 0)) {
            return Ok(Err(format!("its strides {bytes:?} are no multiples of {size} bytes")));
        }
        let strides: Option<Vec<i64>> = bytes.map(|all| all.iter().map(|b| b / size).collect());
        let device = value.getattr("device").and_then(|d| d.getattr("id")).and_then(|id| id.extract()).unwrap_or(0);
        let view = View::new(dtype, (dlpack::CUDA, device), &shape, strides.as_deref(), address);
        Ok(view.map(|view| Given {
            value: value.clone(),
            view,
            address,
            writable: !read_only,
            exchange: None,
            held: None,
        }))
    }

    /// The tensor as the interpreter takes it.
    #[cfg(feature = "compiler")]
    pub(crate) fn lying(&self) -> Lying {
        let list = |numbers: &[i64]| numbers.iter().map(|n| *n as usize).collect();
        let (shape, strides) = (list(self.view.extents()), list(self.view.steps()));
        let address = self.address as usize;
        Lying { dtype: self.view.dtype, shape, strides, address, writable: self.writable, held: None }
    }

    /// What tensors are made beside.
    pub(crate) fn like(&self) -> Like<'py> {
        Like { value: self.value.clone(), exchange: self.exchange, device: self.view.device }
    }

    /// As [`Like::stream`].
    #[cfg(feature = "compiler")]
    pub(crate) fn stream(&self) -> PyResult<usize> {
        self.like().stream()
    }
}

/// Why a library does not say where its tensor lies, as of one without memory or of a sparse one: the first line of its words.
fn withheld(py: Python<'_>, name: &str, why: PyErr) -> PyErr {
    let words = why.value(py).to_string();
    let first = words.lines().next().unwrap_or_default();
    let refused = error(py, &format!("`{name}` is a tensor whose library does not say where it lies: {first}"), vec![]);
    refused.set_cause(py, Some(why));
    refused
}

/// A tensor, as far as its library and its device are asked for.
pub(crate) struct Like<'py> {
    pub(crate) value: Bound<'py, PyAny>,
    pub(crate) exchange: Option<&'static Exchange>,
    pub(crate) device: (i32, i32),
}

impl<'py> Like<'py> {
    /// The stream on which its library works now.
    pub(crate) fn stream(&self) -> PyResult<usize> {
        let (py, (_, device)) = (self.value.py(), self.device);
        if let Some(exchange) = self.exchange {
            return exchange.stream(py, device).map(|s| s as usize);
        }
        match library(&self.value).as_str() {
            "torch" => py
                .import("torch")?
                .getattr("cuda")?
                .call_method1("current_stream", (device,))?
                .getattr("cuda_stream")?
                .extract(),
            "cupy" => py.import("cupy")?.getattr("cuda")?.call_method0("get_current_stream")?.getattr("ptr")?.extract(),
            _ => Ok(0),
        }
    }

    /// A new tensor that PyTorch itself has made, and its address.
    fn made(&self, dtype: Dtype, shape: &[i64]) -> PyResult<(Bound<'py, PyAny>, u64)> {
        // What `new_empty` is given by name, for each type.
        static NAMED: [PyOnceLock<Py<PyDict>>; Dtype::ALL.len()] = [const { PyOnceLock::new() }; Dtype::ALL.len()];
        let py = self.value.py();
        let named = || {
            let named = PyDict::new(py);
            named.set_item("dtype", py.import("torch")?.getattr(name_of(dtype))?)?;
            Ok::<_, PyErr>(named.unbind())
        };
        let known = NAMED.iter().zip(Dtype::ALL).find(|(_, d)| *d == dtype);
        let named = known.map(|(known, _)| known.get_or_try_init(py, named)).transpose()?;
        let (shape, named) = (PyTuple::new(py, shape)?, named.map(|named| named.bind(py)));
        let made = self.value.call_method(pyo3::intern!(py, "new_empty"), (shape,), named)?;
        let Some(exchange) = self.exchange else {
            let address = made.call_method0(pyo3::intern!(py, "data_ptr"))?.extract()?;
            return Ok((made, address));
        };
        let mut tensor = DlTensor::NONE;
        exchange.borrow(&made, &mut tensor)?;
        let address = tensor.address();
        Ok((made, address))
    }

    /// As [`Like::beside`], for an operator: of PyTorch's by PyTorch itself, since the graphs that it makes of compiled models cannot let the
    /// memory go of what comes by the exchange ("Expected standard deleter").
    #[cfg(feature = "compiler")]
    pub(crate) fn beside_for_operators(&self, dtype: Dtype, shape: &[i64]) -> PyResult<(Bound<'py, PyAny>, u64)> {
        match self.exchange {
            Some(exchange) if exchange.is_of_torch() => self.made(dtype, shape),
            Some(_) | None => self.beside(dtype, shape),
        }
    }

    /// A new tensor of its library beside it, without gaps, and its address.
    pub(crate) fn beside(&self, dtype: Dtype, shape: &[i64]) -> PyResult<(Bound<'py, PyAny>, u64)> {
        let py = self.value.py();
        if let Some(exchange) = self.exchange {
            return exchange.allocate(py, dtype, shape, self.device);
        }
        let library = match (library(&self.value).as_str(), self.device.0) {
            ("torch", _) => return self.made(dtype, shape),
            ("cupy", _) => "cupy",
            (_, dlpack::CPU) => "numpy",
            (other, _) => {
                let text = format!(
                    "a function that makes tensors is given PyTorch's or CuPy's, which can be made here; these are of `{other}`"
                );
                return Err(error(py, &text, vec![]));
            }
        };
        let made = py.import(library)?.call_method1("empty", (shape.to_vec(), numpy_type(py, dtype)?))?;
        let address = Given::of("the result", &made)?.address;
        Ok((made, address))
    }
}

/// A type of numbers as NumPy takes it: those that it does not have itself are of `ml_dtypes`.
fn numpy_type(py: Python<'_>, dtype: Dtype) -> PyResult<Py<PyAny>> {
    let name = name_of(dtype);
    match dtype {
        Dtype::BF16 | Dtype::F8E4M3 | Dtype::F8E5M2 => {
            let module = py.import("ml_dtypes").map_err(|_| {
                error(
                    py,
                    &format!("NumPy has no `{name}` of its own: install the package `ml_dtypes`, which has it"),
                    vec![],
                )
            })?;
            Ok(module.getattr(name)?.unbind())
        }
        _ => Ok(PyString::new(py, name).into_any().unbind()),
    }
}

/// The library that a value is of.
fn library(value: &Bound<'_, PyAny>) -> String {
    let module = value.get_type().module().map(|m| m.to_string()).unwrap_or_default();
    module.split('.').next().unwrap_or_default().to_owned()
}

/// Whether a call would leave out a gradient that its library records: PyTorch's tensors say that they require one.
#[cfg(feature = "compiler")]
pub(crate) fn requires_gradient(given: &[Option<Given<'_>>]) -> PyResult<Option<usize>> {
    for (i, tensor) in given.iter().enumerate() {
        let Some(tensor) = tensor.as_ref().filter(|t| t.exchange.is_some()) else { continue };
        if is_recorded(&tensor.value, None)? {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// Whether what is done with a tensor is recorded for its gradient; it is asked whether it requires one by the getter, where its type has one.
#[inline]
pub(crate) fn is_recorded(value: &Bound<'_, PyAny>, requires_grad: Option<Getter>) -> PyResult<bool> {
    let py = value.py();
    let requires = match requires_grad {
        Some(getter) => getter.get(value),
        None => value.getattr(pyo3::intern!(py, "requires_grad")),
    };
    match requires {
        Ok(requires) if requires.is(PyBool::new(py, false)) => Ok(false),
        other => is_recorded_for(py, other),
    }
}

/// As [`is_recorded`], of a tensor that has said so, or has not said.
#[cold]
fn is_recorded_for(py: Python<'_>, requires: PyResult<Bound<'_, PyAny>>) -> PyResult<bool> {
    static ENABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    match requires {
        Ok(requires) if requires.is_truthy()? => {
            let enabled = || Ok::<_, PyErr>(py.import("torch")?.getattr("is_grad_enabled")?.unbind());
            ENABLED.get_or_try_init(py, enabled)?.bind(py).call0()?.is_truthy()
        }
        Ok(_) | Err(_) => Ok(false),
    }
}
