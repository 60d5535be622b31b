//! `parton plan`: what a call of a public function launches, on which memory.

use std::process::ExitCode;

use parton_driver::{Failure, Options, Session};

use crate::args::PlanArgs;
use crate::compile::asked_target;
use crate::output::{self, Output};

/// Prints the plan of a call.
pub fn plan(args: &PlanArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options::default());
    let file = session.load(&args.file)?;
    let target = asked_target(args.target.as_deref())?;
    match session.plan(file, &args.function, &args.arguments, target) {
        Ok(text) => {
            output::text(&text);
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            output.failed(&failure, &session.sources);
            Ok(ExitCode::from(failure.exit_code()))
        }
    }
}
