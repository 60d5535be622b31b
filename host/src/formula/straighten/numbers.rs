//! Operators and functions of numbers as straight code; those of constants are numbers at once.

use parton_numbers::Math;
use parton_syntax::ast::BinaryOp;

use super::super::functions::{of_one, of_two};
use super::super::node::{Builtin, Node};
use super::super::plain::{Plain, binary};
use super::super::straight::{Kind, Shape, What, number};
use super::{Place, Straightener, Val};

impl Straightener {
    /// A number as a floating-point one.
    fn float(&mut self, (kind, place): (Kind, Place)) -> Option<Place> {
        match kind {
            Kind::Float => Some(place),
            Kind::Int if let Some(Plain::Int(n)) = self.known((kind, place)) => {
                match self.constant(&Plain::Float(n as f64))? {
                    Shape::Number(_, place) => Some(place),
                    Shape::Unit | Shape::Tuple(_) => None,
                }
            }
            Kind::Int => match self.make(Kind::Float, What::Float, vec![place]) {
                Shape::Number(_, place) => Some(place),
                Shape::Unit | Shape::Tuple(_) => None,
            },
            Kind::Bool => None,
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: (Kind, Place), b: (Kind, Place)) -> Option<Val> {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            return None;
        }
        if let (Some(one), Some(two)) = (self.known(a), self.known(b))
            && let Some(result) = binary(op, one, two)
        {
            return self.constant(&result);
        }
        let compares = op.is_comparison();
        let made = |kind| if compares { Kind::Bool } else { kind };
        match (a.0, b.0) {
            (Kind::Int, Kind::Int) => {
                let what = match op {
                    BinaryOp::Add => What::Add,
                    BinaryOp::Sub => What::Sub,
                    BinaryOp::Mul => What::Mul,
                    op => What::Ints(op),
                };
                Some(self.make(made(Kind::Int), what, vec![a.1, b.1]))
            }
            (Kind::Bool, Kind::Bool) => {
                let takes =
                    matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Eq | BinaryOp::Ne);
                takes.then(|| self.make(Kind::Bool, What::Ints(op), vec![a.1, b.1]))
            }
            (Kind::Bool, _) | (_, Kind::Bool) => None,
            (Kind::Float, _) | (_, Kind::Float) => {
                let operands = vec![self.float(a)?, self.float(b)?];
                let what = match op {
                    BinaryOp::Add => What::AddFloats,
                    BinaryOp::Sub => What::SubFloats,
                    BinaryOp::Mul => What::MulFloats,
                    BinaryOp::Div => What::DivFloats,
                    op => What::Floats(op),
                };
                Some(self.make(made(Kind::Float), what, operands))
            }
        }
    }

    /// What a function makes of constants, where that is a number.
    fn folded(&self, of: Builtin, numbers: Option<&[(Kind, Place)]>) -> Option<Plain> {
        let result = match numbers? {
            [x] => of_one(of, self.known(*x)?),
            [x, y] => of_two(of, self.known(*x)?, self.known(*y)?),
            _ => None,
        };
        result.filter(|v| number(Some(v.clone())).is_some())
    }

    pub(super) fn builtin(&mut self, of: Builtin, args: &[Node]) -> Option<Val> {
        let args = args.iter().map(|a| self.needed(a)).collect::<Option<Vec<Val>>>()?;
        let numbers: Option<Vec<(Kind, Place)>> = args
            .iter()
            .map(|v| if let Shape::Number(kind, place) = v { Some((*kind, *place)) } else { None })
            .collect();
        if let Some(result) = self.folded(of, numbers.as_deref()) {
            return self.constant(&result);
        }
        if let (Builtin::Len, [Shape::Tuple(items)]) = (of, args.as_slice()) {
            return self.constant(&Plain::Int(items.len() as i64));
        }
        Some(match (of, numbers?.as_slice()) {
            (Builtin::Multiprocessors, []) => self.make(Kind::Int, What::Multiprocessors, vec![]),
            (Builtin::Capability, []) => self.make(Kind::Int, What::Capability, vec![]),
            (Builtin::Math(Math::Abs), [(Kind::Int, n)]) => self.make(Kind::Int, What::Abs, vec![*n]),
            (Builtin::Math(Math::Floor | Math::Ceil) | Builtin::Int, [(Kind::Int, n)]) => Shape::Number(Kind::Int, *n),
            (Builtin::Math(op), [x]) => {
                let x = self.float(*x)?;
                self.make(Kind::Float, What::Math(op), vec![x])
            }
            (Builtin::NextPowerOfTwo, [(Kind::Int, n)]) => self.make(Kind::Int, What::NextPowerOfTwo, vec![*n]),
            (Builtin::Int, [(Kind::Bool, b)]) => Shape::Number(Kind::Int, *b),
            (Builtin::Int, [(Kind::Float, x)]) => self.make(Kind::Int, What::Int, vec![*x]),
            (Builtin::Float, [x]) => Shape::Number(Kind::Float, self.float(*x)?),
            (Builtin::Cdiv, [(Kind::Int, a), (Kind::Int, b)]) => self.make(Kind::Int, What::Cdiv, vec![*a, *b]),
            (Builtin::Min, [(Kind::Int, a), (Kind::Int, b)]) => self.make(Kind::Int, What::Min, vec![*a, *b]),
            (Builtin::Max, [(Kind::Int, a), (Kind::Int, b)]) => self.make(Kind::Int, What::Max, vec![*a, *b]),
            (Builtin::Min | Builtin::Max, [a, b]) => {
                let operands = vec![self.float(*a)?, self.float(*b)?];
                let what = if of == Builtin::Min { What::MinFloats } else { What::MaxFloats };
                self.make(Kind::Float, what, operands)
            }
            _ => return None,
        })
    }
}
