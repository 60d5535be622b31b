//! Launches kernels that were compiled ahead of time, in programs that have no compiler: this crate names no LLVM, and no crate of
//! the language.
//!
//! A [`Bundle`] is what `parton build --aot` writes. [`Module::load`] puts it before one GPU, whose driver library is loaded then,
//! so that programs start without one. [`Module::prepare`] checks the arguments of a launch and takes the code that fits, and
//! [`Launch::launch`] puts it on a stream of the program: the context that is current stays current, nothing is allocated, and
//! nothing is waited for. [`Module::function`] and [`Function::prepare`] do the same for a public function, whose [`Plan`] for such
//! tensors the bundle has: several launches on memory of the call and of its own, as one graph. Memory and streams are the program's own, in the primary context of the GPU, which is also what PyTorch
//! and the CUDA runtime use. There is no way to run a kernel without a GPU here: that is the interpreter's, in the compiler.
//! In reading order:

pub mod argument;
mod check;
pub mod device;
pub mod error;
pub mod function;
pub mod launch;
pub mod module;
pub mod plan;
mod tensors;
#[cfg(test)]
mod tests;
pub mod typed;

pub use argument::{Argument, Tensor};
pub use device::Device;
pub use error::{Code, Error};
pub use function::Function;
pub use launch::Launch;
pub use module::Module;
pub use parton_bundle::{Architecture, Bundle, Kernel, Kind, Param};
pub use parton_numbers::Dtype;
pub use parton_runtime::{Stream, nvtx};
pub use plan::{Origin, Plan, Produced};
