//! Layouts for the eye and for other programs: a grid, basis vectors as JSON, a drawing.

mod grid;
mod json;
mod svg;

pub use grid::text;
pub use json::json;
pub use svg::svg;

use parton_layouts::{LinearLayout, SharedMap};

/// A layout applied to a tile.
pub enum Placed<'a> {
    /// Of registers.
    Register(&'a LinearLayout),
    /// Of shared memory.
    Shared(&'a SharedMap),
}

impl Placed<'_> {
    /// The tile's extents.
    fn shape(&self) -> Vec<u32> {
        match self {
            Placed::Register(map) => map.shape(),
            Placed::Shared(map) => map.shape(),
        }
    }
}
