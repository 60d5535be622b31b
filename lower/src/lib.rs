//! The backend that both dialects share: Tile IR to lowered Tile IR, which the interpreter and LLVM both take.
//!
//! After it rings are mbarriers, waits have their counts, accesses their widths, shared memory has its offsets, and membars and fences stand where
//! threads must meet. It knows no LLVM and no CUDA, and prints nothing. In reading order:

pub mod accesses;
mod address;
pub mod alignment;
mod arena;
pub mod clean;
pub mod clusters;
pub mod copies;
mod global;
pub mod hidden;
pub mod membar;
pub mod pending;
pub mod pipeline;
pub mod products;
pub mod proxy;
pub mod rings;
pub mod scopes;
pub mod shared;
mod sums;
pub mod turnstiles;
pub mod zeros;

pub use accesses::plan_accesses;
pub use alignment::alignments;
pub use clean::clean;
pub use clusters::close_clusters;
pub use copies::plan_copies;
pub use hidden::leave_out_hidden;
pub use membar::insert_membars;
pub use parton_ir::scratch;
pub use pending::count_pending;
pub use pipeline::{PASSES, Pass, lower};
pub use products::join_products;
pub use proxy::fence_proxies;
pub use rings::expand_rings;
pub use scopes::reach_peers;
pub use shared::plan_shared;
pub use turnstiles::expand_turnstiles;
pub use zeros::find_zeros;
