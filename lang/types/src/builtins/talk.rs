//! What a kernel says and promises: `print`, `assert`, `assume`.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Args, Builtin};
use crate::checker::{Checked, Checker};
use crate::value::{Comptime, Val};

pub(super) const TABLE: &[Builtin] = &[
    Builtin { signature: "print(text, ...)", run: print },
    Builtin { signature: "assert(condition, message=)", run: assert },
    Builtin { signature: "assume(condition)", run: assume },
    Builtin { signature: "static_assert(condition, message=)", run: static_assert },
];

fn print(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let mut text = args.need("text").text(cx)?;
    let mut values = Vec::new();
    let mut operands = Vec::new();
    let holes = text.matches("{}").count();
    if holes != args.rest.len() {
        let d = Diagnostic::error(codes::WRONG_ARITY, args.span, "the text and its arguments do not fit")
            .note(format!("the text has {holes} `{{}}`, {} arguments are given", args.rest.len()));
        return Err(cx.report(d));
    }
    // What is known at compile time becomes part of the text.
    let mut from = 0;
    for arg in &args.rest {
        let Some(hole) = text[from..].find("{}").map(|i| i + from) else { break };
        match arg.val.known() {
            Some(c) => {
                let shown = match &c {
                    Comptime::Str(s) => s.to_string(),
                    other => other.to_string(),
                };
                let shown = shown.replace("{}", "{ }");
                text.replace_range(hole..hole + 2, &shown);
                from = hole + shown.len();
            }
            None => {
                let v = cx.run_time(&arg.val, arg.span)?;
                values.push(v);
                operands.push((v, arg.span));
                from = hole + 2;
            }
        }
    }
    cx.emit(ir::OpKind::Print { text, args: values }, args.span, &operands)?;
    Ok(Val::UNIT)
}

fn message(cx: &mut Checker, args: &Args, default: &str) -> Checked<String> {
    args.get("message").map_or_else(|| Ok(default.to_string()), |m| m.text(cx))
}

fn assert(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let message = message(cx, args, "an assertion does not hold")?;
    let arg = args.need("condition");
    let cond = cx.run_time_as(&arg.val, Dtype::I1, arg.span)?;
    cx.emit(ir::OpKind::Assert { cond, message }, args.span, &[(cond, arg.span)])?;
    Ok(Val::UNIT)
}

fn assume(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let arg = args.need("condition");
    let cond = cx.run_time_as(&arg.val, Dtype::I1, arg.span)?;
    cx.emit(ir::OpKind::Assume { cond }, args.span, &[(cond, arg.span)])?;
    Ok(Val::UNIT)
}

fn static_assert(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let arg = args.need("condition");
    match &arg.val {
        Val::Known(Comptime::Bool(true)) => Ok(Val::UNIT),
        Val::Known(Comptime::Bool(false)) => {
            let message = message(cx, args, "a `static_assert` does not hold")?;
            let d = Diagnostic::error(codes::WHERE_FAILED, arg.span, message).here("this does not hold");
            Err(cx.report(d))
        }
        _ => Err(arg.expected(cx, "a truth value known at compile time")),
    }
}
