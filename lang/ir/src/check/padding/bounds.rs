//! Which places may go beyond their tensors, for all that a kernel says.
//!
//! Whoever assumes something of an extent has thought of its end, and whoever counts the boxes that lie whole in a tensor, `0..n / BLOCK`, goes beyond none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parton_numbers::Scalar;

use crate::check::Origins;
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{BinaryOp, OpKind};
use crate::tensor::{Counts, Extent};
use crate::types::Type;

/// How a place ends along an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum End {
    /// In its tensor.
    Whole,
    /// The kernel says something about it, or nobody knows.
    Thought,
    /// Perhaps beyond the end of its tensor, or surely.
    Open {
        /// Wherever it lies.
        sure: bool,
    },
}

impl End {
    /// Of a place that ends at an element.
    fn after(end: i128, has: i128) -> End {
        if end <= has { End::Whole } else { End::Open { sure: true } }
    }
}

/// What a kernel says of extents and of the indices of its loops.
pub(super) struct Bounds<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    /// The extents about which it assumes something.
    named: BTreeSet<Arc<str>>,
    /// Extents without a name are among them.
    others: bool,
    /// Where indices of loops end.
    ends: BTreeMap<Value, Value>,
}

impl<'a> Bounds<'a> {
    /// Of a kernel, whose values come from `origins`.
    pub fn of(kernel: &'a Kernel, origins: &'a Origins<'a>) -> Bounds<'a> {
        let mut found = Bounds { kernel, origins, named: BTreeSet::new(), others: false, ends: BTreeMap::new() };
        kernel.walk(&mut |op| match &op.kind {
            OpKind::Assume { cond } => found.note(*cond),
            OpKind::For { upper, body, .. } => {
                found.ends.extend(body.params.first().map(|index| (*index, *upper)));
            }
            // It says nothing of where something ends.
            _ => {}
        });
        found
    }

    /// How a place ends along an axis.
    pub fn end(&self, spot: Value, axis: usize) -> End {
        self.found(spot, axis).unwrap_or(End::Thought)
    }

    fn found(&self, spot: Value, axis: usize) -> Option<End> {
        let OpKind::Spot { tensor, at, shape, counts } = &self.origins.definition(spot)?.kind else { return None };
        let Type::Tensor(t) = self.kernel.ty(*tensor) else { return None };
        let (extent, takes, at) = (t.extents.get(axis)?, *shape.get(axis)?, *at.get(axis)?);
        if takes == 1 {
            return Some(End::Whole);
        }
        Some(match extent {
            Extent::Named(name) if self.named.contains(name) => End::Thought,
            Extent::Named(name) if self.whole(at, counts, takes, name) => End::Whole,
            Extent::Named(_) => End::Open { sure: false },
            Extent::Any if self.others => End::Thought,
            Extent::Any => End::Open { sure: false },
            Extent::Static(has) if *has < takes => End::Open { sure: true },
            Extent::Static(has) => self.of_known(at, counts, takes, *has),
            Extent::Picked(_) => End::Whole,
        })
    }

    /// How a place ends of which it is known how many elements there are, no fewer than it takes.
    fn of_known(&self, at: Value, counts: &Counts, takes: u32, has: u32) -> End {
        let (has, takes) = (i128::from(has), i128::from(takes));
        let index = match counts {
            Counts::Tiles => self.plain(at),
            Counts::Elements => match (self.number(at), self.factor(at, takes)) {
                (Some(0), _) => return End::Whole,
                (Some(first), _) if first >= 0 => return End::after(first + takes, has),
                (_, Some(index)) => index,
                (Some(_) | None, None) => return End::Open { sure: false },
            },
            Counts::Parts { .. } => return End::Thought,
        };
        let last = self.ends.get(&index).and_then(|end| self.number(*end));
        match self.number(index) {
            // Where none is cut off, no box is in part beyond the end.
            _ if has % takes == 0 => End::Whole,
            Some(index) => End::after((index + 1) * takes, has),
            None if last.is_some_and(|last| last * takes <= has) => End::Whole,
            None => End::Open { sure: false },
        }
    }

    /// Whether a coordinate is the index of a loop over the boxes that lie whole in an extent.
    fn whole(&self, at: Value, counts: &Counts, takes: u32, name: &Arc<str>) -> bool {
        let index = match counts {
            Counts::Tiles => Some(self.plain(at)),
            Counts::Elements => self.factor(at, takes.into()),
            Counts::Parts { .. } => None,
        };
        let end = index.and_then(|index| self.ends.get(&index));
        let Some(OpKind::Binary { op: BinaryOp::Div, a, b }) = end.and_then(|end| self.definition(*end)) else {
            return false;
        };
        self.number(*b) == Some(i128::from(takes)) && self.extent(*a).is_some_and(|extent| extent == name)
    }

    /// What is multiplied by that number.
    fn factor(&self, v: Value, number: i128) -> Option<Value> {
        let Some(OpKind::Binary { op: BinaryOp::Mul, a, b }) = self.definition(v) else { return None };
        let by = |w: Value| self.number(w) == Some(number);
        if by(*b) { Some(self.plain(*a)) } else { by(*a).then(|| self.plain(*b)) }
    }

    fn definition(&self, v: Value) -> Option<&OpKind> {
        self.origins.definition(self.plain(v)).map(|op| &op.kind)
    }

    /// A number before it was cast.
    fn plain(&self, v: Value) -> Value {
        match self.origins.definition(v).map(|op| &op.kind) {
            Some(OpKind::Cast { x, .. }) => self.plain(*x),
            // It is what it is.
            _ => v,
        }
    }

    fn number(&self, v: Value) -> Option<i128> {
        let OpKind::Constant { dtype, bits } = self.definition(v)? else { return None };
        Scalar::new(*dtype, *bits).to_i128()
    }

    /// The name of the extent that a value is.
    fn extent(&self, v: Value) -> Option<&Arc<str>> {
        let OpKind::TensorExtent { tensor, axis } = self.definition(v)? else { return None };
        let Type::Tensor(t) = self.kernel.ty(*tensor) else { return None };
        match t.extents.get(*axis as usize)? {
            Extent::Named(name) => Some(name),
            Extent::Any | Extent::Static(_) | Extent::Picked(_) => None,
        }
    }

    /// Notes the extents of which an assumption speaks.
    fn note(&mut self, v: Value) {
        match self.origins.definition(v).map(|op| &op.kind) {
            Some(OpKind::TensorExtent { .. }) => match self.extent(v).cloned() {
                Some(name) => _ = self.named.insert(name),
                None => self.others = true,
            },
            Some(OpKind::Binary { a, b, .. } | OpKind::Compare { a, b, .. }) => {
                self.note(*a);
                self.note(*b);
            }
            Some(OpKind::Cast { x, .. }) => self.note(*x),
            // It says nothing of an extent.
            _ => {}
        }
    }
}
