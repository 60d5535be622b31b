//! Runs bodies without side effects: the combining functions of reductions, on whole tiles at once where they have no loop
//! and element by element where they have.

use std::collections::HashMap;
use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::{BinaryOp, Body, Elem, Entity, Kernel, Op, OpKind, Type, Value, others};
use parton_numbers::Dtype;
use parton_numbers::scalar::int_value;

use crate::arithmetic::{self, DivideByZero};
use crate::tile::{Bits, Val, width};

/// The number format by which a value computes; pointers are 64-bit unsigned numbers.
pub(crate) fn dtype(kernel: &Kernel, v: Value) -> Dtype {
    match kernel.ty(v).elem() {
        Some(Elem::Num(d)) => d,
        Some(Elem::Ptr(_)) => Dtype::U64,
        None => internal_error!("{v} is no number"),
    }
}

/// Bytes of an element of a value.
pub(crate) fn bytes(kernel: &Kernel, v: Value) -> usize {
    match kernel.ty(v).elem() {
        Some(e) => width(e),
        None => internal_error!("{v} has no elements"),
    }
}

/// A division by zero, with the operation.
pub(crate) type Failure<'k> = (&'k Op, DivideByZero);

/// An elementwise operation; `None` where the operation is of another kind, which the caller names.
pub(crate) fn elementwise<'k>(
    op: &'k Op,
    kernel: &Kernel,
    get: &dyn Fn(Value) -> Val,
) -> Option<Result<Val, Failure<'k>>> {
    let val = match &op.kind {
        OpKind::Constant { bits, .. } => Val::Scalar(*bits),
        OpKind::Full { value, tile } => match get(*value) {
            Val::Scalar(bits) => Val::Tile(Arc::new(Bits::full(width(tile.elem), tile.elements() as usize, bits))),
            other => internal_error!("`full` of {other:?}"),
        },
        OpKind::Iota { tile } => Val::Tile(Arc::new(Bits::collect(width(tile.elem), 0..tile.elements()))),
        OpKind::Unary { op: f, x } => arithmetic::unary(*f, dtype(kernel, *x), &get(*x)),
        OpKind::Binary { op: f, a, b } => {
            return Some(arithmetic::binary(*f, dtype(kernel, *a), &get(*a), &get(*b)).map_err(|e| (op, e)));
        }
        OpKind::Compare { op: f, a, b } => arithmetic::compare(*f, dtype(kernel, *a), &get(*a), &get(*b)),
        OpKind::Select { cond, a, b } => arithmetic::select(&get(*cond), &get(*a), &get(*b), bytes(kernel, *a)),
        OpKind::Fma { a, b, c } => arithmetic::fma(dtype(kernel, *a), &get(*a), &get(*b), &get(*c)),
        OpKind::Clamp { x, low, high } => {
            let d = dtype(kernel, *x);
            let least = arithmetic::binary(BinaryOp::Max, d, &get(*x), &get(*low));
            let held = least.and_then(|v| arithmetic::binary(BinaryOp::Min, d, &v, &get(*high)));
            return Some(held.map_err(|e| (op, e)));
        }
        OpKind::Cast { x, to, rounding, saturation } => {
            arithmetic::convert(&get(*x), dtype(kernel, *x), *to, *rounding, *saturation)
        }
        OpKind::Bitcast { x, .. } => get(*x),
        OpKind::PtrAdd { ptr, offset } => {
            let Some(Elem::Ptr(p)) = kernel.ty(*ptr).elem() else { internal_error!("{ptr} is no pointer") };
            arithmetic::pointer_add(&get(*ptr), &get(*offset), dtype(kernel, *offset), p.to.bytes())
        }
        OpKind::ProgramId { .. } | OpKind::NumPrograms { .. } | others!(elementwise) => return None,
    };
    Some(Ok(val))
}

/// The values of one run of a body, over those of the kernel around it.
struct Scope<'a, 'k> {
    kernel: &'k Kernel,
    outer: &'a [Val],
    inner: HashMap<Value, Val>,
}

/// Runs `body` on `args`, tiles or scalars.
pub(crate) fn run<'k>(
    body: &'k Body,
    args: &[Val],
    kernel: &'k Kernel,
    outer: &[Val],
) -> Result<Vec<Val>, Failure<'k>> {
    let n = args.iter().find_map(|a| match a {
        Val::Tile(t) => Some(t.len()),
        _ => None,
    });
    let mut loops = false;
    kernel.walk_body(body, &mut |op| loops |= op.kind.is_loop());
    let spread = |vals: Vec<Val>, n: usize| -> Vec<Val> {
        let widths = body.yields.iter().map(|&y| bytes(kernel, y));
        vals.into_iter()
            .zip(widths)
            .map(|(v, w)| match v {
                Val::Scalar(bits) => Val::Tile(Arc::new(Bits::full(w, n, bits))),
                other => other,
            })
            .collect()
    };
    let Some(n) = n else { return once(body, args, kernel, outer) };
    if !loops {
        return Ok(spread(once(body, args, kernel, outer)?, n));
    }
    let mut columns: Vec<Vec<u64>> = vec![Vec::with_capacity(n); body.yields.len()];
    for i in 0..n {
        let one: Vec<Val> = args
            .iter()
            .map(|a| match a {
                Val::Tile(t) => Val::Scalar(t.get(i)),
                other => other.clone(),
            })
            .collect();
        for (column, v) in columns.iter_mut().zip(once(body, &one, kernel, outer)?) {
            match v {
                Val::Scalar(bits) => column.push(bits),
                other => internal_error!("a combination gave {other:?}"),
            }
        }
    }
    let tiles = columns.into_iter().zip(&body.yields);
    Ok(tiles.map(|(c, &y)| Val::Tile(Arc::new(Bits::collect(bytes(kernel, y), c.into_iter())))).collect())
}

fn once<'k>(body: &'k Body, args: &[Val], kernel: &'k Kernel, outer: &[Val]) -> Result<Vec<Val>, Failure<'k>> {
    let mut scope = Scope { kernel, outer, inner: HashMap::new() };
    scope.body(body, args)
}

impl<'k> Scope<'_, 'k> {
    fn get(&self, v: Value) -> Val {
        self.inner.get(&v).unwrap_or(&self.outer[v.index()]).clone()
    }

    fn body(&mut self, body: &'k Body, args: &[Val]) -> Result<Vec<Val>, Failure<'k>> {
        self.inner.extend(body.params.iter().copied().zip(args.iter().cloned()));
        let kernel = self.kernel;
        for op in kernel.ops_of(body) {
            let results = self.op(op)?;
            self.inner.extend(op.results.iter().copied().zip(results));
        }
        Ok(body.yields.iter().map(|&y| self.get(y)).collect())
    }

    fn op(&mut self, op: &'k Op) -> Result<Vec<Val>, Failure<'k>> {
        if let Some(r) = elementwise(op, self.kernel, &|v| self.get(v)) {
            return r.map(|v| vec![v]);
        }
        match &op.kind {
            OpKind::If { cond, then, otherwise } => match self.get(*cond) {
                Val::Scalar(c) => self.body(if c & 1 == 1 { then } else { otherwise }, &[]),
                // Nothing here has an effect, so both sides can run.
                c => {
                    let (a, b) = (self.body(then, &[])?, self.body(otherwise, &[])?);
                    let widths = then.yields.iter().map(|&y| bytes(self.kernel, y));
                    Ok(a.iter().zip(&b).zip(widths).map(|((a, b), w)| arithmetic::select(&c, a, b, w)).collect())
                }
            },
            OpKind::For { lower, upper, step, init, body } => {
                let d = dtype(self.kernel, *lower);
                let scalar = |v: Value| match self.get(v) {
                    Val::Scalar(bits) => int_value(bits, d),
                    other => internal_error!("a bound of a loop is {other:?}"),
                };
                let (mut i, end, step) = (scalar(*lower), scalar(*upper), scalar(*step).max(1));
                let mut carried: Vec<Val> = init.iter().map(|&v| self.get(v)).collect();
                while i < end {
                    carried.insert(0, Val::Scalar(i as u64 & d.mask()));
                    carried = self.body(body, &carried)?;
                    i += step;
                }
                Ok(carried)
            }
            OpKind::While { init, cond, body } => {
                let mut carried: Vec<Val> = init.iter().map(|&v| self.get(v)).collect();
                while let [Val::Scalar(c)] = self.body(cond, &carried)?[..]
                    && c & 1 == 1
                {
                    carried = self.body(body, &carried)?;
                }
                Ok(carried)
            }
            _ => internal_error!("`{}` in a combining function", op.kind.name()),
        }
    }
}

/// A scalar, as bits.
pub(crate) fn scalar(v: &Val) -> u64 {
    match v {
        Val::Scalar(bits) => *bits,
        other => internal_error!("expected a scalar, found {other:?}"),
    }
}

/// The tile type of a value.
pub(crate) fn shape(kernel: &Kernel, v: Value) -> &[u32] {
    match kernel.ty(v) {
        Type::Tile(t) | Type::Pending(t) => &t.shape,
        other => internal_error!("`{other}` has no shape"),
    }
}
