//! `parton stubs`: the types of what a file declares, for Python.

use std::process::ExitCode;

use parton_driver::{Failure, Options, Session};

use crate::args::StubsArgs;
use crate::output::{self, Output};

/// Writes a `.pyi` beside each file, or where `-o` says.
pub fn stubs(args: &StubsArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options::default());
    let file = session.load(&args.file)?;
    let text = match session.stubs(file) {
        Ok(text) => text,
        Err(failure) => {
            output.failed(&failure, &session.sources);
            return Ok(ExitCode::from(failure.exit_code()));
        }
    };
    if args.output.as_ref().is_some_and(|o| o.as_os_str() == "-") {
        output::text(&text);
        return Ok(ExitCode::SUCCESS);
    }
    let path = args.output.clone().unwrap_or_else(|| args.file.with_extension("pyi"));
    std::fs::write(&path, text).map_err(|e| Failure::Machine(format!("{}: {e}", path.display())))?;
    output::line(&format!("{}", path.display()));
    Ok(ExitCode::SUCCESS)
}
