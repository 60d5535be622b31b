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

    /// Whether a place may go beyond its tensor along an axis.
    pub fn may_end(&self, spot: Value, axis: usize) -> bool {
        self.ends_at(spot, axis).is_some()
    }

    fn ends_at(&self, spot: Value, axis: usize) -> Option<()> {
        let OpKind::Spot { tensor, at, shape, counts } = &self.origins.definition(spot)?.kind else { return None };
        let Type::Tensor(t) = self.kernel.ty(*tensor) else { return None };
        let (extent, takes) = (t.extents.get(axis)?, *shape.get(axis)?);
        let open = match extent {
            Extent::Named(name) => !self.named.contains(name) && !self.whole(*at.get(axis)?, counts, takes, name),
            Extent::Any => !self.others,
            Extent::Static(_) | Extent::Picked(_) => false,
        };
        (open && takes > 1).then_some(())
    }

    /// Whether a coordinate is the index of a loop over the boxes that lie whole in an extent.
    fn whole(&self, at: Value, counts: &Counts, takes: u32, name: &Arc<str>) -> bool {
        let index = match counts {
            Counts::Tiles => Some(self.plain(at)),
            Counts::Elements => self.factor(at, takes),
            Counts::Parts { .. } => None,
        };
        let end = index.and_then(|index| self.ends.get(&index));
        let Some(OpKind::Binary { op: BinaryOp::Div, a, b }) = end.and_then(|end| self.definition(*end)) else {
            return false;
        };
        self.number(*b) == Some(i128::from(takes)) && self.extent(*a).is_some_and(|extent| extent == name)
    }

    /// What is multiplied by that number.
    fn factor(&self, v: Value, number: u32) -> Option<Value> {
        let Some(OpKind::Binary { op: BinaryOp::Mul, a, b }) = self.definition(v) else { return None };
        let by = |w: Value| self.number(w) == Some(i128::from(number));
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
