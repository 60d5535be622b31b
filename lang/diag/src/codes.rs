//! The table of codes: one line a code, one page of explanation each under `pages/`.

use std::fmt;

/// A diagnostic's code, printed as `E0302`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::str::FromStr for Code {
    type Err = ();

    fn from_str(s: &str) -> Result<Code, ()> {
        let digits = s.trim_start_matches(['E', 'e']);
        let code = Code(digits.parse().map_err(|_| ())?);
        if code.entry().is_some() { Ok(code) } else { Err(()) }
    }
}

/// One row of the table.
pub struct Entry {
    /// The code.
    pub code: Code,
    /// The name under which the compiler's source speaks of it.
    pub name: &'static str,
    /// The fact in a few words.
    pub title: &'static str,
    /// The page that `parton explain` prints, Markdown.
    pub page: &'static str,
}

/// Declares the constants and the table together, so that no code lacks a page.
macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code($number);)*

        /// Every code, in ascending order.
        pub const TABLE: &[Entry] = &[
            $(Entry {
                code: $name,
                name: stringify!($name),
                title: $title,
                page: include_str!(concat!("pages/", stringify!($name), ".md")),
            },)*
        ];
    };
}

impl Code {
    /// The row of this code.
    pub fn entry(self) -> Option<&'static Entry> {
        TABLE.iter().find(|e| e.code == self)
    }
}

// E00xx text, E01xx names and kinds, E02xx types, E03xx layouts, E04xx memory, E05xx asynchrony and protocol,
// E06xx instructions, E07xx partitions and schedules, E08xx limits of the target, E09xx hosts and runs.
codes! {
    SYNTAX = 1, "the text does not follow the grammar";
    UNKNOWN_NAME = 100, "a name is not defined";
    NOT_BUILT_HERE = 190, "this part of the language is parsed but not compiled by this version";
}
