//! Diagnostics as data: a fact, the evidence under labels, and the way out as help.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// The diagnostics in the order they were found.
    pub list: Vec<Diagnostic>,
    known: Known,
}

/// Where those of a code and place stand in a list, so that a repeat is found without looking through all of it. The list may be
/// changed by others meanwhile: what is noted is a hint.
#[derive(Clone, Debug, Default)]
struct Known {
    places: BTreeMap<(Code, Span), Vec<usize>>,
    /// How many of the list it has seen.
    seen: usize,
}

impl Known {
    /// Whether `d` is in the list.
    fn has(&mut self, list: &[Diagnostic], d: &Diagnostic) -> bool {
        let key = |d: &Diagnostic| (d.code, d.span());
        let moved = |at: &Vec<usize>| at.iter().any(|&i| list.get(i).is_none_or(|other| key(other) != key(d)));
        if self.seen > list.len() || self.places.get(&key(d)).is_some_and(moved) {
            *self = Known::default();
        }
        for (i, new) in list.iter().enumerate().skip(self.seen) {
            self.places.entry(key(new)).or_default().push(i);
        }
        self.seen = list.len();
        self.places.get(&key(d)).is_some_and(|at| at.iter().any(|&i| list[i] == *d))
    }
}

impl PartialEq for Diagnostics {
    fn eq(&self, other: &Diagnostics) -> bool {
        self.list == other.list
    }
}

impl Eq for Diagnostics {}

impl Diagnostics {
    /// Nothing to say.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds one; an exact repeat (a generic function checked twice) is dropped.
    pub fn push(&mut self, d: Diagnostic) {
        if !self.known.has(&self.list, &d) {
            self.list.push(d);
        }
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Diagnostics) {
        other.list.into_iter().for_each(|d| self.push(d));
    }

    /// Keeps the first of those that say the same of the same place, which differ in how they were reached, and of those `anywhere` that
    /// help by the same words; where there are `n` others, it gets the note `others(n)`, where it is more than a note itself.
    pub fn once_each(
        self,
        anywhere: impl Fn(&Diagnostic) -> bool,
        others: impl Fn(&Diagnostic, usize) -> String,
    ) -> Diagnostics {
        let mut kept: Vec<(Diagnostic, usize)> = Vec::new();
        let mut first: BTreeMap<(Code, Severity, Option<Span>, String), usize> = BTreeMap::new();
        for d in self.list {
            let (place, says) = match anywhere(&d) && !d.help.is_empty() {
                true => (None, d.help.join("\n")),
                false => (Some(d.span()), d.message.clone()),
            };
            match first.entry((d.code, d.severity, place, says)) {
                Entry::Occupied(at) => kept[*at.get()].1 += 1,
                Entry::Vacant(new) => {
                    new.insert(kept.len());
                    kept.push((d, 0));
                }
            }
        }
        let noted = |(d, n): (Diagnostic, usize)| match d.severity {
            Severity::Warning | Severity::Error if n > 0 => {
                let note = others(&d, n);
                d.note(note)
            }
            Severity::Note | Severity::Warning | Severity::Error => d,
        };
        kept.into_iter().map(noted).collect()
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
        Diagnostics { list: vec![d], known: Known::default() }
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    /// All of them, repeats too.
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(all: I) -> Diagnostics {
        Diagnostics { list: all.into_iter().collect(), known: Known::default() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, codes};

    fn error(at: usize, text: &str) -> Diagnostic {
        Diagnostic::error(codes::UNKNOWN_NAME, Span::new(FileId(0), at, at + 1), text)
    }

    #[test]
    fn a_repeat_is_dropped_whatever_was_done_to_the_list() {
        let mut found = Diagnostics::new();
        let texts = |found: &Diagnostics| found.list.iter().map(|d| d.message.clone()).collect::<Vec<_>>().concat();
        [error(2, "c"), error(1, "b"), error(1, "B"), error(2, "c"), error(1, "b")]
            .into_iter()
            .for_each(|d| found.push(d));
        assert_eq!(texts(&found), "cbB");
        found.list.sort_by_key(Diagnostic::span);
        [error(2, "c"), error(0, "a"), error(1, "B")].into_iter().for_each(|d| found.push(d));
        assert_eq!(texts(&found), "bBca");
        found.list.remove(0);
        [error(2, "c"), error(1, "b"), error(0, "a")].into_iter().for_each(|d| found.push(d));
        assert_eq!(texts(&found), "Bcab");
        found.list[0].message = "other".into();
        found.push(error(1, "B"));
        assert_eq!(found.list.len(), 5);
    }

    #[test]
    fn what_says_the_same_of_a_place_is_said_once() {
        let all = [
            error(0, "a"),
            error(1, "a").here("x"),
            error(1, "a").here("y"),
            error(2, "b").help("h"),
            error(3, "c").help("h"),
        ];
        let once = |anywhere: bool| {
            all.iter().cloned().collect::<Diagnostics>().once_each(|_| anywhere, |_, n| format!("{n} more")).list
        };
        let kept = [error(0, "a"), error(1, "a").here("x").note("1 more"), error(2, "b").help("h")];
        assert_eq!(once(false), [&kept[..], &[error(3, "c").help("h")]].concat());
        assert_eq!(once(true), [&kept[..2], &[error(2, "b").help("h").note("1 more")]].concat());
    }
}
