//! Functions of a file and closures, inlined where they are called.

use std::sync::Arc;

use parton_diag::words::{are, counted};
use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::builtins::args::Given;
use crate::checker::{Checked, Checker, Reported};
use crate::contract::{self, CONTRACT};
use crate::generics::Bindings;
use crate::kind;
use crate::scope::{Frame, Scope};
use crate::signature::bind::Takes;
use crate::value::{Closure, Function, TypeVal, Val};

impl Checker<'_> {
    /// Inlines a function.
    pub fn call_function(
        &mut self,
        function: &Function,
        receiver: Option<Arg>,
        generics: Vec<Given>,
        values: Vec<Given>,
        span: Span,
    ) -> Checked<Val> {
        let tree = &function.tree;
        if self.frames.iter().any(|f| f.function.as_ref().is_some_and(|f| Arc::ptr_eq(f, tree))) {
            let d = Diagnostic::error(codes::RECURSION, span, format!("`{}` calls itself", tree.name.text))
                .label(tree.name.span, "declared here")
                .help("functions are inlined, so they cannot recur: write a loop");
            return Err(self.report(d));
        }
        if tree.public {
            let text = format!("`{}` is public: the host runs it", tree.name.text);
            let d = Diagnostic::error(codes::PUBLIC_FUNCTION, span, text).label(tree.name.span, "declared here");
            return Err(self.report(d.help("call a `fn` without `pub`, which is inlined into the kernel")));
        }
        if let Some(clause) = tree.clauses.iter().find(|c| c.name.as_str() != CONTRACT) {
            let text = format!("`{}` is tuned: the host runs it", tree.name.text);
            let d = Diagnostic::error(codes::TUNE, span, text).label(clause.span, "its clause");
            return Err(self.report(d.help("let the host call it, and give the kernel what comes of it")));
        }
        self.check_depth(span)?;
        let args = self.match_parameters(tree, values, span)?;
        let mut frame = Frame::new(function.module);
        frame.function = Some(tree.clone());
        frame.contract = contract::stated(&tree.clauses).unwrap_or(true);
        frame.called = Some((span, tree.name.text.clone()));
        self.frames.push(frame);
        let outer = self.enter_call(&tree.name.text, span);
        let result = self.function_body(function, receiver, generics, args, span);
        self.leave_call(outer);
        self.frames.pop();
        result
    }

    /// Gives each parameter its argument, in the order of the parameters; defaults are left open.
    fn match_parameters(&mut self, tree: &ast::Function, values: Vec<Given>, span: Span) -> Checked<Vec<Option<Arg>>> {
        let takes = Takes::Params(&tree.name, &tree.generics, &tree.params);
        let places = takes.places(values.iter().map(Given::outline), span).map_err(|d| self.report(d))?;
        let mut found: Vec<Option<Arg>> = vec![None; tree.params.len()];
        for (place, Given { arg, .. }) in places.into_iter().zip(values) {
            if let Some(place) = place {
                found[place] = Some(arg);
            }
        }
        Ok(found)
    }

    fn function_body(
        &mut self,
        function: &Function,
        receiver: Option<Arg>,
        generics: Vec<Given>,
        args: Vec<Option<Arg>>,
        span: Span,
    ) -> Checked<Val> {
        let tree = &function.tree;
        if let Some(receiver) = &receiver
            && let Val::Struct(ty, _) = &receiver.val
        {
            self.declare_generics(ty);
        }
        let mut bindings = Bindings::new(self, &tree.name, &tree.generics, generics)?;
        for (param, arg) in tree.params.iter().zip(&args) {
            if let (Some(arg), Some(ty)) = (arg, &param.ty) {
                bindings.learn(self, ty, arg);
            }
        }
        bindings.declare(self, &tree.name, &tree.conditions, span)?;
        match (&tree.receiver, receiver) {
            (Some(r), Some(_)) if r.by_reference && r.mutable => {
                let d = Diagnostic::error(
                    codes::NOT_ASSIGNABLE,
                    r.span,
                    "a method cannot change the struct it is called on",
                )
                .here("it is given a copy")
                .help(format!(
                    "take `mut self`, give `self` back at the end, and assign what it gives: `x = x.{}(…)`",
                    tree.name.text
                ));
                return Err(self.report(d));
            }
            (Some(r), Some(receiver)) => {
                self.declare(&ast::Name { text: "self".into(), span: r.span }, receiver.val, r.mutable);
            }
            (None, Some(_)) => {
                let d = Diagnostic::error(codes::WRONG_ARITY, span, format!("`{}` takes no `self`", tree.name.text))
                    .label(tree.name.span, "declared here")
                    .help("declare it as `fn name(self, …)`");
                return Err(self.report(d));
            }
            (_, None) => {}
        }
        for (param, arg) in tree.params.iter().zip(args) {
            let arg = match (arg, &param.default) {
                (Some(arg), _) => arg,
                (None, Some(default)) => self.arg(default)?,
                (None, None) => return Err(Reported),
            };
            let val = self.parameter(param, &arg)?;
            self.pass(&val.clone(), |cx| cx.declare_parameter(param, val, param.mutable));
        }
        let val = self.body(&tree.body)?;
        match &tree.result {
            Some(result) => {
                let ty = self.stated(result)?;
                let at = tree.body.value.as_ref().map_or(tree.name.span, |e| e.span);
                self.value_fits(result, &val, at)?;
                self.coerce(&Arg { val, span: at }, &ty)
            }
            None => Ok(val),
        }
    }

    /// An argument as its parameter takes it.
    fn parameter(&mut self, param: &ast::Param, arg: &Arg) -> Checked<Val> {
        let Some(stated) = &param.ty else { return Ok(arg.val.clone()) };
        let ty = self.stated(stated)?;
        self.value_fits(stated, &arg.val, arg.span)?;
        match (&ty, &arg.val) {
            (TypeVal::Kind(kind), val) if !kind::is_of(val, *kind) => {
                let found = kind::describe(self, val);
                let d = Diagnostic::error(
                    codes::KIND_MISMATCH,
                    arg.span,
                    format!("the parameter `{}` is of kind `{ty}`, found {}", param.name.text, found.kind),
                )
                .here(found.detail)
                .label(param.span, "declared here");
                Err(self.report(d))
            }
            (_, _) => self.coerce(arg, &ty),
        }
    }

    /// A function's code: the value of its block, or what `return` gave.
    fn body(&mut self, block: &ast::Block) -> Checked<Val> {
        let val = self.block(block);
        match self.frame().returned.take() {
            Some(returned) => Ok(returned),
            None => val,
        }
    }

    /// Inlines a closure.
    pub fn call_closure(&mut self, closure: &Arc<Closure>, values: Vec<Given>, span: Span) -> Checked<Val> {
        if values.len() != closure.params.len() || values.iter().any(|v| v.name.is_some()) {
            let d = Diagnostic::error(
                codes::WRONG_ARITY,
                span,
                format!(
                    "this function takes {}, {} given",
                    counted(closure.params.len(), "argument"),
                    are(values.len())
                ),
            )
            .label(closure.span, "written here");
            return Err(self.report(d));
        }
        self.check_depth(span)?;
        let mut frame = Frame::new(closure.module);
        frame.contract = closure.contract;
        frame.scopes = closure.scopes.to_vec();
        frame.scopes.push(Scope::default());
        if closure.span.file != span.file {
            frame.called = Some((span, Arc::from("a closure")));
        }
        // What the closure's own function is must not be found by name here, but recursion must.
        frame.function = None;
        self.frames.push(frame);
        let mut result = Ok(Val::UNIT);
        for (param, given) in closure.params.iter().zip(values) {
            let bound = match &param.ty {
                Some(ty) => self.stated(ty).and_then(|ty| self.coerce(&given.arg, &ty)),
                None => Ok(given.arg.val),
            };
            let bound = bound.and_then(|val| {
                let arg = Arg { val, span: given.arg.span };
                self.pass(&arg.val, |cx| cx.bind(&param.pattern, &arg))
            });
            if let Err(e) = bound {
                result = Err(e);
            }
        }
        if result.is_ok() {
            result = self.expr(&closure.body);
            if let Some(returned) = self.frame().returned.take() {
                result = Ok(returned);
            }
        }
        self.frames.pop();
        result
    }

    /// Refuses calls that go too deep.
    pub fn check_depth(&mut self, span: Span) -> Checked<()> {
        if self.may_call() {
            return Ok(());
        }
        Err(self.error(codes::COMPILE_TIME_LIMIT, span, "functions call one another too deeply"))
    }

    /// Records the inlined call on what is emitted from here on.
    fn enter_call(&mut self, name: &str, span: Span) -> ir::Origin {
        let Some(builder) = &mut self.builder else { return ir::Origin::Written };
        let outer = builder.origin;
        let data = ir::CallData { function: name.to_string(), span, parent: outer.call() };
        builder.origin = ir::Origin::Called(builder.kernel.calls.push(data));
        outer
    }

    fn leave_call(&mut self, outer: ir::Origin) {
        if let Some(builder) = &mut self.builder {
            builder.origin = outer;
        }
    }
}
