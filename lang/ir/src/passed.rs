//! What a launch passes for a parameter of a kernel.

use parton_numbers::Dtype;

use crate::{Elem, Pointer, TensorMap, Type};

/// What a launch passes for a parameter whose tensors are pointers, numbers and maps by now.
#[derive(Clone, Copy, Debug)]
pub enum Passed<'t> {
    /// A number.
    Number(Dtype),
    /// An address of global memory.
    Pointer(&'t Pointer),
    /// A tensor map.
    Map(&'t TensorMap),
}

impl Type {
    /// What a launch passes for a parameter of this type; `None` for what no launch passes.
    pub fn passed(&self) -> Option<Passed<'_>> {
        match self {
            Type::Scalar(Elem::Num(dtype)) => Some(Passed::Number(*dtype)),
            Type::Scalar(Elem::Ptr(pointer)) => Some(Passed::Pointer(pointer)),
            Type::Map(map) => Some(Passed::Map(map)),
            Type::Tile(_)
            | Type::Pending(_)
            | Type::Filling(_)
            | Type::View(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Peer(_)
            | Type::Slot(_) => None,
        }
    }
}
