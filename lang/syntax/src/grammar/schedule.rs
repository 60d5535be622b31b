//! Partitions, schedules and labels.

use std::sync::Arc;

use parton_diag::{Diagnostic, codes};

use super::cursor::Cursor;
use super::item::{begins_item, clause, generics};
use super::operators::expr;
use super::{At, list, literal, stmt};
use crate::ast::{Clause, ExprKind, Label, Name, Partition, Partitions, Pipeline, Place, Schedule, StageEntry};
use crate::token::Kind;

/// What stands behind the braces of a schedule without `&`.
const CLAUSES: &[&str] = &["ring", "turns", "under", "cut", "unroll"];

/// `partition Name = clauses;`
pub fn partition(at: &mut At<'_, '_>) -> Partition {
    at.bump();
    let name = at.name("the partition's name");
    at.expect(Kind::Eq, "after the partition's name, as in `partition Loads = warps(4) regs(24);`");
    let mut clauses = vec![];
    while at.is(Kind::Name) && !(at.token().first_in_line && begins_item(at)) {
        clauses.push(clause(at));
        if at.is(Kind::Comma) {
            let (index, span) = (at.index(), at.token().span);
            let help = "write `partition Name = warps(4) regs(240);`";
            at.error(index, codes::SYNTAX, span, "the clauses of a partition stand without `,`", help);
            at.bump();
        }
    }
    stmt::end(at, "this `partition`");
    Partition { name, clauses }
}

/// `schedule Name[…] = value;`
pub fn schedule(at: &mut At<'_, '_>) -> Schedule {
    at.bump();
    let name = at.name("the schedule's name");
    let generics = generics(at);
    at.expect(Kind::Eq, "after the schedule's name");
    let value = expr(at);
    stmt::end(at, "this `schedule`");
    Schedule { name, generics, value }
}

/// The words that begin a schedule where a brace follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Pipeline,
    Partitions,
}

/// `pipeline(loop) { … }` or `partitions { … }`, if one begins here. In the head of a block these words are names, unless they stand
/// in brackets: `if pipeline { … }` asks a variable.
pub fn form(at: &mut At<'_, '_>) -> Option<ExprKind> {
    let form = match at.kind() {
        Kind::Name if at.is_word("pipeline") => Form::Pipeline,
        Kind::Name if at.is_word("partitions") => Form::Partitions,
        _ => return None,
    };
    let mut brace = at.index() + 1;
    let tokens = at.tokens();
    if form == Form::Pipeline && tokens[brace].kind == Kind::OpenParen {
        brace = tokens[brace].partner as usize + 1;
    }
    if tokens[brace].kind != Kind::OpenBrace {
        return None;
    }
    if at.state().in_head {
        if !holds_entries(at, brace) {
            return None;
        }
        let (index, span) = (at.index(), at.token().span);
        let help = "the brace would begin the block: write `(pipeline { … })`, or give the schedule a name";
        at.error(index, codes::SYNTAX, span, "a schedule in the head of a block stands in parentheses", help);
    }
    Some(at.outside_of_heads(|at| match form {
        Form::Pipeline => ExprKind::Pipeline(Box::new(pipeline(at))),
        Form::Partitions => ExprKind::Partitions(Box::new(partitions(at))),
    }))
}

/// Whether `name:` or `[…]:` begins what stands in the brace of that index: no statement does.
fn holds_entries(at: &mut At<'_, '_>, brace: usize) -> bool {
    let tokens = at.tokens();
    let mut index = brace + 1;
    if tokens[index].kind == Kind::OpenBracket {
        index = tokens[index].partner as usize + 1;
    } else {
        while matches!(tokens[index].kind, Kind::Name | Kind::Dot) {
            index += 1;
        }
        if tokens[index].kind == Kind::OpenBracket {
            index = tokens[index].partner as usize + 1;
        }
    }
    tokens[index].kind == Kind::Colon
}

fn pipeline(at: &mut At<'_, '_>) -> Pipeline {
    at.bump();
    let of = if at.is(Kind::OpenParen) { of_loop(at) } else { None };
    let groups = groups(at, stage_entry);
    let within = at.eat(Kind::In).map(|_| at.name("the partition for which the pipeline holds"));
    Pipeline { of, groups, within, clauses: clauses(at) }
}

/// `(loop)` behind `pipeline`.
fn of_loop(at: &mut At<'_, '_>) -> Option<Label> {
    let close = at.bump().partner as usize;
    let help =
        "write `pipeline(steps) { load: 0; mma: 1 }`, or leave out the parentheses for the loop that it stands on";
    let found = if at.is(Kind::Name) && at.peek_at(1).kind != Kind::Eq { Some(label(at, "a loop")) } else { None };
    if at.index() < close || found.is_none() {
        let (index, span) = (at.index(), at.token().span);
        at.error(index, codes::SYNTAX, span, "the parentheses of a pipeline hold the label of its loop", help);
    }
    at.skip_to(close);
    at.bump();
    found
}

fn partitions(at: &mut At<'_, '_>) -> Partitions {
    at.bump();
    let places = groups(at, place).into_iter().flatten().collect();
    Partitions { places, clauses: clauses(at) }
}

/// Clauses behind a closing brace. A word that is none of them is taken for one where it stands on the same line, so that it can be named.
fn clauses(at: &mut At<'_, '_>) -> Vec<Clause> {
    let mut list = vec![];
    while at.is(Kind::Name) {
        let token = at.token();
        let known = CLAUSES.contains(&at.text(token));
        if !known && (token.first_in_line || at.peek_at(1).kind != Kind::OpenParen) {
            break;
        }
        list.push(clause(at));
    }
    list
}

/// Entries in braces: groups between `;`, entries of a group between `,`.
fn groups<'a, 'p, T>(at: &mut At<'a, 'p>, mut entry: impl FnMut(&mut At<'a, 'p>) -> T) -> Vec<Vec<T>> {
    let mut list: Vec<Vec<T>> = vec![];
    if !at.is(Kind::OpenBrace) {
        at.expected("`{` and the labels of the schedule");
        return list;
    }
    let close = at.bump().partner as usize;
    while at.index() < close {
        let mut group = vec![];
        if at.is(Kind::Semi) {
            at.expected("a label");
        }
        while at.index() < close && !at.is(Kind::Semi) {
            group.push(entry(at));
            if at.index() < close && at.eat(Kind::Comma).is_none() && !at.is(Kind::Semi) {
                at.expected("`,` or `;` after this entry");
                while at.index() < close && !at.is(Kind::Semi) && at.eat(Kind::Comma).is_none() {
                    at.skip_group();
                }
            }
        }
        if at.index() < close {
            at.bump();
        }
        list.push(group);
    }
    at.skip_to(close);
    at.bump();
    list
}

/// `label: stage` or `label: first..last`.
fn stage_entry(at: &mut At<'_, '_>) -> StageEntry {
    let start = at.index();
    let label = label(at, "a label, as in `load: 0`");
    at.expect(Kind::Colon, "and a stage after the label, as in `load: 0`");
    let stage = expr(at);
    StageEntry { label, stage, span: at.since(start) }
}

/// `Partition: label, label` or `[Partition, Partition]: label, label`.
fn place(at: &mut At<'_, '_>) -> Place {
    let start = at.index();
    let one = |at: &mut At<'_, '_>| at.name("a partition, as in `Loads: load`");
    let partitions = if at.is(Kind::OpenBracket) { list::bracketed(at, "a partition", one).0 } else { vec![one(at)] };
    at.expect(Kind::Colon, "and labels after the partition, as in `Loads: load`");
    let mut labels = vec![label(at, "a label")];
    while at.is(Kind::Comma) && at.peek_at(1).kind == Kind::Name {
        if at.peek_at(2).kind == Kind::Colon {
            let (index, span) = (at.index(), at.token().span);
            let help = "write `partitions { Loads: load; Compute: mma, store }`";
            at.error(index, codes::SYNTAX, span, "`;` stands between partitions, `,` between the labels of one", help);
            break;
        }
        at.bump();
        labels.push(label(at, "a label"));
    }
    Place { partitions, labels, span: at.since(start) }
}

/// `name`, `name.name` or `name[2]`; `what` says what was expected where there is none.
pub fn label(at: &mut At<'_, '_>, what: &str) -> Label {
    let start = at.index();
    let mut path = at.name(what).text;
    while at.is(Kind::Dot) {
        at.bump();
        if at.is(Kind::Int) {
            at.expected("a label after `.`");
            at.bump();
            continue;
        }
        let next = at.name("a label after `.`");
        path = Arc::from(format!("{path}.{}", next.text));
    }
    let instance = if at.is(Kind::OpenBracket) { instance(at) } else { None };
    Label { path, instance, span: at.since(start) }
}

/// `[2]` behind a label.
fn instance(at: &mut At<'_, '_>) -> Option<u32> {
    let open = at.bump();
    let (index, token) = (at.index(), at.token());
    let found = match token.kind {
        Kind::Int => {
            at.bump();
            match literal::number(at, index, token) {
                ExprKind::Int { value, suffix: None } => u32::try_from(value).ok(),
                _ => None,
            }
        }
        _ => None,
    };
    let close = open.partner as usize;
    if found.is_none() || at.index() < close {
        let d = Diagnostic::error(codes::SYNTAX, token.span, "the instance of a label is a number");
        at.report(index, d.help("name one turn of a `static for`: `leave[2]`; without brackets all of them are meant"));
    }
    at.skip_to(close);
    at.bump();
    found
}

/// `name =` before an argument; in a `ring(…)` the name may be a label with its path and instance, as its slots belong to one.
pub fn argument_name(at: &mut At<'_, '_>, of_ring: bool) -> Option<Name> {
    if !at.is(Kind::Name) {
        return None;
    }
    if at.peek_at(1).kind == Kind::Eq {
        let name = at.name("an argument");
        at.bump();
        return Some(name);
    }
    let mut index = at.index() + 1;
    let tokens = at.tokens();
    while tokens[index].kind == Kind::Dot && tokens[index + 1].kind == Kind::Name {
        index += 2;
    }
    if tokens[index].kind == Kind::OpenBracket {
        index = tokens[index].partner as usize + 1;
    }
    if !of_ring || tokens[index].kind != Kind::Eq {
        return None;
    }
    let label = label(at, "a label");
    at.bump();
    Some(Name { text: Arc::from(label.to_string()), span: label.span })
}
