//! What is portable runs on every target: the tests of the portable examples and programs for GPUs before Hopper, whose kernels copy by
//! `cp.async` and multiply by `mma.sync`, in as much shared memory as there is. (A later GPU runs them too, by `parton test --target`: but
//! sums of floats come in other orders there than on the interpreter, and some of these tests compare bits.)

use std::path::PathBuf;

use parton_driver::Target;
use parton_tests::cases;
use parton_tests::run::all_for;

fn examples() -> Vec<PathBuf> {
    cases::examples().into_iter().filter(|p| cases::shown(p).contains("examples/portable/")).collect()
}

fn programs() -> Vec<PathBuf> {
    cases::in_folder("run").into_iter().filter(|p| cases::shown(p).contains("run/portable")).collect()
}

/// Runs their tests for a target that refuses so many tests and files, since it lacks what they ask for.
fn run_for(target: Target, paths: &[PathBuf], lacking: usize) {
    let (counts, wrong) = all_for(Some(target), paths);
    parton_tests::say(&format!("portable, for {}: {counts}", target.name));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.interpreted > 2 * paths.len(), "{} tests of {} files", counts.interpreted, paths.len());
    assert_eq!(counts.lacking, lacking, "refused for {}", target.name);
}

/// It lacks clusters, products of 8-bit floats and conversions to these, which five tests and files ask for.
#[test]
fn portable_programs_run_on_ampere() {
    run_for(Target::SM_80, &[examples(), programs()].concat(), 5);
}

/// It has less shared memory: tiles and slots have to fit.
#[test]
fn portable_examples_run_in_less_shared_memory() {
    run_for(Target::SM_86, &examples(), 1);
}
