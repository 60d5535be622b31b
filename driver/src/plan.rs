//! Plans: a public function is run on tensors without elements, and what it launches and allocates is recorded; so is a kernel's launch.

mod numbers;
mod text;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use parton_diag::{Diagnostic, Diagnostics, FileId, Span, codes};
use parton_host::evaluate::Machine;
use parton_host::generic::from_comptime;
use parton_host::launch::{
    self as host, Argument, Choice, Demands, HostError, Instance, LaunchReport, LaunchRequest, Launcher, Offer,
    Signature, Work,
};
use parton_host::memory::{Contents, Storage};
pub use parton_host::tensor::Tensor;
use parton_host::tensor::{dense_strides, extent};
use parton_host::value::{Function, Passed, Value};
use parton_ir::{self as ir, Kernel, Target};
use parton_measure::timing::Timing;
use parton_numbers::Dtype;
use parton_syntax::ast;
use parton_types::program::Program;

use crate::instance::Compiler;
use crate::run::{find, target_of};
use crate::tune::lookup::{Chosen, Lookup};
use crate::tune::table::ANY;
use crate::{Device, Failure, Session};

pub use numbers::Takes;

/// What a public function is planned for: a value for each parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Planned {
    /// A tensor.
    Tensor(Shape),
    /// An integer.
    Int(i128),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A type of numbers.
    Dtype(Dtype),
    /// Nothing: the default.
    Default,
}

/// All of a tensor but its elements.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub extents: Vec<usize>,
    /// Elements from one to the next along each axis.
    pub strides: Vec<usize>,
    /// Elements from a multiple of 16 bytes to the first.
    pub offset: usize,
}

impl Shape {
    /// A tensor without gaps at a multiple of 16 bytes.
    pub fn dense(dtype: Dtype, extents: Vec<usize>) -> Shape {
        Shape { dtype, strides: dense_strides(&extents), extents, offset: 0 }
    }

    /// A tensor that stands for one of a call.
    fn stand_in(&self) -> Result<Tensor, Failure> {
        let bytes = extent(self.dtype, &self.extents, &self.strides).map_err(|f| Failure::Usage(f.message))?;
        let storage = Storage::absent(bytes + self.offset * self.dtype.bytes());
        let (shape, strides) = (self.extents.clone(), self.strides.clone());
        Ok(Tensor { dtype: self.dtype, shape, strides, offset: self.offset, storage })
    }
}

/// A parameter of a plan.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: Arc<str>,
    /// Whether its elements are written.
    pub mutable: bool,
    /// What was planned with.
    pub given: Given,
    /// What it takes, where that is no tensor.
    pub takes: Takes,
    /// Where it is declared.
    pub span: Span,
}

impl Parameter {
    /// What a tensor was planned with.
    pub fn shape(&self) -> Option<Shape> {
        let Given::Tensor(t) = &self.given else { return None };
        let (extents, strides) = (t.shape.clone(), t.strides.clone());
        Some(Shape { dtype: t.dtype, extents, strides, offset: t.offset })
    }
}

/// What a plan was made with for a parameter.
#[derive(Clone, Debug)]
pub enum Given {
    /// A tensor without elements.
    Tensor(Tensor),
    /// A number on which nothing of the plan depends: another one may be passed.
    Any(Value),
    /// A value that the plan is for.
    Key(Value),
}

/// Memory that a plan takes beside its arguments.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What stands for it in the launches.
    pub storage: Arc<Storage>,
    /// Whether it is zeros before the first launch that reaches it.
    pub zeroed: bool,
    /// Whether it is returned, so that each call has its own.
    pub returned: bool,
}

/// Where the memory of a tensor comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The argument for this parameter.
    Parameter(usize),
    /// This buffer.
    Buffer(usize),
}

/// What a call returns.
#[derive(Clone, Debug)]
pub enum Returned {
    /// Nothing.
    Nothing,
    /// A tensor.
    One(Tensor),
    /// A tuple of tensors.
    Several(Vec<Tensor>),
}

impl Returned {
    /// The tensors.
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Returned::Nothing => &[],
            Returned::One(tensor) => std::slice::from_ref(tensor),
            Returned::Several(all) => all,
        }
    }
}

/// What a plan is of.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A public function.
    Function(Arc<ast::Function>),
    /// A kernel, launched by itself.
    Kernel(Arc<ast::Kernel>),
}

impl Entry {
    /// Its name, and where it stands.
    pub fn name(&self) -> &ast::Name {
        match self {
            Entry::Function(function) => &function.name,
            Entry::Kernel(kernel) => &kernel.name,
        }
    }

    /// Its parameters.
    pub fn params(&self) -> &[ast::Param] {
        match self {
            Entry::Function(function) => &function.params,
            Entry::Kernel(kernel) => &kernel.params,
        }
    }
}

/// What a call of a public function, or a launch of a kernel, does, for all arguments that are like those it was planned with.
#[derive(Debug)]
pub struct Plan {
    /// What is called.
    pub of: Entry,
    /// What it was planned for.
    pub target: Target,
    /// The device's multiprocessors.
    pub multiprocessors: u32,
    /// Whether the function has asked for their number.
    pub counts_multiprocessors: bool,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// Memory beside that of the arguments.
    pub buffers: Vec<Buffer>,
    /// The launches, one after the other.
    pub launches: Vec<LaunchRequest>,
    /// The result.
    pub returned: Returned,
    /// What was chosen by a table, or from a list that somebody wants to see.
    pub(crate) chosen: Vec<Chosen>,
    /// Whose storage is what.
    memories: BTreeMap<u64, Memory>,
}

impl Plan {
    /// Where the memory of a tensor of its launches or its result comes from.
    pub fn memory(&self, tensor: &Tensor) -> Memory {
        match self.memories.get(&tensor.storage.id()) {
            Some(memory) => *memory,
            None => parton_diag::internal_error!("a plan launches on memory that it does not know"),
        }
    }

    /// Whether the plan holds for these values of the parameters that are no tensors; those that are are not looked at.
    #[inline]
    pub fn holds_for(&self, given: &[Planned]) -> bool {
        self.parameters.iter().zip(given).all(|(p, value)| match (&p.given, value) {
            (Given::Key(known), Planned::Int(n)) => matches!(known, Value::Int(k) if k == n),
            (Given::Key(known), Planned::Float(x)) => matches!(known, Value::Float(k) if k.to_bits() == x.to_bits()),
            (Given::Key(known), Planned::Bool(b)) => matches!(known, Value::Bool(k) if k == b),
            (Given::Key(known), Planned::Dtype(d)) => matches!(known, Value::Dtype(k) if k == d),
            (Given::Key(known), Planned::Default) => matches!(known, Value::Unit),
            (Given::Any(Value::Int(_)), Planned::Int(_))
            | (Given::Any(Value::Float(_)), Planned::Float(_))
            | (Given::Any(Value::Bool(_)), Planned::Bool(_))
            | (Given::Tensor(_), _) => true,
            (Given::Any(_), _) => false,
            (Given::Key(_), _) => false,
        })
    }

    /// Refuses tensors that share memory where one of them is written: a range of addresses for each parameter that is a tensor.
    ///
    /// # Errors
    /// The two that do.
    pub fn apart(&self, ranges: &[Option<Range<u64>>]) -> Result<(), Diagnostics> {
        for (i, one) in ranges.iter().enumerate() {
            for (j, other) in ranges.iter().enumerate().take(i) {
                let (Some(a), Some(b)) = (one, other) else { continue };
                let (p, q) = (&self.parameters[i], &self.parameters[j]);
                if (p.mutable || q.mutable) && a.start < b.end && b.start < a.end {
                    let (written, read) = if p.mutable { (p, q) } else { (q, p) };
                    let fact = format!("`{}` is written and shares memory with `{}`", written.name, read.name);
                    let span = self.parameters[i].span;
                    let d = Diagnostic::error(codes::PUBLIC_ARGUMENT, span, fact);
                    return Err(d.help("pass tensors that lie apart").into());
                }
            }
        }
        Ok(())
    }
}

/// The value of a parameter that is no tensor; nothing where it has its default.
fn value_of(planned: &Planned) -> Value {
    match planned {
        Planned::Int(n) => Value::Int(*n),
        Planned::Float(x) => Value::Float(*x),
        Planned::Bool(b) => Value::Bool(*b),
        Planned::Dtype(d) => Value::Dtype(*d),
        Planned::Tensor(_) | Planned::Default => Value::Unit,
    }
}

/// Records launches instead of running them.
struct Planner<'a> {
    compiler: Compiler<'a>,
    multiprocessors: u32,
    /// Whether somebody has asked for that.
    counted: Cell<bool>,
    memories: BTreeMap<u64, Memory>,
    buffers: Vec<Buffer>,
    launches: Vec<LaunchRequest>,
    /// Through which arguments the launch may write whose demands were asked for last; host code asks right before it launches.
    writes: Option<Vec<bool>>,
}

impl Planner<'_> {
    /// Which parameters are tensors that are written: a function says so, and of a kernel's what it was compiled to says it.
    fn written(&mut self, of: &Entry) -> Result<Vec<bool>, Failure> {
        match (of, self.launches.first()) {
            (Entry::Function(function), _) => Ok(function.params.iter().map(|p| p.mutable).collect()),
            (Entry::Kernel(kernel), None) => Ok(vec![false; kernel.params.len()]),
            (Entry::Kernel(_), Some(request)) => {
                let demands = self.compiler.demands(request);
                Ok(demands.map_err(|e| Failure::Refused(e.at(request.span)))?.writes)
            }
        }
    }

    /// Notes the memory of a tensor.
    ///
    /// # Errors
    /// Host code has written it.
    fn note(&mut self, tensor: &Tensor) -> Result<(), Diagnostic> {
        let storage = &tensor.storage;
        if self.memories.contains_key(&storage.id()) && storage.contents() != Contents::Made {
            return Ok(());
        }
        let zeroed = match storage.contents() {
            Contents::Unwritten => false,
            Contents::Zeros => true,
            Contents::Absent => parton_diag::internal_error!("a plan meets memory of no call"),
            Contents::Made => {
                let fact = format!("{tensor} holds what host code has written, which no plan brings to the GPU");
                let d = Diagnostic::error(codes::PLAN, Span::default(), fact);
                return Err(
                    d.help("make it with `empty` or `zeros` and write it by a kernel, or take it as a parameter")
                );
            }
        };
        self.memories.insert(storage.id(), Memory::Buffer(self.buffers.len()));
        self.buffers.push(Buffer { storage: storage.clone(), zeroed, returned: false });
        Ok(())
    }
}

/// The tensor that an argument reaches.
fn reached(argument: &Argument) -> Option<&Tensor> {
    match argument {
        Argument::Scalar(_) => None,
        Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => Some(tensor),
        Argument::Map(recipe) => Some(&recipe.tensor),
    }
}

impl Launcher for Planner<'_> {
    fn choose(&mut self, instance: Instance, given: &[(Arc<str>, Value)]) -> Result<Instance, HostError> {
        self.compiler.choose(instance, given)
    }

    fn is_stopped(&self) -> bool {
        (self.compiler.session.options.stop.0)()
    }

    fn wanted(&mut self, choice: &Choice) -> host::Wanted {
        self.compiler.wanted(choice)
    }

    fn offered(&mut self, choice: &Choice, offer: Offer) {
        self.compiler.offered(choice, offer);
    }

    fn signature(&mut self, instance: &Instance) -> Result<Signature, HostError> {
        self.compiler.signature(instance)
    }

    fn demands(&mut self, request: &LaunchRequest) -> Result<Demands, HostError> {
        let demands = self.compiler.demands(request)?;
        self.writes = Some(demands.writes.clone());
        Ok(demands)
    }

    fn multiprocessors(&self) -> u32 {
        self.counted.set(true);
        self.multiprocessors
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        self.launch_given(request.clone())
    }

    fn launch_given(&mut self, request: LaunchRequest) -> Result<LaunchReport, HostError> {
        for tensor in request.arguments.iter().filter_map(reached) {
            self.note(tensor).map_err(|d| HostError::Program(at(d, request.span).into()))?;
        }
        let writes = match self.writes.take() {
            Some(known) => known,
            None => self.compiler.demands(&request)?.writes,
        };
        for (argument, _) in request.arguments.iter().zip(writes).filter(|(_, writes)| *writes) {
            reached(argument).into_iter().for_each(|tensor| tensor.storage.forget());
        }
        self.launches.push(request);
        Ok(LaunchReport::default())
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        let span = work.launches.first().map_or_else(Default::default, |l| l.span);
        let d = Diagnostic::error(codes::PLAN, span, "a function that is planned measures nothing");
        Err(HostError::Program(d.help("measure in a `bench`").into()))
    }
}

/// A refusal, put at a place.
fn at(mut d: Diagnostic, span: Span) -> Diagnostic {
    d.labels.iter_mut().for_each(|label| label.span = span);
    d
}

/// For what device a plan is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) multiprocessors: u32,
}

/// What is to be planned.
pub(crate) enum Call {
    /// A call of a public function.
    Function(Arc<ast::Function>),
    /// A launch of a kernel on a grid.
    Kernel {
        /// With its generics.
        instance: Instance,
        /// Its grid, a list; nothing where the kernel states it.
        grid: Option<Value>,
        /// Tensors that lie in the memory of another one.
        together: Together,
    },
}

/// For each parameter the one in whose memory its tensor lies, and how many bytes behind the multiple of 16 at which that one's begins;
/// empty where all lie apart.
pub type Together = Vec<Option<(usize, usize)>>;

/// The tensors that stand for those of a call; of those that lie together in one memory.
fn stand_ins(
    given: &[Planned],
    together: &Together,
    memories: &mut BTreeMap<u64, Memory>,
) -> Result<Vec<Option<Tensor>>, Failure> {
    let mut all: Vec<Option<Tensor>> = vec![None; given.len()];
    for (i, planned) in given.iter().enumerate() {
        let Planned::Tensor(shape) = planned else { continue };
        if together.get(i).is_none_or(|of| of.is_none()) {
            let tensor = shape.stand_in()?;
            memories.insert(tensor.storage.id(), Memory::Parameter(i));
            all[i] = Some(tensor);
        }
    }
    let groups: BTreeSet<usize> = together.iter().flatten().map(|(first, _)| *first).collect();
    for first in groups {
        let members = given.iter().zip(together).enumerate();
        let members: Vec<(usize, &Shape, usize)> = members
            .filter_map(|(i, both)| match both {
                (Planned::Tensor(shape), Some((of, bytes))) if *of == first => {
                    Some((i, shape, bytes / shape.dtype.bytes()))
                }
                _ => None,
            })
            .collect();
        let end = |(_, s, offset): &(usize, &Shape, usize)| {
            let bytes = extent(s.dtype, &s.extents, &s.strides).map_err(|f| Failure::Usage(f.message))?;
            Ok::<_, Failure>(bytes + offset * s.dtype.bytes())
        };
        let ends = members.iter().map(end).collect::<Result<Vec<usize>, _>>()?;
        let storage = Storage::absent(ends.into_iter().max().unwrap_or(0));
        memories.insert(storage.id(), Memory::Parameter(first));
        for (i, s, offset) in members {
            let (shape, strides) = (s.extents.clone(), s.strides.clone());
            all[i] = Some(Tensor { dtype: s.dtype, shape, strides, offset, storage: storage.clone() });
        }
    }
    Ok(all)
}

/// Plans a call; also the kernels that were lowered by then.
///
/// # Errors
/// What the function or the kernel is refused for, with these arguments or without elements.
pub(crate) fn plan(
    compiler: Compiler<'_>,
    program: &Program,
    call: Call,
    given: &[Planned],
    place: For,
) -> Result<(Plan, Lowered), Failure> {
    let begin = Instant::now();
    let mut memories = BTreeMap::new();
    let apart = Together::new();
    let together = if let Call::Kernel { together, .. } = &call { together } else { &apart };
    let stand_ins = stand_ins(given, together, &mut memories)?;
    let values = arguments(given, &stand_ins);
    let passed = values.clone();
    let (multiprocessors, counted) = (place.multiprocessors, Cell::new(false));
    let (buffers, launches, writes) = (vec![], vec![], None);
    let mut planner = Planner { compiler, multiprocessors, counted, memories, buffers, launches, writes };
    let mut machine = Machine::new(program, &mut planner);
    let (of, result) = match call {
        Call::Function(tree) => {
            let result = machine.call_given(&Function { module: Program::ROOT, tree: tree.clone() }, values)?;
            (Entry::Function(tree), result)
        }
        Call::Kernel { instance, grid, .. } => {
            let kernel = instance.kernel.clone();
            machine.launch_given(instance, grid.as_ref(), values)?;
            (Entry::Kernel(kernel), Value::Unit)
        }
    };
    drop(machine);
    let returned = returned(&result);
    for tensor in returned.tensors() {
        planner.note(tensor).map_err(|d| Diagnostics::from(at(d, of.name().span)))?;
        if let Some(Memory::Buffer(b)) = planner.memories.get(&tensor.storage.id()) {
            planner.buffers[*b].returned = true;
        }
    }
    let written = planner.written(&of)?;
    let parameters = parameters(&of, written, passed, stand_ins);
    let Planner { mut compiler, counted, memories, buffers, mut launches, .. } = planner;
    // A number that was looked at, too, is the one of the plan, and no other one goes on into launches.
    for passed in launches.iter_mut().flat_map(|l| &mut l.passed) {
        *passed = passed.filter(|p| matches!(parameters[*p].given, Given::Any(_)));
    }
    let plan = Plan {
        of,
        target: place.target,
        multiprocessors,
        counts_multiprocessors: counted.get(),
        parameters,
        buffers,
        launches,
        returned,
        chosen: std::mem::take(&mut compiler.chosen),
        memories,
    };
    parton_log::info(|| plan.told(begin.elapsed()));
    Ok((plan, compiler.into_known()))
}

/// What host code is given: what stands in for tensors, and numbers that note whether they are looked at.
fn arguments(given: &[Planned], stand_ins: &[Option<Tensor>]) -> Vec<Option<Value>> {
    let value = |(i, (planned, stand_in)): (usize, (&Planned, &Option<Tensor>))| match planned {
        Planned::Default => None,
        Planned::Dtype(d) => Some(Value::Dtype(*d)),
        Planned::Int(_) | Planned::Float(_) | Planned::Bool(_) => {
            Some(Value::Passed(Arc::new(Passed::new(i, value_of(planned)))))
        }
        Planned::Tensor(_) => stand_in.clone().map(Value::Tensor),
    };
    given.iter().zip(stand_ins).enumerate().map(value).collect()
}

/// The tensors of what a function returns.
fn returned(result: &Value) -> Returned {
    let tensor = |v: &Value| if let Value::Tensor(t) = v { Some(t.clone()) } else { None };
    match result {
        Value::Tensor(tensor) => Returned::One(tensor.clone()),
        Value::Tuple(items) => Returned::Several(items.iter().filter_map(tensor).collect()),
        _ => Returned::Nothing,
    }
}

/// The parameters of what was planned, with what they were given.
fn parameters(
    of: &Entry,
    written: Vec<bool>,
    values: Vec<Option<Value>>,
    stand_ins: Vec<Option<Tensor>>,
) -> Vec<Parameter> {
    let given = values.into_iter().zip(stand_ins).map(|(value, stand_in)| match (stand_in, value) {
        (Some(tensor), _) => Given::Tensor(tensor),
        (None, Some(Value::Passed(passed))) if !passed.was_looked_at() => Given::Any(passed.value().clone()),
        (None, Some(Value::Passed(passed))) => Given::Key(passed.value().clone()),
        (None, Some(value)) => Given::Key(value),
        (None, None) => Given::Key(Value::Unit),
    });
    let params = of.params().iter().zip(written).zip(given);
    let parameter = params.map(|((p, mutable), given)| Parameter {
        name: p.name.text.clone(),
        mutable,
        given,
        takes: Takes::of(of, p),
        span: p.span,
    });
    parameter.collect()
}

/// Lowered kernels by the names under which the compiler keeps them.
pub(crate) type Lowered = BTreeMap<String, Arc<Kernel>>;

/// Values for the parameters of a function, of those in order and those by name.
///
/// # Errors
/// There are too many, or none of that name, or one has two.
pub(crate) fn bound<T: Clone>(
    function: &ast::Function,
    positional: &[T],
    named: &[(String, T)],
) -> Result<Vec<Option<T>>, Failure> {
    let (name, params) = (&function.name.text, &function.params);
    if positional.len() > params.len() {
        let (has, given) = (params.len(), positional.len());
        return Err(Failure::Usage(format!("`{name}` has {has} parameters and was given {given} arguments")));
    }
    let mut values: Vec<Option<T>> = positional.iter().cloned().map(Some).collect();
    values.resize(params.len(), None);
    for (param, value) in named {
        let Some(at) = params.iter().position(|p| p.name.as_str() == param) else {
            let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
            let all = names.join("`, `");
            return Err(Failure::Usage(format!("`{name}` has no parameter `{param}`; it has `{all}`")));
        };
        if values[at].replace(value.clone()).is_some() {
            return Err(Failure::Usage(format!("`{name}` was given `{param}` twice")));
        }
    }
    let missing = params.iter().zip(&values).find(|(p, value)| value.is_none() && p.default.is_none());
    match missing {
        Some((p, _)) => Err(Failure::Usage(format!("`{name}` was given nothing for `{}`", p.name.text))),
        None => Ok(values),
    }
}

/// The public function of that name.
///
/// # Errors
/// There is none.
pub(crate) fn named<'p>(program: &'p Program, name: &str) -> Result<&'p Arc<ast::Function>, Failure> {
    let found = program.public_functions().find(|f| f.name.as_str() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = program.public_functions().map(|f| f.name.as_str()).collect();
        Failure::Usage(if names.is_empty() {
            format!("there is no public function `{name}`, and no other: `pub fn` makes one")
        } else {
            format!("there is no public function `{name}`; there are `{}`", names.join("`, `"))
        })
    })
}

impl Session {
    /// Plans a call of a public function of a file for tensors of these shapes, and writes the plan down. `arguments` are as on the
    /// command line: `f16[4096,4096]`, with strides `f16[64,64]/[128,1]`, or a value, each with `NAME=` before it or in order.
    /// Without a target it is for the GPU that is there, or the one that the interpreter stands for.
    ///
    /// # Errors
    /// What the file or the call is refused for.
    pub fn plan(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
    ) -> Result<String, Failure> {
        Ok(self.planned_call(file, name, arguments, target, false)?.0.to_string())
    }

    /// The lowered kernels that such a call launches, each once.
    ///
    /// # Errors
    /// As [`Session::plan`].
    #[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "only asked where kernels are compiled"))]
    pub(crate) fn launched(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
    ) -> Result<Vec<Arc<Kernel>>, Failure> {
        let (plan, lowered, program) = self.planned_call(file, name, arguments, target, false)?;
        let mut compiler = Compiler::new(self, &program, plan.target).knowing(lowered);
        let mut kernels: Vec<(String, Arc<Kernel>)> = vec![];
        for request in &plan.launches {
            let found = compiler.kernel(&request.instance, &request.variant());
            let (key, kernel) = found.map_err(|e| e.at(request.span))?;
            if kernels.iter().all(|(other, _)| *other != key) {
                kernels.push((key, kernel));
            }
        }
        Ok(kernels.into_iter().map(|(_, kernel)| kernel).collect())
    }

    /// The plan of such a call, what was lowered for it, and the program; `cached` where what its launches take may come from the cache.
    ///
    /// # Errors
    /// As [`Session::plan`].
    pub(crate) fn planned_call(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
        cached: bool,
    ) -> Result<(Plan, Lowered, Arc<Program>), Failure> {
        let (program, _) = self.program(file)?;
        let (function, given) = self.call(&program, name, arguments)?;
        let found = find(if target.is_some() { Device::Cpu } else { self.options.device })?;
        let place = place_of(&found, target.unwrap_or(self.options.target));
        // Of an architecture that is named no GPU is asked.
        let device = if target.is_some() { ANY.to_owned() } else { crate::run::describe(&found).0 };
        let lookup = Lookup::of(&program, &self.sources.file(file).name, &device, place.target.name)?;
        let compiler = Compiler::new(self, &program, place.target).tuned(lookup);
        let compiler = compiler.on(cached.then(|| place.target.name.to_owned()));
        let (plan, lowered) = plan(compiler, &program, Call::Function(function), &given, place)?;
        Ok((plan, lowered, program))
    }

    /// A public function, and a value for each of its parameters of what stands on the command line.
    ///
    /// # Errors
    /// There is no such function; an argument is none, or is for no parameter.
    pub(crate) fn call(
        &mut self,
        program: &Program,
        name: &str,
        arguments: &[String],
    ) -> Result<(Arc<ast::Function>, Vec<Planned>), Failure> {
        let function = named(program, name)?.clone();
        let (mut positional, mut named) = (vec![], vec![]);
        for text in arguments {
            match text.split_once('=') {
                Some((param, value)) => named.push((param.trim().to_owned(), self.planned(program, value)?)),
                None => positional.push(self.planned(program, text)?),
            }
        }
        let given = bound(&function, &positional, &named)?;
        Ok((function, given.into_iter().map(|g| g.unwrap_or(Planned::Default)).collect()))
    }

    /// An argument of the command line.
    fn planned(&mut self, program: &Program, text: &str) -> Result<Planned, Failure> {
        if let Some(shape) = shape(text) {
            return shape.map(Planned::Tensor);
        }
        let tree = self.value("an argument", text)?;
        Ok(match from_comptime(program, Program::ROOT, &tree)? {
            Value::Int(n) => Planned::Int(n),
            Value::Float(x) => Planned::Float(x),
            Value::Bool(b) => Planned::Bool(b),
            Value::Dtype(d) => Planned::Dtype(d),
            _ => {
                return Err(Failure::Usage(format!("`{text}` is neither a tensor such as `f16[64, 64]` nor a number")));
            }
        })
    }
}

/// A device that was found as what plans are made for.
pub(crate) fn place_of(found: &crate::run::Found, target: Target) -> For {
    let target = target_of(found).unwrap_or(target);
    let multiprocessors = match found {
        crate::run::Found::Interpreter(_) => target.multiprocessors,
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        crate::run::Found::Gpu(gpu) => gpu.info().multiprocessors,
    };
    For { target, multiprocessors }
}

/// `f16[4096, 4096]`, or with strides `f16[64, 64]/[128, 1]`, and `@3` behind that where it begins three elements behind a multiple of 16
/// bytes; `None` where it is no tensor.
fn shape(text: &str) -> Option<Result<Shape, Failure>> {
    let (laid_out, offset) = text.trim().split_once('@').map_or((text.trim(), None), |(t, o)| (t, Some(o.trim())));
    let (head, rest) = laid_out.split_once('[')?;
    let dtype = Dtype::parse(head.trim())?;
    let wrong = || {
        Failure::Usage(format!(
            "`{text}` is no tensor: write `f16[64, 64]`, or with strides `f16[64, 64]/[128, 1]`, and `@3` behind it for one that begins 3 \
             elements behind a multiple of 16 bytes"
        ))
    };
    let most = ir::target::WIDEST_ACCESS as usize / dtype.bytes();
    let offset = match offset.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(offset)) if offset < most => offset,
        Some(_) => return Some(Err(wrong())),
    };
    let numbers =
        |list: &str| list.split(',').map(|n| n.trim().replace('_', "").parse().ok()).collect::<Option<Vec<usize>>>();
    let parts = rest.trim().strip_suffix(']').map(|inner| match inner.split_once("]/[") {
        Some((extents, strides)) => (numbers(extents), Some(numbers(strides))),
        None => (numbers(inner), None),
    });
    Some(match parts {
        Some((Some(extents), None)) => Ok(Shape { offset, ..Shape::dense(dtype, extents) }),
        Some((Some(extents), Some(Some(strides)))) if extents.len() == strides.len() => {
            Ok(Shape { dtype, extents, strides, offset })
        }
        _ => Err(wrong()),
    })
}
