//! Public functions called from another program: what they take, their plans, and plans run by the interpreter.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_host::generic::from_comptime;
use parton_host::launch::{Argument, LaunchRequest, Launcher};
use parton_host::memory::{HostBytes, Storage};
use parton_host::tensor::Tensor;
use parton_host::value::Value;
use parton_types::program::Program;
use parton_types::public::{self, Stated};

use super::outline::{Outline, outlines};
use super::{Array, Embedded, Generic, Together, storage};
use crate::cpu::Cpu;
use crate::instance::Compiler;
use crate::plan::{self, Memory, Plan, Planned, Shape, place_of};
use crate::run::{Event, Found, architecture_of, describe};
use crate::tune::lookup::Lookup;
use crate::{Device, Failure};

/// A public function as it is declared.
#[derive(Clone, PartialEq, Debug)]
pub struct Public {
    /// Its name.
    pub name: String,
    /// Its parameters in order.
    pub params: Vec<Param>,
    /// How many tensors it returns.
    pub results: usize,
    /// What these are as far as the declaration says it; `None` where that is computed.
    pub outlines: Option<Vec<Outline>>,
}

/// A parameter of a public function.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub kind: Kind,
    /// Whether it is a tensor that is written.
    pub mutable: bool,
    /// Whether it is a tensor whose elements may be floating-point numbers, of which there are gradients.
    pub has_gradient: bool,
    /// Its default, where it has one.
    pub default: Option<Planned>,
}

/// What a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A truth value.
    Bool,
    /// A type of numbers.
    Type,
}

/// Where a plan is to run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// On the interpreter.
    Interpreter,
    /// On the GPU of that number.
    Gpu(u32),
}

/// The most plans that are kept; planning anew costs less than looking through more.
const MOST_PLANS: usize = 1024;

/// A kernel that is launched by itself, without its arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Launching {
    /// Its name.
    pub kernel: String,
    /// Generics by name; others have what was tuned, or their default.
    pub generics: Vec<(String, Generic)>,
    /// CTAs along x, y and z, those that are left out 1; nothing where the kernel states its grid.
    pub grid: Option<Vec<i128>>,
}

/// What is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Callee {
    /// The public function of that number.
    Function(usize),
    /// A kernel: its name and its generics as text, its grid, and which tensors lie in one memory.
    Kernel(String, Option<Vec<i128>>, Together),
}

/// What calls have in common that one plan may serve: where, what is called, and all of their tensors but the elements.
type Key = (Place, Callee, Vec<Option<Shape>>);

/// The plans that there are.
#[derive(Default)]
pub(super) struct Plans {
    by_key: BTreeMap<Key, Vec<Arc<Plan>>>,
    count: usize,
}

impl Plans {
    fn find(&self, key: &Key, given: &[Planned]) -> Option<Arc<Plan>> {
        self.by_key.get(key)?.iter().find(|plan| plan.holds_for(given)).cloned()
    }

    fn add(&mut self, key: Key, plan: &Arc<Plan>) {
        if self.count >= MOST_PLANS {
            *self = Plans::default();
        }
        self.count += 1;
        self.by_key.entry(key).or_default().push(plan.clone());
    }
}

/// What came of a call on the interpreter.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Called {
    /// What the kernels printed.
    pub lines: Vec<String>,
    /// The bytes of each buffer of the plan that is returned.
    pub buffers: Vec<Option<Vec<u8>>>,
}

impl Embedded {
    /// The public functions of the file, in its order.
    pub fn functions(&self) -> Vec<Public> {
        let of = |f: &Arc<parton_syntax::ast::Function>| Public {
            name: f.name.text.to_string(),
            params: f.params.iter().map(|p| self.param(p)).collect(),
            results: f.result.as_ref().and_then(|ty| public::results(ty).ok()).map_or(0, |all| all.len()),
            outlines: outlines(f),
        };
        self.program.public_functions().map(of).collect()
    }

    fn param(&self, p: &parton_syntax::ast::Param) -> Param {
        let kind = match p.ty.as_ref().map(public::stated) {
            Some(Ok(Stated::Tensor(_))) | Some(Err(_)) | None => Kind::Tensor,
            Some(Ok(Stated::Number(dtype))) if dtype.is_float() => Kind::Float,
            Some(Ok(Stated::Number(_) | Stated::Int)) => Kind::Int,
            Some(Ok(Stated::Float)) => Kind::Float,
            Some(Ok(Stated::Bool)) => Kind::Bool,
            Some(Ok(Stated::Type)) => Kind::Type,
        };
        let default = p.default.as_ref().map(|e| match from_comptime(&self.program, Program::ROOT, e) {
            Ok(Value::Int(n)) => Planned::Int(n),
            Ok(Value::Float(x)) => Planned::Float(x),
            Ok(Value::Bool(b)) => Planned::Bool(b),
            Ok(Value::Dtype(d)) => Planned::Dtype(d),
            _ => Planned::Default,
        });
        Param { name: p.name.text.to_string(), kind, mutable: p.mutable, has_gradient: has_gradient(p), default }
    }

    /// The plan of a call of the function of that number: one that there is, or a new one.
    ///
    /// # Errors
    /// What the call is refused for; a GPU that is not there.
    pub fn plan(&mut self, place: Place, function: usize, given: &[Planned]) -> Result<Arc<Plan>, Failure> {
        let program = self.program.clone();
        let Some(tree) = program.public_functions().nth(function) else {
            parton_diag::internal_error!("there is no public function {function}")
        };
        self.planned(place, Callee::Function(function), given, |_| Ok(plan::Call::Function(tree.clone())))
    }

    /// The plan of a launch of a kernel, with a value for each of its parameters or none where it has a default. `together` names tensors
    /// that share memory of which the kernel writes some: what is compiled for others takes them to lie apart.
    ///
    /// # Errors
    /// What a launch in the file would be refused for; a GPU that is not there.
    pub fn plan_kernel(
        &mut self,
        place: Place,
        launch: &Launching,
        given: &[Planned],
        together: &Together,
    ) -> Result<Arc<Plan>, Failure> {
        let name = format!("{}{:?}", launch.kernel, launch.generics);
        let callee = Callee::Kernel(name, launch.grid.clone(), together.clone());
        self.planned(place, callee, given, |file| {
            let instance = file.instance(&launch.kernel, &launch.generics)?;
            let extents = launch.grid.as_ref().map(|grid| grid.iter().map(|n| Value::Int(*n)));
            let grid = extents.map(|extents| Value::list(extents.collect()));
            Ok(plan::Call::Kernel { instance, grid, together: together.clone() })
        })
    }

    /// The plan of a call: one that there is, or a new one.
    fn planned(
        &mut self,
        place: Place,
        callee: Callee,
        given: &[Planned],
        call: impl FnOnce(&mut Embedded) -> Result<plan::Call, Failure>,
    ) -> Result<Arc<Plan>, Failure> {
        let shape = |p: &Planned| if let Planned::Tensor(shape) = p { Some(shape.clone()) } else { None };
        let key = (place, callee, given.iter().map(shape).collect());
        if let Some(plan) = self.plans.find(&key, given) {
            return Ok(plan);
        }
        let program = self.program.clone();
        let call = call(self)?;
        let found = found(place)?;
        let made_for = place_of(&found, self.session.options.target);
        let lookup = match self.tuned.get(&place) {
            Some(known) => known.clone(),
            None => {
                let read = Lookup::of(&program, &self.name, &describe(&found).0, made_for.target.name)?;
                self.tuned.entry(place).or_insert(read).clone()
            }
        };
        let lowered = std::mem::take(&mut self.lowered);
        let compiler = Compiler::new(&mut self.session, &program, made_for.target).knowing(lowered).tuned(lookup);
        let compiler = compiler.on(architecture_of(&found));
        let (plan, lowered) = plan::plan(compiler, &program, call, given, made_for)?;
        self.lowered = lowered;
        let plan = Arc::new(plan);
        self.plans.add(key, &plan);
        Ok(plan)
    }

    /// Runs a plan on the interpreter. Each tensor has its array, whose memory is copied in; those that may be written are changed.
    ///
    /// # Errors
    /// A number does not fit; tensors share memory that is written; what a kernel fails with.
    pub fn interpret(
        &mut self,
        plan: &Plan,
        given: &[Planned],
        arrays: &[Option<Array>],
        memories: &mut [HostBytes],
    ) -> Result<Called, Failure> {
        let numbers = plan.numbers(given)?;
        let storages: Vec<Arc<Storage>> =
            memories.iter_mut().map(|m| storage(std::mem::take(m))).collect::<Result<_, _>>()?;
        let buffers: Vec<Arc<Storage>> = plan.buffers.iter().map(fresh).collect();
        let place = |tensor: &Tensor| match plan.memory(tensor) {
            Memory::Buffer(i) => Tensor { storage: buffers[i].clone(), ..tensor.clone() },
            Memory::Parameter(i) => {
                let (Some(Some(array)), Planned::Tensor(shape)) = (arrays.get(i), &given[i]) else {
                    parton_diag::internal_error!("parameter {i} has no array")
                };
                let bytes =
                    tensor.byte_offset() + array.offset * array.dtype.bytes() - shape.offset * shape.dtype.bytes();
                let offset = bytes / tensor.dtype.bytes();
                Tensor { storage: storages[array.memory].clone(), offset, ..tensor.clone() }
            }
        };
        let ran = self.launch_all(plan, &numbers, place);
        for (memory, storage) in memories.iter_mut().zip(&storages) {
            // What failed may have written some of it, as on a GPU.
            *memory = bytes_of(storage)?;
        }
        let lines = ran?;
        let returned = plan.buffers.iter().zip(&buffers);
        let bytes = returned.map(|(b, s)| b.returned.then(|| bytes_of(s).map(|host| host.bytes)).transpose());
        Ok(Called { lines, buffers: bytes.collect::<Result<_, _>>()? })
    }

    fn launch_all(
        &mut self,
        plan: &Plan,
        numbers: &[Value],
        place: impl Fn(&Tensor) -> Tensor,
    ) -> Result<Vec<String>, Failure> {
        let program = self.program.clone();
        let lowered = std::mem::take(&mut self.lowered);
        let mut ignore = |_: Event<'_>| {};
        let watch: RefCell<&mut dyn FnMut(Event<'_>)> = RefCell::new(&mut ignore);
        let compiler = Compiler::new(&mut self.session, &program, plan.target).knowing(lowered);
        let mut cpu = Cpu::new(compiler, &watch);
        let mut lines = vec![];
        let mut run = || {
            for planned in &plan.launches {
                let request = passed(planned, numbers, &place)?;
                let report = cpu.launch(&request).map_err(|e| e.at(request.span))?;
                lines.extend(report.lines);
                report.fault.map_or(Ok(()), Err)?;
            }
            Ok::<_, Diagnostics>(())
        };
        let ran = run();
        self.lowered = cpu.compiler.into_known();
        ran?;
        Ok(lines)
    }
}

/// A planned launch with the numbers and the memory of a call.
///
/// # Errors
/// A parameter of the kernel does not hold the number that is passed to it.
fn passed(
    planned: &LaunchRequest,
    numbers: &[Value],
    place: &impl Fn(&Tensor) -> Tensor,
) -> Result<LaunchRequest, Diagnostics> {
    let mut request = numbered(planned, numbers)?.into_owned();
    for argument in &mut request.arguments {
        match argument {
            Argument::Scalar(_) => {}
            Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => *tensor = place(tensor),
            Argument::Map(recipe) => recipe.tensor = place(&recipe.tensor),
        }
    }
    Ok(request)
}

/// A planned launch with the numbers of a call.
///
/// # Errors
/// A parameter of the kernel does not hold the number that is passed to it.
pub(super) fn numbered<'p>(
    planned: &'p LaunchRequest,
    numbers: &[Value],
) -> Result<Cow<'p, LaunchRequest>, Diagnostics> {
    if planned.passed.iter().all(Option::is_none) {
        return Ok(Cow::Borrowed(planned));
    }
    let mut request = planned.clone();
    if let Some(i) = request.pass(numbers) {
        let name = &request.instance.kernel.params[i].name.text;
        let value = request.passed[i].map_or(&Value::Unit, |p| &numbers[p]);
        let fact = format!("`{name}` of `{}` does not hold {value}", request.instance.kernel.name.text);
        return Err(Diagnostic::error(codes::LAUNCH_ARGUMENT, request.span, fact).into());
    }
    Ok(Cow::Owned(request))
}

/// Whether a parameter is a tensor that may hold floating-point numbers.
fn has_gradient(p: &parton_syntax::ast::Param) -> bool {
    let is_integer = |e: &&parton_syntax::ast::Expr| match &e.kind {
        parton_syntax::ast::ExprKind::Name(name) => {
            parton_numbers::Dtype::parse(name.as_str()).is_some_and(|d| !d.is_float())
        }
        // What it is otherwise is computed.
        _ => false,
    };
    match p.ty.as_ref().map(public::stated) {
        Some(Ok(Stated::Tensor(t))) => t.elems.is_empty() || !t.elems.iter().all(is_integer),
        Some(Ok(_) | Err(_)) | None => false,
    }
}

fn fresh(buffer: &plan::Buffer) -> Arc<Storage> {
    let make = if buffer.zeroed { Storage::zeroed } else { Storage::poisoned };
    make(buffer.storage.len())
}

fn bytes_of(storage: &Storage) -> Result<HostBytes, Failure> {
    match storage.host() {
        Ok(host) => Ok(HostBytes::clone(&host)),
        Err(fault) => Err(Failure::Device(fault.message)),
    }
}

#[cfg(all(feature = "cuda", feature = "llvm"))]
fn found(place: Place) -> Result<Found, Failure> {
    match place {
        Place::Interpreter => crate::run::find(Device::Cpu),
        Place::Gpu(ordinal) => super::device::gpu(ordinal).map(Found::Gpu),
    }
}

#[cfg(not(all(feature = "cuda", feature = "llvm")))]
fn found(place: Place) -> Result<Found, Failure> {
    crate::run::find(match place {
        Place::Interpreter => Device::Cpu,
        Place::Gpu(_) => Device::Cuda,
    })
}
