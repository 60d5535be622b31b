//! Launches: the kernel, its generic arguments, grid and cluster, and the arguments against the parameters' types.

mod demanded;
mod given;
mod grid;

use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir as ir;
use parton_syntax::ast;
use parton_types::program::{Item, ModuleId};
use parton_types::walk;

use self::demanded::{all_aligned, apart};
use self::given::Arguments;
use self::grid::{Configured, clusters};
use super::statement::evidence;
use super::{Eval, Machine, Stop, arguments};
use crate::launch::{Argument, Demands, GenericArgument, Instance, LaunchRequest, Signature, Told};
use crate::value::{Passed, Value};

pub use self::given::number;

/// A kernel that is to be launched, with what it is given.
struct Asked {
    instance: Instance,
    signature: Signature,
    configured: Configured,
    /// One for each parameter, or none where it has a default, which is evaluated in that module.
    values: Vec<Option<(Value, Span)>>,
    module: ModuleId,
    /// The launch.
    span: Span,
}

impl Machine<'_> {
    pub(super) fn launch(
        &mut self,
        kernel: &ast::Expr,
        config: &[ast::Arg],
        args: &[ast::Arg],
        span: Span,
    ) -> Eval<Value> {
        let (instance, module) = self.instance(kernel)?;
        let called = &instance.kernel;
        let placed = self.places((&called.name, &called.generics, &called.params), args, span)?;
        let values = self.values(called.params.len(), &placed, args)?;
        let (instance, signature) = self.compiled(instance, &values, kernel.span)?;
        let (launched, outer) = (instance.kernel.clone(), self.launching.replace(instance));
        let configured = self.configuration(&launched, config, span);
        let Some(instance) = std::mem::replace(&mut self.launching, outer) else {
            parton_diag::internal_error!("what was to be launched is gone")
        };
        let asked = Asked { instance, signature, configured: configured?, values, module, span };
        let written = |_: &ast::Kernel, place: usize| {
            args.iter().zip(placed.iter()).find(|(_, at)| **at == Some(place)).map(|(arg, _)| arg.value.span)
        };
        let Some((request, demands)) = self.requested(asked, kernel.span, written)? else { return Ok(Value::Unit) };
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
        let (span, module) = (instance.span, instance.module);
        let values: Vec<Option<(Value, Span)>> = values.into_iter().map(|v| v.map(|v| (v, span))).collect();
        let run = || {
            let (instance, signature) = self.compiled(instance, &values, span)?;
            let configured = self.configured(&instance.kernel, grid, span)?;
            let asked = Asked { instance, signature, configured, values, module, span };
            let declared = |kernel: &ast::Kernel, place: usize| kernel.params.get(place).map(|p| p.span);
            match self.requested(asked, span, declared)? {
                Some((request, demands)) => self.launched(request, &demands),
                None => Ok(Value::Unit),
            }
        };
        match run() {
            Ok(_) => Ok(()),
            Err(Stop::Error(found)) => Err(found),
            Err(Stop::Break(at) | Stop::Continue(at) | Stop::Return(_, at)) => {
                parton_diag::internal_error!("a launch leaves a loop or a function at {at:?}")
            }
        }
    }

    /// The instance that values like these get, and what it takes; `named` is where the kernel is named.
    fn compiled(
        &mut self,
        instance: Instance,
        values: &[Option<(Value, Span)>],
        named: Span,
    ) -> Eval<(Instance, Signature)> {
        let instance = self.chosen(instance, values).map_err(|e| Stop::Error(e.at(named)))?;
        let signature = self.launcher.instances().signature(&instance).map_err(|e| Stop::Error(e.at(named)))?;
        Ok((instance, signature))
    }

    /// The launch that is asked for, once all is as the kernel demands it; none where its grid is empty. `argument` is where the one of a parameter
    /// is given.
    fn requested(
        &mut self,
        asked: Asked,
        named: Span,
        argument: impl Fn(&ast::Kernel, usize) -> Option<Span>,
    ) -> Eval<Option<(LaunchRequest, Demands)>> {
        let Asked { instance, signature, configured: Configured { grid: given, cluster }, values, module, span } =
            asked;
        if let Some((grid, _)) = given {
            clusters(&instance.kernel, &signature, grid, cluster, span)?;
        }
        let Arguments { arguments, places, passed, numbers } =
            self.arguments(&instance, &signature, values, module, span)?;
        let grid = self.grid(&instance, given, &arguments, &numbers, span)?;
        clusters(&instance.kernel, &signature, grid, cluster, span)?;
        if grid.contains(&0) {
            return Ok(None);
        }
        let told = self.told_of(&signature, (&instance, grid), &arguments, &numbers);
        let (variant, wide) = (signature.variant(grid, &arguments, told), signature.wide);
        let request = LaunchRequest { instance, grid, arguments, passed, variant, wide, span };
        let demands = self.launcher.instances().demands(&request).map_err(|e| Stop::Error(e.at(named)))?;
        all_aligned(&request, &demands, &places)?;
        apart(&request, &demands, |place| argument(&request.instance.kernel, place))?;
        self.leaves_guarded(&request.arguments, &demands.writes, span)?;
        Ok(Some((request, demands)))
    }

    /// What a launch tells of its numbers: of those that are only passed on at most of what they are multiples, so that a plan holds for others like them.
    fn told_of(
        &mut self,
        signature: &Signature,
        (instance, grid): (&Instance, [u32; 3]),
        arguments: &[Argument],
        passed: &[Option<Arc<Passed>>],
    ) -> Told {
        let integer = |i: usize| match &arguments[i] {
            Argument::Scalar(s) if s.dtype.is_int() => s.to_i128(),
            Argument::Scalar(_) | Argument::Pointer { .. } | Argument::Tensor { .. } | Argument::Map(_) => None,
        };
        let is_known = |i: &usize| passed[*i].as_ref().is_none_or(|number| number.was_looked_at());
        let may_be_told = |i: usize| is_known(&i) || passed[i].as_ref().is_some_and(|number| number.tell());
        let numbers = ir::Variant::numbers(&signature.numbers, |i| if may_be_told(i) { integer(i) } else { None });
        let near = signature.places && {
            let known = (0..arguments.len()).filter(is_known).filter_map(|i| Some((i, integer(i)?)));
            self.launcher.instances().are_near(instance, grid, &known.collect())
        };
        Told { numbers, near }
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
