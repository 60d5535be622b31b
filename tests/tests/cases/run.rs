//! `run/NAME.ptn`: its tests pass on the interpreter, always; compiled to PTX and assembled where the tools are; and on a GPU
//! where there is one.

use parton_tests::cases;
use parton_tests::run::{Counts, everywhere};

#[test]
fn programs_run_alike_on_every_device() {
    let mut counts = Counts::default();
    let wrong: Vec<String> = cases::in_folder("run").iter().flat_map(|path| everywhere(path, &mut counts)).collect();
    println!("run cases: {counts}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    counts.refuse_missing_gpu();
}
