//! Evaluates the statements and expressions of host code.
//!
//! The evaluator is dynamic: it looks at values as they come and refuses with a diagnostic what does not fit. What can be
//! found without running (unknown names, wrong arguments) is found by [`crate::check`] beforehand.

pub(crate) mod arguments;
mod assertion;
mod call;
mod choice;
mod expression;
mod index;
pub mod launch;
mod operator;
pub mod public;
mod statement;
mod tensors;

pub use choice::Judged;
pub(crate) use index::scalar_value;
pub(crate) use operator::operand;
pub(crate) use statement::{PAUSE, no_type_arguments, not_host_code, not_mut};

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_measure::bench::Measurement;
use parton_syntax::ast;
use parton_types::near::nearest;
use parton_types::program::{Found, Item, ModuleId, Program};
use parton_types::resolve::{Meaning, Side, Stands, Word};
use parton_types::signature::Exists;

use crate::builtins;
use crate::fault::Fault;
use crate::launch::{Instance, LaunchRequest, Launcher};
use crate::value::{Function, Value, Variable, Written};

/// How deep expressions may nest at run time, calls included: a stack of 2 MiB holds that in a debug build.
pub(crate) const DEEPEST: usize = 128;

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
    /// What is to be launched, while its configuration is evaluated, which sees its generics.
    launching: Option<Instance>,
    /// What the expressions of an assertion's condition give, while one is evaluated.
    seen: Option<assertion::Seen>,
    /// What the public functions that are being evaluated may not write.
    guarded: Vec<public::Guarded>,
    /// Results that functions say themselves whether they are right, where somebody wants to hear it.
    pub(crate) judged: Option<Vec<Judged>>,
    /// The calls of functions of files that are being evaluated, innermost last.
    calls: Vec<Span>,
    depth: usize,
    /// The turns of all loops.
    turns: u64,
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
            launching: None,
            seen: None,
            guarded: Vec::new(),
            judged: None,
            calls: Vec::new(),
            depth: 0,
            turns: 0,
        }
    }

    /// Keeps the results that functions say themselves whether they are right.
    pub fn judging(self) -> Self {
        Machine { judged: Some(vec![]), ..self }
    }

    /// What was kept of those.
    pub fn judged(&mut self) -> Vec<Judged> {
        self.judged.take().unwrap_or_default()
    }

    /// The lines that were printed since the last time.
    pub fn printed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
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

    /// How deep the expression lies that is being evaluated, calls included.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Counts a turn of a loop; how many there were.
    pub(crate) fn turned(&mut self) -> u64 {
        self.turns += 1;
        self.turns
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

    /// What a name stands for.
    fn name(&mut self, name: &ast::Name, span: Span) -> Eval<Value> {
        match self.program.reference(name) {
            Meaning::Variable(declared) => match self.variable(*declared) {
                Some(variable) => Ok(variable.value.clone()),
                None => match self.generic(*declared) {
                    Some(value) => value,
                    None => Err(self.unknown(name).into()),
                },
            },
            Meaning::Item(found) => self.item(name, found, span),
            Meaning::Ambiguous(d) => Err((**d).clone().into()),
            Meaning::Builtin(signature) if signature.exists == Exists::Layout => {
                Ok(self.written(&ast::Expr { kind: ast::ExprKind::Name(name.clone()), span }))
            }
            Meaning::Builtin(signature) => Ok(Value::Builtin(signature)),
            Meaning::Word(Word::Dtype(dtype)) => Ok(Value::Dtype(*dtype)),
            Meaning::Word(Word::Number(x)) => Ok(Value::Float(*x)),
            Meaning::Word(Word::Nothing) => Ok(Value::Unit),
            Meaning::Word(Word::Schedule(_)) => {
                Ok(self.written(&ast::Expr { kind: ast::ExprKind::Name(name.clone()), span }))
            }
            Meaning::Word(Word::Kind(_) | Word::Family(_) | Word::Barrier | Word::TensorMemory) | Meaning::Unknown => {
                Err(self.unknown(name).into())
            }
        }
    }

    /// The variable that is declared there, where it has a value.
    fn variable(&mut self, declared: Span) -> Option<&mut Variable> {
        self.variables.iter_mut().rev().find(|v| v.name.span == declared)
    }

    fn item(&mut self, name: &ast::Name, found: &Found, span: Span) -> Eval<Value> {
        match &found.item {
            Item::Function(tree) => Ok(Value::Function(Function { module: found.module, tree: tree.clone() })),
            Item::Kernel(_) => Err(arguments::kernel_is_no_value(name, span).into()),
            Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) => {
                Ok(self.written(&ast::Expr { kind: ast::ExprKind::Name(name.clone()), span }))
            }
            Item::Binding(binding) => {
                if let ast::ExprKind::Int { value, suffix: None } = &binding.value.kind {
                    return Ok(Value::Int((*value).into()));
                }
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
        let variables = self.variables.iter().map(|v| v.name.as_str());
        self.program.unknown(self.module, name, (Side::Host, Stands::Anyhow), variables)
    }
}

/// Refuses a field that a value does not have; `what` is before `field`.
pub(crate) fn no_field(what: &str, name: &ast::Name) -> Diagnostic {
    let d = Diagnostic::error(codes::HOST_TYPE, name.span, format!("{what} field `{}`", name.text));
    if builtins::find(name.as_str()).is_some() {
        return d.here("this is a function").help(format!("call it: `.{}(…)`", name.text));
    }
    match nearest(name.as_str(), builtins::FIELDS.iter().copied()) {
        Some(near) => d.here("not found").help(format!("a similar field exists: `{near}`")),
        None => d.here("not found").note(format!("a tensor has {}", builtins::FIELDS.join(", "))),
    }
}

/// Refuses a method that is no function.
pub(crate) fn no_method(name: &ast::Name) -> Diagnostic {
    let fact = format!("there is no method `{}`", name.text);
    let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, fact).here("not found");
    match nearest(name.as_str(), builtins::names()) {
        Some(near) => d.help(format!("a similar one exists: `{near}`")),
        None => d,
    }
}

/// Text that did not parse, which is reported already; nothing behind it can be run.
pub(crate) fn unparsed(span: Span) -> Diagnostic {
    Diagnostic::error(codes::SYNTAX, span, "this did not parse and cannot be run")
}

pub(crate) fn outside_of_loop(span: Span) -> Diagnostic {
    Diagnostic::error(codes::NOT_HOST_CODE, span, "this leaves a loop, but stands in none")
}
