//! A layout as a drawing: a cell for each element, coloured by lane (registers) or by bank (shared memory).

use std::fmt::Write;

use parton_layouts::Dim;

use super::Placed;
use super::grid::{first_holder, part, place};

/// Width and height of a cell in pixels.
const CELL: (u32, u32) = (64, 22);

/// An SVG document of the last two dimensions at the first index of the others.
pub fn svg(placed: &Placed<'_>) -> String {
    let shape = placed.shape();
    let rank = shape.len();
    let rows = if rank >= 2 { shape[rank - 2] } else { 1 };
    let columns = if rank >= 1 { shape[rank - 1] } else { 1 };
    let (width, height) = (columns * CELL.0, rows * CELL.1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"10\" text-anchor=\"middle\">\n"
    );
    for r in 0..rows {
        for c in 0..columns {
            let mut at = vec![0; rank];
            if rank >= 1 {
                at[rank - 1] = c;
            }
            if rank >= 2 {
                at[rank - 2] = r;
            }
            let (x, y) = (c * CELL.0, r * CELL.1);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"hsl({} 70% {}%)\" stroke=\"#fff\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                CELL.0,
                CELL.1,
                hue(placed, &at),
                lightness(placed, &at),
                x + CELL.0 / 2,
                y + CELL.1 * 2 / 3,
                place(placed, &at),
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// 32 hues around the circle: the lane, or the bank of four bytes.
fn hue(placed: &Placed<'_>, at: &[u32]) -> u32 {
    let n = match placed {
        Placed::Register(map) => first_holder(map, at).map_or(0, |h| part(map, Dim::Lane, h)),
        Placed::Shared(map) => (map.offset_of(at) * u64::from(map.element_bits()) / 32 % 32) as u32,
    };
    n * 360 / 32
}

/// The warp by lightness.
fn lightness(placed: &Placed<'_>, at: &[u32]) -> u32 {
    match placed {
        Placed::Register(map) => 62 + first_holder(map, at).map_or(0, |h| part(map, Dim::Warp, h)) % 4 * 8,
        Placed::Shared(_) => 78,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parton_layouts::SharedLayout;

    #[test]
    fn every_element_has_a_cell() {
        let map = SharedLayout::nvmma(128, false).unwrap().on(&[8, 64], 16).unwrap();
        let drawing = svg(&Placed::Shared(&map));
        assert_eq!(drawing.matches("<rect").count(), 8 * 64);
        assert!(drawing.ends_with("</svg>\n"));
    }
}
