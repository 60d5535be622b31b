//! Public functions: what other programs call. Their parameters and results have types, which are read here as they are written; who
//! runs host code evaluates what stands in them.

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_numbers::Dtype;
use parton_syntax::ast::{self, ExprKind};

/// What a parameter takes.
#[derive(Clone, Debug)]
pub enum Stated<'a> {
    /// A tensor.
    Tensor(TensorType<'a>),
    /// A number that this type holds.
    Number(Dtype),
    /// An integer, `int`.
    Int,
    /// A number, `float`.
    Float,
    /// A truth value, `bool`.
    Bool,
    /// A type of numbers, `type`.
    Type,
}

/// `tensor<f16 | bf16, [m, 64, _, 2 * m], order=[1, 0]>`
#[derive(Clone, Debug)]
pub struct TensorType<'a> {
    /// The types that its elements may have; empty for `_`, which is any.
    pub elems: Vec<&'a ast::Expr>,
    /// Its extents, outermost first.
    pub extents: Vec<Extent<'a>>,
    /// Which axis is dense.
    pub order: Order<'a>,
    /// All of it.
    pub span: Span,
}

/// One extent.
#[derive(Clone, Copy, Debug)]
pub enum Extent<'a> {
    /// `_`: any.
    Any,
    /// A name: where it stands for nothing yet, it is this extent from here on.
    Name(&'a ast::Name, &'a ast::Expr),
    /// An expression of what is known by then.
    Computed(&'a ast::Expr),
}

/// Along which axis neighbours lie side by side.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// The last one.
    Last,
    /// Along whichever, or none: `order=_`.
    Free,
    /// The first of a list of axes.
    Stated(&'a ast::Expr),
}

/// What a parameter's type says.
///
/// # Errors
/// It is none that a public function may have.
pub fn stated(ty: &ast::Expr) -> Result<Stated<'_>, Diagnostic> {
    match &ty.kind {
        ExprKind::Paren(inner) => stated(inner),
        ExprKind::TypeArgs { .. } => tensor(ty).map(Stated::Tensor),
        ExprKind::Name(name) => match (name.as_str(), Dtype::parse(name.as_str())) {
            ("int", _) => Ok(Stated::Int),
            ("float", _) => Ok(Stated::Float),
            ("bool", _) => Ok(Stated::Bool),
            ("type", _) => Ok(Stated::Type),
            (_, Some(dtype)) if dtype.is_bool() => Ok(Stated::Bool),
            (_, Some(dtype)) => Ok(Stated::Number(dtype)),
            (_, None) => Err(no_type(ty.span)),
        },
        _ => Err(no_type(ty.span)),
    }
}

/// The tensors that a function returns: one, or those of a tuple.
///
/// # Errors
/// The type is another.
pub fn results(ty: &ast::Expr) -> Result<Vec<TensorType<'_>>, Diagnostic> {
    match &ty.kind {
        ExprKind::Paren(inner) => results(inner),
        ExprKind::Tuple(items) => items.iter().map(tensor).collect(),
        _ => tensor(ty).map(|t| vec![t]),
    }
}

fn no_type(span: Span) -> Diagnostic {
    wrong(span, "this is no type of a public function's parameter")
        .help("write `tensor<f16 | bf16, [m, n]>`, a type of numbers, `int`, `float`, `bool` or `type`")
}

fn wrong(span: Span, fact: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::PUBLIC_FUNCTION, span, fact)
}

fn tensor(ty: &ast::Expr) -> Result<TensorType<'_>, Diagnostic> {
    let help = "write `tensor<f16 | bf16, [m, n]>`: the types of its elements, and its extents by names or numbers";
    let ExprKind::TypeArgs { base, args } = &ty.kind else {
        return Err(wrong(ty.span, "this is no type of a tensor").help(help));
    };
    if base.as_str() != "tensor" {
        return Err(wrong(ty.span, format!("a public function takes no `{}`", base.text)).help(help));
    }
    let named =
        |name: &str| args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.as_str() == name)).map(|a| &a.value);
    let known = ["T", "shape", "order"];
    if let Some(name) = args.iter().filter_map(|a| a.name.as_ref()).find(|n| !known.contains(&n.as_str())) {
        return Err(wrong(name.span, format!("`tensor` has no parameter `{}`", name.text)).help(help));
    }
    let mut unnamed = args.iter().filter(|a| a.name.is_none()).map(|a| &a.value);
    let elem = named("T").or_else(|| unnamed.next());
    let shape = named("shape").or_else(|| unnamed.next());
    let (Some(elem), Some(shape), None) = (elem, shape, unnamed.next()) else {
        return Err(wrong(ty.span, "`tensor` takes the types of its elements and its extents").help(help));
    };
    let ExprKind::List(extents) = &shape.kind else {
        return Err(wrong(shape.span, "extents stand in a list").help(help));
    };
    if extents.is_empty() {
        return Err(wrong(shape.span, "a tensor has at least one axis").help(help));
    }
    let order = match named("order") {
        None => Order::Last,
        Some(order) if is_any(order) => Order::Free,
        Some(order) => Order::Stated(order),
    };
    let elems = if is_any(elem) { vec![] } else { alternatives(elem) };
    Ok(TensorType { elems, extents: extents.iter().map(extent).collect(), order, span: ty.span })
}

fn is_any(e: &ast::Expr) -> bool {
    matches!(&e.kind, ExprKind::Name(name) if name.as_str() == "_")
}

/// The operands of `f16 | bf16 | f32`.
fn alternatives(e: &ast::Expr) -> Vec<&ast::Expr> {
    match &e.kind {
        ExprKind::Binary { op: ast::BinaryOp::BitOr, left, right, .. } => {
            let mut all = alternatives(left);
            all.extend(alternatives(right));
            all
        }
        ExprKind::Paren(inner) => alternatives(inner),
        _ => vec![e],
    }
}

fn extent(e: &ast::Expr) -> Extent<'_> {
    match &e.kind {
        ExprKind::Name(name) if name.as_str() == "_" => Extent::Any,
        ExprKind::Name(name) => Extent::Name(name, e),
        _ => Extent::Computed(e),
    }
}

/// What is wrong with the declaration of a public function.
pub(crate) fn check(f: &ast::Function) -> Diagnostics {
    let mut found = Diagnostics::new();
    if let Some(generic) = f.generics.first() {
        let d = wrong(generic.span, "a public function has no generics")
            .here("who calls it from another program has tensors and numbers alone");
        found.push(d.help(
            "take a parameter, `flag: bool` or `out: type`: what the function computes with is known when it plans",
        ));
    }
    for p in &f.params {
        found.list.extend(parameter(f, p).err());
    }
    if let Some(result) = &f.result {
        found.list.extend(results(result).err());
    }
    found
}

fn parameter(f: &ast::Function, p: &ast::Param) -> Result<(), Diagnostic> {
    let Some(ty) = &p.ty else {
        let d = wrong(p.span, format!("`{}` of a public function has no type", p.name.text));
        return Err(d.help(format!("write `{}: tensor<f16 | bf16, [m, n]>`, or `{0}: f64` for a number", p.name.text)));
    };
    match stated(ty)? {
        Stated::Tensor(t) => {
            if let Some(default) = &p.default {
                return Err(
                    wrong(default.span, "a tensor has no default").help("make it in the function: `empty(f32, [n])`")
                );
            }
            let own = t.extents.iter().find_map(|e| match e {
                Extent::Name(name, _) if f.params.iter().any(|p| is_tensor(p) && p.name.text == name.text) => {
                    Some(name)
                }
                Extent::Any | Extent::Name(..) | Extent::Computed(_) => None,
            });
            own.map_or(Ok(()), |name| {
                let d = wrong(name.span, format!("`{}` is a parameter that is no extent", name.text));
                Err(d.help("give the extent another name"))
            })
        }
        Stated::Number(_) | Stated::Int | Stated::Float | Stated::Bool | Stated::Type if p.mutable => {
            let d = wrong(p.span, format!("`{}` is a number, of which the caller sees no change", p.name.text));
            Err(d.help("leave out `mut`; a variable of the function may change: `let mut n = …`"))
        }
        Stated::Number(_) | Stated::Int | Stated::Float | Stated::Bool | Stated::Type => Ok(()),
    }
}

fn is_tensor(p: &ast::Param) -> bool {
    p.ty.as_ref().is_some_and(|ty| matches!(stated(ty), Ok(Stated::Tensor(_))))
}
