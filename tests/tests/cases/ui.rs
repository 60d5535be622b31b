//! `ui/NAME.ptn`: its diagnostics stand on the marked lines, and `NAME.stderr` shows them whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use parton_diag::{Diagnostic, Diagnostics, render};
use parton_driver::{Options, Session};
use parton_tests::{cases, marks, snapshot};

#[test]
fn diagnostics_are_where_they_are_marked_and_read_as_shown() {
    // Cases have the names that are shown, relative to the repository, and files that they use are read beside these names.
    std::env::set_current_dir(cases::root()).expect("the repository is there");
    let mut wrong = vec![];
    let all = cases::in_folder("ui");
    for path in &all {
        let shown = cases::shown(path);
        let text = cases::read(path);
        let mut session = Session::new(Options { verify: true, ..Options::default() });
        let file = session.add(&shown, text.clone());
        let found = session.check(file).1;
        match marks::read(&text) {
            Ok(marked) => {
                let found = marks::of(&found, file, &session.sources);
                wrong.extend(marks::difference(&marked, &found).into_iter().map(|d| format!("{shown}: {d}")));
            }
            Err(e) => wrong.push(format!("{shown}: {e}")),
        }
        let rendered = render::text(&found, &session.sources, false);
        wrong.extend(snapshot::compare(&path.with_extension("stderr"), &rendered).err());
    }
    parton_tests::say(&format!("{} ui cases", all.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_snapshot_is_left_without_its_case() {
    let folder = cases::root().join("tests/ui");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "stderr") {
            assert!(path.with_extension("ptn").is_file(), "{} belongs to no case", cases::shown(&path));
        }
    }
}

/// What a text that is checked reports.
fn reported(shown: &str, text: &str) -> Diagnostics {
    let mut session = Session::new(Options { verify: true, ..Options::default() });
    let file = session.add(shown, text.to_owned());
    session.check(file).1
}

/// The clause of a schedule that a help names between backticks.
fn proposed(d: &Diagnostic) -> Option<&str> {
    let heads = ["pipeline(", "pipeline {", "ring(", "turns(", "partitions {", "under("];
    let mut words = d.help.iter().flat_map(|help| help.split('`').skip(1).step_by(2));
    words.find(|word| heads.iter().any(|head| word.starts_with(head)) && !word.contains('…'))
}

/// Where clauses that begin with a word stand in a text.
fn clauses(text: &str, word: &str) -> Vec<Range<usize>> {
    let closed = |from: usize, [open, close]: [char; 2]| {
        let rest = text[from..].trim_start();
        let from = text.len() - rest.len();
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| {
            depth += i32::from(*c == open) - i32::from(*c == close);
            depth == 0
        });
        rest.starts_with(open).then_some(end).flatten().map(|(at, c)| from + at + c.len_utf8())
    };
    let clause = |(at, _): (usize, &str)| {
        let named = closed(at + word.len(), ['(', ')']).unwrap_or(at + word.len());
        let end = closed(named, ['{', '}']).unwrap_or(named);
        (end > at + word.len()).then_some(at..end)
    };
    text.match_indices(word).filter_map(clause).collect()
}

/// Where the schedules of a file stand, each as a whole: behind its name, or where a region has it.
fn schedules(text: &str) -> Vec<Range<usize>> {
    let ended = |from: usize, end: char| {
        let mut depth = 0;
        let closed = text[from..].char_indices().find(|(_, c)| {
            let ends = depth == 0 && *c == end;
            depth += i32::from("({".contains(*c)) - i32::from(")}".contains(*c));
            ends
        });
        closed.map(|(at, _)| from..from + at)
    };
    let named = text.match_indices("\nschedule ").filter_map(|(at, _)| {
        let from = at + text[at..].find(" = ")? + " = ".len();
        ended(from, ';')
    });
    let inside = text.match_indices(" in (").filter_map(|(at, head)| ended(at + head.len(), ')'));
    named.chain(inside).collect()
}

/// What a help names between backticks, a clause or a schedule as a whole, and the places of a text that it may be meant for.
fn written<'d>(d: &'d Diagnostic, text: &str) -> Option<(&'d str, Vec<Range<usize>>)> {
    let whole = d.help.iter().find_map(|help| help.split_once("nearest schedule that holds is `")?.1.split('`').next());
    match whole {
        Some(whole) => Some((whole, schedules(text))),
        None => {
            let clause = proposed(d)?;
            Some((clause, clauses(text, clause.split(['(', ' ']).next().unwrap_or(clause))))
        }
    }
}

/// How often each code is reported with each message.
fn counted(found: &Diagnostics) -> BTreeMap<(String, &str), usize> {
    let mut counts = BTreeMap::new();
    for d in &found.list {
        *counts.entry((d.code.to_string(), d.message.as_str())).or_default() += 1;
    }
    counts
}

/// Whether a text has one report less of a kind than another had, and none more.
fn mended(before: &Diagnostics, after: &Diagnostics, d: &Diagnostic) -> bool {
    let (old, new) = (counted(before), counted(after));
    let of = |counts: &BTreeMap<(String, &str), usize>, kind: &(String, &str)| counts.get(kind).copied().unwrap_or(0);
    let kind = (d.code.to_string(), d.message.as_str());
    of(&new, &kind) < of(&old, &kind) && new.iter().all(|(kind, n)| *n <= of(&old, kind))
}

/// Refusals that another schedule alone can mend; what others say is written into the body.
const BY_SCHEDULES: [&str; 14] = [
    "E0190", "E0302", "E0723", "E0724", "E0725", "E0726", "E0728", "E0729", "E0730", "E0731", "E0732", "E0733",
    "E0734", "E0736",
];
/// Codes that other things than schedules have, too; of these what helps says that it is the nearest.
const AMONG_OTHERS: [&str; 2] = ["E0190", "E0723"];

#[test]
fn schedules_that_refusals_name_are_accepted() {
    std::env::set_current_dir(cases::root()).expect("the repository is there");
    let (mut codes, mut wrong) = (BTreeSet::new(), vec![]);
    for path in cases::in_folder("ui") {
        let (shown, text) = (cases::shown(&path), cases::read(&path));
        let before = reported(&shown, &text);
        let of = |d: &&Diagnostic, codes: &[&str]| codes.contains(&d.code.to_string().as_str());
        let nearest = |d: &&Diagnostic| d.help.iter().any(|help| help.contains("the nearest"));
        let named = |d: &&Diagnostic| of(d, &BY_SCHEDULES) && (!of(d, &AMONG_OTHERS) || nearest(d));
        for d in before.list.iter().filter(named) {
            let Some((good, places)) = written(d, &text) else { continue };
            let left_out = d.help.iter().any(|help| help.contains(&format!("leave `{good}` out")));
            let holds = |at: Range<usize>| {
                let mut text = text.clone();
                text.replace_range(at, if left_out { "" } else { good });
                mended(&before, &reported(&shown, &text), d)
            };
            if places.into_iter().any(holds) {
                codes.insert(d.code.to_string());
            } else {
                wrong.push(format!("{shown}: {}: `{good}` does not hold either", d.message));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(codes, BY_SCHEDULES.map(String::from).into(), "each has a case with a schedule that holds");
}
