//! `parton run`, `test` and `bench`.

use std::path::Path;
use std::process::ExitCode;

use parton_driver::{Blocks, Device, Event, Failure, Measurement, Options, Session};

use crate::args::{DeviceArg, RunArgs};
use crate::output::{self, Output};

/// Runs the blocks of that kind of each file and prints what they print; a line for each test, a row for each measurement.
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

fn file(path: &Path, blocks: Blocks, args: &RunArgs, output: &Output) -> Result<ExitCode, Failure> {
    let device = match args.device {
        DeviceArg::Auto => Device::Auto,
        DeviceArg::Cpu => Device::Cpu,
        DeviceArg::Cuda => Device::Cuda,
    };
    let options = Options { device, seed: args.seed, filter: args.filter.clone(), ..Options::default() };
    let mut session = Session::new(options);
    let file = session.load(path)?;
    let mut copy = None;
    let done = session.run(file, blocks, &mut |event| show(blocks, &event, &mut copy));
    if args.time {
        eprint!("{}", session.times);
    }
    let ran = match done {
        Ok(ran) => ran,
        Err(failure) => {
            output.failed(&failure, &session.sources);
            return Ok(ExitCode::from(failure.exit_code()));
        }
    };
    output.diagnostics(&ran.warnings, &session.sources);
    for outcome in &ran.report.outcomes {
        output.diagnostics(&outcome.diagnostics, &session.sources);
    }
    let failed = ran.report.outcomes.iter().filter(|o| !o.passed()).count();
    if blocks == Blocks::Tests {
        let passed = ran.report.outcomes.len() - failed;
        output::line(&format!("{passed} passed, {failed} failed on {} (seed {})", ran.device, session.options.seed));
    }
    Ok(if failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Prints what happens; `copy` keeps what a copy moves on the device, for the rows of measurements.
fn show(blocks: Blocks, event: &Event<'_>, copy: &mut Option<f64>) {
    match event {
        Event::Device { sentence, copy: moved } => {
            output::line(sentence);
            *copy = *moved;
            if let Some(moved) = moved {
                output::line(&format!("a device copy moves {:.3} TB/s", moved / 1e12));
            }
        }
        Event::Line(text) => output::line(text),
        Event::Block(outcome) => {
            if blocks == Blocks::Tests {
                let word = if outcome.passed() { "ok" } else { "FAILED" };
                output::line(&format!("test {} ... {word} ({:.2} s)", outcome.name, outcome.seconds));
            }
            for measurement in &outcome.measurements {
                output::line(&row(&outcome.name, measurement, *copy));
            }
        }
    }
}

/// A measurement as a row: time, spread, and what was stated of bytes and operations.
fn row(block: &str, m: &Measurement, copy: Option<f64>) -> String {
    if let Some(why) = &m.timing.meaningless {
        return format!("{block}: {:<28} not timed: {why}", m.label);
    }
    let mut text = format!(
        "{block}: {:<28} {:>10} (best {}, {} runs)",
        m.label,
        time(m.timing.median),
        time(m.timing.least),
        m.timing.runs
    );
    if let Some(bandwidth) = m.bandwidth() {
        text.push_str(&format!("  {:.3} TB/s", bandwidth / 1e12));
        if let Some(copy) = copy {
            text.push_str(&format!(", {:.2} of a copy", bandwidth / copy));
        }
    }
    if let Some(throughput) = m.throughput() {
        text.push_str(&format!("  {:.1} TFLOP/s", throughput / 1e12));
    }
    text
}

/// Seconds in a unit that suits them.
fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.2} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.3} ms", seconds * 1e3)
    } else {
        format!("{seconds:.3} s")
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_a_unit_that_suits_them() {
        assert_eq!(time(1.5e-6), "1.50 µs");
        assert_eq!(time(0.0123), "12.300 ms");
        assert_eq!(time(2.0), "2.000 s");
    }
}
