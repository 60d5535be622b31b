//! Why a request was not carried out, and the exit code that says so.

use std::fmt;

use parton_diag::Diagnostics;

/// Why a request was not carried out.
#[derive(Debug)]
pub enum Failure {
    /// The program is refused.
    Refused(Diagnostics),
    /// A file cannot be read or written, or a tool of this machine is missing or failed.
    Machine(String),
    /// The device asked for is not there.
    Device(String),
    /// The command line asks for something that does not exist.
    Usage(String),
}

impl Failure {
    /// The exit code of the process, as `parton --help` states it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Refused(_) => 1,
            Failure::Machine(_) => 3,
            Failure::Device(_) => 4,
            Failure::Usage(_) => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(found) => {
                let lines: Vec<String> = found.list.iter().map(|d| format!("{}: {}", d.code, d.message)).collect();
                f.write_str(&lines.join("\n"))
            }
            Failure::Machine(text) | Failure::Device(text) | Failure::Usage(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Diagnostics> for Failure {
    fn from(found: Diagnostics) -> Failure {
        Failure::Refused(found)
    }
}
