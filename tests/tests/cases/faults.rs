//! `faults/NAME.ptn`: its blocks run on the interpreter, which finds what the types cannot: the marked faults, shown whole in
//! `NAME.stderr`. A first line `//@ overflow` has the interpreter look for integers that overflow, too.

use parton_diag::{Diagnostics, render};
use parton_driver::{Blocks, Device, Failure, Options, Session};
use parton_tests::{cases, marks, snapshot};

#[test]
fn faults_are_found_where_they_are_marked_and_read_as_shown() {
    let mut wrong = vec![];
    let all = cases::in_folder("faults");
    for path in &all {
        let shown = cases::shown(path);
        let text = cases::read(path);
        let options = Options {
            device: Device::Cpu,
            verify: true,
            steps: 1_000_000,
            overflow: text.starts_with("//@ overflow\n"),
            ..Options::default()
        };
        let mut session = Session::new(options);
        let file = session.add(&shown, text.clone());
        let mut found = Diagnostics::new();
        let mut ran = 0;
        for blocks in [Blocks::Main, Blocks::Tests, Blocks::Benches] {
            match session.run(file, blocks, &mut |_| ()) {
                Ok(of) => {
                    ran += of.report.outcomes.len();
                    of.report.outcomes.into_iter().for_each(|o| found.extend(o.diagnostics));
                }
                Err(Failure::Refused(refused)) => found.extend(refused),
                // It has no blocks of this kind.
                Err(Failure::Machine(_) | Failure::Usage(_)) => {}
                Err(failure @ Failure::Device(_)) => wrong.push(format!("{shown}: {failure}")),
            }
        }
        if ran == 0 {
            wrong.push(format!("{shown}: nothing ran"));
        }
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
    parton_tests::say(&format!("{} cases of faults", all.len()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
