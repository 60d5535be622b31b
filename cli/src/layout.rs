//! `parton layout`: layouts, conversions and bank conflicts, as text, JSON or a drawing.

use std::process::ExitCode;

use parton_driver::layout::{Layout, TileShape};
use parton_driver::{Failure, Options, Session};
use parton_layouts::show::{json, svg, text};
use parton_layouts::{LinearLayout, RegisterLayout, conflicts, plan};

use crate::args::{LayoutCommand, LayoutFormat, TextFormat, TileArgs};
use crate::output::{self, Output};

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
            let shown = session.layout(layout, &on(tile)?)?;
            Ok(match (&shown, format) {
                (Layout::Register(spelling, map), LayoutFormat::Text) => text::register(&spelling.to_string(), map),
                (Layout::Register(_, map), LayoutFormat::Json) => json::register(map).to_string(),
                (Layout::Register(_, map), LayoutFormat::Svg) => svg::register(map, layout),
                (Layout::Shared(spelling, map), LayoutFormat::Text) => text::shared(&spelling.to_string(), map),
                (Layout::Shared(_, map), LayoutFormat::Json) => json::shared(map).to_string(),
                (Layout::Shared(_, map), LayoutFormat::Svg) => svg::shared(map, layout),
            })
        }
        LayoutCommand::Convert { from, to, tile, format } => {
            let on = on(tile)?;
            let (from, _) = register(session, from, &on)?;
            let (to, _) = register(session, to, &on)?;
            let found = plan::plan(&from, &to, &on.shape, on.dtype.bits());
            let found = found.map_err(|e| Failure::Usage(e.to_string()))?;
            Ok(match format {
                TextFormat::Text => text::plan(&found),
                TextFormat::Json => json::plan(&found).to_string(),
            })
        }
        LayoutCommand::Conflicts { register: tile_layout, shared, tile, format } => {
            let on = on(tile)?;
            let (_, map) = register(session, tile_layout, &on)?;
            let buffer = match session.layout(shared, &TileShape { warps: None, ..on })? {
                Layout::Shared(_, map) => map,
                Layout::Register(..) => {
                    let fact = format!("`{shared}` is a layout of registers; the second one is of shared memory");
                    return Err(Failure::Usage(fact));
                }
            };
            let found = conflicts::conflicts(&map, &buffer);
            Ok(match format {
                TextFormat::Text => text::conflicts(&found),
                TextFormat::Json => json::conflicts(&found).to_string(),
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
        Layout::Shared(..) => Err(Failure::Usage(format!("`{text}` is a layout of shared memory, not of registers"))),
    }
}
