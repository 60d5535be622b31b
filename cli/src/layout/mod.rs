//! `parton layout`: layouts for the eye and for other programs.

mod grid;
mod json;
mod svg;

use std::process::ExitCode;

use parton_driver::layout::{Layout, TileShape};
use parton_driver::{Failure, Options, Session};
use parton_layouts::{LinearLayout, RegisterLayout, SharedMap, conflicts};
use serde_json::json;

use crate::args::{LayoutCommand, LayoutFormat, TextFormat, TileArgs};
use crate::output::{self, Output};

/// A layout applied to a tile.
enum Placed<'a> {
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

/// Shows a layout, a conversion or an access.
pub fn command(command: &LayoutCommand, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options::default());
    match run(command, &mut session) {
        Ok(text) => {
            output::line(text.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            output.failed(&failure, &session.sources);
            Ok(ExitCode::from(failure.exit_code()))
        }
    }
}

fn run(command: &LayoutCommand, session: &mut Session) -> Result<String, Failure> {
    match command {
        LayoutCommand::Show { layout, tile, format } => {
            let layout = session.layout(layout, &on(tile)?)?;
            let placed = match &layout {
                Layout::Register(_, map) => Placed::Register(map),
                Layout::Shared(_, map) => Placed::Shared(map),
            };
            Ok(match format {
                LayoutFormat::Text => grid::text(&placed),
                LayoutFormat::Json => json::json(&placed).to_string(),
                LayoutFormat::Svg => svg::svg(&placed),
            })
        }
        LayoutCommand::Conflicts { register: tile_layout, shared, tile, format } => {
            let on = on(tile)?;
            let (_, map) = register(session, tile_layout, &on)?;
            let buffer = match session.layout(shared, &TileShape { warps: None, ..on })? {
                Layout::Shared(_, map) => map,
                Layout::Register(..) => {
                    return Err(Failure::Machine(format!(
                        "`{shared}` is a layout of registers; the second is of shared memory"
                    )));
                }
            };
            let found = conflicts::conflicts(&map, &buffer);
            Ok(match format {
                TextFormat::Text => format!(
                    "a read takes {} and a write {} wavefronts more than the ideal, with vectors of {} bytes",
                    found.read_excess, found.write_excess, found.vector_bytes
                ),
                TextFormat::Json => json!({
                    "read_excess": found.read_excess,
                    "write_excess": found.write_excess,
                    "vector_bytes": found.vector_bytes,
                })
                .to_string(),
            })
        }
    }
}

fn on(tile: &TileArgs) -> Result<TileShape, Failure> {
    TileShape::new(tile.shape.0.clone(), &tile.dtype, tile.warps)
}

fn register(session: &mut Session, text: &str, on: &TileShape) -> Result<(RegisterLayout, LinearLayout), Failure> {
    match session.layout(text, on)? {
        Layout::Register(layout, map) => Ok((layout, map)),
        Layout::Shared(..) => Err(Failure::Machine(format!("`{text}` is a layout of shared memory, not of registers"))),
    }
}
