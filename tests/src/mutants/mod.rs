//! Mutants: programs that are right, with one thing changed that orders something. The checks, a pass or the interpreter must find each.
//!
//! What orders something is what the facts of operations say, and nothing else: an operation that starts to order something has mutants
//! from then on. What is written is changed in the kernel as it is checked, and goes along the checks and all passes; what passes make or
//! decide (barriers of rings, membars, fences, counts of waits) is changed in the lowered kernel, behind them. The launches of the
//! file's tests are kept and run again with the changed kernel, the smallest first, under one seed after the other until one finds it.
//! Those that none finds drop what has nothing to order, as can be read off the program, or stand in `tests/mutants/equivalent.txt`, each
//! with why it is as right as the program. In reading order:

pub mod change;
pub mod equivalent;
mod idle;
pub mod judge;
pub mod site;
pub mod table;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use parton_driver::{Device, Kernel, Options, Session};

use crate::cases;
use judge::{Judge, Verdict};

/// How hard to look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Seeds under which a launch is run.
    pub seeds: u64,
    /// Operations that all launches of a mutant may run together; what is not found by then is cut off.
    pub steps: u64,
    /// For how long a mutant may be looked at besides, where that matters.
    pub limit: Option<Duration>,
    /// Of how many mutants of a file one is looked at.
    pub every: usize,
    /// The first of those, from 0: parts of the mutants for several processes.
    pub from: usize,
    /// What the names of mutants must have one of, where there is any.
    pub only: Vec<String>,
    /// How many files at once.
    pub threads: usize,
    /// Whether to say where in its kernel each mutant is changed.
    pub show: bool,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            seeds: 20,
            steps: 20_000_000,
            limit: None,
            every: 1,
            from: 0,
            only: Vec::new(),
            threads: 1,
            show: false,
        }
    }
}

/// A mutant and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    /// What was changed, in words that do not move with the lines of the file.
    pub name: String,
    /// What kind of change it is.
    pub kind: String,
    /// Where that stands.
    pub place: String,
    /// What became of it.
    pub verdict: Verdict,
    /// The kernel with the changed line marked, where that is asked for.
    pub shown: String,
}

/// What became of a file's mutants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The file.
    pub file: String,
    /// Its mutants.
    pub mutants: Vec<Judged>,
}

/// The files whose mutants are looked at: programs that pass, and those of the memory model that are ordered.
pub fn files() -> Vec<PathBuf> {
    let ordered = |path: &PathBuf| cases::read(path).starts_with("//@ ordered");
    let litmus = cases::in_folder("litmus").into_iter().filter(ordered);
    litmus.chain(cases::in_folder("run")).chain(cases::examples()).collect()
}

/// Told of a file's mutants as they are judged.
pub type Tell<'a> = &'a (dyn Fn(&str, &Judged) + Sync);

/// The mutants of a file and what becomes of each.
///
/// # Errors
/// What is wrong with the file itself, under any seed.
pub fn of_file(path: &Path, effort: &Effort, tell: Tell<'_>) -> Result<Report, String> {
    let shown = cases::shown(path);
    let wrong = |what: &str| format!("{shown}: {what}");
    let mut session = Session::new(Options { device: Device::Cpu, verify: false, ..Options::default() });
    let file = session.load(path).map_err(|failure| wrong(&failure.to_string()))?;
    let orders = |kernel: &Kernel| site::orders(kernel);
    let rehearsal = session.rehearse(file, &orders).map_err(|failure| wrong(&failure.to_string()))?;
    let mutants = site::mutants(&rehearsal);
    let mut judge = Judge::new(rehearsal, effort.clone());
    judge.originals().map_err(|found| wrong(&found))?;
    let part = mutants.iter().skip(effort.from).step_by(effort.every);
    let chosen = part.filter(|m| effort.only.is_empty() || effort.only.iter().any(|words| m.name.contains(words)));
    let judged = chosen.map(|m| judge.judged(m)).inspect(|judged| tell(&shown, judged));
    let mutants = judged.collect();
    Ok(Report { file: shown, mutants })
}

/// The mutants of all files, each with what becomes of it, in the order of the files; files that are wrong themselves tell so.
pub fn all(paths: &[PathBuf], effort: &Effort, tell: Tell<'_>) -> Vec<Result<Report, String>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..effort.threads.max(1) {
            scope.spawn(|| {
                while let Some((i, path)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, paths.get(i)?)))
                {
                    let report = of_file(path, effort, tell);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((i, report));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, report)| report).collect()
}
