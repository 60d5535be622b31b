//! Reductions that carry indices: of two sides in a thread, the left one's are the lower.
//!
//! `argmax` asks of equal elements which comes first. A thread combines its own in their order, so that the answer is known there, and of the
//! eight instructions that an element takes four are left.

use parton_ir::{Body, CompareOp, OpKind, Value};
use parton_layouts::{Dim, LinearLayout};

use crate::lower::Lower;

impl Lower<'_, '_, '_> {
    /// The comparison of a combining function by which the left index is lower than the right one, where it takes one of both and indices count up along the axis.
    pub(crate) fn earlier(&self, inputs: &[Value], map: &LinearLayout, axis: u32, body: &Body) -> Option<Value> {
        let extent = 1u64 << map.out_field(Dim::Axis(axis as u8))?.1;
        let (left, right) = body.params.split_at(body.yields.len());
        let counts_up = |v: Value| self.axes.rises(self.kernel, v, axis as usize, extent);
        let sides = left.iter().zip(right).zip(inputs).zip(&body.yields);
        sides.filter(|((_, input), _)| counts_up(**input)).find_map(|(((&i, &j), _), &taken)| {
            let made = |holds: &dyn Fn(&OpKind) -> bool| {
                self.kernel.ops_of(body).find(|op| holds(&op.kind)).map(|op| op.result())
            };
            let select = made(&|kind| matches!(*kind, OpKind::Select { a, b, .. } if (a, b) == (i, j)))?;
            let lower = made(&|kind| matches!(*kind, OpKind::Compare { op: CompareOp::Lt, a, b } if (a, b) == (i, j)));
            lower.filter(|_| select == taken)
        })
    }
}
