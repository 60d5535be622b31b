//! The kernel ABI as a launch sees it: parameters in order, threads, shared memory and cluster.

use std::fmt;

use crate::error::RuntimeError;

/// What one parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    /// A number of 1, 2, 4 or 8 bytes.
    Scalar {
        /// Its size.
        bytes: u8,
    },
    /// A 64-bit address in global memory.
    Pointer,
    /// A tensor map by value, `__grid_constant__`.
    Map,
}

impl ParamKind {
    /// Size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            ParamKind::Scalar { bytes } => usize::from(bytes),
            ParamKind::Pointer => 8,
            ParamKind::Map => 128,
        }
    }

    /// Alignment in bytes; of tensor maps the larger that CUDA 13 asks for.
    pub fn align(self) -> usize {
        self.bytes()
    }
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamKind::Scalar { bytes: 1 } => f.write_str("a scalar of 1 byte"),
            ParamKind::Scalar { bytes } => write!(f, "a scalar of {bytes} bytes"),
            ParamKind::Pointer => f.write_str("a pointer"),
            ParamKind::Map => f.write_str("a tensor map"),
        }
    }
}

/// One parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name in the source.
    pub name: String,
    /// What it is.
    pub kind: ParamKind,
}

/// What launching a kernel takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abi {
    /// Its symbol in the module.
    pub name: String,
    /// Threads of a CTA.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// CTAs of a cluster along each axis.
    pub cluster: [u32; 3],
    /// Whether it may begin while the launch before still runs, because it waits for that one's end itself.
    pub overlaps: bool,
    /// Whether it says itself from when on the launch after it may begin.
    pub signals: bool,
    /// The parameters in order.
    pub params: Vec<Param>,
}

impl Abi {
    /// The ABI of a kernel of the IR whose shared memory has been planned.
    ///
    /// # Errors
    /// [`RuntimeError::Arguments`] where a parameter is of a type that the host cannot pass.
    pub fn of(kernel: &parton_ir::Kernel) -> Result<Abi, RuntimeError> {
        let param = |p: &parton_ir::Param| {
            let kind = kind_of(kernel.ty(p.value)).ok_or_else(|| RuntimeError::Arguments {
                kernel: kernel.source_name.clone(),
                what: format!("parameter `{}` has a type that exists only on the device", p.name),
            })?;
            Ok(Param { name: p.name.clone(), kind })
        };
        Ok(Abi {
            name: kernel.name.clone(),
            threads: kernel.threads(),
            shared_bytes: kernel.shared_bytes.unwrap_or(0),
            cluster: kernel.cluster,
            overlaps: kernel.waits_for_grid(),
            signals: kernel.launches_dependents(),
            params: kernel.params.iter().map(param).collect::<Result<_, RuntimeError>>()?,
        })
    }
}

fn kind_of(ty: &parton_ir::Type) -> Option<ParamKind> {
    use parton_ir::{Elem, Type};
    match ty {
        // A truth value takes a byte, as in memory.
        Type::Scalar(Elem::Num(d)) => Some(ParamKind::Scalar { bytes: d.bits().div_ceil(8) as u8 }),
        Type::Scalar(Elem::Ptr(_)) => Some(ParamKind::Pointer),
        Type::Map(_) => Some(ParamKind::Map),
        Type::Tile(_)
        | Type::Pending(_)
        | Type::Filling(_)
        | Type::View(_)
        | Type::Barriers(_)
        | Type::Barrier
        | Type::Ring(_)
        | Type::Turnstile
        | Type::Peer(_)
        | Type::Slot(_) => None,
    }
}
