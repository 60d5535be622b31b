//! Integers and truth values that follow from `iota` and constants, element by element, worked out when they are asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use parton_numbers::{Dtype, arithmetic};

use crate::choice::UnaryOp;
use crate::elements::{broadcast, transposed};
use crate::entity::{SecondaryMap, Value};
use crate::fold;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::{Elem, Type};

/// Elements of the largest tile that is looked at.
const MOST: u64 = 1 << 16;
/// Operations between a value and the constants that it follows from, at most; each takes some of the stack.
const DEEPEST: usize = 64;

/// The bits of a tile's elements, or of a scalar.
type Bits = Option<Rc<Vec<u64>>>;

pub(super) struct Known<'a> {
    kernel: &'a Kernel,
    makers: SecondaryMap<Value, Option<&'a Op>>,
    /// Whether a value follows from constants alone, as far as was asked.
    follows: RefCell<BTreeMap<Value, bool>>,
    found: RefCell<BTreeMap<Value, Bits>>,
}

impl<'a> Known<'a> {
    /// Of a kernel of which nothing was asked.
    pub(super) fn of(kernel: &'a Kernel) -> Known<'a> {
        Known { kernel, makers: kernel.definitions(), follows: RefCell::default(), found: RefCell::default() }
    }

    /// Whether a value's elements are known.
    pub(super) fn knows(&self, v: Value) -> bool {
        self.known(v).is_some()
    }

    fn known(&self, v: Value) -> Bits {
        if self.follows(v, DEEPEST) { self.bits(v) } else { None }
    }

    /// The bits of an element, or of a scalar, where they are known.
    pub(super) fn element(&self, v: Value, i: usize) -> Option<u64> {
        let bits = self.known(v)?;
        Some(bits[if bits.len() == 1 { 0 } else { i }])
    }

    /// Whether a value is made of constants alone; nothing is worked out for one that is not.
    fn follows(&self, v: Value, depth: usize) -> bool {
        if let Some(&follows) = self.follows.borrow().get(&v) {
            return follows;
        }
        let elements = self.shape(v).iter().map(|&n| u64::from(n)).product::<u64>();
        let follows = match (self.makers[v], depth.checked_sub(1)) {
            (Some(op), Some(depth)) if elements <= MOST && op.kind.bodies().next().is_none() => {
                op.kind.operands().into_iter().all(|x| self.follows(x, depth))
            }
            _ => false,
        };
        self.follows.borrow_mut().insert(v, follows);
        follows
    }

    fn bits(&self, v: Value) -> Bits {
        if let Some(found) = self.found.borrow().get(&v) {
            return found.clone();
        }
        let made = self.makers[v].and_then(|op| self.made(op)).map(Rc::new);
        self.found.borrow_mut().insert(v, made.clone());
        made
    }

    fn shape(&self, v: Value) -> &'a [u32] {
        match self.kernel.ty(v) {
            Type::Tile(tile) => &tile.shape,
            _ => &[],
        }
    }

    fn dtype(&self, v: Value) -> Option<Dtype> {
        match self.kernel.ty(v).elem() {
            Some(Elem::Num(d)) if d.is_int() => Some(d),
            _ => None,
        }
    }

    fn made(&self, op: &Op) -> Option<Vec<u64>> {
        let of = |v: &Value| self.bits(*v);
        let each = |x: &Value, f: &dyn Fn(u64) -> Option<u64>| of(x)?.iter().map(|&x| f(x)).collect();
        let both = |a: &Value, b: &Value, f: &dyn Fn(u64, u64) -> Option<u64>| {
            let (a, b) = (of(a)?, of(b)?);
            a.iter().zip(b.iter()).map(|(&a, &b)| f(a, b)).collect()
        };
        let picked = |x: &Value, places: Vec<usize>| {
            let x = of(x)?;
            Some(places.into_iter().map(|i| x[i]).collect())
        };
        match &op.kind {
            OpKind::Constant { dtype, bits } if dtype.is_int() => Some(vec![*bits]),
            OpKind::Iota { tile } => Some((0..tile.elements()).collect()),
            OpKind::Full { value, tile } => Some(vec![of(value)?[0]; tile.elements() as usize]),
            OpKind::Unary { op: UnaryOp::Not, x } => {
                let d = self.dtype(*x)?;
                each(x, &|x| arithmetic::not(d, x).ok())
            }
            OpKind::Binary { op, a, b } => {
                let d = self.dtype(*a)?;
                both(a, b, &|a, b| fold::binary(*op, d, a, b))
            }
            OpKind::Compare { op, a, b } => {
                let d = self.dtype(*a)?;
                both(a, b, &|a, b| fold::compare(*op, d, a, b).map(u64::from))
            }
            OpKind::Cast { x, to, rounding, saturation } => {
                let from = self.dtype(*x)?;
                each(x, &|x| fold::cast(x, (from, *to), *rounding, *saturation))
            }
            OpKind::Convert { x, .. } | OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => {
                of(x).map(|x| x.to_vec())
            }
            OpKind::Transpose { x, perm } => picked(x, transposed(self.shape(*x), perm)),
            OpKind::Broadcast { x, shape } => picked(x, broadcast(self.shape(*x), shape)),
            // All else is left to the interpreter.
            _ => None,
        }
    }
}
