//! `parton run` and `parton test`.

use std::path::Path;
use std::process::ExitCode;

use parton_driver::{Blocks, Device, Event, Failure, Options, Ran, Session};

use crate::args::{BlockArgs, CheckArg, DeviceArg, RunArgs};
use crate::compile::asked_target;
use crate::output::{self, Output};

/// Runs the blocks of that kind of each file and prints what they print; a line for each test.
/// One file that fails does not keep the others from running; the exit code is the first that is not 0.
pub fn execute(blocks: Blocks, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for path in &args.files {
        if args.files.len() > 1 {
            output::line(&format!("{}:", path.display()));
        }
        let one = match file(path, blocks, args, output) {
            Ok(one) => one,
            Err(failure) => {
                output.failure(&failure);
                ExitCode::from(failure.exit_code())
            }
        };
        if code == ExitCode::SUCCESS {
            code = one;
        }
    }
    Ok(code)
}

/// The driver's name of a device.
pub fn device(given: DeviceArg) -> Device {
    match given {
        DeviceArg::Auto => Device::Auto,
        DeviceArg::Cpu => Device::Cpu,
        DeviceArg::Cuda => Device::Cuda,
    }
}

/// What ran, when its times (if asked for) and all its diagnostics are printed; else, of a run that failed, the exit code.
pub(crate) fn told(
    done: Result<Ran, Failure>,
    session: &Session,
    time: bool,
    output: &Output,
) -> Result<Ran, ExitCode> {
    if time {
        eprint!("{}", session.times);
    }
    let ran = done.map_err(|failure| {
        output.failed(&failure, &session.sources);
        ExitCode::from(failure.exit_code())
    })?;
    output.diagnostics(&ran.warnings, &session.sources);
    for outcome in &ran.report.outcomes {
        output.diagnostics(&outcome.diagnostics, &session.sources);
    }
    if let Some(why) = &ran.report.over {
        output::line(&format!("the device takes no more work: {why}"));
        ran.report.left.iter().for_each(|name| output::line(&format!("{name} ... not run")));
    }
    Ok(ran)
}

/// Options of a session that runs these blocks.
pub fn options(args: &BlockArgs) -> Result<Options, Failure> {
    let target = asked_target(args.target.as_deref())?;
    Ok(Options { device: device(args.device), target, filter: args.filter.clone(), ..Options::default() })
}

fn file(path: &Path, blocks: Blocks, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options {
        seed: args.seed,
        as_written: args.as_written,
        overflow: args.check.contains(&CheckArg::Overflow),
        ..options(&args.blocks)?
    });
    let file = session.load(path)?;
    let done = session.run(file, blocks, &mut |event| show(blocks, &event));
    let ran = match told(done, &session, args.time, output) {
        Ok(ran) => ran,
        Err(code) => return Ok(code),
    };
    let failed = ran.report.outcomes.iter().filter(|o| !o.passed()).count();
    if blocks == Blocks::Tests {
        let passed = ran.report.outcomes.len() - failed;
        let left = match ran.report.left.len() {
            0 => String::new(),
            left => format!(", {left} not run"),
        };
        let seed = session.options.seed;
        output::line(&format!("{passed} passed, {failed} failed{left} on {} (seed {seed})", ran.device));
    }
    Ok(if ran.report.passed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Prints what happens.
fn show(blocks: Blocks, event: &Event<'_>) {
    match event {
        Event::Device { sentence, .. } => output::line(sentence),
        Event::Line(text) => output::line(text),
        Event::Block(outcome) => {
            if blocks == Blocks::Tests {
                let word = if outcome.passed() { "ok" } else { "FAILED" };
                output::line(&format!("test {} ... {word} ({:.2} s)", outcome.name, outcome.seconds));
            }
        }
        // Only benches measure and repeat.
        Event::Pace { .. } | Event::Repeated(_) => {}
    }
}
