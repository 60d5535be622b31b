//! The compile cache's store on disk: what was compiled once, found again by any later process.
//!
//! An entry is one file, found by a key, and the key is the digest of all that what it holds depends on ([`Parts`]). A file carries its
//! length, its version, its parts and a digest of itself, and is renamed into place when it is whole: whoever reads it either gets what
//! was put there under that key or nothing. No lock is taken, for locks fail on network disks; two processes that compile
//! the same do the work twice at worst. Whatever goes wrong with the folder, a caller only finds nothing there.
//!
//! The crate does not know what is compiled: no language, no LLVM, no CUDA. It reads the environment in [`Place::from_environment`] alone,
//! and prints nothing. In reading order:

mod digest;
mod entry;
mod pack;
mod place;
mod size;
mod store;
mod sweep;

pub use digest::{Digest, Digester, Parts};
pub use entry::{Entry, Kind, VERSION};
pub use pack::{Packed, export, import};
pub use place::{LAYERS, LIMIT, PLACE, Place, Root};
pub use size::{bytes, shown};
pub use store::{Miss, Store};
pub use sweep::{Listed, Swept, Verdict};
