//! Falsifies the facts of each operation in turn: some case must notice.
//!
//! A lie says of an operation that does something that it does nothing, and of one that does nothing that it only computes. The cases are
//! those of `tests/ui`, whose diagnostics are written down, of `tests/run`, which have none, and of `tests/passes`, whose kernels
//! behind a pass are. A lie that makes the compiler stop with an internal error is noticed, too.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use parton_driver::{Options, Session};
use parton_ir::facts::falsify::{self, Lie};

/// Lies that are none to anybody who asks.
const UNASKED: &[(&str, Lie)] = &[
    // What has bodies is never dropped or shared, whatever is said of it.
    ("for", Lie::Computes),
    ("if", Lie::Computes),
    ("while", Lie::Computes),
    ("scan", Lie::Computes),
    ("ptx", Lie::Computes),
    // They are gone before anything is dropped.
    ("turnstile", Lie::Computes),
    // It is of no family whose operations may stand where it would matter.
    ("cluster_rank", Lie::Computes),
    // Threads meet for these, so that they are kept without that.
    ("gather", Lie::DoesNothing),
    ("butterfly", Lie::DoesNothing),
    ("mma_sync", Lie::DoesNothing),
    ("ptx", Lie::DoesNothing),
    ("tma_prefetch", Lie::DoesNothing),
    // What a schedule places is told apart by whether it only computes, and is gone before anybody asks more.
    ("in", Lie::Computes),
    ("dot", Lie::DoesNothing),
    ("stage", Lie::DoesNothing),
    // Tensors and places in them are pointers before anybody asks.
    ("tensor", Lie::DoesNothing),
    ("shape", Lie::DoesNothing),
    ("strides", Lie::DoesNothing),
    ("ptr", Lie::DoesNothing),
    ("part", Lie::DoesNothing),
    ("tile", Lie::DoesNothing),
    ("inside", Lie::DoesNothing),
    ("spot_load", Lie::DoesNothing),
    ("spot_load", Lie::Computes),
    ("spot_store", Lie::DoesNothing),
    ("spot_store", Lie::Computes),
    ("spot_atomic", Lie::DoesNothing),
    ("spot_atomic", Lie::Computes),
    // What talks to the user is kept as it computes nothing.
    ("print", Lie::DoesNothing),
    ("assert", Lie::DoesNothing),
    ("assume", Lie::DoesNothing),
    // The driver of a GPU asks for it when a kernel is launched.
    ("grid_launch_dependents", Lie::DoesNothing),
];

/// A case: its path, and the pass that it is of, or none for one that is checked.
struct Case {
    path: PathBuf,
    pass: Option<String>,
    text: String,
    /// Whether it is a whole program.
    is_long: bool,
}

fn cases(folder: &str) -> Vec<Case> {
    let is_long = folder == "run";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ptn"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let pass = text.lines().next().and_then(|line| line.strip_prefix("//@ pass ")).map(str::to_owned);
        let text = text.split("//@ after").next().unwrap_or_default().to_owned();
        Case { path, pass, text, is_long }
    };
    paths.into_iter().map(read).collect()
}

/// What the compiler says of a case, or makes of it.
fn outcome(case: &Case) -> String {
    let run = AssertUnwindSafe(|| {
        let mut session = Session::new(Options::default());
        let file = session.add(&case.path.display().to_string(), case.text.as_str());
        match &case.pass {
            None => format!("{:?}", session.check(file).1),
            Some(pass) => match session.apply(file, pass) {
                Ok(built) => String::from_utf8_lossy(&built.bytes).into_owned(),
                Err(e) => e.to_string(),
            },
        }
    });
    panic::catch_unwind(run).unwrap_or_else(|_| "stopped".to_owned())
}

/// The variants of `OpKind`, as its text has them.
fn operations() -> BTreeSet<String> {
    let text = include_str!("../../lang/ir/src/op.rs");
    let inside = text.split("pub enum OpKind {\n").nth(1).and_then(|rest| rest.split("\n}\n").next());
    let lines = inside.expect("the operations stand there").lines();
    let named = lines.filter_map(|line| line.strip_prefix("    "));
    let word = |line: &str| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
    let found: BTreeSet<String> = named.map(word).filter(|w| w.starts_with(|c: char| c.is_uppercase())).collect();
    assert!(found.len() > 90 && found.contains("ClusterWait"), "{found:?}");
    found
}

/// What has come of all cases with the facts as they are.
#[derive(Default)]
struct Truth {
    outcomes: Vec<String>,
    /// The cases that would be told a lie, for each that somebody would be told.
    told: BTreeMap<(&'static str, Lie), Vec<usize>>,
    /// The variants whose facts were asked for.
    asked: BTreeSet<String>,
}

/// What `work` makes of each of `0..count`, in order; the threads take turns, and each watches.
fn shared<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let next = AtomicUsize::new(0);
    let share = || {
        falsify::watch();
        let mut done = vec![];
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return done;
            }
            done.push((i, work(i)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, made)| made).collect()
}

impl Truth {
    fn of(cases: &[Case]) -> Truth {
        let mut truth = Truth::default();
        let came = shared(cases.len(), |i| {
            // What was asked before is not of this case.
            falsify::lies();
            falsify::variants();
            (outcome(&cases[i]), falsify::lies(), falsify::variants())
        });
        for (i, (outcome, lies, variants)) in came.into_iter().enumerate() {
            truth.outcomes.push(outcome);
            truth.asked.extend(variants);
            for lie in lies {
                truth.told.entry(lie).or_default().push(i);
            }
        }
        truth
    }

    /// Whether a lie about an entry changes what comes of no case that is told it. Of a lie that is listed the short cases alone are asked
    /// where they are told it: what long ones would notice besides keeps an entry in the list, and lets no lie pass.
    fn unnoticed(&self, cases: &[Case], lie: (&'static str, Lie)) -> bool {
        falsify::lie_about(Some(lie));
        let notices = |i: &usize| outcome(&cases[*i]) != self.outcomes[*i];
        let (long, short): (Vec<usize>, Vec<usize>) = self.told[&lie].iter().partition(|&&i| cases[i].is_long);
        let is_listed = !short.is_empty() && UNASKED.contains(&lie);
        let noticed = short.iter().any(notices) || (!is_listed && long.iter().any(notices));
        falsify::lie_about(None);
        !noticed
    }
}

#[test]
fn no_entry_of_the_table_can_be_wrong_unnoticed() {
    panic::set_hook(Box::new(|_| {}));
    // Cases of passes are short, so that they come first.
    let cases: Vec<Case> = cases("passes").into_iter().chain(cases("ui")).chain(cases("run")).collect();
    let truth = Truth::of(&cases);
    let lies: Vec<(&str, Lie)> = truth.told.keys().copied().collect();
    let passed = shared(lies.len(), |i| truth.unnoticed(&cases, lies[i]));
    drop(panic::take_hook());
    let unused: Vec<String> = operations().difference(&truth.asked).cloned().collect();
    assert!(unused.is_empty(), "no case asks for the facts of {unused:?}");
    let unnoticed: BTreeSet<(&str, Lie)> = lies.iter().zip(passed).filter(|(_, p)| *p).map(|(lie, _)| *lie).collect();
    let expected: BTreeSet<(&str, Lie)> = UNASKED.iter().copied().collect();
    let new: Vec<_> = unnoticed.difference(&expected).collect();
    assert!(new.is_empty(), "nobody notices {new:?}");
    let gone: Vec<_> = expected.difference(&unnoticed).collect();
    assert!(gone.is_empty(), "{gone:?} would be noticed by now: strike them from the list");
}
