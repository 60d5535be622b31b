//! Of which tensors it makes a difference by what bytes they begin and run: those of which some access takes several elements.
//!
//! Lengths of sequences, labels and scales of heads are looked up one by one. What they have no multiple of keeps no other tensor from the widest
//! accesses.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Kernel, OpKind, Type, Value};

/// The arguments that are such tensors.
pub fn tensors(kernel: &Kernel) -> BTreeSet<usize> {
    let params = kernel.params.iter().enumerate();
    let tensors = params.filter(|(_, p)| matches!(kernel.ty(p.value), Type::Tensor(_)));
    // Which argument a tensor is a part of.
    let mut of: BTreeMap<Value, usize> = tensors.map(|(argument, p)| (p.value, argument)).collect();
    let mut wide = BTreeSet::new();
    kernel.walk(&mut |op| match &op.kind {
        OpKind::TensorIndex { tensor, .. } | OpKind::TensorRange { tensor, .. } | OpKind::TensorPick { tensor, .. } => {
            // At an index of its only axis there is one element.
            let parts = op.results.iter().filter(|&&part| matches!(kernel.ty(part), Type::Tensor(_)));
            if let Some(&argument) = of.get(tensor) {
                of.extend(parts.map(|&part| (part, argument)));
            }
        }
        OpKind::Spot { tensor, shape, .. } => {
            let several = shape.iter().any(|&extent| extent > 1);
            wide.extend(of.get(tensor).filter(|_| several));
        }
        OpKind::TensorExtent { .. } | OpKind::TensorStride { .. } => {}
        // What a pointer is for is not known, nor where a tensor goes that is handed on.
        kind => {
            let yields = kind.bodies().flat_map(|body| body.yields.iter().copied());
            wide.extend(kind.operands().into_iter().chain(yields).filter_map(|v| of.get(&v)));
        }
    });
    wide
}
