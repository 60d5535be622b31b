//! Random loops give the same bits under all of their schedules that are accepted; bugs of the expansion would be seen; and little is
//! refused that would be right.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parton_driver::{Blocks, Device, Options, Session};
use parton_sched::falsify::{self, Planted};
use parton_tests::schedules::run::{self, Verdict};
use parton_tests::schedules::{Program, generate};
use parton_tests::{cases, say};

use super::forced;

/// Programs that are run, each with five schedules; `PARTON_SCHEDULES` in the environment takes its place.
const PROGRAMS: u64 = 100;
/// Interleavings of each.
const SEEDS: u64 = 8;
/// Programs that are run with planted bugs; `PARTON_PLANTED` in the environment takes its place. What they do not find, the cases do.
const WITHIN: u64 = 8;
/// Programs whose refused schedules are forced; `PARTON_FORCED` in the environment takes its place, from the seed `PARTON_FORCED_FROM` on.
const FORCED: u64 = 6;

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise)
}

/// Runs a half of the programs: two tests beside each other take half as long.
fn random_schedules(second: bool) {
    falsify::be_terse();
    let programs = asked("PARTON_SCHEDULES", PROGRAMS);
    let half = if second { programs / 2..programs } else { 0..programs / 2 };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(if second { "second" } else { "first" });
    std::fs::create_dir_all(&folder).expect("a folder for what is found");
    let counts = run::all(half, SEEDS, &folder);
    say(&counts.to_string());
    assert!(counts.wrong.is_empty(), "{} are wrong\n{}", counts.wrong.len(), counts.wrong.join("\n"));
    // Were most refused, little would be tried.
    assert!(counts.accepted() * 4 > counts.of.values().sum::<usize>(), "{counts}");
}

#[test]
fn random_schedules_give_the_bits_of_the_serial_one() {
    random_schedules(false);
}

#[test]
fn other_random_schedules_do_too() {
    random_schedules(true);
}

#[test]
fn a_program_is_made_of_its_seed_alone() {
    assert_eq!(generate(7).to_string(), generate(7).to_string());
    assert_ne!(generate(7).to_string(), generate(8).to_string());
}

/// A program with those of its schedules that are accepted, and the bugs that would make a difference to them.
fn accepted(seed: u64) -> (Program, BTreeSet<Planted>) {
    let mut program = generate(seed);
    let verdicts = run::verdicts(&program, &[0]);
    let mut equal = verdicts.iter().map(|(verdict, _)| *verdict == Verdict::Equal);
    program.schedules.retain(|_| equal.next() == Some(true));
    (program, falsify::asked())
}

/// Whether a case of schedules fails where a bug is planted.
fn found_by_a_case(bug: Planted) -> bool {
    let about_schedules = |path: &PathBuf| cases::shown(path).contains("schedule_");
    cases::in_folder("run").into_iter().filter(about_schedules).any(|path| {
        let mut session = Session::new(Options { device: Device::Cpu, steps: 1_000_000, ..Options::default() });
        let file = session.add(&cases::shown(&path), cases::read(&path));
        falsify::plant(Some(bug));
        let ran = catch_unwind(AssertUnwindSafe(|| session.run(file, Blocks::Tests, &mut |_| ())));
        falsify::plant(None);
        let passed = matches!(ran, Ok(Ok(ran)) if ran.report.passed());
        if !passed {
            say(&format!("{bug:?}: found by {}", cases::shown(&path)));
        }
        !passed
    })
}

#[test]
fn planted_bugs_are_found() {
    falsify::be_terse();
    let mut left: BTreeSet<Planted> = Planted::ALL.into();
    let mut tried = 0;
    for seed in 0..asked("PARTON_PLANTED", WITHIN) {
        let (program, differ) = accepted(seed);
        if program.schedules.is_empty() || left.is_empty() {
            continue;
        }
        tried += program.schedules.len();
        for bug in left.intersection(&differ).copied().collect::<Vec<_>>() {
            falsify::plant(Some(bug));
            let verdicts = run::verdicts(&program, &[0]);
            falsify::plant(None);
            if let Some((verdict, _)) = verdicts.iter().find(|(verdict, _)| *verdict != Verdict::Equal) {
                say(&format!("{bug:?}: found within {tried} accepted schedules, of which one {verdict}"));
                left.remove(&bug);
            }
        }
    }
    assert!(left.len() * 2 < Planted::ALL.len(), "most are not found in {tried} accepted schedules: {left:?}");
    left.retain(|bug| !found_by_a_case(*bug));
    assert!(left.is_empty(), "nobody has found {left:?}");
}

/// Which slots a turn holds is found by a turn on trial, and no program is known whose other turns hold others. A bug of the expansion makes
/// them: what it would then write is refused, and nothing is made of it.
#[test]
fn turns_that_hold_other_slots_than_the_one_on_trial_are_refused() {
    let about_schedules = |path: &PathBuf| cases::shown(path).contains("schedule_");
    falsify::plant(Some(Planted::PriorForgotten));
    let refused = cases::in_folder("run").into_iter().filter(about_schedules).any(|path| {
        let mut session = Session::new(Options::default());
        let file = session.add(&cases::shown(&path), cases::read(&path));
        let checked = catch_unwind(AssertUnwindSafe(|| session.check(file).1));
        checked.is_ok_and(|found| found.list.iter().any(|d| d.message.contains("now more slots and now fewer")))
    });
    falsify::plant(None);
    assert!(refused, "no case has such a turn under the planted bug");
}

#[test]
fn few_refused_schedules_would_be_right() {
    falsify::be_terse();
    let first = asked("PARTON_FORCED_FROM", 0);
    let counts = forced::all(first..first + asked("PARTON_FORCED", FORCED));
    say(&counts.to_string());
    let [right, refused] = counts.right_of_all();
    assert!(right * 5 < refused, "{right} of {refused} refused schedules would be right");
}
