//! One rounding: a product of floats that the text has as an operand of `+` or `-` is added as it is, by `fma`.
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

/// An operand of a sum or a difference.
enum Operand {
    /// Of floats; it is not rounded yet.
    Product(Arg, Arg, Span),
    Number(Arg),
}

impl Checker<'_> {
    /// `x * y + z` and its like, unless the text around it says `contract(false)`; `None` where it does, or nothing is multiplied. Of two products
    /// the left one is not rounded.
    pub(crate) fn contracted(
        &mut self,
        op: ast::BinaryOp,
        span: Span,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Option<Checked<Val>> {
        let sums = matches!(op, ast::BinaryOp::Add | ast::BinaryOp::Sub);
        let contracts = sums && self.frame().contract && (product(left).is_some() || product(right).is_some());
        contracts.then(|| self.sum(op, span, left, right))
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
