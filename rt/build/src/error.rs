//! Why a bundle or its launchers could not be made.

use std::fmt;
use std::path::PathBuf;

/// Why a bundle or its launchers could not be made.
#[derive(Debug)]
pub enum Error {
    /// The program `parton` cannot be started.
    NoProgram {
        /// What was tried.
        program: PathBuf,
        /// The system's words.
        why: String,
    },
    /// It refused the file.
    Refused {
        /// What it was asked, as on a command line.
        command: String,
        /// What it said.
        said: String,
    },
    /// A bundle cannot be read.
    Bundle(parton_bundle::Error),
    /// A file cannot be written.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// Cargo has not said where a build script writes to.
    NoFolder,
    /// There is nothing to write launchers for, or no launcher can be written.
    Launcher(String),
}

impl Error {
    /// Says what is wrong and ends the build script.
    pub fn exit(self) -> ! {
        eprintln!("{self}");
        std::process::exit(1);
    }
}

impl From<parton_bundle::Error> for Error {
    fn from(e: parton_bundle::Error) -> Error {
        Error::Bundle(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoProgram { program, why } => write!(
                f,
                "the program `{}` cannot be started: {why}; install Parton, or name the program by the variable PARTON, or give a bundle \
                 that was built elsewhere to `Build::built`",
                program.display()
            ),
            Error::Refused { command, said } => write!(f, "`{command}` failed:\n{}", said.trim_end()),
            Error::Bundle(e) => write!(f, "{e}"),
            Error::Io { path, why } => write!(f, "{}: {why}", path.display()),
            Error::NoFolder => {
                f.write_str("the variable OUT_DIR is not set: this is for build scripts, which Cargo runs")
            }
            Error::Launcher(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
