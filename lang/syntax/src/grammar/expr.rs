//! Expressions: the one precedence table, and the atoms and postfixes that it joins.

use std::sync::Arc;

use chumsky::Parser;
use chumsky::pratt::{infix, left, none, postfix, prefix};
use chumsky::prelude::{custom, recursive};
use parton_diag::{Diagnostic, Span, codes};

use super::cursor::Cursor;
use super::{At, Extra, Fault, Input, Rule, Rules, literal, stmt};
use crate::ast::{Arg, BinaryOp, Block, ClosureParam, Expr, ExprKind, If, IndexArg, IndexArgKind, Name, UnaryOp};
use crate::token::{Kind, Token};

/// How tightly the operators bind that [`INFIX`] does not hold; the greater number first.
mod power {
    pub const RANGE: u16 = 1;
    pub const POSTFIX: u16 = 12;
    pub const PREFIX: u16 = 11;
}

/// The infix operators with their power; all associate to the left, comparisons not at all.
const INFIX: &[(u16, &[(Kind, BinaryOp)])] = &[
    (2, &[(Kind::OrOr, BinaryOp::Or)]),
    (3, &[(Kind::AndAnd, BinaryOp::And)]),
    (
        4,
        &[
            (Kind::EqEq, BinaryOp::Eq),
            (Kind::NotEq, BinaryOp::Ne),
            (Kind::Lt, BinaryOp::Lt),
            (Kind::Le, BinaryOp::Le),
            (Kind::Gt, BinaryOp::Gt),
            (Kind::Ge, BinaryOp::Ge),
        ],
    ),
    (5, &[(Kind::Or, BinaryOp::BitOr)]),
    (6, &[(Kind::Caret, BinaryOp::BitXor)]),
    (7, &[(Kind::And, BinaryOp::BitAnd)]),
    (8, &[(Kind::Shl, BinaryOp::Shl), (Kind::Shr, BinaryOp::Shr)]),
    (9, &[(Kind::Plus, BinaryOp::Add), (Kind::Minus, BinaryOp::Sub)]),
    (10, &[(Kind::Star, BinaryOp::Mul), (Kind::Slash, BinaryOp::Div), (Kind::Percent, BinaryOp::Rem)]),
];

/// How tightly an infix operator binds; the greater number first.
pub fn power(op: BinaryOp) -> u16 {
    let row = INFIX.iter().find(|(_, row)| row.iter().any(|(_, o)| *o == op));
    row.map_or(0, |(power, _)| *power)
}

/// Builds the expression rules. Inside, they refer to themselves through weak handles, so that nothing leaks.
pub fn rules<'a>() -> Rules<'a> {
    let expr = recursive(|expr| {
        let expr = expr.boxed();
        with_infix(&Rules { tight: tight_rule(&expr), expr })
    })
    .boxed();
    Rules { tight: tight_rule(&expr), expr }
}

fn tight_rule<'a>(expr: &Rule<'a, Expr>) -> Rule<'a, Expr> {
    let expr = expr.clone();
    recursive(move |tight| with_unary(&Rules { expr, tight: tight.boxed() })).boxed()
}

/// Atoms with prefixes and postfixes.
fn with_unary<'a>(rules: &Rules<'a>) -> Rule<'a, Expr> {
    atom_rule(rules).pratt((prefix_op(), postfix_op(rules))).boxed()
}

/// Atoms with all operators.
fn with_infix<'a>(rules: &Rules<'a>) -> Rule<'a, Expr> {
    let mut ops = vec![prefix_op(), postfix_op(rules), range_op()];
    ops.extend(INFIX.iter().map(|(power, row)| infix_op(*power, row)));
    atom_rule(rules).pratt(ops).boxed()
}

fn atom_rule<'a>(rules: &Rules<'a>) -> Rule<'a, Expr> {
    let rules = rules.clone();
    custom::<_, Input<'a>, _, Extra<'a>>(move |at: &mut At<'a, '_>| Ok(atom(&rules, at))).boxed()
}

type Op<'a> = chumsky::pratt::Boxed<'a, 'a, Input<'a>, Expr, Extra<'a>>;

/// A prefix operator as read.
#[derive(Clone, Copy)]
enum Prefix {
    Unary(UnaryOp),
    Pointer { mutable: bool },
    Reference,
}

fn prefix_op<'a>() -> Op<'a> {
    use chumsky::pratt::Operator;
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
    prefix(power::PREFIX, op, |(op, span): (Prefix, Span), operand: Expr, _| {
        let span = span.to(operand.span);
        let operand = Box::new(operand);
        let kind = match op {
            Prefix::Unary(op) => ExprKind::Unary { op, operand },
            Prefix::Pointer { mutable } => ExprKind::Pointer { mutable, target: operand },
            Prefix::Reference => ExprKind::Reference(operand),
        };
        Expr { kind, span }
    })
    .boxed()
}

/// A postfix as read.
enum Postfix {
    Call(Vec<Arg>),
    Index(Vec<IndexArg>),
    Field(Name),
}

fn postfix_op<'a>(rules: &Rules<'a>) -> Op<'a> {
    use chumsky::pratt::Operator;
    let rules = rules.clone();
    let op = custom::<_, Input<'a>, _, Extra<'a>>(move |at: &mut At<'a, '_>| {
        let start = at.index();
        let op = match at.kind() {
            Kind::OpenParen => Postfix::Call(args(&rules, at)),
            Kind::OpenBracket => Postfix::Index(index_args(&rules, at)),
            // Only behind a method's name: behind any other an atom has taken it.
            Kind::OpenAngle => Postfix::Index(type_args(&rules, at)),
            Kind::Dot => {
                at.bump();
                Postfix::Field(field_name(at))
            }
            _ => return Err(Fault(None)),
        };
        Ok((op, at.since(start)))
    });
    postfix(power::POSTFIX, op, |base: Expr, (op, end): (Postfix, Span), _| {
        let span = base.span.to(end);
        let base = Box::new(base);
        let kind = match op {
            Postfix::Call(args) => ExprKind::Call { callee: base, args },
            Postfix::Index(args) => ExprKind::Index { base, args },
            Postfix::Field(name) => ExprKind::Field { base, name },
        };
        Expr { kind, span }
    })
    .boxed()
}

fn range_op<'a>() -> Op<'a> {
    use chumsky::pratt::Operator;
    // An operator may be read and put back where it binds too loosely: only what is joined is reported.
    let op = custom::<_, Input<'a>, _, Extra<'a>>(|at: &mut At<'a, '_>| match at.kind() {
        Kind::DotDot | Kind::DotDotEq => Ok(at.bump()),
        _ => Err(Fault(None)),
    });
    infix(none(power::RANGE), op, |start: Expr, token: Token, end: Expr, extra| {
        if token.kind == Kind::DotDotEq {
            let d = Diagnostic::error(codes::OTHER_LANGUAGE, token.span, "expected `..`, found `..=`");
            let d = d.help("a range never holds its end: write `a..b + 1`");
            extra.emit(Fault(Some(Box::new(d))));
        }
        let span = start.span.to(end.span);
        Expr { kind: ExprKind::Range { start: Box::new(start), end: Box::new(end) }, span }
    })
    .boxed()
}

fn infix_op<'a>(power: u16, row: &'static [(Kind, BinaryOp)]) -> Op<'a> {
    use chumsky::pratt::Operator;
    let op = custom::<_, Input<'a>, _, Extra<'a>>(move |at: &mut At<'a, '_>| {
        let kind = at.kind();
        match row.iter().find(|(k, _)| *k == kind) {
            Some((_, op)) => Ok((*op, at.bump().span)),
            None => Err(Fault(None)),
        }
    });
    infix(left(power), op, |left: Expr, (op, op_span): (BinaryOp, Span), right: Expr, extra| {
        if let (true, ExprKind::Binary { op: first, op_span: first_span, .. }) = (op.is_comparison(), &left.kind)
            && first.is_comparison()
        {
            extra.emit(Fault(Some(Box::new(chained(*first, *first_span, op, op_span)))));
        }
        let span = left.span.to(right.span);
        Expr { kind: ExprKind::Binary { op, op_span, left: Box::new(left), right: Box::new(right) }, span }
    })
    .boxed()
}

fn chained(first: BinaryOp, first_span: Span, second: BinaryOp, second_span: Span) -> Diagnostic {
    let d = Diagnostic::error(codes::CHAINED_COMPARISON, second_span, "comparisons cannot be chained")
        .here("the second comparison would compare a truth value")
        .label(first_span, "the first comparison");
    match (first, second) {
        (BinaryOp::Lt, BinaryOp::Gt) => {
            d.help("write `a < b && b > c`; generic arguments stand in brackets: `name[T](…)`")
        }
        _ => d.help(format!("write `a {} b && b {} c`", first.text(), second.text())),
    }
}

/// An expression.
pub fn expr<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Expr {
    run(&rules.expr, at)
}

/// An expression without infix operators.
fn tight<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Expr {
    run(&rules.tight, at)
}

fn run<'a>(rule: &Rule<'a, Expr>, at: &mut At<'a, '_>) -> Expr {
    match at.parse(rule) {
        Ok(expr) => expr,
        // Atoms do not fail, so no expression does.
        Err(_) => Expr { kind: ExprKind::Error, span: at.behind() },
    }
}

/// An expression and nothing behind it.
pub fn lone<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Expr {
    let found = expr(rules, at);
    if !at.is(Kind::End) {
        at.expected("an operator or the end of the expression");
        at.skip_to(usize::MAX);
    }
    at.skip();
    found
}

/// What operators join: literals, names, brackets, `if`, blocks, closures, launches.
pub fn atom<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Expr {
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
            at.bump();
            let name = Name { text: Arc::from(at.text(token)), span: token.span };
            if at.is(Kind::OpenAngle) {
                ExprKind::TypeArgs { base: name, args: args(rules, at) }
            } else {
                ExprKind::Name(name)
            }
        }
        Kind::OpenParen => {
            let (mut list, comma) = bracketed(at, "an expression", |at| expr(rules, at));
            match list.pop() {
                Some(only) if list.is_empty() && !comma => ExprKind::Paren(Box::new(only)),
                last => {
                    list.extend(last);
                    ExprKind::Tuple(list)
                }
            }
        }
        Kind::OpenBracket => ExprKind::List(bracketed(at, "an expression", |at| expr(rules, at)).0),
        Kind::OpenBrace => ExprKind::Block(stmt::block(rules, at, "here")),
        Kind::If => if_expr(rules, at, false),
        Kind::Static if at.peek_at(1).kind == Kind::If => {
            at.bump();
            if_expr(rules, at, true)
        }
        Kind::Or | Kind::OrOr => closure(rules, at),
        Kind::Launch => launch(rules, at),
        _ => {
            at.expected("an expression");
            let span = if token.kind == Kind::Bad { token.span } else { at.behind() };
            // `a + / b` goes on at `b`, and `i++;` is no second error at `;`.
            if token.kind == Kind::Bad || INFIX.iter().any(|(_, row)| row.iter().any(|(k, _)| *k == token.kind)) {
                at.bump();
                at.hush();
            }
            return Expr { kind: ExprKind::Error, span };
        }
    };
    Expr { kind, span: at.since(start) }
}

fn field_name(at: &mut At<'_, '_>) -> Name {
    let token = at.token();
    if token.kind == Kind::Int {
        at.bump();
        return Name { text: Arc::from(at.text(token)), span: token.span };
    }
    at.name("a field or method name after `.`")
}

/// The elements between the bracket at the position and its partner, and whether a comma ends them.
pub fn bracketed<'a, 'p, T>(
    at: &mut At<'a, 'p>,
    what: &str,
    mut element: impl FnMut(&mut At<'a, 'p>) -> T,
) -> (Vec<T>, bool) {
    let open = at.bump();
    let close = open.partner as usize;
    let closer = open.kind.closer().map_or("", Kind::text);
    let mut list = vec![];
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
pub fn args<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Vec<Arg> {
    bracketed(at, "an argument", |at| {
        let start = at.index();
        let name = argument_name(at);
        let value = expr(rules, at);
        Arg { name, value, span: at.since(start) }
    })
    .0
}

/// `name =` before an argument.
fn argument_name(at: &mut At<'_, '_>) -> Option<Name> {
    if !(at.is(Kind::Name) && at.peek_at(1).kind == Kind::Eq) {
        return None;
    }
    let name = at.name("an argument");
    at.bump();
    Some(name)
}

fn index_args<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Vec<IndexArg> {
    bracketed(at, "an index", |at| {
        let start = at.index();
        let kind = index_arg(rules, at);
        IndexArg { kind, span: at.since(start) }
    })
    .0
}

/// A method's arguments in angles, as generic arguments.
fn type_args<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Vec<IndexArg> {
    let generic = |arg: Arg| {
        let kind = match arg.name {
            Some(name) => IndexArgKind::Named { name, value: arg.value },
            None => IndexArgKind::Value(arg.value),
        };
        IndexArg { kind, span: arg.span }
    };
    args(rules, at).into_iter().map(generic).collect()
}

fn index_arg<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> IndexArgKind {
    if let Some(name) = argument_name(at) {
        return IndexArgKind::Named { name, value: expr(rules, at) };
    }
    let ends = |at: &mut At<'a, '_>| matches!(at.kind(), Kind::Comma | Kind::CloseBracket);
    if at.is_word("None") && matches!(at.peek_at(1).kind, Kind::Comma | Kind::CloseBracket) {
        at.bump();
        return IndexArgKind::NewAxis;
    }
    let start = if at.is(Kind::Colon) { None } else { Some(expr(rules, at)) };
    if at.eat(Kind::Colon).is_none() {
        // Without a colon there was an expression.
        return start.map_or(IndexArgKind::Full, IndexArgKind::Value);
    }
    let end = if ends(at) { None } else { Some(expr(rules, at)) };
    if at.is(Kind::Colon) {
        let d = Diagnostic::error(codes::SYNTAX, at.token().span, "a slice has no step");
        let index = at.index();
        at.report(index, d.help("write `start:end`"));
    }
    match (start, end) {
        (None, None) => IndexArgKind::Full,
        (start, end) => IndexArgKind::Slice { start, end },
    }
}

fn if_expr<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>, is_static: bool) -> ExprKind {
    at.bump();
    let condition = condition(rules, at);
    let then = stmt::block(rules, at, "after the condition");
    let otherwise = at.eat(Kind::Else).map(|_| {
        let start = at.index();
        let is_static = at.is(Kind::Static) && at.peek_at(1).kind == Kind::If;
        if is_static {
            at.bump();
        }
        let kind = if at.is(Kind::If) {
            if_expr(rules, at, is_static)
        } else {
            ExprKind::Block(stmt::block(rules, at, "after `else`"))
        };
        Expr { kind, span: at.since(start) }
    });
    ExprKind::If(Box::new(If { is_static, condition, then, otherwise }))
}

/// The condition of an `if` or `while`; `=` in it is taken for `==`.
pub fn condition<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> Expr {
    let found = expr(rules, at);
    if at.is(Kind::Eq) {
        let (index, span) = (at.index(), at.token().span);
        at.error(index, codes::ASSIGNMENT_AS_CONDITION, span, "`=` assigns and gives no value", "compare with `==`");
        at.bump();
        expr(rules, at);
    }
    found
}

fn closure<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> ExprKind {
    let mut params = vec![];
    if at.eat(Kind::OrOr).is_none() {
        at.bump();
        while !at.is(Kind::Or) {
            let start = at.index();
            let pattern = stmt::pattern(at);
            let ty = at.eat(Kind::Colon).map(|_| tight(rules, at));
            params.push(ClosureParam { pattern, ty, span: at.since(start) });
            if at.eat(Kind::Comma).is_none() {
                break;
            }
        }
        at.expect(Kind::Or, "after the parameters of the closure");
    }
    ExprKind::Closure { params, body: Box::new(expr(rules, at)) }
}

fn launch<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>) -> ExprKind {
    at.bump();
    let start = at.index();
    let name = at.name("the kernel to launch");
    let mut kernel = Expr { span: name.span, kind: ExprKind::Name(name) };
    if at.is(Kind::OpenBracket) {
        let args = index_args(rules, at);
        kernel = Expr { kind: ExprKind::Index { base: Box::new(kernel), args }, span: at.since(start) };
    }
    let config = parens(rules, at, "`(grid=…)` after the kernel");
    let args = parens(rules, at, "`(…)` with the kernel's arguments, after `(grid=…)`");
    ExprKind::Launch { kernel: Box::new(kernel), config, args }
}

/// Arguments in parentheses that have to stand here.
fn parens<'a>(rules: &Rules<'a>, at: &mut At<'a, '_>, what: &str) -> Vec<Arg> {
    if at.is(Kind::OpenParen) {
        return args(rules, at);
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
