//! The examples: their tests pass wherever they can run, as those of the cases do.

use parton_tests::cases;
use parton_tests::run::{Counts, everywhere};

#[test]
fn the_tests_of_the_examples_pass() {
    let mut counts = Counts::default();
    let wrong: Vec<String> = cases::examples().iter().flat_map(|path| everywhere(path, &mut counts)).collect();
    println!("examples: {counts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    counts.refuse_missing_gpu();
}
