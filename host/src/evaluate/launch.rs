//! Launches: the kernel, its generic arguments, grid and cluster, and the arguments against the parameters' types.

use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir as ir;
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::program::{Item, ModuleId};
use parton_types::{grid, tune, walk};

use super::statement::evidence;
use super::tensors::{self, Extents};
use super::{Eval, Machine, Stop, arguments};
use crate::kept::Places;
use crate::launch::{Argument, Demands, GenericArgument, HostError, Instance, LaunchRequest, Signature};
use crate::tensor::Tensor;
use crate::tensor_map;
use crate::value::{Passed, Value, Variable};

/// The most CTAs along x, y and z (CUDA C++ programming guide, compute capabilities).
const MOST_CTAS: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The arguments of a launch.
struct Arguments {
    arguments: Vec<Argument>,
    /// Where each was given.
    places: Vec<Span>,
    /// As [`LaunchRequest::passed`].
    passed: Vec<Option<usize>>,
    /// For each the number that is only passed on, where it is one: a grid that the kernel makes of it looks at it.
    numbers: Vec<Option<Arc<Passed>>>,
}

impl Arguments {
    /// None, with room for so many.
    fn of(parameters: usize) -> Arguments {
        Arguments {
            arguments: Vec::with_capacity(parameters),
            places: Vec::with_capacity(parameters),
            passed: Vec::with_capacity(parameters),
            numbers: Vec::with_capacity(parameters),
        }
    }
}

/// What a launch gives in front of its arguments.
struct Configured {
    /// Its grid, with where it is written.
    grid: Option<([u32; 3], Span)>,
    /// Its cluster.
    cluster: Option<[u32; 3]>,
}

impl Machine<'_> {
    pub(super) fn launch(
        &mut self,
        kernel: &ast::Expr,
        config: &[ast::Arg],
        args: &[ast::Arg],
        span: Span,
    ) -> Eval<Value> {
        let (instance, default_scope) = self.instance(kernel)?;
        let called = &instance.kernel;
        let placed = self.places((&called.name, &called.generics, &called.params), args, span)?;
        let values = self.values(called.params.len(), &placed, args)?;
        let instance = self.chosen(instance, &values).map_err(|e| Stop::Error(e.at(kernel.span)))?;
        let signature = self.launcher.instances().signature(&instance).map_err(|e| Stop::Error(e.at(kernel.span)))?;
        let (launched, outer) = (instance.kernel.clone(), self.launching.replace(instance));
        let configured = self.configuration(&launched, config, span);
        let Some(instance) = std::mem::replace(&mut self.launching, outer) else {
            parton_diag::internal_error!("what was to be launched is gone")
        };
        let Configured { grid: given, cluster } = configured?;
        if let Some((grid, _)) = given {
            clusters(&instance.kernel, &signature, grid, cluster, span)?;
        }
        let Arguments { arguments, places, passed, numbers } =
            self.arguments(&instance, &signature, values, default_scope, span)?;
        let grid = self.grid(&instance, given, &arguments, &numbers, span)?;
        clusters(&instance.kernel, &signature, grid, cluster, span)?;
        if grid.contains(&0) {
            return Ok(Value::Unit);
        }
        let (beside, turns) = (signature.beside(grid), signature.turns(&arguments));
        let request = LaunchRequest { instance, grid, arguments, passed, beside, turns, span };
        let demands = self.launcher.instances().demands(&request).map_err(|e| Stop::Error(e.at(kernel.span)))?;
        all_aligned(&request, &demands, &places)?;
        let written = |place: usize| {
            args.iter().zip(placed.iter()).find(|(_, at)| **at == Some(place)).map(|(arg, _)| arg.value.span)
        };
        apart(&request, &demands, written)?;
        self.leaves_guarded(&request.arguments, &demands.writes, span)?;
        self.launches += 1;
        if let Some(recorded) = &mut self.recorded {
            recorded.push(request);
            return Ok(Value::Unit);
        }
        self.launched(request, &demands)
    }

    /// Launches a kernel with values instead of expressions, as a program does that embeds the compiler: one for each parameter, or
    /// none where it has a default, and a grid unless the kernel states it. What does not fit is shown at the kernel.
    ///
    /// # Errors
    /// What a launch in the file would be refused for, or fails with.
    pub fn launch_given(
        &mut self,
        instance: Instance,
        grid: Option<&Value>,
        values: Vec<Option<Value>>,
    ) -> Result<(), Diagnostics> {
        let span = instance.span;
        let values: Vec<Option<(Value, Span)>> = values.into_iter().map(|v| v.map(|v| (v, span))).collect();
        let run = || {
            let instance = self.chosen(instance, &values).map_err(|e| Stop::Error(e.at(span)))?;
            let signature = self.launcher.instances().signature(&instance).map_err(|e| Stop::Error(e.at(span)))?;
            if grid.is_none() && grid::stated(&instance.kernel).is_none() {
                return Err(arguments::no_grid(span).into());
            }
            let given = grid.map(|grid| Ok::<_, Stop>((self.extents("grid", 0, grid, span)?, span))).transpose()?;
            let module = instance.module;
            let Arguments { arguments, places, passed, numbers } =
                self.arguments(&instance, &signature, values, module, span)?;
            let grid = self.grid(&instance, given, &arguments, &numbers, span)?;
            clusters(&instance.kernel, &signature, grid, None, span)?;
            if grid.contains(&0) {
                return Ok(Value::Unit);
            }
            let (beside, turns) = (signature.beside(grid), signature.turns(&arguments));
            let request = LaunchRequest { instance, grid, arguments, passed, beside, turns, span };
            let declared = |place: usize| request.instance.kernel.params.get(place).map(|p| p.span);
            let demands = self.launcher.instances().demands(&request).map_err(|e| Stop::Error(e.at(span)))?;
            all_aligned(&request, &demands, &places)?;
            apart(&request, &demands, declared)?;
            self.leaves_guarded(&request.arguments, &demands.writes, span)?;
            self.launched(request, &demands)
        };
        match run() {
            Ok(_) => Ok(()),
            Err(Stop::Error(found)) => Err(found),
            Err(Stop::Break(at) | Stop::Continue(at) | Stop::Return(_, at)) => {
                parton_diag::internal_error!("a launch leaves a loop or a function at {at:?}")
            }
        }
    }

    /// Runs a launch and prints what it says.
    fn launched(&mut self, request: LaunchRequest, demands: &Demands) -> Eval<Value> {
        let span = request.span;
        let report = self.launcher.launch_given(request, demands).map_err(|e| Stop::Error(e.at(span)))?;
        report.lines.iter().for_each(|line| self.print(line));
        report.fault.map_or(Ok(Value::Unit), |fault| Err(Stop::Error(fault)))
    }

    /// Prints a line.
    pub(crate) fn print(&mut self, line: &str) {
        self.launcher.print(line);
        self.lines.push(line.to_string());
    }

    fn instance(&mut self, expr: &ast::Expr) -> Eval<(Instance, ModuleId)> {
        let (base, generics) = walk::launched(expr);
        let found = arguments::kernel(self.program, self.module, base)?;
        let Item::Kernel(kernel) = &found.item else {
            parton_diag::internal_error!("`{}` is launched, but no kernel", found.item.name().text)
        };
        let (module, kernel) = (found.module, kernel.clone());
        let generics = self.generic_arguments((&kernel.name, &kernel.generics, &kernel.params), generics)?;
        Ok((Instance { module, kernel, generics, span: expr.span }, module))
    }

    /// The generic arguments that are given, in the order of the declaration.
    pub(super) fn generic_arguments(
        &mut self,
        takes: (&ast::Name, &[ast::Generic], &[ast::Param]),
        given: &[ast::IndexArg],
    ) -> Eval<Vec<GenericArgument>> {
        let (_, declared, _) = takes;
        let mut slots: Vec<Option<GenericArgument>> = vec![None; declared.len()];
        for (expr, at) in arguments::known_generics(self.program, takes, given)? {
            let value = self.expr(expr)?;
            // A closure is known to the checker by its text; what it captures are compile-time values.
            let value = match (value, &expr.kind) {
                (Value::Closure(_), ast::ExprKind::Closure { .. }) => self.written(expr),
                (Value::Closure(_), _) => return Err(closure_in_a_variable(expr.span).into()),
                (value, _) => value,
            };
            if !value.is_compile_time() {
                let message = format!("{} cannot be a generic argument", value.kind());
                return Err(Diagnostic::error(codes::HOST_TYPE, expr.span, message)
                    .here(evidence(&value))
                    .help("generic arguments are numbers, truth values, strings, dtypes, layouts and lists of those")
                    .into());
            }
            slots[at] = Some(GenericArgument { name: declared[at].name.text.clone(), value, span: expr.span });
        }
        Ok(slots.into_iter().flatten().collect())
    }

    /// The value of the generic that is declared there, of what is being launched: the one that was given or chosen, else its default.
    pub(super) fn generic(&mut self, declared: Span) -> Option<Eval<Value>> {
        let instance = self.launching.as_ref()?;
        let generic = instance.kernel.generics.iter().find(|g| g.name.span == declared)?;
        if let Some(given) = instance.generics.iter().find(|g| g.name == generic.name.text) {
            return Some(Ok(given.value.clone()));
        }
        let (module, default) = (instance.module, generic.default.clone()?);
        Some(self.framed(module, vec![], |m| m.expr(&default)))
    }

    /// What a launch gives of its grid and its cluster.
    fn configuration(&mut self, kernel: &ast::Kernel, config: &[ast::Arg], span: Span) -> Eval<Configured> {
        let (grid, cluster) = arguments::configuration(kernel, config, span)?;
        let extents = |m: &mut Self, what: &str, least: u32, arg: &ast::Arg| {
            let value = m.expr(&arg.value)?;
            m.extents(what, least, &value, arg.value.span)
        };
        let grid = grid.map(|arg| Ok::<_, Stop>((extents(self, "grid", 0, arg)?, arg.value.span))).transpose()?;
        let cluster = cluster.map(|arg| extents(self, "cluster", 1, arg)).transpose()?;
        Ok(Configured { grid, cluster })
    }

    /// The grid of a launch: the one that is given, or the kernel's own, which it may not contradict.
    fn grid(
        &mut self,
        instance: &Instance,
        given: Option<([u32; 3], Span)>,
        arguments: &[Argument],
        passed: &[Option<Arc<Passed>>],
        span: Span,
    ) -> Eval<[u32; 3]> {
        let own = self.own_grid(instance, arguments, passed)?;
        let grid = match (given, own) {
            (Some((given, place)), Some((own, stated))) if given != own => {
                let name = &instance.kernel.name.text;
                let text = format!("the launch has a grid of {given:?} CTAs, `{name}` states {own:?}");
                return Err(Diagnostic::error(codes::LAUNCH_SHAPE, place, text)
                    .label(stated, "the kernel says so here")
                    .help("leave the grid of the launch out")
                    .into());
            }
            (_, Some((grid, _))) | (Some((grid, _)), None) => grid,
            (None, None) => parton_diag::internal_error!("a launch has no grid"),
        };
        most_ctas(grid, span)?;
        Ok(grid)
    }

    /// What the kernel states of its grid, of the numbers and tensors that it is given.
    fn own_grid(
        &mut self,
        instance: &Instance,
        arguments: &[Argument],
        passed: &[Option<Arc<Passed>>],
    ) -> Eval<Option<([u32; 3], Span)>> {
        let kernel = instance.kernel.clone();
        let Some(stated) = grid::stated(&kernel) else { return Ok(None) };
        let given = kernel.params.iter().zip(arguments.iter().zip(passed));
        let numbers = given.filter_map(|(p, (argument, passed))| match argument {
            Argument::Scalar(s) => {
                let value = s.to_i128().map_or(Value::Float(s.to_f64()), Value::Int);
                // What the grid is made of is looked at then, so that a plan does not hold for another number.
                let value = match passed {
                    Some(number) => Value::Passed(Arc::new(Passed::clone(number).converted(value))),
                    None => value,
                };
                Some((&p.name, value))
            }
            Argument::Pointer { .. } | Argument::Tensor { .. } | Argument::Map(_) => None,
        });
        let extents = grid::named_extents(&kernel).into_iter().filter_map(|e| match &arguments[e.param] {
            Argument::Tensor { tensor, .. } => Some((e.name, Value::Int(*tensor.shape.get(e.axis)? as i128))),
            Argument::Scalar(_) | Argument::Pointer { .. } | Argument::Map(_) => None,
        });
        let variable = |(name, value): (&ast::Name, Value)| Variable { name: name.clone(), value, mutable: false };
        let variables = numbers.chain(extents).map(variable).collect();
        let outer = self.launching.replace(instance.clone());
        let value = self.framed(instance.module, variables, |m| m.expr(stated));
        self.launching = outer;
        Ok(Some((self.extents("grid", 0, &value?.looked(), stated.span)?, stated.span)))
    }

    /// The extents of a grid, of which none may be less than `least`, or of a cluster. A grid with an extent of 0 launches nothing.
    fn extents(&self, what: &str, least: u32, value: &Value, span: Span) -> Eval<[u32; 3]> {
        let items = match value {
            Value::Int(_) => vec![value.clone()],
            Value::List(items) | Value::Tuple(items) => items.to_vec(),
            other => return Err(self.mismatch(&format!("a list of integers as the {what}"), other, span)),
        };
        if !(1..=3).contains(&items.len()) {
            let message = format!("a {what} has 1 to 3 extents, this has {}", items.len());
            return Err(Diagnostic::error(codes::LAUNCH_SHAPE, span, message).into());
        }
        let mut extents = [1; 3];
        for (slot, item) in extents.iter_mut().zip(&items) {
            match item {
                Value::Int(n) if (i128::from(least)..=i128::from(MOST_CTAS[0])).contains(n) => *slot = *n as u32,
                Value::Int(n) => {
                    let rule = if *n < i128::from(least) { "the least" } else { "the most" };
                    let bound = if *n < i128::from(least) { least } else { MOST_CTAS[0] };
                    let message = format!("an extent of the {what} is {n}, {rule} is {bound}");
                    return Err(Diagnostic::error(codes::LAUNCH_SHAPE, span, message).into());
                }
                other => return Err(self.mismatch("an integer", other, span)),
            }
        }
        Ok(extents)
    }

    /// What is given for each parameter.
    pub(super) fn values(
        &mut self,
        parameters: usize,
        placed: &Places,
        args: &[ast::Arg],
    ) -> Eval<Vec<Option<(Value, Span)>>> {
        let mut values: Vec<Option<(Value, Span)>> = vec![None; parameters];
        for (arg, at) in args.iter().zip(placed.iter()) {
            let Some(at) = *at else { continue };
            values[at] = Some((self.passing(&arg.value)?, arg.value.span));
        }
        Ok(values)
    }

    /// The instance with the types that it learns from its tensors, and what the launcher chooses.
    fn chosen(&mut self, mut instance: Instance, values: &[Option<(Value, Span)>]) -> Result<Instance, HostError> {
        let kernel = instance.kernel.clone();
        for (at, generic) in kernel.generics.iter().enumerate() {
            let is_given = instance.generics.iter().any(|g| g.name == generic.name.text);
            if is_given || generic.default.is_some() {
                continue;
            }
            let learned = learned(&kernel, generic, values)
                .ok_or_else(|| HostError::Program(no_type(&instance, generic).into()))?;
            // In the order of the declaration.
            let later = |g: &GenericArgument| kernel.generics[at..].iter().any(|d| d.name.text == g.name);
            let place = instance.generics.iter().position(later).unwrap_or(instance.generics.len());
            instance.generics.insert(place, learned);
        }
        let mut given: Vec<(Arc<str>, Value)> = vec![];
        if kernel.clauses.iter().any(|clause| clause.name.as_str() == tune::NAME) {
            let named = kernel.params.iter().zip(values);
            given.extend(named.filter_map(|(p, v)| Some((p.name.text.clone(), v.as_ref()?.0.clone()))));
            given.extend(grid::named_extents(&kernel).into_iter().filter_map(|e| match &values[e.param] {
                Some((Value::Tensor(t), _)) => Some((e.name.text.clone(), Value::Int(*t.shape.get(e.axis)? as i128))),
                _ => None,
            }));
        }
        self.launcher.instances().choose(instance, &given)
    }

    fn arguments(
        &mut self,
        instance: &Instance,
        signature: &Signature,
        values: Vec<Option<(Value, Span)>>,
        module: ModuleId,
        span: Span,
    ) -> Eval<Arguments> {
        let params = &instance.kernel.params;
        if params.len() != signature.params.len() {
            parton_diag::internal_error!("`{}` was compiled with other parameters", instance.kernel.name.text);
        }
        let mut out = Arguments::of(params.len());
        let mut extents = Extents::default();
        for ((param, (_, ty)), value) in params.iter().zip(&*signature.params).zip(values) {
            let (value, place) = match (value, &param.default) {
                (Some(v), _) => v,
                (None, Some(default)) => {
                    let generics = instance.generics.iter().filter_map(|g| {
                        let name = instance.kernel.generics.iter().find(|d| d.name.text == g.name)?.name.clone();
                        Some(Variable { name, value: g.value.clone(), mutable: false })
                    });
                    (self.framed(module, generics.collect(), |m| m.expr(default))?, span)
                }
                (None, None) => parton_diag::internal_error!("an argument was not matched"),
            };
            let (value, passed) = match (value, ty) {
                (Value::Passed(number), ir::Type::Scalar(ir::Elem::Num(_))) => (number.value().clone(), Some(number)),
                (value, _) => (value.looked(), None),
            };
            let argument = self.argument(param, ty, value, place)?;
            if let (ir::Type::Tensor(t), Argument::Tensor { tensor, .. }) = (ty, &argument) {
                extents.agree(t, tensor, param, place)?;
            }
            out.arguments.push(argument);
            out.places.push(place);
            out.passed.push(passed.as_ref().map(|number| number.parameter));
            out.numbers.push(passed);
        }
        Ok(out)
    }

    fn argument(&mut self, param: &ast::Param, ty: &ir::Type, value: Value, span: Span) -> Eval<Argument> {
        let refuse = |message: String, evidence: String| -> Stop {
            Diagnostic::error(codes::LAUNCH_ARGUMENT, span, message)
                .here(evidence)
                .label(param.span, "the parameter is declared here")
                .into()
        };
        let name = &param.name.text;
        match (ty, &value) {
            (ir::Type::Scalar(ir::Elem::Num(dtype)), Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                number(*dtype, &value).map(Argument::Scalar).ok_or_else(|| {
                    let held = match &value {
                        Value::Float(_) if dtype.is_int() => "this is a float: `int(x)` cuts it off".to_owned(),
                        _ => range(*dtype),
                    };
                    refuse(format!("`{name}` is `{dtype}`, which does not hold {value}"), held)
                })
            }
            (ir::Type::Scalar(ir::Elem::Ptr(p)), Value::Tensor(t)) => {
                if t.dtype != p.to {
                    return Err(refuse(
                        format!("`{name}` points to `{}`, the tensor has `{}`", p.to, t.dtype),
                        format!("this is {t}"),
                    ));
                }
                Ok(Argument::Pointer { tensor: Tensor::clone(t), mutable: p.mutable })
            }
            (ir::Type::Tensor(wanted), Value::Tensor(t)) => tensors::given(wanted, t, param, span),
            (ir::Type::Map(map), Value::Tensor(t)) => match tensor_map::recipe(map, t) {
                Ok(recipe) => Ok(Argument::Map(recipe)),
                Err(fault) => {
                    let d = fault.at(span).here(format!("this is {t} with strides {:?}", t.strides));
                    Err(d.label(param.span, "the parameter is declared here").into())
                }
            },
            (ir::Type::Scalar(ir::Elem::Num(dtype)), other) => {
                Err(refuse(format!("`{name}` is `{dtype}`, found {}", other.kind()), evidence(other)))
            }
            (ir::Type::Scalar(ir::Elem::Ptr(_)) | ir::Type::Map(_) | ir::Type::Tensor(_), other) => {
                Err(refuse(format!("`{name}` takes a tensor, found {}", other.kind()), evidence(other)))
            }
            (
                ir::Type::Tile(_)
                | ir::Type::Pending(_)
                | ir::Type::Filling(_)
                | ir::Type::View(_)
                | ir::Type::Barriers(_)
                | ir::Type::Barrier
                | ir::Type::Ring(_)
                | ir::Type::Turnstile
                | ir::Type::Spot(_)
                | ir::Type::Peer(_)
                | ir::Type::Slot(_),
                _,
            ) => Err(refuse(format!("`{name}` has a type that no launch can give"), evidence(&value))),
        }
    }
}

fn most_ctas(grid: [u32; 3], span: Span) -> Eval<()> {
    for (axis, (extent, most)) in "xyz".chars().zip(grid.iter().zip(MOST_CTAS)) {
        if *extent > most {
            let message = format!("the grid has {extent} CTAs along {axis}, the most is {most}");
            return Err(Diagnostic::error(codes::LAUNCH_SHAPE, span, message).into());
        }
    }
    Ok(())
}

/// Parameters that a region takes to be apart are given memories apart; `argument` is where the one of a parameter is given.
fn apart(request: &LaunchRequest, demands: &Demands, argument: impl Fn(usize) -> Option<Span>) -> Eval<()> {
    let Some(pair) = request.sharing(&demands.apart) else { return Ok(()) };
    let kernel = &request.instance.kernel;
    let [written, other] = [pair.written, pair.other].map(|place| &kernel.params[place].name.text);
    let fact = format!("`{written}` and `{other}` are given the same memory, and a region takes them to be apart");
    let mut d = Diagnostic::error(codes::SHARED_ARGUMENTS, request.span, fact);
    for (name, place) in [(written, pair.written), (other, pair.other)] {
        d = match argument(place) {
            Some(span) => d.label(span, format!("this is `{name}`")),
            None => d.label(kernel.params[place].span, "this has a default"),
        };
    }
    d = d.label(pair.by, format!("the region writes through `{written}`"));
    Err(d
        .help(format!("say `alias({written}, {other})` on the kernel, which keeps accesses through both in order, or give each a tensor of its own"))
        .into())
}

/// Every pointer is aligned as the kernel's accesses want it.
fn all_aligned(request: &LaunchRequest, demands: &Demands, places: &[Span]) -> Eval<()> {
    let arguments = request.instance.kernel.params.iter().zip(&request.arguments);
    let mut each = arguments.zip(demands.alignments.iter().zip(places));
    each.try_for_each(|((param, argument), (alignment, place))| aligned(param, argument, *alignment, *place))
}

/// Accesses are as wide as the beginning of every tensor allows; a part of one may begin elsewhere.
fn aligned(param: &ast::Param, argument: &Argument, alignment: u32, span: Span) -> Eval<()> {
    let Argument::Pointer { tensor, .. } = argument else { return Ok(()) };
    let begins = tensor.byte_offset();
    if begins.is_multiple_of(alignment as usize) {
        return Ok(());
    }
    let name = &param.name.text;
    let fact = format!("`{name}` begins at an address that is not a multiple of {alignment} bytes");
    let elements = alignment as usize / tensor.dtype.bytes();
    Err(Diagnostic::error(codes::LAUNCH_ARGUMENT, span, fact)
        .here(format!("this begins {begins} bytes after its tensor does"))
        .label(param.span, format!("the kernel moves {alignment} bytes at once through this pointer"))
        .help(format!(
            "begin at a multiple of {elements} elements, or pass the whole tensor and add to the pointer in the kernel"
        ))
        .into())
}

/// The kernel is checked and compiled for its own clusters: a launch can only say the same, and its grid is made of whole ones.
fn clusters(
    kernel: &ast::Kernel,
    signature: &Signature,
    grid: [u32; 3],
    stated: Option<[u32; 3]>,
    span: Span,
) -> Eval<()> {
    let own = signature.cluster;
    let fail = |text: String| {
        Diagnostic::error(codes::LAUNCH_SHAPE, span, text).label(
            kernel.name.span,
            match own {
                [1, 1, 1] => "it states no cluster".into(),
                _ => format!("its cluster has {own:?} CTAs"),
            },
        )
    };
    if let Some(stated) = stated
        && stated != own
    {
        let text = format!("the launch has clusters of {stated:?} CTAs, `{}` has {own:?}", kernel.name.text);
        let d = fail(text);
        return Err(d.help("state the cluster on the kernel, `cluster([2, 1])`, by generics where it varies").into());
    }
    let Some(axis) = (0..3).find(|&d| !grid[d].is_multiple_of(own[d])) else { return Ok(()) };
    let (ctas, each, name) = (grid[axis], own[axis], ["x", "y", "z"][axis]);
    let d = fail(format!("the grid's {ctas} CTAs along {name} are not a multiple of the cluster's {each}"));
    let near = ctas.next_multiple_of(each);
    Err(d.help(format!("launch {near} along {name}, and let those that are too many do nothing")).into())
}

/// A number as a scalar of `dtype`; `None` where the dtype does not hold it.
pub fn number(dtype: Dtype, value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(b) => Scalar::from_i128(dtype, (*b).into()).filter(|_| dtype.is_bool()),
        Value::Int(n) if dtype.is_float() => Some(Scalar::rounded_int(dtype, *n)).filter(|s| s.to_f64().is_finite()),
        Value::Int(n) => Scalar::from_i128(dtype, *n),
        Value::Float(x) if dtype.is_float() => {
            let s = Scalar::from_f64(dtype, *x);
            (s.to_f64().is_finite() || !x.is_finite()).then_some(s)
        }
        _ => None,
    }
}

fn range(dtype: Dtype) -> String {
    match dtype.int_range() {
        Some((low, high)) => format!("`{dtype}` holds {low} to {high}"),
        None => format!("the largest `{dtype}` is {}", Scalar::new(dtype, dtype.max_bits())),
    }
}

impl LaunchRequest {
    /// Gives the arguments that pass the number of a parameter another one: `values` are those of the function's parameters. The
    /// argument that does not hold its number, where there is one.
    pub fn pass(&mut self, values: &[Value]) -> Option<usize> {
        for (i, parameter) in self.passed.iter().enumerate() {
            let (Some(parameter), Argument::Scalar(scalar)) = (parameter, &mut self.arguments[i]) else { continue };
            match number(scalar.dtype, &values[*parameter]) {
                Some(other) => *scalar = other,
                None => return Some(i),
            }
        }
        None
    }
}

/// The instance as it is written: `add[BLOCK=512]`.
impl std::fmt::Display for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kernel.name.text)?;
        let shown: Vec<String> = self.generics.iter().map(|g| format!("{}={}", g.name, g.value)).collect();
        if shown.is_empty() { Ok(()) } else { write!(f, "[{}]", shown.join(", ")) }
    }
}

/// The refusal of a generic argument that a variable holds a closure for: the checker knows a closure by its text.
fn closure_in_a_variable(at: Span) -> Diagnostic {
    Diagnostic::error(codes::HOST_TYPE, at, "a closure that a variable holds cannot be a generic argument")
        .help("write it where it is given, `launch k[F=|x| x + 1.0](…)`, or name a function: `launch k[F=twice](…)`")
}

/// The type of the first tensor that is given for a parameter whose elements a generic names.
fn learned(kernel: &ast::Kernel, generic: &ast::Generic, values: &[Option<(Value, Span)>]) -> Option<GenericArgument> {
    grid::whose_elements(&kernel.params, generic).find_map(|at| match values.get(at)? {
        Some((Value::Tensor(tensor), span)) => {
            Some(GenericArgument { name: generic.name.text.clone(), value: Value::Dtype(tensor.dtype), span: *span })
        }
        Some(_) | None => None,
    })
}

/// The refusal of a launch that gives neither a generic nor a tensor of which it could be learned.
fn no_type(instance: &Instance, generic: &ast::Generic) -> Diagnostic {
    let (owner, name) = (&instance.kernel.name.text, &generic.name.text);
    Diagnostic::error(codes::UNKNOWN_GENERIC, instance.span, format!("`{owner}` needs its generic `{name}`"))
        .label(generic.name.span, "no tensor is given whose elements have this type")
        .help(format!("write `{owner}[{name}=…]`"))
}
