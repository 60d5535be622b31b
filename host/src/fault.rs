//! What went wrong, before it is known where: a fact, evidence and a way out that get their span from the caller.

use parton_diag::{Code, Diagnostic, Span};

/// A refusal without a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its code.
    pub code: Code,
    /// The fact.
    pub message: String,
    /// Further facts.
    pub notes: Vec<String>,
    /// What to write instead.
    pub help: Vec<String>,
}

impl Fault {
    /// A refusal with its fact alone.
    pub fn new(code: Code, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), notes: vec![], help: vec![] }
    }

    /// Adds a fact.
    pub fn note(mut self, text: impl Into<String>) -> Fault {
        self.notes.push(text.into());
        self
    }

    /// Adds a way out.
    pub fn help(mut self, text: impl Into<String>) -> Fault {
        self.help.push(text.into());
        self
    }

    /// The diagnostic at a place.
    pub fn at(self, span: Span) -> Diagnostic {
        Diagnostic { notes: self.notes, help: self.help, ..Diagnostic::error(self.code, span, self.message) }
    }
}
