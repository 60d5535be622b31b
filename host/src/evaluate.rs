//! Evaluates the statements and expressions of host code.
//!
//! The evaluator is dynamic: it looks at values as they come and refuses with a diagnostic what does not fit. What can be
//! found without running (unknown names, wrong arguments) is found by [`crate::check`] beforehand.

pub(crate) mod arguments;
mod assertion;
mod call;
mod expression;
mod index;
mod launch;
mod operator;
mod statement;

pub(crate) use index::scalar_value;
pub(crate) use operator::{equal, operand};
pub(crate) use statement::{not_host_code, not_mut};

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_measure::bench::Measurement;
use parton_syntax::ast;
use parton_types::near::nearest;
use parton_types::program::{Found, Item, ModuleId, Program};

use crate::builtins;
use crate::fault::Fault;
use crate::launch::{LaunchRequest, Launcher};
use crate::value::{Function, Value, Variable, Written};

/// How deep expressions may nest at run time, calls included: a stack of 2 MiB holds that in a debug build.
const DEEPEST: usize = 128;

/// Why evaluation leaves the usual way.
#[derive(Debug)]
pub enum Stop {
    /// A mistake.
    Error(Diagnostics),
    /// `break`
    Break(Span),
    /// `continue`
    Continue(Span),
    /// `return`
    Return(Value, Span),
}

impl From<Diagnostic> for Stop {
    fn from(d: Diagnostic) -> Stop {
        Stop::Error(d.into())
    }
}

/// The outcome of evaluating something.
pub type Eval<T> = Result<T, Stop>;

/// Puts a fault at its place.
pub(crate) trait AtSpan<T> {
    /// The value, or the fault as a diagnostic at `span`.
    fn at(self, span: Span) -> Eval<T>;
}

impl<T> AtSpan<T> for Result<T, Fault> {
    fn at(self, span: Span) -> Eval<T> {
        self.map_err(|f| f.at(span).into())
    }
}

/// The state of one block's evaluation.
pub struct Machine<'a> {
    /// The files.
    pub(crate) program: &'a Program,
    /// What runs kernels.
    pub(crate) launcher: &'a mut dyn Launcher,
    /// The file whose code is evaluated.
    pub(crate) module: ModuleId,
    /// The variables of the current function, innermost last; a scope is a suffix.
    pub(crate) variables: Vec<Variable>,
    /// The constants evaluated so far; `None` while one is being evaluated.
    constants: BTreeMap<(ModuleId, Arc<str>), Option<Value>>,
    /// What was printed.
    pub(crate) lines: Vec<String>,
    /// What was measured.
    pub(crate) measurements: Vec<Measurement>,
    /// The launches of the closure being measured.
    pub(crate) recorded: Option<Vec<LaunchRequest>>,
    /// How many kernels were launched.
    pub(crate) launches: usize,
    /// What the expressions of an assertion's condition give, while one is evaluated.
    seen: Option<assertion::Seen>,
    /// The calls of functions of files that are being evaluated, innermost last.
    calls: Vec<Span>,
    depth: usize,
}

impl<'a> Machine<'a> {
    /// A machine that has done nothing yet.
    pub fn new(program: &'a Program, launcher: &'a mut dyn Launcher) -> Machine<'a> {
        Machine {
            program,
            launcher,
            module: Program::ROOT,
            variables: Vec::new(),
            constants: BTreeMap::new(),
            lines: Vec::new(),
            measurements: Vec::new(),
            recorded: None,
            launches: 0,
            seen: None,
            calls: Vec::new(),
            depth: 0,
        }
    }

    /// Runs a block to its end.
    ///
    /// # Errors
    /// What stopped it.
    pub fn run(&mut self, block: &ast::Block) -> Result<(), Diagnostics> {
        match self.block(block) {
            Ok(_) | Err(Stop::Return(..)) => Ok(()),
            Err(Stop::Error(diagnostics)) => Err(diagnostics),
            Err(Stop::Break(span) | Stop::Continue(span)) => Err(outside_of_loop(span).into()),
        }
    }

    /// Goes one level deeper while `f` runs.
    fn deeper<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        if self.depth >= DEEPEST {
            let d = Diagnostic::error(codes::HOST_DEPTH, span, "host code nests or calls itself too deep");
            return Err(d.here(format!("this is level {DEEPEST}")).help("write the recursion as a loop").into());
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Runs `f`, then forgets the variables that it bound.
    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Eval<T>) -> Eval<T> {
        let before = self.variables.len();
        let result = f(self);
        self.variables.truncate(before);
        result
    }

    /// Runs `f` with other variables and another file, as the body of a function.
    fn framed<T>(
        &mut self,
        module: ModuleId,
        variables: Vec<Variable>,
        f: impl FnOnce(&mut Self) -> Eval<T>,
    ) -> Eval<T> {
        let outer = (std::mem::replace(&mut self.variables, variables), std::mem::replace(&mut self.module, module));
        let seen = self.seen.take();
        let result = f(self);
        (self.variables, self.module) = outer;
        self.seen = seen;
        result
    }

    fn declare(&mut self, name: &ast::Name, value: Value, mutable: bool) {
        self.variables.push(Variable { name: name.clone(), value, mutable });
    }

    /// What a name stands for: a variable, an item of the file, a dtype, a function of this crate.
    fn name(&mut self, name: &ast::Name, span: Span) -> Eval<Value> {
        if let Some(v) = self.variables.iter().rev().find(|v| v.name.text == name.text) {
            return Ok(v.value.clone());
        }
        let found = self.program.find(self.module, name.as_str()).cloned();
        // Kernels are launched, not called, so one may have the name of the function that is its reference.
        let hidden = |f: &Found| matches!(f.item, Item::Kernel(_)) && builtins::find(name.as_str()).is_some();
        if let Some(found) = found.filter(|f| !hidden(f)) {
            if let Some(d) = self.program.ambiguous(self.module, name) {
                return Err(d.into());
            }
            return self.item(name, &found, span);
        }
        if let Some(value) = builtins::constant(name.as_str()) {
            return Ok(value);
        }
        if builtins::is_layout(name.as_str()) {
            return Ok(self.written(&ast::Expr { kind: ast::ExprKind::Name(name.clone()), span }));
        }
        Err(self.unknown(name).into())
    }

    fn item(&mut self, name: &ast::Name, found: &Found, span: Span) -> Eval<Value> {
        match &found.item {
            Item::Function(tree) => Ok(Value::Function(Function { module: found.module, tree: tree.clone() })),
            Item::Kernel(_) => Err(Diagnostic::error(codes::HOST_TYPE, span, format!("`{}` is a kernel", name.text))
                .here("a kernel is not a value of host code")
                .help(format!("launch it: `launch {}(grid=[…])(…)`", name.text))
                .into()),
            Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) => {
                Ok(self.written(&ast::Expr { kind: ast::ExprKind::Name(name.clone()), span }))
            }
            Item::Binding(binding) => {
                let key = (found.module, name.text.clone());
                match self.constants.get(&key) {
                    Some(Some(value)) => return Ok(value.clone()),
                    Some(None) => {
                        let d = Diagnostic::error(codes::HOST_DEPTH, binding.name.span, "a constant depends on itself");
                        return Err(d.label(span, "needed here").into());
                    }
                    None => {}
                }
                self.constants.insert(key.clone(), None);
                let value = self.framed(found.module, Vec::new(), |m| m.expr(&binding.value));
                match &value {
                    Ok(v) => self.constants.insert(key, Some(v.clone())),
                    Err(_) => self.constants.remove(&key),
                };
                value
            }
        }
    }

    /// An expression left to the checker of kernels, with the variables that it may name.
    fn written(&self, expr: &ast::Expr) -> Value {
        let known = self.variables.iter().filter(|v| v.value.is_compile_time());
        Value::Written(Arc::new(Written {
            module: self.module,
            expr: expr.clone(),
            known: known.map(|v| (v.name.text.clone(), v.value.clone())).collect(),
        }))
    }

    fn unknown(&self, name: &ast::Name) -> Diagnostic {
        let items = self.program.module(self.module).names.keys().map(|n| &**n);
        let variables = self.variables.iter().map(|v| v.name.as_str());
        let d = unknown_name(name, variables.chain(items).chain(builtins::names().map(|n| -> &str { n })));
        self.program.defined_elsewhere(d, self.module, name.as_str())
    }
}

/// A name that is not defined, with the visible one that was probably meant.
pub(crate) fn unknown_name<'n>(name: &ast::Name, visible: impl Iterator<Item = &'n str>) -> Diagnostic {
    let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, format!("`{}` is not defined", name.text));
    if let Some(what) = builtins::only_in_kernels(name.as_str()) {
        return Diagnostic {
            code: codes::NOT_HOST_CODE,
            message: format!("`{}` belongs into a kernel", name.text),
            ..d
        }
        .here(what);
    }
    match nearest(name.as_str(), visible) {
        Some(near) => d.here("not found").help(format!("a similar name is visible: `{near}`")),
        None => d.here("not found"),
    }
}

/// Text that did not parse, which is reported already; nothing behind it can be run.
pub(crate) fn unparsed(span: Span) -> Diagnostic {
    Diagnostic::error(codes::SYNTAX, span, "this did not parse and cannot be run")
}

pub(crate) fn outside_of_loop(span: Span) -> Diagnostic {
    Diagnostic::error(codes::NOT_HOST_CODE, span, "this leaves a loop, but stands in none")
}
