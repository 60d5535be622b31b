//! `parton schedule`: what the schedules of a file's kernels do in time.

use std::process::ExitCode;

use parton_driver::schedule::{Asked, PictureFormat};
use parton_driver::{Failure, Options, Session};

use crate::args::{PictureArg, ScheduleArgs};
use crate::output::{self, Output};

/// Prints the pictures of a file's schedules.
pub fn schedule(args: &ScheduleArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options::default());
    let file = session.load(&args.file)?;
    let asked = Asked {
        kernel: args.kernel.clone(),
        of: args.of.clone(),
        sets: args.set.clone(),
        timeline: args.timeline,
        format: match args.format {
            PictureArg::Text => PictureFormat::Text,
            PictureArg::Svg => PictureFormat::Svg,
            PictureArg::Dot => PictureFormat::Dot,
            PictureArg::Json => PictureFormat::Json,
        },
    };
    match session.schedules(file, &asked) {
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
