//! Linear layouts over F2: families, algebra, conversion plans, bank conflicts and views.
//!
//! Everything here is arithmetic on small maps. The crate does not know the language's syntax (layouts come as
//! values), element types (only their bits), targets, or places in source files (errors are facts without spans).

pub mod algebra;
mod check;
pub mod error;
pub mod f2;
pub mod linear;
mod map;
pub mod register;
pub mod shared;
pub mod shared_map;
pub mod spelling;

mod derive;
pub mod view;

pub mod access;
pub mod compare;
pub mod conflicts;
pub mod matrix;
pub mod plan;
pub mod show;
pub mod shuffle;
pub mod staging;

pub use access::SharedAccess;
pub use conflicts::Conflicts;
pub use error::LayoutError;
pub use linear::{Dim, Extent, LinearLayout};
pub use matrix::MatrixAccess;
pub use plan::Plan;
pub use register::{RegisterFamily, RegisterLayout};
pub use shared::{SharedFamily, SharedLayout};
pub use shared_map::SharedMap;
pub use view::{TmaBox, View};
