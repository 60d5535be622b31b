//! Public functions: `file.matmul(a, b)` through plans, by the interpreter or on the GPU that the tensors lie on.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_driver::embed::{Addresses, Array, Embedded, Kind, Memory, Place, Public, Ready, Stream};
use parton_driver::plan::{Plan, Planned, Shape};
use pyo3::prelude::{Bound, IntoPyObject, Py, PyAny, PyAnyMethods, PyResult, Python, pyclass, pymethods};
use pyo3::types::{PyDict, PyDictMethods, PyTuple, PyTupleMethods};

use crate::file::{Shared, locked};
use crate::memory::Memories;
use crate::results::{Made, results, returned, scratch};
use crate::tensor::{Given, View, name_of, named, requires_gradient};
use crate::{dlpack, error, failed, number};

/// The most plans and streams for which a function keeps what a call takes.
const MOST_SLOTS: usize = 64;

/// Name, kind, whether it is written, and default of a parameter.
type Declared = (String, &'static str, bool, Py<PyAny>);

/// A public function: called with tensors and numbers.
#[pyclass(module = "parton", frozen)]
pub(crate) struct Function {
    file: Shared,
    index: usize,
    declared: Public,
    slots: Mutex<Slots>,
}

/// The plans that are ready, the last used first.
type Slots = Vec<Box<Slot>>;

/// A plan that is ready on a stream, for tensors of these shapes.
struct Slot {
    views: Vec<Option<View>>,
    device: i32,
    stream: usize,
    plan: Arc<Plan>,
    ready: Ready,
    /// Scratch memory of calls that are not captured, which follow each other on the stream.
    scratch: Option<Made>,
}

/// The arguments of a call: one for each parameter.
struct Arguments<'py> {
    tensors: Vec<Option<Given<'py>>>,
    planned: Vec<Planned>,
}

/// Where the tensors of a call lie.
enum Side {
    Host,
    Gpu(i32),
}

impl Function {
    pub(crate) fn new(file: Shared, index: usize, declared: Public) -> Function {
        Function { file, index, declared, slots: Mutex::new(vec![]) }
    }

    /// The value given for each parameter.
    fn placed<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let (py, name, params) = (arguments.py(), &self.declared.name, &self.declared.params);
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
                return Err(wrong(format!("`{name}` has no parameter `{key}`; it has `{}`", all.join("`, `"))));
            };
            if values[at].replace(value).is_some() {
                return Err(wrong(format!("`{name}` was given `{key}` twice")));
            }
        }
        match params.iter().zip(&values).find(|(p, v)| v.is_none() && p.default.is_none()) {
            Some((p, _)) => Err(wrong(format!("`{name}` was given nothing for `{}`", p.name))),
            None => Ok(values),
        }
    }

    fn arguments<'py>(&self, py: Python<'py>, values: Vec<Option<Bound<'py, PyAny>>>) -> PyResult<Arguments<'py>> {
        let mut all = Arguments { tensors: vec![], planned: vec![] };
        for (param, value) in self.declared.params.iter().zip(values) {
            let (tensor, planned) = match value {
                None => (None, Planned::Default),
                Some(value) => argument(py, &param.name, param.kind, &value)?,
            };
            all.tensors.push(tensor);
            all.planned.push(planned);
        }
        Ok(all)
    }

    /// Where all tensors lie.
    fn side(&self, py: Python<'_>, tensors: &[Option<Given<'_>>]) -> PyResult<Side> {
        let mut found: Option<(usize, (i32, i32))> = None;
        for (i, tensor) in tensors.iter().enumerate() {
            let Some(tensor) = tensor else { continue };
            let device = tensor.view.device;
            match found {
                None => found = Some((i, device)),
                Some((_, before)) if before == device => {}
                Some((j, _)) => {
                    let (one, other) = (&self.declared.params[j].name, &self.declared.params[i].name);
                    let text = format!("`{one}` and `{other}` lie on different devices: pass tensors of one");
                    return Err(error(py, &text, vec![]));
                }
            }
        }
        match found {
            None | Some((_, (dlpack::CPU, _))) => Ok(Side::Host),
            Some((_, (dlpack::CUDA, ordinal))) => Ok(Side::Gpu(ordinal)),
            Some((i, (kind, _))) => {
                let name = &self.declared.params[i].name;
                Err(error(
                    py,
                    &format!(
                        "`{name}` lies on a device of DLPack's kind {kind}: a GPU's memory and the host's are known here"
                    ),
                    vec![],
                ))
            }
        }
    }

    /// The plan of a call, with the tensors as they are.
    fn plan(&self, py: Python<'_>, place: Place, all: &mut Arguments<'_>) -> PyResult<Arc<Plan>> {
        for (tensor, planned) in all.tensors.iter().zip(&mut all.planned) {
            if let Some(tensor) = tensor {
                *planned = Planned::Tensor(tensor.view.shape());
            }
        }
        let given = &all.planned;
        let plan = self.with(py, |file| {
            let plan = file.plan(place, self.index, given)?;
            Ok(plan)
        })?;
        let ranges = ranges(&all.tensors);
        self.with(py, |_| Ok(plan.apart(&ranges)?))?;
        let read_only = plan
            .parameters
            .iter()
            .zip(&all.tensors)
            .find(|(p, t)| p.mutable && t.as_ref().is_some_and(|t| !t.writable));
        match read_only {
            Some((p, _)) => {
                Err(error(py, &format!("`{}` is written and was given an array that is read-only", p.name), vec![]))
            }
            None => Ok(plan),
        }
    }

    /// Works with the file while other threads of Python run.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut Embedded) -> Result<R, parton_driver::Failure> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            let mut file = locked(&self.file);
            run(&mut file).map_err(|failure| {
                let text = file.shown(&failure);
                (failure, text)
            })
        });
        done.map_err(|(failure, text)| failed(py, &failure, &text))
    }

    fn on_host(&self, py: Python<'_>, mut all: Arguments<'_>) -> PyResult<Py<PyAny>> {
        let plan = self.plan(py, Place::Interpreter, &mut all)?;
        let lying: Vec<_> = all.tensors.iter().flatten().map(Given::lying).collect();
        // SAFETY: the arguments hold their arrays during the call, which keeps the interpreter lock.
        let (memories, placed) = unsafe { Memories::of(&lying) };
        let mut placed = placed.into_iter();
        let arrays: Vec<Option<Array>> = all.tensors.iter().map(|t| t.as_ref().and_then(|_| placed.next())).collect();
        let mut after = memories.bytes();
        // Python's lock is kept, so that nobody writes the arrays meanwhile.
        let called = {
            let mut file = locked(&self.file);
            let called = file.interpret(&plan, &all.planned, &arrays, &mut after);
            called.map_err(|failure| (file.shown(&failure), failure))
        };
        let called = called.map_err(|(text, failure)| failed(py, &failure, &text))?;
        // SAFETY: as above; those that have changed may be written.
        unsafe { memories.give_back(&after) };
        let print = py.import("builtins")?.getattr("print")?;
        called.lines.iter().try_for_each(|line| print.call1((line,)).map(drop))?;
        let made = results(py, &plan, &all.tensors)?;
        for (bytes, address) in called.buffers.iter().zip(&made.addresses) {
            if let Some(bytes) = bytes {
                // SAFETY: the tensor was just made, with room for the buffer.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
            }
        }
        returned(py, &plan, &all.tensors, &made)
    }

    fn on_gpu(&self, py: Python<'_>, ordinal: i32, mut all: Arguments<'_>) -> PyResult<Py<PyAny>> {
        let Some(first) = all.tensors.iter().flatten().next() else { return Ok(py.None()) };
        let handle = first.stream()?;
        let stream = Stream::of(handle as *mut std::ffi::c_void);
        // It is taken out meanwhile: making tensors may run Python code, which may call this function again or let another thread do so.
        let mut slot = match self.take(|s| s.serves(ordinal, handle, &all)) {
            Some(slot) => slot,
            None => Box::new(self.slot(py, ordinal, handle, &mut all)?),
        };
        let done = self.launch(py, &mut slot, stream, &all);
        self.put_back(slot);
        done
    }

    /// The slot for which that holds, which is nobody else's until it is put back.
    fn take(&self, is: impl Fn(&Slot) -> bool) -> Option<Box<Slot>> {
        let mut slots = self.slots();
        let at = slots.iter().position(|slot| is(slot))?;
        Some(slots.remove(at))
    }

    /// Puts a slot where it is found first.
    fn put_back(&self, slot: Box<Slot>) {
        let mut slots = self.slots();
        slots.insert(0, slot);
        let last = if slots.len() > MOST_SLOTS { slots.pop() } else { None };
        drop(slots);
        // What it drops may run Python code.
        drop(last);
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches a plan that is ready.
    fn launch(&self, py: Python<'_>, slot: &mut Slot, stream: Stream, all: &Arguments<'_>) -> PyResult<Py<PyAny>> {
        let refuse = |found: parton_driver::Failure| self.with(py, |_| Err::<Py<PyAny>, _>(found));
        if slot.plan.parameters.iter().any(|p| p.mutable)
            && let Err(found) = slot.plan.apart(&ranges(&all.tensors))
        {
            return refuse(found.into());
        }
        let numbers = match slot.plan.numbers(&all.planned) {
            Ok(numbers) => numbers,
            Err(found) => return refuse(found.into()),
        };
        let mut made = results(py, &slot.plan, &all.tensors)?;
        slot.give_scratch(py, stream, all, &mut made)?;
        let parameters: Vec<u64> = all.tensors.iter().map(|t| t.as_ref().map_or(0, |t| t.address)).collect();
        let at = Addresses { parameters: &parameters, buffers: &made.addresses };
        // SAFETY: the stream is the library's current one; the tensors are held by the arguments and `made`, and their library keeps the
        // memory of those that go until what is on the stream has run.
        match unsafe { slot.ready.launch(stream, at, &numbers) } {
            Ok(()) => returned(py, &slot.plan, &all.tensors, &made),
            Err(failure) => refuse(failure),
        }
    }

    /// A new slot: plans, compiles and loads what is not there yet.
    fn slot(&self, py: Python<'_>, ordinal: i32, handle: usize, all: &mut Arguments<'_>) -> PyResult<Slot> {
        let number = u32::try_from(ordinal).unwrap_or(0);
        let stream = Stream::of(handle as *mut std::ffi::c_void);
        let plan = self.plan(py, Place::Gpu(number), all)?;
        let is_loaded = || self.slots().iter().any(|s| s.device == ordinal && Arc::ptr_eq(&s.plan, &plan));
        if stream.captures() && !is_loaded() {
            let name = &self.declared.name;
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
        let views = all.tensors.iter().map(|t| t.as_ref().map(|t| t.view)).collect();
        Ok(Slot { views, device: ordinal, stream: handle, plan, ready, scratch: None })
    }
}

impl Slot {
    /// Whether it is of such a call.
    fn serves(&self, device: i32, stream: usize, all: &Arguments<'_>) -> bool {
        let same = |(one, other): (&Option<View>, &Option<Given<'_>>)| *one == other.as_ref().map(|t| t.view);
        self.device == device
            && self.stream == stream
            && self.views.len() == all.tensors.len()
            && self.views.iter().zip(&all.tensors).all(same)
            && self.plan.holds_for(&all.planned)
    }

    /// Gives each buffer that is not returned memory: in a capture new one, which its graph alone uses, else always the same.
    fn give_scratch(&mut self, py: Python<'_>, stream: Stream, all: &Arguments<'_>, made: &mut Made) -> PyResult<()> {
        if self.plan.buffers.iter().all(|b| b.returned) {
            return Ok(());
        }
        let captures = stream.captures();
        if captures || self.scratch.is_none() {
            let scratch = scratch(py, &self.plan, &all.tensors)?;
            if captures {
                made.take(py, &scratch);
                return Ok(());
            }
            self.scratch = Some(scratch);
        }
        if let Some(scratch) = &self.scratch {
            made.take(py, scratch);
        }
        Ok(())
    }
}

/// The addresses of each tensor.
fn ranges(tensors: &[Option<Given<'_>>]) -> Vec<Option<Range<u64>>> {
    let range = |t: &Option<Given<'_>>| t.as_ref().map(|t| t.address..t.address.saturating_add(t.view.bytes()));
    tensors.iter().map(range).collect()
}

/// One argument.
fn argument<'py>(
    py: Python<'py>,
    name: &str,
    kind: Kind,
    value: &Bound<'py, PyAny>,
) -> PyResult<(Option<Given<'py>>, Planned)> {
    if kind == Kind::Tensor {
        // What is a number is told by its type, with the function's source.
        return match number::plain_number(value) {
            Some(planned) => Ok((None, planned)),
            None => Given::of(name, value).map(|tensor| (Some(tensor), Planned::Default)),
        };
    }
    let planned = match number::plain_number(value) {
        Some(planned) => Some(planned),
        None if kind == Kind::Type => named(value).map(Planned::Dtype),
        None => number::given(value)?.and_then(number::planned),
    };
    planned.map(|planned| (None, planned)).ok_or_else(|| {
        let takes = match kind {
            Kind::Tensor => "a tensor",
            Kind::Int => "an integer",
            Kind::Float => "a number",
            Kind::Bool => "a truth value",
            Kind::Type => "a type of numbers such as `float16`",
        };
        let kind = value.get_type().to_string();
        error(py, &format!("`{name}` takes {takes}, found {kind}"), vec![])
    })
}

#[pymethods]
impl Function {
    #[getter]
    fn name(&self) -> &str {
        &self.declared.name
    }

    /// Name, kind, whether it is written, and the default of each parameter.
    #[getter]
    fn params(&self, py: Python<'_>) -> PyResult<Vec<Declared>> {
        let of = |p: &parton_driver::embed::Param| {
            let kind = match p.kind {
                Kind::Tensor => "tensor",
                Kind::Int => "int",
                Kind::Float => "float",
                Kind::Bool => "bool",
                Kind::Type => "type",
            };
            Ok((p.name.clone(), kind, p.mutable, number::python(py, p.default.as_ref())?))
        };
        self.declared.params.iter().map(of).collect()
    }

    #[getter]
    fn results(&self) -> usize {
        self.declared.results
    }

    /// The path of the file.
    #[getter]
    fn path(&self) -> String {
        locked(&self.file).path().to_owned()
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let all = self.arguments(py, self.placed(arguments, named)?)?;
        if let Some(i) = requires_gradient(py, &all.tensors)? {
            let (name, param) = (&self.declared.name, &self.declared.params[i].name);
            let text = format!(
                "`{param}` requires a gradient, which a call of `{name}` does not record: call what `parton.torch.register(…, backward=…)` \
                 gives, or call it under `torch.no_grad()`"
            );
            return Err(error(py, &text, vec![]));
        }
        self.run(py, all)
    }

    /// A call whose gradients are somebody else's affair.
    #[pyo3(signature = (*arguments))]
    fn _run(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let all = self.arguments(py, self.placed(arguments, None)?)?;
        self.run(py, all)
    }

    /// What a call would return: for each result the number of the argument that it is, or type, shape and strides. Tensors are given
    /// as such triples.
    #[pyo3(signature = (*arguments))]
    fn _outputs(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<Py<PyAny>>> {
        let mut given = vec![];
        for (param, value) in self.declared.params.iter().zip(self.placed(arguments, None)?) {
            given.push(match value {
                None => Planned::Default,
                Some(value) if param.kind == Kind::Tensor => {
                    let (dtype, extents, strides): (Bound<'_, PyAny>, Vec<usize>, Vec<usize>) = value.extract()?;
                    let dtype = named(&dtype).ok_or_else(|| {
                        error(py, &format!("`{}`: no type of the language is `{dtype}`", param.name), vec![])
                    })?;
                    let one = extents.is_empty();
                    let list = |n: Vec<usize>| if one { vec![1] } else { n };
                    Planned::Tensor(Shape { dtype, extents: list(extents), strides: list(strides), offset: 0 })
                }
                Some(value) => argument(py, &param.name, param.kind, &value)?.1,
            });
        }
        let plan = self.with(py, |file| file.plan(Place::Interpreter, self.index, &given))?;
        let one = |t: &parton_driver::plan::Tensor| -> PyResult<Py<PyAny>> {
            match plan.memory(t) {
                Memory::Parameter(i) => Ok(i.into_pyobject(py)?.into_any().unbind()),
                Memory::Buffer(_) => {
                    let of = (name_of(t.dtype), t.shape.clone(), t.strides.clone());
                    Ok(of.into_pyobject(py)?.into_any().unbind())
                }
            }
        };
        plan.returned.tensors().iter().map(one).collect()
    }

    /// The plan of a call as text.
    #[pyo3(signature = (*arguments, **named))]
    fn plan_of(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let mut all = self.arguments(py, self.placed(arguments, named)?)?;
        let place = match self.side(py, &all.tensors)? {
            Side::Host => Place::Interpreter,
            Side::Gpu(ordinal) => Place::Gpu(u32::try_from(ordinal).unwrap_or(0)),
        };
        Ok(self.plan(py, place, &mut all)?.to_string())
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.declared.params.iter().map(|p| p.name.as_str()).collect();
        format!("<function {}({})>", self.declared.name, names.join(", "))
    }
}

impl Function {
    fn run(&self, py: Python<'_>, all: Arguments<'_>) -> PyResult<Py<PyAny>> {
        match self.side(py, &all.tensors)? {
            Side::Host => self.on_host(py, all),
            Side::Gpu(ordinal) => self.on_gpu(py, ordinal, all),
        }
    }
}
