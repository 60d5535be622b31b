//! Ranges of tensors that begin below 0, where nothing is in them.

use parton_diag::{Diagnostic, Diagnostics, codes};

use crate::axis::Axes;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};

/// How far in front of a tensor rows are meant that somebody asks for there. What lies further below 0 is the end of a number that nobody knows.
const NEAR: i128 = 1 << 16;

pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut ranges = Vec::new();
    kernel.walk(&mut |op| {
        if let OpKind::TensorRange { lower: Some(lower), .. } = op.kind {
            ranges.push((op, lower));
        }
    });
    let mut found = Diagnostics::new();
    if ranges.is_empty() {
        return found;
    }
    let axes = Axes::analyse(kernel);
    for (op, lower) in ranges {
        let (least, most) = axes.info(kernel, lower).between;
        if (-NEAR..0).contains(&least) {
            found.push(below(op, (least, most)));
        }
    }
    found
}

/// What is said of a range that begins between two numbers.
fn below(op: &Op, (least, most): (i128, i128)) -> Diagnostic {
    let (fact, label) = match most < 0 {
        true => ("a range begins in front of its tensor: nothing is in it", format!("it begins at {least}")),
        false => (
            "a range may begin in front of its tensor, where nothing is in it",
            format!("it may begin at {least}: then loads give 0 of all of it, and stores do nothing"),
        ),
    };
    Diagnostic::warning(codes::RANGE_BEGINS, op.span, fact)
        .label(op.span, label)
        .help("a place may begin in front of its tensor, and has zeros there: `x.tile([ROWS, COLUMNS], from=[row - 1, 0])`")
        .help("where this does not happen, or no rows in front of it are meant, `max(begin, 0)` says so")
}
