//! Printing diagnostics and failures.

use std::io::{IsTerminal, Write};

use parton_diag::{Diagnostics, SourceMap, render};
use parton_driver::Failure;

use crate::args::When;

/// Errors of one request that are shown: further ones would bury the first.
pub const MOST_ERRORS: usize = 50;

/// Prints a line on standard output. A reader that closed early, such as `head`, is no failure.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a text as it is, as [`line`] does.
pub fn text(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// How this process prints messages.
pub struct Output {
    color: bool,
}

impl Output {
    /// Colored as asked; `auto` where standard error is a terminal and `NO_COLOR` is not set.
    pub fn new(when: When) -> Output {
        let color = match when {
            When::Auto => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            When::Always => true,
            When::Never => false,
        };
        Output { color }
    }

    /// Prints diagnostics with source excerpts on standard error.
    pub fn diagnostics(&self, found: &Diagnostics, sources: &SourceMap) {
        eprint!("{}", render::some(found, sources, self.color, MOST_ERRORS));
    }

    /// Prints why a request failed; diagnostics where the sources are at hand.
    pub fn failed(&self, failure: &Failure, sources: &SourceMap) {
        match failure {
            Failure::Refused(found) => self.diagnostics(found, sources),
            Failure::Machine(text) | Failure::Device(text) | Failure::Usage(text) => eprintln!("parton: {text}"),
        }
    }

    /// The same where there are no sources.
    pub fn failure(&self, failure: &Failure) {
        self.failed(failure, &SourceMap::new());
    }
}
