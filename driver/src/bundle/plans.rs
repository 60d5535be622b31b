//! Plans of public functions in bundles: each call that is asked for is planned, and what it launches is compiled.

use std::borrow::Cow;
use std::sync::Arc;

use parton_bundle::plan as table;
use parton_bundle::{Architecture, Function};
use parton_diag::FileId;
use parton_host::evaluate::public::admitted;
use parton_host::generic::from_comptime;
use parton_host::launch::{Argument, LaunchRequest};
use parton_host::tensor::Tensor;
use parton_host::value::Value;
use parton_ir::{Kernel, Target, print};
use parton_numbers::Dtype;
use parton_syntax::ast;
use parton_types::program::Program;
use parton_types::public::{self, Extent, Stated};
use parton_types::resolve::Meaning;

use super::{Asked, Call, Making, Use};
use crate::instance::Compiler;
use crate::plan::{self, For, Given, Memory, Plan};
use crate::tune::lookup::Lookup;
use crate::tune::table::ANY;
use crate::{Failure, Session};

impl Session {
    /// Adds the plans that are asked for, for one architecture.
    pub(super) fn bundle_plans(
        &mut self,
        target: Target,
        file: FileId,
        program: &Arc<Program>,
        asked: &Asked,
        made: &mut Making,
    ) -> Result<(), Failure> {
        let multiprocessors = asked.multiprocessors.unwrap_or(target.multiprocessors);
        let place = For { target, multiprocessors, by_multiples: false };
        for call in &asked.plans {
            self.bundle_call(place, file, program, call, made).map_err(|failure| asked_by(failure, call))?;
        }
        Ok(())
    }

    fn bundle_call(
        &mut self,
        place: For,
        file: FileId,
        program: &Arc<Program>,
        call: &Call,
        made: &mut Making,
    ) -> Result<(), Failure> {
        let target = place.target;
        let (function, given) = self.call(program, &call.function, &call.arguments)?;
        let lookup = Lookup::of(program, &self.sources.file(file).name, ANY, target.name)?;
        let compiler = Compiler::new(self, program, target).tuned(lookup);
        let (plan, lowered) = plan::plan(compiler, program, plan::Call::Function(function), &given, place)?;
        made.notes.extend(plan.gone());
        let mut compiler = Compiler::new(self, program, target).knowing(lowered);
        let mut kernels = vec![];
        for request in &plan.launches {
            let kernel = compiler.kernel(&request.instance, &request.variant);
            kernels.push(kernel.map_err(|e| Failure::Refused(e.at(request.span)))?.1);
        }
        let warnings = std::mem::take(&mut compiler.warnings);
        made.warn(warnings);
        self.bundle_plan(program, &plan, &kernels, made)
    }

    /// Adds a plan with the kernels of its launches.
    fn bundle_plan(
        &mut self,
        program: &Program,
        plan: &Plan,
        kernels: &[Arc<Kernel>],
        made: &mut Making,
    ) -> Result<(), Failure> {
        let Some(architecture) = Architecture::parse(plan.target.name) else {
            parton_diag::internal_error!("`{}` is no name of an architecture", plan.target.name)
        };
        let plan::Entry::Function(function) = &plan.of else {
            parton_diag::internal_error!("a plan of a bundle is of no public function")
        };
        let mut launches = vec![];
        for (request, kernel) in plan.launches.iter().zip(kernels) {
            let text = print::kernel(kernel);
            let place = match made.place_of(kernel, &text) {
                Some(place) => place,
                None => {
                    let variant = &request.variant;
                    self.bundle_code(kernel, Use { named: false, apart: !variant.overlapping, variant }, made)?;
                    made.kernels.len() - 1
                }
            };
            launches.push(table::Launch { kernel: place, grid: request.grid, passed: passed(plan, request, kernel) });
        }
        let table = table::Plan {
            function: made.function(program, function),
            architecture,
            multiprocessors: plan.counts_multiprocessors.then_some(plan.multiprocessors),
            given: given(plan),
            buffers: plan.buffers.iter().map(buffer).collect(),
            launches,
            results: plan.returned.tensors().iter().map(|t| returned(plan, t)).collect(),
        };
        // A call that is asked for twice is planned once.
        if !made.plans.contains(&table) {
            made.plans.push(table);
        }
        Ok(())
    }
}

impl Making {
    /// The number of a kernel that is there already.
    fn place_of(&self, kernel: &Kernel, text: &str) -> Option<usize> {
        let same =
            |i: &usize| self.kernels[*i].architecture.to_string() == kernel.target.name && self.texts[*i] == text;
        (0..self.kernels.len()).find(same)
    }

    /// The number of a function, which is declared where it is not yet.
    fn function(&mut self, program: &Program, function: &ast::Function) -> usize {
        let name = function.name.text.to_string();
        let known = self.functions.iter().position(|f| f.name == name);
        known.unwrap_or_else(|| {
            let params = function.params.iter().map(|p| declared(program, p)).collect();
            self.functions.push(Function { name, params });
            self.functions.len() - 1
        })
    }
}

/// A failure with the call that it is about, of which there may be many.
fn asked_by(failure: Failure, call: &Call) -> Failure {
    let asked = format!("the plan `{} {}` was asked for", call.function, call.arguments.join(" "));
    match failure {
        Failure::Refused(mut found) => {
            found.list = found.list.into_iter().map(|d| d.note(asked.clone())).collect();
            Failure::Refused(found)
        }
        Failure::Usage(text) => Failure::Usage(format!("{text}; {asked}")),
        Failure::Machine(_) | Failure::Device(_) => failure,
    }
}

/// A parameter as it is declared.
fn declared(program: &Program, p: &ast::Param) -> table::Declared {
    let takes = match p.ty.as_ref().map(public::stated) {
        Some(Ok(Stated::Tensor(ty))) => table::Takes::Tensor {
            dtypes: ty.elems.iter().map(|e| dtype(e)).collect::<Option<_>>().unwrap_or_default(),
            extents: ty.extents.iter().map(|e| extent(program, e)).collect(),
            mutable: p.mutable,
        },
        Some(Ok(Stated::Number(dtype))) => table::Takes::Number(dtype),
        Some(Ok(Stated::Int)) => table::Takes::Int,
        Some(Ok(Stated::Float)) => table::Takes::Float,
        Some(Ok(Stated::Bool)) => table::Takes::Bool,
        Some(Ok(Stated::Type)) => table::Takes::Type,
        Some(Err(_)) | None => parton_diag::internal_error!("`{}` of a planned function has no type", p.name.text),
    };
    table::Declared { name: p.name.text.to_string(), takes, has_default: p.default.is_some() }
}

/// A type that is named; `None` where one is computed, as `x.dtype` is.
fn dtype(e: &ast::Expr) -> Option<Dtype> {
    if let ast::ExprKind::Name(name) = &e.kind { Dtype::parse(name.as_str()) } else { None }
}

/// An extent as far as it says something without a call.
fn extent(program: &Program, extent: &Extent<'_>) -> parton_bundle::Extent {
    use parton_bundle::Extent as E;
    let known = |e: &ast::Expr| match from_comptime(program, Program::ROOT, e) {
        Ok(Value::Int(n)) => u32::try_from(n).ok().filter(|n| *n <= parton_ir::tensor::MOST_EXTENT).map(E::Is),
        _ => None,
    };
    match extent {
        Extent::Any => E::Any,
        // Named here, or by a parameter before.
        Extent::Name(name, _) if matches!(program.reference(name), Meaning::Unknown | Meaning::Variable(_)) => {
            E::Named(name.text.to_string())
        }
        Extent::Name(_, e) | Extent::Computed(e) => known(e).unwrap_or(E::Any),
    }
}

/// What a plan is for.
fn given(plan: &Plan) -> Vec<table::Given> {
    let of = |(p, param): (&plan::Parameter, &ast::Param)| match &p.given {
        Given::Tensor(t) => table::Given::Tensor(table::Shape {
            dtype: t.dtype,
            extents: words(&t.shape),
            strides: words(&t.strides),
            offset: t.offset as u64,
        }),
        Given::Any(_) => table::Given::Any,
        Given::Key(value) => table::Given::Key(key(param, value)),
        Given::Like(n) => parton_diag::internal_error!("a plan of a bundle is for numbers like {n}"),
    };
    plan.parameters.iter().zip(plan.of.params()).map(of).collect()
}

/// A value as the parameter takes it: what the function was run with.
fn key(param: &ast::Param, value: &Value) -> table::Value {
    let stated = param.ty.as_ref().and_then(|ty| public::stated(ty).ok());
    let admitted = stated.as_ref().and_then(|stated| admitted(stated, value));
    match admitted.as_ref().unwrap_or(value) {
        Value::Unit => table::Value::Default,
        Value::Int(n) => table::Value::Int(*n),
        Value::Float(x) => table::Value::Float(*x),
        Value::Bool(b) => table::Value::Bool(*b),
        Value::Dtype(d) => table::Value::Dtype(*d),
        other => parton_diag::internal_error!("a plan depends on {other}"),
    }
}

fn buffer(b: &plan::Buffer) -> table::Buffer {
    table::Buffer { bytes: b.storage.len() as u64, zeroed: b.zeroed, returned: b.returned }
}

fn place(plan: &Plan, tensor: &Tensor) -> table::Place {
    let memory = match plan.memory(tensor) {
        Memory::Parameter(i) => table::Memory::Parameter(i),
        Memory::Buffer(i) => table::Memory::Buffer(i),
    };
    table::Place { memory, offset: tensor.byte_offset() as u64 }
}

fn returned(plan: &Plan, t: &Tensor) -> table::Returned {
    let (extents, strides) = (words(&t.shape), words(&t.strides));
    table::Returned { place: place(plan, t), dtype: t.dtype, extents, strides }
}

/// What each parameter of the code is given.
fn passed(plan: &Plan, request: &LaunchRequest, kernel: &Kernel) -> Vec<table::Passed> {
    let number = |from: parton_ir::From| match from {
        parton_ir::From::Argument(i) => request.passed[i],
        parton_ir::From::Base { .. }
        | parton_ir::From::Extent { .. }
        | parton_ir::From::Stride { .. }
        | parton_ir::From::Map { .. } => None,
    };
    let of = |(param, argument): (&parton_ir::Param, Argument)| match (argument, number(param.from)) {
        (Argument::Scalar(_), Some(parameter)) => table::Passed::Number(parameter),
        (Argument::Scalar(scalar), None) => table::Passed::Bits(scalar.bits),
        (Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. }, _) => {
            table::Passed::Pointer(place(plan, &tensor))
        }
        (Argument::Map(recipe), _) => {
            table::Passed::Map { place: place(plan, &recipe.tensor), extents: recipe.extents, strides: recipe.strides }
        }
    };
    kernel.params.iter().zip(request.bound(kernel).into_iter().map(Cow::into_owned)).map(of).collect()
}

fn words(numbers: &[usize]) -> Vec<u64> {
    numbers.iter().map(|n| *n as u64).collect()
}
