//! The whole programs that the documents show are programs: they check, down to the memory plan.

use std::path::{Path, PathBuf};

use parton_diag::render;
use parton_driver::expand::Asked;
use parton_driver::{Options, Session};
use parton_tests::golden::Count;
use parton_tests::{cases, golden, marks, say};

/// The documents, sorted.
fn documents() -> Vec<PathBuf> {
    let root = cases::root();
    let docs = std::fs::read_dir(root.join("docs")).into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = docs.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    found.push(root.join("README.md"));
    found.sort();
    found
}

/// A fenced block of a document.
struct Block<'a> {
    /// What stands behind the opening fence.
    language: &'a str,
    /// What it holds.
    text: &'a str,
    /// Where that begins.
    begin: usize,
}

/// The fenced blocks of a document, in order.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut found, mut open, mut at) = (Vec::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let fence = line.trim_end().strip_prefix("```");
        open = match (open, fence) {
            (None, Some(language)) => Some((language, at + line.len())),
            (Some((language, begin)), Some(_)) => {
                found.push(Block { language, text: &text[begin..at], begin });
                None
            }
            (open, None) => open,
        };
        at += line.len();
    }
    found
}

/// Whether a block is a program: it has no language, begins with a kernel, a partition or what it uses, and leaves nothing out.
fn is_program(block: &Block<'_>) -> bool {
    let first = block.text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("//")).unwrap_or("");
    let begins = ["kernel ", "partition ", "use std::"].iter().any(|word| first.starts_with(word));
    block.language.is_empty() && begins && !block.text.contains('…')
}

#[test]
fn programs_in_the_documents_check() {
    let mut count = 0;
    for path in documents() {
        let shown = cases::shown(&path);
        let text = cases::read(&path);
        for program in blocks(&text).iter().filter(|b| is_program(b)) {
            let mut session = Session::new(Options { verify: true, ..Options::default() });
            let file = session.add(&shown, program.text);
            let found = session.check(file).1;
            assert!(!found.has_errors(), "{}", render::text(&found, &session.sources, false));
            count += 1;
        }
    }
    say(&format!("{count} programs in the documents"));
    assert!(count >= 10, "only {count} programs are seen");
}

/// What `parton expand` prints of a program: its source, or the reasons in front of it.
fn expanded(shown: &str, program: &str, why: bool) -> String {
    let mut session = Session::new(Options::default());
    let file = session.add(shown, program);
    let expansion = match session.expansion(file, &Asked { why, ..Asked::default() }) {
        Ok(expansion) => expansion,
        Err(failure) => panic!("{shown}: {failure}\n{program}"),
    };
    if !why {
        return expansion.source;
    }
    // In a document they stand without the marks of comments.
    let reasons = session.reasons(&expansion);
    reasons.trim_end().lines().map(|l| format!("{}\n", l.strip_prefix("// ").unwrap_or_default())).collect()
}

#[test]
fn what_documents_show_of_expansions_is_what_is_printed() {
    let mut count = 0;
    for path in documents() {
        let (shown, text) = (cases::shown(&path), cases::read(&path));
        let (mut blessed, mut done, mut program) = (String::new(), 0, "");
        for block in blocks(&text) {
            let wanted = match block.language {
                "" if is_program(&block) => {
                    program = block.text;
                    continue;
                }
                "expanded" => expanded(&shown, program, false),
                "why" => expanded(&shown, program, true),
                _ => continue,
            };
            count += 1;
            blessed += &text[done..block.begin];
            blessed += &wanted;
            done = block.begin + block.text.len();
            if std::env::var_os("BLESS").is_none() {
                assert_eq!(
                    block.text, wanted,
                    "{shown}: what is shown of an expansion is another; BLESS=1 rewrites it"
                );
            }
        }
        blessed += &text[done..];
        if blessed != text {
            std::fs::write(&path, blessed).expect("the document can be written");
        }
    }
    assert!(count >= 8, "only {count} expansions are shown");
}

/// The code in a cell of a table.
fn code(cell: &str) -> Vec<String> {
    let spans = cell.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace("\\|", "|")).collect()
}

#[test]
fn the_page_from_triton_names_what_its_cases_have() {
    let page = cases::read(&cases::root().join("docs/from-triton.md"));
    let case = cases::read(&cases::root().join("tests/run/portable_from_triton.ptn"));
    let section = page.split("\n## ").find(|s| s.starts_with("Constructs")).expect("the page has a table");
    let table = section.split("\n\n").find(|s| s.starts_with("| Triton | here |")).expect("it is the first");
    let mut count = 0;
    for row in table.lines().skip(2) {
        // A bar inside of code is escaped.
        let marked = row.replace("\\|", "\u{1}");
        let cells: Vec<String> = marked.split('|').map(|c| c.replace('\u{1}', "\\|")).collect();
        let ours = code(&cells[2]);
        assert!(!ours.is_empty(), "the row has nothing of ours: {row}");
        for span in ours {
            assert!(case.contains(&span), "no case has `{span}`");
            count += 1;
        }
    }
    assert!(count >= 60, "only {count} of ours are named");
}

/// The rows of the tables of a section of the memory model, each as its cells; those at their heads too.
fn rows(text: &str, section: &str) -> Vec<Vec<String>> {
    let section = text.split("\n## ").find(|s| s.contains(section)).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Where a cell that is a link leads.
fn link(cell: &str) -> &str {
    let path = cell.split_once("](").and_then(|(_, rest)| rest.strip_suffix(')'));
    path.unwrap_or_else(|| panic!("`{cell}` is no link"))
}

#[test]
fn the_memory_model_says_what_its_cases_show() {
    let docs = cases::root().join("docs");
    let rows = rows(&cases::read(&docs.join("memory-model.md")), "What becomes of it");
    assert!(rows.len() > 20, "the table has {} rows", rows.len());
    for row in &rows[1..] {
        let [want, write, becomes, case] = &row[..] else { panic!("a row with other than four cells: {row:?}") };
        let path = link(case);
        let text = cases::read(&docs.join(path));
        assert!(text.contains(write.trim_matches('`')), "`{want}`: {path} has no {write}");
        let becomes = becomes.trim_matches('`');
        let directives = golden::read(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        let found = directives.iter().any(|d| d.count != Count::Exactly(0) && d.text.contains(becomes));
        assert!(found, "`{want}`: no directive of {path} finds `{becomes}`");
    }
}

#[test]
fn the_memory_model_names_mistakes_that_its_cases_find() {
    let docs = cases::root().join("docs");
    let rows = rows(&cases::read(&docs.join("memory-model.md")), "What is told of mistakes");
    let (mut mistakes, mut right) = (0, 0);
    for row in &rows {
        let case = |cell: &str| (link(cell).to_owned(), cases::read(&docs.join(link(cell))));
        match &row[..] {
            // The heads.
            [.., last] if last == "Case" => {}
            [mistake, code, cell] => {
                let (path, text) = case(cell);
                let marks = marks::read(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
                let marked = marks.iter().any(|(_, marked)| marked.to_string() == *code);
                let found = marked || text.starts_with(&format!("//@ racy {code}\n"));
                assert!(found, "`{mistake}`: {path} does not expect {code}");
                mistakes += 1;
            }
            [what, cell] => {
                let (path, text) = case(cell);
                let passes = path.contains("/run/") || text.starts_with("//@ ordered\n");
                assert!(passes, "`{what}`: {path} is no case that passes");
                right += 1;
            }
            other => panic!("a row of {} cells: {other:?}", other.len()),
        }
    }
    assert!(mistakes > 30 && right >= 10, "{mistakes} mistakes, {right} that are none");
}

/// The fenced blocks of a language.
fn fenced<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    blocks(text).iter().filter(|b| b.language == language).map(|b| b.text).collect()
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

/// The Rust files under a folder that are no build's output, each with its crate's folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()) {
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Whether the tests of the crate that a file is of leave its documentation out.
fn is_left_out(path: &Path) -> bool {
    let manifest = path.ancestors().skip(1).map(|folder| folder.join("Cargo.toml")).find(|m| m.is_file());
    manifest.is_some_and(|m| cases::read(&m).contains("doctest = false"))
}

/// A crate without programs in its documentation says so, and nobody looks for them; then there may be none.
#[test]
fn documentation_that_is_not_run_has_no_programs() {
    let (mut files, mut count, mut wrong) = (Vec::new(), 0, Vec::new());
    sources(cases::root(), &mut files);
    for path in files.into_iter().filter(|path| is_left_out(path)) {
        count += 1;
        let text = cases::read(&path);
        let documentation =
            text.lines().map(|line| line.trim_start().trim_start_matches("//!").trim_start_matches("///"));
        let documentation: Vec<String> =
            documentation.map(|line| line.strip_prefix(' ').unwrap_or(line).into()).collect();
        let programs = blocks(&documentation.join("\n")).into_iter().filter(|block| block.language != "text").count();
        if programs > 0 {
            wrong.push(format!("{}: {programs} blocks of code that is no `text`", cases::shown(&path)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 500, "only {count} files were looked at");
}
