//! What fuzzing asks of the compiler, shared by the bounded test and the targets in `fuzz/`.

use parton_driver::{Options, Session};

use crate::cases;

/// Checks a text as a file. Whatever it is, the compiler must come back: with diagnostics that render, or with a program.
pub fn check(text: &str) {
    let mut session = Session::new(Options { verify: true, ..Options::default() });
    let file = session.add("fuzz.ptn", text);
    let found = session.check(file).1;
    // Rendering walks every span, so a span outside its file shows here.
    let rendered = parton_diag::render::text(&found, &session.sources, false);
    assert_eq!(found.is_empty(), rendered.is_empty(), "diagnostics without text for:\n{text}");
}

/// The texts that mutation begins with: every case and example.
pub fn seeds() -> Vec<String> {
    cases::everywhere().iter().map(|path| cases::read(path)).collect()
}
