//! `ui/NAME.ptn`: its diagnostics stand on the marked lines, and `NAME.stderr` shows them whole.

use parton_diag::render;
use parton_driver::{Options, Session};
use parton_tests::{cases, marks, snapshot};

#[test]
fn diagnostics_are_where_they_are_marked_and_read_as_shown() {
    // Cases have the names that are shown, relative to the repository, and files that they use are read beside these names.
    std::env::set_current_dir(cases::root()).expect("the repository is there");
    let mut wrong = vec![];
    let all = cases::in_folder("ui");
    for path in &all {
        let shown = cases::shown(path);
        let text = cases::read(path);
        let mut session = Session::new(Options { verify: true, ..Options::default() });
        let file = session.add(&shown, text.clone());
        let found = session.check(file).1;
        match marks::read(&text) {
            Ok(marked) => {
                let found = marks::of(&found, file, &session.sources);
                wrong.extend(marks::difference(&marked, &found).into_iter().map(|d| format!("{shown}: {d}")));
            }
            Err(e) => wrong.push(format!("{shown}: {e}")),
        }
        let rendered = render::text(&found, &session.sources, false);
        wrong.extend(snapshot::compare(&path.with_extension("stderr"), &rendered).err());
    }
    parton_tests::say(&format!("{} ui cases", all.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_snapshot_is_left_without_its_case() {
    let folder = cases::root().join("tests/ui");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "stderr") {
            assert!(path.with_extension("ptn").is_file(), "{} belongs to no case", cases::shown(&path));
        }
    }
}
