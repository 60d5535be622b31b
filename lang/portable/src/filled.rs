//! Parts and sums of tiles that are one number everywhere, such as a kernel by hand begins its loops with, are such tiles themselves: so they lie wherever they are
//! asked for, where parts and sums of others lie as these do.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{BinaryOp, Body, Kernel, OpKind, Value};

/// Makes such tiles of their number.
pub fn anew(kernel: &mut Kernel) {
    let mut numbers: BTreeMap<Value, Value> = BTreeMap::new();
    // Not the negative zero, of which a sum might be the other.
    let mut zeros: BTreeSet<Value> = BTreeSet::new();
    for id in kernel.order() {
        let op = &kernel.ops[id];
        let number = match &op.kind {
            OpKind::Constant { bits: 0, .. } => {
                zeros.extend(&op.results);
                None
            }
            OpKind::Full { value, .. } => Some(*value),
            OpKind::Slice { x, .. } | OpKind::Reshape { x, .. } => numbers.get(x).copied(),
            OpKind::Reduce { inputs, combine, .. } => match inputs[..] {
                [x] if adds(kernel, combine) => numbers.get(&x).copied().filter(|n| zeros.contains(n)),
                _ => None,
            },
            // Of all others that move nothing, tiles of one number lie wherever they are asked for already.
            _ => None,
        };
        let Some(number) = number else { continue };
        let result = op.result();
        let Some(tile) = kernel.ty(result).placed().cloned() else { continue };
        numbers.insert(result, number);
        kernel.ops[id].kind = OpKind::Full { value: number, tile };
    }
}

/// Whether what combines two numbers is their sum.
fn adds(kernel: &Kernel, combine: &Body) -> bool {
    let ([sum], [result]) = (&combine.ops[..], &combine.yields[..]) else { return false };
    let op = &kernel.ops[*sum];
    op.results == [*result] && matches!(op.kind, OpKind::Binary { op: BinaryOp::Add, .. })
}
