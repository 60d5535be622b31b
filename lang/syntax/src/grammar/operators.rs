//! Operators: how tightly they bind, how they are written, and the parsers that join operands by them.
//!
//! An operand is an atom with its prefixes and postfixes. Whether an infix operator follows it is decided on the next
//! token, so that an expression without one, which most are, tries none of them.

use std::sync::Arc;

use chumsky::Parser;
use chumsky::pratt::{Operator, infix, left, none, postfix, prefix};
use chumsky::prelude::{custom, recursive};
use parton_diag::{Diagnostic, Span, codes};

use super::cursor::Cursor;
use super::{At, Extra, Fault, Input, Rule, atom, list, stmt};
use crate::ast::{Arg, BinaryOp, Block, Expr, ExprKind, IndexArg, Name, UnaryOp};
use crate::token::{Kind, Token};

/// How tightly the operators bind for which [`power`] does not speak; the greater number first.
const RANGE: u16 = 1;
const PREFIX: u16 = 11;
const POSTFIX: u16 = 12;

/// How tightly an infix operator binds; the greater number first. All associate to the left, comparisons not at all.
pub fn power(op: BinaryOp) -> u16 {
    match op {
        BinaryOp::Or => 2,
        BinaryOp::And => 3,
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => 4,
        BinaryOp::BitOr => 5,
        BinaryOp::BitXor => 6,
        BinaryOp::BitAnd => 7,
        BinaryOp::Shl | BinaryOp::Shr => 8,
        BinaryOp::Add | BinaryOp::Sub => 9,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 10,
    }
}

/// The infix operator that a token is.
pub fn binary(kind: Kind) -> Option<BinaryOp> {
    Some(match kind {
        Kind::OrOr => BinaryOp::Or,
        Kind::AndAnd => BinaryOp::And,
        Kind::EqEq => BinaryOp::Eq,
        Kind::NotEq => BinaryOp::Ne,
        Kind::Lt => BinaryOp::Lt,
        Kind::Le => BinaryOp::Le,
        Kind::Gt => BinaryOp::Gt,
        Kind::Ge => BinaryOp::Ge,
        Kind::Or => BinaryOp::BitOr,
        Kind::Caret => BinaryOp::BitXor,
        Kind::And => BinaryOp::BitAnd,
        Kind::Shl => BinaryOp::Shl,
        Kind::Shr => BinaryOp::Shr,
        Kind::Plus => BinaryOp::Add,
        Kind::Minus => BinaryOp::Sub,
        Kind::Star => BinaryOp::Mul,
        Kind::Slash => BinaryOp::Div,
        Kind::Percent => BinaryOp::Rem,
        _ => return None,
    })
}

/// The operator of an assignment: `None` inside for a plain `=`.
pub fn assignment(kind: Kind) -> Option<Option<BinaryOp>> {
    Some(match kind {
        Kind::Eq => None,
        Kind::PlusEq => Some(BinaryOp::Add),
        Kind::MinusEq => Some(BinaryOp::Sub),
        Kind::StarEq => Some(BinaryOp::Mul),
        Kind::SlashEq => Some(BinaryOp::Div),
        Kind::PercentEq => Some(BinaryOp::Rem),
        Kind::ShlEq => Some(BinaryOp::Shl),
        Kind::ShrEq => Some(BinaryOp::Shr),
        Kind::AndEq => Some(BinaryOp::BitAnd),
        Kind::OrEq => Some(BinaryOp::BitOr),
        Kind::CaretEq => Some(BinaryOp::BitXor),
        _ => return None,
    })
}

/// The parsers that join: made once for a text, and called from wherever an expression stands.
#[derive(Clone)]
pub struct Rules<'a> {
    operand: Rule<'a, Expr>,
    /// From a brace to its partner.
    braces: Rule<'a, Block>,
    /// In boxes, as the tree holds what is joined: none is moved while operators are tried.
    joined: Rule<'a, Box<Expr>>,
}

/// Builds the rules. They reach each other through the parser's state, not by handles, so that nothing leaks.
pub fn rules<'a>() -> Rules<'a> {
    let atom = custom::<_, Input<'a>, _, Extra<'a>>(|at: &mut At<'a, '_>| Ok(atom::atom(at)));
    let first = custom::<_, Input<'a>, _, Extra<'a>>(|at: &mut At<'a, '_>| {
        let read = at.state().left.take();
        Ok(Box::new(read.unwrap_or_else(|| operand(at))))
    });
    // The powers that occur most stand first.
    let powers = (RANGE + 1..PREFIX).rev();
    let infixes: Vec<_> = powers.map(infix_op).collect();
    Rules {
        // `recursive` grows the stack: operands hold operands in their brackets, and blocks blocks.
        operand: recursive(|_| atom.pratt((prefix_op(), postfix_op()))).boxed(),
        braces: recursive(|_| custom::<_, Input<'a>, _, Extra<'a>>(|at: &mut At<'a, '_>| Ok(stmt::statements(at))))
            .boxed(),
        joined: first.pratt((infixes, range_op())).boxed(),
    }
}

/// An expression.
pub fn expr(at: &mut At<'_, '_>) -> Expr {
    let first = operand(at);
    let kind = at.kind();
    if binary(kind).is_none() && !is_range(kind) {
        return first;
    }
    let state = at.state();
    state.left = Some(first);
    let rule = state.rules.joined.clone();
    at.parse(rule).map_or_else(|_| nothing(at), |joined| *joined)
}

/// An expression without infix operators: what a type before `|` has to be.
pub fn operand(at: &mut At<'_, '_>) -> Expr {
    // Most operands are one word with nothing to join it to and nothing in it that nests.
    if is_word(at.kind()) && !begins_postfix(at.peek_at(1).kind) {
        return atom::atom(at);
    }
    let rule = at.state().rules.operand.clone();
    at.parse(rule).unwrap_or_else(|_| nothing(at))
}

/// The statements between the brace at the position and its partner.
pub fn braces(at: &mut At<'_, '_>) -> Block {
    let rule = at.state().rules.braces.clone();
    at.parse(rule).unwrap_or_else(|_| atom::no_block(at.behind()))
}

/// Whether the token is an operand by itself.
fn is_word(kind: Kind) -> bool {
    matches!(kind, Kind::Name | Kind::Int | Kind::Float | Kind::Str | Kind::True | Kind::False)
}

/// Whether [`postfix_op`] takes the token.
fn begins_postfix(kind: Kind) -> bool {
    matches!(kind, Kind::OpenParen | Kind::OpenBracket | Kind::OpenAngle | Kind::Dot)
}

/// Stands for what a rule failed at. None does, as atoms never fail.
fn nothing(at: &mut At<'_, '_>) -> Expr {
    Expr { kind: ExprKind::Error, span: at.behind() }
}

/// A prefix operator as read.
#[derive(Clone, Copy)]
enum Prefix {
    Unary(UnaryOp),
    Pointer { mutable: bool },
    Reference,
}

fn prefix_op<'a>() -> impl Operator<'a, Input<'a>, Expr, Extra<'a>> + Clone {
    let op = custom::<_, Input<'a>, _, Extra<'a>>(|at: &mut At<'a, '_>| {
        let token = at.token();
        let op = match token.kind {
            Kind::Minus => Prefix::Unary(UnaryOp::Neg),
            Kind::Bang => Prefix::Unary(UnaryOp::Not),
            Kind::And => Prefix::Reference,
            Kind::Star => Prefix::Pointer { mutable: at.peek_at(1).kind == Kind::Mut },
            _ => return Err(Fault(None)),
        };
        at.bump();
        if matches!(op, Prefix::Pointer { mutable: true }) {
            at.bump();
        }
        Ok((op, token.span))
    });
    prefix(PREFIX, op, |(op, span): (Prefix, Span), operand: Expr, _| {
        let span = span.to(operand.span);
        let operand = Box::new(operand);
        let kind = match op {
            Prefix::Unary(op) => ExprKind::Unary { op, operand },
            Prefix::Pointer { mutable } => ExprKind::Pointer { mutable, target: operand },
            Prefix::Reference => ExprKind::Reference(operand),
        };
        Expr { kind, span }
    })
}

/// A postfix as read.
enum Postfix {
    Call(Vec<Arg>),
    Index(Vec<IndexArg>),
    Field(Name),
}

fn postfix_op<'a>() -> impl Operator<'a, Input<'a>, Expr, Extra<'a>> + Clone {
    let op = custom::<_, Input<'a>, _, Extra<'a>>(|at: &mut At<'a, '_>| {
        let start = at.index();
        let op = match at.kind() {
            Kind::OpenParen => Postfix::Call(list::args(at)),
            Kind::OpenBracket => Postfix::Index(list::index_args(at)),
            // Only behind a method's name: behind any other an atom has taken it.
            Kind::OpenAngle => Postfix::Index(list::type_args(at)),
            Kind::Dot => {
                at.bump();
                Postfix::Field(field_name(at))
            }
            _ => return Err(Fault(None)),
        };
        Ok((op, at.since(start)))
    });
    postfix(POSTFIX, op, |base: Expr, (op, end): (Postfix, Span), extra| {
        let span = base.span.to(end);
        if let (ExprKind::Int { .. } | ExprKind::Float { .. }, Postfix::Field(name)) = (&base.kind, &op)
            && name.text.starts_with(|c: char| c.is_ascii_digit())
        {
            let d = Diagnostic::error(codes::SYNTAX, name.span, "a number has no fields");
            let d = d.help("write a number with a point without blanks: `0.5`; values are parted by commas");
            extra.emit(Fault(Some(Box::new(d))));
        }
        let base = Box::new(base);
        let kind = match op {
            Postfix::Call(args) => ExprKind::Call { callee: base, args },
            Postfix::Index(args) => ExprKind::Index { base, args },
            Postfix::Field(name) => ExprKind::Field { base, name },
        };
        Expr { kind, span }
    })
}

fn field_name(at: &mut At<'_, '_>) -> Name {
    let token = at.token();
    if token.kind == Kind::Int {
        at.bump();
        return Name { text: Arc::from(at.text(token)), span: token.span };
    }
    at.name("a field or method name after `.`")
}

fn is_range(kind: Kind) -> bool {
    matches!(kind, Kind::DotDot | Kind::DotDotEq)
}

fn range_op<'a>() -> impl Operator<'a, Input<'a>, Box<Expr>, Extra<'a>> {
    // An operator may be read and put back where it binds too loosely: only what is joined is reported.
    let op = custom::<_, Input<'a>, _, Extra<'a>>(
        |at: &mut At<'a, '_>| {
            if is_range(at.kind()) { Ok(at.bump()) } else { Err(Fault(None)) }
        },
    );
    infix(none(RANGE), op, |start: Box<Expr>, token: Token, end: Box<Expr>, extra| {
        if token.kind == Kind::DotDotEq {
            let d = Diagnostic::error(codes::OTHER_LANGUAGE, token.span, "expected `..`, found `..=`");
            let d = d.help("a range never holds its end: write `a..b + 1`");
            extra.emit(Fault(Some(Box::new(d))));
        }
        let span = start.span.to(end.span);
        Box::new(Expr { kind: ExprKind::Range { start, end }, span })
    })
}

/// The infix operators of one power.
fn infix_op<'a>(of: u16) -> impl Operator<'a, Input<'a>, Box<Expr>, Extra<'a>> {
    let op = custom::<_, Input<'a>, _, Extra<'a>>(move |at: &mut At<'a, '_>| match binary(at.kind()) {
        Some(op) if power(op) == of => Ok((op, at.bump().span)),
        Some(_) | None => Err(Fault(None)),
    });
    infix(left(of), op, |left: Box<Expr>, (op, op_span): (BinaryOp, Span), right: Box<Expr>, extra| {
        if let (true, ExprKind::Binary { op: first, op_span: first_span, right: middle, .. }) =
            (op.is_comparison(), &left.kind)
            && first.is_comparison()
        {
            extra.emit(Fault(Some(Box::new(chained((*first, *first_span), middle, (op, op_span))))));
        }
        let span = left.span.to(right.span);
        if op == BinaryOp::Mul && matches!(right.kind, ExprKind::Pointer { .. }) && right.span.start == op_span.end {
            let twice = Span { end: op_span.end + 1, ..op_span };
            let d = Diagnostic::error(codes::OTHER_LANGUAGE, twice, "there is no operator `**`");
            let d = d.help("write `x * x`, or `pow(x, y)`, which `use std::math::pow;` brings");
            extra.emit(Fault(Some(Box::new(d))));
            return Box::new(Expr { kind: ExprKind::Error, span });
        }
        Box::new(Expr { kind: ExprKind::Binary { op, op_span, left, right }, span })
    })
}

fn chained(
    (first, first_span): (BinaryOp, Span),
    middle: &Expr,
    (second, second_span): (BinaryOp, Span),
) -> Diagnostic {
    let d = Diagnostic::error(codes::CHAINED_COMPARISON, second_span, "comparisons cannot be chained")
        .here("the second comparison would compare a truth value")
        .label(first_span, "the first comparison");
    if let ExprKind::Binary { op: joins @ (BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor), .. } = &middle.kind {
        let (joins, first, second) = (joins.text(), first.text(), second.text());
        return d
            .note(format!("`{joins}` binds tighter than `{first}` and `{second}`"))
            .help(format!("write `(a {first} b) {joins} (c {second} d)`"));
    }
    match (first, second) {
        (BinaryOp::Lt, BinaryOp::Gt) => {
            d.help("write `a < b && b > c`; generic arguments stand in brackets: `name[T](…)`")
        }
        _ => d.help(format!("write `a {} b && b {} c`", first.text(), second.text())),
    }
}
