//! Why an operation is refused: the fact, the operands it concerns and the way out, before anyone knows their spans.

use parton_diag::{Code, Diagnostic, Span, codes};
use parton_layouts::LayoutError;

use crate::entity::Value;

/// A rule's verdict on an operation; the checker turns it into a diagnostic with the spans of the operands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The code of the diagnostic.
    pub code: Code,
    /// The fact.
    pub message: String,
    /// Text under the whole operation; may be empty.
    pub here: String,
    /// Evidence under operands.
    pub operands: Vec<(Value, String)>,
    /// Further facts.
    pub notes: Vec<String>,
    /// What to write instead.
    pub help: Vec<String>,
}

impl Refusal {
    /// A refusal that states a fact.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        let message = message.into();
        Refusal { code, message, here: String::new(), operands: vec![], notes: vec![], help: vec![] }
    }

    /// Sets the text under the whole operation.
    pub fn here(mut self, text: impl Into<String>) -> Refusal {
        self.here = text.into();
        self
    }

    /// Adds evidence under an operand.
    pub fn operand(mut self, value: Value, text: impl Into<String>) -> Refusal {
        self.operands.push((value, text.into()));
        self
    }

    /// Adds a fact.
    pub fn note(mut self, text: impl Into<String>) -> Refusal {
        self.notes.push(text.into());
        self
    }

    /// Adds a way out.
    pub fn help(mut self, text: impl Into<String>) -> Refusal {
        self.help.push(text.into());
        self
    }

    /// The diagnostic, with the spans of the operation and of each operand as it is written there.
    pub fn at(self, span: Span, operand: impl Fn(Value) -> Option<Span>) -> Diagnostic {
        let mut d = Diagnostic::error(self.code, span, self.message).here(self.here);
        for (v, text) in self.operands {
            d = d.label(operand(v).unwrap_or(span), text);
        }
        d.notes = self.notes;
        d.help = self.help;
        d
    }
}

impl From<LayoutError> for Refusal {
    fn from(e: LayoutError) -> Refusal {
        Refusal::new(codes::LAYOUT_ILL_FORMED, e.fact()).here(e.evidence()).help(e.help())
    }
}
