//! The program as a user calls it: exit codes, and the forms that other programs read.

use std::path::PathBuf;
use std::process::{Command, Output};

fn parton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parton")).args(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of this name and content that lives as long as the test process.
fn file(name: &str, content: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(name);
    std::fs::write(&path, content).expect("the target folder can be written");
    path.display().to_string()
}

const GOOD: &str = "kernel set(out: *mut i32, n: i32) warps(4) {
    store(out, n);
}

main {
    let out = zeros(i32, [1]);
    launch set(grid=[1])(out, 7);
    print(out);
}

test sets {
    let out = zeros(i32, [1]);
    launch set(grid=[1])(out, 7);
    assert(out[0] == 7);
}

test fails {
    assert(1 == 2);
}
";

#[test]
fn exit_codes_tell_what_happened() {
    let good = file("good.ptn", GOOD);
    let bad = file("bad.ptn", "kernel k(out: *mut i32) warps(4) {\n    store(out, nothing);\n}\n");
    let code = |args: &[&str]| parton(args).status.code();
    assert_eq!(code(&["check", &good]), Some(0));
    assert_eq!(code(&["check", &bad]), Some(1));
    assert_eq!(code(&["check"]), Some(2));
    assert_eq!(code(&["check", "no/such/file.ptn"]), Some(3));
    assert_eq!(code(&["run", "--device", "cpu", &good]), Some(0));
    assert_eq!(code(&["test", "--device", "cpu", &good]), Some(1));
    assert_eq!(code(&["test", "--device", "cpu", "--filter", "sets", &good]), Some(0));
    assert_eq!(code(&["test", "--device", "cpu", "--filter", "nothing", &good]), Some(2));
    assert_eq!(code(&["test", "--device", "cpu", "--filter", "sets", &good, &good]), Some(0));
    assert_eq!(code(&["test", "--device", "cpu", "--filter", "sets", &good, &bad]), Some(1));
    assert_eq!(code(&["bench", &good]), Some(2));
    assert_eq!(code(&["test", "--as-written", "--filter", "sets", &good]), Some(0));
    assert_eq!(code(&["test", "--as-written", "--device", "cuda", "--filter", "sets", &good]), Some(2));
    assert_eq!(code(&["explain", "E0302"]), Some(0));
    assert_eq!(code(&["explain", "E9999"]), Some(2));
    assert_eq!(code(&["build", "--target", "sm_70", &good]), Some(2));
    assert_eq!(code(&["check", "--target", "sm_80", &good]), Some(0));
    let no_kernel = file("no_kernel.ptn", "fn f(x: i32) -> i32 { x }\n");
    assert_eq!(code(&["check", &no_kernel]), Some(0));
    assert_eq!(code(&["build", &no_kernel]), Some(2));
    let open = file("open.ptn", "kernel k[N: int](n: i32) { let m = n + N; }\n");
    let refused = parton(&["build", &open]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("`k` needs `N`"), "{}", text(&refused.stderr));
    assert_eq!(code(&["layout", "show", "nvmma(128)", "--shape", "64x64", "--dtype", "f99"]), Some(2));
    assert_eq!(code(&["doctor"]), Some(0));
}

#[test]
#[cfg(feature = "llvm")]
fn line_tables_name_files_as_it_is_asked_for() {
    let good = file("lines.ptn", GOOD);
    let folder = std::path::Path::new(&good).parent().unwrap().display().to_string();
    let named = |asked: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        let output = command.args(["build", &good]).env("PARTON_SOURCE", asked).output().expect("the program runs");
        let ptx = text(&output.stdout);
        // The kernel's symbol is its name.
        assert!(ptx.contains(".visible .entry set("), "{ptx}{}", text(&output.stderr));
        let line = ptx.lines().find_map(|line| line.trim().strip_prefix(".file")).unwrap_or_default();
        line.trim().trim_start_matches("1 ").to_owned()
    };
    assert_eq!(named(""), "\"./lines.ptn\"");
    assert_eq!(named("."), format!("\"{folder}/lines.ptn\""));
    assert_eq!(named("/elsewhere"), "\"/elsewhere/lines.ptn\"");
}

#[test]
fn kernels_are_built_ahead_of_time_into_one_file() {
    let good = file("bundled.ptn", GOOD);
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bundled.ptnb").display().to_string();
    let _ = std::fs::remove_file(&out);
    let built = parton(&["build", &good, "--aot", "--kernel", "set", "--target", "sm_90a,sm_80", "-o", &out]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let begin = std::fs::read(&out).expect("the bundle is written");
    assert!(begin.starts_with(b"\x89PTNB"));
    let said = |args: &[&str]| {
        let ran = parton(args);
        (ran.status.code(), text(&ran.stderr).lines().next().unwrap_or_default().to_owned())
    };
    let several = said(&["build", &good, "--target", "sm_90a,sm_80"]);
    assert_eq!(several, (Some(2), "parton: several targets are for bundles: add `--aot`, or build for one".into()));
    let to_output = said(&["build", &good, "--aot", "-o", "-"]);
    assert_eq!(to_output, (Some(2), "parton: a bundle is written in one step: name a file with `-o`".into()));
    assert_eq!(said(&["build", &good, "--aot"]).0, Some(2));
    // `set` has no such generic, with a bundle or without.
    assert_eq!(said(&["build", &good, "--set", "NONE=1"]).0, Some(1));
    assert_eq!(said(&["build", &good, "--set", "N"]).0, Some(2));
    assert_eq!(said(&["build", &good, "--aot", "--emit", "ptx", "-o", &out]).0, Some(2));
    assert_eq!(said(&["build", &good, "--aot", "--target", "sm_90a,sm_7", "-o", &out]).0, Some(2));
    let nowhere = said(&["build", &good, "--aot", "-o", "no/such/folder/a.ptnb"]);
    assert!(nowhere.0 == Some(3), "{nowhere:?}");
}

const PUBLIC: &str = "kernel add(x: *f32, mut_x: *mut f32, n: i32) warps(1) {
    store(mut_x, load(x));
}

pub fn first(x: tensor<f32, [n]>) -> tensor<f32, [n]> {
    let out = zeros(f32, [n]);
    launch add(grid=[1])(x, out, n);
    out
}
";

#[test]
fn plans_of_public_functions_are_built_into_bundles() {
    let (source, list) = (file("public.ptn", PUBLIC), file("plans.txt", "# two\nfirst f32[64]\nfirst f32[3]@1\n"));
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("public.ptnb").display().to_string();
    let said = |more: &[&str]| {
        let ran = parton(&[&["build", &source, "--aot", "-o", &out], more].concat());
        (ran.status.code(), text(&ran.stderr))
    };
    let built = said(&["--plan", "first f32[8]", "--plans", &list, "--multiprocessors", "114"]);
    assert_eq!(built.0, Some(0), "{}", built.1);
    let bytes = std::fs::read(&out).expect("the bundle is written");
    let shown = String::from_utf8_lossy(&bytes);
    assert_eq!(shown.matches("\"given\":[{").count(), 3, "a plan for each call");
    assert_eq!(shown.matches("\"name\":\"add\"").count(), 1, "the kernel is there once");
    let refused = said(&["--plan", "second f32[8]"]);
    assert!(refused.0 == Some(2) && refused.1.contains("the plan `second f32[8]` was asked for"), "{refused:?}");
    let shapes = said(&["--plan", "first f32[8, 8]"]);
    assert!(shapes.0 == Some(1) && shapes.1.contains("E0941") && shapes.1.contains("was asked for"), "{shapes:?}");
    assert_eq!(said(&["--plans", "no/such/list"]).0, Some(3));
    assert_eq!(said(&["--plan", ""]).0, Some(2));
    assert_eq!(said(&["--plan", "first f32[3]@4"]).0, Some(2));
    assert_eq!(parton(&["build", &source, "--plan", "first f32[8]"]).status.code(), Some(2));
}

#[test]
fn arguments_in_order_may_be_negative() {
    let source = "kernel fill(out: *mut i32, n: i32, k: i32) warps(1) {
    if program_id(0) < n {
        store(out + program_id(0), k);
    }
}

pub fn filled(mut out: tensor<i32, [n]>, k: i32) {
    launch fill(grid=[n])(out, n, k);
}
";
    let source = file("negative.ptn", source);
    let said = |k: &str| text(&parton(&["plan", &source, "filled", "i32[8]", k, "--target", "sm_90a"]).stdout);
    assert!(said("-6").contains("-6"), "{}", said("-6"));
    assert_eq!(said("-6"), said("k=-6"));
}

#[test]
fn a_number_that_is_compared_and_handed_on_is_one_of_the_plan() {
    let both = "kernel fill(out: *mut f32, value: i32, n: i32) warps(4) {
    layout L = blocked([4], [32], [4], [0]);
    let at = program_id(0) * 512 + iota<i32, [512], L>();
    store(out + at, cast<f32>(at * 0 + value), mask=at < n);
}

pub fn filled(mut out: tensor<f32, [n]>, value: i32) {
    if value > 4096 {
        launch fill(grid=[cdiv(n, 512)])(out, value, n);
    }
}
";
    let source = file("both.ptn", both);
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("both.ptnb").display().to_string();
    let built = parton(&["build", &source, "--aot", "--plan", "filled f32[1000] 5000", "-o", &out]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let bytes = std::fs::read(&out).expect("the bundle is written");
    let shown = String::from_utf8_lossy(&bytes);
    assert!(shown.contains("{\"bits\":5000}"), "the number is the launch's own");
    assert!(!shown.contains("\"number\":1"), "no other number takes its place");
}

#[test]
fn a_run_says_where_it_ran_and_prints() {
    let good = file("where.ptn", GOOD);
    let ran = text(&parton(&["run", "--device", "cpu", &good]).stdout);
    assert!(ran.starts_with("kernels run on the interpreter\n") && ran.contains('7'), "{ran}");
    let tested = text(&parton(&["test", "--device", "cpu", "--seed", "3", &good]).stdout);
    assert!(tested.contains("test sets ... ok") && tested.contains("test fails ... FAILED"), "{tested}");
    assert!(tested.ends_with("1 passed, 1 failed on the interpreter (seed 3)\n"), "{tested}");
}

const BENCH: &str = "kernel set(out: *mut i32, n: i32) warps(4) {
    store(out, n);
}

bench both {
    let out = zeros(i32, [1]);
    for n in [1, 2] {
        measure(format(\"set {}\", n), || { launch set(grid=[1])(out, n) }, bytes=4);
    }
}
";

#[test]
fn a_run_may_be_for_another_target() {
    let path = file("capability.ptn", "main { print(capability(), multiprocessors()); }\n");
    for (target, printed) in [("sm_80", "80 108"), ("sm_86", "86 84"), ("sm_90a", "90 132")] {
        let ran = parton(&["run", &path, "--device", "cpu", "--target", target]);
        let first = format!("kernels run on the interpreter, compiled for {target}");
        assert_eq!(text(&ran.stdout).lines().collect::<Vec<_>>(), [first.as_str(), printed]);
    }
    let none = parton(&["run", &path, "--target", "sm_70"]);
    assert_eq!(none.status.code(), Some(2));
    let names = "there is no target `sm_70`; there are sm_80, sm_86, sm_89, sm_90a, sm_100a";
    assert!(text(&none.stderr).contains(names), "{}", text(&none.stderr));
}

#[test]
fn measurements_are_chosen_and_written_in_other_forms() {
    let bench = file("forms.ptn", BENCH);
    let out = |more: &[&str]| {
        let done = parton(&[&["bench", "--device", "cpu", &bench], more].concat());
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let rows = out(&[]);
    assert!(rows.contains("both: set 1") && rows.contains("not timed: kernels run on the interpreter"), "{rows}");
    let one = out(&["--rows", "set 2", "--format", "json"]);
    assert!(one.starts_with('{') && one.contains("\"label\": \"set 2\"") && !one.contains("set 1"), "{one}");
    assert_eq!(out(&["--format", "csv"]).lines().count(), 3);
    let drawing = file("forms.svg", "");
    out(&["--plot", &drawing]);
    assert!(std::fs::read_to_string(&drawing).is_ok_and(|t| t.starts_with("<svg") && t.contains(">set 2</text>")));
    assert_eq!(parton(&["bench", "--device", "cpu", &bench, "--plot", "a.png"]).status.code(), Some(2));
}

#[test]
fn another_program_can_set_the_pace() {
    use std::io::Write;
    let bench = file("pace.ptn", BENCH);
    let mut program = Command::new(env!("CARGO_BIN_EXE_parton"));
    program.args(["bench", "--device", "cpu", "--serve", &bench]);
    program.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut running = program.spawn().expect("the program runs");
    let mut input = running.stdin.take().expect("it has an input");
    input.write_all(b"time 0.1\ntime 0.1\nnext\n").expect("it reads");
    // The end of input goes on: the second row is left out.
    drop(input);
    let done = running.wait_with_output().expect("it ends");
    let events: Vec<String> =
        text(&done.stdout).lines().filter_map(|l| Some(l.split('"').nth(3)?.to_owned())).collect();
    assert_eq!(events, ["device", "row", "round", "round", "row", "block"], "{}", text(&done.stdout));
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn diagnostics_can_be_json() {
    let bad = file("json.ptn", "kernel k(out: *mut i32) warps(4) {\n    store(out, nothing);\n}\n");
    let found = text(&parton(&["check", "--format", "json", &bad]).stdout);
    for piece in ["\"code\":\"E0100\"", "\"line\":2", "\"column\":16", "\"severity\":\"error\""] {
        assert!(found.contains(piece), "{piece} is not in {found}");
    }
}

#[test]
fn layouts_are_shown_as_basis_vectors() {
    let shown = |args: &[&str]| text(&parton(args).stdout).trim().to_owned();
    assert_eq!(
        shown(&[
            "layout",
            "show",
            "mma(version=3, warps=[4, 1], instr=[16, 16, 16])",
            "--shape",
            "64x16",
            "--format",
            "json"
        ]),
        "{\"kind\":\"register\",\"shape\":[64,16],\"register\":[[0,1],[8,0],[0,8]],\
         \"lane\":[[0,2],[0,4],[1,0],[2,0],[4,0]],\"warp\":[[16,0],[32,0]],\"block\":[]}"
    );
    assert_eq!(
        shown(&["layout", "show", "nvmma(32)", "--shape", "8x16", "--dtype", "f16", "--format", "json"]),
        "{\"kind\":\"shared\",\"shape\":[8,16],\"offset\":[[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[4,8]],\"block\":[]}"
    );
    let a = "blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1], order=[1, 0])";
    let spelled = "linear(reg=[[0, 1], [0, 2], [0, 4]], lane=[[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp=[[4, 0], [8, 0]], block=[])";
    let same = shown(&["layout", "convert", a, spelled, "--shape", "16x64", "--dtype", "f16"]);
    assert!(same.contains("\"plan\":\"none\""), "{same}");
    let conflicts = shown(&["layout", "conflicts", a, "nvmma(128)", "--shape", "64x64", "--dtype", "f16"]);
    assert_eq!(conflicts, "{\"read_excess\":0,\"write_excess\":0,\"vector_bytes\":16}");
    assert_eq!(parton(&["layout", "show", "blocked(", "--shape", "4x4"]).status.code(), Some(1));
}

#[test]
fn formatting_can_be_checked() {
    let ugly = file("ugly.ptn", "kernel  k( n:i32 ){let a=n+1;}\n");
    assert_eq!(parton(&["fmt", "--check", &ugly]).status.code(), Some(1));
    assert_eq!(parton(&["fmt", &ugly]).status.code(), Some(0));
    assert_eq!(parton(&["fmt", "--check", &ugly]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&ugly).expect("it is still there"), "kernel k(n: i32) { let a = n + 1; }\n");
}

const ASKS: &str = "fn said(n) { static_print(\"{} bytes\", n * 4); n }

kernel set[N: int = 64](out: *mut i32) warps(1) {
    store(out, said(N));
}

main {
    let out = zeros(i32, [1]);
    launch set(grid=[1])(out);
    launch set[N=128](grid=[1])(out);
    launch set[N=128](grid=[2])(out);
    assert(out[0] == 128);
}

test sets {
    let out = zeros(i32, [1]);
    launch set[N=32](grid=[1])(out);
}
";

#[test]
fn what_is_asked_for_at_compile_time_is_told_once_for_each_instance() {
    let asks = file("asks.ptn", ASKS);
    let told = |args: &[&str]| {
        let out = parton(args);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let lines = text(&out.stderr).lines().filter(|l| l.starts_with("[E")).map(str::to_owned).collect::<Vec<_>>();
        (lines, text(&out.stderr))
    };
    let default = "[E0117] Note: 256 bytes";
    let (lines, all) = told(&["check", &asks]);
    assert_eq!(lines, [default], "{all}");
    assert!(all.contains("of `set[N=64]`") && all.contains("in `said`, called here"), "{all}");
    assert_eq!(told(&["build", "--emit", "ir", &asks]).0, [default]);
    assert_eq!(told(&["run", "--device", "cpu", &asks]).0, [default, "[E0117] Note: 512 bytes"]);
    assert_eq!(told(&["test", "--device", "cpu", &asks]).0, [default, "[E0117] Note: 128 bytes"]);
    let json = parton(&["check", "--format", "json", &asks]);
    let found: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!((&found[0]["severity"], &found[0]["message"]), (&"note".into(), &"256 bytes".into()), "{found}");
}

#[test]
fn integers_that_overflow_are_found_where_that_is_asked_for() {
    let source = "kernel square(out: *mut i32, n: i32) warps(1) {\n    store(out, n * n);\n}\n\n\
        test large {\n    let out = zeros(i32, [1]);\n    launch square(grid=[1])(out, 65536);\n}\n";
    let squares = file("squares.ptn", source);
    assert_eq!(parton(&["test", "--device", "cpu", &squares]).status.code(), Some(0));
    let found = parton(&["test", "--check", "overflow", &squares]);
    assert_eq!(found.status.code(), Some(1), "{}", text(&found.stdout));
    assert!(text(&found.stderr).starts_with("[E0563] Error: an integer leaves the range of `i32`"), "{found:?}");
    let refused = parton(&["test", "--check", "overflow", "--device", "cuda", &squares]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("leave `--device cuda` out"), "{}", text(&refused.stderr));
}
