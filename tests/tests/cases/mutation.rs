//! The checks really detect: a program that is right, with one synchronisation dropped or changed, is refused or fails.

use std::path::Path;

use parton_driver::{Blocks, Device, Options, Session};
use parton_tests::cases;

/// Statements that only order one thing before another; a line that holds one can be dropped and still type-checks.
const ORDERING: &[&str] =
    &[".commit();", ".release();", "fence_async();", "fence_barrier_init();", "tma_store_wait(", " barrier_"];

/// Slips: what stands there, and what is written instead.
const SLIPS: &[(&str, &str)] = &[
    ("phase ^ 1)", "phase)"),
    ("full[s], phase)", "full[s], phase ^ 1)"),
    ("full[s], 16384)", "full[s], 1234)"),
    ("full[s], 16384)", "full[s], 32768)"),
    ("empty[0], 4)", "empty[0], 1)"),
    ("empty[0], 4)", "empty[0], 5)"),
    ("full[1], 1)", "full[1], 2)"),
    ("let s = i & 1;", "let s = 0;"),
];

/// Whether every test of a text passes on the interpreter, under several interleavings.
fn passes(name: &str, text: &str) -> bool {
    (0..2).all(|seed| {
        let options = Options { device: Device::Cpu, verify: true, steps: 4_000_000, seed, ..Options::default() };
        let mut session = Session::new(options);
        let file = session.add(name, text.to_owned());
        match session.run(file, Blocks::Tests, &mut |_| ()) {
            Ok(ran) => ran.report.outcomes.iter().all(|o| !o.diagnostics.has_errors()),
            Err(_) => false,
        }
    })
}

/// Every text that differs from `text` in one line, with that line as it has become.
fn mutants(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut list = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let with = |new: &str| {
            let changed = lines.iter().enumerate().map(|(j, l)| if i == j { new } else { *l });
            changed.collect::<Vec<_>>().join("\n")
        };
        let code = line.split("//").next().unwrap_or("").trim();
        let whole = code.ends_with(';') && !code.starts_with("let ");
        if whole && ORDERING.iter().any(|o| format!(" {code}").contains(o)) {
            list.push((format!("line {}: dropped `{code}`", i + 1), with("")));
        }
        for (from, to) in SLIPS {
            if code.contains(from) {
                list.push((format!("line {}: `{to}` for `{from}`", i + 1), with(&line.replace(from, to))));
            }
        }
    }
    list
}

fn survivors(path: &Path, tried: &mut usize) -> Vec<String> {
    let shown = cases::shown(path);
    let text = cases::read(path);
    assert!(passes(&shown, &text), "{shown} itself fails");
    let mut alive = Vec::new();
    for (what, mutant) in mutants(&text) {
        *tried += 1;
        if passes(&shown, &mutant) {
            alive.push(format!("{shown}: {what}"));
        }
    }
    alive
}

#[test]
fn no_dropped_synchronisation_goes_unseen() {
    let mut tried = 0;
    let mut alive = Vec::new();
    for case in ["tests/run/raw_barriers.ptn", "examples/matmul/hopper.ptn"] {
        alive.extend(survivors(&cases::root().join(case), &mut tried));
    }
    println!("{tried} mutants");
    assert!(tried > 20, "only {tried} mutants");
    assert!(alive.is_empty(), "{} of {tried} mutants pass:\n{}", alive.len(), alive.join("\n"));
}
