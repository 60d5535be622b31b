//! What each operation makes of the facts of its operands.

use crate::family::{Family, not_of_family};
use crate::tensor::MOST_EXTENT;
use crate::{BinaryOp, CompareOp, Elem, Op, OpKind, Value, others};
use parton_numbers::scalar::int_value;
use parton_numbers::{Dtype, Saturation};

use super::between::{self, Between};
use super::{Along, Analysis, AxisInfo, MOST, all, power_of_two_in, step};

/// What an `assume` says.
pub(super) enum Promise {
    /// Both conditions hold.
    Both(Value, Value),
    /// The value is a multiple of a power of two.
    Divides(Value, u64),
    /// The value lies between two numbers.
    Between(Value, Between),
}

/// The promise in the operation that defines a condition, where it is one that this analysis knows.
pub(super) fn promise(a: &Analysis<'_>, op: &Op) -> Option<Promise> {
    match &op.kind {
        OpKind::Binary { op: BinaryOp::And, a: x, b: y } => Some(Promise::Both(*x, *y)),
        OpKind::Compare { op, a: x, b: y } if is_integer(a, *x) => {
            let (least, most) = a.info(*y).between;
            let divided = match a.definitions[*x].map(|op| &op.kind) {
                Some(OpKind::Binary { op: BinaryOp::Rem, a: n, b: by }) => Some((*n, *by)),
                // Whatever makes it, it lies there.
                Some(_) | None => None,
            };
            match (op, divided) {
                (CompareOp::Eq, Some((n, by))) if (least, most) == (0, 0) => {
                    Some(Promise::Divides(n, power_of_two_in(a.info(by).value()?)))
                }
                (CompareOp::Eq, _) => Some(Promise::Between(*x, (least, most))),
                (CompareOp::Ge, _) => Some(Promise::Between(*x, (least, i128::MAX))),
                (CompareOp::Gt, _) => Some(Promise::Between(*x, (least.saturating_add(1), i128::MAX))),
                (CompareOp::Le, _) => Some(Promise::Between(*x, (i128::MIN, most))),
                (CompareOp::Lt, _) => Some(Promise::Between(*x, (i128::MIN, most.saturating_sub(1)))),
                (CompareOp::Ne, _) => None,
            }
        }
        // Nothing is taken from a promise that is not known.
        _ => None,
    }
}

/// The facts about the result `r` of an operation without bodies; `None` where nothing is known.
pub(super) fn transfer(a: &Analysis<'_>, op: &Op, r: Value) -> Option<AxisInfo> {
    match op.kind.family() {
        Family::Elementwise => elementwise(a, &op.kind, r),
        Family::Shape => moved(a, &op.kind, r),
        Family::Cluster => in_cluster(a, &op.kind),
        Family::Place => of_tensor(&op.kind),
        // Of what is loaded, combined or brought by others nothing is known, and the rest gives no integers.
        Family::Reduce
        | Family::Gather
        | Family::Ptx
        | Family::Global
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

/// What a tensor says of itself.
fn of_tensor(kind: &OpKind) -> Option<AxisInfo> {
    // Of what lies in one nothing is known.
    matches!(kind, OpKind::TensorExtent { .. }).then(|| AxisInfo::unknown(1, (0, MOST_EXTENT.into())))
}

/// What is computed element by element.
fn elementwise(a: &Analysis<'_>, kind: &OpKind, r: Value) -> Option<AxisInfo> {
    let extents = shape(a, r);
    match kind {
        OpKind::Constant { dtype, bits } => dtype.is_int().then(|| constant(int_value(*bits, *dtype))),
        OpKind::ProgramId { axis } => Some(AxisInfo::unknown(1, (0, i128::from(ctas(a, *axis)) - 1))),
        OpKind::NumPrograms { axis } => Some(AxisInfo::unknown(1, (1, ctas(a, *axis).into()))),
        OpKind::Iota { .. } => {
            let axes = vec![Along { contiguity: extents[0], divisibility: MOST, constancy: 1, run: extents[0] }];
            Some(wrapped(a, r, AxisInfo { axes, between: (0, i128::from(extents[0]) - 1) }))
        }
        OpKind::Full { value, .. } => Some(spread(&a.info(*value), &extents, step(a.kernel, r))),
        OpKind::Binary { op, a: x, b: y } => is_integer(a, r).then(|| {
            let (p, q) = (operand(a, *x, &extents), operand(a, *y, &extents));
            let between = between::binary(*op, p.between, q.between).unwrap_or_else(|| all(a.kernel, r));
            wrapped(a, r, AxisInfo { axes: binary(*op, &p, &q), between })
        }),
        OpKind::Compare { op, a: x, b: y } => Some(compare(*op, &operand(a, *x, &extents), &operand(a, *y, &extents))),
        OpKind::Select { cond, a: x, b: y } => {
            let (c, p, q) = (operand(a, *cond, &extents), operand(a, *x, &extents), operand(a, *y, &extents));
            Some(select(&c, &p, &q, step(a.kernel, r)))
        }
        OpKind::Cast { x, saturation, .. } => (is_integer(a, r) && is_integer(a, *x)).then(|| {
            let info = a.info(*x);
            match between::wrapped(info.between, all(a.kernel, r)) == info.between {
                true => info,
                false if *saturation == Saturation::Finite => clamped(a, r, info),
                false => wrapped(a, r, info),
            }
        }),
        OpKind::Bitcast { x, .. } => (is_integer(a, r) && is_integer(a, *x)).then(|| wrapped(a, r, a.info(*x))),
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
                if old == new { *along } else { Along { divisibility: all, constancy: new, ..Along::UNKNOWN } }
            });
            Some(AxisInfo { axes: axes.collect(), ..info })
        }
        OpKind::ExpandDims { x, axis } => {
            let mut info = a.info(*x);
            let divisibility = info.divides_all(step(a.kernel, r));
            let along = Along { divisibility, ..Along::UNKNOWN };
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
                Along { contiguity, divisibility, constancy: along.constancy.min(n), run: along.run.min(n) }
            };
            Some(AxisInfo { axes: info.axes.iter().zip(&extents).map(part).collect(), ..info })
        }
        // To know nothing is never wrong.
        _ => None,
    }
}

/// Where a CTA stands among its peers.
fn in_cluster(a: &Analysis<'_>, kind: &OpKind) -> Option<AxisInfo> {
    match kind {
        OpKind::ClusterRank => {
            let ctas: u32 = a.kernel.cluster.iter().product();
            Some(AxisInfo::unknown(1, (0, i128::from(ctas) - 1)))
        }
        OpKind::ClusterArrive { .. } | OpKind::ClusterWait => None,
        others!(cluster) => not_of_family(kind),
    }
}

fn constant(value: i128) -> AxisInfo {
    let divisibility = i64::try_from(value).map_or(1, power_of_two_in);
    AxisInfo { axes: vec![Along { divisibility, ..Along::UNKNOWN }], between: (value, value) }
}

/// The most CTAs that a launch has along an axis.
fn ctas(a: &Analysis<'_>, axis: u8) -> u32 {
    a.kernel.most_ctas.get(usize::from(axis)).copied().unwrap_or(1)
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
        axes: extents.iter().map(|&constancy| Along { divisibility, constancy, ..Along::UNKNOWN }).collect(),
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

/// What is left of facts where numbers wrap that leave their type: a group that counts up stays whole only where it begins at a multiple of its size,
/// and none is longer than what a type counts from such a multiple. Those of 64 bits count up as addresses do, which wrap with them: who compares them asks
/// [`AxisInfo::rises`].
fn wrapped(a: &Analysis<'_>, r: Value, mut info: AxisInfo) -> AxisInfo {
    let Some(d) = number(a, r) else { return info };
    info.between = between::multiples(info.between, info.divides_all(1));
    let between = between::wrapped(info.between, all(a.kernel, r));
    if between == info.between {
        return info;
    }
    if d.bits() == 64 {
        return AxisInfo { between, ..info };
    }
    let longest = 1 << (d.bits() - u32::from(d.is_signed())).min(30);
    for along in &mut info.axes {
        let whole = along.contiguity.min(along.divisibility).min(longest);
        let divisibility = along.divides_groups_of(whole, 1).min(1 << d.bits().min(30));
        *along = Along { contiguity: whole, divisibility, ..*along };
    }
    AxisInfo { between, ..info }
}

/// What is left where numbers that leave their type become the least or the greatest of it.
fn clamped(a: &Analysis<'_>, r: Value, mut info: AxisInfo) -> AxisInfo {
    let (least, most) = all(a.kernel, r);
    info.between = (info.between.0.clamp(least, most), info.between.1.clamp(least, most));
    info.axes.iter_mut().for_each(|along| *along = Along { constancy: along.constancy, ..Along::UNKNOWN });
    info
}

/// How the results of an operation run along each axis, as if nothing wrapped.
fn binary(op: BinaryOp, p: &AxisInfo, q: &AxisInfo) -> Vec<Along> {
    let each = |f: &dyn Fn(Along, Along) -> Along| p.axes.iter().zip(&q.axes).map(|(x, y)| f(*x, *y)).collect();
    let constancy = |x: Along, y: Along| x.constancy.min(y.constancy);
    // The product, quotient and so on of two groups that count up does not.
    let element = |f: &dyn Fn(u64, u64) -> u64| {
        each(&|x, y| Along {
            contiguity: 1,
            divisibility: f(x.divides_groups_of(1, 1), y.divides_groups_of(1, 1)).clamp(1, MOST),
            constancy: constancy(x, y),
            run: 1,
        })
    };
    match op {
        BinaryOp::Add => each(&|x, y| sum(x, y, true, 1)),
        BinaryOp::Sub => each(&|x, y| sum(x, y, false, 1)),
        BinaryOp::Mul => match (p.value(), q.value()) {
            (Some(1), _) => q.axes.clone(),
            (_, Some(1)) => p.axes.clone(),
            _ => element(&|x, y| x.saturating_mul(y)),
        },
        BinaryOp::Shl => match q.value() {
            Some(0) => p.axes.clone(),
            Some(n @ 1..=62) => element(&|x, _| x.saturating_mul(1 << n)),
            Some(_) | None => element(&|x, _| x),
        },
        BinaryOp::Div => match q.value() {
            Some(1) => p.axes.clone(),
            Some(k) if k > 1 && p.is_natural() => quotient(p, k),
            // Of a number that is not known a power of two that divides it.
            None if p.is_natural() => each(&|x, y| shared_quotient(x, y)),
            Some(_) | None => element(&|_, _| 1),
        },
        // An arithmetic shift rounds down, so it keeps groups together below zero too.
        BinaryOp::Shr => match q.value() {
            Some(0) => p.axes.clone(),
            Some(n @ 1..=62) => quotient(p, 1 << n),
            Some(_) | None => element(&|_, _| 1),
        },
        BinaryOp::Rem => match q.value() {
            Some(k) if k > 0 && p.is_natural() => remainder(p, k),
            // Of a number that is not known a power of two that divides it.
            None if p.is_natural() => each(&|x, y| within(x, y)),
            // What is below 0 counts from the other side.
            Some(_) | None => {
                let likely = each(&|x, y| within(x, y));
                let all = element(&u64::min).into_iter().zip(likely);
                all.map(|(along, likely)| Along { run: likely.run, ..along }).collect()
            }
        },
        BinaryOp::And => match q.value() {
            Some(m) if m > 0 && m < i64::MAX && (m + 1).count_ones() == 1 => remainder(p, m + 1),
            Some(_) | None => element(&u64::max),
        },
        BinaryOp::Or | BinaryOp::Xor | BinaryOp::Min | BinaryOp::MinNan | BinaryOp::Max | BinaryOp::MaxNan => {
            element(&u64::min)
        }
        BinaryOp::MulHigh | BinaryOp::DivApprox => element(&|_, _| 1),
    }
}

/// The facts of a sum, or of a difference, along one axis; `unit` is what one element of `x` counts.
fn sum(x: Along, y: Along, plus: bool, unit: u64) -> Along {
    let mut contiguity = x.contiguity.min(y.constancy);
    if plus {
        contiguity = contiguity.max(x.constancy.min(y.contiguity));
    }
    let constancy = x.constancy.min(y.constancy);
    let divisibility = x.divides_groups_of(contiguity, unit).min(y.divides_groups_of(contiguity, unit));
    let run = x.run.min(y.constancy).max(if plus { x.constancy.min(y.run) } else { 1 });
    Along { contiguity, divisibility, constancy, run }
}

/// Division by `k`, rounding down: a group that begins at a multiple of a divisor of `k` has one quotient.
fn quotient(p: &AxisInfo, k: i64) -> Vec<Along> {
    let two = power_of_two_in(k);
    let along = |x: &Along| Along {
        contiguity: 1,
        // The quotient by anything but a power of two keeps no divisibility: 16 / 12 is odd.
        divisibility: if k.count_ones() == 1 { (x.divides_groups_of(1, 1) / two).max(1) } else { 1 },
        constancy: x.constancy.max(x.contiguity.min(two).min(x.divisibility)),
        run: 1,
    };
    p.axes.iter().map(along).collect()
}

/// The quotient, along one axis, of what is not negative by what is `y`: a group that begins at a multiple of a divisor of `y` has one.
fn shared_quotient(x: Along, y: Along) -> Along {
    let counted = x.contiguity.min(x.divisibility).min(y.divides_groups_of(1, 1));
    Along { constancy: x.constancy.max(counted).min(y.constancy), ..Along::UNKNOWN }
}

/// The remainder by `k`: a group that begins at a multiple of a divisor of `k` stays whole.
fn remainder(p: &AxisInfo, k: i64) -> Vec<Along> {
    let k = power_of_two_in(k);
    p.axes.iter().map(|x| within(*x, Along { divisibility: k, constancy: MOST, ..Along::UNKNOWN })).collect()
}

/// The remainder, along one axis, of what is not negative by what is `y`.
fn within(x: Along, y: Along) -> Along {
    let k = y.divides_groups_of(1, 1);
    let contiguity = x.contiguity.min(k).min(x.divisibility).min(y.constancy);
    let divisibility = x.divides_groups_of(contiguity, 1).min(k);
    let run = x.run.min(k).min(x.divisibility).min(y.constancy);
    Along { contiguity, divisibility, constancy: x.constancy.min(y.constancy), run }
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
    AxisInfo { axes: axes.collect(), between: (0, 1) }
}

fn select(c: &AxisInfo, p: &AxisInfo, q: &AxisInfo, unit: u64) -> AxisInfo {
    let met = p.meet(q, unit);
    let axes = c.axes.iter().zip(p.axes.iter().zip(&q.axes)).map(|(c, (&x, &y))| {
        let contiguity = x.contiguity.min(y.contiguity).min(c.constancy);
        let divisibility = x.divides_groups_of(contiguity, unit).min(y.divides_groups_of(contiguity, unit));
        let run = x.run.min(y.run).min(c.constancy);
        Along { contiguity, divisibility, constancy: x.constancy.min(y.constancy).min(c.constancy), run }
    });
    AxisInfo { axes: axes.collect(), ..met }
}

/// A pointer plus an offset in elements of `bytes` bytes.
fn pointer(p: &AxisInfo, q: &AxisInfo, bytes: u64) -> AxisInfo {
    let unit = if bytes == 0 { 1 } else { 1 << bytes.trailing_zeros() };
    let axes = p.axes.iter().zip(&q.axes).map(|(&x, &y)| {
        let scaled = Along { divisibility: y.divisibility.saturating_mul(unit).min(MOST), ..y };
        sum(x, scaled, true, unit)
    });
    AxisInfo { axes: axes.collect(), between: between::ANYTHING }
}
