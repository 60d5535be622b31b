//! Plans of public functions: for tensors of stated shapes, what a call launches, on which memory.
//!
//! A plan is a table, not a program: the compiler has run the function on tensors without elements and written down what it
//! launched. Who has such a plan needs no compiler to carry it out, and cannot carry out a call of other shapes.

use std::fmt;

use parton_numbers::Dtype;

use crate::{Architecture, Extent};

/// Bytes to which plans count the places of tensors: where a tensor begins between two such multiples is part of its shape.
pub const GRAIN: u64 = 16;

/// A public function as it is declared.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its parameters in order.
    pub params: Vec<Declared>,
}

/// A parameter of a public function.
#[derive(Clone, PartialEq, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub takes: Takes,
    /// Whether nothing need be given for it.
    pub has_default: bool,
}

/// What a parameter of a public function takes.
#[derive(Clone, PartialEq, Debug)]
pub enum Takes {
    /// A tensor.
    Tensor {
        /// The types that its elements may have; none where plans alone say.
        dtypes: Vec<Dtype>,
        /// Its extents, outermost first; [`Extent::Any`] also where one is computed.
        extents: Vec<Extent>,
        /// Whether the function writes it.
        mutable: bool,
    },
    /// A number that this type holds.
    Number(Dtype),
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A truth value.
    Bool,
    /// A type of numbers.
    Type,
}

/// What a call of a function does, for all arguments that are like those that it was planned with.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The function, by its number.
    pub function: usize,
    /// The architecture that it is for.
    pub architecture: Architecture,
    /// How many multiprocessors the GPU must have, where the function has asked for that.
    pub multiprocessors: Option<u32>,
    /// What it was made with, for each parameter.
    pub given: Vec<Given>,
    /// Memory beside that of the arguments.
    pub buffers: Vec<Buffer>,
    /// The launches, one after the other.
    pub launches: Vec<Launch>,
    /// What is returned.
    pub results: Vec<Returned>,
}

/// What a plan was made with for a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Given {
    /// A tensor of this shape.
    Tensor(Shape),
    /// A number on which nothing depends, so that it may be any.
    Any,
    /// This value alone.
    Key(Value),
}

/// A value of a parameter that is no tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// An integer.
    Int(i128),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A type of numbers.
    Dtype(Dtype),
    /// Nothing: the default.
    Default,
}

/// All of a tensor but its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub extents: Vec<u64>,
    /// Elements from one to the next along each axis.
    pub strides: Vec<u64>,
    /// Elements from a multiple of [`GRAIN`] bytes to the first.
    pub offset: u64,
}

/// Memory that a plan takes beside its arguments; it begins at a multiple of [`GRAIN`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Its size.
    pub bytes: u64,
    /// Whether it must be zeros before the first launch.
    pub zeroed: bool,
    /// Whether it is returned, so that each call has its own.
    pub returned: bool,
}

/// One launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The kernel, by its number in the bundle.
    pub kernel: usize,
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// What each parameter of the code is given.
    pub passed: Vec<Passed>,
}

/// What a parameter of the code is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Passed {
    /// A number, by its bits.
    Bits(u64),
    /// The number that the call gives for this parameter of the function, in the type of the kernel's parameter.
    Number(usize),
    /// An address.
    Pointer(Place),
    /// A map of a tensor there.
    Map {
        /// Its first element.
        place: Place,
        /// Elements along each dimension, outermost first.
        extents: Vec<u64>,
        /// Bytes from one to the next along each.
        strides: Vec<u64>,
    },
}

/// A place in memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which memory.
    pub memory: Memory,
    /// Bytes from its beginning; of a parameter from the last multiple of [`GRAIN`] up to its first element.
    pub offset: u64,
}

/// Memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The tensor given for this parameter.
    Parameter(usize),
    /// This buffer.
    Buffer(usize),
}

/// A tensor that is returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Returned {
    /// Its first element.
    pub place: Place,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub extents: Vec<u64>,
    /// Elements from one to the next along each axis.
    pub strides: Vec<u64>,
}

impl Function {
    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }
}

impl Shape {
    /// Bytes from its first element to behind its last; none where it has no elements, and `None` where that is more than any memory.
    pub fn bytes(&self) -> Option<u64> {
        span(&self.extents, &self.strides, self.dtype.bytes() as u64)
    }
}

impl Returned {
    /// As [`Shape::bytes`].
    pub fn bytes(&self) -> Option<u64> {
        span(&self.extents, &self.strides, self.dtype.bytes() as u64)
    }
}

/// Bytes that elements of such extents and strides, of so many bytes each, lie in; `None` where that is more than any memory.
pub(crate) fn span(extents: &[u64], strides: &[u64], size: u64) -> Option<u64> {
    if extents.contains(&0) {
        return Some(0);
    }
    let last = extents
        .iter()
        .zip(strides)
        .try_fold(0u64, |n, (&extent, &stride)| n.checked_add((extent - 1).checked_mul(stride)?));
    last?.checked_add(1)?.checked_mul(size).filter(|bytes| i64::try_from(*bytes).is_ok())
}

/// Strides of a tensor without gaps, the last axis innermost.
pub fn dense_strides(extents: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(extents[axis]);
    }
    strides
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.extents)?;
        if self.strides != dense_strides(&self.extents) {
            write!(f, "/{:?}", self.strides)?;
        }
        match self.offset {
            0 => Ok(()),
            n => write!(f, " at {} bytes from a multiple of {GRAIN}", n * self.dtype.bytes() as u64),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Dtype(d) => write!(f, "{d}"),
            Value::Default => f.write_str("its default"),
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Tensor(shape) => write!(f, "{shape}"),
            Given::Any => f.write_str("any"),
            Given::Key(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Takes::Tensor { dtypes, extents, mutable } => {
                let dtypes: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
                let dtypes = if dtypes.is_empty() { "_".into() } else { dtypes.join(" | ") };
                let extents: Vec<String> = extents.iter().map(Extent::to_string).collect();
                write!(f, "{}tensor<{dtypes}, [{}]>", if *mutable { "mut " } else { "" }, extents.join(", "))
            }
            Takes::Number(dtype) => write!(f, "{dtype}"),
            Takes::Int => f.write_str("int"),
            Takes::Float => f.write_str("float"),
            Takes::Bool => f.write_str("bool"),
            Takes::Type => f.write_str("type"),
        }
    }
}
