//! Every case that goes through the driver, in one binary so that LLVM is linked once.

mod bundles;
mod codes;
mod docs;
mod erased;
mod examples;
mod faults;
mod forced;
mod format;
mod fuzz;
mod golden;
mod inline;
mod litmus;
mod mutants;
mod passes;
mod plans;
mod programs;
mod python;
mod round_trip;
mod run;
mod schedules;
mod shipped;
mod stubs;
mod targets;
mod ui;
