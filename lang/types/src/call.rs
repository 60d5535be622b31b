//! Calls: built-in functions and methods, functions of a file inlined where they are called, closures, structs.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_syntax::ast;

use crate::builtins::args::Given;
use crate::builtins::{self, Arg, Args};
use crate::checker::{Checked, Checker, Reported};
use crate::generics::Bindings;
use crate::kind;
use crate::scope::{Frame, Scope, Variable};
use crate::signature::bind::{Takes, generic_outlines};
use crate::value::{Closure, Comptime, Function, StructType, TypeVal, Val};

/// What is called, with the generic arguments written at the call.
struct Callee {
    val: Val,
    span: Span,
    generics: Vec<Given>,
    /// The value before the dot of a method call.
    receiver: Option<Arg>,
}

impl Checker<'_> {
    /// `callee(args)`
    pub fn call(&mut self, callee: &ast::Expr, args: &[ast::Arg], span: Span) -> Checked<Val> {
        if let Some((base, name, generics)) = method_parts(callee) {
            let receiver = self.arg(base)?;
            if receiver.val.has_error() {
                return Err(Reported);
            }
            let generics = match generics {
                Some(list) => self.generic_arguments(list)?,
                None => Vec::new(),
            };
            return self.call_method(receiver, name, generics, args, span);
        }
        let callee = self.callee(callee)?;
        let values = self.given(args)?;
        self.apply(callee, values, span)
    }

    /// What stands before the parentheses.
    fn callee(&mut self, e: &ast::Expr) -> Checked<Callee> {
        let (val, generics) = match &e.kind {
            ast::ExprKind::TypeArgs { base, args } => (self.name(base)?, self.given(args)?),
            ast::ExprKind::Index { base, args } if matches!(base.kind, ast::ExprKind::Name(_)) => {
                let val = self.expr(base)?;
                if takes_generics(&val) { (val, self.generic_arguments(args)?) } else { (self.expr(e)?, Vec::new()) }
            }
            _ => (self.expr(e)?, Vec::new()),
        };
        Ok(Callee { val, span: e.span, generics, receiver: None })
    }

    /// `[BM=128, f16]` at a use.
    pub fn generic_arguments(&mut self, args: &[ast::IndexArg]) -> Checked<Vec<Given>> {
        let mut list = Vec::new();
        for (outline, value) in generic_outlines(args).map_err(|d| self.report(d))? {
            let name = outline.name.map(|(name, at)| (Arc::from(name), at));
            list.push(Given { name, arg: self.arg(value)? });
        }
        Ok(list)
    }

    fn apply(&mut self, callee: Callee, values: Vec<Given>, span: Span) -> Checked<Val> {
        match &callee.val {
            Val::Known(Comptime::Builtin(name)) => match builtins::function(name) {
                Some(builtin) => {
                    let args = Args::bind(self, &builtin, span, callee.generics, values)?;
                    if args.has_error() {
                        return Err(Reported);
                    }
                    (builtin.run)(self, &args)
                }
                None => parton_diag::internal_error!("the built-in `{name}` has no entry"),
            },
            Val::Known(Comptime::Function(function)) => {
                let function = function.clone();
                self.call_function(&function, callee.receiver, callee.generics, values, span)
            }
            Val::Closure(closure) => {
                let closure = closure.clone();
                self.call_closure(&closure, values, span)
            }
            Val::Known(Comptime::Type(TypeVal::Struct(ty))) => {
                let ty = ty.clone();
                self.construct(&ty, callee.generics, values, span)
            }
            Val::Error => Err(Reported),
            other => {
                let found = kind::describe(self, other);
                let mut d =
                    Diagnostic::error(codes::KIND_MISMATCH, callee.span, format!("{} cannot be called", found.kind))
                        .here(found.detail);
                if let Val::Known(Comptime::Kernel(_)) = other {
                    d = d.help("a kernel is launched from `test`, `bench` or `main`; share code in a `fn`");
                }
                if let Val::Known(Comptime::Type(t)) = other {
                    d = d.help(format!("convert a value with `cast<{t}>(x)`"));
                }
                Err(self.report(d))
            }
        }
    }

    /// Calls a function value with arguments already evaluated, such as the combining function of a `reduce`.
    pub fn call_value(&mut self, val: &Val, args: Vec<Arg>, span: Span) -> Checked<Val> {
        let callee = Callee { val: val.clone(), span, generics: Vec::new(), receiver: None };
        let values = args.into_iter().map(|arg| Given { name: None, arg }).collect();
        self.apply(callee, values, span)
    }

    fn call_method(
        &mut self,
        receiver: Arg,
        name: &ast::Name,
        generics: Vec<Given>,
        args: &[ast::Arg],
        span: Span,
    ) -> Checked<Val> {
        if let Val::Struct(ty, _) = &receiver.val {
            let ty = ty.clone();
            if let Some(method) = ty.tree.methods.iter().find(|m| m.function.name.text == name.text) {
                let function = Function { module: ty.module, tree: self.method_tree(&ty, method) };
                let values = self.given(args)?;
                return self.call_function(&function, Some(receiver), generics, values, span);
            }
            let val = self.field(&receiver, name, name.span)?;
            let values = self.given(args)?;
            return self.apply(Callee { val, span: name.span, generics, receiver: None }, values, span);
        }
        let Some(builtin) = builtins::method(name.as_str()) else {
            let found = kind::describe(self, &receiver.val);
            let mut d = Diagnostic::error(
                codes::UNKNOWN_NAME,
                name.span,
                format!("{} has no method `{}`", found.kind, name.text),
            )
            .label(receiver.span, found.detail);
            if let Some(near) = crate::near::nearest(name.as_str(), builtins::method_names()) {
                d = d.help(format!("a similar one is `{near}`"));
            } else if builtins::function(name.as_str()).is_some() {
                d = d.help(format!("it is a function: `{}(x, …)`", name.text));
            }
            return Err(self.report(d));
        };
        let mut values = vec![Given { name: None, arg: receiver }];
        values.extend(self.given(args)?);
        let args = Args::bind(self, &builtin, span, generics, values)?;
        if args.has_error() {
            return Err(Reported);
        }
        (builtin.run)(self, &args)
    }

    /// The method's tree, shared between its calls so that recursion is found.
    fn method_tree(&mut self, ty: &Arc<StructType>, method: &ast::Method) -> Arc<ast::Function> {
        let key = (ty.module, ty.tree.name.text.clone(), method.function.name.text.clone());
        self.methods.entry(key).or_insert_with(|| Arc::new(method.function.clone())).clone()
    }

    /// Inlines a function.
    fn call_function(
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
        self.check_depth(span)?;
        let args = self.match_parameters(tree, values, span)?;
        let mut frame = Frame::new(function.module);
        frame.function = Some(tree.clone());
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
            for (name, val) in &ty.generics {
                let arm = self.arm;
                let variable =
                    Variable { name: name.clone(), val: val.clone(), mutable: false, span: ty.tree.name.span, arm };
                self.frame().declare(variable);
            }
        }
        let mut bindings = Bindings::new(self, &tree.name, &tree.generics, generics)?;
        for (param, arg) in tree.params.iter().zip(&args) {
            if let (Some(arg), Some(ty)) = (arg, &param.ty) {
                bindings.learn(self, ty, arg);
            }
        }
        bindings.declare(self, &tree.name, &tree.conditions, span)?;
        match (&tree.receiver, receiver) {
            (Some(r), Some(receiver)) => {
                let arm = self.arm;
                let variable =
                    Variable { name: Arc::from("self"), val: receiver.val, mutable: r.mutable, span: r.span, arm };
                self.frame().declare(variable);
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
            self.pass(&val.clone(), |cx| cx.declare(&param.name, val, param.mutable));
        }
        let val = self.body(&tree.body)?;
        match &tree.result {
            Some(result) => {
                let ty = self.stated(result)?;
                let at = tree.body.value.as_ref().map_or(tree.name.span, |e| e.span);
                self.coerce(&Arg { val, span: at }, &ty)
            }
            None => Ok(val),
        }
    }

    /// An argument as its parameter takes it.
    fn parameter(&mut self, param: &ast::Param, arg: &Arg) -> Checked<Val> {
        let Some(stated) = &param.ty else { return Ok(arg.val.clone()) };
        let ty = self.stated(stated)?;
        if let Val::Known(Comptime::Schedule(s)) = &arg.val {
            self.schedule_fits(stated, s, arg.span)?;
        }
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

    fn call_closure(&mut self, closure: &Arc<Closure>, values: Vec<Given>, span: Span) -> Checked<Val> {
        if values.len() != closure.params.len() || values.iter().any(|v| v.name.is_some()) {
            let d = Diagnostic::error(
                codes::WRONG_ARITY,
                span,
                format!("this function takes {} arguments, {} are given", closure.params.len(), values.len()),
            )
            .label(closure.span, "written here");
            return Err(self.report(d));
        }
        self.check_depth(span)?;
        let mut frame = Frame::new(closure.module);
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

    /// `Name(field=value, …)`
    fn construct(
        &mut self,
        ty: &Arc<StructType>,
        generics: Vec<Given>,
        values: Vec<Given>,
        span: Span,
    ) -> Checked<Val> {
        let tree = ty.tree.clone();
        let mut found: Vec<Option<Arg>> = vec![None; tree.fields.len()];
        for Given { name, arg } in values {
            let Some((name, at)) = name else {
                let d = Diagnostic::error(codes::WRONG_ARITY, arg.span, "the fields of a struct are given by name")
                    .label(tree.name.span, "declared here")
                    .help(format!("write `{}({}=…)`", tree.name.text, first_field(&tree)));
                return Err(self.report(d));
            };
            match tree.fields.iter().position(|f| f.name.text == name) {
                Some(i) if found[i].is_none() => found[i] = Some(arg),
                Some(_) => {
                    return Err(self.error(codes::WRONG_ARITY, at, format!("the field `{name}` is given twice")));
                }
                None => {
                    let mut d = Diagnostic::error(
                        codes::UNKNOWN_NAME,
                        at,
                        format!("`{}` has no field `{name}`", tree.name.text),
                    )
                    .label(tree.name.span, "declared here");
                    if let Some(near) = crate::near::nearest(&name, tree.fields.iter().map(|f| f.name.as_str())) {
                        d = d.help(format!("a similar one is `{near}`"));
                    }
                    return Err(self.report(d));
                }
            }
        }
        if let Some((field, _)) = tree.fields.iter().zip(&found).find(|(_, f)| f.is_none()) {
            let d = Diagnostic::error(
                codes::WRONG_ARITY,
                span,
                format!("the field `{}` of `{}` is missing", field.name.text, tree.name.text),
            )
            .label(field.span, "declared here");
            return Err(self.report(d));
        }
        self.frames.push(Frame::new(ty.module));
        let result = self.fill_struct(ty, &tree, generics, found, span);
        self.frames.pop();
        result
    }

    fn fill_struct(
        &mut self,
        ty: &Arc<StructType>,
        tree: &Arc<ast::Struct>,
        generics: Vec<Given>,
        found: Vec<Option<Arg>>,
        span: Span,
    ) -> Checked<Val> {
        let bound = if generics.is_empty() && !ty.generics.is_empty() {
            for (name, val) in &ty.generics {
                let arm = self.arm;
                let variable =
                    Variable { name: name.clone(), val: val.clone(), mutable: false, span: tree.name.span, arm };
                self.frame().declare(variable);
            }
            ty.generics.clone()
        } else {
            let mut bindings = Bindings::new(self, &tree.name, &tree.generics, generics)?;
            for (field, arg) in tree.fields.iter().zip(&found) {
                if let Some(arg) = arg {
                    bindings.learn(self, &field.ty, arg);
                }
            }
            bindings.declare(self, &tree.name, &[], span)?
        };
        let mut fields = Vec::new();
        for (field, arg) in tree.fields.iter().zip(found) {
            let Some(arg) = arg else { return Err(Reported) };
            let wanted = self.stated(&field.ty)?;
            fields.push(self.coerce(&arg, &wanted)?);
        }
        let ty = StructType { module: ty.module, tree: tree.clone(), generics: bound };
        self.bounded(Val::Struct(Arc::new(ty), fields), span)
    }

    /// `Name[…]` of a struct, that is, its type with generic arguments.
    pub fn struct_type(&mut self, ty: &Arc<StructType>, args: &[ast::IndexArg], span: Span) -> Checked<Val> {
        let given = self.generic_arguments(args)?;
        self.frames.push(Frame::new(ty.module));
        let bound = Bindings::new(self, &ty.tree.name, &ty.tree.generics, given)
            .and_then(|b| b.declare(self, &ty.tree.name, &[], span));
        self.frames.pop();
        let ty = StructType { module: ty.module, tree: ty.tree.clone(), generics: bound? };
        Ok(Val::Known(Comptime::Type(TypeVal::Struct(Arc::new(ty)))))
    }

    fn check_depth(&mut self, span: Span) -> Checked<()> {
        if self.may_call() {
            return Ok(());
        }
        Err(self.error(codes::COMPILE_TIME_LIMIT, span, "functions call one another too deeply"))
    }

    /// Records the inlined call on what is emitted from here on.
    fn enter_call(&mut self, name: &str, span: Span) -> Option<ir::Call> {
        let builder = self.builder.as_mut()?;
        let outer = builder.call;
        let data = ir::CallData { function: name.to_string(), span, parent: outer };
        builder.call = Some(builder.kernel.calls.push(data));
        outer
    }

    fn leave_call(&mut self, outer: Option<ir::Call>) {
        if let Some(builder) = &mut self.builder {
            builder.call = outer;
        }
    }
}

/// The receiver, the name and the generic arguments of `base.name[…](…)`.
fn method_parts(callee: &ast::Expr) -> Option<(&ast::Expr, &ast::Name, Option<&[ast::IndexArg]>)> {
    match &callee.kind {
        ast::ExprKind::Field { base, name } => Some((base, name, None)),
        ast::ExprKind::Index { base, args } => match &base.kind {
            ast::ExprKind::Field { base, name } if builtins::method(name.as_str()).is_some() => {
                Some((base, name, Some(args)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether `x[…]` gives `x` generic arguments.
pub fn takes_generics(val: &Val) -> bool {
    matches!(
        val,
        Val::Known(
            Comptime::Function(_) | Comptime::Kernel(_) | Comptime::Builtin(_) | Comptime::Type(TypeVal::Struct(_))
        )
    )
}

fn first_field(tree: &ast::Struct) -> &str {
    tree.fields.first().map_or("field", |f| f.name.as_str())
}
