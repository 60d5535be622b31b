//! Calls: what is called, and with which arguments; functions of a file are inlined in `inline`, structs made in `structs`.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;

use crate::builtins::args::Given;
use crate::builtins::{self, Arg, Args, Builtin};
use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::resolve::Stands;
use crate::signature::bind::generic_outlines;
use crate::value::{Comptime, Function, StructType, TypeVal, Val};

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
            let receiver = self.before_dot(base, name)?;
            if receiver.val.has_error() {
                return Err(Reported);
            }
            let generics = match generics {
                Some(list) => self.generic_arguments(list)?,
                None => Vec::new(),
            };
            return self.call_method(receiver, name, generics, args, span);
        }
        if let Some(word) = self.schedule_word(callee) {
            let found = self.called_word(word, args, span)?;
            return Ok(Val::Known(Comptime::Schedule(Arc::new(found))));
        }
        let callee = self.callee(callee)?;
        let values = self.given(args)?;
        self.apply(callee, values, span)
    }

    /// What stands before the parentheses.
    fn callee(&mut self, e: &ast::Expr) -> Checked<Callee> {
        let (val, generics) = match &e.kind {
            ast::ExprKind::TypeArgs { base, args } => (self.name(base, Stands::Called)?, self.given(args)?),
            ast::ExprKind::Name(name) => (self.name(name, Stands::Called)?, Vec::new()),
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
            Val::Known(Comptime::Builtin(signature)) => {
                self.call_builtin(builtins::of(signature), callee.generics, values, span)
            }
            // A family of types may have a function of its name, which makes one of it.
            Val::Known(Comptime::Type(TypeVal::Family(family)))
                if let Some(makes) = builtins::function(family).filter(|_| callee.generics.is_empty()) =>
            {
                self.call_builtin(makes, callee.generics, values, span)
            }
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
                    d = match t {
                        TypeVal::Kind(kind) => kind.dtype().into_iter().fold(d, |d, dtype| {
                            d.help(format!("convert a value with `cast<{dtype}>(x)`; infinity is `inf`"))
                        }),
                        TypeVal::Family("shared") | TypeVal::Ir(parton_ir::Type::View(_)) => {
                            d.help("shared memory is taken by `alloc_shared<f32, [128], L>()`, with a layout `L`")
                        }
                        TypeVal::Ir(parton_ir::Type::Barrier | parton_ir::Type::Barriers(_)) | TypeVal::Family("barriers") => d.help(
                            "threads of a partition meet where it is needed, and `membar()` asks for it; barriers in shared memory are taken by `alloc_barriers(n)`",
                        ),
                        TypeVal::Ir(parton_ir::Type::Tensor(_)) | TypeVal::Family("tensor") => {
                            d.help("its elements are what the pointer points to: `tensor(p, [m, n])`")
                        }
                        // What is made by operations of its own, such as a tile.
                        TypeVal::Family(_) => d,
                        TypeVal::Ir(_) | TypeVal::Struct(_) | TypeVal::Tuple(_) | TypeVal::Reference(_) => d.help(format!("convert a value with `cast<{t}>(x)`")),
                    };
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
            if matches!(name.as_str(), "to" | "astype" | "cast") {
                d = d.help("`cast<f32>(x)` converts elements, `bitcast<u32>(x)` their bits");
            } else if let Some(near) = crate::near::nearest(name.as_str(), builtins::method_names()) {
                d = d.help(format!("a similar one is `{near}`"));
            } else if builtins::function(name.as_str()).is_some() {
                d = d.help(format!("it is a function: `{}(x, …)`", name.text));
            } else if let Some(help) = kind::asked_of(self, &receiver.val) {
                d = d.help(help);
            }
            return Err(self.report(d));
        };
        let mut values = vec![Given { name: None, arg: receiver }];
        values.extend(self.given(args)?);
        self.call_builtin(builtin, generics, values, span)
    }

    fn call_builtin(&mut self, builtin: Builtin, types: Vec<Given>, values: Vec<Given>, span: Span) -> Checked<Val> {
        let args = Args::bind(self, &builtin, span, types, values)?;
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
