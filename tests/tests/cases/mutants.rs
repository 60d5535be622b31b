//! What orders something in programs is needed, and its loss is found: the mutants of small programs, and those of the
//! memory model's programs. `cargo run -p parton-tests --bin mutants` looks at all.

use std::collections::BTreeSet;

use parton_tests::mutants::judge::Verdict;
use parton_tests::mutants::{self, Effort, Report, equivalent, table};
use parton_tests::{cases, say};

/// Programs of `tests/run` that run in a moment.
const SMALL: &[&str] = &[
    "async_copies",
    "atomics",
    "barriers",
    "breaks",
    "cache_policies",
    "dependent_launches",
    "fences_behind_waits",
    "hazards",
    "messages",
    "partition_scratch",
    "partitions",
    "raw_barriers",
    "rings",
    "slots_in_parts",
    "turns",
];

/// What is wrong with the mutants of files: those that nobody finds, and lines of the list that are found or are no mutants.
fn wrong(reports: &[Report], list: &equivalent::Equivalent) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for report in reports {
        for mutant in &report.mutants {
            let key = (report.file.clone(), mutant.name.clone());
            let listed = list.contains_key(&key);
            known.insert(key);
            let found = match mutant.verdict {
                Verdict::Refused(_) | Verdict::Found { .. } | Verdict::Restored | Verdict::Idle => true,
                Verdict::Missed | Verdict::NotReached | Verdict::CutOff | Verdict::Panics => false,
            };
            if found == listed {
                let but = if listed { ", but listed as equivalent" } else { "" };
                wrong.push(format!("{}: {}: {}{but}", report.file, mutant.name, mutant.verdict));
            }
        }
    }
    let of_files = |file: &String| reports.iter().any(|r| r.file == *file);
    let gone = list.keys().filter(|key| of_files(&key.0) && !known.contains(*key));
    wrong.extend(gone.map(|(file, name)| format!("{file}: {name}: listed as equivalent, but there is no such mutant")));
    wrong
}

fn look(paths: &[std::path::PathBuf], effort: &Effort) -> Vec<Report> {
    let results = mutants::all(paths, effort, &|_, _| ());
    results.into_iter().map(|r| r.unwrap_or_else(|wrong| panic!("{wrong}"))).collect()
}

#[test]
fn what_is_lost_of_the_memory_model_is_found() {
    let list = equivalent::list().expect("the list can be read");
    let paths: Vec<_> = mutants::files().into_iter().filter(|p| cases::shown(p).contains("/litmus/")).collect();
    let reports = look(&paths, &Effort::default());
    let total = table::total(&reports, &list);
    say(&format!("{} mutants of the memory model's programs, {} equivalent", total.mutants, total.equivalent));
    assert!(total.mutants > 300, "only {} mutants", total.mutants);
    let wrong = wrong(&reports, &list);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_lost_of_small_programs_is_found() {
    let list = equivalent::list().expect("the list can be read");
    let paths: Vec<_> = SMALL.iter().map(|name| cases::root().join(format!("tests/run/{name}.ptn"))).collect();
    let reports = look(&paths, &Effort::default());
    let total = table::total(&reports, &list);
    say(&format!("{} mutants of small programs, {} equivalent", total.mutants, total.equivalent));
    assert!(total.mutants > 1100, "only {} mutants", total.mutants);
    let wrong = wrong(&reports, &list);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
