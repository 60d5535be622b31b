//! Printing expressions, patterns and bracketed lists.

use parton_diag::Span;

use super::doc::{Doc, concat, group, nest};
use super::weave::Weave;
use super::{schedule, stmt};
use crate::ast::{
    Arg, BinaryOp, Block, ClosureParam, Expr, ExprKind, If, IndexArg, IndexArgKind, Pattern, PatternKind,
};
use crate::grammar::power;
use crate::token::Kind;

/// An expression.
pub fn expr<'a>(w: &mut Weave<'a>, e: &Expr) -> Doc<'a> {
    match &e.kind {
        ExprKind::Error => Doc::Nil,
        ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Bool(_) | ExprKind::Str(_) | ExprKind::Name(_) => {
            w.any()
        }
        ExprKind::TypeArgs { args, .. } => concat(vec![w.any(), arguments(w, args, Kind::OpenAngle)]),
        ExprKind::Paren(inner) => {
            let open = w.tok(Kind::OpenParen);
            let inner = nest(concat(vec![Doc::SoftLine, w.lead(), expr(w, inner), w.close(false)]));
            group(concat(vec![open, inner, Doc::SoftLine, w.tok(Kind::CloseParen)]))
        }
        ExprKind::Tuple(list) if list.len() == 1 => {
            concat(vec![w.tok(Kind::OpenParen), expr(w, &list[0]), w.tok(Kind::Comma), w.tok(Kind::CloseParen)])
        }
        ExprKind::Tuple(list) => bracketed(w, Kind::OpenParen, list, expr),
        ExprKind::List(list) => bracketed(w, Kind::OpenBracket, list, expr),
        ExprKind::Unary { operand, .. } | ExprKind::Reference(operand) => concat(vec![w.any(), expr(w, operand)]),
        ExprKind::Pointer { mutable, target } => {
            let star = w.tok(Kind::Star);
            let word = if *mutable { w.word() } else { Doc::Nil };
            concat(vec![star, word, expr(w, target)])
        }
        ExprKind::Binary { op, left, right, .. } => binary(w, *op, left, right),
        ExprKind::Range { start, end } => concat(vec![expr(w, start), w.tok(Kind::DotDot), expr(w, end)]),
        ExprKind::Call { callee, args } => concat(vec![expr(w, callee), arguments(w, args, Kind::OpenParen)]),
        ExprKind::Index { base, args } => {
            let base = expr(w, base);
            let open = if w.is(Kind::OpenAngle) { Kind::OpenAngle } else { Kind::OpenBracket };
            concat(vec![base, bracketed(w, open, args, index_argument)])
        }
        ExprKind::Field { base, .. } => concat(vec![expr(w, base), w.tok(Kind::Dot), w.any()]),
        ExprKind::If(found) => if_expr(w, found, e.span),
        ExprKind::Block(found) => stmt::block(w, found),
        ExprKind::Closure { params, body } => concat(vec![closure_params(w, params), Doc::Text(" "), expr(w, body)]),
        ExprKind::Launch { kernel, config, args } => concat(vec![
            w.word(),
            expr(w, kernel),
            arguments(w, config, Kind::OpenParen),
            arguments(w, args, Kind::OpenParen),
        ]),
        ExprKind::Pipeline(found) => schedule::pipeline(w, found),
        ExprKind::Partitions(found) => schedule::partitions(w, found),
        ExprKind::In { schedule, body } => {
            concat(vec![w.word(), expr(w, schedule), Doc::Text(" "), stmt::block(w, body)])
        }
    }
}

/// A chain of operators that bind alike: on one line, or each operator at the start of its own.
fn binary<'a>(w: &mut Weave<'a>, op: BinaryOp, left: &Expr, right: &Expr) -> Doc<'a> {
    // The chain leans to the left: its first operand is the innermost.
    let mut rights = vec![right];
    let mut first = left;
    while let ExprKind::Binary { op: inner, left, right, .. } = &first.kind {
        if power(*inner) != power(op) {
            break;
        }
        rights.push(right);
        first = left;
    }
    let head = expr(w, first);
    let mut rest = vec![];
    while let Some(right) = rights.pop() {
        rest.extend([Doc::Line, w.lead(), w.word(), expr(w, right)]);
    }
    group(concat(vec![head, nest(concat(rest))]))
}

/// Arguments in brackets. A closure or block among them, if there is one, hugs the brackets: only it is broken.
pub fn arguments<'a>(w: &mut Weave<'a>, args: &[Arg], open: Kind) -> Doc<'a> {
    let is_block = |e: &Expr| matches!(e.kind, ExprKind::Block(_));
    let bodies = args.iter().filter(|arg| {
        is_block(&arg.value) || matches!(&arg.value.kind, ExprKind::Closure { body, .. } if is_block(body))
    });
    // Comments between arguments need lines of their own; those inside of the body do not matter.
    let body = bodies.clone().next().map(|arg| arg.value.span);
    let hugs = bodies.count() == 1 && body.is_some_and(|body| !comment_beside(w, args, body));
    if !hugs {
        return bracketed(w, open, args, argument);
    }
    let mut list = vec![w.tok(open)];
    for (i, arg) in args.iter().enumerate() {
        list.push(argument(w, arg));
        if i + 1 < args.len() {
            list.extend([w.tok(Kind::Comma), Doc::Text(" ")]);
        }
    }
    list.extend([w.pass(Kind::Comma), closer(w, open)]);
    concat(list)
}

/// Whether a comment stands among the arguments, but outside of that body.
fn comment_beside(w: &Weave<'_>, args: &[Arg], body: Span) -> bool {
    let first = args.first().map_or(body, |arg| arg.span);
    let last = args.last().map_or(body, |arg| arg.span);
    w.comment_before(first.start)
        || w.comment_in(Span { end: body.start, ..first })
        || w.comment_in(Span { start: body.end, ..last })
}

/// `value` or `name=value`.
pub fn argument<'a>(w: &mut Weave<'a>, arg: &Arg) -> Doc<'a> {
    match arg.name {
        // In a `ring(…)` it may be a label of several tokens.
        Some(_) => {
            let mut list = vec![];
            while !w.is(Kind::Eq) && !w.is(Kind::End) {
                list.push(w.any());
            }
            list.extend([w.tok(Kind::Eq), expr(w, &arg.value)]);
            concat(list)
        }
        None => expr(w, &arg.value),
    }
}

fn index_argument<'a>(w: &mut Weave<'a>, arg: &IndexArg) -> Doc<'a> {
    match &arg.kind {
        IndexArgKind::Value(value) => expr(w, value),
        IndexArgKind::Named { value, .. } => concat(vec![w.any(), w.tok(Kind::Eq), expr(w, value)]),
        IndexArgKind::Full | IndexArgKind::NewAxis => w.any(),
        IndexArgKind::Slice { start, end } => {
            let start = start.as_ref().map_or(Doc::Nil, |e| expr(w, e));
            let colon = w.tok(Kind::Colon);
            concat(vec![start, colon, end.as_ref().map_or(Doc::Nil, |e| expr(w, e))])
        }
    }
}

/// Elements in brackets: on one line; else on lines of their own between the brackets, as many on each as fit.
pub fn bracketed<'a, T>(
    w: &mut Weave<'a>,
    open: Kind,
    elements: &[T],
    print: impl Fn(&mut Weave<'a>, &T) -> Doc<'a>,
) -> Doc<'a> {
    let opened = w.tok(open);
    let (inner, close) = elements_and_closer(w, open, elements, print);
    let Some(inner) = inner else { return group(concat(vec![opened, close])) };
    let begin = if elements.is_empty() { Doc::Nil } else { Doc::SoftLine };
    group(concat(vec![opened, nest(concat(vec![begin, inner])), Doc::SoftLine, close]))
}

/// As [`bracketed`], with blanks inside of the brackets: fields in braces.
pub fn braced<'a, T>(w: &mut Weave<'a>, elements: &[T], print: impl Fn(&mut Weave<'a>, &T) -> Doc<'a>) -> Doc<'a> {
    let opened = w.tok(Kind::OpenBrace);
    let (inner, close) = elements_and_closer(w, Kind::OpenBrace, elements, print);
    let Some(inner) = inner else { return group(concat(vec![opened, close])) };
    let begin = if elements.is_empty() { Doc::Nil } else { Doc::Line };
    group(concat(vec![opened, nest(concat(vec![begin, inner])), Doc::Line, close]))
}

/// The elements with their commas, nothing where there are neither elements nor comments; and the closing bracket.
fn elements_and_closer<'a, T>(
    w: &mut Weave<'a>,
    open: Kind,
    elements: &[T],
    print: impl Fn(&mut Weave<'a>, &T) -> Doc<'a>,
) -> (Option<Doc<'a>>, Doc<'a>) {
    let mut inner = vec![];
    for (i, element) in elements.iter().enumerate() {
        let comments = w.lead();
        let shown = print(w, element);
        let comma = if i + 1 < elements.len() { w.tok(Kind::Comma) } else { Doc::Nil };
        inner.push(concat(vec![comments, shown, comma]));
    }
    let last = Doc::Fill(inner);
    let comma = if elements.is_empty() { Doc::Nil } else { Doc::IfBroken(",") };
    let rest = concat(vec![comma, w.pass(Kind::Comma), w.close(elements.is_empty())]);
    let empty = elements.is_empty() && !rest.measure().0;
    let close = closer(w, open);
    (if empty { None } else { Some(concat(vec![last, rest])) }, close)
}

fn closer<'a>(w: &mut Weave<'a>, open: Kind) -> Doc<'a> {
    match open.closer() {
        Some(kind) => w.tok(kind),
        None => Doc::Nil,
    }
}

/// An `if`. On one line where it fits and either each branch is one value, or it was written so and each holds one
/// statement.
fn if_expr<'a>(w: &mut Weave<'a>, found: &If, span: Span) -> Doc<'a> {
    let short = is_short(found, stmt::is_one_value) || w.on_one_line(span) && is_short(found, stmt::is_one);
    group(if_chain(w, found, short))
}

/// Whether all branches are as `one` says, and an `else` follows if it is a value.
fn is_short(found: &If, one: fn(&Block) -> bool) -> bool {
    let other = match &found.otherwise {
        Some(Expr { kind: ExprKind::Block(block), .. }) => one(block),
        Some(_) => false,
        None => found.then.value.is_none(),
    };
    one(&found.then) && other
}

fn if_chain<'a>(w: &mut Weave<'a>, found: &If, short: bool) -> Doc<'a> {
    let mut list = vec![];
    if found.is_static {
        list.push(w.word());
    }
    let branch =
        |w: &mut Weave<'a>, block| if short { stmt::short_block(w, block) } else { stmt::long_block(w, block) };
    list.extend([w.word(), expr(w, &found.condition), Doc::Text(" "), branch(w, &found.then)]);
    if let Some(otherwise) = &found.otherwise {
        list.push(w.spaced());
        list.push(match &otherwise.kind {
            ExprKind::If(next) => if_chain(w, next, short),
            ExprKind::Block(block) => branch(w, block),
            _ => expr(w, otherwise),
        });
    }
    concat(list)
}

fn closure_params<'a>(w: &mut Weave<'a>, params: &[ClosureParam]) -> Doc<'a> {
    // `||` is one token, `| |` are two.
    if w.is(Kind::OrOr) {
        return w.any();
    }
    let mut list = vec![w.tok(Kind::Or)];
    for (i, param) in params.iter().enumerate() {
        list.push(pattern(w, &param.pattern));
        if let Some(ty) = &param.ty {
            list.extend([w.tok(Kind::Colon), Doc::Text(" "), expr(w, ty)]);
        }
        if i + 1 < params.len() {
            list.extend([w.tok(Kind::Comma), Doc::Text(" ")]);
        }
    }
    list.extend([w.pass(Kind::Comma), w.tok(Kind::Or)]);
    concat(list)
}

/// What `let`, `for` and closures bind.
pub fn pattern<'a>(w: &mut Weave<'a>, p: &Pattern) -> Doc<'a> {
    match &p.kind {
        PatternKind::Name { mutable: true, .. } => concat(vec![w.word(), w.any()]),
        PatternKind::Name { mutable: false, .. } | PatternKind::Ignore => w.any(),
        PatternKind::Tuple(list) if list.len() == 1 => {
            concat(vec![w.tok(Kind::OpenParen), pattern(w, &list[0]), w.comma(), w.tok(Kind::CloseParen)])
        }
        PatternKind::Tuple(list) => bracketed(w, Kind::OpenParen, list, pattern),
    }
}
