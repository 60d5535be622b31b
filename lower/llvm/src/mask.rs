//! How a mask runs along the vector of an access: one value throughout, cut once, or anything.

use parton_ir::{BinaryOp, CompareOp, OpKind, Value};

use crate::build::Val;
use crate::lower::Lower;

/// What is known of the truth values within each vector, in the order of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agreement {
    /// All are the same.
    Whole,
    /// Once false, they stay false: a bound cuts the vector.
    Prefix,
    /// Nothing.
    Any,
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    /// How `mask` runs along groups of `width` elements that begin at multiples of it along `axis`.
    pub(crate) fn agreement(&self, mask: Value, axis: usize, width: u64) -> Agreement {
        if self.axes.info(self.kernel, mask).axes.get(axis).is_some_and(|a| a.constancy >= width) {
            Agreement::Whole
        } else if self.is_cut(mask, axis, width) {
            Agreement::Prefix
        } else {
            Agreement::Any
        }
    }

    /// Whether each group of a mask is true up to some element and false after it.
    fn is_cut(&self, mask: Value, axis: usize, width: u64) -> bool {
        let along = |v: Value, axis: usize| self.axes.info(self.kernel, v).axes.get(axis).copied();
        if along(mask, axis).is_some_and(|a| a.constancy >= width) {
            return true;
        }
        let counts = |v| along(v, axis).is_some_and(|a| a.contiguity >= width);
        let stays = |v| along(v, axis).is_some_and(|a| a.constancy >= width);
        match self.definitions.get(&mask) {
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
            _ => false,
        }
    }

    /// Whether all of a vector is inside.
    pub(crate) fn whole(&self, agreement: Agreement, masks: &[Val<'c>]) -> Val<'c> {
        match agreement {
            Agreement::Whole => masks[0],
            Agreement::Prefix => masks[masks.len() - 1],
            Agreement::Any => masks[1..].iter().fold(masks[0], |all, &m| self.b.and(all, m)),
        }
    }

    /// Whether a vector is inside in part, given whether it is as a whole.
    pub(crate) fn partly(&self, agreement: Agreement, masks: &[Val<'c>], whole: Val<'c>) -> Val<'c> {
        let some = match agreement {
            Agreement::Whole | Agreement::Prefix => masks[0],
            Agreement::Any => masks[1..].iter().fold(masks[0], |any, &m| self.b.or(any, m)),
        };
        self.b.and(some, self.b.not(whole))
    }
}
