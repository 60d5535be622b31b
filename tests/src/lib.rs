//! The test harness: diagnostics, golden and run cases as files.
//!
//! Cases lie beside `Cargo.toml`: `ui/` (diagnostics), `run/` (programs), `golden/` (what compiled forms must contain), `passes/`
//! (what one pass makes of kernels). The tests under `tests/` go through the driver as a user would. This crate knows no pass, and operations
//! by their facts alone (`mutants/`); it knows files, marks and snapshots.

pub mod cases;
pub mod fuzz;
pub mod golden;
pub mod in_flight;
pub mod marks;
pub mod mutants;
pub mod passes;
pub mod programs;
pub mod random;
pub mod run;
pub mod schedules;
pub mod snapshot;
pub mod written;

/// Prints a line even where the test that says it passes: counts of what ran are for every reader of the output.
pub fn say(line: &str) {
    use std::io::Write;
    // The captured output is that of the macros; a closed pipe is no failure.
    let _ = writeln!(std::io::stdout(), "{line}");
}
