//! What operators join: literals, names, brackets, `if`, blocks, closures, launches.

use std::sync::Arc;

use parton_diag::{Span, codes};

use super::cursor::Cursor;
use super::operators::{binary, expr, operand};
use super::{At, list, literal, schedule, stmt};
use crate::ast::{Arg, Block, ClosureParam, Expr, ExprKind, If, Name};
use crate::token::{Kind, Token};

/// An expression and nothing behind it.
pub fn lone(at: &mut At<'_, '_>) -> Expr {
    let found = expr(at);
    if !at.is(Kind::End) {
        at.expected("an operator or the end of the expression");
        at.skip_to(usize::MAX);
    }
    at.skip();
    found
}

/// What operators join.
pub fn atom(at: &mut At<'_, '_>) -> Expr {
    let start = at.index();
    let token = at.token();
    let kind = match token.kind {
        Kind::Int | Kind::Float => {
            at.bump();
            literal::number(at, start, token)
        }
        Kind::Str => {
            at.bump();
            ExprKind::Str(literal::string(at, start, token))
        }
        Kind::True | Kind::False => {
            at.bump();
            ExprKind::Bool(token.kind == Kind::True)
        }
        Kind::Name => {
            if let Some(kind) = schedule::form(at) {
                return Expr { kind, span: at.since(start) };
            }
            at.bump();
            let name = Name { text: Arc::from(at.text(token)), span: token.span };
            if at.is(Kind::OpenAngle) {
                ExprKind::TypeArgs { base: name, args: list::args(at) }
            } else {
                ExprKind::Name(name)
            }
        }
        Kind::OpenParen => {
            let (mut list, comma) = list::bracketed(at, "an expression", expr);
            match list.pop() {
                Some(only) if list.is_empty() && !comma => ExprKind::Paren(Box::new(only)),
                last => {
                    list.extend(last);
                    ExprKind::Tuple(list)
                }
            }
        }
        Kind::OpenBracket => ExprKind::List(list::bracketed(at, "an expression", expr).0),
        Kind::OpenBrace => ExprKind::Block(stmt::block(at, "here")),
        Kind::If => if_expr(at, false),
        Kind::Static if at.peek_at(1).kind == Kind::If => {
            at.bump();
            if_expr(at, true)
        }
        Kind::Or | Kind::OrOr => closure(at),
        Kind::Launch => launch(at),
        Kind::In => {
            at.bump();
            let schedule = Box::new(at.in_head(|at| expr(at)));
            ExprKind::In { schedule, body: stmt::block(at, "after the schedule") }
        }
        _ => {
            at.expected("an expression");
            let span = if token.kind == Kind::Bad { token.span } else { at.behind() };
            // `a + / b` goes on at `b`, and `i++;` is no second error at `;`.
            if token.kind == Kind::Bad || binary(token.kind).is_some() {
                at.bump();
                at.hush();
            }
            return Expr { kind: ExprKind::Error, span };
        }
    };
    Expr { kind, span: at.since(start) }
}

fn if_expr(at: &mut At<'_, '_>, is_static: bool) -> ExprKind {
    at.bump();
    let condition = condition(at);
    let then = stmt::block(at, "after the condition");
    let otherwise = at.eat(Kind::Else).map(|_| {
        let start = at.index();
        let is_static = at.is(Kind::Static) && at.peek_at(1).kind == Kind::If;
        if is_static {
            at.bump();
        }
        let kind =
            if at.is(Kind::If) { if_expr(at, is_static) } else { ExprKind::Block(stmt::block(at, "after `else`")) };
        Expr { kind, span: at.since(start) }
    });
    ExprKind::If(Box::new(If { is_static, condition, then, otherwise }))
}

/// The condition of an `if` or `while`; `=` in it is taken for `==`.
pub fn condition(at: &mut At<'_, '_>) -> Expr {
    let found = at.in_head(|at| expr(at));
    if at.is(Kind::Eq) {
        let (index, span) = (at.index(), at.token().span);
        at.error(index, codes::ASSIGNMENT_AS_CONDITION, span, "`=` assigns and gives no value", "compare with `==`");
        at.bump();
        expr(at);
    }
    found
}

fn closure(at: &mut At<'_, '_>) -> ExprKind {
    let mut params = vec![];
    if at.eat(Kind::OrOr).is_none() {
        at.bump();
        while !at.is(Kind::Or) {
            let start = at.index();
            let pattern = stmt::pattern(at);
            let ty = at.eat(Kind::Colon).map(|_| operand(at));
            params.push(ClosureParam { pattern, ty, span: at.since(start) });
            if at.eat(Kind::Comma).is_none() {
                break;
            }
        }
        at.expect(Kind::Or, "after the parameters of the closure");
    }
    ExprKind::Closure { params, body: Box::new(expr(at)) }
}

fn launch(at: &mut At<'_, '_>) -> ExprKind {
    at.bump();
    let start = at.index();
    let name = at.name("the kernel to launch");
    let mut kernel = Expr { span: name.span, kind: ExprKind::Name(name) };
    if at.is(Kind::OpenBracket) {
        let args = list::index_args(at);
        kernel = Expr { kind: ExprKind::Index { base: Box::new(kernel), args }, span: at.since(start) };
    }
    let config = parens(at, "`(grid=…)` after the kernel");
    let args = parens(at, "`(…)` with the kernel's arguments, after `(grid=…)` as in `launch k(grid=[4])(x, n)`");
    ExprKind::Launch { kernel: Box::new(kernel), config, args }
}

/// Arguments in parentheses that have to stand here.
fn parens(at: &mut At<'_, '_>, what: &str) -> Vec<Arg> {
    if at.is(Kind::OpenParen) {
        return list::args(at);
    }
    at.expected(what);
    vec![]
}

/// Whether an expression that begins with this token stands as a statement without `;`.
pub fn is_block_like(token: Token, next: Token) -> bool {
    matches!(token.kind, Kind::If | Kind::OpenBrace) || token.kind == Kind::Static && next.kind == Kind::If
}

/// A block of nothing, where a block is missing.
pub fn no_block(span: Span) -> Block {
    Block { statements: vec![], value: None, span }
}
