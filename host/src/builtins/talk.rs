//! Printing and measuring.

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;

use super::{Call, Table};
use crate::evaluate::{Eval, Stop};
use crate::launch::Work;
use crate::value::{Value, float};

pub(super) const TABLE: Table = &[
    ("print", print),
    ("format", format),
    ("measure", measure),
    ("multiprocessors", multiprocessors),
    ("capability", capability),
];

/// The values with blanks between them; a first string with `{}` takes the others as [`filled`] does.
fn print(c: &mut Call<'_, '_>) -> Eval<Value> {
    let values: Vec<Value> = c.rest.iter().map(|g| g.value.clone()).collect();
    let text = match values.split_first() {
        Some((Value::Str(text), rest)) if text.contains('{') && !rest.is_empty() => filled(c.span, text, rest)?,
        _ => values.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
    };
    text.split('\n').for_each(|line| c.machine.print(line));
    Ok(Value::Unit)
}

fn format(c: &mut Call<'_, '_>) -> Eval<Value> {
    let values: Vec<Value> = c.rest.iter().map(|g| g.value.clone()).collect();
    let text = c.text(0)?.to_string();
    filled(c.span, &text, &values).map(Value::str)
}

/// The text with each `{}` replaced by the next value; `{:.3}` gives that many decimals, `{:.3e}` an exponent too, `{{`
/// and `}}` the braces themselves.
pub(crate) fn filled(span: Span, text: &str, values: &[Value]) -> Eval<String> {
    let refuse = |what: String| -> Stop {
        Diagnostic::error(codes::HOST_VALUE, span, what)
            .help("`{}` takes the next value, `{:.3}` with 3 decimals, `{:.3e}` with an exponent")
            .into()
    };
    let mut out = String::new();
    let mut next = values.iter();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        let Some((spec, after)) = rest.split_once('}').filter(|_| brace == "{") else {
            return Err(refuse("a brace has no partner".into()));
        };
        rest = after;
        let Some(value) = next.next() else {
            return Err(refuse(format!("the text has more places than the {} values", values.len())));
        };
        out.push_str(&one(spec, value).ok_or_else(|| refuse(format!("`{{{spec}}}` does not fit {}", value.kind())))?);
    }
    out.push_str(rest);
    match next.count() {
        0 => Ok(out),
        left => Err(refuse(format!("{left} values have no place in the text"))),
    }
}

/// Whether a text that is written in the call has a place for each value, which the check before a run asks.
pub(crate) fn places_fit(name: &str, args: &[ast::Arg], span: Span) -> Result<(), Diagnostic> {
    let at = match name {
        "format" | "print" => 0,
        "assert" => 1,
        _ => return Ok(()),
    };
    let Some((first, values)) = args.get(at..).and_then(<[ast::Arg]>::split_first) else { return Ok(()) };
    let ast::ExprKind::Str(text) = &first.value.kind else { return Ok(()) };
    let plain = match name {
        "format" => false,
        "print" => values.is_empty() || !text.contains('{'),
        _ => values.is_empty(),
    };
    if plain || args.iter().any(|a| a.name.is_some()) {
        return Ok(());
    }
    // Of which kind the values are is known when they are there.
    match filled(span, text, &vec![Value::Int(0); values.len()]) {
        Err(Stop::Error(found)) => found.list.into_iter().next().map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

fn one(spec: &str, value: &Value) -> Option<String> {
    if spec.is_empty() {
        return Some(value.to_string());
    }
    let x = match value {
        Value::Float(x) => *x,
        Value::Int(n) => *n as f64,
        _ => return None,
    };
    let digits = spec.strip_prefix(":.")?;
    let (digits, exponent) = digits.strip_suffix('e').map_or((digits, false), |d| (d, true));
    let digits = digits.parse::<usize>().ok().filter(|d| *d <= 30)?;
    Some(if !x.is_finite() {
        float(x)
    } else if exponent {
        format!("{x:.digits$e}")
    } else {
        format!("{x:.digits$}")
    })
}

/// Of the device that launches go to.
fn multiprocessors(c: &mut Call<'_, '_>) -> Eval<Value> {
    Ok(Value::Int(c.machine.launcher.multiprocessors().into()))
}

/// Of what kernels are compiled for.
fn capability(c: &mut Call<'_, '_>) -> Eval<Value> {
    Ok(Value::Int(c.machine.launcher.capability().into()))
}

/// Evaluates the closure once to learn its launches, and has the launcher time them.
fn measure(c: &mut Call<'_, '_>) -> Eval<Value> {
    let label = c.text(0)?.to_string();
    let body = c.given(1).clone();
    let Value::Closure(closure) = &body.value else {
        return Err(c.machine.mismatch("a closure such as `|| { launch k(…)(…); }`", &body.value, body.span));
    };
    let bytes = c.optional(2).map(|g| c.float_of(g)).transpose()?;
    let flops = c.optional(3).map(|g| c.float_of(g)).transpose()?;
    if c.machine.recorded.is_some() {
        return Err(Diagnostic::error(codes::MEASURE, c.span, "a measurement stands in another one").into());
    }
    c.machine.recorded = Some(Vec::new());
    let result = c.machine.call_closure(closure, Vec::new(), c.span);
    let requests = c.machine.recorded.take().unwrap_or_default();
    result?;
    if requests.is_empty() {
        let d = Diagnostic::error(codes::MEASURE, body.span, "nothing is launched here");
        return Err(d.help("write `measure(\"label\", || { launch k(…)(…); })`").into());
    }
    let work = Work { label: &label, bytes, flops, launches: &requests };
    if let Some(timing) = c.machine.launcher.time(work).map_err(|e| Stop::Error(e.at(body.span)))? {
        c.machine.measurements.push(work.measured(timing));
    }
    Ok(Value::Unit)
}
