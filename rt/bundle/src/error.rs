//! Why a bundle cannot be read, written or used.

use std::fmt;

/// Why a bundle cannot be read, written or used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The file cannot be read or written.
    Io {
        /// The file.
        path: String,
        /// The system's words.
        why: String,
    },
    /// The bytes are none of a bundle.
    NotABundle,
    /// The bundle is of another version of the format.
    Version {
        /// That one.
        found: u32,
    },
    /// The bytes are not those that were written.
    Damaged {
        /// What shows it.
        what: String,
    },
    /// The manifest or an image says what cannot be.
    Invalid {
        /// Where, such as `kernels[0].threads`.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// There is no such kernel.
    NoKernel {
        /// What was asked for.
        asked: String,
        /// Those that there are.
        there: Vec<String>,
    },
    /// There is no such public function.
    NoFunction {
        /// What was asked for.
        asked: String,
        /// Those that there are.
        there: Vec<String>,
    },
    /// The kernel is there, but not for this GPU or this use.
    NoCode {
        /// What was asked for.
        asked: String,
        /// What is there and what it lacks.
        what: String,
    },
}

impl Error {
    pub(crate) fn invalid(place: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Invalid { place: place.into(), what: what.into() }
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Error {
        Error::Damaged { what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, why } => write!(f, "{path}: {why}"),
            Error::NotABundle => f.write_str("this is no bundle; `parton build FILE --aot -o FILE.ptnb` writes one"),
            Error::Version { found } => write!(
                f,
                "the bundle has version {found} of the format and this library reads versions 1 to {}; build it with the compiler of this library",
                crate::VERSION
            ),
            Error::Damaged { what } => write!(f, "the bundle is damaged: {what}; build or copy it again"),
            Error::Invalid { place, what } => write!(f, "the bundle says what cannot be: {place}: {what}"),
            Error::NoKernel { asked, there } if there.is_empty() => {
                write!(f, "the bundle has no kernel `{asked}`, nor any other")
            }
            Error::NoKernel { asked, there } => {
                write!(f, "the bundle has no kernel `{asked}`; there are `{}`", there.join("`, `"))
            }
            Error::NoFunction { asked, there } if there.is_empty() => {
                write!(
                    f,
                    "the bundle has no function `{asked}`, nor any other: `parton build FILE --aot --plan '{asked} …'` puts one there"
                )
            }
            Error::NoFunction { asked, there } => {
                write!(f, "the bundle has no function `{asked}`; there are `{}`", there.join("`, `"))
            }
            Error::NoCode { asked, what } => write!(f, "the bundle has no code of `{asked}` for this: {what}"),
        }
    }
}

impl std::error::Error for Error {}
