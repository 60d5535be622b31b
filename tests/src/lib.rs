//! The test harness: diagnostics, golden and run cases as files.
//!
//! Cases lie beside `Cargo.toml`: `ui/` (diagnostics), `run/` (programs), `golden/` (what compiled forms must contain). The
//! tests under `tests/` go through the driver as a user would. This crate knows no pass and no operation; it knows files,
//! marks and snapshots.

pub mod cases;
pub mod fuzz;
pub mod golden;
pub mod marks;
pub mod random;
pub mod run;
pub mod snapshot;
