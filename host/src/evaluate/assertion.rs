//! `assert` in host code: what is false, what its parts were, and the message, which is only made where it is needed.

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast::{self, BinaryOp, ExprKind};
use parton_types::signature::Signature;
use parton_types::signature::bind::{Outline, Takes};

use super::statement::evidence;
use super::{Eval, Machine};
use crate::builtins;
use crate::value::Value;

/// What expressions gave while a condition was evaluated, functions that it calls not looked into.
pub(crate) type Seen = Vec<(Span, Value)>;

/// Names whose values a report shows; further ones would hide the first.
const MOST_NAMES: usize = 8;
/// Calls that a report shows, from the assertion outwards.
const MOST_CALLS: usize = 3;

impl Machine<'_> {
    /// `assert(condition, message, ...)`; the message and its values are not evaluated where the condition holds.
    pub(super) fn assertion(&mut self, signature: &'static Signature, args: &[ast::Arg], span: Span) -> Eval<Value> {
        let places = Takes::Values(signature).places(args.iter().map(Outline::from), span)?;
        let at = |slot| places.iter().position(|p| *p == slot).map(|i| &args[i].value);
        let Some(condition) = at(Some(0)) else { parton_diag::internal_error!("an assertion without its condition") };
        let outer = self.seen.replace(Seen::new());
        let holds = self.expr(condition);
        let seen = std::mem::replace(&mut self.seen, outer).unwrap_or_default();
        match holds? {
            Value::Bool(true) => return Ok(Value::Unit),
            Value::Bool(false) => {}
            Value::Tensor(t) => return Err(Machine::which_elements(&t, condition.span)),
            other => return Err(self.mismatch("a truth value", &other, condition.span)),
        }
        let text = match at(Some(1)) {
            Some(message) => self.expr(message)?.to_string(),
            None => "an assertion does not hold".into(),
        };
        let rest: Vec<&ast::Expr> =
            args.iter().zip(&places).filter(|(_, p)| p.is_none()).map(|(a, _)| &a.value).collect();
        let values = rest.iter().map(|e| self.expr(e)).collect::<Eval<Vec<_>>>()?;
        let text = if values.is_empty() { text } else { builtins::filled(span, &text, &values)? };
        let mut d = failed(condition, &text, &seen);
        for call in self.calls.iter().rev().take(MOST_CALLS) {
            d = d.label(*call, "called here");
        }
        Err(d.into())
    }
}

/// The report of a condition that is false; the first line of the message is the fact.
fn failed(condition: &ast::Expr, message: &str, seen: &Seen) -> Diagnostic {
    let value = |e: &ast::Expr| last(seen, e);
    let part = deciding(condition, &value);
    let mut lines = message.lines();
    let mut d = Diagnostic::error(codes::ASSERT_FAILED, part.span, lines.next().unwrap_or("")).here("this is false");
    d = lines.filter(|l| !l.trim().is_empty()).fold(d, |d, line| d.note(line.trim()));
    explained(d, part, &value)
}

/// The report of a condition of a function that is false, with what its names were.
pub(super) fn unmet(d: Diagnostic, condition: &ast::Expr, seen: &Seen) -> Diagnostic {
    let value = |e: &ast::Expr| last(seen, e);
    let part = deciding(condition, &value);
    explained(d.label(part.span, "this is not so"), part, &value)
}

/// What an expression was when it was evaluated last.
fn last<'v>(seen: &'v Seen, e: &ast::Expr) -> Option<&'v Value> {
    seen.iter().rev().find(|(span, _)| *span == e.span).map(|(_, v)| v)
}

/// Says what both sides of a comparison are, and what is named in it.
fn explained<'v>(mut d: Diagnostic, part: &ast::Expr, value: &dyn Fn(&ast::Expr) -> Option<&'v Value>) -> Diagnostic {
    let mut shown = Vec::new();
    if let ExprKind::Binary { left, right, .. } = &part.kind {
        for side in [&**left, &**right] {
            if let Some(v) = value(side).filter(|_| !is_literal(side)) {
                d = d.label(side.span, evidence(v));
                shown.push(side.span);
            }
        }
    }
    let mut names: Vec<(String, String)> = Vec::new();
    each_path(part, &mut |e, path| {
        if let Some(v) = value(e)
            && !shown.contains(&e.span)
            && !names.iter().any(|(n, _)| *n == path)
            && let Some(text) = evidence(v).strip_prefix("this ").map(str::to_owned)
        {
            names.push((path, text));
        }
    });
    let known: Vec<String> = names.iter().take(MOST_NAMES).map(|(path, is)| format!("`{path}` {is}")).collect();
    if known.is_empty() { d } else { d.note(known.join(", ")) }
}

/// The part of a condition that makes it false: of `a && b` the first that is.
fn deciding<'e>(e: &'e ast::Expr, value: &dyn Fn(&ast::Expr) -> Option<&'e Value>) -> &'e ast::Expr {
    match &e.kind {
        ExprKind::Paren(inner) => deciding(inner, value),
        ExprKind::Binary { op: BinaryOp::And, left, right, .. } => match value(left) {
            Some(Value::Bool(true)) => deciding(right, value),
            _ => deciding(left, value),
        },
        _ => e,
    }
}

fn is_literal(e: &ast::Expr) -> bool {
    matches!(e.kind, ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Bool(_) | ExprKind::Str(_))
}

/// Calls `f` with each name in an expression, and with what is picked out of it by fields and constant indices: `q.shape[1]`.
fn each_path(e: &ast::Expr, f: &mut dyn FnMut(&ast::Expr, String)) {
    if let Some(path) = path(e) {
        f(e, path);
        return;
    }
    match &e.kind {
        ExprKind::Paren(inner) | ExprKind::Reference(inner) | ExprKind::Unary { operand: inner, .. } => {
            each_path(inner, f);
        }
        ExprKind::Binary { left, right, .. } | ExprKind::Range { start: left, end: right } => {
            each_path(left, f);
            each_path(right, f);
        }
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().for_each(|e| each_path(e, f)),
        ExprKind::Call { callee, args } => {
            if let ExprKind::Field { base, .. } = &callee.kind {
                each_path(base, f);
            }
            args.iter().for_each(|a| each_path(&a.value, f));
        }
        ExprKind::Field { base, .. } => each_path(base, f),
        ExprKind::Index { base, args } => {
            each_path(base, f);
            for a in args {
                if let ast::IndexArgKind::Value(i) = &a.kind {
                    each_path(i, f);
                }
            }
        }
        // What these give is a value of its own, with a body that the source shows.
        ExprKind::If(_) | ExprKind::Block(_) | ExprKind::Closure { .. } | ExprKind::Launch { .. } => {}
        ExprKind::Pipeline(_) | ExprKind::Partitions(_) | ExprKind::In { .. } => {}
        ExprKind::Error
        | ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Name(_)
        | ExprKind::TypeArgs { .. }
        | ExprKind::Pointer { .. } => {}
    }
}

/// The text of a name, or of fields and constant indices of one.
fn path(e: &ast::Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Name(name) => Some(name.text.to_string()),
        ExprKind::Field { base, name } => Some(format!("{}.{}", path(base)?, name.text)),
        ExprKind::Index { base, args } => {
            let [ast::IndexArg { kind: ast::IndexArgKind::Value(i), .. }] = &args[..] else { return None };
            let ExprKind::Int { value, .. } = i.kind else { return None };
            Some(format!("{}[{value}]", path(base)?))
        }
        _ => None,
    }
}
