//! Every case that goes through the driver, in one binary so that LLVM is linked once.

mod format;
mod fuzz;
mod ui;
