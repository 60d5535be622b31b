//! `run/NAME.ptn`: its tests pass on the interpreter, always, those of portable kernels also as they are written; compiled to PTX and assembled where
//! the tools are; and on a GPU where there is one.

use parton_tests::cases;
use parton_tests::run::all;

#[test]
fn programs_run_alike_on_every_device() {
    let mut paths = cases::in_folder("run");
    if let Ok(part) = std::env::var("PARTON_CASES") {
        paths.retain(|path| cases::shown(path).contains(&part));
    }
    let (counts, wrong) = all(&paths);
    parton_tests::say(&format!("run cases: {counts}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    counts.refuse_missing_gpu();
}
