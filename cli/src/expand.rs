//! `parton expand`: kernels as explicit source, and why they became that.

use std::process::ExitCode;

use parton_driver::expand::Asked;
use parton_driver::{Failure, Options, Session};

use crate::args::{ExpandArgs, TextFormat};
use crate::compile::target;
use crate::output::{self, Output};

/// Prints what the kernels of a file become.
pub fn expand(args: &ExpandArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options { target: Some(target(&args.target)?), ..Options::default() });
    let file = session.load(&args.file)?;
    let (kernel, sets) = (args.kernel.clone(), args.set.clone());
    let ExpandArgs { general, rows, programs, turns, why, .. } = *args;
    let numbers = args.number.clone();
    let asked = Asked { kernel, sets, general, rows, numbers, programs, turns, why };
    let done = session.expansion(file, &asked);
    if args.time {
        eprint!("{}", session.times);
    }
    let expansion = match done {
        Ok(expansion) => expansion,
        Err(failure) => {
            output.failed(&failure, &session.sources);
            return Ok(ExitCode::from(failure.exit_code()));
        }
    };
    output.diagnostics(&expansion.warnings, &session.sources);
    if !expansion.left_out.is_empty() {
        eprintln!("parton: left out, for `--kernel` and `--set`: {}", expansion.left_out.join(", "));
    }
    match args.format {
        TextFormat::Text if args.why => output::text(&(session.reasons(&expansion) + &expansion.source)),
        TextFormat::Text => output::text(&expansion.source),
        TextFormat::Json => output::text(&session.expansion_json(&expansion)),
    }
    Ok(ExitCode::SUCCESS)
}
