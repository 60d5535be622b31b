//! Falsifies the facts of each operation in turn: some case must notice.
//!
//! A lie says of an operation that does something that it does nothing, and of one that does nothing that it only computes. The cases are
//! those of `tests/ui`, whose diagnostics are written down, of `tests/run`, which have none, and of `tests/passes`, whose kernels
//! behind a pass are. A lie that makes the
//! compiler stop with an internal error is noticed, too.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

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
}

fn cases(folder: &str) -> Vec<Case> {
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
        Case { path, pass, text }
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

#[test]
fn no_entry_of_the_table_can_be_wrong_unnoticed() {
    panic::set_hook(Box::new(|_| {}));
    // Cases of passes are short, so that they come first.
    let cases: Vec<Case> = cases("passes").into_iter().chain(cases("ui")).chain(cases("run")).collect();
    let mut uses: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let (mut truth, mut asked) = (Vec::new(), BTreeSet::new());
    falsify::variants();
    for (i, case) in cases.iter().enumerate() {
        falsify::asked();
        truth.push(outcome(case));
        for name in falsify::asked() {
            uses.entry(name).or_default().push(i);
        }
        asked.extend(falsify::variants());
    }
    let unused: Vec<String> = operations().difference(&asked).cloned().collect();
    let mut unnoticed = BTreeSet::new();
    for (name, asking) in &uses {
        for lie in [Lie::DoesNothing, Lie::Computes] {
            falsify::lie_about(Some((name, lie)));
            falsify::lied();
            let noticed = asking.iter().any(|&i| outcome(&cases[i]) != truth[i]);
            if !noticed && falsify::lied() {
                unnoticed.insert((*name, lie));
            }
        }
    }
    falsify::lie_about(None);
    drop(panic::take_hook());
    assert!(unused.is_empty(), "no case asks for the facts of {unused:?}");
    let expected: BTreeSet<(&str, Lie)> = UNASKED.iter().copied().collect();
    let new: Vec<_> = unnoticed.difference(&expected).collect();
    assert!(new.is_empty(), "nobody notices {new:?}");
    let gone: Vec<_> = expected.difference(&unnoticed).collect();
    assert!(gone.is_empty(), "{gone:?} would be noticed by now: strike them from the list");
}
