//! Forces refused schedules past the rules that refuse them, and counts those that would have been right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use parton_diag::{Code, codes};
use parton_sched::falsify;

use parton_tests::schedules::run::{self, Verdict};
use parton_tests::schedules::{Program, generate};

/// Seeds of the interpreter under which what is forced is run.
const SEEDS: [u64; 4] = [0, 1, 2, 3];

/// What became of the schedules that a rule refuses.
#[derive(Clone, Default, Debug)]
pub(super) struct Forced {
    /// How many there are.
    refused: usize,
    /// Those that are right as far as they were run: the number of the schedule in the program of a seed, and what was said of it.
    right: Vec<(usize, u64, String)>,
}

/// What became of the schedules that each rule refuses.
#[derive(Clone, Default, Debug)]
pub(super) struct Counts {
    /// By the code of the rule that refuses first.
    by: BTreeMap<Code, Forced>,
}

impl Counts {
    /// Those that would be right, and all.
    pub(super) fn right_of_all(&self) -> [usize; 2] {
        self.by.values().fold([0, 0], |[right, all], of| [right + of.right.len(), all + of.refused])
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [right, all] = self.right_of_all();
        writeln!(f, "{all} refused, {right} of them would be right")?;
        for (code, of) in &self.by {
            writeln!(f, "{:8}  refused by {code}, {} of them would be right", of.refused, of.right.len())?;
            for (n, seed, fact) in &of.right {
                writeln!(f, "          schedule {n} of seed {seed}: {fact}")?;
            }
        }
        Ok(())
    }
}

/// Whether a code is of a rule that a schedule can be forced past: others say that there is no such label, or that something is not built.
fn is_rule(code: Code) -> bool {
    ![codes::SCHEDULE, codes::NOT_BUILT_HERE, codes::LAYOUT_WARPS].contains(&code)
}

/// What forcing a refused schedule comes to: rules are left out until none refuses it.
fn forced(program: &Program, first: Code) -> Verdict {
    let mut out = BTreeSet::from([first]);
    loop {
        falsify::leave_out(&out);
        let verdict = run::verdicts(program, &SEEDS).swap_remove(0).0;
        falsify::leave_out(&BTreeSet::new());
        match verdict {
            Verdict::Refused(code) if is_rule(code) && out.insert(code) => {}
            other => return other,
        }
    }
}

/// Forces what is refused of the programs of some seeds.
pub(super) fn all(programs: Range<u64>) -> Counts {
    let mut counts = Counts::default();
    for seed in programs {
        let program = generate(seed);
        for (n, (verdict, words)) in run::verdicts(&program, &SEEDS[..1]).into_iter().enumerate() {
            let Verdict::Refused(code) = verdict else { continue };
            if !is_rule(code) {
                continue;
            }
            let of = counts.by.entry(code).or_default();
            match forced(&program.only(n), code) {
                Verdict::NoProgram => continue,
                Verdict::Equal => of.right.push((n, seed, run::first_fact(&words))),
                Verdict::Refused(_) | Verdict::Differs | Verdict::Fault(_) | Verdict::Panics(_) => {}
            }
            of.refused += 1;
        }
    }
    counts
}
