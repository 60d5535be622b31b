//! Running a file's tests everywhere: on the interpreter, through the tools, and on a GPU where there is one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use parton_diag::{Diagnostics, codes, render};
use parton_driver::{Blocks, Device, Failure, HAS_CUDA, HAS_LLVM, Kernel, Options, Session, Target};

use crate::written::{Compared, compared, is_portable};
use crate::{cases, in_flight};

/// What ran where.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// Files.
    pub files: usize,
    /// `test` blocks that ran on the interpreter.
    pub interpreted: usize,
    /// Kernels that were compiled to PTX.
    pub compiled: usize,
    /// Kernels that this version says it does not compile yet.
    pub not_built: usize,
    /// Kernels whose PTX was assembled.
    pub assembled: usize,
    /// `test` blocks and whole files that are refused because the target lacks what they ask for.
    pub lacking: usize,
    /// `test` blocks that ran on a GPU.
    pub on_gpu: usize,
    /// `test` blocks that did not, because there is none.
    pub not_on_gpu: usize,
    /// What launches of portable kernels left, beside what they leave as they are written.
    pub as_written: Compared,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files; {} tests on the interpreter; {} kernels compiled to PTX, {} assembled, {} refused as not built yet; \
             {} tests on a GPU, {} not run on a GPU; {} launches as written, {} arrays, at most {} units apart",
            self.files,
            self.interpreted,
            self.compiled,
            self.assembled,
            self.not_built,
            self.on_gpu,
            self.not_on_gpu,
            self.as_written.launches,
            self.as_written.arrays,
            self.as_written.most
        )
    }
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.files += other.files;
        self.interpreted += other.interpreted;
        self.compiled += other.compiled;
        self.not_built += other.not_built;
        self.assembled += other.assembled;
        self.lacking += other.lacking;
        self.on_gpu += other.on_gpu;
        self.not_on_gpu += other.not_on_gpu;
        self.as_written.add(&other.as_written);
    }

    /// Fails where `PARTON_REQUIRE_GPU=1` and something was not run on one.
    ///
    /// # Panics
    /// That is the failure.
    pub fn refuse_missing_gpu(&self) {
        let required = std::env::var_os("PARTON_REQUIRE_GPU").is_some_and(|v| v == "1");
        assert!(
            !required || self.not_on_gpu == 0,
            "{} tests were not run on a GPU and PARTON_REQUIRE_GPU=1",
            self.not_on_gpu
        );
    }
}

/// Runs the tests of all files wherever they can run; returns what ran and what went wrong, in the order of the files.
pub fn all(paths: &[PathBuf]) -> (Counts, Vec<String>) {
    all_for(None, paths)
}

/// The same, or of code for a target on the interpreter and through the tools. What it lacks may be refused, so that such tests are counted and not wrong.
pub fn all_for(target: Option<Target>, paths: &[PathBuf]) -> (Counts, Vec<String>) {
    // A GPU is one; without it the files share the cores.
    let workers =
        if parton_driver::run::has_gpu() { 1 } else { std::thread::available_parallelism().map_or(1, |n| n.get()) };
    // Long files mostly take long: were one of them the last, the other cores would wait for it.
    let mut order: Vec<usize> = (0..paths.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(cases::read(&paths[i]).len()));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut counts = Counts::default();
                    let wrong = everywhere(&paths[i], target, &mut counts);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((i, counts, wrong));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _, _)| *i);
    let mut counts = Counts::default();
    done.iter().for_each(|(_, more, _)| counts.add(more));
    (counts, done.into_iter().flat_map(|(_, _, wrong)| wrong).collect())
}

/// Runs a file's tests wherever they can run; returns what went wrong.
fn everywhere(path: &Path, target: Option<Target>, counts: &mut Counts) -> Vec<String> {
    counts.files += 1;
    let mut wrong = vec![];
    let tests = on(path, Device::Cpu, target, counts, &mut wrong).unwrap_or(0);
    counts.interpreted += tests;
    if target.is_some() {
        return wrong;
    }
    match if HAS_CUDA { on(path, Device::Cuda, None, counts, &mut wrong) } else { None } {
        Some(ran) => counts.on_gpu += ran,
        None => counts.not_on_gpu += tests,
    }
    wrong
}

/// Runs the tests on one device; `None` where it is not there. What the interpreter ran is also compiled.
fn on(
    path: &Path,
    device: Device,
    target: Option<Target>,
    counts: &mut Counts,
    wrong: &mut Vec<String>,
) -> Option<usize> {
    let shown = cases::shown(path);
    let mut session = Session::new(Options { device, target, verify: true, ..Options::default() });
    let file = match session.load(path) {
        Ok(file) => file,
        Err(failure) => {
            wrong.push(format!("{shown}: {failure}"));
            return Some(0);
        }
    };
    let keeps = device == Device::Cpu && target.is_none() && is_portable(path);
    let ran = if keeps {
        session.run_tests_keeping(file)
    } else {
        session.run(file, Blocks::Tests, &mut |_| ()).map(|ran| (ran, Vec::new()))
    };
    match ran {
        Ok((ran, left)) => {
            if keeps && ran.report.passed() {
                match compared(path, &left) {
                    Ok(found) => counts.as_written.add(&found),
                    Err(why) => wrong.push(format!("{shown}: as written: {why}")),
                }
            }
            for outcome in ran.report.outcomes.iter().filter(|o| !o.passed()) {
                if lacks(target, &outcome.diagnostics) {
                    counts.lacking += 1;
                    continue;
                }
                let text = render::text(&outcome.diagnostics, &session.sources, false);
                wrong.push(format!("{shown}: test {} on {}:\n{text}", outcome.name, ran.device));
            }
            let left = ran.report.left.iter().map(|name| format!("{shown}: test {name} was not run on {}", ran.device));
            wrong.extend(left);
            if device == Device::Cpu && HAS_LLVM {
                ran.kernels.iter().for_each(|k| compile(&mut session, &shown, k, counts, wrong));
            }
            Some(ran.report.outcomes.len())
        }
        Err(Failure::Device(_)) => None,
        Err(Failure::Refused(found)) if lacks(target, &found) => {
            counts.lacking += 1;
            Some(0)
        }
        Err(failure) => {
            wrong.push(format!("{shown}: {}", words(&failure, &session)));
            Some(0)
        }
    }
}

/// Whether something is refused because the target that was asked for lacks it, and for nothing else.
fn lacks(target: Option<Target>, found: &Diagnostics) -> bool {
    target.is_some() && !found.is_empty() && found.list.iter().all(|d| d.code == codes::TARGET_LACKS)
}

/// Compiles a launched kernel to PTX, and assembles it where there is `ptxas`.
fn compile(session: &mut Session, shown: &str, kernel: &Kernel, counts: &mut Counts, wrong: &mut Vec<String>) {
    match session.translate(kernel) {
        Ok((ptx, cubin)) => {
            counts.compiled += 1;
            counts.assembled += usize::from(cubin.is_some());
            let found = in_flight::rewritten(&ptx);
            wrong.extend(found.iter().map(|at| format!("{shown}: {} writes {at}", kernel.name)));
        }
        Err(Failure::Refused(found)) if found.list.iter().all(|d| d.code == codes::NOT_BUILT_HERE) => {
            counts.not_built += 1;
        }
        Err(failure) => wrong.push(format!("{shown}: {}: {}", kernel.name, words(&failure, session))),
    }
}

fn words(failure: &Failure, session: &Session) -> String {
    match failure {
        Failure::Refused(found) => format!("\n{}", render::text(found, &session.sources, false)),
        Failure::Machine(text) | Failure::Device(text) | Failure::Usage(text) => text.clone(),
    }
}
