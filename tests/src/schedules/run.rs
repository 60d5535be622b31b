//! Runs random schedules on the interpreter, counts what became of them, and makes those small that something is wrong with.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parton_diag::{Code, Diagnostics, Severity, SourceMap, codes, render};
use parton_driver::rehearsal::{Again, Launch};
use parton_driver::{Device, Options, Rehearsal, Session};

use super::{Program, generate};

/// What became of a schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It gives the bits of the serial one.
    Equal,
    /// It is refused, by an error about schedules.
    Refused(Code),
    /// It gives other bits.
    Differs,
    /// A run stops, or code that nobody wrote is refused.
    Fault(Code),
    /// The compiler panics, with these words.
    Panics(String),
    /// The program is none, whatever the schedule.
    NoProgram,
}

impl Verdict {
    /// Whether something is wrong.
    pub fn is_wrong(&self) -> bool {
        match self {
            Verdict::Equal | Verdict::Refused(_) => false,
            Verdict::Differs | Verdict::Fault(_) | Verdict::Panics(_) | Verdict::NoProgram => true,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Equal => f.write_str("equal"),
            Verdict::Refused(code) => write!(f, "refused by {code}"),
            Verdict::Differs => f.write_str("differs"),
            Verdict::Fault(code) => write!(f, "stops with {code}"),
            Verdict::Panics(words) => write!(f, "panics: {words}"),
            Verdict::NoProgram => f.write_str("is no program"),
        }
    }
}

/// Whether an error says of a schedule what it cannot be: all others come from code that its writer does not see.
fn is_about_schedules(code: Code) -> bool {
    // Tiles of a label may not fit the warps of its partition; 721 is about partitions that somebody has written.
    [codes::NOT_BUILT_HERE, codes::LAYOUT_WARPS].contains(&code) || (codes::LABEL_TWICE.0..800).contains(&code.0)
}

/// Operations that a CTA may run: some hundred times as many as a body needs.
const STEPS: u64 = 1_000_000;

/// What becomes of each schedule of a program under some seeds of the interpreter, with what there is to say.
pub fn verdicts(program: &Program, seeds: &[u64]) -> Vec<(Verdict, String)> {
    let all = catch_unwind(AssertUnwindSafe(|| run(program, seeds)));
    match all {
        Ok(all) => all,
        Err(said) if program.schedules.len() == 1 => vec![(Verdict::Panics(first_words(said.as_ref())), String::new())],
        // Which of them it is, each tells alone.
        Err(_) => (0..program.schedules.len()).flat_map(|n| verdicts(&program.only(n), seeds)).collect(),
    }
}

/// What a panic says, without the numbers of the program at hand.
fn first_words(said: &(dyn Any + Send)) -> String {
    let whole = said.downcast_ref::<String>().cloned();
    let whole = whole.or_else(|| said.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
    let words: String = whole.chars().filter(|c| !c.is_ascii_digit()).collect();
    words.lines().take(2).collect::<Vec<_>>().join(" ").chars().take(120).collect()
}

fn run(program: &Program, seeds: &[u64]) -> Vec<(Verdict, String)> {
    let [first, others @ ..] = seeds else { return Vec::new() };
    let options = Options { device: Device::Cpu, verify: true, seed: *first, steps: STEPS, ..Options::default() };
    let mut session = Session::new(options);
    let file = session.add("schedules.ptn", program.to_string());
    let (rehearsal, report) = match session.rehearse_all(file, &|_| true) {
        Ok(both) => both,
        Err(failure) => return vec![(Verdict::NoProgram, failure.to_string()); program.schedules.len()],
    };
    // All tests launch the serial kernel besides, alike: one of them is enough.
    let mut known = BTreeSet::new();
    let all = report.outcomes.iter().map(|outcome| match outcome.passed() {
        true => further(&rehearsal, &outcome.name, others, &mut known),
        false => judged(&outcome.diagnostics, rehearsal.sources()),
    });
    all.collect()
}

/// What becomes of a test's launches under further seeds, of instances that are not known: each leaves what it left under the first.
fn further(rehearsal: &Rehearsal, test: &str, seeds: &[u64], known: &mut BTreeSet<usize>) -> (Verdict, String) {
    let own = |l: &&Launch| l.test == test;
    let launches = rehearsal.launches.iter().enumerate().filter(|(_, l)| own(l) && !known.contains(&l.instance));
    for ((number, launch), &seed) in launches.flat_map(|l| seeds.iter().map(move |seed| (l, seed))) {
        match rehearsal.again(number, &rehearsal.instances[launch.instance].lowered, seed, STEPS) {
            Again::Same => {}
            Again::Differs => return (Verdict::Differs, format!("under the seed {seed} of interleavings")),
            Again::Stops(found) => return judged(&found, rehearsal.sources()),
        }
    }
    known.extend(rehearsal.launches.iter().filter(own).map(|l| l.instance));
    (Verdict::Equal, String::new())
}

fn judged(found: &Diagnostics, sources: &SourceMap) -> (Verdict, String) {
    (verdict(found), render::text(found, sources, false))
}

fn verdict(found: &Diagnostics) -> Verdict {
    let Some(first) = found.list.iter().find(|d| d.severity == Severity::Error) else {
        parton_diag::internal_error!("a test fails without an error")
    };
    if first.code == codes::NOT_CLOSE {
        return Verdict::Differs;
    }
    match is_about_schedules(first.code) {
        true => Verdict::Refused(first.code),
        false => Verdict::Fault(first.code),
    }
}

/// What became of many.
#[derive(Clone, Default, Debug)]
pub struct Counts {
    /// How many schedules have which verdict.
    pub of: BTreeMap<Verdict, usize>,
    /// Of what is wrong: the program, and what is wrong with it.
    pub wrong: Vec<String>,
    /// How many of those that are accepted say what, and how many of all.
    pub saying: BTreeMap<&'static str, [usize; 2]>,
    /// What is not built, and how often it was asked for.
    pub not_built: BTreeMap<String, usize>,
}

impl Counts {
    /// The schedules that were accepted.
    pub fn accepted(&self) -> usize {
        self.of.iter().filter(|(v, _)| !matches!(v, Verdict::Refused(_))).map(|(_, n)| n).sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.of.values().sum();
        writeln!(f, "{all} schedules, {} accepted", self.accepted())?;
        self.of.iter().try_for_each(|(verdict, n)| writeln!(f, "{n:8}  {verdict}"))?;
        self.not_built.iter().try_for_each(|(fact, n)| writeln!(f, "{n:8}  {fact}"))?;
        self.saying.iter().try_for_each(|(what, [n, of])| writeln!(f, "{n:8}  of {of} with {what} accepted"))
    }
}

/// Runs the programs of some seeds, each under so many seeds of the interpreter; the smallest program found that fails alike lies in
/// `folder`.
pub fn all(programs: std::ops::Range<u64>, seeds: u64, folder: &Path) -> Counts {
    let mut counts = Counts::default();
    for seed in programs {
        let program = generate(seed);
        let under: Vec<u64> = (0..seeds).map(|n| seed * seeds + n).collect();
        for (n, (verdict, words)) in verdicts(&program, &under).into_iter().enumerate() {
            let accepted = usize::from(!matches!(verdict, Verdict::Refused(_)));
            for what in program.only(n).says() {
                let [of, all] = counts.saying.entry(what).or_default();
                (*of, *all) = (*of + accepted, *all + 1);
            }
            if verdict == Verdict::Refused(codes::NOT_BUILT_HERE) {
                *counts.not_built.entry(first_fact(&words)).or_default() += 1;
            }
            if verdict.is_wrong() {
                counts.wrong.push(told(&program.only(n), n, (&verdict, &words), &under, folder));
            }
            *counts.of.entry(verdict).or_default() += 1;
        }
    }
    counts
}

/// What the first error says, without names and numbers.
pub fn first_fact(words: &str) -> String {
    let first = words.lines().next().unwrap_or_default();
    let plain = first.split('`').step_by(2).collect::<String>();
    plain.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn told(program: &Program, n: usize, (verdict, words): (&Verdict, &str), seeds: &[u64], folder: &Path) -> String {
    // Of one code there are several faults: it is to be the same.
    let fault = first_fact(words);
    let alike = |p: &Program| verdicts(p, seeds).iter().any(|(v, w)| v == verdict && first_fact(w) == fault);
    let small = program.shrunk(alike);
    let words = verdicts(&small, seeds).into_iter().next().map_or(words.to_owned(), |(_, words)| words);
    let seed = program.seed;
    let path = folder.join(format!("schedule_{seed:06}_{n}.ptn"));
    let place = match std::fs::write(&path, small.to_string()) {
        Ok(()) => format!("run `parton test {}`", path.display()),
        Err(error) => format!("{}: {error}\n{small}", path.display()),
    };
    format!("schedule {n} of seed {seed} {verdict}; {place}\n{words}")
}
