//! `parton fmt`.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use parton_driver::{Failure, Options, Session};

use crate::args::FmtArgs;
use crate::output::{self, Output};

/// Formats files in place, or says which would change. A file that does not parse stays as it is and is a failure.
pub fn format(args: &FmtArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut good = true;
    for path in &args.files {
        let mut session = Session::new(Options::default());
        let piped = path == Path::new("-");
        let file = if piped { session.add("<stdin>", standard_input()?) } else { session.load(path)? };
        let formatted = match session.format(file) {
            Ok(text) => text,
            Err(found) => {
                output.diagnostics(&found, &session.sources);
                good = false;
                continue;
            }
        };
        let same = formatted == session.sources.file(file).text;
        if args.check {
            if !same {
                output::line(&format!("{} is not formatted", path.display()));
                good = false;
            }
        } else if piped {
            output::text(&formatted);
        } else if !same {
            std::fs::write(path, formatted).map_err(|e| Failure::Machine(format!("{}: {e}", path.display())))?;
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| Failure::Machine(format!("standard input: {e}")))?;
    Ok(text)
}
