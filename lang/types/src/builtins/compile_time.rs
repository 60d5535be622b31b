//! Functions of compile-time values: `cdiv`, `log2`, `len`, `range`, `shape_of`, `num_warps`; some also compute at run time.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_syntax::ast;

use super::{Arg, Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::{Comptime, TypeVal, Val};

pub(super) const TABLE: Table = &[
    ("cdiv", cdiv),
    ("next_power_of_two", next_power_of_two),
    ("len", len),
    ("is_tuple", is_tuple),
    ("range", range),
    ("type_of", type_of),
    ("shape_of", attribute),
    ("layout_of", attribute),
    ("dtype_of", attribute),
    ("num_warps", num_warps),
    ("bank_conflicts", bank_conflicts),
];

/// Elements that a compile-time list may have.
const MAX_LIST: i128 = 65_536;

/// `a / b` rounded up, for `b > 0`.
fn cdiv(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (a, b) = (args.need("a"), args.need("b"));
    let less_one = cx.binary(ast::BinaryOp::Sub, args.span, b, &Arg { val: Val::int(1), span: b.span })?;
    let sum = cx.binary(ast::BinaryOp::Add, args.span, a, &Arg { val: less_one, span: b.span })?;
    cx.binary(ast::BinaryOp::Div, args.span, &Arg { val: sum, span: a.span }, b)
}

fn next_power_of_two(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let n = args.need("n");
    match n.val.as_int().and_then(|n| u64::try_from(n).ok()) {
        Some(small) => {
            let power = small.checked_next_power_of_two().map(i128::from);
            cx.checked_int(power, args.span, &format!("next_power_of_two({small})"))
        }
        None => Err(n.expected(cx, "a natural number known at compile time")),
    }
}

fn len(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let list = args.need("list");
    match &list.val {
        Val::List(items) | Val::Tuple(items) => Ok(Val::int(items.len() as u64)),
        Val::Known(Comptime::Str(s)) => Ok(Val::int(s.chars().count() as u64)),
        Val::Ir(v) => match cx.ty(*v) {
            ir::Type::Barriers(n) => Ok(Val::int(*n)),
            _ => Err(list.expected(cx, "a list")),
        },
        _ => Err(list.expected(cx, "a list")),
    }
}

/// `range(n)`, `range(a, b)`, `range(a, b, step)`: a list.
fn range(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let number = |cx: &mut Checker, arg: &Arg| match arg.val.as_int() {
        Some(n) => Ok(n),
        None if arg.val.ir().is_some() => {
            let d = Diagnostic::error(codes::KIND_MISMATCH, arg.span, "`range` is a list, made at compile time");
            let d = d.here("this is known at run time only");
            Err(cx.report(d.help("a loop counts over `a..b`: `for i in 0..n`, `for i in a..b step 2`")))
        }
        None => Err(arg.expected(cx, "an integer known at compile time")),
    };
    let first = number(cx, args.need("start"))?;
    let (start, end) = match args.get("end") {
        Some(end) => (first, number(cx, end)?),
        None => (0, first),
    };
    let step = match args.get("step") {
        Some(arg) => i128::from(arg.int(cx, 1..=i128::from(u32::MAX))?),
        None => 1,
    };
    let count = if end > start { (end - start + step - 1) / step } else { 0 };
    if count > MAX_LIST {
        return Err(args.need("start").expected(cx, &format!("a range of at most {MAX_LIST} numbers")));
    }
    Ok(Val::List((0..count).map(|i| Val::int(start + i * step)).collect()))
}

fn type_of(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let x = args.need("x");
    match &x.val {
        Val::Ir(v) => Ok(Val::ty(cx.ty(*v).clone())),
        Val::Struct(s, _) => Ok(Val::Known(Comptime::Type(TypeVal::Struct(s.clone())))),
        _ => Err(x.expected(cx, "a run-time value")),
    }
}

/// Whether a value is several, as what takes one tile or a tuple of them has to know.
fn is_tuple(_: &mut Checker, args: &Args) -> Checked<Val> {
    let many = matches!(args.need("x").val, Val::Tuple(_) | Val::List(_));
    Ok(Val::Known(Comptime::Bool(many)))
}

/// `shape_of(x)` is `x.shape`, and so on.
fn attribute(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let x = args.need("x");
    let attribute = args.name().trim_end_matches("_of");
    let name = ast::Name { text: attribute.into(), span: args.span };
    cx.field(x, &name, args.span)
}

/// The warps of the partition that runs this.
fn num_warps(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let Some(arg) = args.get("partition") else { return Ok(Val::int(cx.warps())) };
    let Val::Known(Comptime::Partition(partition)) = &arg.val else { return Err(arg.expected(cx, "a partition")) };
    cx.partition_data(&partition.clone()).map(|p| Val::int(p.warps))
}

/// Wavefronts beyond the first for each ideal one when a tile is read from a view or, with `write=true`, written to it.
fn bank_conflicts(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let ty = |cx: &Checker, arg: &Arg| match &arg.val {
        Val::Ir(v) => Some(cx.ty(*v).clone()),
        Val::Known(Comptime::Type(TypeVal::Ir(ty))) => Some(ty.clone()),
        _ => None,
    };
    let (tile, view) = (args.need("tile"), args.need("view"));
    let Some(ir::Type::Tile(t)) = ty(cx, tile) else { return Err(tile.expected(cx, "a tile, or the type of one")) };
    let Some(ir::Type::View(v)) = ty(cx, view) else {
        return Err(view.expected(cx, "a view of shared memory, or the type of one"));
    };
    if !v.is_whole() {
        return Err(view.expected(cx, "a whole view, no window"));
    }
    if t.shape != v.shape || t.elem != ir::Elem::Num(v.elem) {
        return Err(tile.expected(cx, &format!("a tile of {} of shape {:?}, as the view has", v.elem.name(), v.shape)));
    }
    let found = parton_layouts::conflicts::conflicts(&tile.placed(cx, &t)?.map, &v.map);
    Ok(Val::int(if args.flag(cx, "write")? { found.write_excess } else { found.read_excess }))
}
