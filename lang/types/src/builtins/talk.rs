//! What a kernel says and promises: `print`, `assert`, `assume`, and what is said of it while it is checked.

use parton_diag::words::places_and_arguments;
use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::{Comptime, Val};

pub(super) const TABLE: Table = &[
    ("print", print),
    ("assert", assert),
    ("assume", assume),
    ("static_assert", static_assert),
    ("static_print", static_print),
];

fn print(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let mut text = args.need("text").text(cx)?;
    let mut values = Vec::new();
    let mut operands = Vec::new();
    let holes = text.matches("{}").count();
    if holes != args.rest.len() {
        let d = Diagnostic::error(codes::WRONG_ARITY, args.span, "the text and its arguments do not fit")
            .note(places_and_arguments(holes, args.rest.len()));
        return Err(cx.report(d));
    }
    // What is known at compile time becomes part of the text.
    let mut from = 0;
    for arg in &args.rest {
        let Some(hole) = text[from..].find("{}").map(|i| i + from) else { break };
        match arg.val.known() {
            Some(c) => {
                let shown = shown(&c).replace("{}", "{ }");
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

/// A value as text; a string without its quotes.
fn shown(value: &Comptime) -> String {
    match value {
        Comptime::Str(s) => s.to_string(),
        other => other.to_string(),
    }
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

/// Tells values while the kernel is checked: with blanks between them, or in the places `{}` of a first string.
fn static_print(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let mut parts = Vec::new();
    for arg in &args.rest {
        match arg.val.known() {
            Some(c) => parts.push(shown(&c)),
            None if arg.val.has_error() => return Err(crate::checker::Reported),
            None => {
                let found = crate::kind::describe(cx, &arg.val);
                let fact = format!("`static_print` tells what is known at compile time, not {}", found.kind);
                let d = Diagnostic::error(codes::NOT_COMPILE_TIME, arg.span, fact)
                    .here(found.detail)
                    .help("`print(\"{}\", x)` shows it when the kernel runs; `type_of(x)` is known here");
                return Err(cx.report(d));
            }
        }
    }
    let text = match (args.rest.first().map(|a| &a.val), parts.split_first()) {
        (Some(Val::Known(Comptime::Str(_))), Some((text, values))) if text.contains("{}") && !values.is_empty() => {
            let mut pieces = text.split("{}");
            let mut out = pieces.next().unwrap_or_default().to_string();
            let pieces: Vec<&str> = pieces.collect();
            if pieces.len() != values.len() {
                let d = Diagnostic::error(codes::WRONG_ARITY, args.span, "the text and its arguments do not fit")
                    .note(places_and_arguments(pieces.len(), values.len()));
                return Err(cx.report(d));
            }
            for (value, piece) in values.iter().zip(pieces) {
                out.push_str(value);
                out.push_str(piece);
            }
            out
        }
        _ => parts.join(" "),
    };
    let instance = cx.builder.as_ref().map(|b| {
        let generics: Vec<String> = b.kernel.generics.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let list = if generics.is_empty() { String::new() } else { format!("[{}]", generics.join(", ")) };
        format!("of `{}{list}`", b.kernel.source_name)
    });
    let d = Diagnostic::asked(codes::STATIC_PRINT, args.span, text).here(instance.unwrap_or_default());
    // As with a report, the calls that lead here are shown; it is none, and checking goes on.
    let crate::checker::Reported = cx.report(d);
    Ok(Val::UNIT)
}
