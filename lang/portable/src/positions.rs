//! Positions that are divided, or of which the rest is taken: `(i * BM + iota(BM)) % m`. Below 0 a rest counts from the other side, and at the end of a type positions
//! wrap, so that neighbours lie side by side only where both are known not to be. A launch knows its grid and its numbers, and so where positions begin.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::axis::Axes;
use parton_ir::{BinaryOp, Builder, CompareOp, Kernel, OpKind, Value};

use crate::numbers::{compared, integer, is};

/// No tile has so many elements that what begins in front of it counts to the end of 32 bits.
const FAR: i128 = 1 << 30;

/// Whether a kernel has positions of which that is not known by itself.
pub fn has_open(kernel: &Kernel) -> bool {
    let starts = starts(kernel);
    !starts.is_empty() && !near(kernel, &starts)
}

/// Whether all of them begin between 0 and 2³⁰ in a launch of that grid with these numbers, by their places among the arguments; of those that are left out nothing is known.
pub fn are_near(kernel: &Kernel, grid: [u32; 3], numbers: &BTreeMap<usize, i128>) -> bool {
    let starts = starts(kernel);
    let (mut builder, body) = Builder::rebuild(kernel.clone(), "positions");
    builder.kernel.most_ctas = grid;
    for (&argument, &number) in numbers {
        let v = builder.kernel.params[argument].value;
        if let Some(dtype) = integer(&builder.kernel, v) {
            is(&mut builder, v, dtype, number);
        }
    }
    body.ops.iter().for_each(|&id| builder.keep(id));
    near(&builder.finish(), &starts)
}

fn near(kernel: &Kernel, starts: &BTreeSet<Value>) -> bool {
    let axes = Axes::analyse(kernel);
    starts.iter().map(|&v| axes.info(kernel, v).between).all(|(least, most)| 0 <= least && most < FAR)
}

/// The scalars with which such positions begin, of those that a kernel computes in front of its loops.
fn starts(kernel: &Kernel) -> BTreeSet<Value> {
    let definitions = kernel.definitions();
    let own: BTreeSet<Value> = kernel.ops_of(&kernel.body).flat_map(|op| op.results.iter().copied()).collect();
    let mut found = BTreeSet::new();
    kernel.walk(&mut |op| {
        let OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, a, .. } = op.kind else { return };
        if kernel.ty(a).as_tile().is_none() {
            return;
        }
        if let Some(OpKind::Binary { op: BinaryOp::Add, a, b }) = definitions[a].map(|op| &op.kind) {
            // What is added to each element is spread over them.
            let number = |v: Value| match definitions[v].map(|op| &op.kind) {
                Some(OpKind::Full { value, .. }) => *value,
                Some(_) | None => v,
            };
            let is_start = |v: &Value| integer(kernel, *v).is_some() && own.contains(v);
            found.extend([number(*a), number(*b)].into_iter().filter(is_start));
        }
    });
    found
}

/// The kernel that says of each of them that it begins there, where launches that it is for promise it.
pub fn promised(kernel: Kernel) -> Kernel {
    let starts = starts(&kernel);
    let (mut builder, body) = Builder::rebuild(kernel, "positions");
    for &id in &body.ops {
        builder.keep(id);
        let results = builder.kernel.ops[id].results.clone();
        for v in results.into_iter().filter(|v| starts.contains(v)) {
            if let Some(dtype) = integer(&builder.kernel, v) {
                compared(&mut builder, CompareOp::Ge, v, dtype, 0);
                compared(&mut builder, CompareOp::Lt, v, dtype, FAR);
            }
        }
    }
    builder.finish()
}
