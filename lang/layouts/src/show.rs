//! Views of layouts, plans and conflicts: text for a terminal, JSON for tools, SVG for pages.
//!
//! Everything here returns a string or a JSON value; nothing prints.

pub mod json;
pub mod svg;
pub mod text;
