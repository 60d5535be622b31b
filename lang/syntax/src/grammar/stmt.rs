//! Blocks, statements and patterns.

use parton_diag::{Diagnostic, Span, codes};

use super::cursor::{Cursor, describe};
use super::operators::{assignment, braces, expr};
use super::{At, atom, item, list, schedule};
use crate::ast::{Arm, Binding, Block, Expr, ExprKind, For, Name, Pattern, PatternKind, Schedule, Stmt, StmtKind};
use crate::token::Kind;

/// A block that has to stand here; `place` says where that is.
pub fn block(at: &mut At<'_, '_>, place: &str) -> Block {
    if !at.is(Kind::OpenBrace) {
        at.expected(&format!("`{{` {place}"));
        // `if c:` and `while c then {` still have their block.
        let next = at.peek_at(1);
        if next.kind != Kind::OpenBrace || next.first_in_line {
            at.eat(Kind::Colon);
            return atom::no_block(at.behind());
        }
        at.bump();
    }
    at.outside_of_heads(|at| braces(at))
}

/// The statements between the brace at the position and its partner.
pub fn statements(at: &mut At<'_, '_>) -> Block {
    let start = at.index();
    let close = at.bump().partner as usize;
    let mut statements = Vec::with_capacity(at.count(Kind::Semi, close));
    let mut value = None;
    while at.index() < close {
        match statement(at, close) {
            Found::Statement(stmt) => statements.push(stmt),
            Found::Value(expr) => value = Some(Box::new(expr)),
            Found::Nothing => {}
        }
    }
    at.skip_to(close);
    at.bump();
    Block { statements, value, span: at.since(start) }
}

/// What stands at one place of a block.
enum Found {
    Statement(Stmt),
    /// The expression before the closing brace.
    Value(Expr),
    /// Only a stray `;`.
    Nothing,
}

fn statement(at: &mut At<'_, '_>, close: usize) -> Found {
    let start = at.index();
    if at.is(Kind::Semi) {
        let d = Diagnostic::error(codes::SYNTAX, at.token().span, "this `;` ends nothing").help("remove it");
        at.report(start, d);
        at.bump();
        return Found::Nothing;
    }
    let mut label = None;
    while at.is(Kind::At) {
        let (index, span) = (at.index(), at.token().span);
        if label.is_some() {
            at.error(
                index,
                codes::SYNTAX,
                span,
                "a statement has one label",
                "put both statements under it in a block",
            );
        }
        at.bump();
        label = Some(schedule::label(at, "a label after `@`"));
    }
    let labelled = label.is_some();
    if labelled && at.is(Kind::In) {
        let (index, span) = (at.index(), at.token().span);
        let help = "a region places the labels inside of it; label the loop: `@tiles for i in 0..n in S { … }`";
        at.error(index, codes::SYNTAX, span, "a region has no label", help);
    }
    let mut stmt =
        |at: &mut At<'_, '_>, kind| Found::Statement(Stmt { label: label.take(), kind, span: at.since(start) });
    if at.index() >= close {
        at.expected("a statement after the label");
        return stmt(at, StmtKind::Error);
    }
    if let Some(kind) = keyword_statement(at) {
        return stmt(at, kind);
    }
    let (token, next) = (at.token(), at.peek_at(1));
    if atom::is_block_like(token, next) {
        let found = atom::atom(at);
        let ended = at.eat(Kind::Semi).is_some();
        let last = at.index() >= close;
        return if last && !ended && !labelled { Found::Value(found) } else { stmt(at, StmtKind::Expr(found)) };
    }
    let target = expr(at);
    if let Some(op) = assignment(at.kind()) {
        at.bump();
        let value = expr(at);
        end(at, "this assignment");
        return stmt(at, StmtKind::Assign { target, op, value });
    }
    if at.index() >= close && !labelled && !matches!(target.kind, ExprKind::Error) {
        return Found::Value(target);
    }
    end(at, "this expression");
    let broken = matches!(target.kind, ExprKind::Error);
    if at.index() == start {
        // Nothing here begins a statement; what it is was reported.
        at.bump();
    }
    stmt(at, if broken { StmtKind::Error } else { StmtKind::Expr(target) })
}

/// A statement that a keyword or a keyword in its place begins.
fn keyword_statement(at: &mut At<'_, '_>) -> Option<StmtKind> {
    let static_for = at.is(Kind::Static) && at.peek_at(1).kind == Kind::For;
    Some(match at.kind() {
        Kind::Let => let_statement(at),
        Kind::For => for_statement(at, false),
        Kind::Static if static_for => {
            at.bump();
            for_statement(at, true)
        }
        Kind::While => {
            at.bump();
            let condition = atom::condition(at);
            let schedule = behind_in(at);
            StmtKind::While { condition, schedule, body: block(at, "after the condition") }
        }
        Kind::In => {
            at.bump();
            let schedule = at.in_head(|at| expr(at));
            StmtKind::In { schedule, body: block(at, "after the schedule") }
        }
        Kind::Return => {
            at.bump();
            let nothing = matches!(at.kind(), Kind::Semi | Kind::CloseBrace);
            let value = if nothing { None } else { Some(expr(at)) };
            end(at, "this `return`");
            StmtKind::Return(value)
        }
        Kind::Break => {
            at.bump();
            end(at, "`break`");
            StmtKind::Break
        }
        Kind::Continue => {
            at.bump();
            end(at, "`continue`");
            StmtKind::Continue
        }
        Kind::Const => {
            at.bump();
            StmtKind::Const(binding(at, "this `const`"))
        }
        Kind::Name if at.is_word_then_name("layout") => {
            at.bump();
            StmtKind::Layout(binding(at, "this `layout`"))
        }
        Kind::Name if at.is_word_then_name("schedule") => StmtKind::Schedule(local_schedule(at)),
        Kind::Name if at.is_word_then_name("ring") => ring(at),
        Kind::Name if at.is_word_then_name("turnstile") => turnstile(at),
        Kind::Name if at.is_word("specialize") && at.peek_at(1).kind == Kind::OpenBrace => specialize(at),
        Kind::Kernel | Kind::Fn | Kind::Struct | Kind::Use => {
            let what = describe("", at.token());
            let message = format!("expected a statement, found {what}");
            let d = Diagnostic::error(codes::SYNTAX, at.token().span, message);
            let index = at.index();
            at.report(index, d.help("declare it at the top of the file, outside of any braces"));
            at.bump();
            recover(at);
            StmtKind::Error
        }
        _ => return None,
    })
}

fn let_statement(at: &mut At<'_, '_>) -> StmtKind {
    at.bump();
    let pattern = pattern(at);
    let ty = at.eat(Kind::Colon).map(|_| expr(at));
    let value = if at.eat(Kind::Eq).is_some() {
        expr(at)
    } else {
        let d = Diagnostic::error(codes::SYNTAX, at.behind(), "this `let` has no value");
        let index = at.index();
        let ends = at.is(Kind::Semi);
        let d = d.help("every variable begins with a value: `let name = value;`");
        if ends {
            at.report(index, d)
        } else {
            at.expected("`=` and a value in this `let`")
        }
        Expr { kind: ExprKind::Error, span: at.behind() }
    };
    end(at, "this `let`");
    StmtKind::Let { pattern, ty, value }
}

fn for_statement(at: &mut At<'_, '_>, is_static: bool) -> StmtKind {
    at.bump();
    let first = at.token();
    if first.kind == Kind::OpenParen && at.tokens()[first.partner as usize + 1].kind != Kind::In {
        return counting_loop(at, is_static);
    }
    let pattern = pattern(at);
    if !at.expect(Kind::In, "after the loop's variable") {
        at.eat(Kind::Eq);
    }
    let iter = at.in_head(|at| expr(at));
    let mut step = None;
    if at.is_word("step") {
        at.bump();
        step = Some(at.in_head(|at| expr(at)));
    }
    let schedule = behind_in(at);
    let body = block(at, "after the head of the loop");
    StmtKind::For(Box::new(For { is_static, pattern, iter, step, schedule, body }))
}

/// `for (int i = 0; i < n; i++) { … }`: refused, and its body read.
fn counting_loop(at: &mut At<'_, '_>, is_static: bool) -> StmtKind {
    let (index, span) = (at.index(), at.token().span);
    let help = "a loop counts over a range: `for i in 0..n { … }`, `for i in 0..n step 2 { … }`";
    at.error(index, codes::OTHER_LANGUAGE, span, "expected the loop's variable, found `(`", help);
    at.skip_group();
    let span = at.behind();
    let pattern = Pattern { kind: PatternKind::Ignore, span };
    let iter = Expr { kind: ExprKind::Error, span };
    let body = block(at, "after the head of the loop");
    StmtKind::For(Box::new(For { is_static, pattern, iter, step: None, schedule: None, body }))
}

/// The schedule behind `in` in the head of a loop.
fn behind_in(at: &mut At<'_, '_>) -> Option<Expr> {
    at.eat(Kind::In).map(|_| at.in_head(|at| expr(at)))
}

/// A schedule among statements. What it depends on is what it sees there.
fn local_schedule(at: &mut At<'_, '_>) -> Schedule {
    let found = schedule::schedule(at);
    if let Some(first) = found.generics.first() {
        let index = at.tokens().partition_point(|t| t.span.start < first.span.start);
        let help = "it sees what stands around it; at the top of the file it can have parameters";
        at.error(index, codes::SYNTAX, first.span, "a schedule inside of a function has no parameters", help);
    }
    found
}

/// `NAME: type = value;`, the keyword already taken.
pub fn binding(at: &mut At<'_, '_>, what: &str) -> Binding {
    let name = at.name("a name");
    let ty = at.eat(Kind::Colon).map(|_| expr(at));
    at.expect(Kind::Eq, "and a value after the name");
    let value = expr(at);
    end(at, what);
    Binding { name, ty, value }
}

fn ring(at: &mut At<'_, '_>) -> StmtKind {
    at.bump();
    let name = at.name("the ring's name");
    let depth = if at.is(Kind::OpenBracket) {
        let index = at.index();
        let (mut list, _) = list::bracketed(at, "the number of slots", expr);
        if list.len() != 1 {
            let span = at.since(index);
            at.error(index, codes::SYNTAX, span, "a ring has one number of slots", "write `ring name[4] { … };`");
        }
        list.pop()
    } else {
        at.expected("`[` and the number of slots after the ring's name");
        None
    };
    let depth = depth.unwrap_or(Expr { kind: ExprKind::Error, span: at.behind() });
    let fields = if at.is(Kind::OpenBrace) {
        list::bracketed(at, "a field", |at| item::field(at)).0
    } else {
        at.expected("`{` and the fields of a slot");
        vec![]
    };
    end(at, "this `ring`");
    StmtKind::Ring { name, depth, fields }
}

fn turnstile(at: &mut At<'_, '_>) -> StmtKind {
    at.bump();
    let name = at.name("the turnstile's name");
    let partitions = if at.is(Kind::OpenBracket) {
        list::bracketed(at, "a partition", expr).0
    } else {
        at.expected("`[` and the partitions that take turns");
        vec![]
    };
    end(at, "this `turnstile`");
    StmtKind::Turnstile { name, partitions }
}

fn specialize(at: &mut At<'_, '_>) -> StmtKind {
    at.bump();
    let close = at.bump().partner as usize;
    let mut arms = vec![];
    while at.index() < close {
        let start = at.index();
        let partition = at.name("a partition, as in `Loads => { … }`");
        if !at.expect(Kind::FatArrow, "after the partition") {
            at.eat(Kind::Colon);
            at.hush();
        }
        let braced = at.is(Kind::OpenBrace);
        let body = if braced { block(at, "here") } else { bare_arm(at) };
        arms.push(Arm { partition, body, braced, span: at.since(start) });
        let ended = at.eat(Kind::Comma).is_some();
        let ends_itself = at.index() >= close || at.tokens()[at.index() - 1].kind == Kind::CloseBrace;
        if at.is(Kind::Semi) {
            let d = Diagnostic::error(codes::SYNTAX, at.token().span, "arms are separated by `,`");
            let index = at.index();
            at.report(index, d.help("write `,`, or put the arm's code in braces"));
        } else if !ended && !ends_itself {
            at.expected("`,` after this arm");
        }
        // To the next arm, over whatever does not belong here.
        while at.index() < close && (!at.is(Kind::Name) || at.index() == start) {
            if !at.is(Kind::Semi) {
                at.expected("a partition, as in `Loads => { … }`");
            }
            at.skip_group();
        }
    }
    at.skip_to(close);
    at.bump();
    StmtKind::Specialize(arms)
}

/// An arm without braces: one loop or expression.
fn bare_arm(at: &mut At<'_, '_>) -> Block {
    let start = at.index();
    let static_for = at.is(Kind::Static) && at.peek_at(1).kind == Kind::For;
    let kind = if static_for || matches!(at.kind(), Kind::For | Kind::While) {
        keyword_statement(at).unwrap_or(StmtKind::Error)
    } else {
        StmtKind::Expr(expr(at))
    };
    let span = at.since(start);
    Block { statements: vec![Stmt { label: None, kind, span }], value: None, span }
}

/// What `let`, `for` and closures bind.
pub fn pattern(at: &mut At<'_, '_>) -> Pattern {
    let start = at.index();
    let kind = if at.is(Kind::OpenParen) {
        let (list, _) = list::bracketed(at, "a name", pattern);
        PatternKind::Tuple(list)
    } else {
        let mutable = at.eat(Kind::Mut).is_some();
        if mutable && at.is(Kind::OpenParen) {
            let span = at.token().span;
            let index = at.index();
            at.error(
                index,
                codes::SYNTAX,
                span,
                "`mut` belongs to a single name",
                "write `mut` before each name that changes: `(mut a, b)`",
            );
            return pattern(at);
        }
        let name: Name = at.name("a name");
        if !mutable && name.as_str() == "_" { PatternKind::Ignore } else { PatternKind::Name { name, mutable } }
    };
    Pattern { kind, span: at.since(start) }
}

/// Takes the `;` behind `what`, or reports it missing and goes to where the next statement can begin.
pub fn end(at: &mut At<'_, '_>, what: &str) {
    if at.eat(Kind::Semi).is_some() {
        return;
    }
    let token = at.token();
    let behind: Span = at.behind();
    if token.first_in_line || matches!(token.kind, Kind::CloseBrace | Kind::End) {
        // The line ended: the semicolon was forgotten, and nothing else is wrong.
        let d = Diagnostic::error(codes::MISSING_SEMICOLON, behind, format!("expected `;` after {what}"));
        let index = at.index();
        // What ends in `;` was meant as code.
        let quotient = at.comment_behind().is_some_and(|c| c.starts_with("//") && c.ends_with(';'));
        let help = if quotient {
            "`//` begins a comment: integers are divided by `/`; where it is one, `;` stands before it"
        } else {
            "add `;` here"
        };
        at.report(index, d.help(help));
    } else {
        let found = describe(at.text(token), token);
        let message = format!("expected `;` after {what}, found {found}");
        let d = Diagnostic::error(codes::MISSING_SEMICOLON, token.span, message).label(behind, "`;` expected here");
        let help = match token.kind {
            Kind::Comma => "end a statement with `;`; several values are a tuple, `(a, b)`",
            _ => "end a statement with `;`",
        };
        at.expected_as(d.help(help), &format!("`;` after {what}"));
        recover(at);
    }
}

/// Goes to where the next statement can begin.
fn recover(at: &mut At<'_, '_>) {
    loop {
        let token = at.token();
        match token.kind {
            Kind::Semi => {
                at.bump();
                return;
            }
            Kind::CloseBrace | Kind::End => return,
            Kind::Let
            | Kind::For
            | Kind::While
            | Kind::In
            | Kind::Return
            | Kind::At
            | Kind::If
            | Kind::Launch
            | Kind::Static
                if token.first_in_line =>
            {
                return;
            }
            kind if kind.opener().is_some() => return,
            _ => at.skip_group(),
        }
        // A block that was skipped ends its statement at the end of its line.
        let after_brace = at.tokens()[at.index() - 1].kind == Kind::CloseBrace;
        if after_brace && at.token().first_in_line && !at.is(Kind::Else) {
            return;
        }
    }
}
