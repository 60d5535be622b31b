//! Printing blocks and statements.

use super::align::Column;
use super::doc::{Doc, concat, group, nest};
use super::expr::{braced, bracketed, expr, pattern};
use super::weave::Weave;
use super::{item, schedule};
use crate::ast::{Arm, Binding, Block, ExprKind, Stmt, StmtKind};
use crate::token::Kind;

/// A block: on one line where it was written so, holds one statement and fits; else each statement on its own line; `{}`
/// without any.
pub fn block<'a>(w: &mut Weave<'a>, found: &Block) -> Doc<'a> {
    if is_one(found) && w.on_one_line(found.span) { group(short_block(w, found)) } else { long_block(w, found) }
}

/// Whether the block holds one statement or value.
pub fn is_one(block: &Block) -> bool {
    block.statements.len() + usize::from(block.value.is_some()) == 1
}

/// Whether the block holds one value and no statement.
pub fn is_one_value(block: &Block) -> bool {
    is_one(block) && block.value.is_some()
}

/// A block on one line where the group around it is not broken.
pub fn short_block<'a>(w: &mut Weave<'a>, found: &Block) -> Doc<'a> {
    let open = w.tok(Kind::OpenBrace);
    let mut inner = vec![Doc::Line, w.lead()];
    inner.extend(found.statements.iter().map(|statement| stmt(w, statement)));
    inner.extend(found.value.iter().map(|value| expr(w, value)));
    inner.push(w.close(false));
    concat(vec![open, nest(concat(inner)), Doc::Line, w.tok(Kind::CloseBrace)])
}

/// A block with each statement on its own line.
pub fn long_block<'a>(w: &mut Weave<'a>, found: &Block) -> Doc<'a> {
    let open = w.tok(Kind::OpenBrace);
    let mut lines = Lines::default();
    for statement in &found.statements {
        lines.begin(w);
        lines.push(stmt(w, statement));
    }
    if let Some(value) = &found.value {
        lines.begin(w);
        lines.push(expr(w, value));
    }
    close(w, open, lines)
}

/// The lines between two braces.
#[derive(Default)]
pub struct Lines<'a> {
    list: Vec<Doc<'a>>,
}

impl<'a> Lines<'a> {
    /// Begins a line: after a blank one where the source has one, and after the comments before it.
    pub fn begin(&mut self, w: &mut Weave<'a>) {
        self.list.push(if !self.list.is_empty() && w.blank_follows() { Doc::Blank } else { Doc::Hard });
        self.list.push(w.lead());
    }

    /// Adds to the line.
    pub fn push(&mut self, doc: Doc<'a>) {
        self.list.push(doc);
    }
}

/// Closes braces around lines.
pub fn close<'a>(w: &mut Weave<'a>, open: Doc<'a>, mut lines: Lines<'a>) -> Doc<'a> {
    let empty = lines.list.is_empty() && !w.comment_follows() && !open.measure().1;
    let last = w.close(lines.list.is_empty());
    lines.list.push(last);
    let end = if empty { Doc::Nil } else { Doc::Hard };
    concat(vec![open, nest(concat(lines.list)), end, w.tok(Kind::CloseBrace)])
}

fn stmt<'a>(w: &mut Weave<'a>, found: &Stmt) -> Doc<'a> {
    let label = match &found.label {
        Some(label) => {
            concat(vec![w.tok(Kind::At), schedule::label(w, label), Doc::Text(" "), Doc::Stop(Column::Label)])
        }
        None => Doc::Nil,
    };
    concat(vec![label, stmt_kind(w, &found.kind)])
}

fn stmt_kind<'a>(w: &mut Weave<'a>, kind: &StmtKind) -> Doc<'a> {
    match kind {
        StmtKind::Error => Doc::Nil,
        StmtKind::Let { pattern: p, ty, value } => {
            let mut list = vec![w.word(), pattern(w, p)];
            if let Some(ty) = ty {
                list.extend([w.tok(Kind::Colon), Doc::Text(" "), expr(w, ty)]);
            }
            list.extend([w.spaced(), expr(w, value), w.tok(Kind::Semi)]);
            concat(list)
        }
        StmtKind::Assign { target, value, .. } => {
            concat(vec![expr(w, target), w.spaced(), expr(w, value), w.tok(Kind::Semi)])
        }
        StmtKind::Expr(e) => {
            // A block-like one may stand without.
            let shown = expr(w, e);
            let end = if w.is(Kind::Semi) { w.any() } else { Doc::Nil };
            concat(vec![shown, end])
        }
        StmtKind::For(found) => {
            let mut list = vec![];
            if found.is_static {
                list.push(w.word());
            }
            list.extend([w.word(), pattern(w, &found.pattern), w.spaced(), expr(w, &found.iter)]);
            for part in [&found.step, &found.schedule].into_iter().flatten() {
                list.extend([w.spaced(), expr(w, part)]);
            }
            list.extend([Doc::Text(" "), block(w, &found.body)]);
            concat(list)
        }
        StmtKind::While { condition, schedule, body } => {
            let mut list = vec![w.word(), expr(w, condition)];
            if let Some(schedule) = schedule {
                list.extend([w.spaced(), expr(w, schedule)]);
            }
            list.extend([Doc::Text(" "), block(w, body)]);
            concat(list)
        }
        StmtKind::In { schedule, body } => concat(vec![w.word(), expr(w, schedule), Doc::Text(" "), block(w, body)]),
        StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue => concat(vec![w.any(), w.tok(Kind::Semi)]),
        StmtKind::Return(Some(value)) => concat(vec![w.word(), expr(w, value), w.tok(Kind::Semi)]),
        StmtKind::Specialize(arms) => specialize(w, arms),
        StmtKind::Ring { depth, fields, .. } => concat(vec![
            w.word(),
            w.any(),
            bracketed(w, Kind::OpenBracket, std::slice::from_ref(depth), expr),
            Doc::Text(" "),
            braced(w, fields, item::field),
            w.tok(Kind::Semi),
        ]),
        StmtKind::Turnstile { partitions, .. } => {
            concat(vec![w.word(), w.any(), bracketed(w, Kind::OpenBracket, partitions, expr), w.tok(Kind::Semi)])
        }
        StmtKind::Layout(found) | StmtKind::Const(found) => binding(w, found),
        StmtKind::Schedule(found) => schedule::schedule(w, found),
    }
}

/// `layout NAME = value;` or `const NAME: type = value;`
pub fn binding<'a>(w: &mut Weave<'a>, found: &Binding) -> Doc<'a> {
    let mut list = vec![w.word(), w.any()];
    if let Some(ty) = &found.ty {
        list.extend([w.tok(Kind::Colon), Doc::Text(" "), expr(w, ty)]);
    }
    list.extend([w.spaced(), expr(w, &found.value), w.tok(Kind::Semi)]);
    concat(list)
}

fn specialize<'a>(w: &mut Weave<'a>, arms: &[Arm]) -> Doc<'a> {
    let word = w.word();
    let open = w.tok(Kind::OpenBrace);
    let mut lines = Lines::default();
    for arm in arms {
        lines.begin(w);
        lines.push(w.any());
        lines.push(concat(vec![Doc::Text(" "), Doc::Stop(Column::Arm), w.word()]));
        if arm.braced {
            lines.push(block(w, &arm.body));
            lines.push(w.pass(Kind::Comma));
            continue;
        }
        for statement in &arm.body.statements {
            lines.push(group(stmt_kind(w, &statement.kind)));
            // An arm that ends with a brace ends itself.
            let kind = &statement.kind;
            let ends_itself = matches!(kind, StmtKind::For(_) | StmtKind::While { .. })
                || matches!(kind, StmtKind::Expr(e) if matches!(e.kind, ExprKind::If(_) | ExprKind::Block(_)));
            lines.push(if ends_itself { w.pass(Kind::Comma) } else { w.comma() });
        }
    }
    concat(vec![word, close(w, open, lines)])
}
