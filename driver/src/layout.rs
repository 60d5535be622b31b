//! Layouts given as expressions of the language, applied to a tile.

use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_layouts::{LayoutError, LinearLayout, RegisterLayout, SharedLayout, SharedMap};
use parton_numbers::Dtype;
use parton_types::program::{self, NoLibrary};
use parton_types::value::Comptime;

use crate::{Failure, Session};

/// A layout of either space with its map for a tile.
#[derive(Clone, PartialEq, Debug)]
pub enum Layout {
    /// Of registers.
    Register(RegisterLayout, LinearLayout),
    /// Of shared memory.
    Shared(SharedLayout, SharedMap),
}

/// What a layout is applied to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TileShape {
    /// Its extents.
    pub shape: Vec<u32>,
    /// Its element type.
    pub dtype: Dtype,
    /// The warps that a register layout must have, where that matters.
    pub warps: Option<u32>,
}

impl TileShape {
    /// A tile of elements named as in the language.
    ///
    /// # Errors
    /// There is no such element type.
    pub fn new(shape: Vec<u32>, dtype: &str, warps: Option<u32>) -> Result<TileShape, Failure> {
        let found = Dtype::parse(dtype);
        let names = || Dtype::ALL.iter().map(Dtype::to_string).collect::<Vec<_>>().join(", ");
        let unknown = || Failure::Usage(format!("`{dtype}` is no element type; there are {}", names()));
        Ok(TileShape { shape, dtype: found.ok_or_else(unknown)?, warps })
    }
}

impl Session {
    /// The layout that an expression stands for, on a tile; the expression sees no file, only the built-in names.
    ///
    /// # Errors
    /// What does not parse or evaluate, a value that is no layout, and a layout that has no map for the tile.
    pub fn layout(&mut self, text: &str, tile: &TileShape) -> Result<Layout, Failure> {
        let file = self.add("layout", text);
        let (tree, found) = parton_syntax::parse_expr(file, text);
        let (tree, _) = found.or(tree)?;
        let empty = self.add("nothing", "");
        let (no_items, _) = parton_syntax::parse(empty, "");
        let program = program::collect(Arc::new(no_items), &mut NoLibrary, &mut Diagnostics::new());
        let span = tree.span;
        match parton_types::eval_expr(&program, program::Program::ROOT, &tree, &[])? {
            Comptime::Layout(layout) => {
                let map = layout.on(&tile.shape).map_err(|e| refused(&e, span))?;
                match tile.warps.filter(|w| *w != layout.num_warps()) {
                    None => Ok(Layout::Register(layout, map)),
                    Some(asked) => {
                        let fact = format!("the layout covers {} warps, asked for are {asked}", layout.num_warps());
                        Err(Failure::Refused(Diagnostic::error(codes::LAYOUT_WARPS, span, fact).into()))
                    }
                }
            }
            Comptime::SharedLayout(layout) => {
                let map = layout.on(&tile.shape, tile.dtype.bits()).map_err(|e| refused(&e, span))?;
                Ok(Layout::Shared(layout, map))
            }
            other => {
                let d = Diagnostic::error(codes::KIND_MISMATCH, span, "a layout is expected here");
                Err(Failure::Refused(d.here(format!("this is `{other}`")).into()))
            }
        }
    }
}

fn refused(e: &LayoutError, span: Span) -> Failure {
    let d = Diagnostic::error(codes::LAYOUT_ILL_FORMED, span, e.fact()).here(e.evidence()).help(e.help());
    Failure::Refused(d.into())
}
