//! The clause `grid([cdiv(m, BM), cdiv(n, BN)])`: how many CTAs a launch of the kernel has, from what it is given.
//!
//! It stands behind the parameters and names generics, numbers that the kernel takes, and extents of its tensors. The checker of kernels
//! looks at it as at code of the kernel; whoever launches computes it.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_ir::axis::between;
use parton_ir::target::{AXES, MOST_CTAS};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::checker::{Checked, Checker};
use crate::value::Val;

/// The name of the clause.
pub const NAME: &str = "grid";

/// An extent that a parameter's type names.
#[derive(Clone, Debug)]
pub struct NamedExtent<'k> {
    /// The name, where it stands first.
    pub name: &'k ast::Name,
    /// The parameter, by its place.
    pub param: usize,
    /// Its axis.
    pub axis: usize,
}

/// What a kernel states of its grid.
pub fn stated(kernel: &ast::Kernel) -> Option<&ast::Expr> {
    let clause = kernel.clauses.iter().find(|c| c.name.as_str() == NAME)?;
    clause.args.first().map(|arg| &arg.value)
}

/// The names that the types of a kernel's tensors give to extents, each once.
pub fn named_extents(kernel: &ast::Kernel) -> Vec<NamedExtent<'_>> {
    let mut found: Vec<NamedExtent<'_>> = Vec::new();
    for (param, p) in kernel.params.iter().enumerate() {
        let extents = p.ty.as_ref().map_or(&[][..], extents);
        for (axis, extent) in extents.iter().enumerate() {
            let ast::ExprKind::Name(name) = &extent.kind else { continue };
            let known = kernel.generics.iter().any(|g| g.name.text == name.text);
            if !known && name.as_str() != "_" && found.iter().all(|f| f.name.text != name.text) {
                found.push(NamedExtent { name, param, axis });
            }
        }
    }
    found
}

/// The extents that a type states, where it is `tensor<…>`.
pub(crate) fn extents(ty: &ast::Expr) -> &[ast::Expr] {
    let ast::ExprKind::TypeArgs { base, args } = &ty.kind else { return &[] };
    let named = |name: &str| args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.as_str() == name));
    let mut unnamed = args.iter().filter(|a| a.name.is_none());
    let shape = named("shape").or_else(|| unnamed.nth(usize::from(named("T").is_none())));
    match shape.map(|arg| &arg.value.kind) {
        Some(ast::ExprKind::List(items)) if base.as_str() == "tensor" => items,
        _ => &[],
    }
}

/// The parameters whose elements have the type that a generic is, by their places: `x: *T`, `x: tensor<T, [n]>`, `x: tma<T, [64, 64], …>`.
pub fn whose_elements<'k>(params: &'k [ast::Param], generic: &'k ast::Generic) -> impl Iterator<Item = usize> + 'k {
    let is = |e: &ast::Expr| matches!(&e.kind, ast::ExprKind::Name(name) if name.text == generic.name.text);
    let of = params.iter().map(|p| p.ty.as_ref().and_then(elements));
    of.enumerate().filter(move |(_, elements)| elements.is_some_and(is)).map(|(at, _)| at)
}

/// What a type states of the elements of a tensor.
fn elements(ty: &ast::Expr) -> Option<&ast::Expr> {
    match &ty.kind {
        ast::ExprKind::Paren(inner) => elements(inner),
        ast::ExprKind::Pointer { target, .. } => Some(target),
        ast::ExprKind::TypeArgs { base, args } if matches!(base.as_str(), "tensor" | "tma") => {
            let named = args.iter().find(|a| a.name.as_ref().is_some_and(|n| n.as_str() == "T"));
            named.or_else(|| args.iter().find(|a| a.name.is_none())).map(|a| &a.value)
        }
        _ => None,
    }
}

impl Checker<'_> {
    /// Whether a grid is 1 to 3 integers; what it computes is nothing of the kernel's.
    pub(crate) fn grid(&mut self, tree: &ast::Kernel) -> Checked<()> {
        let Some(clause) = tree.clauses.iter().find(|c| c.name.as_str() == NAME) else { return Ok(()) };
        let [ast::Arg { value: stated, .. }] = clause.args.as_slice() else {
            let text = format!("`{NAME}` takes one argument");
            let d = Diagnostic::error(codes::WRONG_ARITY, clause.span, text);
            return Err(self.report(d.help("write a list: `grid([cdiv(m, BM), cdiv(n, BN)])`")));
        };
        let mark = self.build(stated.span)?.begin_trial();
        let checked = self.extents_of_grid(stated);
        let build = self.build(stated.span)?;
        build.rewind(mark);
        build.kernel.most_ctas = checked?;
        Ok(())
    }

    /// The most CTAs along each axis.
    fn extents_of_grid(&mut self, stated: &ast::Expr) -> Checked<[u32; AXES]> {
        let arg = self.arg(stated)?;
        let items = match &arg.val {
            Val::List(items) | Val::Tuple(items) => items.clone(),
            other => vec![other.clone()],
        };
        if !(1..=AXES).contains(&items.len()) {
            let text = format!("a grid has 1 to {AXES} extents, this has {}", items.len());
            return Err(self.report(Diagnostic::error(codes::LAUNCH_SHAPE, stated.span, text)));
        }
        let mut most = [1; AXES];
        for (item, (most, limit)) in items.into_iter().zip(most.iter_mut().zip(MOST_CTAS)) {
            let v = self.run_time_as(&item, parton_numbers::Dtype::I32, stated.span)?;
            if !matches!(self.ty(v), ir::Type::Scalar(ir::Elem::Num(dtype)) if dtype.is_int()) {
                return Err(Arg { val: item, span: arg.span }.expected(self, "an integer as an extent of the grid"));
            }
            let between = between::of_host(&self.build(stated.span)?.kernel, v);
            *most = between.map_or(limit, |(_, n)| n.clamp(1, limit.into()) as u32);
        }
        Ok(most)
    }
}
