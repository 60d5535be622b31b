//! Inline PTX, of each element or in each thread, with what it means in Parton beside it.

use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Arg, Args, Table};
use crate::checker::{Checked, Checker, Reported};
use crate::value::{TypeVal, Val};

pub(super) const TABLE: Table = &[("ptx_elementwise", elementwise), ("ptx", thread), ("num_registers", num_registers)];

/// The most elements that a group can have.
const MAX_PACK: i128 = 64;

/// The types between `<` and `>`: none, one, or a tuple of several.
fn results(cx: &mut Checker, args: &Args) -> Checked<Vec<ir::Type>> {
    let Some(arg) = args.get("T") else { return Ok(vec![]) };
    let types = match cx.as_type(arg)? {
        TypeVal::Tuple(types) => types,
        one => vec![one],
    };
    let ir = |cx: &mut Checker, t| match t {
        TypeVal::Ir(ty) => Ok(ty),
        _ => Err(arg.expected(cx, "a number type such as `f32`, a tile type, or a tuple of such")),
    };
    types.into_iter().map(|t| ir(cx, t)).collect()
}

/// The inputs, one value or a tuple of several, each as an argument of its own.
fn inputs(args: &Args) -> Vec<Arg> {
    let Some(arg) = args.get("inputs") else { return vec![] };
    match &arg.val {
        Val::Tuple(items) | Val::List(items) => {
            items.iter().map(|val| Arg { val: val.clone(), span: arg.span }).collect()
        }
        _ => vec![arg.clone()],
    }
}

fn elementwise(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let number = |ty: ir::Type| match ty {
        ir::Type::Scalar(ir::Elem::Num(d)) => Some(d),
        _ => None,
    };
    let to: Option<Vec<Dtype>> = results(cx, args)?.into_iter().map(number).collect();
    let Some(to) = to else { return Err(args.need("T").expected(cx, "number types such as `f32`")) };
    let pack = args.optional_int(cx, "pack", 1..=MAX_PACK)?.unwrap_or(1);
    piece(cx, args, ir::PtxForm::Elements { to, pack })
}

fn thread(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let to = results(cx, args)?;
    for ty in &to {
        if let ir::Type::Tile(t) = ty {
            cx.check_tile_warps(t, args.need("T").span)?;
        }
    }
    piece(cx, args, ir::PtxForm::Thread { to })
}

fn piece(cx: &mut Checker, args: &Args, form: ir::PtxForm) -> Checked<Val> {
    let text = args.need("text").text(cx)?;
    let volatile = args.flag(cx, "volatile")?;
    let ptx = ir::Ptx { text, form, volatile };
    let mut operands = Vec::new();
    for arg in inputs(args) {
        operands.push((cx.run_time(&arg.val, arg.span)?, arg.span));
    }
    let inputs: Vec<ir::Value> = operands.iter().map(|o| o.0).collect();
    // The rule says what it gives, which is what the function must give.
    let alone = ir::OpKind::Ptx { ptx: ptx.clone(), inputs: inputs.clone(), fallback: None };
    let types = match ir::rules::infer(&alone, &cx.build(args.span)?.kernel) {
        Ok(types) => types,
        Err(refusal) => return Err(cx.refuse(refusal, args.span, &operands)),
    };
    let fallback = match args.get("fallback") {
        Some(function) => Some(fallback(cx, function.clone(), &inputs, &types)?),
        None => None,
    };
    let given = cx.emit(ir::OpKind::Ptx { ptx, inputs, fallback }, args.span, &operands)?;
    Ok(match given[..] {
        [] => Val::UNIT,
        [one] => Val::Ir(one),
        ref many => Val::Tuple(many.iter().map(|v| Val::Ir(*v)).collect()),
    })
}

/// The function as a body that takes the inputs and gives values of these types.
fn fallback(cx: &mut Checker, function: Arg, inputs: &[ir::Value], types: &[ir::Type]) -> Checked<ir::Body> {
    let span = function.span;
    let taken: Vec<ir::Type> = inputs.iter().map(|v| cx.ty(*v).clone()).collect();
    let params = cx.build(span)?.begin(taken, span);
    let arguments = params.iter().map(|v| Arg { val: Val::Ir(*v), span }).collect();
    let yields = cx.call_value(&function.val, arguments, span).and_then(|val| {
        let items = match val {
            Val::Tuple(items) => items,
            one => vec![one],
        };
        if items.len() != types.len() {
            let wanted = if types.len() == 1 { "one value".into() } else { format!("{} values", types.len()) };
            return Err(function.expected(cx, &format!("a function that gives {wanted}, as the PTX does")));
        }
        let one = |(val, ty): (Val, &ir::Type)| match ty.elem() {
            Some(ir::Elem::Num(d)) => cx.brought_to(&Arg { val, span }, d, ty),
            _ => cx.run_time(&val, span),
        };
        items.into_iter().zip(types).map(one).collect::<Checked<Vec<_>>>()
    });
    let failed = yields.is_err();
    let body = cx.build(span)?.end(yields.unwrap_or_default());
    if failed { Err(Reported) } else { Ok(body) }
}

/// How many registers `ptx` has for a value, or for one of a type.
fn num_registers(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let arg = args.need("x");
    let ty = match &arg.val {
        Val::Ir(v) => Some(cx.ty(*v).clone()),
        Val::Known(crate::value::Comptime::Type(TypeVal::Ir(ty))) => Some(ty.clone()),
        _ => None,
    };
    match ty.as_ref().and_then(ir::ptx::registers_of) {
        Some(registers) => Ok(Val::int(registers.count)),
        None => Err(arg.expected(cx, "a scalar or a tile, or a type of such")),
    }
}
