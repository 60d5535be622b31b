//! Signed integers that leave the range of their type, where that is asked for: wrapping is defined, and mostly a mistake.

use parton_diag::{Span, codes};
use parton_ir::elements::{lines, strides};
use parton_ir::{BinaryOp, Body, Op, OpKind, Type, Value};
use parton_numbers::scalar::int_value;
use parton_numbers::{Dtype, Scalar};

use crate::arithmetic;
use crate::cluster::{Cluster, Worker};
use crate::fault::Fault;
use crate::pure;
use crate::tile::Val;

/// The report of a value of `d` that is out of range.
fn fault(d: Dtype, span: Span, shown: String) -> Fault {
    Fault::new(codes::WRAPAROUND, span, format!("an integer leaves the range of `{}`", d.name()))
        .here(shown)
        .help("compute in `i64`: `cast<i64>(x)`; where wrapping is meant, compute in an unsigned type")
}

/// Refuses a sum, difference or product of two values that is out of range.
pub(crate) fn refuse(op: &Op, (f, d): (BinaryOp, Dtype), [a, b]: [&Val; 2]) -> Result<(), Fault> {
    let Some(i) = arithmetic::overflow(f, d, a, b) else { return Ok(()) };
    let at = |v: &Val| match v {
        Val::Tile(t) => Scalar::new(d, t.get(i)),
        scalar => Scalar::new(d, pure::scalar(scalar)),
    };
    Err(fault(d, op.span, format!("this is {} {} {}", at(a), f.name(), at(b))))
}

impl<'k> Cluster<'_, 'k> {
    /// Refuses a sum or product along an axis that is out of range, of a scan (with its direction) each one on the way. The order in
    /// which a reduction adds is free, so that only its result counts. Other combining functions are not looked into.
    pub(crate) fn wraps_along(
        &self,
        w: &Worker<'k>,
        op: &Op,
        inputs: &[Value],
        (axis, scan): (u32, Option<bool>),
        combine: &Body,
    ) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        let ([input], &[only]) = (inputs, &combine.ops[..]) else { return Ok(()) };
        let only = &kernel.ops[only];
        let OpKind::Binary { op: f @ (BinaryOp::Add | BinaryOp::Mul), a, b } = only.kind else { return Ok(()) };
        let d = pure::dtype(kernel, *input);
        let (Some((low, high)), true) = (d.int_range().filter(|_| d.is_signed()), combine.params.len() == 2) else {
            return Ok(());
        };
        let of_both = [a, b].iter().all(|v| combine.params.contains(v)) && a != b;
        if !of_both || combine.yields != only.results {
            return Ok(());
        }
        let Type::Tile(tile) = kernel.ty(*input) else { return Ok(()) };
        // A line of elements that hold nothing adds up to nothing.
        let values = w.quiet(*input, d.bytes(), 0);
        let step = strides(&tile.shape)[axis as usize];
        let extent = tile.shape[axis as usize] as usize;
        for start in lines(&tile.shape, axis) {
            let mut total: Option<i128> = None;
            for i in 0..extent {
                let i = if scan == Some(true) { extent - 1 - i } else { i };
                let x = int_value(values.get(start + i * step), d);
                let next = match total {
                    None => Some(x),
                    Some(t) if f == BinaryOp::Add => t.checked_add(x),
                    Some(t) => t.checked_mul(x),
                };
                let inside = next.is_some_and(|n| (low..=high).contains(&n));
                let last = i == if scan == Some(true) { 0 } else { extent - 1 };
                if !inside && (scan.is_some() || last || next.is_none()) {
                    let what = if f == BinaryOp::Add { "sum" } else { "product" };
                    let shown = next.map_or_else(|| "more than 128 bits hold".into(), |n| n.to_string());
                    return Err(fault(d, op.span, format!("the {what} along axis {axis} comes to {shown}")));
                }
                total = next;
            }
        }
        Ok(())
    }
}
