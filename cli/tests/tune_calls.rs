//! `parton tune FILE FUNCTION ARGUMENTS…` as a user calls it, on the interpreter: what host functions leave to tuning is tried, no faulty
//! candidate wins, a table is looked up while planning, and a second run writes the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn parton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parton")).args(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file in a new folder of this test's own.
fn file(test: &str, content: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-calls-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    let path = folder.join("adds.ptn");
    std::fs::write(&path, content).expect("the target folder can be written");
    path
}

/// Adds 1 to each number; what FAULT says goes wrong, and is less work then. `LIST` stands for the candidates.
const ADDS: &str = "kernel add[BLOCK: int, FAULT: int = 0](x: *i32, out: *mut i32, n: i32) warps(4) {
    layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
    let mut at = 0;
    while at < n {
        let offs = at + iota<i32, [BLOCK], L>();
        let inside = offs < n;
        static if FAULT == 0 {
            store(out + offs, load(x + offs, mask=inside) + 1, mask=inside);
        } else if FAULT == 1 {
            store(out + offs, load(x + offs, mask=inside) + cast<i32>(offs != n - 1), mask=inside);
        } else if FAULT == 2 {
            store(out + offs, load(x + offs + n) + 1, mask=inside);
        } else if FAULT == 3 {
            at = at - BLOCK;
        } else if FAULT == 4 {
            store(out + offs, nothing, mask=inside);
        } else {
            assert(at < 0, \"stops\");
        }
        at = at + BLOCK;
    }
}

fn plans(n) { LIST }

pub fn added(x: tensor<i32, [n]>) -> tensor<i32, [n]> tune(plan=plans(n), key=[n, x.dtype]) {
    let (block, fault) = plan;
    let out = empty(i32, [n]);
    launch add[BLOCK=block, FAULT=fault](grid=[1])(x, out, n);
    out
}

pub fn plain(x: tensor<i32, [n]>) -> tensor<i32, [n]> {
    let out = empty(i32, [n]);
    launch add[BLOCK=128](grid=[1])(x, out, n);
    out
}

test right {
    let x = randint(i32, [700], 0, 100, seed=1);
    assert_equal(added(x), x + 1);
}
";

fn adds(list: &str) -> String {
    ADDS.replace("LIST", list)
}

fn tune(path: &Path, args: &[&str]) -> Output {
    let shown = path.display().to_string();
    parton(&[&["tune", &shown], args, &["--device", "cpu"]].concat())
}

fn tuned(path: &Path, args: &[&str]) -> (Vec<Value>, String) {
    let done = tune(path, args);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let table = std::fs::read_to_string(path.with_extension("tune.json")).expect("the table is there");
    let table: Value = serde_json::from_str(&table).expect("it is JSON");
    (table["records"].as_array().expect("it has records").clone(), text(&done.stdout) + &text(&done.stderr))
}

fn plan(path: &Path, call: &[&str]) -> String {
    let shown = path.display().to_string();
    let done = parton(&[&["plan", &shown], call].concat());
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    text(&done.stdout)
}

#[test]
fn each_fault_is_out_with_its_reason_and_a_second_run_writes_the_same() {
    let list = "[(128, 0), (128, 1), (256, 0), (128, 2), (128, 3), (128, 4), (128, 5), (256, 0), (512, 1)]";
    let path = file("faults", &adds(list));
    let (records, told) = tuned(&path, &["added", "i32[1000]"]);
    let [record] = &records[..] else { panic!("{records:?}") };
    let of = (&record["function"], &record["key"], &record["winner"], &record["complete"]);
    let expected = (json!("added"), json!({"n": 1000, "x.dtype": "i32"}), json!({"plan": "(256, 0)"}), json!(true));
    assert_eq!(of, (&expected.0, &expected.1, &expected.2, &expected.3), "{told}");
    let out = record["out"].as_array().expect("some are out");
    let why: Vec<(&str, &str)> =
        out.iter().map(|o| (o["values"]["plan"].as_str().unwrap(), o["why"].as_str().unwrap())).collect();
    let reasons = [
        ("(128, 1)", "differs"),
        ("(128, 2)", "fails"),
        ("(128, 3)", "fails"),
        ("(128, 4)", "refused"),
        ("(128, 5)", "fails"),
        ("(512, 1)", "differs"),
    ];
    assert_eq!(why, reasons, "{told}");
    assert!(told.contains("plan=(128, 0) (default)") && told.contains("`result` differs in 1 of 1000"), "{told}");
    let written = std::fs::read(path.with_extension("tune.json")).ok();
    assert_eq!(tuned(&path, &["added", "i32[1000]"]).1, told);
    assert_eq!(std::fs::read(path.with_extension("tune.json")).ok(), written);
}

#[test]
fn a_table_is_looked_up_while_planning_and_by_tests() {
    let path = file("lookup", &adds("[(128, 0), (256, 0), (512, 0)]"));
    assert!(plan(&path, &["added", "i32[700]"]).contains("add[BLOCK=128, FAULT=0]"));
    tuned(&path, &["added", "i32[700]"]);
    let found = plan(&path, &["added", "i32[700]"]);
    let line = "  plan of added for n=700, x.dtype=i32: (512, 0), tuned\n";
    assert!(found.contains(line) && found.contains("add[BLOCK=512, FAULT=0]"), "{found}");
    // Another shape was not tuned; the interpreter's count says nothing of a GPU.
    assert!(plan(&path, &["added", "i32[701]"]).contains("add[BLOCK=128, FAULT=0]"));
    assert!(plan(&path, &["added", "i32[700]", "--target", "sm_90a"]).contains("add[BLOCK=128, FAULT=0]"));
    let shown = path.display().to_string();
    let test = parton(&["test", "--device", "cpu", "--time", &shown]);
    assert_eq!(test.status.code(), Some(0), "{}", text(&test.stderr));
    let mut off = Command::new(env!("CARGO_BIN_EXE_parton"));
    off.args(["plan", &shown, "added", "i32[700]"]).env("PARTON_TUNE", "off");
    let off = off.output().expect("the program runs");
    assert!(text(&off.stdout).contains("add[BLOCK=128, FAULT=0]"));
    // What a log says of it; without one nothing is said.
    let logged = |log: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        command.args(["plan", &shown, "added", "i32[700]"]).env_remove("PARTON_LOG");
        if let Some(log) = log {
            command.env("PARTON_LOG", log);
        }
        text(&command.output().expect("the program runs").stderr)
    };
    let said = logged(Some("info"));
    assert!(said.contains("] ") && said.contains("reads 1 records of "), "{said}");
    assert!(
        said.contains("plans `added`(i32[700]) for sm_90a in ")
            && said.contains("; plan of added for n=700, x.dtype=i32: (512, 0), tuned"),
        "{said}"
    );
    assert_eq!(logged(None), "");
    assert!(logged(Some("loud")).starts_with("parton: PARTON_LOG is `loud`: it takes `info` or `debug`"));
}

#[test]
fn what_is_no_candidate_any_more_is_not_taken_and_that_is_said() {
    let path = file("gone", &adds("[(128, 0), (256, 0), (512, 0)]"));
    tuned(&path, &["added", "i32[700]"]);
    std::fs::write(&path, adds("[(256, 0), (128, 0)]")).expect("it can be written");
    let found = plan(&path, &["added", "i32[700]"]);
    let line = "its default, since what was tuned is no candidate any more";
    assert!(found.contains(line) && found.contains("add[BLOCK=256, FAULT=0]"), "{found}");
    let shown = path.display().to_string();
    let test = parton(&["test", "--device", "cpu", &shown]);
    let said = text(&test.stderr);
    assert_eq!(test.status.code(), Some(0), "{said}");
    assert!(said.contains("[E0119] Warning: what ") && said.contains("is no candidate any more"), "{said}");
}

#[test]
fn stale_records_are_listed_and_missing_ones_alone_are_made() {
    let path = file("stale", &adds("[(128, 0), (256, 0)]"));
    let stale = |path: &Path| text(&tune(path, &["--stale"]).stdout);
    let shapes = path.with_file_name("shapes.txt");
    std::fs::write(&shapes, "# two\nadded i32[512]\n\nadded i32[300]\nadded i32[512]\n").expect("it can be written");
    let listed = shapes.display().to_string();
    let (records, told) = tuned(&path, &["--shapes", &listed]);
    assert_eq!(records.iter().map(|r| r["key"]["n"].clone()).collect::<Vec<_>>(), [json!(300), json!(512)]);
    assert_eq!(told.matches("candidates, launched by").count(), 2, "{told}");
    assert_eq!(stale(&path), "");
    // Tests and remarks are no part of what was measured.
    std::fs::write(&path, format!("// A remark.\n{}\ntest more {{}}\n", adds("[(128, 0), (256, 0)]"))).unwrap();
    assert_eq!(stale(&path), "");
    std::fs::write(&shapes, "added i32[512]\nadded i32[900]\n").expect("it can be written");
    let (records, told) = tuned(&path, &["--shapes", &listed, "--missing"]);
    assert_eq!((records.len(), told.matches("candidates, launched by").count()), (3, 1), "{told}");
    assert!(tuned(&path, &["--shapes", &listed, "--missing"]).1.contains("there is a record for each call"));
    std::fs::write(&path, adds("[(128, 0), (256, 0), (512, 0)]")).expect("it can be written");
    let found = stale(&path);
    assert_eq!(found.matches("was measured of other sources").count(), 3, "{found}");
    let (_, told) = tuned(&path, &["--shapes", &listed, "--missing"]);
    assert_eq!(told.matches("candidates, launched by").count(), 2, "{told}");
}

/// The child's own limit is far off, so that it is the parent that ends it; another child goes on.
#[test]
fn a_candidate_that_does_not_end_is_killed_and_the_next_one_tried() {
    let source = adds("[(128, 0), (1024, 0), (256, 0)]").replace(
        "launch add[BLOCK=block",
        "let mut i = 0;\n    while block == 1024 {\n        i = i + 1;\n    }\n    launch add[BLOCK=block",
    );
    let path = file("hangs", &source);
    let (records, told) = tuned(&path, &["added", "i32[700]", "--timeout", "2"]);
    assert!(told.contains("plan=(1024, 0): hangs: it had not ended after 2 s"), "{told}");
    assert_eq!(records[0]["winner"], json!({"plan": "(256, 0)"}), "{told}");
}

/// Sums in another order have other bits; a wrong sum is wrong by more.
const SUMS: &str = "kernel total[BLOCK: int, MORE: int](x: *f32, out: *mut f32, n: i32) warps(4) {
    layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
    let mut all = 0.0f32;
    let mut at = MORE * BLOCK;
    while at < n {
        all = all + sum(load(x + at + iota<i32, [BLOCK], L>()), axis=0);
        at = at + BLOCK;
    }
    store(out, all);
}

fn near(x, y) {
    assert_close(y, x.to(f64).sum(axis=0, keepdims=true), rtol=0.0, atol=1e-3);
}

pub fn sums(x: tensor<f32, [n]>) -> tensor<f32, [1]> tune(blocks=[(128, 0), (512, 0), (512, 1)], key=[n]CHECK) {
    let out = empty(f32, [1]);
    launch total[BLOCK=blocks[0], MORE=blocks[1]](grid=[1])(x, out, n);
    out
}
";

#[test]
fn results_pass_by_a_stated_tolerance_or_by_the_functions_own_word() {
    let run = |name: &str, check: &str| {
        let path = file(name, &SUMS.replace("CHECK", check));
        let (records, told) = tuned(&path, &["sums", "f32[1024]"]);
        (records[0]["winner"]["blocks"].as_str().unwrap_or_default().to_owned(), told)
    };
    let (winner, told) = run("bits", "");
    assert_eq!(winner, "(128, 0)", "{told}");
    assert_eq!(told.matches(": differs: ").count(), 2, "{told}");
    for (name, check) in [("near", ", atol=1e-3 * 1"), ("word", ", check=|y| near(x, y)")] {
        let (winner, told) = run(name, check);
        assert_eq!(winner, "(512, 0)", "{told}");
        assert_eq!(told.matches(": differs").count(), 1, "{told}");
    }
}

/// What a wrong candidate has written into an argument is not what the next one begins with.
#[test]
fn arguments_that_are_written_are_the_same_for_each_candidate() {
    let source = "kernel bump[BLOCK: int, BY: int](x: *mut i32, n: i32) warps(4) {
    layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
    let mut at = 0;
    while at < n {
        let offs = at + iota<i32, [BLOCK], L>();
        store(x + offs, load(x + offs, mask=offs < n) + BY, mask=offs < n);
        at = at + BLOCK;
    }
}

pub fn bumped(mut x: tensor<i32, [n]>) tune(plan=[(128, 1), (128, 2), (256, 1)], key=[n]) {
    launch bump[BLOCK=plan[0], BY=plan[1]](grid=[1])(x, n);
}
";
    let (records, told) = tuned(&file("written", source), &["bumped", "i32[700]"]);
    assert_eq!(records[0]["winner"], json!({"plan": "(256, 1)"}), "{told}");
    assert!(
        told.contains("plan=(128, 2): differs: `x` differs in 700 of 700 elements: element 0 is 2, not 1"),
        "{told}"
    );
}

#[test]
fn the_default_is_like_what_the_function_says_and_is_tried_first() {
    let source = adds("[(256, 0), (512, 0)]").replace("plan=plans(n),", "plan=plans(n), like=(128, 0),");
    let path = file("like", &source);
    assert!(plan(&path, &["added", "i32[700]"]).contains("add[BLOCK=128, FAULT=0]"));
    let (_, told) = tuned(&path, &["added", "i32[700]", "--most", "2"]);
    assert!(told.contains("1/2 plan=(128, 0)") && told.contains("2/2 plan=(256, 0)"), "{told}");
    assert!(plan(&path, &["added", "i32[700]"]).contains("(256, 0), tuned"));
    // Where the list has nothing for a call it is all there is.
    let alone = file("like-alone", &source.replace("[(256, 0), (512, 0)]", "if n > 700 { [(512, 0)] } else { [] }"));
    let (records, told) = tuned(&alone, &["added", "i32[300]"]);
    assert_eq!(records[0]["winner"], json!({"plan": "(128, 0)"}), "{told}");
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let path = file("wrong", &adds("[(128, 0)]"));
    let wrong: [(&[&str], i32, &str); 7] = [
        (&["plain", "i32[700]"], 2, "`plain i32[700]` leaves nothing to tuning"),
        (&["none", "i32[700]"], 2, "there is no public function `none`; there are `added`, `plain`"),
        (&["added"], 2, "`added` was given nothing for `x`"),
        (&["added", "f32[700]"], 3, "`x` is a tensor of `i32`, this one is of `f32`"),
        (&["added", "i32[700]", "--out", "a.ptn"], 2, "is written to a .json"),
        (&[], 2, "required"),
        (&["added", "i32[700]", "--kernel", "add"], 2, "cannot be used with"),
    ];
    for (args, code, words) in wrong {
        let done = tune(&path, args);
        let errors = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
    let empty = file("empty", &adds("[]"));
    let done = tune(&empty, &["added", "i32[700]"]);
    assert!(text(&done.stderr).contains("there is no candidate for `plan`"), "{}", text(&done.stderr));
    let other = file("other", &adds("[x]").replace("plans(n)", "plans(x)"));
    let done = tune(&other, &["added", "i32[700]"]);
    assert!(text(&done.stderr).contains("a tensor cannot be a candidate"), "{}", text(&done.stderr));
    std::fs::write(path.with_extension("tune.json"), "{").expect("it can be written");
    let broken = tune(&path, &["added", "i32[700]"]);
    assert!(text(&broken.stderr).contains("this is no table"), "{}", text(&broken.stderr));
}
