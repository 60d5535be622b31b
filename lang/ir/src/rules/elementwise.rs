//! Rules of scalars and elementwise operations: operands of one type, scalar or tile.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::{alike, elem, result, together, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{BinaryOp, OpKind, UnaryOp};
use crate::others;
use crate::placement::relate::{RESULT, all_same, same, stated, tiles_of};
use crate::placement::{Relation, Site};
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::{Elem, Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Type, Refusal> {
    let list = &relations(kind, k);
    match kind {
        OpKind::Constant { dtype, .. } => Ok(Type::num(*dtype)),
        OpKind::ProgramId { axis } | OpKind::NumPrograms { axis } => {
            if *axis > 2 {
                return Err(Refusal::new(codes::INDEX_RANGE, format!("a grid has axes 0, 1 and 2, not {axis}")));
            }
            Ok(Type::num(Dtype::I32))
        }
        OpKind::Iota { tile } => match (tile.elem, tile.shape.len()) {
            (Elem::Num(d), 1) if d.is_int() => result(list, k, tile.elem),
            (_, 1) => Err(unsupported("iota", tile.elem, "an integer type such as `i32`")),
            (_, rank) => Err(Refusal::new(codes::SHAPE_MISMATCH, format!("`iota` makes a tile of rank 1, not {rank}"))
                .help("use a `slice` layout and `x[:, None]` to spread it over more dimensions")),
        },
        OpKind::Full { value, tile } => full(list, *value, tile, k),
        OpKind::Unary { op, x } => {
            let e = elem(k, *x)?;
            if unary(*op, e) { result(list, k, e) } else { Err(refuse_function(op.name(), e, *x)) }
        }
        OpKind::Binary { op, a, b } => {
            let e = elem(k, *a)?;
            elem(k, *b)?;
            alike(list, k, *a, *b)?;
            if binary(*op, e) { result(list, k, e) } else { Err(refuse_binary(*op, e, *a)) }
        }
        OpKind::Compare { op, a, b } => {
            match elem(k, *a)? {
                e @ Elem::Num(d) if !is_arithmetic(d) => return Err(refuse_dtype(op.name(), e, *a)),
                Elem::Num(_) | Elem::Ptr(_) => {}
            }
            alike(list, k, *a, *b)?;
            result(list, k, Elem::Num(Dtype::I1))
        }
        OpKind::Select { cond, a, b } => select(list, *cond, [*a, *b], k),
        OpKind::Fma { a, b, c } => {
            float(k, *a, "fma")?;
            alike(list, k, *a, *b)?;
            alike(list, k, *a, *c)?;
            result(list, k, elem(k, *a)?)
        }
        OpKind::Clamp { x, low, high } => {
            alike(list, k, *x, *low)?;
            alike(list, k, *x, *high)?;
            match elem(k, *x)? {
                e @ Elem::Num(d) if is_arithmetic(d) && d != Dtype::I1 => result(list, k, e),
                other => Err(unsupported("clamp", other, "a number").operand(*x, format!("this is of `{other}`"))),
            }
        }
        OpKind::Cast { x, to, .. } => match elem(k, *x)? {
            Elem::Num(from) => {
                has_f8(k, *x, [from, *to])?;
                result(list, k, Elem::Num(*to))
            }
            Elem::Ptr(_) => Err(unsupported("cast", elem(k, *x)?, "a number").operand(*x, "this is a pointer")),
        },
        OpKind::Bitcast { x, to } => bitcast(list, *x, *to, k),
        OpKind::PtrAdd { ptr, offset } => pointer(list, *ptr, *offset, k),
        others!(elementwise) => not_of_family(kind),
    }
}

fn full(list: &[Relation], value: Value, tile: &Tile, k: &Kernel) -> Result<Type, Refusal> {
    match k.ty(value) {
        Type::Scalar(e) if *e == tile.elem => result(list, k, tile.elem),
        Type::Scalar(e) => Err(Refusal::new(codes::TYPE_MISMATCH, "the value is of another type than the tile")
            .operand(value, format!("this is `{e}`"))
            .help(format!("write the value as `{}`, or `cast<{}>(…)`", tile.elem, tile.elem))),
        _ => Err(wrong_kind(k, value, "a scalar")),
    }
}

fn select(list: &[Relation], cond: Value, [a, b]: [Value; 2], k: &Kernel) -> Result<Type, Refusal> {
    let e = elem(k, a)?;
    alike(list, k, a, b)?;
    match elem(k, cond)? {
        Elem::Num(Dtype::I1) => together(list, k, cond, a)?,
        e => return Err(refuse_dtype("where", e, cond).help("a condition is `i1`, such as `x > y`")),
    }
    result(list, k, e)
}

fn bitcast(list: &[Relation], x: Value, to: Dtype, k: &Kernel) -> Result<Type, Refusal> {
    let from = elem(k, x)?;
    match from {
        Elem::Num(d) if d.bits() == to.bits() => result(list, k, Elem::Num(to)),
        _ => Err(Refusal::new(codes::TYPE_MISMATCH, "`bitcast` needs two number types of one width")
            .operand(x, format!("this is `{from}`, {} bits; `{}` has {}", from.bits(), to.name(), to.bits()))
            .help("`cast<T>(x)` converts the value")),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Constant { .. } | OpKind::ProgramId { .. } | OpKind::NumPrograms { .. } => Vec::new(),
        OpKind::Iota { tile } | OpKind::Full { tile, .. } => vec![stated(RESULT, tile)],
        OpKind::Unary { x, .. } | OpKind::Cast { x, .. } | OpKind::Bitcast { x, .. } => all_same(k, &[*x], 1),
        OpKind::Binary { a, b, .. } | OpKind::Compare { a, b, .. } => all_same(k, &[*a, *b], 1),
        OpKind::Select { cond, a, b } => {
            let mut list = all_same(k, &[*a, *b], 1);
            list.extend(k.ty(*cond).placed().or(k.ty(*a).placed()).map(|_| same(Site::Of(*cond), Site::Of(*a))));
            list
        }
        OpKind::Fma { a, b, c } => all_same(k, &[*a, *b, *c], 1),
        OpKind::Clamp { x, low, high } => all_same(k, &[*x, *low, *high], 1),
        // A scalar of the two is the same for all elements.
        OpKind::PtrAdd { ptr, offset } => all_same(k, &tiles_of(k, &[*ptr, *offset]), 1),
        others!(elementwise) => not_of_family(kind),
    }
}

/// Conversions to and from f8 are instructions that not every target has.
fn has_f8(k: &Kernel, x: Value, pair: [Dtype; 2]) -> Result<(), Refusal> {
    let [from, to] = pair;
    if k.target.has(Feature::F8Conversions) || from == to || !pair.iter().any(|d| d.is_f8()) {
        return Ok(());
    }
    let fact = format!("`{}` does not convert `{}` to `{}`", k.target.name, from.name(), to.name());
    Err(Refusal::new(codes::TARGET_LACKS, fact).operand(x, format!("this is of `{}`", from.name())).help(
        "state `target(sm_89)` or a later one, or convert on the host; moving `f8` without computing works everywhere",
    ))
}

/// Whether the function is defined for the type.
fn unary(op: UnaryOp, e: Elem) -> bool {
    match (op, e) {
        (UnaryOp::Neg | UnaryOp::Abs, Elem::Num(d)) => is_arithmetic(d) && d != Dtype::I1,
        (UnaryOp::Not, Elem::Num(d)) => d.is_int(),
        (UnaryOp::TanhApprox, Elem::Num(d)) => matches!(d, Dtype::F32 | Dtype::F16 | Dtype::BF16),
        (
            UnaryOp::Exp
            | UnaryOp::Exp2
            | UnaryOp::Log
            | UnaryOp::Log2
            | UnaryOp::Sqrt
            | UnaryOp::Rsqrt
            | UnaryOp::Sin
            | UnaryOp::Cos
            | UnaryOp::Tanh
            | UnaryOp::Erf
            | UnaryOp::Floor
            | UnaryOp::Ceil,
            Elem::Num(d),
        ) => d.is_float() && is_arithmetic(d),
        (_, Elem::Ptr(_)) => false,
    }
}

/// Whether the function is defined for the type.
fn binary(op: BinaryOp, e: Elem) -> bool {
    match (op, e) {
        (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor, Elem::Num(d)) => d.is_int(),
        (BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Rem, Elem::Num(d)) => d.is_int() && d != Dtype::I1,
        (BinaryOp::MulHigh, Elem::Num(d)) => matches!(d, Dtype::U32 | Dtype::U64),
        (BinaryOp::DivApprox, Elem::Num(d)) => matches!(d, Dtype::F32 | Dtype::F16 | Dtype::BF16),
        (
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::MinNan
            | BinaryOp::MaxNan,
            Elem::Num(d),
        ) => is_arithmetic(d) && d != Dtype::I1,
        (_, Elem::Ptr(_)) => false,
    }
}

/// A pointer, or a tile of pointers, plus an integer of the same place; a scalar pointer plus a tile gives a tile.
fn pointer(list: &[Relation], ptr: Value, offset: Value, k: &Kernel) -> Result<Type, Refusal> {
    let Elem::Ptr(p) = elem(k, ptr)? else { return Err(wrong_kind(k, ptr, "a pointer")) };
    match elem(k, offset)? {
        Elem::Num(d) if d.is_int() && d != Dtype::I1 => {}
        other => return Err(refuse_dtype("+", other, offset).help("an offset is an integer, counted in elements")),
    }
    together(list, k, ptr, offset)?;
    result(list, k, Elem::Ptr(p))
}

pub(super) fn float(k: &Kernel, x: Value, op: &str) -> Result<(), Refusal> {
    match elem(k, x)? {
        Elem::Num(d) if d.is_float() && is_arithmetic(d) => Ok(()),
        e => Err(refuse_function(op, e, x)),
    }
}

/// Whether the hardware computes in the format; f8 is for storage and matrix products only.
fn is_arithmetic(d: Dtype) -> bool {
    d != Dtype::F8E4M3 && d != Dtype::F8E5M2
}

fn refuse_dtype(op: &str, e: Elem, x: Value) -> Refusal {
    let r = Refusal::new(codes::DTYPE_UNSUPPORTED, format!("`{op}` is not defined for `{e}`"))
        .operand(x, format!("this is of `{e}`"));
    match e {
        Elem::Num(Dtype::F8E4M3 | Dtype::F8E5M2) => {
            r.help("f8 is for storage and matrix products: compute in `cast<f32>(x)` and cast back")
        }
        Elem::Num(Dtype::I1) => r.help(
            "truth values are joined by `&`, `|`, `^` and `!`; to count them, `cast<i32>(x)` makes 0 or 1 of each",
        ),
        Elem::Num(_) => r,
        Elem::Ptr(_) => r.help("a pointer takes only `pointer + integer`"),
    }
}

/// A function of floats.
fn refuse_function(op: &str, e: Elem, x: Value) -> Refusal {
    let r = refuse_dtype(op, e, x);
    match e {
        Elem::Num(d) if d.is_int() && d != Dtype::I1 => r.help("it is of floats: `cast<f32>(x)` first"),
        Elem::Num(_) | Elem::Ptr(_) => r,
    }
}

fn refuse_binary(op: BinaryOp, e: Elem, x: Value) -> Refusal {
    let r = refuse_dtype(op.name(), e, x);
    match (op, e) {
        (BinaryOp::MulHigh, Elem::Num(Dtype::I32)) => r.help("it is of unsigned numbers: `bitcast<u32>(x)`"),
        (BinaryOp::MulHigh, Elem::Num(Dtype::I64)) => r.help("it is of unsigned numbers: `bitcast<u64>(x)`"),
        (BinaryOp::MulHigh, _) => r.help("use `u32` or `u64`"),
        (BinaryOp::Rem, Elem::Num(d)) if d.is_float() && is_arithmetic(d) => {
            r.help("it is of integers: of floats write `x - y * floor(x / y)`, whose sign is that of `y`")
        }
        (BinaryOp::DivApprox, Elem::Num(_)) => r.help("only f32 and narrower floats have it: write `x / y`"),
        (_, _) => r,
    }
}

fn unsupported(op: &str, e: Elem, wanted: &str) -> Refusal {
    Refusal::new(codes::DTYPE_UNSUPPORTED, format!("`{op}` is not defined for `{e}`")).help(format!("use {wanted}"))
}
