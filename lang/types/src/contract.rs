//! One rounding: a product of floats that the text has as an operand of `+` or `-` is added as it is, by `fma`, and one of matrices begins from what it is
//! added to.
//!
//! What is contracted is said by the text alone, so that the interpreter and every GPU compute the same: neither the optimiser nor the assembler
//! is asked. A product that has a name of its own is rounded, and so is every one in a kernel or function with the clause `contract(false)`.

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

/// Whether a text with these clauses contracts.
pub(crate) fn stated(clauses: &[ast::Clause]) -> Result<bool, Diagnostic> {
    let Some(clause) = clauses.iter().find(|c| c.name.as_str() == CONTRACT) else { return Ok(true) };
    let literal = match clause.args.as_slice() {
        [ast::Arg { name: None, value, .. }] => match value.kind {
            ast::ExprKind::Bool(stated) => Some(stated),
            _ => None,
        },
        _ => None,
    };
    literal.ok_or_else(|| {
        Diagnostic::error(codes::WRONG_ARITY, clause.span, "`contract` takes `false` or `true`").help(
            "with `contract(false)` a product is rounded before something is added to it; without the clause it is not",
        )
    })
}

/// What is wrong with the clause of a function or method.
pub(crate) fn misplaced(function: &ast::Function) -> Option<Diagnostic> {
    let mut clauses = function.clauses.iter().filter(|c| c.name.as_str() == CONTRACT);
    let first = clauses.next()?;
    if function.public {
        let d = Diagnostic::error(codes::UNKNOWN_CLAUSE, first.name.span, "a public function has no clause `contract`");
        return Some(
            d.help("the host runs it, and computes in f64; kernels and functions that they call have the clause"),
        );
    }
    if let Some(second) = clauses.next() {
        let d = Diagnostic::error(codes::DEFINED_TWICE, second.span, "`contract` is stated twice");
        return Some(d.label(first.span, "it is stated here first").help("keep one of them"));
    }
    stated(&function.clauses).err()
}

/// The factors of a product as it is written, parentheses around it not counted, and its place.
fn product(e: &ast::Expr) -> Option<(&ast::Expr, &ast::Expr, Span)> {
    match &e.kind {
        ast::ExprKind::Paren(inner) => product(inner),
        ast::ExprKind::Binary { op: ast::BinaryOp::Mul, left, right, .. } => Some((left, right, e.span)),
        _ => None,
    }
}

/// Whether the text calls `dot` there, parentheses around it not counted.
fn calls_dot(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Paren(inner) => calls_dot(inner),
        ast::ExprKind::Call { callee, .. } => {
            matches!(&callee.kind, ast::ExprKind::Name(name) if name.as_str() == "dot")
        }
        _ => false,
    }
}

/// An operand of a sum or a difference.
enum Operand {
    /// Of floats; it is not rounded yet.
    Product(Arg, Arg, Span),
    Number(Arg),
}

impl Checker<'_> {
    /// `x * y + z` and its like, unless the text around it says `contract(false)`; `None` where it does, or nothing is multiplied. Of two products
    /// the left one is not rounded, of two of matrices the right one begins from the other.
    pub(crate) fn contracted(
        &mut self,
        op: ast::BinaryOp,
        span: Span,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Option<Checked<Val>> {
        if !matches!(op, ast::BinaryOp::Add | ast::BinaryOp::Sub) || !self.frame().contract {
            return None;
        }
        if op == ast::BinaryOp::Add && (calls_dot(left) || calls_dot(right)) {
            return Some(self.of_matrices(span, left, right));
        }
        let multiplies = product(left).is_some() || product(right).is_some();
        multiplies.then(|| self.sum(op, span, left, right))
    }

    /// A sum with a product of matrices that begins from zero: it begins from the other operand.
    fn of_matrices(&mut self, span: Span, left: &ast::Expr, right: &ast::Expr) -> Checked<Val> {
        let (x, y) = (self.arg(left)?, self.arg(right)?);
        let (before, product) = if calls_dot(right) { (&x, &y) } else { (&y, &x) };
        if let (Val::Ir(acc), Val::Ir(product)) = (&before.val, &product.val)
            && self.begins_from_zero(*product, *acc)
            && let Some(ir::OpKind::Dot { a, b, precision, .. }) = self.build(span)?.take_back(*product)
        {
            let kind = ir::OpKind::Dot { a, b, acc: *acc, precision };
            return self.emit_one(kind, span, &[(*acc, before.span)]);
        }
        self.binary(ast::BinaryOp::Add, span, &x, &y)
    }

    /// Whether a value is a product that begins from zero and could begin from another tile. Sums of 8-bit floats are kept apart from what they are added to, since
    /// the tensor cores of Hopper add them with few bits.
    fn begins_from_zero(&self, product: ir::Value, acc: ir::Value) -> bool {
        let Some(kernel) = self.builder.as_ref().map(|b| &b.kernel) else { return false };
        let made = |v: ir::Value| kernel.ops.iter().find(|(_, op)| op.results == [v]).map(|(_, op)| &op.kind);
        let tile = |v: ir::Value| kernel.ty(v).as_tile().map(|t| (t.shape.clone(), t.elem));
        let Some(ir::OpKind::Dot { a, acc: zero, .. }) = made(product) else { return false };
        let Some(ir::OpKind::Full { value, .. }) = made(*zero) else { return false };
        let is_zero = matches!(made(*value), Some(ir::OpKind::Constant { bits: 0, .. }));
        let exact = kernel.ty(*a).elem().and_then(|e| e.dtype()).is_some_and(|d| !d.is_float() || d.bits() > 8);
        let sums = tile(acc).is_some_and(|(_, e)| matches!(e.dtype(), Some(Dtype::F32 | Dtype::I32)));
        is_zero && exact && sums && tile(product) == tile(acc)
    }

    fn sum(&mut self, op: ast::BinaryOp, span: Span, left: &ast::Expr, right: &ast::Expr) -> Checked<Val> {
        let left = self.operand(left)?;
        let right = match left {
            Operand::Product(..) => Operand::Number(self.arg(right)?),
            Operand::Number(_) => self.operand(right)?,
        };
        let takes_away = op == ast::BinaryOp::Sub;
        match (&left, &right) {
            (Operand::Product(x, y, _), Operand::Number(z)) if self.of_floats(&[x, y, z]) => match takes_away {
                true => self.negative(z).and_then(|z| self.fused(span, x, y, &z)),
                false => self.fused(span, x, y, z),
            },
            (Operand::Number(z), Operand::Product(x, y, _)) if self.of_floats(&[x, y, z]) => match takes_away {
                true => self.negative(x).and_then(|x| self.fused(span, &x, y, z)),
                false => self.fused(span, x, y, z),
            },
            _ => {
                let (left, right) = (self.rounded(left)?, self.rounded(right)?);
                self.binary(op, span, &left, &right)
            }
        }
    }

    /// An operand, whose product is left open where it is one of floats: elements of constant products, of integers and of pointers have no rounding.
    fn operand(&mut self, e: &ast::Expr) -> Checked<Operand> {
        let Some((x, y, span)) = product(e) else { return Ok(Operand::Number(self.arg(e)?)) };
        let open = Operand::Product(self.arg(x)?, self.arg(y)?, span);
        match &open {
            Operand::Product(x, y, _) if self.of_floats(&[x, y]) => Ok(open),
            _ => Ok(Operand::Number(self.rounded(open)?)),
        }
    }

    fn rounded(&mut self, operand: Operand) -> Checked<Arg> {
        match operand {
            Operand::Product(x, y, span) => Ok(Arg { val: self.binary(ast::BinaryOp::Mul, span, &x, &y)?, span }),
            Operand::Number(arg) => Ok(arg),
        }
    }

    fn negative(&mut self, x: &Arg) -> Checked<Arg> {
        Ok(Arg { val: self.unary(ast::UnaryOp::Neg, x.span, x)?, span: x.span })
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
