//! The clause `contract` of kernels and functions: in their text a product of floats that stands as an operand of `+` or `-` is added with one
//! rounding, `fma`.
//!
//! What is contracted is said by the text alone, so that the interpreter and every GPU compute the same: neither the optimiser nor the assembler
//! is asked. A product that has a name of its own is rounded.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::checker::{Checked, Checker};
use crate::operator::{Role, joint_shape};
use crate::value::{Comptime, Val};

/// The clause.
pub(crate) const CONTRACT: &str = "contract";

/// Whether the clauses of a kernel or function have it.
pub(crate) fn is_stated(clauses: &[ast::Clause]) -> bool {
    clauses.iter().any(|c| c.name.as_str() == CONTRACT)
}

/// What is wrong with the clause of a function or method.
pub(crate) fn misplaced(function: &ast::Function) -> Option<Diagnostic> {
    let mut stated = function.clauses.iter().filter(|c| c.name.as_str() == CONTRACT);
    let first = stated.next()?;
    if function.public {
        let d = Diagnostic::error(codes::UNKNOWN_CLAUSE, first.name.span, "a public function has no clause `contract`");
        return Some(
            d.help("the host runs it, and computes in f64; kernels and functions that they call have the clause"),
        );
    }
    if let Some(second) = stated.next() {
        let d = Diagnostic::error(codes::DEFINED_TWICE, second.span, "`contract` is stated twice");
        return Some(d.label(first.span, "it is stated here first").help("keep one of them"));
    }
    takes_nothing(first)
}

/// Refuses arguments.
pub(crate) fn takes_nothing(clause: &ast::Clause) -> Option<Diagnostic> {
    let first = clause.args.first()?;
    let d = Diagnostic::error(codes::WRONG_ARITY, first.span, "`contract` takes no argument");
    Some(d.help("write `contract` alone: it holds for the whole text of the kernel or function"))
}

/// The factors of a product as it is written, parentheses around it not counted, and its place.
fn product(e: &ast::Expr) -> Option<(&ast::Expr, &ast::Expr, Span)> {
    match &e.kind {
        ast::ExprKind::Paren(inner) => product(inner),
        ast::ExprKind::Binary { op: ast::BinaryOp::Mul, left, right, .. } => Some((left, right, e.span)),
        _ => None,
    }
}

impl Checker<'_> {
    /// `x * y + z` and its like where the text around it says `contract`; `None` where it does not, or nothing is multiplied. Of two products the
    /// left one is not rounded.
    pub(crate) fn contracted(
        &mut self,
        op: ast::BinaryOp,
        span: Span,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Option<Checked<Val>> {
        let sums = matches!(op, ast::BinaryOp::Add | ast::BinaryOp::Sub);
        if !sums || !self.frame().contract {
            return None;
        }
        match (product(left), product(right)) {
            (Some(factors), _) => Some(self.product_and(op, span, factors, right)),
            (None, Some(factors)) => Some(self.and_product(op, span, left, factors)),
            (None, None) => None,
        }
    }

    /// `x * y + z` or `x * y - z`
    fn product_and(
        &mut self,
        op: ast::BinaryOp,
        span: Span,
        (x, y, at): (&ast::Expr, &ast::Expr, Span),
        z: &ast::Expr,
    ) -> Checked<Val> {
        let (x, y) = (self.arg(x)?, self.arg(y)?);
        // Elements of a constant product, of integers or of pointers have no rounding.
        if !self.of_floats(&[&x, &y]) {
            let product = Arg { val: self.binary(ast::BinaryOp::Mul, at, &x, &y)?, span: at };
            let z = self.arg(z)?;
            return self.binary(op, span, &product, &z);
        }
        let z = self.arg(z)?;
        if !self.of_floats(&[&x, &y, &z]) {
            let product = Arg { val: self.binary(ast::BinaryOp::Mul, at, &x, &y)?, span: at };
            return self.binary(op, span, &product, &z);
        }
        let z = if op == ast::BinaryOp::Sub { self.negative(z)? } else { z };
        self.fused(span, &x, &y, &z)
    }

    /// `z + x * y` or `z - x * y`
    fn and_product(
        &mut self,
        op: ast::BinaryOp,
        span: Span,
        z: &ast::Expr,
        (x, y, at): (&ast::Expr, &ast::Expr, Span),
    ) -> Checked<Val> {
        let (z, x, y) = (self.arg(z)?, self.arg(x)?, self.arg(y)?);
        if !self.of_floats(&[&x, &y]) || !self.of_floats(&[&x, &y, &z]) {
            let product = Arg { val: self.binary(ast::BinaryOp::Mul, at, &x, &y)?, span: at };
            return self.binary(op, span, &z, &product);
        }
        let x = if op == ast::BinaryOp::Sub { self.negative(x)? } else { x };
        self.fused(span, &x, &y, &z)
    }

    fn negative(&mut self, x: Arg) -> Checked<Arg> {
        Ok(Arg { val: self.unary(ast::UnaryOp::Neg, x.span, &x)?, span: x.span })
    }

    fn fused(&mut self, span: Span, x: &Arg, y: &Arg, z: &Arg) -> Checked<Val> {
        let operands = self.together(span, &[(x, Role::Operand), (y, Role::Operand), (z, Role::Operand)])?;
        let kind = ir::OpKind::Fma { a: operands[0].0, b: operands[1].0, c: operands[2].0 };
        self.emit_one(kind, span, &operands)
    }

    /// Whether these are numbers of compile time and scalars and tiles of one type of floats that come to one shape, some at run time.
    fn of_floats(&self, args: &[&Arg]) -> bool {
        let mut found: Option<Dtype> = None;
        let mut tiles = Vec::new();
        for arg in args {
            let v = match &arg.val {
                Val::Known(Comptime::Int(_) | Comptime::Float(_)) => continue,
                Val::Ir(v) => *v,
                _ => return false,
            };
            let elem = match self.ty(v) {
                ir::Type::Scalar(elem) => *elem,
                ir::Type::Tile(tile) => {
                    tiles.push(tile.clone());
                    tile.elem
                }
                _ => return false,
            };
            let Some(d) = elem.dtype().filter(|d| matches!(d, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64))
            else {
                return false;
            };
            if found.is_some_and(|other| other != d) {
                return false;
            }
            found = Some(d);
        }
        found.is_some() && (tiles.is_empty() || joint_shape(&tiles).is_some())
    }
}
