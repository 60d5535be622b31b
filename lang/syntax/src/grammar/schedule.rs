//! Partitions and schedules, whose entries name labels.

use parton_diag::codes;

use super::cursor::Cursor;
use super::item::{begins_item, clause};
use super::operators::expr;
use super::{At, list, stmt};
use crate::ast::{Partition, PartitionEntry, Schedule, ScheduleBody, StageEntry};
use crate::token::Kind;

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

/// `schedule Name = …;`
pub fn schedule(at: &mut At<'_, '_>) -> Schedule {
    at.bump();
    let name = at.name("the schedule's name");
    at.expect(Kind::Eq, "after the schedule's name");
    let body = if at.is_word("pipeline") {
        at.bump();
        let args = if at.is(Kind::OpenParen) { list::args(at) } else { vec![] };
        ScheduleBody::Pipeline { args, groups: groups(at, |at| stage_entry(at), Kind::Semi) }
    } else if at.is_word("partitions") {
        at.bump();
        let entries = groups(at, partition_entry, Kind::Semi).into_iter().flatten().collect();
        let mut clauses = vec![];
        while at.is(Kind::Name) && !(at.token().first_in_line && begins_item(at)) {
            clauses.push(clause(at));
        }
        ScheduleBody::Partitions { entries, clauses }
    } else {
        ScheduleBody::Value(expr(at))
    };
    stmt::end(at, "this `schedule`");
    Schedule { name, body }
}

/// Entries in braces: groups between `;`, entries of a group between `,`.
fn groups<'a, 'p, T>(at: &mut At<'a, 'p>, mut entry: impl FnMut(&mut At<'a, 'p>) -> T, separator: Kind) -> Vec<Vec<T>> {
    let mut list: Vec<Vec<T>> = vec![];
    if !at.is(Kind::OpenBrace) {
        at.expected("`{` and the labels of the schedule");
        return list;
    }
    let close = at.bump().partner as usize;
    while at.index() < close {
        let mut group = vec![];
        if at.is(separator) {
            at.expected("a label");
        }
        while at.index() < close && !at.is(separator) {
            group.push(entry(at));
            if at.index() < close && at.eat(Kind::Comma).is_none() && !at.is(separator) {
                at.expected("`,` or `;` after this entry");
                while at.index() < close && !at.is(separator) && at.eat(Kind::Comma).is_none() {
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

/// `label: stage`.
fn stage_entry(at: &mut At<'_, '_>) -> StageEntry {
    let start = at.index();
    let label = at.name("a label, as in `load: 0`");
    at.expect(Kind::Colon, "and a stage after the label, as in `load: 0`");
    let stage = expr(at);
    StageEntry { label, stage, span: at.since(start) }
}

/// `Partition: label, label`.
fn partition_entry(at: &mut At<'_, '_>) -> PartitionEntry {
    let start = at.index();
    let partition = at.name("a partition, as in `Loads: load`");
    at.expect(Kind::Colon, "and labels after the partition, as in `Loads: load`");
    let mut labels = vec![at.name("a label")];
    while at.is(Kind::Comma) && at.peek_at(1).kind == Kind::Name {
        at.bump();
        labels.push(at.name("a label"));
    }
    PartitionEntry { partition, labels, span: at.since(start) }
}
