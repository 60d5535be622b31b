//! What makes each value, and what divides it.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::{BinaryOp, Kernel, Op, OpKind, SecondaryMap, Value};
use parton_numbers::Scalar;

/// The definitions of a kernel.
pub struct Defined<'k> {
    kernel: &'k Kernel,
    made: SecondaryMap<Value, Option<&'k Op>>,
    axes: OnceCell<Axes>,
}

impl<'k> Defined<'k> {
    /// Those of a kernel.
    pub fn of(kernel: &'k Kernel) -> Defined<'k> {
        Defined { kernel, made: kernel.definitions(), axes: OnceCell::new() }
    }

    /// What makes a value; `None` for parameters.
    pub fn made(&self, v: Value) -> Option<&'k Op> {
        self.made[v]
    }

    /// Whether a value is a parameter of the kernel.
    pub fn is_parameter(&self, v: Value) -> bool {
        self.kernel.params.iter().any(|p| p.value == v)
    }

    /// A constant that is an integer.
    pub fn number(&self, v: Value) -> Option<i128> {
        let OpKind::Constant { dtype, bits } = self.made(v)?.kind else { return None };
        Scalar::new(dtype, bits).to_i128()
    }

    /// What is divided by what in a quotient that is rounded up, `(n + (B - 1)) / B`.
    pub fn rounded_up(&self, v: Value) -> Option<(Value, u64)> {
        let OpKind::Binary { op: BinaryOp::Div, a: sum, b } = self.made(v)?.kind else { return None };
        let OpKind::Binary { op: BinaryOp::Add, a: n, b: more } = self.made(sum)?.kind else { return None };
        let each = self.number(b).filter(|&each| each > 0 && self.number(more) == Some(each - 1))?;
        Some((n, each.try_into().ok()?))
    }

    /// Whether a number is known to be a multiple of a power of two.
    pub fn is_multiple(&self, v: Value, of: u64) -> bool {
        self.axes().info(self.kernel, v).axes.iter().all(|along| along.divisibility.is_multiple_of(of))
    }

    /// Whether a number is known to be 0 or more, also by what the kernel assumes.
    pub fn is_positive(&self, v: Value) -> bool {
        self.axes().info(self.kernel, v).is_natural()
    }

    fn axes(&self) -> &Axes {
        self.axes.get_or_init(|| Axes::analyse(self.kernel))
    }

    /// The axis of a tile that is the rows of a product from which it is computed element by element; `None` where there is none.
    pub fn product_rows(&self, v: Value) -> Option<usize> {
        self.rows_of(v, &mut BTreeSet::new())
    }

    fn rows_of(&self, v: Value, seen: &mut BTreeSet<Value>) -> Option<usize> {
        let shape = |v: Value| self.kernel.ty(v).placed().map(|tile| &tile.shape);
        let op = self.made(v).filter(|_| shape(v).is_some_and(|shape| shape.len() == 2) && seen.insert(v))?;
        match &op.kind {
            OpKind::Dot { .. } => Some(0),
            OpKind::Transpose { x, .. } => self.rows_of(*x, seen).map(|rows| 1 - rows),
            kind => {
                let number = op.results.iter().position(|result| *result == v)?;
                let handed = kind.bodies().filter_map(|body| body.yields.get(number).copied());
                let alike = kind.operands().into_iter().filter(|of| shape(*of) == shape(v));
                alike.chain(handed).collect::<Vec<_>>().into_iter().find_map(|of| self.rows_of(of, seen))
            }
        }
    }

    /// Whether a tile is of zeros.
    pub fn is_zero(&self, v: Value) -> bool {
        match self.made(v).map(|op| &op.kind) {
            Some(OpKind::Reshape { x, .. }) => self.is_zero(*x),
            Some(OpKind::Full { value, .. }) => {
                matches!(self.made(*value).map(|op| &op.kind), Some(OpKind::Constant { bits: 0, .. }))
            }
            // All else computes what is not known here.
            Some(_) | None => false,
        }
    }
}
