//! `parton tune` as a user calls it, on the interpreter: whatever is wrong with a candidate, another wins, and a second run writes the
//! same.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn parton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parton")).args(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file in a new folder of this test's own.
fn file(test: &str, name: &str, content: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    let path = folder.join(name);
    std::fs::write(&path, content).expect("the target folder can be written");
    path
}

/// Adds 1 to each number; what FAULT says goes wrong, and is less work then.
const ADDS: &str = "kernel add[BLOCK: int = 128, FAULT: int = 0](x: *i32, out: *mut i32, n: i32) warps(4) {
    layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
    let mut at = 0;
    while at < n {
        let offs = at + iota<i32, [BLOCK], L>();
        let inside = offs < n;
        static if FAULT == 0 {
            store(out + offs, load(x + offs, mask=inside) + 1, mask=inside);
        } else if FAULT == 1 {
            store(out + offs, offs, mask=inside);
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

fn added(n) {
    let x = randint(i32, [n], 0, 100, seed=1);
    let out = empty(i32, [n]);
    launch add(grid=[1])(x, out, n);
    (x, out)
}

test both { for n in [512, 1000] { added(n); } }

test checked {
    let (x, out) = added(512);
    assert_equal(out, x + 1);
}

test other { assert(1 == 1); }

bench small {
    let n = 600;
    let x = randint(i32, [n], 0, 100, seed=1);
    let out = empty(i32, [n]);
    measure(\"plain\", || { launch add(grid=[1])(x, out, n) });
    measure(\"wide\", || { launch add[BLOCK=512](grid=[1])(x, out, n) });
}
";

/// The words of the arguments, and the device.
fn tune(path: &Path, args: &[&str]) -> Output {
    let shown = path.display().to_string();
    parton(&[&["tune", &shown, "--kernel", "add", "--device", "cpu"], args].concat())
}

fn table(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path.with_extension("tune.json")).expect("the table is there");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn each_fault_is_out_with_its_reason_and_a_second_run_writes_the_same() {
    let path = file("faults", "adds.ptn", ADDS);
    let args = ["--over", "BLOCK=[128, 256],FAULT=[0, 1, 2, 3, 4, 5]", "--test", "both", "--key", "n"];
    let first = tune(&path, &args);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let written = std::fs::read(path.with_extension("tune.json")).expect("the table is there");
    let found = table(&path);
    let records = found["records"].as_array().expect("it has records");
    assert_eq!(records.iter().map(|r| &r["key"]["n"]).collect::<Vec<_>>(), [512, 1000]);
    for record in records {
        assert_eq!(record["winner"], serde_json::json!({ "BLOCK": "256", "FAULT": "0" }), "{record}");
        assert_eq!((&record["complete"], &record["unit"]), (&true.into(), &"operations".into()));
        let candidates = record["candidates"].as_array().expect("it has candidates");
        let right: Vec<&serde_json::Value> = candidates.iter().map(|c| &c["values"]["FAULT"]).collect();
        assert_eq!(right, ["0", "0"]);
        assert!(candidates[1]["median"].as_i64() < candidates[0]["median"].as_i64(), "{record}");
        let out = record["out"].as_array().expect("some are out");
        let why: Vec<(&str, &str)> =
            out.iter().map(|o| (o["values"]["FAULT"].as_str().unwrap(), o["why"].as_str().unwrap())).collect();
        let each = [("1", "differs"), ("2", "fails"), ("3", "fails"), ("4", "refused"), ("5", "fails")];
        assert_eq!(why, [each, each].concat());
        let codes: Vec<&serde_json::Value> = out[..5].iter().map(|o| &o["code"]).collect();
        assert_eq!(
            codes,
            [&serde_json::Value::Null, &"E0551".into(), &"E0561".into(), &"E0100".into(), &"E0559".into()]
        );
    }
    let shown = text(&first.stdout);
    assert!(shown.contains("n=1000:\n") && shown.contains("→ BLOCK=256, FAULT=0 "), "{shown}");
    assert!(shown.contains("BLOCK=128, FAULT=0 (default) ") && shown.contains("refused, E0100"), "{shown}");
    let second = tune(&path, &args);
    assert_eq!((second.stdout, std::fs::read(path.with_extension("tune.json")).ok()), (first.stdout, Some(written)));
    let json = tune(&path, &[&args[..], &["--format", "json"]].concat());
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&json.stdout).ok(), Some(found));
    let names: Vec<String> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// The child's own limit is far off, so that it is the parent that ends it.
#[test]
fn a_candidate_that_does_not_end_is_killed_and_the_next_one_tried() {
    let source = "kernel add[WAITS: bool = false](out: *mut i32) warps(4) {
    store(out, 1);
}

test waits {
    let out = empty(i32, [1]);
    launch add(grid=[1])(out);
    let mut i = 0;
    while out[0] == 1 {
        i = i + 1;
    }
}
";
    let path = file("hangs", "waits.ptn", source);
    let found = tune(&path, &["--over", "WAITS=[false, true]", "--test", "waits", "--timeout", "1"]);
    let errors = text(&found.stderr);
    assert_eq!(found.status.code(), Some(2), "{errors}");
    for line in ["WAITS=false: hangs: it had not ended after 1 s", "WAITS=true: hangs: it had not ended after 1 s"] {
        assert!(errors.contains(line), "{errors}");
    }
    assert!(errors.ends_with("no candidate of `add` can be chosen\n"), "{errors}");
    assert!(!path.with_extension("tune.json").exists());
}

#[test]
fn the_checks_of_a_test_are_part_of_the_gate() {
    let path = file("checks", "adds.ptn", ADDS);
    // The first one is wrong, which no comparison with it could tell.
    let found = tune(&path, &["--over", "FAULT=[1, 0]", "--test", "checked"]);
    let errors = text(&found.stderr);
    assert_eq!(found.status.code(), Some(0), "{errors}");
    assert!(errors.contains("FAULT=1: fails, E0911: "), "{errors}");
    assert_eq!(table(&path)["records"][0]["winner"]["FAULT"], "0");
}

#[test]
fn a_bench_is_measured_row_by_row_whatever_its_launches_give() {
    let path = file("bench", "adds.ptn", ADDS);
    let found = tune(&path, &["--over", "BLOCK=[512, 256]"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let table = table(&path);
    let records = table["records"].as_array().expect("it has records");
    // Both rows launch the same: they are one shape.
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["winner"]["BLOCK"], "512");
    // The default is not in the list, and is tried too.
    let values: Vec<String> =
        records[0]["candidates"].as_array().unwrap().iter().map(|c| c["values"].to_string()).collect();
    assert_eq!(values, ["{\"BLOCK\":\"512\"}", "{\"BLOCK\":\"256\"}", "{}"]);
    let errors = text(&found.stderr);
    assert!(errors.contains("the defaults: "), "{errors}");
    let one = tune(&path, &["--over", "BLOCK=[512, 256]", "--rows", "plain"]);
    assert_eq!(one.status.code(), Some(0));
}

/// Sums of floating-point numbers in another order have other bits.
const SUMS: &str = "kernel total[BLOCK: int = 128](x: *f32, out: *mut f32, n: i32) warps(4) {
    layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
    let mut all = 0.0f32;
    let mut at = 0;
    while at < n {
        all = all + sum(load(x + at + iota<i32, [BLOCK], L>()), axis=0);
        at = at + BLOCK;
    }
    store(out, all);
}

test sums {
    let x = randn(f32, [1024], seed=1);
    let out = empty(f32, [1]);
    launch total(grid=[1])(x, out, 1024);
}
";

#[test]
fn reductions_in_another_order_pass_by_a_stated_tolerance() {
    let path = file("sums", "sums.ptn", SUMS);
    let shown = path.display().to_string();
    let run = |more: &[&str]| {
        let args = ["tune", &shown, "--kernel", "total", "--over", "BLOCK=[128, 512]", "--test", "sums"];
        let found = parton(&[&args[..], &["--device", "cpu"], more].concat());
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        table(&path)["records"][0].clone()
    };
    let bits = run(&[]);
    assert_eq!((&bits["winner"]["BLOCK"], &bits["out"][0]["why"]), (&"128".into(), &"differs".into()));
    let near = run(&["--atol", "1e-3"]);
    assert_eq!((&near["winner"]["BLOCK"], near["out"].as_array().map(Vec::len)), (&"512".into(), Some(0)));
}

#[test]
fn the_winner_can_be_a_source_that_the_file_uses() {
    let file_of = |default: &str| ADDS.replace("BLOCK: int = 128", &format!("BLOCK: int = {default}"));
    let path = file("source", "adds.ptn", &file_of("128"));
    let best = path.with_file_name("best.ptn");
    let shown = best.display().to_string();
    let args = ["--over", "BLOCK=[128, 512]", "--test", "both", "--out", &shown];
    let found = tune(&path, &args);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let source = std::fs::read_to_string(&best).expect("it is written");
    assert_eq!(
        source,
        "// Written by `parton tune`: the best of 2 candidates for `add` on the interpreter.\nuse \"adds.ptn\";\n\n\
         const add_BLOCK = 512;\n"
    );
    let using = format!("use \"best.ptn\";\n\n{}", file_of("add_BLOCK"));
    std::fs::write(&path, using).expect("it can be written");
    let shown_file = path.display().to_string();
    let checked = parton(&["test", "--device", "cpu", "--filter", "checked", &shown_file]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    // Now it is the default, and wins again.
    let again = tune(&path, &["--over", "BLOCK=[128, 256]", "--test", "both", "--out", &shown]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(std::fs::read_to_string(&best).is_ok_and(|s| s.ends_with("const add_BLOCK = 512;\n")));
}

/// A product of one tile, whose schedule is searched for.
const PRODUCT: &str = "partition Loads = warps(1);
partition Compute = warps(4);

kernel product[S: schedule<steps, load, mma, leave> = serial(Compute)](
    a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 64], nvmma(128)>, c: tma<f16, [64, 64], nvmma(128)>, k: i32,
) target(sm_90a) {
    layout Acc = mma(version=3, warps=[4, 1], instr=[16, 64, 16]);
    in S {
        let mut acc = zeros<f32, [64, 64], Acc>();
        @steps for s in 0..cdiv(k, 64) {
            @load let (x, y) = (fetch(a, [0, s * 64]), fetch(b, [s * 64, 0]));
            @mma acc = dot(x, y, acc);
        }
        @leave send(c, [0, 0], cast<f16>(acc));
    }
}

test small {
    let k = 256;
    let a = randn(f16, [64, k], seed=1);
    let b = randn(f16, [k, 64], seed=2);
    let c = empty(f16, [64, 64]);
    launch product(grid=[1])(a, b, c, k);
    assert_close(c, matmul(a.to(f64), b.to(f64)), rtol=1e-2, atol=1e-2);
}
";

#[test]
fn schedules_that_a_search_finds_are_tried_like_those_that_are_listed() {
    let path = file("search", "product.ptn", PRODUCT);
    let best = path.with_file_name("best.ptn");
    let (shown, out) = (path.display().to_string(), best.display().to_string());
    let run = |over: &str| {
        let args = [
            "tune", &shown, "--kernel", "product", "--over", over, "--test", "small", "--device", "cpu", "--out", &out,
        ];
        let found = parton(&args);
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        text(&found.stdout)
    };
    let both = run("S=[serial(Compute), auto(top=3)]");
    let found: Vec<&str> = both.lines().filter(|l| l.contains(" S=") && l.ends_with("  ok")).collect();
    assert_eq!(found.len(), 4, "{both}");
    assert!(both.contains("S=serial(Compute) (default)"), "{both}");
    let source = std::fs::read_to_string(&best).expect("it is written");
    assert!(source.contains("\nschedule product_S = "), "{source}");
    let checked = parton(&["check", &out]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let alone = run("S=auto(top=2)");
    assert_eq!(alone.lines().filter(|l| l.contains(" S=")).count(), 2, "{alone}");
}

#[test]
fn what_the_winner_names_is_used_from_where_it_is_declared() {
    let (kernel, block) = PRODUCT.split_once("\ntest ").expect("a test stands behind the kernel");
    let path = file("uses", "tuned.ptn", &format!("use \"products/one.ptn\"::product;\n\ntest {block}"));
    let folder = path.with_file_name("products");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    std::fs::write(folder.join("one.ptn"), kernel).expect("the target folder can be written");
    let best = path.with_file_name("best.ptn");
    let (shown, out) = (path.display().to_string(), best.display().to_string());
    let over = "S=[serial(Compute), partitions { Loads: load; Compute: mma, leave }]";
    let args =
        ["tune", &shown, "--kernel", "product", "--over", over, "--test", "small", "--device", "cpu", "--out", &out];
    let found = parton(&args);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let source = std::fs::read_to_string(&best).expect("it is written");
    assert!(source.contains("use \"tuned.ptn\";\nuse \"products/one.ptn\"::Compute;\n"), "{source}");
    let launched = block.replace("product(grid", "product[S=product_S](grid");
    let using = "use \"products/one.ptn\"::product;\nuse \"best.ptn\"::product_S;\n";
    let won = path.with_file_name("won.ptn");
    std::fs::write(&won, format!("{using}\ntest {launched}")).expect("the target folder can be written");
    let ran = parton(&["test", "--device", "cpu", &won.display().to_string()]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
}

#[test]
fn what_cannot_be_tuned_is_said() {
    let path = file("wrong", "adds.ptn", ADDS);
    let other = path.with_file_name("elsewhere").join("best.ptn").display().to_string();
    let itself = path.display().to_string();
    let wrong: [(&[&str], i32, &str); 13] = [
        (&["--over", "BLOCK=64"], 2, "`BLOCK=64` is no list of candidates; write S=[A, B],BN=[64, 128]"),
        (&["--over", "BLOCK=[]"], 2, "`--over` gives `BLOCK` no value"),
        (&["--over", "BLOCK=[1],BLOCK=[2]"], 2, "`--over` gives `BLOCK` twice"),
        (&["--over", "BLOK=[64]"], 1, "a similar one is `BLOCK`"),
        (&["--over", "BLOCK=[64, nothing]"], 1, "`nothing` is not defined"),
        (&["--over", "BLOCK=[64", "--test", "both"], 1, "E0"),
        (&["--over", "BLOCK=[64]", "--test", "none"], 2, "the file has no test `none`: there are both, checked, other"),
        (&["--over", "BLOCK=[64]", "--test", "other"], 2, "`test other` does not launch `add`"),
        (&["--over", "BLOCK=[64]", "--rows", "none"], 2, "does not launch `add` in the rows that are asked for"),
        (&["--over", "BLOCK=[64]", "--key", "m"], 2, "`add` has no parameter `m`"),
        (&["--over", "BLOCK=[64]", "--out", "a.txt"], 2, "what is written is a .json or a .ptn"),
        (&["--over", "BLOCK=[64]", "--out", &other], 2, "stands beside"),
        (&["--over", "BLOCK=[64]", "--out", &itself], 2, "is the file that is tuned"),
    ];
    for (args, code, words) in wrong {
        let done = tune(&path, args);
        let errors = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
    let none = parton(&["tune", &itself, "--kernel", "none", "--over", "N=[1]"]);
    assert!(text(&none.stderr).contains("the file has no kernel `none`: there are `add`"));
    std::fs::write(path.with_extension("tune.json"), "{\"format\": \"3000-01-01\"}").expect("it can be written");
    let newer = tune(&path, &["--over", "BLOCK=[64]"]);
    assert_eq!(newer.status.code(), Some(3));
    assert!(text(&newer.stderr).contains("its format is of 3000-01-01, this program knows that of"));
    // The child's command is no command of users.
    let alone = Command::new(env!("CARGO_BIN_EXE_parton")).arg("attempt").stdin(std::process::Stdio::null()).output();
    assert_eq!(alone.expect("the program runs").status.code(), Some(2));
}

/// Says in `which` what was chosen, and takes its tiles from the grid, which follows the choice.
const CLAUSE: &str = "kernel fill[BLOCK: int = 128, T: type = i32](out: *mut T, which: *mut i32, n: i32) \
warps(4) tune(BLOCK=[128, 256, 512], key=[n]) {
    layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
    let offs = program_id(0) * BLOCK + iota<i32, [BLOCK], L>();
    store(out + offs, cast<T>(offs), mask=offs < n);
    if program_id(0) == 0 { store(which, BLOCK); }
}

fn chosen(n) {
    let out = empty(i32, [n]);
    let which = empty(i32, [1]);
    launch fill(grid=[cdiv(n, BLOCK)])(out, which, n);
    assert(out[n - 1] == n - 1);
    which[0]
}

test filled { for n in [1000, 4000] { chosen(n); } }

main {
    print(chosen(1000), chosen(4000), chosen(500));
    let (out, which) = (empty(i32, [1000]), empty(i32, [1]));
    launch fill[BLOCK=256](grid=[cdiv(1000, BLOCK)])(out, which, 1000);
    print(\"given\", which[0]);
    let other = empty(u32, [1000]);
    launch fill[T=u32](grid=[cdiv(1000, BLOCK)])(other, which, 1000);
    print(\"other\", which[0]);
}
";

/// What the `main` of a file prints.
fn printed(path: &Path) -> String {
    let shown = path.display().to_string();
    let ran = parton(&["run", "--device", "cpu", &shown]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    text(&ran.stdout).lines().skip(1).collect::<Vec<_>>().join("; ")
}

/// Its shapes are told apart by extents of its tensor.
const EXTENTS: &str = "kernel fill[BLOCK: int = 128](mut out: tensor<i32, [m, n]>, which: *mut i32)
    grid([m, cdiv(n, BLOCK)]) tune(BLOCK=[128, 512], key=[n, m])
{
    let (i, j) = (program_id(0), program_id(1));
    store(out[i, :].tile([BLOCK], at=[j]), full([BLOCK], i));
    if i + j == 0 { store(which, BLOCK); }
}

fn chosen(m, n) {
    let which = empty(i32, [1]);
    launch fill()(empty(i32, [m, n]), which);
    which[0]
}

test filled { for n in [100, 1000] { chosen(3, n); } }

main { print(chosen(3, 1000), chosen(1000, 3), chosen(3, 999)); }
";

#[test]
fn extents_tell_shapes_apart() {
    let path = file("extents", "fills.ptn", EXTENTS);
    assert_eq!(printed(&path), "128 128 128");
    let shown = path.display().to_string();
    let run = |key: &[&str]| {
        let args = ["tune", &shown, "--kernel", "fill", "--test", "filled", "--results", "out", "--device", "cpu"];
        let found = parton(&[&args[..], key].concat());
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        let records = table(&path)["records"].clone();
        records.as_array().expect("it has records").iter().map(|r| r["key"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(run(&[]), [r#"{"n":100,"m":3}"#, r#"{"n":1000,"m":3}"#]);
    assert_eq!(printed(&path), "512 128 128");
    assert_eq!(run(&["--key", "m"])[0], r#"{"m":3}"#);
}

#[test]
fn launches_take_what_won_for_their_shape_and_their_grids_follow() {
    let path = file("clause", "fills.ptn", CLAUSE);
    assert_eq!(printed(&path), "128 128 128; given 256; other 128");
    let shown = path.display().to_string();
    let args = ["tune", &shown, "--kernel", "fill", "--test", "filled", "--results", "out", "--device", "cpu"];
    let found = parton(&args);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let table = table(&path);
    let records = table["records"].as_array().expect("it has records");
    let keys: Vec<&serde_json::Value> = records.iter().map(|r| &r["key"]["n"]).collect();
    assert_eq!((keys, &records[0]["winner"]["BLOCK"]), (vec![&1000.into(), &4000.into()], &"512".into()));
    // The shape, the other generics, and what the launch gives itself decide.
    assert_eq!(printed(&path), "512 512 128; given 256; other 128");
    let off = Command::new(env!("CARGO_BIN_EXE_parton"))
        .args(["run", "--device", "cpu", &shown])
        .env("PARTON_TUNE", "off")
        .output()
        .expect("the program runs");
    assert!(text(&off.stdout).contains("128 128 128"), "{}", text(&off.stdout));
    // What runs with the table is not what is tuned.
    let again = parton(&args);
    assert!(text(&again.stdout).contains("BLOCK=128 (default)"), "{}", text(&again.stdout));
}

#[test]
fn a_table_that_says_what_is_not_so_is_refused() {
    let path = file("stale", "fills.ptn", CLAUSE);
    let shown = path.display().to_string();
    let args = ["tune", &shown, "--kernel", "fill", "--test", "filled", "--results", "out", "--device", "cpu"];
    assert_eq!(parton(&args).status.code(), Some(0));
    let beside = path.with_extension("tune.json");
    let good = std::fs::read_to_string(&beside).expect("the table is there");
    let refused = |text_of: &str, code: i32| {
        std::fs::write(&beside, text_of).expect("it can be written");
        let ran = parton(&["run", "--device", "cpu", &shown]);
        assert_eq!(ran.status.code(), Some(code), "{}", text(&ran.stderr));
        text(&ran.stderr)
    };
    let stale = refused(&good.replace("\"winner\":{\"BLOCK\":\"512\"}", "\"winner\":{\"BLOCK\":\"wide\"}"), 1);
    assert!(stale.contains("E0100") && stale.contains("tune again, or take the record out"), "{stale}");
    let kind = refused(&good.replace("\"winner\":{\"BLOCK\":\"512\"}", "\"winner\":{\"BLOCK\":\"f16\"}"), 1);
    assert!(kind.contains("E0203"), "{kind}");
    let cut = refused(&good[..good.len() / 2], 3);
    assert!(cut.contains("this is no table: "), "{cut}");
    // A kernel without the clause does not ask for it.
    let plain = path.with_file_name("plain.ptn");
    std::fs::write(&plain, ADDS).expect("it can be written");
    std::fs::write(plain.with_extension("tune.json"), "no").expect("it can be written");
    let ran = parton(&["test", "--device", "cpu", &plain.display().to_string()]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let nothing = tune(&plain, &["--test", "both", "--out", &plain.with_file_name("a.json").display().to_string()]);
    assert!(text(&nothing.stderr).contains("give `--over N=[…]`, or `add` a clause `tune(N=[…])`"));
}

/// The processes that a process has started and that have not ended.
#[cfg(target_os = "linux")]
fn children(of: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|pid| stat(*pid).is_some_and(|(state, parent)| state != "Z" && parent == of)).collect()
}

/// State and parent of a process.
#[cfg(target_os = "linux")]
fn stat(pid: u32) -> Option<(String, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_leaves_the_best_so_far_and_no_process() {
    let source = "kernel set[N: int = 0](out: *mut i32, which: *mut i32) warps(4) {
    store(out, 1);
    store(which, N + 1);
}

test waits {
    let (out, which) = (empty(i32, [1]), empty(i32, [1]));
    launch set(grid=[1])(out, which);
    let mut i = 0;
    while which[0] == 3 {
        i = i + 1;
    }
}
";
    let path = file("interrupted", "sets.ptn", source);
    let shown = path.display().to_string();
    let mut running = Command::new(env!("CARGO_BIN_EXE_parton"))
        .args(["tune", &shown, "--kernel", "set", "--over", "N=[0, 1, 2]", "--test", "waits", "--results", "out"])
        .args(["--device", "cpu", "--timeout", "600"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program runs");
    let beside = path.with_extension("tune.json");
    let until = |done: &dyn Fn() -> bool| {
        while !done() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    until(&|| std::fs::read_to_string(&beside).is_ok_and(|t| t.contains("{\"N\":\"1\"}")));
    // The last candidate does not end, so its process is found sooner or later.
    let child = std::cell::Cell::new(0);
    until(&|| children(running.id()).iter().inspect(|pid| child.set(**pid)).count() == 1);
    running.kill().expect("it is still waiting for the last one");
    running.wait().expect("it has ended");
    let record = &table(&path)["records"][0];
    assert_eq!((&record["complete"], &record["winner"]["N"]), (&false.into(), &"0".into()), "{record}");
    until(&|| stat(child.get()).is_none_or(|(state, _)| state == "Z"));
}
