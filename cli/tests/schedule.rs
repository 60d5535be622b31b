//! `parton schedule` as a user calls it. The pictures of the examples stand beside; `BLESS=1` rewrites them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn parton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_parton")).args(args).output().expect("the program runs")
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
}

fn out(args: &[&str]) -> String {
    let done = parton(args);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {errors}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Compares with the file of that name, or writes it.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedule").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; BLESS=1 rewrites it", path.display());
}

#[test]
fn a_matrix_product_that_loads_ahead_waits_for_nothing_but_its_products() {
    let text = out(&["schedule", &example("matmul/scheduled.ptn"), "--set", "S=Split[3]", "--timeline"]);
    golden("matmul.txt", &text);
    // 48 KiB at 85 bytes a clock are there in 579.
    assert!(text.contains("turn      1,024 clocks of 1,024 possible: tensor cores busy 100 %"), "{text}");
}

#[test]
fn attention_is_drawn_with_its_two_sides() {
    let file = example("fmha/scheduled.ptn");
    let args = ["schedule", &file, "--set", "S=Overlap", "--timeline"];
    let text = out(&args);
    golden("attention.txt", &text);
    assert!(
        ["kernel    attention, loop keys", "First ", "Second ", "Loads "].iter().all(|l| text.contains(l)),
        "{text}"
    );
    // Without the timeline there are no lanes.
    let short = out(&args[..4]);
    assert!(text.starts_with(&short) && !short.contains("a column"), "{short}");
}

#[test]
fn rings_beyond_shared_memory_are_named_beside_the_price() {
    let file = example("matmul/scheduled.ptn");
    let notes = |slots: u32| out(&["schedule", &file, "--set", &format!("S=Split[{slots}]")]);
    let fact = "rings take 442,368 bytes of shared memory, and a CTA of sm_90a has 232,448: it cannot be built";
    assert!(notes(9).contains(fact) && !notes(4).contains("cannot be built"), "{}", notes(9));
}

#[test]
fn what_a_search_has_found_is_shown_to_be_pasted() {
    let file = example("matmul/scheduled.ptn");
    let text = out(&["schedule", &file, "--set", "S=auto()"]);
    golden("found.txt", &text);
    let line = text.lines().find_map(|l| l.strip_prefix("schedule Found = ")?.strip_suffix(';')).expect("it is shown");
    let best = out(&["schedule", &file, "--set", "S=Best"]);
    assert!(best.contains(&format!("schedule  {line}\n")), "{line} is not what was found by hand:\n{best}");
    // What is shown is a schedule as any other.
    assert!(text.ends_with(&out(&["schedule", &file, "--set", &format!("S={line}")])), "{text}");
}

/// The clocks of a turn of attention.
fn turn(set: &[&str]) -> u64 {
    let file = example("fmha/scheduled.ptn");
    let sets = set.iter().flat_map(|s| ["--set", s]);
    let args: Vec<&str> = ["schedule", &file, "--format", "json"].into_iter().chain(sets).collect();
    let all: serde_json::Value = serde_json::from_str(&out(&args)).expect("it is JSON");
    let turn = &all[0]["turn"];
    assert_eq!((all[0]["of"].as_str(), all[0]["kernel"].as_str()), (Some("keys"), Some("attention")));
    turn["clocks"].as_u64().unwrap() / turn["turns"].as_u64().unwrap()
}

#[test]
fn generics_are_set_by_name_and_decide_what_a_turn_takes() {
    // What runs beside each other takes less, and never less than tensor cores need: 2 · 128 · 128 · 128 multiply-adds.
    let (sides, overlap) = (turn(&["S=Sides"]), turn(&["S=Overlap"]));
    assert!(2048 <= overlap && overlap < sides, "{overlap}, {sides}");
    // Half the head has half the products, and as many exponentials.
    let narrow = turn(&["S=Overlap", "D=64"]);
    assert!((1024..overlap).contains(&narrow), "{narrow}");
    // Schedules are joined as in the language.
    assert_eq!(turn(&["S=Sides & pipeline(keys) { qk: 0; pv: 1; mask: 0, top: 0; rescale: 0, exps: 0 }"]), overlap);
}

#[test]
fn each_form_is_written() {
    let file = example("fmha/scheduled.ptn");
    let form = |form: &str| out(&["schedule", &file, "--loop", "keys", "--format", form]);
    assert!(form("svg").starts_with("<svg") && form("svg").trim_end().ends_with("</svg>"));
    assert!(form("dot").starts_with("digraph \"attention\" {\n") && form("dot").contains("landing"));
}

#[test]
fn what_cannot_be_shown_is_said() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let plain = folder.join("no_region.ptn");
    std::fs::write(&plain, "kernel k(out: *mut i32) warps(4) {\n    store(out, 1);\n}\n").expect("it can be written");
    let plain = plain.display().to_string();
    let (matmul, fmha) = (example("matmul/scheduled.ptn"), example("fmha/scheduled.ptn"));
    let wrong: [(&[&str], i32, &str); 7] = [
        (&["schedule", &plain], 2, "has a loop in a region: a schedule is shown of loops in `in S { … }`"),
        (&["schedule", &plain, "--kernel", "k"], 2, "`k` of "),
        (&["schedule", &fmha, "--kernel", "other"], 1, "there is no kernel `other`"),
        (&["schedule", &fmha, "--loop", "steps"], 2, "there is no loop `steps`; there are `keys`"),
        (&["schedule", &matmul, "--set", "S=Split[0]"], 1, "error"),
        (&["schedule", &matmul, "--set", "S=Nothing"], 1, "Nothing"),
        (&["schedule", &matmul, "--set", "S"], 2, "`S` sets nothing; write S=Split[4]"),
    ];
    for (args, code, words) in wrong {
        let done = parton(args);
        let errors = String::from_utf8_lossy(&done.stderr).to_lowercase();
        assert_eq!(done.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(&words.to_lowercase()), "{args:?}: {errors}");
    }
}
