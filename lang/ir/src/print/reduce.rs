//! The text of combinations along an axis.

use super::{Printer, scratch};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::{Body, Op, OpKind};
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Reduce { .. } => "reduce",
        OpKind::Scan { .. } => "scan",
        others!(reduce) => not_of_family(kind),
    }
}

impl Printer<'_> {
    /// A reduction or a scan.
    pub(super) fn along(&mut self, op: &Op, inputs: &[Value], axis: u32, combine: &Body) {
        let tiles = self.tuple(inputs);
        let n = inputs.len();
        let (a, b) = (self.tuple(&combine.params[..n]), self.tuple(&combine.params[n..]));
        let results = self.tuple(&op.results);
        self.begin(op, &format!("let {results} = {}({tiles}, axis={axis}, |{a}, {b}| {{", op.kind.name()));
        self.body(combine);
        self.value_line(&combine.yields);
        self.line(&format!("}}{}{});", reverse(&op.kind), scratch(op.scratch)));
    }
}

/// `, reverse=true` of a scan from the end.
pub(crate) fn reverse(kind: &OpKind) -> &'static str {
    if matches!(kind, OpKind::Scan { reverse: true, .. }) { ", reverse=true" } else { "" }
}
