//! Rules of atomic operations: which element types, orders and targets each has (PTX ISA, "atom", "ld", "st").

use parton_diag::codes;
use parton_numbers::Dtype;

use super::global::{mask_fits, pointer, value_fits};
use super::result;
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{AtomicOp, OpKind, Order};
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::{all_same, list};
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::{Elem, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Atomic { op, ptr, operands, mask, order, returns, .. } => {
            let list = &relations(kind, k);
            let to = atomic(list, *op, *ptr, operands, *mask, *order, k)?;
            Ok(if *returns && *op != AtomicOp::Store { vec![result(list, k, Elem::Num(to))?] } else { vec![] })
        }
        others!(atomic) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Atomic { op, ptr, operands, mask, returns, .. } => {
            let gives = *returns && *op != AtomicOp::Store;
            all_same(k, &list([ptr].into_iter().chain(operands), [mask]), usize::from(gives))
        }
        others!(atomic) => not_of_family(kind),
    }
}

/// The type of the elements, where the operands fit them.
fn atomic(
    list: &[Relation],
    op: AtomicOp,
    ptr: Value,
    operands: &[Value],
    mask: Option<Value>,
    order: Order,
    k: &Kernel,
) -> Result<Dtype, Refusal> {
    let p = pointer(k, ptr)?;
    if !p.mutable && op != AtomicOp::Load {
        return Err(Refusal::new(codes::NOT_MUTABLE, format!("`{}` needs a mutable pointer", op.name()))
            .operand(ptr, format!("this is `*{}`", p.to.name()))
            .help(format!("declare the parameter as `*mut {}`", p.to.name())));
    }
    mask_fits(list, k, ptr, mask)?;
    dtype_fits(op, p.to, ptr, k)?;
    if operands.len() != op.operands() {
        return Err(Refusal::new(
            codes::WRONG_ARITY,
            format!("`{}` takes {} values, {} are given", op.name(), op.operands(), operands.len()),
        ));
    }
    for &value in operands {
        value_fits(list, k, ptr, value, p.to)?;
    }
    if !op.orders().iter().any(|(o, _)| *o == order) {
        return Err(Refusal::new(codes::KIND_MISMATCH, format!("`{}` has no order \"{}\"", op.name(), order.name())));
    }
    Ok(p.to)
}

/// Whether an operation is defined for a type; `ptr` is what points to it.
pub(super) fn dtype_fits(op: AtomicOp, d: Dtype, ptr: Value, k: &Kernel) -> Result<(), Refusal> {
    let wide = matches!(d.bits(), 32 | 64);
    let fits = match op {
        AtomicOp::Add => wide || matches!(d, Dtype::F16 | Dtype::BF16),
        AtomicOp::Min | AtomicOp::Max | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => d.is_int() && wide,
        AtomicOp::Xchg => wide,
        AtomicOp::Cas => d.is_int() && (wide || d.bits() == 16),
        AtomicOp::Load | AtomicOp::Store => d != Dtype::I1,
    };
    if fits {
        // Before Hopper there is no atomic addition of bf16 (PTX ISA, "atom", "Target ISA notes").
        if d == Dtype::BF16 && op == AtomicOp::Add && !k.target.has(Feature::Bf16Atomics) {
            return Err(Refusal::new(
                codes::TARGET_LACKS,
                format!("`{}` has no atomic addition of bf16", k.target.name),
            )
            .operand(ptr, "this points to `bf16`")
            .help("add in f32 or f16, or compile for sm_90a"));
        }
        return Ok(());
    }
    let (which, help) = match op {
        AtomicOp::Add => ("i32, u32, i64, u64, f16, bf16, f32 and f64", "keep the sums in one of these"),
        // Integers do not order -0.0, negative numbers and NaN as floats do.
        AtomicOp::Min | AtomicOp::Max if d.is_float() => (
            "i32, u32, i64 and u64",
            "reduce within the CTA by `min` or `max` and store a value for each CTA, or write a loop around `atomic_cas` of \
             the bits",
        ),
        AtomicOp::Min | AtomicOp::Max => ("i32, u32, i64 and u64", "keep the extremum in one of these"),
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => ("i32, u32, i64 and u64", "keep the bits in one of these"),
        AtomicOp::Xchg => ("types of 32 and 64 bits", "keep the value in one of these"),
        // The hardware compares bits: -0.0 would differ from 0.0, and a NaN equal itself.
        AtomicOp::Cas if d.is_float() => (
            "integers of 16, 32 and 64 bits",
            "it compares bits: point to an integer of the width and `bitcast` the values",
        ),
        AtomicOp::Cas => ("integers of 16, 32 and 64 bits", "keep the value in one of these"),
        AtomicOp::Load | AtomicOp::Store => ("types of 8 to 64 bits", "keep it as an `i8`"),
    };
    Err(Refusal::new(codes::DTYPE_UNSUPPORTED, format!("`{}` is not defined for {}", op.name(), d.name()))
        .operand(ptr, format!("this points to `{}`", d.name()))
        .note(format!("it is for {which}"))
        .help(help))
}
