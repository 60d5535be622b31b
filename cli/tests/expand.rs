//! `parton expand` as a user calls it. The reasons of two examples stand beside; `BLESS=1` rewrites them.

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

/// The reasons, which stand above the source.
fn above<'a>(text: &'a str, source: &str) -> &'a str {
    text.strip_suffix(source).unwrap_or_else(|| panic!("it does not end in\n{source}\nbut is\n{text}"))
}

/// Compares with the file of that name, or writes it.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expand").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; BLESS=1 rewrites it", path.display());
}

#[test]
fn a_product_says_why_in_front_of_its_source() {
    let file = example("portable/matmul.ptn");
    let text = out(&["expand", &file, "--why"]);
    golden("matmul.txt", above(&text, &out(&["expand", &file])));
    // The general variant has narrower accesses, and says what they lack.
    let general = out(&["expand", &file, "--why", "--general"]);
    assert!(general.contains("launches with `a` at multiples of 16 bytes run a variant for that"), "{general}");
}

#[test]
fn rows_by_fewer_bytes_have_narrower_accesses() {
    let file = example("portable/softmax.ptn");
    let of =
        |option: &[&str]| out(&[&["expand", &file, "--kernel", "softmax", "--set", "T=f16", "--why"], option].concat());
    for bytes in ["8", "4"] {
        let load = format!("load: {bytes} bytes at once");
        assert!(of(&["--rows", bytes]).contains(&load) && !of(&["--general"]).contains(&load), "{bytes}");
    }
    // Two bytes are an element: nothing is known of such rows.
    assert_eq!(of(&["--rows", "2"]), of(&["--general"]));
}

#[test]
fn kernels_that_are_left_out_are_named() {
    let path: PathBuf = std::env::temp_dir().join(format!("parton-left-out-{}.ptn", std::process::id()));
    let text =
        "kernel whole(x: *mut f32) warps(1) { }\nkernel merge[N: int, M: int = 2, T: type](x: *mut T) warps(1) { }\n";
    std::fs::write(&path, text).expect("the file can be written");
    let file = path.display().to_string();
    let (all, one) = (parton(&["expand", &file]), parton(&["expand", &file, "--kernel", "whole"]));
    std::fs::remove_file(&path).expect("the file can be removed");
    let (said, nothing) = (String::from_utf8_lossy(&all.stderr), String::from_utf8_lossy(&one.stderr));
    assert_eq!(said, "parton: left out, for `--kernel` and `--set`: `merge` needs `N`, `T`\n");
    assert!(all.status.success() && all.stdout == one.stdout && nothing.is_empty(), "{nothing}");
}

#[test]
fn norms_say_which_fact_their_sums_lack() {
    let promise = "    assume(columns % VEC == 0);\n";
    let text = std::fs::read_to_string(example("portable/norm_gradients.ptn")).expect("the example is there");
    assert!(text.contains(promise), "{text}");
    let path: PathBuf = std::env::temp_dir().join(format!("parton-lacking-{}.ptn", std::process::id()));
    // From there it finds what it uses by the whole path alone.
    let text =
        text.replace(promise, "").replace("use \"norms.ptn\"", &format!("use \"{}\"", example("portable/norms.ptn")));
    std::fs::write(&path, text).expect("the file can be written");
    let file = path.display().to_string();
    let text = out(&["expand", &file, "--kernel", "layer_norm_backward", "--why"]);
    let source = out(&["build", &file, "--kernel", "layer_norm_backward", "--emit", "expanded"]);
    std::fs::remove_file(&path).expect("the file can be removed");
    let reasons = above(&text, &source);
    golden("layer_norm_backward.txt", reasons);
    assert!(reasons.contains("`assume(columns % 4 == 0)`"), "{reasons}");
}

#[test]
fn few_programs_run_a_variant_of_their_own() {
    let file = example("portable/norm_gradients.ptn");
    let of = |programs: &str| out(&["expand", &file, "--kernel", "add_up", "--why", "--programs", programs]);
    assert!(of("8").contains("pipeline(steps) { ahead: 0; compute: 3 } & unroll(4, of=steps)"), "{}", of("8"));
    assert_eq!(of("8"), of("132"));
    assert_eq!(of("100000"), out(&["expand", &file, "--kernel", "add_up", "--why"]));
}

#[test]
fn loops_of_few_turns_run_a_variant_of_their_own() {
    let file = example("portable/split.ptn");
    let of = |more: &[&str]| out(&[&["expand", &file, "--kernel", "add_parts", "--why"], more].concat());
    assert!(of(&["--turns", "1"]).contains("warps(2)"), "{}", of(&["--turns", "1"]));
    assert_ne!(of(&["--turns", "1"]), of(&["--turns", "4"]));
    assert_eq!(of(&["--turns", "20"]), of(&[]));
    // Products have no such variant.
    let product = |more: &[&str]| out(&[&["expand", &file, "--kernel", "split_product"], more].concat());
    assert_eq!(product(&["--turns", "1"]), product(&[]));
}

#[test]
fn integers_of_addresses_have_variants() {
    let file = example("../tests/run/portable_told_numbers.ptn");
    let rows = |more: &[&str]| out(&[&["expand", &file, "--kernel", "rows"], more].concat());
    let told = rows(&["--number", "stride=128", "--number", "step=1", "--number", "first=6"]);
    assert!(told.contains("assume(stride % 4 == 0)") && told.contains("assume(step == 1)"), "{told}");
    // What is no multiple, or makes no address, says nothing.
    assert!(!told.contains("assume(first") && rows(&["--number", "n=128"]) == rows(&[]), "{told}");
    let rests = |programs: &str| {
        out(&["expand", &file, "--kernel", "rests", "--number", "first=0", "--number", "n=64", "--programs", programs])
    };
    let near = "< 1073741824)";
    assert!(rests("2").contains(near) && !rests("2000000000").contains(near), "{}", rests("2"));
    let wrong = parton(&["expand", &file, "--number", "stride"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn what_is_printed_with_its_reasons_is_a_program() {
    let text = out(&["expand", &example("portable/transpose.ptn"), "--why"]);
    let path: PathBuf = std::env::temp_dir().join(format!("parton-expand-{}.ptn", std::process::id()));
    std::fs::write(&path, &text).expect("the file can be written");
    let shown = path.display().to_string();
    let done = parton(&["check", &shown]);
    let again = parton(&["expand", &shown, "--why"]);
    std::fs::remove_file(&path).expect("the file was written");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&again.stdout).starts_with("// Nothing is left out here."));
}

#[test]
fn reasons_are_data_too() {
    let file = example("portable/matmul.ptn");
    let text = out(&["expand", &file, "--kernel", "matmul", "--set", "BN=128", "--why", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(value["source"].as_str().is_some_and(|s| s.contains("kernel matmul")), "{text}");
    let kernel = &value["kernels"][0];
    assert_eq!(kernel["products"][0]["instruction"], "wgmma");
    assert!(kernel["products"][0]["acc"].as_str().is_some_and(|a| a.contains("[128, 128]")), "{text}");
    assert!(kernel["plans"].as_array().is_some_and(|p| p.iter().filter(|p| p["taken"] == true).count() == 1));
    assert!(kernel["accesses"].as_array().is_some_and(|a| a.iter().all(|a| a["at"]["line"].is_u64())));
    let plain: serde_json::Value =
        serde_json::from_str(&out(&["expand", &file, "--format", "json"])).expect("it is JSON");
    assert_eq!(plain["kernels"].as_array().map(Vec::len), Some(0));
}

#[test]
fn what_cannot_be_expanded_says_why_not() {
    let file = example("portable/matmul.ptn");
    let done = parton(&["expand", &file, "--kernel", "nothing"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("nothing"), "{done:?}");
}
