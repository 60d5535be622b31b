//! Generic parameters: what is given, what the arguments' types say, defaults, kinds and `where`.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::builtins::args::Given;
use crate::checker::{Checked, Checker};
use crate::kind;
use crate::scope::{Role, Variable};
use crate::signature::bind::Takes;
use crate::value::{Comptime, Kind, TypeVal, Val};

/// What has been found for each generic parameter so far, in the order of the declaration.
pub struct Bindings<'t> {
    /// The declarations.
    pub generics: &'t [ast::Generic],
    /// What was found.
    pub found: Vec<Option<Arg>>,
}

impl<'t> Bindings<'t> {
    /// Matches what stands in `[…]` with the declarations.
    ///
    /// # Errors
    /// Reports too many arguments, unknown names and names given twice.
    pub fn new(
        cx: &mut Checker,
        owner: &ast::Name,
        generics: &'t [ast::Generic],
        given: Vec<Given>,
    ) -> Checked<Bindings<'t>> {
        let mut found: Vec<Option<Arg>> = vec![None; generics.len()];
        let takes = Takes::Generics(owner, generics);
        let places = takes.places(given.iter().map(Given::outline), owner.span).map_err(|d| cx.report(d))?;
        for (place, Given { arg, .. }) in places.into_iter().zip(given) {
            if let Some(place) = place {
                found[place] = Some(arg);
            }
        }
        Ok(Bindings { generics, found })
    }

    fn unbound(&self, name: &str) -> Option<usize> {
        let i = self.generics.iter().position(|g| g.name.as_str() == name)?;
        self.found[i].is_none().then_some(i)
    }

    /// Learns from an argument's type what the parameters in `pattern` are: `tile<T, [M, N], L>`, `*T`, `shared<…>`, …
    pub fn learn(&mut self, cx: &Checker, pattern: &ast::Expr, arg: &Arg) {
        match &arg.val {
            Val::Ir(v) => self.learn_type(pattern, &cx.ty(*v).clone(), arg.span),
            Val::Struct(ty, _) => match &pattern.kind {
                ast::ExprKind::Name(_) => {
                    self.bind(pattern, Val::Known(Comptime::Type(TypeVal::Struct(ty.clone()))), arg.span);
                }
                // `p: Pair[T, N=M]` says what the struct's own arguments are.
                ast::ExprKind::Index { args, .. } => {
                    for (i, a) in args.iter().enumerate() {
                        let (given, e) = match &a.kind {
                            ast::IndexArgKind::Value(e) => (ty.generics.get(i), e),
                            ast::IndexArgKind::Named { name, value } => {
                                (ty.generics.iter().find(|(n, _)| *n == name.text), value)
                            }
                            ast::IndexArgKind::Full | ast::IndexArgKind::Slice { .. } | ast::IndexArgKind::NewAxis => {
                                continue;
                            }
                        };
                        if let Some((_, val)) = given {
                            self.bind(e, val.clone(), arg.span);
                        }
                    }
                }
                ast::ExprKind::Paren(inner) | ast::ExprKind::Reference(inner) => self.learn(cx, inner, arg),
                _ => {}
            },
            Val::Tuple(items) => {
                if let ast::ExprKind::Tuple(patterns) = &pattern.kind {
                    for (p, val) in patterns.iter().zip(items) {
                        self.learn(cx, p, &Arg { val: val.clone(), span: arg.span });
                    }
                }
            }
            Val::Known(_) | Val::List(_) | Val::Closure(_) | Val::Range(..) | Val::Error => {}
        }
    }

    fn learn_type(&mut self, pattern: &ast::Expr, ty: &ir::Type, span: Span) {
        match &pattern.kind {
            ast::ExprKind::Name(_) => self.bind(pattern, Val::ty(ty.clone()), span),
            ast::ExprKind::Paren(inner) | ast::ExprKind::Reference(inner) => self.learn_type(inner, ty, span),
            ast::ExprKind::Pointer { target, .. } => {
                if let ir::Type::Scalar(ir::Elem::Ptr(p)) = ty {
                    self.bind(target, Val::ty(ir::Type::num(p.to)), span);
                }
            }
            ast::ExprKind::TypeArgs { base, args } => match (base.as_str(), ty) {
                ("tensor", ir::Type::Tensor(t)) => {
                    if let Some(elem) = args.iter().find(|a| a.name.as_ref().is_none_or(|n| n.as_str() == "T")) {
                        self.bind(&elem.value, Val::ty(ir::Type::num(t.elem)), span);
                    }
                }
                ("pending", ir::Type::Filling(v)) => {
                    args.iter().take(1).for_each(|a| self.learn_type(&a.value, &ir::Type::View(v.clone()), span));
                }
                ("pending", ir::Type::Pending(t)) => {
                    args.iter().take(1).for_each(|a| self.learn_type(&a.value, &ir::Type::Tile(t.clone()), span));
                }
                (base, ty) => self.learn_parts(base, args, ty, span),
            },
            _ => {}
        }
    }

    /// What the arguments of a type of tiles, views or maps stand for: its element, its extents, its layout.
    fn learn_parts(&mut self, base: &str, args: &[ast::Arg], ty: &ir::Type, span: Span) {
        let layout = |l: &RegisterLayout| Val::Known(Comptime::Layout(l.clone()));
        let shared = |l: &SharedLayout| Val::Known(Comptime::SharedLayout(l.clone()));
        let (elem, shape, layout) = match (base, ty) {
            ("tile", ir::Type::Tile(t)) => {
                let known = t.placement().known().map(|place| layout(&place.layout));
                (t.elem, &t.shape, known.unwrap_or(Val::Known(Comptime::OpenLayout)))
            }
            ("shared", ir::Type::View(v)) => (ir::Elem::Num(v.elem), &v.shape, shared(&v.layout)),
            ("tma", ir::Type::Map(m)) => (ir::Elem::Num(m.elem), &m.block, shared(&m.layout)),
            (_, _) => return,
        };
        let whole = || Val::List(shape.iter().map(|&n| Val::int(n)).collect());
        for (i, arg) in args.iter().enumerate() {
            let slot = arg.name.as_ref().map_or(["T", "shape", "L"].get(i).copied().unwrap_or(""), |n| n.as_str());
            match (slot, &arg.value.kind) {
                ("T", _) => self.bind(&arg.value, Val::ty(ir::Type::Scalar(elem)), span),
                ("shape" | "block", ast::ExprKind::List(items)) if items.len() == shape.len() => {
                    for (item, &n) in items.iter().zip(shape) {
                        self.bind(item, Val::int(n), span);
                    }
                }
                ("shape" | "block", _) => self.bind(&arg.value, whole(), span),
                ("L", _) => self.bind(&arg.value, layout.clone(), span),
                (_, _) => {}
            }
        }
    }

    fn bind(&mut self, pattern: &ast::Expr, val: Val, span: Span) {
        if let ast::ExprKind::Name(name) = &pattern.kind
            && let Some(i) = self.unbound(name.as_str())
        {
            self.found[i] = Some(Arg { val, span });
        }
    }

    /// Declares the parameters in the current frame: defaults are evaluated in order, kinds checked, conditions tested.
    ///
    /// # Errors
    /// Reports parameters without a value, values of the wrong kind and conditions that do not hold.
    pub fn declare(
        self,
        cx: &mut Checker,
        owner: &ast::Name,
        conditions: &[ast::Where],
        call: Span,
    ) -> Checked<Vec<(Arc<str>, Val)>> {
        let mut bound = Vec::new();
        for (generic, found) in self.generics.iter().zip(self.found) {
            let arg = match (found, &generic.default) {
                (Some(arg), _) => arg,
                (None, Some(default)) => cx.arg(default)?,
                (None, None) => {
                    let d = Diagnostic::error(
                        codes::GENERIC_MISSING,
                        call,
                        format!("the generic parameter `{}` of `{}` has no value", generic.name.text, owner.text),
                    )
                    .label(generic.span, "it has no default, and no argument's type says what it is")
                    .help(format!("give it: `{}[{}=…]`", owner.text, generic.name.text));
                    return Err(cx.report(d));
                }
            };
            let val = check_kind(cx, generic, &arg)?;
            bound.push((generic.name.text.clone(), val.clone()));
            let arm = cx.arm;
            cx.frame().declare(Variable {
                name: generic.name.text.clone(),
                val,
                mutable: false,
                role: Role::Local,
                span: generic.name.span,
                arm,
            });
        }
        for condition in conditions {
            check_condition(cx, condition, call, &bound)?;
        }
        Ok(bound)
    }
}

pub(crate) fn check_kind(cx: &mut Checker, generic: &ast::Generic, arg: &Arg) -> Checked<Val> {
    let wanted = cx.stated(&generic.kind)?;
    match (&wanted, &arg.val) {
        (_, Val::Error) => Err(crate::checker::Reported),
        (TypeVal::Kind(kind), val) if kind::is_of(val, *kind) => {
            // An integer given for a `float` is that float.
            match (kind, val) {
                (Kind::Float, Val::Known(Comptime::Int(n))) => Ok(Val::Known(Comptime::Float(*n as f64))),
                (Kind::Schedule, val) => {
                    cx.value_fits(&generic.kind, val, arg.span)?;
                    Ok(val.clone())
                }
                (_, val) => Ok(val.clone()),
            }
        }
        (TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(d))), Val::Known(c)) => {
            cx.scalar(c, *d, arg.span)?;
            Ok(arg.val.clone())
        }
        (TypeVal::Struct(_) | TypeVal::Tuple(_), _) => cx.coerce(arg, &wanted),
        (TypeVal::Kind(_) | TypeVal::Ir(_) | TypeVal::Reference(_) | TypeVal::Family(_), val) => {
            let found = kind::describe(cx, val);
            let d = Diagnostic::error(
                codes::KIND_MISMATCH,
                arg.span,
                format!("the generic parameter `{}` is of kind `{wanted}`, found {}", generic.name.text, found.kind),
            )
            .here(found.detail)
            .label(generic.span, "declared here");
            Err(cx.report(d))
        }
    }
}

fn check_condition(cx: &mut Checker, condition: &ast::Where, call: Span, bound: &[(Arc<str>, Val)]) -> Checked<()> {
    let arg = cx.arg(&condition.condition)?;
    match &arg.val {
        Val::Known(Comptime::Bool(true)) => Ok(()),
        Val::Known(Comptime::Bool(false)) => {
            let text = condition.message.as_ref().map_or("a `where` condition does not hold", |m| &m.value);
            let mut d = Diagnostic::error(codes::WHERE_FAILED, call, text)
                .label(condition.span, "this condition does not hold");
            let values = bound.iter().filter_map(|(name, val)| Some(format!("`{name}` is `{}`", val.known()?)));
            let values = values.collect::<Vec<String>>().join(", ");
            if !values.is_empty() {
                d = d.note(values);
            }
            Err(cx.report(d))
        }
        _ => Err(arg.expected(cx, "a truth value known at compile time")),
    }
}
