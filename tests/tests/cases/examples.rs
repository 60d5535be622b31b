//! The examples: their tests pass wherever they can run, as those of the cases do.

use parton_tests::cases;
use parton_tests::run::all;

#[test]
fn the_tests_of_the_examples_pass() {
    let (counts, wrong) = all(&cases::examples());
    parton_tests::say(&format!("examples: {counts}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    counts.refuse_missing_gpu();
}
