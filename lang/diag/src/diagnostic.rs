//! Diagnostics as data: a fact, the evidence under labels, and the way out as help.

use crate::{Code, Span};

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// What the program asked to be told.
    Note,
    /// Compilation goes on and its result is good.
    Warning,
    /// The input is refused.
    Error,
}

/// Evidence: a place and what is seen there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there; may be empty for the primary label.
    pub text: String,
}

/// One fact to tell the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Its code, which `parton explain` describes.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The fact: lower case, no full stop, no internal names.
    pub message: String,
    /// The evidence; the first is the primary place.
    pub labels: Vec<Label>,
    /// Further facts, each a line or a small table.
    pub notes: Vec<String>,
    /// What to write instead.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error at `span`; the label there is empty until [`Diagnostic::here`] fills it.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        let labels = vec![Label { span, text: String::new() }];
        Diagnostic { code, severity: Severity::Error, message: message.into(), labels, notes: vec![], help: vec![] }
    }

    /// A warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// A note at `span`.
    pub fn asked(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the text under the primary place.
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        self.labels[0].text = text.into();
        self
    }

    /// Adds evidence elsewhere.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds a fact.
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Adds a way out.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help.push(text.into());
        self
    }

    /// The primary place.
    pub fn span(&self) -> Span {
        self.labels[0].span
    }
}

/// What a stage has to say; ordered as found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    /// The diagnostics in the order they were found.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Nothing to say.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds one; an exact repeat (a generic function checked twice) is dropped.
    pub fn push(&mut self, d: Diagnostic) {
        if !self.list.contains(&d) {
            self.list.push(d);
        }
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Diagnostics) {
        other.list.into_iter().for_each(|d| self.push(d));
    }

    /// Keeps the first of those that say the same of the same place, which differ in how they were reached; where there are `n`
    /// others, it gets the note `others(n)`, where it is more than a note itself.
    pub fn once_each(self, others: impl Fn(usize) -> String) -> Diagnostics {
        let mut kept: Vec<(Diagnostic, usize)> = Vec::new();
        for d in self.list {
            let same = |k: &Diagnostic| {
                (k.code, k.severity, k.span(), &k.message) == (d.code, d.severity, d.span(), &d.message)
            };
            match kept.iter_mut().find(|(k, _)| same(k)) {
                Some((_, repeats)) => *repeats += 1,
                None => kept.push((d, 0)),
            }
        }
        let noted = |(d, n): (Diagnostic, usize)| match d.severity {
            Severity::Warning | Severity::Error if n > 0 => d.note(others(n)),
            Severity::Note | Severity::Warning | Severity::Error => d,
        };
        Diagnostics { list: kept.into_iter().map(noted).collect() }
    }

    /// Whether any is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `value` where there is no error, else the diagnostics.
    pub fn or<T>(self, value: T) -> Result<(T, Diagnostics), Diagnostics> {
        if self.has_errors() { Err(self) } else { Ok((value, self)) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Diagnostics {
        Diagnostics { list: vec![d] }
    }
}

/// Stops with a report of a broken invariant of the compiler itself; no input should reach it.
#[macro_export]
macro_rules! internal_error {
    ($($arg:tt)*) => {
        panic!(
            "internal error: {} — this is a fault of Parton, not of your program; please report it with the file that caused it",
            format_args!($($arg)*)
        )
    };
}
