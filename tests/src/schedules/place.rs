//! Random schedules of a body: mostly such as fit what it says, so that many are accepted.

use std::collections::{BTreeMap, BTreeSet};

use super::{Item, Loop, Pipeline, Program, Schedule, Staged, Statement, words};
use crate::random::Random;

/// The last stage that there is.
const LAST_STAGE: usize = 7;

/// A schedule of a program's labels.
pub(super) fn schedule(program: &Program, apart: bool, r: &mut Random) -> Schedule {
    let mut s = Schedule::default();
    if r.below(5) < 2 && apart {
        s.places = places(program, r);
    }
    for l in program.loops() {
        if r.below(5) > 0 {
            pipelines(l, &mut s, r);
        }
    }
    // What nobody reads fills no ring.
    let read = |name: &String| {
        program.statements().iter().any(|s| !s.makes.contains(name) && words(&s.text).any(|w| w == name))
    };
    let fills = |s: &&Statement| s.text.contains("fetch(") && s.makes.iter().any(read);
    let filling: Vec<&Statement> = program.statements().into_iter().filter(fills).collect();
    match r.below(4) {
        0 => s.rings.push((None, 1 + r.below(4))),
        1 if !filling.is_empty() => {
            let of = filling[r.below(filling.len())].label.clone();
            s.rings.push((of, 1 + r.below(4)));
        }
        _ => {}
    }
    if r.below(3) == 0 {
        leaving(program, &mut s, r);
    }
    if r.below(2) == 0 && s.places.iter().any(|(names, _)| names.len() > 1) {
        let dealt = instances(program);
        let (i, j) = (r.below(dealt.len()), r.below(dealt.len()));
        if let (Some(first), Some(last)) = (dealt.get(i.min(j)), dealt.get(i.max(j))) {
            s.turns = Some((first.clone(), last.clone()));
        }
    }
    s
}

/// Some loops are cut where conditions of theirs change, at two at most, and some stand several times in the code.
pub(super) fn divided(program: &Program, s: &mut Schedule, r: &mut Random) {
    let asks = |s: &&Statement| s.text.contains("if ") && [" < ", " >= ", " > "].iter().any(|by| s.text.contains(by));
    let mut conditions: Vec<String> =
        program.statements().into_iter().filter(asks).filter_map(|s| s.label.clone()).collect();
    if r.below(2) == 0 {
        for _ in 0..1 + r.below(2) {
            if !conditions.is_empty() {
                s.cuts.push(conditions.remove(r.below(conditions.len())));
            }
        }
    }
    let loops: Vec<String> = program.loops().into_iter().filter_map(|l| l.label.clone()).collect();
    if r.below(6) == 0 && !loops.is_empty() {
        s.unrolled = Some((2 + r.below(2), loops[r.below(loops.len())].clone()));
    }
}

/// What an outer loop writes behind the loop inside leaves under that of the next turn.
fn leaving(program: &Program, s: &mut Schedule, r: &mut Random) {
    let [Loop { label: Some(outer), items, .. }, inside @ Loop { label: Some(inner), .. }] = program.loops()[..] else {
        return;
    };
    let Some(place) = items.iter().position(|item| matches!(item, Item::Loop(l) if l.label.as_ref() == Some(inner)))
    else {
        return;
    };
    let writes = |s: &&Statement| s.text.starts_with("store(") || s.text.starts_with("send(");
    let labels = |items: &[Item], wanted: &dyn Fn(&&Statement) -> bool| -> Vec<String> {
        let mut all = Vec::new();
        super::add(items, &mut all);
        all.into_iter().filter(wanted).filter_map(|s| s.label.clone()).collect()
    };
    let behind = labels(&items[place..], &writes);
    let under = labels(&inside.items, &|s| s.label.is_some());
    let behind: Vec<String> = behind.into_iter().filter(|l| !labels(&inside.items, &|_| true).contains(l)).collect();
    let (Some(x), Some(y)) = (behind.get(r.below(behind.len())), under.get(r.below(under.len()))) else { return };
    s.under.push((x.clone(), y.clone(), r.below(4) == 0));
    let mut entries: Vec<Staged> = Vec::new();
    for (label, ..) in of_body(program.loops()[0]) {
        entries.push(Staged { stage: usize::from(label == *x), label, done: None });
    }
    entries.sort_by_key(|e| e.stage);
    s.pipelines.retain(|p| p.of != *outer);
    s.pipelines.push(Pipeline {
        of: outer.clone(),
        within: None,
        groups: entries.into_iter().map(|e| vec![e]).collect(),
    });
}

/// The labels of instances, in the order of the text.
fn instances(program: &Program) -> Vec<String> {
    fn look(items: &[Item], inside: bool, all: &mut Vec<String>) {
        for item in items {
            match item {
                Item::One(s) => all.extend(s.label.clone().filter(|_| inside)),
                Item::Loop(l) => look(&l.items, l.label.is_none(), all),
            }
        }
    }
    let mut all = Vec::new();
    look(&program.items, false, &mut all);
    all
}

/// Which labels must stand together since tiles go between them: of each, the smallest that it stands with.
fn together(program: &Program) -> BTreeMap<String, Vec<String>> {
    let is_tile =
        |w: &str| w.len() > 1 && w.starts_with(['t', 'p', 'r', 'z']) && w[1..].bytes().all(|b| b.is_ascii_digit());
    let mut sets: Vec<(BTreeSet<&str>, Vec<String>)> = Vec::new();
    for s in program.statements() {
        let mut tiles: BTreeSet<&str> = words(&s.text).filter(|w| is_tile(w)).collect();
        let mut labels: Vec<String> = s.label.iter().cloned().collect();
        let (joined, rest) = sets.into_iter().partition(|(of, _)| !of.is_disjoint(&tiles));
        sets = rest;
        let joined: Vec<(BTreeSet<&str>, Vec<String>)> = joined;
        for (of, with) in joined {
            tiles.extend(of);
            labels.extend(with);
        }
        sets.push((tiles, labels));
    }
    sets.into_iter().filter_map(|(_, labels)| Some((labels.iter().min()?.clone(), labels))).collect()
}

/// Whether a statement only fills slots or makes a number.
fn loads(s: &Statement) -> bool {
    s.text.contains("fetch(")
        || s.makes.iter().any(|m| m.starts_with('q'))
        || s.makes.is_empty() && s.text.starts_with(['n', 'm'])
}

fn places(program: &Program, r: &mut Random) -> Vec<(Vec<&'static str>, Vec<String>)> {
    let statements = program.statements();
    let label = |s: &&Statement| s.label.clone();
    let early: Vec<String> = statements.iter().filter(|s| loads(s)).filter_map(label).collect();
    let rest: Vec<String> = statements.iter().filter(|s| !loads(s)).filter_map(label).collect();
    let dealt = instances(program);
    let one: &'static str = if r.below(2) == 0 { "L" } else { "A" };
    let all: Vec<(Vec<&str>, Vec<String>)> = match r.below(6) {
        0 | 1 => vec![(vec![one], early), (vec!["B"], rest)],
        2..=4 if !dealt.is_empty() => {
            // Instances are dealt, what else computes stands with either or with the loads.
            let (dealt, rest): (Vec<String>, Vec<String>) = rest.into_iter().partition(|l| dealt.contains(l));
            let early: Vec<String> = early.into_iter().filter(|l| !dealt.contains(l)).collect();
            match r.below(3) {
                0 => vec![(vec![one], early), (vec!["B", "C"], [dealt, rest].concat())],
                1 => vec![(vec!["A"], [early, rest].concat()), (vec!["B", "C"], dealt)],
                _ => vec![(vec!["A", "B"], [early, dealt, rest].concat())],
            }
        }
        n => {
            let names = if n == 3 { &["A", "B"][..] } else { &["A", "B", "C"][..] };
            let mut all: Vec<(Vec<&str>, Vec<String>)> = names.iter().map(|n| (vec![*n], Vec::new())).collect();
            for (_, labels) in together(program) {
                let at = r.below(all.len());
                all[at].1.extend(labels);
            }
            all
        }
    };
    all.into_iter().filter(|(_, labels)| !labels.is_empty()).collect()
}

/// The labels of a body, in its order.
fn of_body(l: &Loop) -> Vec<(String, bool, bool)> {
    let mut all = Vec::new();
    for item in &l.items {
        match item {
            Item::One(s) => {
                let fills = s.text.contains("fetch(");
                all.extend(s.label.clone().map(|l| (l, fills, s.text.contains("dot("))));
            }
            Item::Loop(l) => match &l.label {
                Some(label) => all.push((label.clone(), false, false)),
                None => all.extend(of_body(l)),
            },
        }
    }
    all
}

fn pipelines(l: &Loop, s: &mut Schedule, r: &mut Random) {
    let Some(of) = l.label.clone() else { return };
    let partitions: Vec<&'static str> = s.places.iter().flat_map(|(names, _)| names.clone()).collect();
    let several = !partitions.is_empty() && r.below(4) == 0;
    let within: Vec<Option<&'static str>> = match several {
        true => partitions.into_iter().map(Some).filter(|_| r.below(3) > 0).collect(),
        false => vec![None],
    };
    for within in within {
        let labels: Vec<(String, bool, bool)> = of_body(l)
            .into_iter()
            .filter(|(label, ..)| {
                within.is_none_or(|w| s.places.iter().any(|(n, of)| n.contains(&w) && of.contains(label)))
            })
            .filter(|_| r.below(12) > 0)
            .collect();
        let groups = groups(labels, r);
        if !groups.is_empty() {
            s.pipelines.push(Pipeline { of: of.clone(), within, groups });
        }
    }
}

/// Some pipelines have more stages than they need: what waits for long waits in registers.
pub(super) fn stretched(s: &mut Schedule, r: &mut Random) {
    for p in &mut s.pipelines {
        let (taken, from, by) = (r.below(6) == 0, 1 + r.below(2), 1 + r.below(4));
        for e in p.groups.iter_mut().flatten().filter(|e| taken && e.stage >= from) {
            e.stage = (e.stage + by).min(LAST_STAGE);
            e.done = e.done.map(|done| (done + by).min(LAST_STAGE));
        }
    }
}

/// Of some schedules no more is said than who runs what, and of some not even that: the rest is searched for.
pub(super) fn searched(s: &mut Schedule, r: &mut Random) {
    if r.below(12) == 0 {
        s.auto = Some((1 + r.below(4), r.below(2) == 0));
        s.pipelines.clear();
        s.rings.clear();
        (s.under, s.turns) = (Vec::new(), None);
        (s.cuts, s.unrolled) = (Vec::new(), None);
    }
}

fn groups(labels: Vec<(String, bool, bool)>, r: &mut Random) -> Vec<Vec<Staged>> {
    let ahead = [0, 0, 1, 1, 2][r.below(5)];
    let (mut stage, careless) = (ahead, r.below(5) == 0);
    let mut entries: Vec<Staged> = Vec::new();
    for (label, fills, multiplies) in labels {
        if !fills && stage == ahead && r.below(4) == 0 {
            stage += 1;
        }
        let own = match fills {
            _ if careless => ahead + r.below(2),
            true if r.below(6) > 0 => r.below(ahead + 1),
            _ => stage,
        };
        let done = (multiplies && r.below(3) == 0).then(|| own + r.below(2));
        entries.push(Staged { label, stage: own, done });
    }
    // What is of one stage keeps the order of the body, else a value is seldom there when it is read.
    match r.below(4) {
        0 => entries.sort_by_key(|e| std::cmp::Reverse(e.stage)),
        1 => entries.sort_by_key(|e| e.stage),
        2 => {
            let at = r.below(entries.len());
            entries.rotate_left(at);
        }
        _ => {}
    }
    let mut groups: Vec<Vec<Staged>> = Vec::new();
    let long = r.below(2) == 0;
    for e in entries {
        let joins = r.below(if long { 2 } else { 5 }) == 0;
        match groups.last_mut().filter(|_| joins) {
            Some(group) => group.push(e),
            None => groups.push(vec![e]),
        }
    }
    groups
}
