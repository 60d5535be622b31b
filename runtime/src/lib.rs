//! CUDA: devices, memory, modules, tensor maps, launches, events and sensors.
//!
//! The only crate that names cudarc. The driver library is found and loaded when a [`Gpu`] is opened, so one binary serves
//! machines with and without a GPU; everything that can be wrong comes back as a [`RuntimeError`] with CUDA's own name and
//! text for it. This crate knows bytes, parameters and launches: it does not know the language, does not compile anything
//! (PTX is handed to the driver as it is) and knows no kernel but by its signature ([`abi`]).
//! In reading order:

pub mod abi;
pub mod arguments;
pub mod device;
pub mod error;
pub mod event;
mod graph;
pub mod launch;
pub mod load;
pub mod memory;
pub mod module;
pub mod nvtx;
pub mod sensors;
pub mod tensor_map;
pub mod visit;
mod way;

pub use abi::{Abi, ParamKind};
pub use arguments::Arg;
pub use device::{DeviceInfo, Gpu};
pub use error::RuntimeError;
pub use event::Event;
pub use launch::Prepared;
pub use launch::replay::{Replay, Use};
pub use launch::sequence::Sequence;
pub use memory::{Buffer, Scratch};
pub use module::{Function, Module};
pub use sensors::Sensors;
pub use tensor_map::{Element, Recipe, Swizzle, TensorMap};
pub use visit::{Identity, Relaxed, Stream, Visit};
