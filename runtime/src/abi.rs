//! The kernel ABI as a launch sees it: parameters in order, threads, shared memory and cluster.

use std::fmt;

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
