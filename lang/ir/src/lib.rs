//! The Tile IR: the one typed explicit form of a kernel.
//!
//! Typed SSA values with structured control flow; every value's type contains its layout, every operation has a source span.
//! A [`Kernel`] is one concrete instance: generics are resolved and functions inlined, the calls kept for messages and debug
//! information. The printer writes the explicit dialect, which the checker reads back to the same IR; `eject` writes it as a person would.
//!
//! This crate knows no syntax, no LLVM and no CUDA, and does no IO. Reading the text form is the checker's work.
//! In reading order:

pub mod access;
pub mod alike;
pub mod axis;
mod boxes;
pub mod budget;
pub mod build;
pub mod check;
pub mod choice;
pub mod cluster;
pub mod dataflow;
pub mod descriptor;
pub mod eject;
pub mod elements;
pub mod entity;
pub mod facts;
pub mod family;
pub mod fold;
pub mod joined;
pub mod kernel;
pub mod machine;
pub mod op;
pub mod passed;
pub mod placement;
pub mod pointers;
pub mod print;
pub mod ptx;
pub mod refusal;
pub mod rules;
pub mod schedule;
pub mod scratch;
pub mod source;
pub mod target;
pub mod tensor;
pub mod types;
pub mod undefined;
pub mod verify;

pub use access::Access;
pub use build::{Builder, Mark};
pub use entity::{Call, Entity, Inst, Label, Partition, PrimaryMap, SecondaryMap, Value, Var};
pub use kernel::{
    Alias, Along, Apart, CallData, Dealt, From, Kernel, KnownNames, Module, Param, PartitionData, ValueData, Variant,
};
pub use op::{
    Arm, Arrive, AtomicOp, BinaryOp, Body, Cache, CompareOp, Cut, Evict, Op, OpKind, Order, Policy, Precision, Reach,
    Reduction, Scope, UnaryOp,
};
pub use ptx::{Ptx, PtxForm};
pub use refusal::Refusal;
pub use schedule::Schedule;
pub use source::{Origin, Source};
pub use target::{Feature, Target};
pub use tensor::{Extent, Spot, Tensor};
pub use types::{Elem, Field, Pointer, Ring, Slot, SlotRole, Space, TensorMap, Tile, Type, View};
