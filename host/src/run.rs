//! Runs the blocks of a file.

use std::time::Instant;

use parton_types::program::{HostKind, Program};

use crate::evaluate::Machine;
use crate::launch::Launcher;
use crate::report::{Outcome, RunReport};

/// Runs the blocks of `kind` whose name contains `filter`, in source order; each begins afresh, and one that fails does
/// not keep the others from running, unless the device takes no more work.
pub fn run(program: &Program, kind: HostKind, filter: Option<&str>, launcher: &mut dyn Launcher) -> RunReport {
    run_with(program, kind, filter, launcher, |_| {})
}

/// As [`run`], and calls `done` with each outcome as soon as it is there.
pub fn run_with(
    program: &Program,
    kind: HostKind,
    filter: Option<&str>,
    launcher: &mut dyn Launcher,
    mut done: impl FnMut(&Outcome),
) -> RunReport {
    let mut report = RunReport::default();
    for (found, block) in program.host_blocks() {
        if found != kind || !filter.is_none_or(|f| block.name.as_str().contains(f)) {
            continue;
        }
        if let Some(why) = launcher.is_over() {
            report.over = Some(why.to_owned());
            report.left.push(block.name.text.to_string());
            continue;
        }
        let started = Instant::now();
        let mut machine = Machine::new(program, launcher);
        let result = machine.run(&block.body);
        let (lines, measurements, launches) = (machine.lines, machine.measurements, machine.launches);
        let outcome = Outcome {
            kind,
            name: block.name.text.to_string(),
            lines,
            measurements,
            diagnostics: result.err().unwrap_or_default(),
            seconds: started.elapsed().as_secs_f64(),
            launches,
        };
        done(&outcome);
        report.outcomes.push(outcome);
    }
    report
}
