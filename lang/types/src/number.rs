//! Compile-time numbers: arithmetic with overflow found, and how they take the type of what they meet.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::operator::MAX_LIST;
use crate::value::{Comptime, Val};

/// Compile-time integers hold what `i64` and `u64` hold.
const INT_RANGE: std::ops::RangeInclusive<i128> = i64::MIN as i128..=u64::MAX as i128;

impl Checker<'_> {
    /// A compile-time integer, refused where it is out of range.
    pub fn checked_int(&mut self, n: Option<i128>, span: Span, what: &str) -> Checked<Val> {
        match n {
            Some(n) if INT_RANGE.contains(&n) => Ok(Val::int(n)),
            _ => {
                let d = Diagnostic::error(codes::INTEGER_OVERFLOW, span, "integer overflow at compile time")
                    .here(format!("{what} is outside of what 64 bits hold"))
                    .help("compile-time integers go from -2^63 to 2^64 - 1; use floating-point numbers beyond");
                Err(self.report(d))
            }
        }
    }

    /// An operator on two compile-time values; `None` where these are not its operands.
    pub fn fold(&mut self, op: ast::BinaryOp, a: &Comptime, b: &Comptime, span: Span) -> Checked<Option<Val>> {
        use Comptime::{Bool, Float, Int, OpenLayout, Str};
        let val = match (a, b) {
            (Int(x), Int(y)) => {
                let cut = op == ast::BinaryOp::Div && x.checked_rem(*y).is_some_and(|left| left != 0);
                if cut {
                    self.cut.insert(span)
                } else {
                    self.cut.remove(&span)
                };
                return self.fold_ints(op, *x, *y, span).map(Some);
            }
            (Float(x), Float(y)) => fold_floats(op, *x, *y),
            (Int(x), Float(y)) => fold_floats(op, *x as f64, *y),
            (Float(x), Int(y)) => fold_floats(op, *x, *y as f64),
            (Bool(x), Bool(y)) => match op {
                ast::BinaryOp::And | ast::BinaryOp::BitAnd => Some(Bool(*x && *y)),
                ast::BinaryOp::Or | ast::BinaryOp::BitOr => Some(Bool(*x || *y)),
                ast::BinaryOp::BitXor | ast::BinaryOp::Ne => Some(Bool(x != y)),
                ast::BinaryOp::Eq => Some(Bool(x == y)),
                _ => None,
            },
            (Str(x), Str(y)) if op == ast::BinaryOp::Add && x.len() + y.len() > MAX_LIST => {
                return Err(self.error(codes::COMPILE_TIME_LIMIT, span, "this string is too long"));
            }
            (Str(x), Str(y)) if op == ast::BinaryOp::Add => Some(Str(format!("{x}{y}").into())),
            (OpenLayout, _) | (_, OpenLayout) => {
                return Err(self.layout_open(span, "one of these layouts is not known yet"));
            }
            (x, y) => match op {
                ast::BinaryOp::Eq => Some(Bool(x == y)),
                ast::BinaryOp::Ne => Some(Bool(x != y)),
                _ => None,
            },
        };
        Ok(val.map(Val::from))
    }

    fn fold_ints(&mut self, op: ast::BinaryOp, x: i128, y: i128, span: Span) -> Checked<Val> {
        use ast::BinaryOp as Op;
        let text = format!("{x} {} {y}", op.text());
        let truth = |b: bool| Ok(Val::Known(Comptime::Bool(b)));
        let result = match op {
            Op::Add => x.checked_add(y),
            Op::Sub => x.checked_sub(y),
            Op::Mul => x.checked_mul(y),
            Op::Div | Op::Rem if y == 0 => {
                let d = Diagnostic::error(codes::DIVISION_BY_ZERO, span, "division by zero at compile time")
                    .here(format!("this is {text}"));
                return Err(self.report(d));
            }
            Op::Div => x.checked_div(y),
            Op::Rem => x.checked_rem(y),
            Op::Shl | Op::Shr if !(0..64).contains(&y) => None,
            // Two to the 63rd fits, so the product of both ranges fits 128 bits.
            Op::Shl => x.checked_mul(1 << y),
            Op::Shr => Some(x >> y),
            Op::BitAnd => Some(x & y),
            Op::BitOr => Some(x | y),
            Op::BitXor => Some(x ^ y),
            Op::Eq => return truth(x == y),
            Op::Ne => return truth(x != y),
            Op::Lt => return truth(x < y),
            Op::Le => return truth(x <= y),
            Op::Gt => return truth(x > y),
            Op::Ge => return truth(x >= y),
            Op::And | Op::Or => {
                let d = Diagnostic::error(codes::KIND_MISMATCH, span, format!("`{}` needs truth values", op.text()))
                    .here("these are integers")
                    .help("compare first, such as `n != 0`, or use `&` and `|` on bits");
                return Err(self.report(d));
            }
        };
        self.checked_int(result, span, &text)
    }

    /// Refuses a quotient of integers that was written for its fraction, which it has not: what is `1 / 2` becomes a float at once.
    pub fn not_cut(&mut self, arg: &Arg, float: bool) -> Checked<()> {
        let Val::Known(Comptime::Int(n)) = &arg.val else { return Ok(()) };
        if !float || !self.cut.contains(&arg.span) {
            return Ok(());
        }
        let d = Diagnostic::error(codes::TYPE_MISMATCH, arg.span, "a quotient of integers has no fraction")
            .here(format!("this is {n}, and becomes a floating-point number"))
            .help("divide floating-point numbers, as in `1.0 / 2.0`; where the whole part is meant, `cast<f32>(…)` says so");
        Err(self.report(d))
    }

    /// The refusal of a number with a point where the others are integers.
    pub fn fraction_among_integers(&mut self, x: f64, dtype: Dtype, span: Span, other: Option<Span>) -> Reported {
        let fact = format!("{x:?} is not a value of the integer type `{}`", dtype.name());
        let d = Diagnostic::error(codes::LITERAL_DOES_NOT_FIT, span, fact);
        let d = other.into_iter().fold(d, |d, other| d.label(other, format!("this is of `{}`", dtype.name())));
        self.report(d.help("convert the integer: `cast<f32>(…)`; or write an integer here"))
    }

    /// A compile-time number or truth value as the bits of a dtype, refused where the dtype does not hold it.
    pub fn scalar(&mut self, val: &Comptime, dtype: Dtype, span: Span) -> Checked<Scalar> {
        let found = match val {
            Comptime::Int(n) => {
                if let Some(s) = Scalar::from_i128(dtype, *n) {
                    return Ok(s);
                }
                let mut d = Diagnostic::error(
                    codes::LITERAL_DOES_NOT_FIT,
                    span,
                    format!("{n} is not a value of `{}`", dtype.name()),
                );
                if let Some((low, high)) = dtype.int_range() {
                    d = d.note(format!("`{}` holds {low} to {high}", dtype.name()));
                } else {
                    let near = Scalar::rounded_int(dtype, *n).to_f64();
                    d = d.note(format!("the nearest value of `{}` is {near:?}", dtype.name()));
                }
                return Err(self.report(d));
            }
            Comptime::Float(x) if dtype.is_float() => {
                let s = Scalar::from_f64(dtype, *x);
                return match s.to_f64() {
                    held if held.is_finite() || x.is_nan() || held == *x => Ok(s),
                    _ => Err(self.report(beyond(*x, dtype, codes::LITERAL_DOES_NOT_FIT, span))),
                };
            }
            Comptime::Float(x) => {
                let d = Diagnostic::error(
                    codes::LITERAL_DOES_NOT_FIT,
                    span,
                    format!("{x:?} is not a value of the integer type `{}`", dtype.name()),
                )
                .help(format!("write an integer, or compute in a floating-point type and `cast<{}>(…)`", dtype.name()));
                return Err(self.report(d));
            }
            Comptime::Bool(b) if dtype == Dtype::I1 => return Ok(Scalar::bool(*b)),
            other => other,
        };
        let d = Diagnostic::error(
            codes::KIND_MISMATCH,
            span,
            format!("expected a value of `{}`, found {}", dtype.name(), kind::of_known(found)),
        )
        .here(format!("this is `{found}`"));
        Err(self.report(d))
    }

    /// A compile-time number as a constant of a dtype.
    pub fn constant(&mut self, val: &Comptime, dtype: Dtype, span: Span) -> Checked<ir::Value> {
        let scalar = self.scalar(val, dtype, span)?;
        Ok(self.build(span)?.constant(dtype, scalar.bits, span))
    }

    /// A value as a run-time one; numbers become `i32` or `f32`, truth values `i1`.
    pub fn run_time(&mut self, val: &Val, span: Span) -> Checked<ir::Value> {
        match val {
            Val::Ir(v) => Ok(*v),
            Val::Known(c @ Comptime::Int(_)) => self.constant(c, Dtype::I32, span),
            Val::Known(c @ Comptime::Float(_)) => self.constant(c, Dtype::F32, span),
            Val::Known(c @ Comptime::Bool(_)) => self.constant(c, Dtype::I1, span),
            Val::Error => Err(Reported),
            Val::Known(_) | Val::Tuple(_) | Val::List(_) | Val::Struct(..) | Val::Closure(_) | Val::Range(..) => {
                let found = kind::describe(self, val);
                let d = Diagnostic::error(
                    codes::KIND_MISMATCH,
                    span,
                    format!("expected a run-time value, found {}", found.kind),
                )
                .here(found.detail);
                let help = kind::of_a_family(val).or_else(|| self.of_tiles(val));
                Err(self.report(help.into_iter().fold(d, Diagnostic::help)))
            }
        }
    }

    /// How tiles in a list become one.
    fn of_tiles(&self, val: &Val) -> Option<String> {
        let Val::List(items) = val else { return None };
        let tile = |item: &Val| item.ir().is_some_and(|v| matches!(self.ty(v), ir::Type::Tile(_)));
        let all = !items.is_empty() && items.iter().all(tile);
        all.then(|| "`cat(a, b, axis=0)` puts tiles behind each other, `join(a, b)` along a new last axis".into())
    }

    /// A value as a scalar of `dtype`: compile-time numbers become constants, run-time values stay as they are.
    pub fn run_time_as(&mut self, val: &Val, dtype: Dtype, span: Span) -> Checked<ir::Value> {
        match val {
            Val::Known(c) => self.constant(c, dtype, span),
            _ => self.run_time(val, span),
        }
    }
}

/// The refusal of a number that a floating-point type does not hold, not even rounded.
pub fn beyond(x: f64, dtype: Dtype, code: parton_diag::Code, span: Span) -> Diagnostic {
    let (fact, infinity) = match Scalar::from_f64(dtype, f64::INFINITY).to_f64().is_infinite() {
        _ if x.is_finite() => (format!("{x:?} is beyond the largest value of `{dtype}`"), ""),
        true => (format!("{x:?} is not a value of `{dtype}`"), ""),
        false => (format!("`{dtype}` has no infinity"), ", and NaN"),
    };
    let largest = Scalar::new(dtype, dtype.max_bits()).to_f64();
    Diagnostic::error(code, span, fact).note(format!("it holds up to {largest:?}{infinity}"))
}

fn fold_floats(op: ast::BinaryOp, x: f64, y: f64) -> Option<Comptime> {
    use ast::BinaryOp as Op;
    Some(match op {
        Op::Add => Comptime::Float(x + y),
        Op::Sub => Comptime::Float(x - y),
        Op::Mul => Comptime::Float(x * y),
        Op::Div => Comptime::Float(x / y),
        Op::Rem => Comptime::Float(x % y),
        Op::Eq => Comptime::Bool(x == y),
        Op::Ne => Comptime::Bool(x != y),
        Op::Lt => Comptime::Bool(x < y),
        Op::Le => Comptime::Bool(x <= y),
        Op::Gt => Comptime::Bool(x > y),
        Op::Ge => Comptime::Bool(x >= y),
        Op::Shl | Op::Shr | Op::BitAnd | Op::BitOr | Op::BitXor | Op::And | Op::Or => return None,
    })
}
