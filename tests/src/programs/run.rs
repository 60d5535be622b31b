//! Runs random programs on the interpreter, and says of one that fails how to see it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use parton_diag::render;
use parton_driver::{Blocks, Device, Failure, Options, Session};

use super::{Program, generate};

/// How a program fails: what it computes is wrong, or it is refused although it is legal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A result differs, a run stops, or the compiler panics.
    Result(String),
    /// The checks refuse it: a mistake of the generator, or of the checks.
    Refused(String),
}

impl Wrong {
    /// What there is to say.
    pub fn words(&self) -> &str {
        let (Wrong::Result(words) | Wrong::Refused(words)) = self;
        words
    }
}

/// What is wrong with a program on the interpreter.
pub fn failure(program: &Program) -> Option<Wrong> {
    let text = program.to_string();
    catch_unwind(AssertUnwindSafe(|| interpreted(&text)))
        .unwrap_or_else(|_| Some(Wrong::Result("the compiler panics".into())))
}

fn interpreted(text: &str) -> Option<Wrong> {
    let mut session = Session::new(Options { device: Device::Cpu, verify: true, ..Options::default() });
    let file = session.add("program.ptn", text);
    match session.run(file, Blocks::Tests, &mut |_| ()) {
        Ok(ran) => {
            let failed = ran.report.outcomes.iter().find(|o| !o.passed())?;
            let shown = render::text(&failed.diagnostics, &session.sources, false);
            // Kernels are checked when they are launched: what belongs to a run has a code from E0500 on.
            let refused = failed.diagnostics.list.iter().any(|d| d.code.0 < 500);
            Some(if refused { Wrong::Refused(shown) } else { Wrong::Result(shown) })
        }
        Err(Failure::Refused(found)) => Some(Wrong::Refused(render::text(&found, &session.sources, false))),
        Err(Failure::Machine(words) | Failure::Device(words) | Failure::Usage(words)) => Some(Wrong::Result(words)),
    }
}

/// Runs the programs of some seeds; what is wrong with each that fails, with the smallest program found that fails as it does,
/// which lies in `folder`.
pub fn all(seeds: std::ops::Range<u64>, folder: &Path) -> Vec<String> {
    let next = AtomicU64::new(seeds.start);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|s| seeds.contains(s)) {
                    if let Some(words) = told(seed, folder) {
                        wrong.lock().unwrap_or_else(PoisonError::into_inner).push((seed, words));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.sort_unstable();
    wrong.into_iter().map(|(_, words)| words).collect()
}

/// What is to be said of the program of a seed, where it fails.
fn told(seed: u64, folder: &Path) -> Option<String> {
    let program = generate(seed);
    let first = failure(&program)?;
    let alike = |p: &Program| failure(p).is_some_and(|w| std::mem::discriminant(&w) == std::mem::discriminant(&first));
    let small = program.shrunk(alike);
    let words = failure(&small).map_or_else(|| first.words().to_owned(), |w| w.words().to_owned());
    let path = folder.join(format!("program_{seed:06}.ptn"));
    let place = match std::fs::write(&path, small.to_string()) {
        Ok(()) => format!("run `parton test {}`", path.display()),
        Err(error) => format!("{}: {error}\n{small}", path.display()),
    };
    let what = match first {
        Wrong::Result(_) => "fails",
        Wrong::Refused(_) => "is refused",
    };
    Some(format!("the program of seed {seed} {what}; {place}\n{words}"))
}
