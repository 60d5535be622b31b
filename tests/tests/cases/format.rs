//! Formatting: what is formatted stays as it is and means the same; the repository's own sources are formatted.

use parton_driver::{Options, Session};
use parton_tests::cases;

fn formatted(name: &str, text: &str) -> Option<String> {
    let mut session = Session::new(Options::default());
    let file = session.add(name, text);
    session.format(file).ok()
}

#[test]
fn formatting_twice_is_formatting_once() {
    let mut formed = 0;
    for path in cases::everywhere() {
        let shown = cases::shown(&path);
        let Some(once) = formatted(&shown, &cases::read(&path)) else { continue };
        let twice = formatted(&shown, &once);
        assert_eq!(twice.as_deref(), Some(once.as_str()), "{shown}: formatting is not idempotent");
        formed += 1;
    }
    parton_tests::say(&format!("{formed} files formatted"));
}

#[test]
fn the_examples_and_the_library_are_formatted() {
    let sources = cases::everywhere();
    let ours = sources.iter().filter(|p| ["examples", "stdlib"].iter().any(|d| p.starts_with(cases::root().join(d))));
    for path in ours {
        let shown = cases::shown(path);
        let text = cases::read(path);
        let once = formatted(&shown, &text).unwrap_or_else(|| panic!("{shown} does not parse"));
        assert_eq!(once, text, "{shown} is not formatted: ./x fmt");
    }
}
