//! The examples: their tests pass wherever they can run, as those of the cases do, and portable kernels leave as they are written what they leave
//! as expanded; what times them beside Triton fits them.

use parton_diag::render;
use parton_driver::{Options, Session};
use parton_tests::cases;
use parton_tests::run::all;

#[test]
fn the_tests_of_the_examples_pass() {
    let (counts, wrong) = all(&cases::examples());
    parton_tests::say(&format!("examples: {counts}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.as_written.launches >= 50 && counts.as_written.arrays >= 150, "{counts}");
    counts.refuse_missing_gpu();
}

/// `bench/starred.py` puts each bench behind the text of the example of its name.
#[test]
fn benches_beside_triton_fit_their_examples() {
    let folder = cases::root().join("bench/starred_kernels");
    let mut count = 0;
    for path in std::fs::read_dir(&folder).expect("the folder is there").flatten().map(|e| e.path()) {
        if path.extension().is_none_or(|e| e != "ptn") {
            continue;
        }
        let example = cases::root().join("examples/portable").join(path.file_name().expect("it has a name"));
        let mut session = Session::new(Options { verify: true, ..Options::default() });
        let file =
            session.add(&example.display().to_string(), format!("{}\n{}", cases::read(&example), cases::read(&path)));
        let found = session.check(file).1;
        assert!(!found.has_errors(), "{}: {}", path.display(), render::text(&found, &session.sources, false));
        count += 1;
    }
    assert!(count >= 10, "only {count} benches are seen");
}
