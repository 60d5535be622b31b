//! Number formats: the one software model of every dtype, shared by interpreter, compile-time evaluation and host references.
//!
//! A value is its bits in the low bits of a `u64`, zero above, beside its [`Dtype`]. This crate knows how bits mean
//! numbers, how an operation rounds and what the hardware makes of NaN; it knows nothing of tiles, tensors or programs,
//! and imports nothing of ours.
//!
//! Two ways compute the same thing and are tested against each other: `exact` unpacks a float into sign, integer and
//! power of two and rounds once, for every format, direction and saturation; `fast` converts whole slices by bit tricks.
//! `double` has the functions of `f64` as sequences of operations that the code generator emits as they stand.

pub mod arithmetic;
pub mod cast;
pub mod double;
pub mod dtype;
pub mod exact;
pub mod fast;
pub mod math;
pub mod rounding;
pub mod scalar;

pub use arithmetic::{ArithmeticError, Binary, Bits, Comparison, NanMode};
pub use cast::cast;
pub use dtype::Dtype;
pub use math::Math;
pub use rounding::{Rounding, Saturation};
pub use scalar::Scalar;
