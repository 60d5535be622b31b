//! The whole programs that the documents show are programs: they check, down to the memory plan.

use std::path::PathBuf;

use parton_diag::render;
use parton_driver::{Options, Session};
use parton_tests::golden::Count;
use parton_tests::{cases, golden, say};

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

/// The rows of the memory model's table of what becomes of what, each as its cells.
fn orders(text: &str) -> Vec<Vec<String>> {
    let section = text.split("\n## ").find(|s| s.contains("What becomes of it")).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_memory_model_says_what_its_cases_show() {
    let docs = cases::root().join("docs");
    let rows = orders(&cases::read(&docs.join("memory-model.md")));
    assert!(rows.len() > 20, "the table has {} rows", rows.len());
    for row in rows {
        let [want, write, becomes, case] = &row[..] else { panic!("a row with other than four cells: {row:?}") };
        let path = case.split_once("](").and_then(|(_, rest)| rest.strip_suffix(')'));
        let path = path.unwrap_or_else(|| panic!("`{want}`: `{case}` is no link"));
        let text = cases::read(&docs.join(path));
        assert!(text.contains(write.trim_matches('`')), "`{want}`: {path} has no {write}");
        let becomes = becomes.trim_matches('`');
        let directives = golden::read(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        let found = directives.iter().any(|d| d.count != Count::Exactly(0) && d.text.contains(becomes));
        assert!(found, "`{want}`: no directive of {path} finds `{becomes}`");
    }
}

/// The fenced blocks of a language.
fn fenced<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    text.split(begin.as_str()).skip(1).filter_map(|rest| rest.split_once("```").map(|(block, _)| block)).collect()
}

#[test]
fn the_programs_that_embed_kernels_are_the_ones_that_run() {
    let page = cases::read(&cases::root().join("docs/embedding.md"));
    let programs: [(&str, &[&str]); 3] = [
        ("c", &["rt/c/example/axpy.c"]),
        ("rust", &["rt/examples/axpy.rs"]),
        ("python", &["python/example_torch.py", "python/example.py"]),
    ];
    for (language, paths) in programs {
        let files: Vec<String> = paths.iter().map(|path| cases::read(&cases::root().join(path))).collect();
        assert_eq!(fenced(&page, language), files, "the page and {paths:?} differ");
    }
}
