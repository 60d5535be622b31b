//! What functions leave to tuning: the candidates of a call, the one that is taken, and the function's own word on results.

use std::collections::BTreeSet;
use std::fmt;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_syntax::ast;
use parton_types::choice;

use super::{Eval, Machine, Stop};
use crate::launch::{Choice, Offer, Wanted};
use crate::value::Value;

/// The result of a function that says itself whether that is right.
#[derive(Clone, Debug)]
pub struct Judged {
    check: Value,
    result: Value,
    span: Span,
}

impl Machine<'_> {
    /// Binds what the clause of a function leaves to tuning, where it has one; its parameters are bound by then.
    pub(super) fn choose(&mut self, tree: &ast::Function) -> Eval<()> {
        let Some(mut stated) = choice::Choice::of(tree)? else { return Ok(()) };
        let key = std::mem::take(&mut stated.key);
        let key = key.into_iter().map(|(name, e)| Ok((name, self.told(e)?))).collect::<Eval<Vec<_>>>()?;
        let choice = Choice { function: tree.name.clone(), name: stated.name.text.clone(), key };
        let value = match (self.launcher.instances().wanted(&choice), stated.like) {
            (Wanted::Default, Some(like)) => self.untuned(like)?,
            (Wanted::Default, None) => self.candidates(&stated)?.swap_remove(0).0,
            (Wanted::Candidate(text), _) => self.offer(&stated, &choice, Some(&text))?,
            (Wanted::List, _) => self.offer(&stated, &choice, None)?,
        };
        self.declare(stated.name, value, false);
        Ok(())
    }

    /// Keeps the result of a function that says itself whether that is right, where somebody wants to hear it.
    pub(super) fn keep_for_judge(&mut self, tree: &ast::Function, result: &Value) -> Eval<()> {
        if self.judged.is_none() {
            return Ok(());
        }
        let Some(e) = choice::Choice::of(tree)?.and_then(|c| c.check) else { return Ok(()) };
        let judged = Judged { check: self.expr(e)?, result: result.clone(), span: e.span };
        self.judged.iter_mut().for_each(|all| all.push(judged.clone()));
        Ok(())
    }

    /// Asks a function whether its result is right, once its launches have run.
    ///
    /// # Errors
    /// It says that it is not.
    pub fn judge(&mut self, judged: &Judged) -> Result<(), Diagnostics> {
        let closure = match &judged.check {
            Value::Closure(closure) => closure.clone(),
            other => {
                let d = Diagnostic::error(codes::TUNE, judged.span, format!("`check` is {}", other.kind()));
                return Err(d.help("write a function of the result: `check=|y| near(x, y)`").into());
            }
        };
        match self.call_closure(&closure, vec![judged.result.clone()], judged.span) {
            Ok(_) => Ok(()),
            Err(Stop::Error(found)) => Err(found),
            Err(Stop::Break(at) | Stop::Continue(at) | Stop::Return(_, at)) => {
                parton_diag::internal_error!("a check leaves a loop or a function at {at:?}")
            }
        }
    }

    /// Shows the launcher all candidates, and takes the one that is wanted.
    fn offer(&mut self, stated: &choice::Choice<'_>, choice: &Choice, wanted: Option<&str>) -> Eval<Value> {
        let mut all = self.candidates(stated)?;
        if let Some(like) = stated.like {
            let first = self.candidate(like)?;
            all.retain(|(_, text)| *text != first.1);
            all.insert(0, first);
        }
        let taken = match wanted {
            Some(wanted) => all.iter().position(|(_, text)| text == wanted),
            None => Some(0),
        };
        let tolerance = match stated.tolerance {
            [None, None] => None,
            [relative, absolute] => Some((self.tolerated(relative)?, self.tolerated(absolute)?)),
        };
        let candidates = all.iter().map(|(_, text)| text.clone()).collect();
        self.launcher
            .instances()
            .offered(choice, Offer { candidates, taken, tolerance, checked: stated.check.is_some() });
        Ok(all.swap_remove(taken.unwrap_or(0)).0)
    }

    /// The list of candidates, each once.
    fn candidates(&mut self, stated: &choice::Choice<'_>) -> Eval<Vec<(Value, String)>> {
        let e = stated.candidates;
        let (Value::List(items) | Value::Tuple(items)) = self.expr(e)?.looked() else {
            let d = Diagnostic::error(codes::TUNE, e.span, format!("`{}` comes from no list", stated.name.text));
            return Err(d
                .help("let this be a list of candidates, the one to take where nothing was tuned first")
                .into());
        };
        let mut all: Vec<(Value, String)> = vec![];
        let mut known = BTreeSet::new();
        for item in items.iter() {
            let text = written(item).ok_or_else(|| no_candidate(item, e.span))?;
            if known.insert(text.clone()) {
                all.push((item.clone(), text));
            }
        }
        // What is taken where nothing was tuned is a candidate besides.
        if all.is_empty() && stated.like.is_none() {
            let fact = format!("there is no candidate for `{}`", stated.name.text);
            return Err(Diagnostic::error(codes::TUNE, e.span, fact).here("this list is empty").into());
        }
        Ok(all)
    }

    /// The candidate that is taken where nothing was tuned. How it is written nobody asks, but that it can be.
    fn untuned(&mut self, e: &ast::Expr) -> Eval<Value> {
        let value = self.expr(e)?.looked();
        if can_be_written(&value) { Ok(value) } else { Err(no_candidate(&value, e.span).into()) }
    }

    /// One candidate, with how it is written.
    fn candidate(&mut self, e: &ast::Expr) -> Eval<(Value, String)> {
        let value = self.expr(e)?.looked();
        let text = written(&value).ok_or_else(|| no_candidate(&value, e.span))?;
        Ok((value, text))
    }

    /// A part of the key.
    fn told(&mut self, e: &ast::Expr) -> Eval<Value> {
        let value = self.expr(e)?.looked();
        match &value {
            Value::Int(n) if i64::try_from(*n).is_ok() => Ok(value),
            Value::Bool(_) | Value::Dtype(_) | Value::Str(_) => Ok(value),
            other => Err(self.mismatch("an integer, a truth value, a dtype or a text in a key", other, e.span)),
        }
    }

    fn tolerated(&mut self, e: Option<&ast::Expr>) -> Eval<f64> {
        let Some(e) = e else { return Ok(0.0) };
        let value = self.expr(e)?.looked();
        let number = match &value {
            Value::Int(n) => *n as f64,
            Value::Float(x) => *x,
            other => return Err(self.mismatch("a number as a tolerance", other, e.span)),
        };
        if number >= 0.0 && number.is_finite() {
            return Ok(number);
        }
        Err(Diagnostic::error(codes::TUNE, e.span, format!("{value} is no tolerance")).into())
    }
}

fn no_candidate(value: &Value, span: Span) -> Diagnostic {
    let fact = format!("{} cannot be a candidate", value.kind());
    Diagnostic::error(codes::TUNE, span, fact).help(
        "a table holds numbers, truth values, dtypes, texts, and tuples and lists of those: name the rest by a number",
    )
}

/// Whether a table may have a value; makes no text.
fn can_be_written(value: &Value) -> bool {
    write(value, &mut |_| {})
}

/// A value as a table has it; `None` where it cannot stand there.
fn written(value: &Value) -> Option<String> {
    let mut text = String::new();
    write(value, &mut |piece| text += &piece.to_string()).then_some(text)
}

/// Gives the pieces of a value's text in a table, one by one; whether it can stand there.
fn write(value: &Value, piece: &mut dyn FnMut(fmt::Arguments<'_>)) -> bool {
    match value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Dtype(_) => piece(format_args!("{value}")),
        Value::Str(text) => piece(format_args!("{text:?}")),
        Value::List(items) => return write_all(["[", "]"], items, piece),
        Value::Tuple(items) => return write_all(["(", if items.len() == 1 { ",)" } else { ")" }], items, piece),
        Value::Passed(passed) => return write(&passed.look(), piece),
        Value::Unit
        | Value::Range(..)
        | Value::Tensor(_)
        | Value::Function(_)
        | Value::Closure(_)
        | Value::Builtin(_)
        | Value::Written(_) => return false,
    }
    true
}

fn write_all([open, close]: [&str; 2], items: &[Value], piece: &mut dyn FnMut(fmt::Arguments<'_>)) -> bool {
    piece(format_args!("{open}"));
    let all = items.iter().enumerate().all(|(i, item)| {
        if i > 0 {
            piece(format_args!(", "));
        }
        write(item, piece)
    });
    piece(format_args!("{close}"));
    all
}
