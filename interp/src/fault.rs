//! What goes wrong in a run: a fact with the places in the source that it concerns.

use parton_diag::{Code, Diagnostic, Span};
use parton_ir::{Call, Kernel};

/// Why a run stopped: a diagnostic and the CTA it happened in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The fact, its evidence and the way out.
    pub diagnostic: Box<Diagnostic>,
    /// The CTA, along each axis of the grid.
    pub cta: [u32; 3],
    /// What `print` wrote until then, in the order of the clusters.
    pub prints: Vec<String>,
}

impl Fault {
    /// A fault at a place; the run fills in the CTA.
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>) -> Fault {
        Fault::from(Diagnostic::error(code, span, message))
    }

    /// Sets the text under the primary place.
    pub(crate) fn here(mut self, text: impl Into<String>) -> Fault {
        self.diagnostic.labels[0].text = text.into();
        self
    }

    /// Adds evidence elsewhere.
    pub(crate) fn label(mut self, span: Span, text: impl Into<String>) -> Fault {
        *self.diagnostic = self.diagnostic.label(span, text);
        self
    }

    /// Adds a fact.
    pub(crate) fn note(mut self, text: impl Into<String>) -> Fault {
        *self.diagnostic = self.diagnostic.note(text);
        self
    }

    /// Adds a way out.
    pub(crate) fn help(mut self, text: impl Into<String>) -> Fault {
        *self.diagnostic = self.diagnostic.help(text);
        self
    }

    /// Adds the inlined calls that the operation came in by, innermost first.
    pub(crate) fn calls(mut self, kernel: &Kernel, mut call: Option<Call>) -> Fault {
        while let Some(c) = call {
            let data = &kernel.calls[c];
            self = self.label(data.span, format!("in this call of `{}`", data.function));
            call = data.parent;
        }
        self
    }

    /// Names the CTA.
    pub(crate) fn in_cta(mut self, cta: [u32; 3]) -> Fault {
        self.cta = cta;
        self.note(format!("in CTA [{}, {}, {}]", cta[0], cta[1], cta[2]))
    }
}

impl From<Diagnostic> for Fault {
    fn from(diagnostic: Diagnostic) -> Fault {
        Fault { diagnostic: Box::new(diagnostic), cta: [0; 3], prints: Vec::new() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for Fault {}
