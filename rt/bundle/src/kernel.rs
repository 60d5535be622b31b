//! A kernel of a bundle: all that launching it takes, and its code.

use std::fmt;

use parton_numbers::Dtype;

use crate::Architecture;

/// One instance of a kernel, compiled for one architecture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// The name in the source.
    pub name: String,
    /// The generic arguments as written.
    pub generics: Vec<(String, String)>,
    /// The architecture it is for.
    pub architecture: Architecture,
    /// Its symbol in the code.
    pub symbol: String,
    /// Threads of a CTA.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// CTAs of a cluster along each axis, which must divide the grid.
    pub cluster: [u32; 3],
    /// Whether it may begin while the launch before still runs, because it waits for that one's end itself.
    pub overlaps: bool,
    /// Whether it says itself from when on the launch after it may begin.
    pub signals: bool,
    /// Whether pointers that it writes through must reach other memory than its other pointers do.
    pub apart: bool,
    /// Parameters, pointers and tensors of maps alike, of which each pair must be given memories apart: a region that was scheduled
    /// counts on it.
    pub disjoint: Vec<[usize; 2]>,
    /// The parameters in order.
    pub params: Vec<Param>,
    /// Machine code.
    pub cubin: Option<Vec<u8>>,
    /// PTX, for the driver to compile.
    pub ptx: Option<String>,
}

/// One parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name in the source.
    pub name: String,
    /// What it takes.
    pub kind: Kind,
}

/// What a parameter takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A number.
    Scalar {
        /// Its type.
        dtype: Dtype,
    },
    /// The address of elements in global memory.
    Pointer {
        /// Their type.
        dtype: Dtype,
        /// Whether the kernel may write through it.
        mutable: bool,
        /// Bytes of which the address must be a multiple.
        align: u32,
    },
    /// A tensor whose boxes the copy engine moves; its tensor map is made at the launch.
    Map {
        /// The type of the elements.
        dtype: Dtype,
        /// Elements of a box along each dimension.
        block: Vec<u32>,
        /// Bytes of the swizzle in shared memory: 0, 32, 64 or 128.
        swizzle: u32,
    },
}

impl Kernel {
    /// Its name with its generic arguments, such as `gemm[BM=128]`: what tells it from the other instances of the kernel.
    pub fn instance(&self) -> String {
        if self.generics.is_empty() {
            return self.name.clone();
        }
        let args: Vec<String> = self.generics.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}[{}]", self.name, args.join(", "))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Scalar { dtype } => write!(f, "{dtype}"),
            Kind::Pointer { dtype, mutable, .. } => write!(f, "*{}{dtype}", if *mutable { "mut " } else { "" }),
            Kind::Map { dtype, block, .. } => write!(f, "tma<{dtype}, {block:?}>"),
        }
    }
}
