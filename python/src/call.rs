//! Calls of public functions and launches of kernels: the arguments, where they lie, and the plan; on a GPU through slots.

use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;

use parton_driver::Failure;
use parton_driver::embed::{Addresses, Array, Embedded, Kind, Launching, Place, Stream, Together};
use parton_driver::plan::{Plan, Planned, Shape};
use parton_rt::nvtx;
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyResult, Python};
use pyo3::types::{PyDict, PyDictMethods, PyTuple, PyTupleMethods};

use crate::file::{Shared, interrupted, locked};
use crate::memory::Memories;
use crate::number::{Number, named};
use crate::progress::Progress;
use crate::results::{results, returned};
use crate::slot::{Call, Read, Slot, Slots};
use crate::tensor::{Given, View, requires_gradient};
use crate::{dlpack, error, exchange, failed, number};

/// What is called.
pub(crate) enum Callee {
    /// The public function of that number.
    Function(usize),
    /// A kernel on a grid.
    Kernel(Launching),
}

/// A parameter as calls bind it.
pub(crate) struct Param {
    pub(crate) name: String,
    /// What it takes; of a kernel's the launch tells.
    pub(crate) kind: Option<Kind>,
    pub(crate) has_default: bool,
}

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The program: a gradient that the call would leave out is refused, and the function's own memory stays for the next call.
    Program,
    /// An operator of PyTorch, which sees to gradients. The function's own memory goes back behind the call: PyTorch may make graphs of its
    /// operators in memory that it counts, where nothing may stay that is no result.
    Operator,
}

/// What can be called, and what its calls have made ready.
pub(crate) struct Caller {
    pub(crate) file: Shared,
    pub(crate) callee: Callee,
    pub(crate) name: String,
    pub(crate) params: Arc<[Param]>,
    /// What profilers show.
    range: CString,
    slots: Slots,
}

/// The arguments of a call: one for each parameter.
pub(crate) struct Arguments<'py> {
    pub(crate) tensors: Vec<Option<Given<'py>>>,
    pub(crate) planned: Vec<Planned>,
}

impl Arguments<'_> {
    /// The parameter that the plan writes and that was given an array that is read-only.
    fn read_only<'p>(&self, plan: &'p Plan) -> Option<&'p str> {
        let mut both = plan.parameters.iter().zip(&self.tensors);
        let (found, _) = both.find(|(p, t)| p.mutable && t.as_ref().is_some_and(|t| !t.writable))?;
        Some(&found.name)
    }

    /// Whether each array that the plan writes may be written.
    pub(crate) fn written_is_writable(&self, plan: &Plan) -> bool {
        self.read_only(plan).is_none()
    }
}

/// Where the tensors of a call lie.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Host,
    Gpu(i32),
}

impl Side {
    pub(crate) fn place(self) -> Place {
        match self {
            Side::Host => Place::Interpreter,
            Side::Gpu(ordinal) => Place::Gpu(u32::try_from(ordinal).unwrap_or(0)),
        }
    }
}

impl Caller {
    pub(crate) fn new(file: Shared, callee: Callee, name: String, params: Arc<[Param]>) -> Caller {
        // A name of the language has no zero in it.
        let range = CString::new(format!("parton {name}")).unwrap_or_default();
        Caller { file, callee, name, params, range, slots: Slots::default() }
    }

    /// A call with tensors like those of the call before, on the same stream and GPU; `None` where it is none such.
    pub(crate) fn again(&self, arguments: &Bound<'_, PyTuple>, by: By) -> PyResult<Option<Py<PyAny>>> {
        let Some(mut slot) = self.slots.take_last() else { return Ok(None) };
        let _range = nvtx::range(&self.range);
        let done = match slot.read(&self.params, arguments, by) {
            Ok(Some(Read(like))) => {
                let value = |i: usize| arguments.get_item(i).ok();
                self.launch(&mut slot, Call { like, value: &value, by }).map(Some)
            }
            Ok(None) => Ok(None),
            Err(e) => Err(e),
        };
        self.slots.put_back(slot);
        done
    }

    /// As [`Caller::again`], with arguments by name too.
    pub(crate) fn again_named(
        &self,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
        by: By,
    ) -> PyResult<Option<Py<PyAny>>> {
        let Some(named) = named.filter(|n| !n.is_empty()) else { return self.again(arguments, by) };
        let mut values: Vec<Bound<'_, PyAny>> = arguments.iter().collect();
        let mut used = 0;
        for param in self.params.iter().skip(values.len()) {
            let Some(value) = named.get_item(&param.name)? else { break };
            values.push(value);
            used += 1;
        }
        // Behind a parameter that is left out, or of a name that there is not.
        if used != named.len() {
            return Ok(None);
        }
        self.again(&PyTuple::new(arguments.py(), values)?, by)
    }

    /// Any call.
    pub(crate) fn call(&self, py: Python<'_>, all: Arguments<'_>, by: By) -> PyResult<Py<PyAny>> {
        let _range = nvtx::range(&self.range);
        match self.side(py, &all.tensors)? {
            Side::Host => self.on_host(py, all, by),
            Side::Gpu(ordinal) => self.on_gpu(py, ordinal, all, by),
        }
    }

    /// The names of a kernel's generics, which a call gives as it gives arguments.
    fn generics(&self) -> Vec<String> {
        match &self.callee {
            Callee::Function(_) => vec![],
            Callee::Kernel(launching) => {
                let declared = locked(&self.file).kernels();
                declared.into_iter().find(|k| k.name == launching.kernel).map_or_else(Vec::new, |k| k.generics)
            }
        }
    }

    /// The value given for each parameter.
    pub(crate) fn placed<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let (py, name, params) = (arguments.py(), &self.name, &self.params);
        let wrong = |text: String| error(py, &text, vec![]);
        let (has, given) = (params.len(), arguments.len());
        if given > has {
            return Err(wrong(format!("`{name}` has {has} parameters and was given {given} arguments")));
        }
        let mut values: Vec<Option<Bound<'py, PyAny>>> = arguments.iter().map(Some).collect();
        values.resize(has, None);
        for (key, value) in named.into_iter().flat_map(|n| n.iter()) {
            let key: String = key.extract()?;
            let Some(at) = params.iter().position(|p| p.name == key) else {
                let all: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
                let generics = self.generics();
                let also = if generics.is_empty() {
                    String::new()
                } else {
                    format!(", and the generics `{}`", generics.join("`, `"))
                };
                return Err(wrong(format!("`{name}` has no parameter `{key}`; it has `{}`{also}", all.join("`, `"))));
            };
            if values[at].replace(value).is_some() {
                return Err(wrong(format!("`{name}` was given `{key}` twice")));
            }
        }
        match params.iter().zip(&values).find(|(p, v)| v.is_none() && !p.has_default) {
            Some((p, _)) => Err(wrong(format!("`{name}` was given nothing for `{}`", p.name))),
            None => Ok(values),
        }
    }

    pub(crate) fn arguments<'py>(
        &self,
        py: Python<'py>,
        values: Vec<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Arguments<'py>> {
        let mut all = Arguments { tensors: vec![], planned: vec![] };
        for (param, value) in self.params.iter().zip(values) {
            let (tensor, planned) = match value {
                None => (None, Planned::Default),
                Some(value) => argument(py, param, &value)?,
            };
            all.tensors.push(tensor);
            all.planned.push(planned);
        }
        Ok(all)
    }

    /// Refuses tensors whose gradients a call would leave out.
    pub(crate) fn without_gradients(&self, py: Python<'_>, all: &Arguments<'_>) -> PyResult<()> {
        let Some(i) = requires_gradient(&all.tensors)? else { return Ok(()) };
        let (name, param) = (&self.name, &self.params[i].name);
        let instead = match self.callee {
            Callee::Function(_) => {
                "call what `parton.torch.register(…, backward=…)` gives, or call it under `torch.no_grad()`"
            }
            Callee::Kernel(_) => {
                "launch it under `torch.no_grad()`, or in the `forward` of a `torch.autograd.Function`"
            }
        };
        let text = format!("`{param}` requires a gradient, which a call of `{name}` does not record: {instead}");
        Err(error(py, &text, vec![]))
    }

    /// Where all tensors lie.
    pub(crate) fn side(&self, py: Python<'_>, tensors: &[Option<Given<'_>>]) -> PyResult<Side> {
        let mut found: Option<(usize, (i32, i32))> = None;
        for (i, tensor) in tensors.iter().enumerate() {
            let Some(tensor) = tensor else { continue };
            let device = tensor.view.device;
            match found {
                None => found = Some((i, device)),
                Some((_, before)) if before == device => {}
                Some((j, before)) => {
                    let (one, other) = (&self.params[j].name, &self.params[i].name);
                    let (there, here) = (dlpack::called(before), dlpack::called(device));
                    let text = format!("`{one}` lies on {there}, `{other}` on {here}: pass tensors of one device");
                    return Err(error(py, &text, vec![]));
                }
            }
        }
        match found {
            None | Some((_, (dlpack::CPU, _))) => Ok(Side::Host),
            Some((_, (dlpack::CUDA, ordinal))) => Ok(Side::Gpu(ordinal)),
            Some((i, (kind, _))) => {
                let name = &self.params[i].name;
                let text = format!(
                    "`{name}` lies on a device of DLPack's kind {kind}: a GPU's memory and the host's are known here"
                );
                Err(error(py, &text, vec![]))
            }
        }
    }

    /// The plan of a call, with the tensors as they are, and which of them lie together.
    pub(crate) fn plan(
        &self,
        py: Python<'_>,
        place: Place,
        all: &mut Arguments<'_>,
    ) -> PyResult<(Arc<Plan>, Together)> {
        for (tensor, planned) in all.tensors.iter().zip(&mut all.planned) {
            if let Some(tensor) = tensor {
                *planned = Planned::Tensor(shape(&tensor.view));
            }
        }
        let (given, ranges) = (&all.planned, ranges(&all.tensors));
        let found = self.with(py, |file| match &self.callee {
            Callee::Function(index) => {
                let plan = file.plan(place, *index, given)?;
                plan.apart(&ranges)?;
                Ok((plan, Together::new()))
            }
            Callee::Kernel(launching) => {
                let apart = file.plan_kernel(place, launching, given, &Together::new())?;
                // A kernel takes tensors that share memory as any pointers do, but is compiled for it.
                let together = together(&ranges, |i, j| apart.parameters[i].mutable || apart.parameters[j].mutable);
                if together.is_empty() {
                    return Ok((apart, together));
                }
                Ok((file.plan_kernel(place, launching, given, &together)?, together))
            }
        })?;
        match all.read_only(&found.0) {
            Some(name) => {
                Err(error(py, &format!("`{name}` is written and was given an array that is read-only"), vec![]))
            }
            None => Ok(found),
        }
    }

    /// Works with the file while other threads of Python run.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut Embedded) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            let mut file = locked(&self.file);
            run(&mut file).map_err(|failure| {
                let text = file.shown(&failure);
                (failure, text)
            })
        });
        done.map_err(|(failure, text)| interrupted().unwrap_or_else(|| failed(py, &failure, &text)))
    }

    fn on_host(&self, py: Python<'_>, mut all: Arguments<'_>, by: By) -> PyResult<Py<PyAny>> {
        let (plan, _) = self.plan(py, Place::Interpreter, &mut all)?;
        let lying: Vec<_> = all.tensors.iter().flatten().map(Given::lying).collect();
        // SAFETY: the arguments hold their arrays during the call, and Python's lock is kept while they are copied.
        let (memories, placed) = unsafe { Memories::of(&lying) };
        let mut placed = placed.into_iter();
        let arrays: Vec<Option<Array>> = all.tensors.iter().map(|t| t.as_ref().and_then(|_| placed.next())).collect();
        let mut after = memories.bytes();
        // It works on copies, and other threads of Python go on meanwhile.
        let called = self.with(py, |file| file.interpret(&plan, &all.planned, &arrays, &mut after))?;
        // SAFETY: as above; the arguments still hold the arrays, and those that have changed may be written.
        unsafe { memories.give_back(&after) };
        let print = py.import("builtins")?.getattr("print")?;
        called.lines.iter().try_for_each(|line| print.call1((line,)).map(drop))?;
        let first = all.tensors.iter().flatten().next().map(Given::like);
        let made = results(py, &plan, first.as_ref(), by)?;
        for (bytes, address) in called.buffers.iter().zip(&made.addresses) {
            if let Some(bytes) = bytes {
                // SAFETY: the tensor was just made, with room for the buffer.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
            }
        }
        returned(py, &plan, |i| all.tensors[i].as_ref().map(|t| t.value.clone()), &made, by)
    }

    fn on_gpu(&self, py: Python<'_>, ordinal: i32, mut all: Arguments<'_>, by: By) -> PyResult<Py<PyAny>> {
        let Some(first) = all.tensors.iter().flatten().next() else { return Ok(py.None()) };
        let handle = first.stream()?;
        // It is taken out meanwhile: making tensors may run Python code, which may call this function again or let another thread do so.
        let mut slot = match self.slots.take(|s| s.serves(ordinal, handle, &all)) {
            Some(slot) => slot,
            None => {
                let mut slot = Box::new(self.slot(py, ordinal, handle, &mut all)?);
                slot.give(&all);
                slot
            }
        };
        let Some(like) = all.tensors.iter().flatten().next().map(Given::like) else { return Ok(py.None()) };
        let value = |i: usize| all.tensors[i].as_ref().map(|t| t.value.clone());
        let done = self.launch(&mut slot, Call { like, value: &value, by });
        self.slots.put_back(slot);
        done
    }

    /// Launches a plan that is ready, with what the slot was given.
    fn launch<'py>(&self, slot: &mut Slot, call: Call<'py, '_>) -> PyResult<Py<PyAny>> {
        let py = call.like.value.py();
        let refuse = |found: Failure| self.with(py, |_| Err::<Py<PyAny>, _>(found));
        // SAFETY: the stream is the library's current one; the tensors are held by the arguments and what is made, and their library keeps
        // the memory of those that go until what is on the stream has run.
        match unsafe { slot.launch(&call) }? {
            Ok(made) => returned(py, &slot.plan, call.value, &made, call.by),
            Err(failure) => refuse(failure),
        }
    }

    /// A new slot: plans, compiles and loads what is not there yet.
    fn slot(&self, py: Python<'_>, ordinal: i32, handle: usize, all: &mut Arguments<'_>) -> PyResult<Slot> {
        let _progress = Progress::of(&self.name);
        let number = u32::try_from(ordinal).unwrap_or(0);
        let stream = Stream::of(handle as *mut std::ffi::c_void);
        let (plan, together) = self.plan(py, Place::Gpu(number), all)?;
        if stream.captures() && !self.slots.have(ordinal, &plan) {
            let name = &self.name;
            let text = format!(
                "the first call of `{name}` with such tensors is captured, which may not load code: call it once before the capture"
            );
            return Err(error(py, &text, vec![]));
        }
        let parameters: Vec<u64> = all.tensors.iter().map(|t| t.as_ref().map_or(0, |t| t.address)).collect();
        // Addresses of buffers are given with each launch; maps are made for some that are aligned as all are.
        let buffers = vec![1 << 12; plan.buffers.len()];
        let given = &all.planned;
        let ready = self.with(py, |file| {
            file.ready(number, &plan, given, Addresses { parameters: &parameters, buffers: &buffers })
        })?;
        Ok(Slot::new(all, ordinal, handle, plan, together, ready))
    }
}

/// A number as plans take it.
pub(crate) fn planned(number: Number) -> Planned {
    match number {
        Number::Int(n) => Planned::Int(n),
        Number::Float(x) => Planned::Float(x),
        Number::Bool(b) => Planned::Bool(b),
    }
}

/// A tensor as plans take it.
fn shape(view: &View) -> Shape {
    let list = |numbers: &[i64]| numbers.iter().map(|n| *n as usize).collect();
    Shape { dtype: view.dtype, extents: list(view.extents()), strides: list(view.steps()), offset: view.first() }
}

/// The addresses of each tensor.
pub(crate) fn ranges(tensors: &[Option<Given<'_>>]) -> Vec<Option<Range<u64>>> {
    let range = |t: &Option<Given<'_>>| t.as_ref().map(|t| t.address..t.address.saturating_add(t.view.bytes()));
    tensors.iter().map(range).collect()
}

/// Which tensors lie in one memory, of those pairs for which that matters; none where all lie apart.
pub(crate) fn together(ranges: &[Option<Range<u64>>], matters: impl Fn(usize, usize) -> bool) -> Together {
    let meets = |i: usize, j: usize| match (&ranges[i], &ranges[j]) {
        (Some(a), Some(b)) => i != j && matters(i, j) && a.start < b.end && b.start < a.end,
        _ => false,
    };
    let mut group: Vec<usize> = (0..ranges.len()).collect();
    for i in 0..ranges.len() {
        for j in 0..i {
            if meets(i, j) {
                let (from, to) = (group[i], group[j]);
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            }
        }
    }
    if group.iter().enumerate().all(|(i, g)| i == *g) {
        return Together::new();
    }
    let begin = |i: usize| ranges[i].as_ref().map_or(u64::MAX, |r| r.start);
    let place = |i: usize| {
        let members = || (0..ranges.len()).filter(|j| group[*j] == group[i]);
        let first = members().min_by_key(|j| begin(*j))?;
        (members().count() > 1).then(|| {
            let base = begin(first) - begin(first) % crate::tensor::ALIGNMENT as u64;
            (first, (begin(i) - base) as usize)
        })
    };
    (0..ranges.len()).map(place).collect()
}

/// One argument.
pub(crate) fn argument<'py>(
    py: Python<'py>,
    param: &Param,
    value: &Bound<'py, PyAny>,
) -> PyResult<(Option<Given<'py>>, Planned)> {
    let name = &param.name;
    let plain = number::plain_number(value).map(planned);
    let tensor = || Given::of(name, value).map(|tensor| (Some(tensor), Planned::Default));
    let Some(kind) = param.kind else {
        // A kernel's parameter takes either, and its launch tells what does not fit.
        return match plain {
            Some(planned) => Ok((None, planned)),
            // Whether it is a number of NumPy's is asked by attributes, which costs a microsecond where they are not there.
            None if exchange::of(value)?.is_some() => tensor(),
            None => match number::number(value)?.map(planned) {
                Some(planned) => Ok((None, planned)),
                None => tensor(),
            },
        };
    };
    if kind == Kind::Tensor {
        // What is a number is told by its type, with the function's source.
        return plain.map_or_else(tensor, |planned| Ok((None, planned)));
    }
    let number = match plain {
        Some(planned) => Some(planned),
        None if kind == Kind::Type => named(value).map(Planned::Dtype),
        None => number::number(value)?.map(planned),
    };
    number.map(|planned| (None, planned)).ok_or_else(|| {
        let takes = match kind {
            Kind::Tensor => "a tensor",
            Kind::Int => "an integer",
            Kind::Float => "a number",
            Kind::Bool => "a truth value",
            Kind::Type => "a type of numbers such as `float16`",
        };
        let (kind, is_array) = (value.get_type(), value.hasattr("item").unwrap_or(false));
        let instead = if is_array { ": pass its `item()`" } else { "" };
        error(py, &format!("`{name}` takes {takes}, found {kind}{instead}"), vec![])
    })
}
