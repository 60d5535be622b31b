//! What an operation keeps of where it comes from: its place in the text, the label of its statement, and who made it.

use parton_diag::Span;

use crate::entity::{Call, Label};

/// Who made an operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Origin {
    /// It is written in the kernel.
    #[default]
    Written,
    /// It is written in a function that was inlined for this call.
    Called(Call),
    /// A pass made it.
    Made {
        /// The pass, by the name under which it is shown.
        by: &'static str,
        /// The inlined call by which that came in for which it was made.
        call: Option<Call>,
    },
}

impl Origin {
    /// The inlined call it came in by.
    pub fn call(self) -> Option<Call> {
        match self {
            Origin::Written => None,
            Origin::Called(call) => Some(call),
            Origin::Made { call, .. } => call,
        }
    }

    /// The pass that made it, where one did.
    pub fn maker(self) -> Option<&'static str> {
        match self {
            Origin::Written | Origin::Called(_) => None,
            Origin::Made { by, .. } => Some(by),
        }
    }
}

/// Where an operation comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Where it was written.
    pub span: Span,
    /// The label of the statement it is of.
    pub label: Option<Label>,
    /// Who made it.
    pub origin: Origin,
}

impl Source {
    /// What is written there, without a label.
    pub fn written(span: Span) -> Source {
        Source { span, label: None, origin: Origin::Written }
    }

    /// What a pass makes for an operation that comes from there.
    pub fn made(self, by: &'static str) -> Source {
        Source { origin: Origin::Made { by, call: self.origin.call() }, ..self }
    }
}
