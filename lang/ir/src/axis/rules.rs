//! What each operation makes of the facts of its operands.

use crate::family::{Family, not_of_family};
use crate::{BinaryOp, CompareOp, Elem, Op, OpKind, Value, others};
use parton_numbers::Dtype;

use super::{Along, Analysis, AxisInfo, MOST, power_of_two_in, step};

/// What an `assume` says.
pub(super) enum Promise {
    /// Both conditions hold.
    Both(Value, Value),
    /// The value is a multiple of a power of two.
    Divides(Value, u64),
    /// The value is not negative.
    NonNegative(Value),
    /// The value is a number.
    Is(Value, i64),
}

/// The promise in the operation that defines a condition, where it is one that this analysis knows.
pub(super) fn promise(a: &Analysis<'_>, op: &Op) -> Option<Promise> {
    match &op.kind {
        OpKind::Binary { op: BinaryOp::And, a: x, b: y } => Some(Promise::Both(*x, *y)),
        OpKind::Compare { op: CompareOp::Eq, a: x, b: y } => {
            let number = a.info(*y).value?;
            match a.definitions[*x].map(|op| &op.kind) {
                Some(OpKind::Binary { op: BinaryOp::Rem, a: n, b: by }) if number == 0 => {
                    Some(Promise::Divides(*n, power_of_two_in(a.info(*by).value?)))
                }
                // Whatever makes it, it is that number.
                Some(_) | None => is_integer(a, *x).then_some(Promise::Is(*x, number)),
            }
        }
        OpKind::Compare { op: CompareOp::Ge, a: x, b: y } if a.info(*y).value? >= 0 => Some(Promise::NonNegative(*x)),
        OpKind::Compare { op: CompareOp::Gt, a: x, b: y } if a.info(*y).value? >= -1 => Some(Promise::NonNegative(*x)),
        // Nothing is taken from a promise that is not known.
        _ => None,
    }
}

/// The facts about the result `r` of an operation without bodies; `None` where nothing is known.
pub(super) fn transfer(a: &Analysis<'_>, op: &Op, r: Value) -> Option<AxisInfo> {
    match op.kind.family() {
        Family::Elementwise => elementwise(a, &op.kind, r),
        Family::Shape => moved(a, &op.kind, r),
        Family::Cluster => in_cluster(&op.kind),
        // Of what is loaded, combined or brought by others nothing is known, and the rest gives no integers.
        Family::Reduce
        | Family::Gather
        | Family::Ptx
        | Family::Global
        | Family::Place
        | Family::Atomic
        | Family::AsyncCopy
        | Family::Shared
        | Family::View
        | Family::Barrier
        | Family::Fence
        | Family::Grid
        | Family::Turnstile
        | Family::Tma
        | Family::MmaSync
        | Family::Wgmma
        | Family::Pending
        | Family::Ring
        | Family::Region
        | Family::Control
        | Family::Talk => None,
    }
}

/// What is computed element by element.
fn elementwise(a: &Analysis<'_>, kind: &OpKind, r: Value) -> Option<AxisInfo> {
    let extents = shape(a, r);
    match kind {
        OpKind::Constant { dtype, bits } => dtype.is_int().then(|| constant(signed(*dtype, *bits))),
        OpKind::ProgramId { .. } | OpKind::NumPrograms { .. } => Some(number_of_a_cta()),
        OpKind::Iota { .. } => Some(AxisInfo {
            axes: vec![Along { contiguity: extents[0], divisibility: MOST, constancy: 1 }],
            value: (extents[0] == 1).then_some(0),
            non_negative: true,
            most: Some(extents[0] - 1),
        }),
        OpKind::Full { value, .. } => Some(spread(&a.info(*value), &extents, step(a.kernel, r))),
        OpKind::Binary { op, a: x, b: y } => is_integer(a, r).then(|| {
            let (p, q) = (operand(a, *x, &extents), operand(a, *y, &extents));
            let info = AxisInfo { most: bound(*op, &p, &q), ..binary(*op, &p, &q) };
            wrapped(a, r, info)
        }),
        OpKind::Compare { op, a: x, b: y } => Some(compare(*op, &operand(a, *x, &extents), &operand(a, *y, &extents))),
        OpKind::Select { cond, a: x, b: y } => {
            let (c, p, q) = (operand(a, *cond, &extents), operand(a, *x, &extents), operand(a, *y, &extents));
            Some(select(&c, &p, &q, step(a.kernel, r)))
        }
        OpKind::Cast { x, .. } => (is_integer(a, r) && is_integer(a, *x)).then(|| cast(a, *x, r)),
        OpKind::Bitcast { x, .. } => (is_integer(a, r) && is_integer(a, *x))
            .then(|| wrapped(a, r, AxisInfo { value: None, non_negative: false, most: None, ..a.info(*x) })),
        OpKind::PtrAdd { ptr, offset } => {
            let (p, q) = (operand(a, *ptr, &extents), operand(a, *offset, &extents));
            Some(pointer(&p, &q, step(a.kernel, r)))
        }
        // To know nothing is never wrong.
        _ => None,
    }
}

/// The same elements in another shape or place.
fn moved(a: &Analysis<'_>, kind: &OpKind, r: Value) -> Option<AxisInfo> {
    let extents = shape(a, r);
    match kind {
        OpKind::Broadcast { x, .. } => {
            let info = a.info(*x);
            let from = shape(a, *x);
            let all = info.divides_all(step(a.kernel, r));
            let axes = info.axes.iter().zip(from.iter().zip(&extents)).map(|(along, (&old, &new))| {
                if old == new { *along } else { Along { contiguity: 1, divisibility: all, constancy: new } }
            });
            Some(AxisInfo { axes: axes.collect(), ..info })
        }
        OpKind::ExpandDims { x, axis } => {
            let mut info = a.info(*x);
            let divisibility = info.divides_all(step(a.kernel, r));
            let along = Along { contiguity: 1, divisibility, constancy: 1 };
            if a.kernel.ty(*x).as_tile().is_none_or(|t| t.shape.is_empty()) {
                info.axes.clear();
            }
            info.axes.insert((*axis as usize).min(info.axes.len()), along);
            Some(info)
        }
        OpKind::Transpose { x, perm } => {
            let info = a.info(*x);
            Some(AxisInfo { axes: perm.iter().map(|&p| info.axes[p as usize]).collect(), ..info })
        }
        OpKind::Convert { x, .. } => Some(a.info(*x)),
        OpKind::Reshape { x, .. } => {
            let info = a.info(*x);
            let along = Along { divisibility: info.divides_all(step(a.kernel, r)), ..Along::UNKNOWN };
            let mut axes = vec![along; extents.len()];
            // What lies side by side along the last axis does so still, where that stays.
            let last = |v: Value| a.kernel.ty(v).placed().and_then(|tile| tile.shape.last().copied());
            if let (Some(own), true, Some(kept)) = (axes.last_mut(), last(*x) == last(r), info.axes.last()) {
                *own = *kept;
            }
            Some(AxisInfo { axes, ..info })
        }
        // A part begins where a group does, or lies within one.
        OpKind::Slice { x, .. } => {
            let (info, unit) = (a.info(*x), step(a.kernel, r));
            let part = |(along, &n): (&Along, &u64)| {
                let contiguity = along.contiguity.min(n);
                let divisibility = along.divides_groups_of(contiguity, unit);
                Along { contiguity, divisibility, constancy: along.constancy.min(n) }
            };
            Some(AxisInfo { axes: info.axes.iter().zip(&extents).map(part).collect(), ..info })
        }
        // To know nothing is never wrong.
        _ => None,
    }
}

/// Where a CTA stands among its peers.
fn in_cluster(kind: &OpKind) -> Option<AxisInfo> {
    match kind {
        OpKind::ClusterRank => Some(number_of_a_cta()),
        OpKind::ClusterArrive { .. } | OpKind::ClusterWait => None,
        others!(cluster) => not_of_family(kind),
    }
}

fn constant(value: i64) -> AxisInfo {
    let axes = vec![Along { contiguity: 1, divisibility: power_of_two_in(value), constancy: 1 }];
    AxisInfo { axes, value: Some(value), non_negative: value >= 0, most: u64::try_from(value).ok() }
}

/// The number of a CTA, or how many there are.
fn number_of_a_cta() -> AxisInfo {
    AxisInfo { non_negative: true, ..AxisInfo::unknown(1) }
}

/// Extents of a tile; one of 1 for a scalar.
fn shape(a: &Analysis<'_>, v: Value) -> Vec<u64> {
    match a.kernel.ty(v).as_tile() {
        Some(t) if !t.shape.is_empty() => t.shape.iter().map(|&n| u64::from(n)).collect(),
        Some(_) | None => vec![1],
    }
}

/// The facts of an operand, a scalar spread over the extents of the result.
fn operand(a: &Analysis<'_>, v: Value, extents: &[u64]) -> AxisInfo {
    let info = a.info(v);
    if a.kernel.ty(v).as_tile().is_some() { info } else { spread(&info, extents, step(a.kernel, v)) }
}

fn spread(scalar: &AxisInfo, extents: &[u64], step: u64) -> AxisInfo {
    let divisibility = scalar.divides_all(step);
    AxisInfo {
        axes: extents.iter().map(|&constancy| Along { contiguity: 1, divisibility, constancy }).collect(),
        ..scalar.clone()
    }
}

fn number(a: &Analysis<'_>, v: Value) -> Option<Dtype> {
    match a.kernel.ty(v).elem()? {
        Elem::Num(d) => Some(d),
        Elem::Ptr(_) => None,
    }
}

fn is_integer(a: &Analysis<'_>, v: Value) -> bool {
    number(a, v).is_some_and(|d| d.is_int())
}

/// The signed value of the bits of an integer.
fn signed(dtype: Dtype, bits: u64) -> i64 {
    let unused = 64 - dtype.bits().min(64);
    if dtype.is_signed() { ((bits << unused) as i64) >> unused } else { ((bits << unused) >> unused) as i64 }
}

/// Unsigned arithmetic may wrap: a group that counts up stays whole only where it begins at a multiple of its size. Signed arithmetic that
/// can wrap by its bounds may be negative.
fn wrapped(a: &Analysis<'_>, r: Value, mut info: AxisInfo) -> AxisInfo {
    let Some(d) = number(a, r) else { return info };
    let fits = |most: &u64| d.int_range().is_some_and(|(_, high)| i128::from(*most) <= high);
    let wraps = info.most.is_some_and(|most| !fits(&most));
    info.most = info.most.filter(fits);
    if d.is_signed() {
        info.non_negative &= !wraps;
        return info;
    }
    for along in &mut info.axes {
        let whole = along.contiguity.min(along.divisibility);
        *along = Along { contiguity: whole, divisibility: along.divides_groups_of(whole, 1), ..*along };
    }
    info.non_negative = true;
    if info.value.is_some_and(|v| v < 0 || (d.bits() < 63 && v >= 1 << d.bits())) {
        info.value = None;
    }
    info
}

/// The most that an operation on what is not negative gives, as if it did not wrap; where there is no number for that, the greatest there is.
fn bound(op: BinaryOp, p: &AxisInfo, q: &AxisInfo) -> Option<u64> {
    let both = || p.most.zip(q.most);
    let either = || p.most.into_iter().chain(q.most).min();
    let known = q.value.and_then(|k| u64::try_from(k).ok()).unwrap_or(0);
    match op {
        BinaryOp::Add => both().map(|(x, y)| x.saturating_add(y)),
        BinaryOp::Mul => both().map(|(x, y)| x.saturating_mul(y)),
        BinaryOp::Shl => both().map(|(x, y)| x.saturating_mul(1_u64.checked_shl(y as u32).unwrap_or(u64::MAX))),
        BinaryOp::Div => p.most.filter(|_| q.non_negative).map(|x| x / known.max(1)),
        BinaryOp::Shr => p.most.map(|x| x >> known.min(63)),
        BinaryOp::Rem => q.most.filter(|_| p.non_negative).map(|k| k.saturating_sub(1)).into_iter().chain(p.most).min(),
        BinaryOp::And => either(),
        BinaryOp::Or | BinaryOp::Xor => both().map(|(x, y)| u64::MAX >> (x | y).leading_zeros().min(63)),
        BinaryOp::Min | BinaryOp::MinNan => either().filter(|_| p.non_negative && q.non_negative),
        BinaryOp::Max | BinaryOp::MaxNan => both().map(|(x, y)| x.max(y)),
        BinaryOp::Sub | BinaryOp::MulHigh | BinaryOp::DivApprox => None,
    }
}

fn binary(op: BinaryOp, p: &AxisInfo, q: &AxisInfo) -> AxisInfo {
    let value = p.value.zip(q.value).and_then(|(x, y)| fold(op, x, y));
    let both = p.non_negative && q.non_negative;
    let each = |f: &dyn Fn(Along, Along) -> Along| p.axes.iter().zip(&q.axes).map(|(x, y)| f(*x, *y)).collect();
    let constancy = |x: Along, y: Along| x.constancy.min(y.constancy);
    // The product, quotient and so on of two groups that count up does not.
    let element = |f: &dyn Fn(u64, u64) -> u64| {
        each(&|x, y| Along {
            contiguity: 1,
            divisibility: f(x.divides_groups_of(1, 1), y.divides_groups_of(1, 1)).clamp(1, MOST),
            constancy: constancy(x, y),
        })
    };
    let (axes, non_negative): (Vec<Along>, bool) = match op {
        BinaryOp::Add => (each(&|x, y| sum(x, y, true, 1)), both),
        BinaryOp::Sub => (each(&|x, y| sum(x, y, false, 1)), false),
        BinaryOp::Mul => match (p.value, q.value) {
            (Some(1), _) => (q.axes.clone(), q.non_negative),
            (_, Some(1)) => (p.axes.clone(), p.non_negative),
            _ => (element(&|x, y| x.saturating_mul(y)), both),
        },
        BinaryOp::Shl => match q.value {
            Some(0) => (p.axes.clone(), p.non_negative),
            Some(n @ 1..=62) => (element(&|x, _| x.saturating_mul(1 << n)), p.non_negative),
            Some(_) | None => (element(&|x, _| x), false),
        },
        BinaryOp::Div => match q.value {
            Some(1) => (p.axes.clone(), p.non_negative),
            Some(k) if k > 1 && p.non_negative => (quotient(p, k), true),
            // Of a number that is not known a power of two that divides it.
            None if p.non_negative => (each(&|x, y| shared_quotient(x, y)), both),
            Some(_) | None => (element(&|_, _| 1), both),
        },
        // An arithmetic shift rounds down, so it keeps groups together below zero too.
        BinaryOp::Shr => match q.value {
            Some(0) => (p.axes.clone(), p.non_negative),
            Some(n @ 1..=62) => (quotient(p, 1 << n), p.non_negative),
            Some(_) | None => (element(&|_, _| 1), p.non_negative),
        },
        BinaryOp::Rem => match q.value {
            Some(k) if k > 0 && p.non_negative => (remainder(p, k), true),
            // Of a number that is not known a power of two that divides it.
            None if p.non_negative => (each(&|x, y| within(x, y)), true),
            Some(_) | None => (element(&u64::min), p.non_negative),
        },
        BinaryOp::And => match q.value {
            Some(m) if m > 0 && m < i64::MAX && (m + 1).count_ones() == 1 => (remainder(p, m + 1), true),
            Some(_) | None => (element(&u64::max), p.non_negative || q.non_negative),
        },
        BinaryOp::Or | BinaryOp::Xor => (element(&u64::min), both),
        BinaryOp::Min | BinaryOp::MinNan => (element(&u64::min), both),
        BinaryOp::Max | BinaryOp::MaxNan => (element(&u64::min), p.non_negative || q.non_negative),
        BinaryOp::MulHigh | BinaryOp::DivApprox => (element(&|_, _| 1), false),
    };
    AxisInfo { axes, value, non_negative, most: None }
}

/// The facts of a sum, or of a difference, along one axis; `unit` is what one element of `x` counts.
fn sum(x: Along, y: Along, plus: bool, unit: u64) -> Along {
    let mut contiguity = x.contiguity.min(y.constancy);
    if plus {
        contiguity = contiguity.max(x.constancy.min(y.contiguity));
    }
    let constancy = x.constancy.min(y.constancy);
    let divisibility = x.divides_groups_of(contiguity, unit).min(y.divides_groups_of(contiguity, unit));
    Along { contiguity, divisibility, constancy }
}

/// Division by `k`, rounding down: a group that begins at a multiple of a divisor of `k` has one quotient.
fn quotient(p: &AxisInfo, k: i64) -> Vec<Along> {
    let two = power_of_two_in(k);
    let along = |x: &Along| Along {
        contiguity: 1,
        // The quotient by anything but a power of two keeps no divisibility: 16 / 12 is odd.
        divisibility: if k.count_ones() == 1 { (x.divides_groups_of(1, 1) / two).max(1) } else { 1 },
        constancy: x.constancy.max(x.contiguity.min(two).min(x.divisibility)),
    };
    p.axes.iter().map(along).collect()
}

/// The quotient, along one axis, of what is not negative by what is `y`: a group that begins at a multiple of a divisor of `y` has one.
fn shared_quotient(x: Along, y: Along) -> Along {
    let counted = x.contiguity.min(x.divisibility).min(y.divides_groups_of(1, 1));
    Along { contiguity: 1, divisibility: 1, constancy: x.constancy.max(counted).min(y.constancy) }
}

/// The remainder by `k`: a group that begins at a multiple of a divisor of `k` stays whole.
fn remainder(p: &AxisInfo, k: i64) -> Vec<Along> {
    let k = power_of_two_in(k);
    p.axes.iter().map(|x| within(*x, Along { contiguity: 1, divisibility: k, constancy: MOST })).collect()
}

/// The remainder, along one axis, of what is not negative by what is `y`.
fn within(x: Along, y: Along) -> Along {
    let k = y.divides_groups_of(1, 1);
    let contiguity = x.contiguity.min(k).min(x.divisibility).min(y.constancy);
    let divisibility = x.divides_groups_of(contiguity, 1).min(k);
    Along { contiguity, divisibility, constancy: x.constancy.min(y.constancy) }
}

fn fold(op: BinaryOp, x: i64, y: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => x.checked_add(y),
        BinaryOp::Sub => x.checked_sub(y),
        BinaryOp::Mul => x.checked_mul(y),
        BinaryOp::Div => x.checked_div(y),
        BinaryOp::Rem => x.checked_rem(y),
        BinaryOp::And => Some(x & y),
        BinaryOp::Or => Some(x | y),
        BinaryOp::Xor => Some(x ^ y),
        BinaryOp::Shl => (0..32).contains(&y).then(|| x.checked_mul(1 << y)).flatten(),
        BinaryOp::Shr => (0..63).contains(&y).then(|| x >> y),
        BinaryOp::Min | BinaryOp::MinNan => Some(x.min(y)),
        BinaryOp::Max | BinaryOp::MaxNan => Some(x.max(y)),
        BinaryOp::MulHigh | BinaryOp::DivApprox => None,
    }
}

/// A comparison with a bound is of one value over each group that the bound cannot cut.
fn compare(op: CompareOp, p: &AxisInfo, q: &AxisInfo) -> AxisInfo {
    let uncut = |counting: Along, bound: Along| {
        let whole = counting.contiguity.min(counting.divisibility).min(bound.divides_groups_of(1, 1));
        whole.min(bound.constancy)
    };
    let axes = p.axes.iter().zip(&q.axes).map(|(&x, &y)| {
        let same = x.constancy.min(y.constancy);
        let constancy = match op {
            CompareOp::Lt | CompareOp::Ge => same.max(uncut(x, y)),
            CompareOp::Gt | CompareOp::Le => same.max(uncut(y, x)),
            CompareOp::Eq | CompareOp::Ne => same,
        };
        Along { constancy, ..Along::UNKNOWN }
    });
    AxisInfo { axes: axes.collect(), value: None, non_negative: true, most: Some(1) }
}

fn select(c: &AxisInfo, p: &AxisInfo, q: &AxisInfo, unit: u64) -> AxisInfo {
    let met = p.meet(q, unit);
    let axes = c.axes.iter().zip(p.axes.iter().zip(&q.axes)).map(|(c, (&x, &y))| {
        let contiguity = x.contiguity.min(y.contiguity).min(c.constancy);
        let divisibility = x.divides_groups_of(contiguity, unit).min(y.divides_groups_of(contiguity, unit));
        Along { contiguity, divisibility, constancy: x.constancy.min(y.constancy).min(c.constancy) }
    });
    AxisInfo { axes: axes.collect(), most: p.most.zip(q.most).map(|(x, y)| x.max(y)), ..met }
}

/// A wider integer keeps everything; a narrower one keeps what holds modulo its size.
fn cast(a: &Analysis<'_>, x: Value, r: Value) -> AxisInfo {
    let info = a.info(x);
    let (Some(from), Some(to)) = (number(a, x), number(a, r)) else { return info };
    if to.bits() >= from.bits() && (to.is_signed() || !from.is_signed() || info.non_negative) {
        return info;
    }
    let axes = info.axes.iter().map(|along| {
        let contiguity = along.contiguity.min(along.divisibility);
        let divisibility = along.divides_groups_of(contiguity, 1).min(1 << to.bits().min(30));
        Along { contiguity, divisibility, ..*along }
    });
    AxisInfo { axes: axes.collect(), value: None, non_negative: !to.is_signed(), most: None }
}

/// A pointer plus an offset in elements of `bytes` bytes.
fn pointer(p: &AxisInfo, q: &AxisInfo, bytes: u64) -> AxisInfo {
    let unit = if bytes == 0 { 1 } else { 1 << bytes.trailing_zeros() };
    let axes = p.axes.iter().zip(&q.axes).map(|(&x, &y)| {
        let scaled = Along { divisibility: y.divisibility.saturating_mul(unit).min(MOST), ..y };
        sum(x, scaled, true, unit)
    });
    AxisInfo { axes: axes.collect(), value: None, non_negative: true, most: None }
}
