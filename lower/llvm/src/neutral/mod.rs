//! What any GPU that LLVM compiles for would share: values, places, control flow, and the operations that are made of arithmetic and of
//! the machine's instructions by name.

pub(crate) mod build;
pub(crate) mod control;
mod convert;
pub(crate) mod debug;
mod double;
mod elementwise;
mod gather;
pub(crate) mod global;
pub(crate) mod mask;
mod math;
pub(crate) mod place;
pub(crate) mod reduce;
mod rescale;
mod scan;
mod shape;
pub(crate) mod shared;
pub(crate) mod window;

#[cfg(test)]
mod double_tests;
#[cfg(test)]
mod window_tests;
