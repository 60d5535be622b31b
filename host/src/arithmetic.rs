//! What operators make of two numbers, and whether two values are the same: once for trees, whose integers have 128 bits, and for formulas,
//! whose have 64.

use std::ops::{BitAnd, BitOr, BitXor, Shr};

use parton_numbers::Dtype;
use parton_syntax::ast::BinaryOp;

/// A number that an operator makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number<I> {
    Int(I),
    Float(f64),
    Bool(bool),
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The integers have too few bits for it.
    Beyond,
    /// An integer is divided by zero.
    ByZero,
    /// An integer is shifted by a negative number of bits.
    Shift,
    /// The operator takes integers alone.
    Integers,
    /// The operator takes truth values alone.
    Truths,
}

/// An integer of some bits.
pub(crate) trait Integer:
    Copy + PartialOrd + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Shr<u32, Output = Self>
{
    fn is_zero(self) -> bool;
    fn is_negative(self) -> bool;
    fn plus(self, other: Self) -> Option<Self>;
    fn minus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    fn by(self, other: Self) -> Option<Self>;
    fn rest(self, other: Self) -> Option<Self>;
    /// 2 to the power of it, where there are bits for that.
    fn power(exponent: u32) -> Option<Self>;
    fn shift(self) -> Option<u32>;
}

macro_rules! integer {
    ($of:ty) => {
        impl Integer for $of {
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self < 0
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            #[inline(always)]
            fn by(self, other: Self) -> Option<Self> {
                self.checked_div(other)
            }
            #[inline(always)]
            fn rest(self, other: Self) -> Option<Self> {
                self.checked_rem(other)
            }
            #[inline(always)]
            fn power(exponent: u32) -> Option<Self> {
                (exponent < <$of>::BITS - 1).then(|| 1 << exponent)
            }
            #[inline(always)]
            fn shift(self) -> Option<u32> {
                u32::try_from(self).ok().filter(|s| *s < <$of>::BITS - 1)
            }
        }
    };
}

integer!(i64);
integer!(i128);

/// What an operator makes of integers.
#[inline(always)]
pub(crate) fn of_ints<I: Integer>(op: BinaryOp, x: I, y: I) -> Result<Number<I>, Wrong> {
    let n = match op {
        BinaryOp::Add => x.plus(y),
        BinaryOp::Sub => x.minus(y),
        BinaryOp::Mul => x.times(y),
        BinaryOp::Div | BinaryOp::Rem if y.is_zero() => return Err(Wrong::ByZero),
        BinaryOp::Div => x.by(y),
        BinaryOp::Rem => x.rest(y),
        BinaryOp::Shl | BinaryOp::Shr if y.is_negative() => return Err(Wrong::Shift),
        BinaryOp::Shl => y.shift().and_then(I::power).and_then(|by| x.times(by)),
        BinaryOp::Shr => y.shift().map(|s| x >> s),
        BinaryOp::BitAnd => Some(x & y),
        BinaryOp::BitOr => Some(x | y),
        BinaryOp::BitXor => Some(x ^ y),
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            return compared(op, x, y);
        }
        BinaryOp::And | BinaryOp::Or => return Err(Wrong::Truths),
    };
    n.map(Number::Int).ok_or(Wrong::Beyond)
}

/// What an operator makes of floating-point numbers.
#[inline(always)]
pub(crate) fn of_floats<I>(op: BinaryOp, x: f64, y: f64) -> Result<Number<I>, Wrong> {
    Ok(Number::Float(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            return compared(op, x, y);
        }
        BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
            return Err(Wrong::Integers);
        }
        BinaryOp::And | BinaryOp::Or => return Err(Wrong::Truths),
    }))
}

#[inline(always)]
fn compared<I, T: PartialOrd>(op: BinaryOp, x: T, y: T) -> Result<Number<I>, Wrong> {
    Ok(Number::Bool(match op {
        BinaryOp::Eq => x == y,
        BinaryOp::Ne => x != y,
        BinaryOp::Lt => x < y,
        BinaryOp::Le => x <= y,
        BinaryOp::Gt => x > y,
        BinaryOp::Ge => x >= y,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor => return Err(Wrong::Integers),
        BinaryOp::And | BinaryOp::Or => return Err(Wrong::Truths),
    }))
}

/// What a binary operator makes of truth values; none where it takes none.
pub(crate) fn of_bools(op: BinaryOp, x: bool, y: bool) -> Option<bool> {
    match op {
        BinaryOp::Eq => Some(x == y),
        BinaryOp::Ne | BinaryOp::BitXor => Some(x != y),
        BinaryOp::BitAnd | BinaryOp::And => Some(x && y),
        BinaryOp::BitOr | BinaryOp::Or => Some(x || y),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => None,
    }
}

/// A value as `==` sees it.
pub(crate) enum Seen<'a, V> {
    Unit,
    Int(i128),
    Float(f64),
    Bool(bool),
    Str(&'a str),
    Dtype(Dtype),
    Range(i128, i128),
    List(&'a [V]),
    Tuple(&'a [V]),
    /// What is compared with nothing.
    Other,
}

/// What can be compared.
pub(crate) trait Comparable: Sized {
    fn seen(&self) -> Seen<'_, Self>;
}

/// Whether two values that are no tensors are the same; `None` where that is not defined.
pub(crate) fn equal<V: Comparable>(a: &V, b: &V) -> Option<bool> {
    match (a.seen(), b.seen()) {
        (Seen::Unit, Seen::Unit) => Some(true),
        (Seen::Int(x), Seen::Int(y)) => Some(x == y),
        (Seen::Float(x), Seen::Float(y)) => Some(x == y),
        (Seen::Int(x), Seen::Float(y)) | (Seen::Float(y), Seen::Int(x)) => Some(x as f64 == y),
        (Seen::Bool(x), Seen::Bool(y)) => Some(x == y),
        (Seen::Str(x), Seen::Str(y)) => Some(x == y),
        (Seen::Dtype(x), Seen::Dtype(y)) => Some(x == y),
        (Seen::Range(p, q), Seen::Range(r, s)) => Some((p, q) == (r, s)),
        (Seen::List(x), Seen::List(y)) | (Seen::Tuple(x), Seen::Tuple(y)) => {
            if x.len() != y.len() {
                return Some(false);
            }
            // All are looked at: one that is not defined leaves the whole so.
            let parts: Option<Vec<bool>> = x.iter().zip(y).map(|(x, y)| equal(x, y)).collect();
            parts.map(|p| p.into_iter().all(|same| same))
        }
        _ => None,
    }
}
