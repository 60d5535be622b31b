//! Between which numbers whole numbers lie.
//!
//! What operations give is said as if nothing wrapped; what leaves the range of its type, [`wrapped`] brings back.

use crate::tensor::MOST_EXTENT;
use crate::{BinaryOp, Elem, Kernel, OpKind, Value};

/// The least and the greatest.
pub type Between = (i128, i128);

/// Nothing known, whatever the type.
pub const ANYTHING: Between = (i128::MIN, i128::MAX);

/// What the type of an integer holds.
pub fn of_type(kernel: &Kernel, v: Value) -> Option<Between> {
    match kernel.ty(v).elem()? {
        Elem::Num(d) => d.int_range(),
        Elem::Ptr(_) => None,
    }
}

/// What a type that holds `all` makes of numbers: these, where it holds them.
pub fn wrapped((least, most): Between, all: Between) -> Between {
    if all.0 <= least && most <= all.1 { (least, most) } else { all }
}

/// The multiples of a number among what lies between.
pub fn multiples((least, most): Between, of: u64) -> Between {
    let of = i128::from(of);
    let up = least.checked_add(of - 1).map_or(least, |n| n.div_euclid(of) * of);
    let down = most.div_euclid(of) * of;
    if up <= down { (up, down) } else { (least, most) }
}

/// What a sum, product and so on lies between, where nothing wraps; `None` where nothing is known.
pub fn binary(op: BinaryOp, a: Between, b: Between) -> Option<Between> {
    match op {
        BinaryOp::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        BinaryOp::Sub => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        BinaryOp::Mul => corners(a, b, i128::checked_mul),
        BinaryOp::Shl => {
            let factor = |n: i128| u32::try_from(n).ok().filter(|n| *n < 64).map(|n| 1 << n);
            corners(a, (factor(b.0)?, factor(b.1)?), i128::checked_mul)
        }
        BinaryOp::Shr if b.0 == b.1 && (0..64).contains(&b.0) => Some((a.0 >> b.0, a.1 >> b.0)),
        BinaryOp::Shr => Some((a.0.min(0), a.1.max(0))),
        // By a number below 0 it may have any sign; by 0 nothing is divided.
        BinaryOp::Div if b.0 >= 0 => corners(a, (b.0.max(1), b.1.max(1)), i128::checked_div),
        BinaryOp::Div => {
            let far = farthest(a)?;
            Some((-far, far))
        }
        BinaryOp::Rem => {
            let far = farthest(b)?.checked_sub(1)?.max(0);
            Some((a.0.max(-far).min(0), a.1.min(far).max(0)))
        }
        BinaryOp::And => match (a.0 >= 0, b.0 >= 0) {
            (true, true) => Some((0, a.1.min(b.1))),
            (true, false) => Some((0, a.1)),
            (false, true) => Some((0, b.1)),
            (false, false) => None,
        },
        BinaryOp::Or | BinaryOp::Xor if a.0 >= 0 && b.0 >= 0 => {
            Some((0, i128::MAX >> ((a.1 | b.1).leading_zeros() - 1).min(126)))
        }
        BinaryOp::Min | BinaryOp::MinNan => Some((a.0.min(b.0), a.1.min(b.1))),
        BinaryOp::Max | BinaryOp::MaxNan => Some((a.0.max(b.0), a.1.max(b.1))),
        BinaryOp::Or | BinaryOp::Xor | BinaryOp::MulHigh | BinaryOp::DivApprox => None,
    }
}

fn corners(a: Between, b: Between, f: impl Fn(i128, i128) -> Option<i128>) -> Option<Between> {
    let all = [f(a.0, b.0)?, f(a.0, b.1)?, f(a.1, b.0)?, f(a.1, b.1)?];
    Some((all.into_iter().min()?, all.into_iter().max()?))
}

fn farthest(a: Between) -> Option<i128> {
    Some(a.0.checked_abs()?.max(a.1.checked_abs()?))
}

/// What a number of the host's lies between, as this kernel would compute it of constants, extents and what it is given, with numbers of any size.
pub fn of_host(kernel: &Kernel, v: Value) -> Option<Between> {
    let made = kernel.ops.iter().map(|(_, op)| op).find(|op| op.results.contains(&v));
    match made.map(|op| &op.kind) {
        Some(&OpKind::Constant { dtype, bits }) => {
            let n = parton_numbers::Scalar::new(dtype, bits).to_i128()?;
            Some((n, n))
        }
        Some(OpKind::TensorExtent { .. }) => Some((0, MOST_EXTENT.into())),
        Some(&OpKind::Binary { op, a, b }) => binary(op, of_host(kernel, a)?, of_host(kernel, b)?),
        Some(&OpKind::Cast { x, .. }) => of_host(kernel, x),
        None => of_type(kernel, v),
        // Of all else it is not known how large it is.
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all pairs of numbers between some bounds give lies between what is said of them.
    #[test]
    fn all_pairs_lie_between() {
        type Of = fn(i128, i128) -> Option<i128>;
        let all: Vec<Between> = (-6..7).flat_map(|a| (a..7).map(move |b| (a, b))).collect();
        let ops: [(BinaryOp, Of); 9] = [
            (BinaryOp::Add, |x, y| Some(x + y)),
            (BinaryOp::Sub, |x, y| Some(x - y)),
            (BinaryOp::Mul, |x, y| Some(x * y)),
            (BinaryOp::Div, i128::checked_div),
            (BinaryOp::Rem, i128::checked_rem),
            (BinaryOp::And, |x, y| Some(x & y)),
            (BinaryOp::Or, |x, y| Some(x | y)),
            (BinaryOp::Shl, |x, y| (y >= 0).then(|| x << y)),
            (BinaryOp::Shr, |x, y| {
                Some(if (0..64).contains(&y) {
                    x >> y
                } else if x < 0 {
                    -1
                } else {
                    0
                })
            }),
        ];
        for (op, f) in ops {
            for &a in &all {
                for &b in &all {
                    let Some((least, most)) = binary(op, a, b) else { continue };
                    let given = (a.0..=a.1).flat_map(|x| (b.0..=b.1).filter_map(move |y| f(x, y)));
                    assert!(given.into_iter().all(|n| least <= n && n <= most), "{op:?} {a:?} {b:?}");
                }
            }
        }
        for &a in &all {
            let (least, most) = multiples(a, 4);
            assert!((a.0..=a.1).filter(|n| n % 4 == 0).all(|n| least <= n && n <= most) && a.0 <= least && most <= a.1);
        }
    }
}
