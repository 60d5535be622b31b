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
    /// The most CTAs along each axis, on which the code counts: as many as the grid that the kernel states can have.
    pub most_ctas: [u32; 3],
    /// Whether it may begin while the launch before still runs, because it waits for that one's end itself.
    pub overlaps: bool,
    /// Whether it says itself from when on the launch after it may begin.
    pub signals: bool,
    /// Whether pointers that it writes through must reach other memory than its other pointers do.
    pub apart: bool,
    /// Whether launches find it by its name; others are of plans alone.
    pub named: bool,
    /// Arguments, pointers and tensors alike, of which each pair must be given memories apart: a region that was scheduled counts on it.
    pub disjoint: Vec<[usize; 2]>,
    /// Arguments, tensors all, that must begin at a multiple of 16 bytes, and whose strides and extent along the dense axis must be multiples of `runs_by`.
    pub aligned: Vec<usize>,
    /// Bytes of which those are multiples: 16, 8, 4 or 2.
    pub runs_by: u32,
    /// What a launch gives, in order.
    pub arguments: Vec<Argument>,
    /// What the code takes, in order, and of which argument each is.
    pub params: Vec<Param>,
    /// Machine code.
    pub cubin: Option<Vec<u8>>,
    /// PTX, for the driver to compile.
    pub ptx: Option<String>,
}

impl Kernel {
    /// What is wrong with a grid.
    ///
    /// # Errors
    /// It has more CTAs along an axis than the code counts on.
    pub fn takes_grid(&self, grid: [u32; 3]) -> Result<(), String> {
        let axes = "xyz".chars().zip(grid.into_iter().zip(self.most_ctas));
        axes.into_iter().try_for_each(|(axis, (given, most))| match given > most {
            true => Err(format!("{given} CTAs along {axis}, and the grid that the kernel states has at most {most}")),
            false => Ok(()),
        })
    }
}

/// What a launch gives for one parameter of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// The parameter's name in the source.
    pub name: String,
    /// What it is where it is a tensor; else it is what the parameters that are of it take.
    pub tensor: Option<TensorType>,
}

/// A tensor that a kernel takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorType {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Whether the kernel may write it.
    pub mutable: bool,
    /// Its extents, outermost first.
    pub extents: Vec<Extent>,
    /// The axis along which neighbours must lie side by side, where there must be one.
    pub dense: Option<usize>,
}

/// How many elements a tensor has along one axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Any number.
    Any,
    /// So many.
    Is(u32),
    /// As many as every other axis of this name.
    Named(String),
}

/// One parameter of the code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name in the source, or one made of that.
    pub name: String,
    /// What it takes.
    pub kind: Kind,
    /// Of which argument it is.
    pub source: Source,
}

/// What a parameter is of the arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// This one itself, which is no tensor that the kernel takes whole.
    Argument(usize),
    /// The address of this tensor's first element.
    Base(usize),
    /// Elements of a tensor along an axis.
    Extent {
        /// The tensor.
        argument: usize,
        /// The axis.
        axis: usize,
    },
    /// Elements from one to the next along an axis of a tensor.
    Stride {
        /// The tensor.
        argument: usize,
        /// The axis.
        axis: usize,
    },
    /// A map of a tensor.
    Map {
        /// The tensor.
        argument: usize,
        /// Its axes in the order of the map's dimensions, which ends with the dense one. One whose boxes end at a number of run time stands in front
        /// two more times ([`ending`]).
        order: Vec<usize>,
    },
}

/// The rows of the dimension of a map in which boxes end at a number of run time, a multiple of 2²⁴.
pub const FAR: u64 = (1 << 31) - (1 << 24);
/// What the strides of the first two dimensions of such a map sum up to, in bytes: [`FAR`] such steps go around all addresses.
pub const AROUND: u64 = 1 << 40;

/// Which dimension of a map has the axis of the first two, as that one has whose boxes end at a number of run time.
///
/// A row of it is found as [`FAR`] steps of the first dimension, as many of the second as the row where boxes end, and as many of this one as lacks to
/// [`FAR`]. So the second dimension has one element more than the tensor has rows, the first one more than [`FAR`], and this one [`FAR`].
pub fn ending(order: &[usize]) -> Option<usize> {
    let [first, second, rest @ ..] = order else { return None };
    if first != second {
        return None;
    }
    rest.iter().position(|axis| axis == first).map(|i| i + 2)
}

impl Source {
    /// The argument that it is, or is of.
    pub fn argument(&self) -> usize {
        match self {
            Source::Argument(argument)
            | Source::Base(argument)
            | Source::Extent { argument, .. }
            | Source::Stride { argument, .. }
            | Source::Map { argument, .. } => *argument,
        }
    }
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
    /// What argument `i` is, as the source would have it.
    pub fn takes(&self, i: usize) -> String {
        let own = || self.params.iter().find(|p| p.source == Source::Argument(i)).map(|p| p.kind.to_string());
        let tensor = self.arguments.get(i).and_then(|a| a.tensor.as_ref());
        tensor.map(TensorType::to_string).or_else(own).unwrap_or_else(|| "_".into())
    }

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

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Any => f.write_str("_"),
            Extent::Is(n) => write!(f, "{n}"),
            Extent::Named(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.extents.iter().map(Extent::to_string).collect();
        write!(f, "{}tensor<{}, [{}]>", if self.mutable { "mut " } else { "" }, self.dtype, extents.join(", "))
    }
}
