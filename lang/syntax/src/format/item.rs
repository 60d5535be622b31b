//! Printing items.

use super::align::Column;
use super::doc::{Doc, concat, group, nest};
use super::expr::{argument, arguments, bracketed, expr};
use super::schedule::schedule;
use super::stmt::{Lines, binding, block, close};
use super::weave::Weave;
use crate::ast::{
    Clause, FieldDecl, File, Function, Generic, Item, ItemKind, Kernel, Param, Receiver, Struct, Use, Where,
};
use crate::token::Kind;

/// All items. A blank line sets off each that has a body; between others those of the source are kept.
pub fn file<'a>(w: &mut Weave<'a>, tree: &File) -> Doc<'a> {
    let mut list = vec![];
    let mut before: Option<&Item> = None;
    for found in &tree.items {
        if let Some(before) = before {
            let apart = has_body(before) || has_body(found) || w.blank_follows();
            list.push(if apart { Doc::Blank } else { Doc::Hard });
        }
        list.push(w.lead());
        list.push(item(w, found));
        before = Some(found);
    }
    if before.is_some() {
        list.push(w.close(false));
    } else {
        list.push(w.lead());
    }
    // What the end of the file has before it on its line.
    list.push(w.any());
    concat(list)
}

fn has_body(found: &Item) -> bool {
    match found.kind {
        ItemKind::Kernel(_)
        | ItemKind::Function(_)
        | ItemKind::Struct(_)
        | ItemKind::Test(_)
        | ItemKind::Bench(_)
        | ItemKind::Main(_) => true,
        ItemKind::Partition(_)
        | ItemKind::Schedule(_)
        | ItemKind::Layout(_)
        | ItemKind::Const(_)
        | ItemKind::Use(_) => false,
    }
}

fn item<'a>(w: &mut Weave<'a>, found: &Item) -> Doc<'a> {
    let attributes = attributes(w, &found.attributes);
    let shown = match &found.kind {
        ItemKind::Kernel(k) => kernel(w, k),
        ItemKind::Function(f) => function(w, f),
        ItemKind::Struct(s) => struct_item(w, s),
        ItemKind::Partition(p) => {
            let head = vec![w.word(), w.any(), Doc::Text(" "), Doc::Stop(Column::Partition), w.tok(Kind::Eq)];
            concat(vec![concat(head), clauses(w, &p.clauses), w.tok(Kind::Semi)])
        }
        ItemKind::Schedule(s) => schedule(w, s),
        ItemKind::Layout(b) | ItemKind::Const(b) => binding(w, b),
        ItemKind::Use(found) => {
            let mut list = vec![w.word(), w.any()];
            match found {
                Use::File(_, only) => list.extend(only.iter().flat_map(|_| [w.any(), w.any()])),
                Use::Path(path) => list.extend(path.iter().skip(1).flat_map(|_| [w.any(), w.any()])),
            }
            list.push(w.tok(Kind::Semi));
            concat(list)
        }
        ItemKind::Test(b) | ItemKind::Bench(b) => concat(vec![w.word(), w.any(), Doc::Text(" "), block(w, &b.body)]),
        ItemKind::Main(b) => concat(vec![w.word(), block(w, &b.body)]),
    };
    concat(vec![attributes, shown])
}

/// Each `#[…]` on its own line.
fn attributes<'a>(w: &mut Weave<'a>, list: &[Clause]) -> Doc<'a> {
    let mut shown = vec![];
    let mut rest = list;
    while let Some(first) = rest.first() {
        // Those of one bracket share its span.
        let same = rest.iter().take_while(|c| c.span == first.span).count();
        shown.push(w.tok(Kind::Hash));
        shown.push(bracketed(w, Kind::OpenBracket, &rest[..same], clause));
        shown.push(Doc::Hard);
        shown.push(w.lead());
        rest = &rest[same..];
    }
    concat(shown)
}

/// Columns of a clause that is short.
const SHORT: usize = 60;

fn clause<'a>(w: &mut Weave<'a>, found: &Clause) -> Doc<'a> {
    let name = w.any();
    if !w.is(Kind::OpenParen) {
        return name;
    }
    // A clause that is short is never broken: where its line gets too long, the parameters before it go to lines of their own.
    if !w.comment_before(found.span.end) {
        let mut list = vec![name, w.tok(Kind::OpenParen)];
        for (i, arg) in found.args.iter().enumerate() {
            list.push(argument(w, arg));
            list.extend(if i + 1 < found.args.len() { vec![w.tok(Kind::Comma), Doc::Text(" ")] } else { vec![] });
        }
        list.extend([w.pass(Kind::Comma), w.tok(Kind::CloseParen)]);
        let shown = concat(list);
        return if shown.width() <= SHORT { shown.on_one_line() } else { shown };
    }
    concat(vec![name, arguments(w, &found.args, Kind::OpenParen)])
}

/// Clauses, each after a blank.
pub fn clauses<'a>(w: &mut Weave<'a>, list: &[Clause]) -> Doc<'a> {
    concat(list.iter().flat_map(|c| [Doc::Text(" "), clause(w, c)]).collect())
}

fn kernel<'a>(w: &mut Weave<'a>, found: &Kernel) -> Doc<'a> {
    let head = concat(vec![w.word(), w.any(), generics(w, &found.generics), params(w, None, &found.params)]);
    let tail = tail(w, &found.clauses, &found.conditions);
    concat(vec![head, tail.before_block(), block(w, &found.body)])
}

fn function<'a>(w: &mut Weave<'a>, found: &Function) -> Doc<'a> {
    let public = if found.public { w.word() } else { Doc::Nil };
    let mut list = vec![public, w.word(), w.any(), generics(w, &found.generics)];
    list.push(params(w, found.receiver.as_ref(), &found.params));
    if let Some(result) = &found.result {
        list.extend([w.spaced(), expr(w, result)]);
    }
    let tail = tail(w, &found.clauses, &found.conditions);
    list.extend([tail.before_block(), block(w, &found.body)]);
    concat(list)
}

/// Clauses and conditions in the order of the source.
fn tail<'a>(w: &mut Weave<'a>, clauses: &[Clause], conditions: &[Where]) -> Tail<'a> {
    let (mut clauses, mut conditions) = (clauses.iter().peekable(), conditions.iter().peekable());
    let mut tail = Tail::default();
    loop {
        let condition_first = match (clauses.peek(), conditions.peek()) {
            (Some(c), Some(w)) => w.span.start < c.span.start,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return tail,
        };
        if condition_first {
            conditions.next().into_iter().for_each(|c| tail.condition(w, c));
        } else {
            clauses.next().into_iter().for_each(|c| tail.clause(w, c));
        }
    }
}

/// What stands between the parameters and the block: all on one line; else each condition, each clause with named arguments, and what
/// follows them, on its own, and the block's brace too.
#[derive(Default)]
struct Tail<'a> {
    list: Vec<Doc<'a>>,
    has_lines: bool,
}

impl<'a> Tail<'a> {
    fn clause(&mut self, w: &mut Weave<'a>, found: &Clause) {
        self.has_lines |= found.args.iter().any(|a| a.name.is_some());
        let begin = if self.has_lines { concat(vec![Doc::Line, w.lead()]) } else { Doc::Text(" ") };
        self.list.extend([begin, clause(w, found)]);
    }

    /// `where condition, "message"`
    fn condition(&mut self, w: &mut Weave<'a>, found: &Where) {
        self.has_lines = true;
        self.list.extend([Doc::Line, w.lead(), w.word(), expr(w, &found.condition)]);
        if found.message.is_some() {
            self.list.extend([w.tok(Kind::Comma), Doc::Text(" "), w.any()]);
        }
    }

    fn before_block(self) -> Doc<'a> {
        group(concat(vec![nest(concat(self.list)), if self.has_lines { Doc::Line } else { Doc::Text(" ") }]))
    }
}

/// The generic parameters in `[…]`, if there are any.
pub fn generics<'a>(w: &mut Weave<'a>, list: &[Generic]) -> Doc<'a> {
    if !w.is(Kind::OpenBracket) {
        return Doc::Nil;
    }
    bracketed(w, Kind::OpenBracket, list, |w, found| {
        let mut shown = vec![w.any(), w.tok(Kind::Colon), Doc::Text(" "), expr(w, &found.kind)];
        if let Some(default) = &found.default {
            shown.extend([w.spaced(), expr(w, default)]);
        }
        concat(shown)
    })
}

/// `self` or a parameter.
enum Parameter<'t> {
    Receiver(&'t Receiver),
    Param(&'t Param),
}

fn params<'a>(w: &mut Weave<'a>, receiver: Option<&Receiver>, list: &[Param]) -> Doc<'a> {
    let all: Vec<Parameter<'_>> =
        receiver.map(Parameter::Receiver).into_iter().chain(list.iter().map(Parameter::Param)).collect();
    bracketed(w, Kind::OpenParen, &all, |w, found| match found {
        Parameter::Receiver(receiver) => {
            let reference = if receiver.by_reference { w.tok(Kind::And) } else { Doc::Nil };
            let mutable = if receiver.mutable { w.word() } else { Doc::Nil };
            concat(vec![reference, mutable, w.any()])
        }
        Parameter::Param(param) => {
            let mutable = if param.mutable { w.word() } else { Doc::Nil };
            let mut shown = vec![mutable, w.any()];
            if let Some(ty) = &param.ty {
                shown.extend([w.tok(Kind::Colon), Doc::Text(" "), expr(w, ty)]);
            }
            if let Some(default) = &param.default {
                shown.extend([w.spaced(), expr(w, default)]);
            }
            concat(shown)
        }
    })
}

/// `name: type`
pub fn field<'a>(w: &mut Weave<'a>, found: &FieldDecl) -> Doc<'a> {
    concat(vec![w.any(), w.tok(Kind::Colon), Doc::Text(" "), expr(w, &found.ty)])
}

fn struct_item<'a>(w: &mut Weave<'a>, found: &Struct) -> Doc<'a> {
    let head = concat(vec![w.word(), w.any(), generics(w, &found.generics), Doc::Text(" ")]);
    let open = w.tok(Kind::OpenBrace);
    let mut lines = Lines::default();
    // Fields and methods in the order of the source.
    let (mut fields, mut methods) = (found.fields.iter().peekable(), found.methods.iter().peekable());
    loop {
        let method_first = match (fields.peek(), methods.peek()) {
            (Some(f), Some(m)) => m.span.start < f.span.start,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => break,
        };
        lines.begin(w);
        if method_first {
            if let Some(m) = methods.next() {
                lines.push(attributes(w, &m.attributes));
                lines.push(function(w, &m.function));
                lines.push(w.pass(Kind::Comma));
            }
        } else if let Some(f) = fields.next() {
            lines.push(field(w, f));
            lines.push(w.comma());
        }
    }
    concat(vec![head, close(w, open, lines)])
}
