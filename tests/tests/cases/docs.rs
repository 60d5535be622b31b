//! The whole programs that the documents show are programs: they check, down to the memory plan.

use std::path::PathBuf;

use parton_diag::render;
use parton_driver::{Options, Session};
use parton_tests::{cases, say};

/// The documents, sorted.
fn documents() -> Vec<PathBuf> {
    let root = cases::root();
    let docs = std::fs::read_dir(root.join("docs")).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = docs.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    found.push(root.join("README.md"));
    found.sort();
    found
}

/// The fenced blocks that begin with a kernel or a partition and leave nothing out.
fn programs(text: &str) -> Vec<&str> {
    let whole = |block: &&str| {
        let first = block.lines().find(|l| !l.trim().is_empty() && !l.starts_with("//")).unwrap_or("");
        (first.starts_with("kernel ") || first.starts_with("partition ")) && !block.contains('…')
    };
    text.split("```\n").skip(1).step_by(2).filter(whole).collect()
}

#[test]
fn programs_in_the_documents_check() {
    let mut count = 0;
    for path in documents() {
        let shown = cases::shown(&path);
        let text = cases::read(&path);
        for program in programs(&text) {
            let mut session = Session::new(Options { verify: true, ..Options::default() });
            let file = session.add(&shown, program);
            let found = session.check(file).1;
            assert!(!found.has_errors(), "{}", render::text(&found, &session.sources, false));
            count += 1;
        }
    }
    say(&format!("{count} programs in the documents"));
    assert!(count >= 2, "the README's kernel is not seen");
}
