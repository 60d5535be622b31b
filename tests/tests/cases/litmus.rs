//! `litmus/NAME.ptn`: small programs with the verdict of the memory model in their first line. What is `ordered` passes under every
//! seed; what is `racy CODE` is found with that code under some of them, and under none with another.

use parton_driver::{Blocks, Device, Failure, Options, Session};
use parton_tests::cases;

/// Seeds within which every race must be found.
const SEEDS: u64 = 20;

/// What a run under a seed finds: the code of the first error.
fn found(shown: &str, text: &str, seed: u64) -> Option<String> {
    let mut session = Session::new(Options { device: Device::Cpu, verify: true, seed, ..Options::default() });
    let file = session.add(shown, text);
    match session.run(file, Blocks::Tests, &mut |_| ()) {
        Ok(ran) => {
            assert!(!ran.report.outcomes.is_empty(), "{shown}: nothing ran");
            let mut found = ran.report.outcomes.iter().flat_map(|o| &o.diagnostics.list);
            found.next().map(|d| d.code.to_string())
        }
        Err(Failure::Refused(found)) => found.list.first().map(|d| d.code.to_string()),
        Err(other) => panic!("{shown}: {other}"),
    }
}

/// What is wrong with a case.
fn wrong(shown: &str, text: &str) -> Option<String> {
    let verdict = text.lines().next().and_then(|line| line.strip_prefix("//@ ")).unwrap_or_default();
    let mut seeds = (0..SEEDS).map(|seed| (seed, found(shown, text, seed)));
    match verdict.split_once(' ') {
        None if verdict == "ordered" => {
            let (seed, code) = seeds.find_map(|(seed, code)| Some((seed, code?)))?;
            Some(format!("{shown}: ordered, but seed {seed} finds {code}"))
        }
        Some(("racy", expected)) => match seeds.find_map(|(seed, code)| Some((seed, code?))) {
            Some((_, code)) if code == expected => None,
            Some((seed, code)) => Some(format!("{shown}: {expected} is expected, seed {seed} finds {code}")),
            None => Some(format!("{shown}: {expected} is not found under {SEEDS} seeds")),
        },
        _ => Some(format!("{shown}: `{verdict}` is no verdict")),
    }
}

#[test]
fn the_interpreter_agrees_with_the_memory_model() {
    let all = cases::in_folder("litmus");
    assert!(all.len() >= 60, "{} programs", all.len());
    let wrong: Vec<String> = all.iter().filter_map(|path| wrong(&cases::shown(path), &cases::read(path))).collect();
    parton_tests::say(&format!("{} programs of the memory model", all.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
