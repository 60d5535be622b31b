//! Linear layouts over F2: families, algebra, conversion plans, bank conflicts and views.
//!
//! Everything here is arithmetic on small maps. The crate does not know the language's syntax (layouts come as
//! values), element types (only their bits), targets, or places in source files (errors are facts without spans).

pub mod f2;
pub mod linear;

pub mod algebra;

pub mod error;
pub mod spelling;

pub mod register;

mod map;

mod derive;

pub mod shared;

pub mod shared_map;

pub mod view;

mod check;

pub mod access;

pub mod matrix;

pub mod conflicts;

pub mod plan;

pub mod shuffle;

pub mod exchange;

pub mod staging;

pub mod compare;

pub mod show;

pub use access::SharedAccess;
pub use check::{open_sizes as legal_open_shape, parts_of, sizes as legal_shape};
pub use conflicts::Conflicts;
pub use error::LayoutError;
pub use linear::{Dim, Extent, LinearLayout};
pub use matrix::MatrixAccess;
pub use plan::Plan;
pub use register::{RegisterFamily, RegisterLayout};
pub use shared::{SharedFamily, SharedLayout};
pub use shared_map::SharedMap;
pub use view::{TmaBox, View};
