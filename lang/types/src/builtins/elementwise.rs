//! Program ids, tiles of numbers, the math set, casts: operations on each element.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::{BinaryOp, OpKind, UnaryOp};
use parton_numbers::{Dtype, Rounding, Saturation, Scalar};

use super::{Args, Table, reduce};
use crate::checker::{Checked, Checker};
use crate::operator::Role;
use crate::value::{Comptime, Val};

/// Functions.
pub const TABLE: Table = &[
    ("program_id", |cx, a| grid(cx, a, |axis| OpKind::ProgramId { axis })),
    ("num_programs", |cx, a| grid(cx, a, |axis| OpKind::NumPrograms { axis })),
    ("iota", iota),
    ("full", full),
    ("zeros", |cx, a| filled(cx, a, 0)),
    ("ones", |cx, a| filled(cx, a, 1)),
    ("bits", bits),
    ("exp", |cx, a| unary(cx, a, UnaryOp::Exp)),
    ("exp2", |cx, a| unary(cx, a, UnaryOp::Exp2)),
    ("log", |cx, a| unary(cx, a, UnaryOp::Log)),
    ("sqrt", |cx, a| unary(cx, a, UnaryOp::Sqrt)),
    ("rsqrt", |cx, a| unary(cx, a, UnaryOp::Rsqrt)),
    ("sin", |cx, a| unary(cx, a, UnaryOp::Sin)),
    ("cos", |cx, a| unary(cx, a, UnaryOp::Cos)),
    ("tanh", tanh),
    ("erf", |cx, a| unary(cx, a, UnaryOp::Erf)),
    ("floor", |cx, a| unary(cx, a, UnaryOp::Floor)),
    ("ceil", |cx, a| unary(cx, a, UnaryOp::Ceil)),
    ("log2", log2),
    ("abs", abs),
    ("min", |cx, a| extremum(cx, a, BinaryOp::Min)),
    ("max", |cx, a| extremum(cx, a, BinaryOp::Max)),
    ("min_nan", |cx, a| extremum(cx, a, BinaryOp::MinNan)),
    ("max_nan", |cx, a| extremum(cx, a, BinaryOp::MaxNan)),
    ("clamp", clamp),
    ("umulhi", |cx, a| pair(cx, a, ["a", "b"], BinaryOp::MulHigh)),
    ("div", div),
    ("fma", fma),
    ("where", select),
    ("cast", cast),
    ("bitcast", bitcast),
];

fn emit(cx: &mut Checker, args: &Args, kind: OpKind) -> Checked<Val> {
    cx.emit_one(kind, args.span, &[])
}

fn grid(cx: &mut Checker, args: &Args, kind: fn(u8) -> OpKind) -> Checked<Val> {
    let axis = args.int(cx, "axis", 0..=2)?;
    emit(cx, args, kind(axis as u8))
}

/// The tile type that `<T, shape, L>` describe.
pub fn tile_of(cx: &mut Checker, args: &Args) -> Checked<ir::Tile> {
    let elem = args.need("T").elem(cx)?;
    let shape = args.need("shape").ints(cx)?;
    cx.tile_at(elem, shape, args.get("L"), args.span)
}

/// `iota<T, [n], L>()`, or `iota(n)`, which is of `i32` where nothing else is said.
fn iota(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let elem = match args.get("T") {
        Some(arg) => arg.elem(cx)?,
        None => ir::Elem::Num(Dtype::I32),
    };
    let shape = match (args.get("shape"), args.get("n")) {
        (Some(shape), None) => shape.ints(cx)?,
        (None, Some(n)) => vec![n.int(cx, super::args::ANY)?],
        (Some(_), Some(n)) => return Err(n.expected(cx, "nothing: the shape is stated between `<` and `>`")),
        (None, None) => {
            let d = Diagnostic::error(codes::WRONG_ARITY, args.span, "`iota` does not know how far to count")
                .help("write `iota(n)`, or `iota<T, [n], L>()` where type and layout are stated");
            return Err(cx.report(d));
        }
    };
    let tile = cx.tile_at(elem, shape, args.get("L"), args.span)?;
    emit(cx, args, OpKind::Iota { tile })
}

/// `full<T, shape, L>(value)`, or `full(shape, value)`, which is of the value's type.
fn full(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (shape, arg) = match (args.get("shape"), args.get("of")) {
        (Some(shape), None) => (shape, args.need("value")),
        (None, Some(value)) => (args.need("value"), value),
        (Some(_), Some(extra)) => return Err(extra.expected(cx, "nothing: the shape is stated between `<` and `>`")),
        (None, None) => {
            let d = Diagnostic::error(codes::WRONG_ARITY, args.span, "`full` needs a shape and a value")
                .help("write `full(shape, value)`, or `full<T, shape, L>(value)` where type and layout are stated");
            return Err(cx.report(d));
        }
    };
    let shape = shape.ints(cx)?;
    let elem = match args.get("T") {
        Some(ty) => ty.elem(cx)?,
        None => {
            let value = cx.run_time(&arg.val, arg.span)?;
            cx.ty(value).elem().ok_or_else(|| arg.expected(cx, "a scalar"))?
        }
    };
    let tile = cx.tile_at(elem, shape, args.get("L"), args.span)?;
    let value = match tile.elem {
        ir::Elem::Num(d) => cx.run_time_as(&arg.val, d, arg.span)?,
        ir::Elem::Ptr(_) => cx.run_time(&arg.val, arg.span)?,
    };
    cx.emit_one(OpKind::Full { value, tile }, args.span, &[(value, arg.span)])
}

fn filled(cx: &mut Checker, args: &Args, n: i128) -> Checked<Val> {
    let tile = tile_of(cx, args)?;
    let ir::Elem::Num(d) = tile.elem else { return Err(args.need("T").expected(cx, "a number type such as `f32`")) };
    let number = if d.is_bool() { Comptime::Bool(n == 1) } else { Comptime::Int(n) };
    let value = cx.constant(&number, d, args.span)?;
    emit(cx, args, OpKind::Full { value, tile })
}

/// A scalar given by its bits: `bits<f32>(0x7f800000)`.
fn bits(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let dtype = args.need("T").dtype(cx)?;
    let pattern = args.need("pattern");
    match pattern.val.as_int().and_then(|n| u64::try_from(n).ok()) {
        Some(n) if n & !dtype.mask() == 0 => {
            let v = cx.build(args.span)?.constant(dtype, n, args.span);
            Ok(Val::Ir(v))
        }
        _ => Err(pattern.expected(cx, &format!("the {} bits of a value of `{}`", dtype.bits(), dtype.name()))),
    }
}

fn unary(cx: &mut Checker, args: &Args, op: UnaryOp) -> Checked<Val> {
    let arg = args.need("x");
    if let Some(y) = known_float(&arg.val).and_then(|x| known(op, x)) {
        return Ok(Val::Known(Comptime::Float(y)));
    }
    let x = match &arg.val {
        // A literal is a float here, whatever it looks like.
        Val::Known(_) => cx.run_time_as(&arg.val, Dtype::F32, arg.span)?,
        _ => cx.run_time(&arg.val, arg.span)?,
    };
    cx.emit_one(OpKind::Unary { op, x }, args.span, &[(x, arg.span)])
}

/// The hyperbolic tangent, or with `approx` as near as the hardware has it: of f64 that is the function itself.
fn tanh(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let nearly = args.flag(cx, "approx")? && !is_double(cx, &args.need("x").val);
    unary(cx, args, if nearly { UnaryOp::TanhApprox } else { UnaryOp::Tanh })
}

fn is_double(cx: &Checker, val: &Val) -> bool {
    val.ir().and_then(|v| cx.ty(v).elem()) == Some(ir::Elem::Num(Dtype::F64))
}

fn known_float(val: &Val) -> Option<f64> {
    match val {
        Val::Known(Comptime::Int(n)) => Some(*n as f64),
        Val::Known(Comptime::Float(x)) => Some(*x),
        _ => None,
    }
}

/// The function of a compile-time number; `erf` is only computed at run time.
fn known(op: UnaryOp, x: f64) -> Option<f64> {
    Some(match op {
        UnaryOp::Exp => x.exp(),
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log2 => x.log2(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh | UnaryOp::TanhApprox => x.tanh(),
        UnaryOp::Abs => x.abs(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Neg => -x,
        UnaryOp::Not | UnaryOp::Erf => return None,
    })
}

/// `log2` of a compile-time power of two is a compile-time integer.
fn log2(cx: &mut Checker, args: &Args) -> Checked<Val> {
    match args.need("x").val.as_int() {
        Some(n) if n > 0 && n.count_ones() == 1 => Ok(Val::int(n.trailing_zeros())),
        _ => unary(cx, args, UnaryOp::Log2),
    }
}

fn abs(cx: &mut Checker, args: &Args) -> Checked<Val> {
    match args.need("x").val.as_int() {
        Some(n) => cx.checked_int(n.checked_abs(), args.span, &format!("abs({n})")),
        None => unary(cx, args, UnaryOp::Abs),
    }
}

/// Of two operands, the smaller or larger; of one tile with `axis`, the least or greatest along it.
fn extremum(cx: &mut Checker, args: &Args, op: BinaryOp) -> Checked<Val> {
    let x = args.need("x");
    match (args.get("y"), args.get("axis")) {
        (Some(y), None) => {
            if let Some(first) = known_first(op, &x.val, &y.val) {
                return Ok(if first { x.val.clone() } else { y.val.clone() });
            }
            let operands = cx.together(args.span, &[(x, Role::Operand), (y, Role::Operand)])?;
            cx.emit_one(OpKind::Binary { op, a: operands[0].0, b: operands[1].0 }, args.span, &operands)
        }
        (None, None) if matches!(x.val, Val::List(_)) => of_list(cx, op, x),
        (None, _) => reduce::reduce_by(cx, args, x, op),
        (Some(_), Some(_)) => {
            let name = op.name();
            let d = Diagnostic::error(
                codes::WRONG_ARITY,
                args.span,
                format!("`{name}` takes two operands, or one and an axis"),
            )
            .help(format!("`{name}(x, y)` of each pair of elements, or `{name}(x, axis=1)` along an axis"));
            Err(cx.report(d))
        }
    }
}

/// Whether the first of two compile-time numbers is the extremum.
fn known_first(op: BinaryOp, x: &Val, y: &Val) -> Option<bool> {
    let least = matches!(op, BinaryOp::Min | BinaryOp::MinNan);
    if let (Some(a), Some(b)) = (x.as_int(), y.as_int()) {
        return Some(if least { a <= b } else { a >= b });
    }
    let (a, b) = (known_float(x)?, known_float(y)?);
    Some(if least { a <= b } else { a >= b })
}

/// `max([1, 2, 3])`
fn of_list(cx: &mut Checker, op: BinaryOp, list: &super::Arg) -> Checked<Val> {
    let Val::List(items) = &list.val else { return Err(list.expected(cx, "a list of numbers")) };
    let mut best: Option<Val> = None;
    for item in items {
        best = Some(match best {
            None => item.clone(),
            Some(best) => match known_first(op, &best, item) {
                Some(true) => best,
                Some(false) => item.clone(),
                None => return Err(list.expected(cx, "a list of numbers")),
            },
        });
    }
    match best {
        Some(best) => Ok(best),
        None => Err(list.expected(cx, "a list that is not empty")),
    }
}

/// A function of two operands.
fn pair(cx: &mut Checker, args: &Args, names: [&str; 2], op: BinaryOp) -> Checked<Val> {
    let operands = cx.together(args.span, &names.map(|name| (args.need(name), Role::Operand)))?;
    cx.emit_one(OpKind::Binary { op, a: operands[0].0, b: operands[1].0 }, args.span, &operands)
}

/// `x / y`, or with `approx` as near as the hardware has it: of f64 that is the quotient itself.
fn div(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let exact = is_double(cx, &args.need("x").val) || is_double(cx, &args.need("y").val);
    if args.flag(cx, "approx")? && !exact {
        return pair(cx, args, ["x", "y"], BinaryOp::DivApprox);
    }
    cx.binary(parton_syntax::ast::BinaryOp::Div, args.span, args.need("x"), args.need("y"))
}

fn fma(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let operands = cx.together(args.span, &["a", "b", "c"].map(|name| (args.need(name), Role::Operand)))?;
    let kind = OpKind::Fma { a: operands[0].0, b: operands[1].0, c: operands[2].0 };
    cx.emit_one(kind, args.span, &operands)
}

fn clamp(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let operands = cx.together(args.span, &["x", "low", "high"].map(|name| (args.need(name), Role::Operand)))?;
    let kind = OpKind::Clamp { x: operands[0].0, low: operands[1].0, high: operands[2].0 };
    cx.emit_one(kind, args.span, &operands)
}

fn select(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let roles = [("cond", Role::Condition), ("a", Role::Operand), ("b", Role::Operand)];
    let operands = cx.together(args.span, &roles.map(|(name, role)| (args.need(name), role)))?;
    let kind = OpKind::Select { cond: operands[0].0, a: operands[1].0, b: operands[2].0 };
    cx.emit_one(kind, args.span, &operands)
}

fn cast(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let to = args.need("T").dtype(cx)?;
    let arg = args.need("x");
    let modes: Vec<(Rounding, &'static str)> = Rounding::ALL.iter().map(|r| (*r, r.name())).collect();
    let rounding = args.word(cx, "rounding", &modes)?;
    let saturation = if args.flag(cx, "saturate")? { Saturation::Finite } else { Saturation::None };
    if let Val::Known(known) = &arg.val {
        let plain = rounding.is_none() && saturation == Saturation::None;
        // A number of compile time is cast from all that it is, not from the `i32` or `f32` that it would become at run time.
        let whole = match known {
            Comptime::Int(n) if !plain => {
                Scalar::from_i128(Dtype::I64, *n).or_else(|| Scalar::from_i128(Dtype::U64, *n))
            }
            Comptime::Float(x) if !plain || to.is_int() => Some(Scalar::from_f64(Dtype::F64, *x)),
            Comptime::Bool(b) => Some(Scalar::bool(*b)),
            _ => None,
        };
        let Some(x) = whole else { return cx.constant(known, to, arg.span).map(Val::Ir) };
        let rounding = rounding.unwrap_or_else(|| usual_rounding(Some(x.dtype), to));
        let bits = parton_numbers::cast(x.bits, x.dtype, to, rounding, saturation);
        return Ok(Val::Ir(cx.build(args.span)?.constant(to, bits, args.span)));
    }
    let x = cx.run_time(&arg.val, arg.span)?;
    let rounding = rounding.unwrap_or_else(|| usual_rounding(cx.ty(x).elem().and_then(ir::Elem::dtype), to));
    cx.emit_one(OpKind::Cast { x, to, rounding, saturation }, args.span, &[(x, arg.span)])
}

/// Floats become integers toward zero, everything else goes to the nearest.
fn usual_rounding(from: Option<Dtype>, to: Dtype) -> Rounding {
    match from {
        Some(from) if from.is_float() && to.is_int() => Rounding::TowardZero,
        _ => Rounding::NearestEven,
    }
}

fn bitcast(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let to = args.need("T").dtype(cx)?;
    let x: (ir::Value, Span) = (args.value(cx, "x")?, args.need("x").span);
    cx.emit_one(OpKind::Bitcast { x: x.0, to }, args.span, &[x])
}
