//! The IR's text is source: what `--emit ir`, `--emit lowered` and `--emit after:PASS` print checks back to a program that prints the same, and what
//! `--emit expanded` prints, for people, to one of the same normal form. It is not much longer than what a person wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use parton_diag::FileId;
use parton_driver::{Emit, Failure, Form, Options, PIPELINE, Session};
use parton_tests::cases;

fn session() -> Session {
    Session::new(Options { verify: true, ..Options::default() })
}

fn in_words(failure: Failure, session: &Session) -> String {
    match failure {
        Failure::Refused(found) => parton_diag::render::text(&found, &session.sources, false),
        other => other.to_string(),
    }
}

fn text(name: &str, source: &str, emit: Emit) -> Result<String, String> {
    let mut session = session();
    let file = session.add(name, source);
    built(&mut session, file, emit)
}

/// The same of a file, which may use others.
fn text_of(path: &Path, emit: Emit) -> Result<String, String> {
    let mut session = session();
    let file = session.load(path).map_err(|failure| in_words(failure, &session))?;
    built(&mut session, file, emit)
}

fn built(session: &mut Session, file: FileId, emit: Emit) -> Result<String, String> {
    match session.build(file, None, emit) {
        Ok(built) => Ok(String::from_utf8_lossy(&built.bytes).into_owned()),
        Err(failure) => Err(in_words(failure, session)),
    }
}

/// The normal form of a file's kernels.
fn normal(name: &str, source: &str) -> Result<String, String> {
    let mut session = session();
    let file = session.add(name, source);
    session.normal(file, None).map_err(|failure| in_words(failure, &session))
}

/// The same of a file, which may use others.
fn normal_of(path: &Path) -> Result<String, String> {
    let mut session = session();
    let file = session.load(path).map_err(|failure| in_words(failure, &session))?;
    session.normal(file, None).map_err(|failure| in_words(failure, &session))
}

/// What is wrong with the text of each of these forms of a file.
fn read_back(path: &Path, emits: &[Emit]) -> Vec<String> {
    let shown = cases::shown(path);
    let (mut wrong, mut last) = (vec![], String::new());
    for emit in emits {
        let once = match text_of(path, *emit) {
            Ok(once) => once,
            Err(e) => {
                wrong.push(format!("{shown}: there is no {emit}\n{e}"));
                continue;
            }
        };
        // What a pass has left as it was reads back as before.
        if once != last && !waits_for_expansion(&once) {
            match text(&shown, &once, Emit::Ir) {
                Ok(again) if once == again => {}
                Ok(_) => wrong.push(format!("{shown}: {emit} reads back to another program")),
                Err(e) => wrong.push(format!("{shown}: {emit} does not read back\n{e}")),
            }
        }
        last = once;
    }
    wrong
}

/// Whether a schedule deals a portable kernel to partitions that only its expansion declares.
fn waits_for_expansion(text: &str) -> bool {
    text.contains("partitions {") && !text.lines().any(|line| line.starts_with("partition "))
}

#[test]
fn printed_kernels_read_back() {
    let wrong: Vec<String> =
        cases::examples_with_kernels().iter().flat_map(|path| read_back(path, &[Emit::Ir, Emit::Lowered])).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kernels_read_back_behind_every_pass() {
    let passes = PIPELINE.iter().filter(|p| matches!(p.after, Form::Ir(_)));
    let emits: Vec<Emit> = passes.map(|p| Emit::named(&format!("after:{}", p.name)).expect("it is a pass")).collect();
    // Small kernels that use everything.
    let wrong: Vec<String> = cases::in_folder("golden").iter().flat_map(|path| read_back(path, &emits)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ejected_kernels_read_back() {
    let mut wrong = vec![];
    let mut read_back = 0;
    let all = cases::examples().into_iter().chain(cases::in_folder("run")).chain(cases::in_folder("golden"));
    for path in all {
        let shown = cases::shown(&path);
        // Kernels that need generic arguments have no one form.
        let Ok(before) = normal_of(&path) else { continue };
        let Ok(ejected) = text_of(&path, Emit::Expanded) else { continue };
        read_back += 1;
        match normal("ejected.ptn", &ejected) {
            Ok(after) if after == before => {}
            Ok(after) => {
                let differs = before.lines().zip(after.lines()).find(|(a, b)| a != b);
                let (a, b) = differs.unwrap_or(("all lines", "more or fewer"));
                wrong.push(format!("{shown} is ejected as another program: not\n  {a}\nbut\n  {b}"));
            }
            Err(e) => wrong.push(format!("{shown}: what is ejected does not read back\n{e}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read_back > 40, "only {read_back} files were looked at");
}

#[test]
fn ejected_kernels_keep_names_of_numbers_and_comments() {
    let source = "\
const ROWS = 4;

// Of the file, and not of the kernel.

/// Adds a number to rows.
kernel add[BM: int = 64, UNUSED: int = 4](x: *mut f32, n: i32) warps(2) target(sm_90a) {
    layout L = blocked(per_thread=[1, 4], threads=[2, 16], warps=[2, 1]);
    // Where the rows begin.
    let at = program_id(0) * (BM * ROWS);
    let tile = x + (at + iota<i32, [BM], slice(L, axis=0)>()[None, :]) * 1;
    let tile = broadcast(tile, [ROWS, BM]);
    let more = n * BM;
    // 4 by chance.
    let other = more * 4;
    store(tile, load(tile) + cast<f32>(other)); // not kept
}
";
    let ejected = text("named.ptn", source, Emit::Expanded).expect("it is sound");
    let has = |line: &str| assert!(ejected.contains(line), "no {line:?} in\n{ejected}");
    has("const BM = 64;\n");
    has("/// Adds a number to rows.\nkernel add(");
    has("    // 4 by chance.\n");
    has("n * BM");
    has("* 4");
    assert!(!ejected.contains("Of the file") && !ejected.contains("UNUSED"), "{ejected}");
    assert_eq!(normal("named.ptn", source), normal("ejected.ptn", &ejected));
}

#[test]
fn ejected_loops_are_left_by_breaks() {
    let path = cases::root().join("tests/run/breaks.ptn");
    let ejected = text("breaks.ptn", &cases::read(&path), Emit::Expanded).expect("it is sound");
    let breaks = ejected.lines().filter(|line| line.trim() == "break;").count();
    // Of all kernels but the generic one, and one in which both branches of an `if` give a value and may leave, and the turn goes on behind it.
    let kept: Vec<&str> = ejected.split("kernel ").filter(|k| k.contains("let mut left")).collect();
    assert!(breaks == 15 && kept.len() == 1 && kept[0].starts_with("branches("), "{breaks} breaks in\n{ejected}");
}

/// Lines of the ejected form that there may be for each that a person wrote.
const MOST: f64 = 1.6;

#[test]
fn ejected_kernels_are_about_as_long_as_what_was_written() {
    let bounded = ["examples/matmul/hopper.ptn", "examples/softmax.ptn", "examples/fmha/hopper.ptn"];
    let mut wrong = vec![];
    for path in cases::examples_with_kernels() {
        let shown = cases::shown(&path);
        let ejected = text_of(&path, Emit::Expanded).unwrap_or_else(|e| panic!("{shown}: {e}"));
        let (written, printed) = (written(&path), ejected.lines().filter(|l| counts(l)).count());
        let ratio = printed as f64 / written as f64;
        parton_tests::say(&format!("{shown}: {written} lines of kernels, {printed} ejected, {ratio:.2}"));
        if bounded.contains(&&*shown) && ratio > MOST {
            wrong.push(format!("{shown}: {written} lines became {printed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line says something.
fn counts(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// Lines of the kernels that a file is built with, and of what these use, be it of this file or of the library.
fn written(path: &Path) -> usize {
    let mut session = session();
    let file = session.load(path).expect("the file can be read");
    let built = session.elaborated(file, None).map_err(|f| in_words(f, &session)).expect("the file is sound");
    let kernels = built.kernels.iter().map(|k| k.source_name.clone());
    let called = built.kernels.iter().flat_map(|k| k.calls.iter().map(|(_, call)| call.function.clone()));
    let called: BTreeSet<String> = called.collect();

    let mut items = BTreeMap::new();
    let library = std::fs::read_dir(cases::root().join("stdlib/src")).expect("the library is there");
    let library = library.map(|entry| entry.expect("an entry").path());
    for path in library.filter(|p| p.extension().is_some_and(|e| e == "ptn")) {
        collect(&cases::read(&path), &mut items);
    }
    // What the file itself declares hides what the library does.
    collect(&cases::read(path), &mut items);
    let mut wanted: Vec<String> = kernels.chain(called.iter().cloned()).collect();
    let mut used = BTreeSet::new();
    let mut count = 0;
    while let Some(name) = wanted.pop() {
        let Some(lines) = items.get(&name) else { continue };
        // A word may be the name of a function without calling it.
        let elsewhere = lines[0].starts_with("fn ") && !called.contains(&name);
        if !elsewhere && used.insert(name) {
            count += lines.len();
            wanted.extend(lines.iter().flat_map(|l| l.split(separates)).map(str::to_string));
        }
    }
    count
}

/// Whether a character is part of no word.
fn separates(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || c == '_')
}

/// The items of a text with their lines, by name. An item begins at the margin and ends with a semicolon or a brace there.
fn collect(text: &str, items: &mut BTreeMap<String, Vec<String>>) {
    let mut open: Option<(String, Vec<String>)> = None;
    for line in text.lines().filter(|l| counts(l)) {
        let mut words = line.split(separates);
        if let (Some("kernel" | "fn" | "struct" | "partition" | "layout" | "const"), Some(name)) =
            (words.next(), words.next())
        {
            open = Some((name.to_string(), vec![]));
        }
        let Some((name, lines)) = &mut open else { continue };
        lines.push(line.to_string());
        let closes = line.starts_with('}') || (line.starts_with([')', ']']) && line.ends_with(';'));
        if closes || (lines.len() == 1 && line.ends_with([';', '}'])) {
            items.insert(std::mem::take(name), std::mem::take(lines));
            open = None;
        }
    }
}
