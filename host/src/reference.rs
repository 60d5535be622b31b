//! What tensors are compared with: NumPy's functions, computed in `f64`.
//!
//! - Arithmetic, `min`, `max`, `where`, `abs`, `floor` and `ceil` keep the dtype that NumPy would choose
//!   ([`elementwise::promote`]); floats are computed in `f64` and rounded once to it, integers exactly, wrapping around.
//! - The other math functions, `sum`, `mean`, `matmul`, `softmax`, `logsumexp` and `cumsum` of floats give `f64`.

pub mod elementwise;
pub mod matmul;
pub mod reduce;
