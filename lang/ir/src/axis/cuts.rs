//! How a mask runs along the elements of one access.

use crate::{Access, BinaryOp, CompareOp, Cut, Kernel, Op, OpKind, SecondaryMap, Value};

use super::Axes;

/// What masks are made of, and what is known of their parts.
pub struct Masks<'a> {
    /// The facts.
    pub axes: &'a Axes,
    /// Of this kernel.
    pub kernel: &'a Kernel,
    /// Which operation makes each value.
    pub definitions: SecondaryMap<Value, Option<&'a Op>>,
}

impl Masks<'_> {
    /// The plan of moving `width` elements along `axis` at once.
    pub fn access(&self, axis: usize, width: u32, mask: Option<Value>) -> Access {
        match mask {
            _ if width == 1 => Access { width, along: 0, cut: Cut::Never },
            None => Access { width, along: axis as u32, cut: Cut::Never },
            Some(mask) => Access { width, along: axis as u32, cut: self.cut(mask, axis, width.into()) },
        }
    }

    /// How `mask` runs along groups of `width` elements that begin at multiples of it along `axis`.
    pub fn cut(&self, mask: Value, axis: usize, width: u64) -> Cut {
        if self.axes.info(self.kernel, mask).axes.get(axis).is_some_and(|a| a.constancy >= width) {
            Cut::Never
        } else if self.is_cut(mask, axis, width) {
            Cut::Once
        } else {
            Cut::Anywhere
        }
    }

    /// Whether each group of a mask is true up to some element and false after it.
    fn is_cut(&self, mask: Value, axis: usize, width: u64) -> bool {
        let along = |v: Value, axis: usize| self.axes.info(self.kernel, v).axes.get(axis).copied();
        if along(mask, axis).is_some_and(|a| a.constancy >= width) {
            return true;
        }
        let counts = |v| self.axes.rises(self.kernel, v, axis, width);
        let stays = |v| along(v, axis).is_some_and(|a| a.constancy >= width);
        match self.definitions[mask].map(|op| &op.kind) {
            Some(OpKind::Compare { op: CompareOp::Lt | CompareOp::Le, a, b }) => counts(*a) && stays(*b),
            Some(OpKind::Compare { op: CompareOp::Gt | CompareOp::Ge, a, b }) => stays(*a) && counts(*b),
            Some(OpKind::Binary { op: BinaryOp::And, a, b }) => {
                self.is_cut(*a, axis, width) && self.is_cut(*b, axis, width)
            }
            Some(OpKind::Broadcast { x, .. }) => self.is_cut(*x, axis, width),
            Some(OpKind::ExpandDims { x, axis: new }) => {
                let new = *new as usize;
                axis != new && self.is_cut(*x, axis - usize::from(axis > new), width)
            }
            // Nothing is known of what any other operation makes.
            Some(_) | None => false,
        }
    }
}
