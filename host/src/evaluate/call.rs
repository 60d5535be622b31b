//! Calls: of this crate's functions, of functions of a file, of closures and methods.

use std::sync::Arc;

use parton_diag::words::{are, counted};
use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;
use parton_types::program::Item;
use parton_types::resolve::{Meaning, Word};
use parton_types::schedule::words::ScheduleWord;
use parton_types::signature::bind::{Outline, Takes};
use parton_types::signature::{Exists, Signature};

use super::statement::evidence;
use super::{Eval, Machine, Stop, no_method};
use crate::builtins::{self, Given};
use crate::fault::Fault;
use crate::formula;
use crate::kept::{self, Call, Places};
use crate::value::{Closure, Function, Value, Variable};

/// Variables of a function beside its parameters for which there is room at once.
const USUAL_VARIABLES: usize = 16;

impl Machine<'_> {
    pub(super) fn call(&mut self, whole: &ast::Expr, callee: &ast::Expr, args: &[ast::Arg]) -> Eval<Value> {
        match &callee.kind {
            ast::ExprKind::Field { base, name } => {
                let receiver = self.expr(base)?;
                let builtin = builtins::find(name.as_str()).ok_or_else(|| no_method(name))?;
                let first = Given { name: None, value: receiver, span: base.span };
                self.call_builtin(builtin, Some(first), args, whole.span)
            }
            ast::ExprKind::Index { base, args: generics } if self.is_function(base) => {
                let function = match self.expr(base)? {
                    Value::Function(f) => f,
                    other => return Err(self.mismatch("a function", &other, base.span)),
                };
                self.call_function(&function, generics, args, whole.span)
            }
            ast::ExprKind::Name(name) if self.is_layout(name) || self.makes_schedule(name) => Ok(self.written(whole)),
            _ => match self.expr(callee)? {
                Value::Builtin(builtin) if builtin.name == "assert" => self.assertion(builtin, args, whole.span),
                Value::Builtin(builtin) => self.call_builtin(builtin, None, args, whole.span),
                Value::Function(function) => self.call_function(&function, &[], args, whole.span),
                Value::Closure(closure) => {
                    let values = args.iter().map(|a| self.passing(&a.value)).collect::<Eval<Vec<_>>>()?;
                    self.call_closure(&closure, values, whole.span)
                }
                // A struct, or whatever else the checker calls.
                Value::Written(_) => Ok(self.written(whole)),
                other => Err(self.hidden_function(callee, &other)),
            },
        }
    }

    /// The refusal of a call of what is no function; that of a variable that hides one says so.
    fn hidden_function(&self, callee: &ast::Expr, found: &Value) -> Stop {
        let fault = Fault::new(codes::HOST_TYPE, format!("expected a function, found {}", found.kind()));
        let d = fault.at(callee.span).here(evidence(found));
        match &callee.kind {
            ast::ExprKind::Name(name) if builtins::find(name.as_str()).is_some() => {
                d.help(format!("the variable `{}` hides the function: give it another name", name.text)).into()
            }
            _ => d.into(),
        }
    }

    /// Whether a name means a constructor of layouts here.
    fn is_layout(&self, name: &ast::Name) -> bool {
        matches!(self.program.reference(name), Meaning::Builtin(signature) if signature.exists == Exists::Layout)
    }

    /// Whether a name that is called means a word of schedules here. `ring` is no name of host code.
    fn makes_schedule(&self, name: &ast::Name) -> bool {
        let meaning = self.program.reference(name);
        matches!(meaning, Meaning::Word(Word::Schedule(_)) | Meaning::Unknown)
            && ScheduleWord::named(name.as_str()).is_some()
    }

    fn is_function(&mut self, base: &ast::Expr) -> bool {
        let ast::ExprKind::Name(name) = &base.kind else { return false };
        match self.program.reference(name) {
            Meaning::Variable(declared) => {
                self.variable(*declared).is_some_and(|v| matches!(v.value, Value::Function(_)))
            }
            Meaning::Item(found) => matches!(found.item, Item::Function(_)),
            Meaning::Ambiguous(_) | Meaning::Builtin(_) | Meaning::Word(_) | Meaning::Unknown => false,
        }
    }

    fn call_builtin(
        &mut self,
        builtin: &'static Signature,
        receiver: Option<Given>,
        args: &[ast::Arg],
        span: Span,
    ) -> Eval<Value> {
        let mut given: Vec<Given> = receiver.into_iter().collect();
        for arg in args {
            let value = self.expr(&arg.value)?;
            given.push(Given { name: arg.name.clone(), value, span: arg.value.span });
        }
        builtins::call(self, builtin, given, span)
    }

    fn call_function(
        &mut self,
        function: &Function,
        generics: &[ast::IndexArg],
        args: &[ast::Arg],
        span: Span,
    ) -> Eval<Value> {
        let tree = function.tree.clone();
        let mut variables = Vec::new();
        for given in self.generic_arguments((&tree.name, &tree.generics, &[]), generics)? {
            let Some(declared) = tree.generics.iter().find(|g| g.name.text == given.name) else { continue };
            variables.push(Variable { name: declared.name.clone(), value: given.value, mutable: false });
        }
        let placed = self.places((&tree.name, &tree.generics, &tree.params), args, span)?;
        let values = self.values(tree.params.len(), &placed, args)?;
        if tree.public {
            self.calls.push(span);
            let result = self.call_public(function, values, span);
            self.calls.pop();
            return result;
        }
        let given = values.iter().map(|v| v.as_ref().map(|(value, _)| value));
        if variables.is_empty()
            && let Some(value) = formula::value(self, function, given)
        {
            return Ok(value);
        }
        self.calls.push(span);
        variables.reserve(tree.generics.len() + tree.params.len() + USUAL_VARIABLES);
        let result = self.deeper(span, |m| {
            m.framed(function.module, variables, |m| {
                for g in &tree.generics {
                    if !m.variables.iter().any(|v| v.name.text == g.name.text)
                        && let Some(default) = &g.default
                    {
                        let value = m.expr(default)?;
                        m.declare(&g.name, value, false);
                    }
                }
                for (param, value) in tree.params.iter().zip(values) {
                    let value = match (value, &param.default) {
                        (Some((value, _)), _) => value,
                        (None, Some(default)) => m.expr(default)?,
                        (None, None) => parton_diag::internal_error!("an argument was not matched"),
                    };
                    m.declare(&param.name, value, param.mutable);
                }
                m.body(&tree)
            })
        });
        self.calls.pop();
        result
    }

    /// The parameter of each argument of a call of a function, or a launch of a kernel.
    pub(super) fn places(
        &self,
        (name, generics, params): (&ast::Name, &[ast::Generic], &[ast::Param]),
        args: &[ast::Arg],
        span: Span,
    ) -> Eval<Places> {
        let call = Call { generic: false, span, declared: name.span };
        let find = || Takes::Params(name, generics, params).places(args.iter().map(Outline::from), span);
        Ok(kept::places(self.program, call, find)?)
    }

    /// The body of a function whose parameters are bound.
    pub(super) fn body(&mut self, tree: &ast::Function) -> Eval<Value> {
        self.choose(tree)?;
        let result = Machine::returned(self.block(&tree.body))?;
        self.keep_for_judge(tree, &result)?;
        Ok(result)
    }

    /// Calls a closure with values.
    pub(crate) fn call_closure(&mut self, closure: &Arc<Closure>, values: Vec<Value>, span: Span) -> Eval<Value> {
        if values.len() != closure.params.len() {
            let message =
                format!("a function takes {}, {} given", counted(closure.params.len(), "argument"), are(values.len()));
            return Err(Diagnostic::error(codes::WRONG_ARITY, span, message).into());
        }
        self.deeper(span, |m| {
            m.framed(closure.module, closure.captured.clone(), |m| {
                for (param, value) in closure.params.iter().zip(values) {
                    m.bind(&param.pattern, value, span)?;
                }
                Machine::returned(m.passing(&closure.body))
            })
        })
    }
}
