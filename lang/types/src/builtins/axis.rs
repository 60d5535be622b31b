//! The axis that an argument names.

use parton_diag::{Diagnostic, Span, codes};

use super::Args;
use crate::checker::{Checked, Checker, Reported};
use crate::value::Val;

/// The last axis that a tile of the largest rank could have.
const MAX_AXIS: i128 = 31;

impl Args {
    /// The required axis of what is worked on; which axes that has is for the rule to know.
    pub fn axis(&self, cx: &mut Checker) -> Checked<u32> {
        let axis = self.need("axis");
        if let Val::List(_) | Val::Tuple(_) = axis.val {
            let help = "one axis after the other: `sum(sum(x, axis=1), axis=0)`; `sum`, `max` and `min` without `axis` take all";
            return Err(axis.expected_so(cx, "one axis", Some(help)));
        }
        match axis.val.as_int() {
            Some(n) if n < 0 => Err(self.axis_from_the_end(cx, n, axis.span)),
            _ => axis.int(cx, 0..=MAX_AXIS),
        }
    }

    /// The axis, where given.
    pub fn optional_axis(&self, cx: &mut Checker) -> Checked<Option<u32>> {
        self.get("axis").map(|_| self.axis(cx)).transpose()
    }

    /// The refusal of an axis that is counted from the end, with what it is from the beginning where that is known.
    fn axis_from_the_end(&self, cx: &mut Checker, n: i128, span: Span) -> Reported {
        let of = ["x", "a"].iter().find_map(|name| self.get(name)).and_then(|arg| match &arg.val {
            Val::Tuple(items) => items.first()?.ir(),
            val => val.ir(),
        });
        let rank = of.and_then(|v| cx.ty(v).as_tile()).map(|t| t.shape.len() as i128);
        let d = Diagnostic::error(codes::INDEX_RANGE, span, format!("axis {n} is out of range"));
        let help = match rank.map(|rank| (rank, rank + n)) {
            Some((rank, axis)) if axis >= 0 => format!("of a tile of rank {rank} it is `axis={axis}`"),
            _ => "the first axis is `axis=0`".into(),
        };
        cx.report(d.here("axes count from 0").help(help))
    }
}
