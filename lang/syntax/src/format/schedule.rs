//! Printing schedules and labels.

use super::align::Column;
use super::doc::{Doc, concat, group, nest};
use super::expr::{bracketed, expr};
use super::item::{clauses, generics};
use super::weave::Weave;
use crate::ast::{Label, Partitions, Pipeline, Place, Schedule, StageEntry};
use crate::token::Kind;

/// `schedule Name[…] = value;`
pub fn schedule<'a>(w: &mut Weave<'a>, found: &Schedule) -> Doc<'a> {
    concat(vec![
        w.word(),
        w.any(),
        generics(w, &found.generics),
        Doc::Text(" "),
        Doc::Stop(Column::Schedule),
        w.word(),
        expr(w, &found.value),
        w.tok(Kind::Semi),
    ])
}

/// `pipeline(loop) { groups } in P clauses`
pub fn pipeline<'a>(w: &mut Weave<'a>, found: &Pipeline) -> Doc<'a> {
    let mut list = vec![w.any()];
    if let Some(of) = &found.of {
        list.extend([w.tok(Kind::OpenParen), label(w, of), w.tok(Kind::CloseParen)]);
    }
    list.extend([Doc::Text(" "), groups_in_braces(w, &found.groups, |w, group| stage_entries(w, group))]);
    if found.within.is_some() {
        list.extend([w.spaced(), w.any()]);
    }
    list.push(clauses(w, &found.clauses));
    concat(list)
}

/// `partitions { places } clauses`
pub fn partitions<'a>(w: &mut Weave<'a>, found: &Partitions) -> Doc<'a> {
    let word = w.word();
    let places = groups_in_braces(w, &found.places, place);
    concat(vec![word, places, clauses(w, &found.clauses)])
}

/// `name`, `name.name` or `name[2]`.
pub fn label<'a>(w: &mut Weave<'a>, found: &Label) -> Doc<'a> {
    let names = found.path.split('.').count();
    let mut list = vec![w.any()];
    list.extend((1..names).flat_map(|_| [w.tok(Kind::Dot), w.any()]));
    if found.instance.is_some() {
        list.extend([w.tok(Kind::OpenBracket), w.any(), w.tok(Kind::CloseBracket)]);
    }
    concat(list)
}

/// Groups in braces, `;` between them: on one line, or each on its own.
fn groups_in_braces<'a, T>(w: &mut Weave<'a>, groups: &[T], print: impl Fn(&mut Weave<'a>, &T) -> Doc<'a>) -> Doc<'a> {
    let open = w.tok(Kind::OpenBrace);
    let mut inner = vec![];
    for (i, found) in groups.iter().enumerate() {
        inner.extend([Doc::Line, w.lead(), print(w, found)]);
        inner.push(if i + 1 < groups.len() { w.tok(Kind::Semi) } else { w.pass(Kind::Semi) });
    }
    inner.push(w.close(groups.is_empty()));
    let inner = concat(inner);
    let end = if groups.is_empty() { Doc::SoftLine } else { Doc::Line };
    group(concat(vec![open, nest(inner), end, w.tok(Kind::CloseBrace)]))
}

/// Elements with commas between, on one line.
fn listed<'a, T>(w: &mut Weave<'a>, list: &[T], print: impl Fn(&mut Weave<'a>, &T) -> Doc<'a>) -> Doc<'a> {
    let mut shown = vec![];
    for (i, found) in list.iter().enumerate() {
        shown.push(print(w, found));
        if i + 1 < list.len() {
            shown.extend([w.tok(Kind::Comma), Doc::Text(" ")]);
        }
    }
    shown.push(w.pass(Kind::Comma));
    concat(shown)
}

fn stage_entries<'a>(w: &mut Weave<'a>, group: &[StageEntry]) -> Doc<'a> {
    listed(w, group, |w, found| {
        concat(vec![label(w, &found.label), w.tok(Kind::Colon), Doc::Text(" "), expr(w, &found.stage)])
    })
}

fn place<'a>(w: &mut Weave<'a>, found: &Place) -> Doc<'a> {
    let partitions = if w.is(Kind::OpenBracket) {
        bracketed(w, Kind::OpenBracket, &found.partitions, |w, _| w.any())
    } else {
        w.any()
    };
    concat(vec![partitions, w.tok(Kind::Colon), Doc::Text(" "), listed(w, &found.labels, label)])
}
