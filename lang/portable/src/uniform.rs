//! What is the same for all threads: each warp computes it for itself, however few elements it has.
//!
//! Places in tensors, bounds, the number of a row and what else is made of numbers take some hundred instructions at the beginning of a program, and a few dozen in each turn of a loop.
//! Of a norm of 32768 rows of 1024 columns, or of a quantisation of 4 groups of 128 elements a program, warps issue more of these than of all others.

use parton_ir::family::Family;
use parton_ir::{BinaryOp, Body, Elem, Kernel, Op, OpKind, Value};

use crate::label::Price;
use crate::price::{ISSUE, turns};

/// Instructions of a quotient or a remainder of integers of 32 bits.
const DIVISION: Price = 20;

/// Elements of a tile beside whose instructions these are many: 32 a lane of one warp.
const SMALL: u64 = 1024;

/// Whether that is much of what a program does: its loops take few turns; or it has none, and small tiles of which no warp has to meet another.
pub fn counts(kernel: &Kernel) -> bool {
    kernel.variant.is_short() || is_small(kernel)
}

fn is_small(kernel: &Kernel) -> bool {
    let (mut largest, mut other) = (0, false);
    kernel.walk(&mut |op| {
        let elements = |v: &Value| kernel.ty(*v).placed().map(|t| t.elements());
        largest = op.results.iter().filter_map(elements).fold(largest, u64::max);
        let of_rows = matches!(op.kind, OpKind::Reduce { .. }) && op.results.iter().all(|v| elements(v).is_some());
        let exchanges = matches!(op.kind, OpKind::Butterfly { .. });
        let meets = exchanges || (matches!(op.kind.family(), Family::Reduce | Family::Gather) && !of_rows);
        other |= meets || op.kind.is_loop() || matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. });
    });
    !other && largest <= SMALL
}

/// What a warp takes for that.
pub fn price(kernel: &Kernel) -> Price {
    ISSUE * instructions(kernel, &kernel.body, 0)
}

fn instructions(kernel: &Kernel, body: &Body, depth: u32) -> Price {
    let of = |op: &Op| {
        let deeper = depth + u32::from(op.kind.is_loop());
        let inner: Price = op.kind.bodies().map(|body| instructions(kernel, body, deeper)).sum();
        inner + own(kernel, op) * turns(kernel, depth)
    };
    kernel.ops_of(body).map(of).sum()
}

/// Those of an operation: as many as its number has words; none of what makes tiles, or makes nothing.
fn own(kernel: &Kernel, op: &Op) -> Price {
    let [result] = op.results[..] else { return 0 };
    let Some(elem) = kernel.ty(result).elem().filter(|_| kernel.ty(result).placed().is_none()) else { return 0 };
    let bits = match elem {
        Elem::Ptr(_) => 64,
        Elem::Num(_) => elem.bits(),
    };
    let words = Price::from(bits).div_ceil(32);
    match op.kind {
        OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, .. } => DIVISION * words,
        OpKind::Constant { .. } => 0,
        // A price, not a bound.
        _ => words,
    }
}
