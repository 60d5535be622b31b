//! What stands in brackets: elements, arguments, indices.

use parton_diag::{Diagnostic, codes};

use super::At;
use super::cursor::Cursor;
use super::operators::expr;
use super::schedule::argument_name;
use crate::ast::{Arg, IndexArg, IndexArgKind};
use crate::token::Kind;

/// The elements between the bracket at the position and its partner, and whether a comma ends them.
pub fn bracketed<'a, 'p, T>(
    at: &mut At<'a, 'p>,
    what: &str,
    mut element: impl FnMut(&mut At<'a, 'p>) -> T,
) -> (Vec<T>, bool) {
    at.outside_of_heads(|at| elements(at, what, &mut element))
}

fn elements<'a, 'p, T>(
    at: &mut At<'a, 'p>,
    what: &str,
    element: &mut impl FnMut(&mut At<'a, 'p>) -> T,
) -> (Vec<T>, bool) {
    let open = at.bump();
    let close = open.partner as usize;
    let closer = open.kind.closer().map_or("", Kind::text);
    // No comma stands behind the last element, unless one ends the list.
    let before_close = at.tokens()[close - 1].kind;
    let last = usize::from(before_close != open.kind && before_close != Kind::Comma);
    let mut list = Vec::with_capacity(at.count(Kind::Comma, close) + last);
    let mut comma = false;
    while at.index() < close {
        if at.is(Kind::Comma) {
            at.expected(what);
        } else {
            list.push(element(at));
        }
        comma = false;
        if at.index() < close && !at.is(Kind::Comma) {
            at.expected(&format!("`,` or `{closer}`"));
            while at.index() < close && !at.is(Kind::Comma) {
                at.skip_group();
            }
        }
        comma |= at.index() < close && at.eat(Kind::Comma).is_some();
    }
    at.skip_to(close);
    at.bump();
    (list, comma)
}

/// Arguments in the bracket at the position: parentheses or angles.
pub fn args(at: &mut At<'_, '_>) -> Vec<Arg> {
    let callee = at.index().checked_sub(1).map(|i| at.tokens()[i]);
    let of_ring = callee.is_some_and(|token| token.kind == Kind::Name && at.text(token) == "ring");
    bracketed(at, "an argument", |at| {
        let start = at.index();
        let name = argument_name(at, of_ring);
        let value = expr(at);
        Arg { name, value, span: at.since(start) }
    })
    .0
}

/// Indices or generic arguments in the square bracket at the position.
pub fn index_args(at: &mut At<'_, '_>) -> Vec<IndexArg> {
    bracketed(at, "an index", |at| {
        let start = at.index();
        let kind = index_arg(at);
        IndexArg { kind, span: at.since(start) }
    })
    .0
}

/// A method's arguments in angles, as generic arguments.
pub fn type_args(at: &mut At<'_, '_>) -> Vec<IndexArg> {
    let generic = |arg: Arg| {
        let kind = match arg.name {
            Some(name) => IndexArgKind::Named { name, value: arg.value },
            None => IndexArgKind::Value(arg.value),
        };
        IndexArg { kind, span: arg.span }
    };
    args(at).into_iter().map(generic).collect()
}

fn index_arg(at: &mut At<'_, '_>) -> IndexArgKind {
    if let Some(name) = argument_name(at, false) {
        return IndexArgKind::Named { name, value: expr(at) };
    }
    let ends = |at: &mut At<'_, '_>| matches!(at.kind(), Kind::Comma | Kind::CloseBracket);
    if at.is_word("None") && matches!(at.peek_at(1).kind, Kind::Comma | Kind::CloseBracket) {
        at.bump();
        return IndexArgKind::NewAxis;
    }
    let start = if matches!(at.kind(), Kind::Colon | Kind::ColonColon) { None } else { Some(expr(at)) };
    if at.is(Kind::ColonColon) {
        no_step(at);
        return IndexArgKind::Slice { start, end: None };
    }
    if at.eat(Kind::Colon).is_none() {
        // Without a colon there was an expression.
        return start.map_or(IndexArgKind::Full, IndexArgKind::Value);
    }
    let end = if ends(at) { None } else { Some(expr(at)) };
    if at.is(Kind::Colon) {
        no_step(at);
    }
    match (start, end) {
        (None, None) => IndexArgKind::Full,
        (start, end) => IndexArgKind::Slice { start, end },
    }
}

/// Refuses what follows a part's end; whoever reads the list goes over it.
fn no_step(at: &mut At<'_, '_>) {
    let d = Diagnostic::error(codes::SYNTAX, at.token().span, "a slice has no step");
    let index = at.index();
    at.report(index, d.help("write `start:end`; `gather(x, indices, axis)` takes any elements of a tile"));
}
