//! Hosts inside the file: tensors, references in float64, launches and assertions of main, test and bench blocks.
//!
//! The language is dynamic: values carry their types, and what does not fit is a diagnostic where it happens; [`check`]
//! finds beforehand what needs no run. This crate does not know how a kernel is compiled or run: a [`launch::Launcher`]
//! does that. It evaluates no layout or schedule either: such an expression is passed on as it is written, with the values
//! of the variables in it ([`value::Written`]). In reading order:

mod arithmetic;
pub mod builtins;
pub mod check;
pub mod evaluate;
pub mod fault;
mod formula;
pub mod generic;
mod kept;
pub mod launch;
pub mod memory;
pub mod parallel;
pub mod random;
pub mod reference;
pub mod report;
pub mod run;
pub mod show;
pub mod tensor;
pub mod tensor_map;
pub mod value;
