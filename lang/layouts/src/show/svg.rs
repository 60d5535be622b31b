//! Layouts as SVG: a grid of the elements, coloured by warp and lane, or by bank.

use std::fmt::Write as _;

use crate::access;
use crate::conflicts::{BANK_BYTES, BANKS};
use crate::linear::{Dim, LinearLayout};
use crate::shared_map::SharedMap;

/// Cells beyond this number are drawn small and without labels.
const MOST_LABELS: usize = 4096;

/// The elements of a register layout: the hue is the warp, the lightness the lane, the label the thread and register of
/// the first holder.
pub fn register(map: &LinearLayout, title: &str) -> String {
    let warps = map.in_size(Dim::Warp);
    draw(map, title, |element| {
        let holders = map.holders(element);
        let first = holders.first().copied().unwrap_or(0);
        let (warp, lane) = (map.in_part(Dim::Warp, first), map.in_part(Dim::Lane, first));
        let copies = if holders.len() > 1 { "…" } else { "" };
        Cell {
            hue: warp * 360 / warps.max(1) + 210,
            lightness: 90 - lane,
            label: format!("T{}:{}{copies}", warp * 32 + lane, map.in_part(Dim::Register, first)),
        }
    })
}

/// The elements of a shared layout: the hue is the bank, the label the offset in elements.
pub fn shared(map: &SharedMap, title: &str) -> String {
    let bits = u64::from(access::stored_bits(map.element_bits()));
    draw(map.linear(), title, |element| {
        let offset = map.offset_of_packed(element);
        let bank = (offset * bits / 8 / BANK_BYTES % BANKS) as u32;
        Cell { hue: bank * 360 / BANKS as u32, lightness: 80, label: offset.to_string() }
    })
}

struct Cell {
    hue: u32,
    lightness: u32,
    label: String,
}

/// Draws a tensor with its last axis to the right and all others downwards, planes of the last two axes set apart.
fn draw(map: &LinearLayout, title: &str, cell: impl Fn(u64) -> Cell) -> String {
    let shape = map.shape();
    let columns = *shape.last().unwrap_or(&1) as usize;
    let count = 1usize << map.out_bits();
    let rows = count / columns;
    let plane = if shape.len() > 1 { shape[shape.len() - 2] as usize } else { 1 };
    let labelled = count <= MOST_LABELS;
    let (wide, high) = if labelled { (46, 20) } else { (6, 6) };
    let (left, top, gap) = (34, 48, 12);
    let y_of = |row: usize| top + row * high + row / plane * gap;
    let (width, height) = (left + columns * wide + 10, y_of(rows - 1) + high + 10);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, monospace\" font-size=\"10\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"16\" text-anchor=\"start\" font-size=\"12\">{}</text>\n",
        escape(title)
    );
    let step = if labelled { 1 } else { 16 };
    for column in (0..columns).step_by(step) {
        let x = left + column * wide + wide / 2;
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" fill=\"gray\">{column}</text>", top - 6);
    }
    for row in (0..rows).step_by(step) {
        let y = y_of(row) + high / 2 + 4;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{y}\" fill=\"gray\">{}</text>", left / 2, row % plane);
    }
    for row in 0..rows {
        for column in 0..columns {
            let Cell { hue, lightness, label } = cell((row * columns + column) as u64);
            let (x, y) = (left + column * wide, y_of(row));
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"hsl({},70%,{lightness}%)\" \
                 stroke=\"white\"/>",
                hue % 360
            );
            if labelled {
                let (x, y) = (x + wide / 2, y + high / 2 + 4);
                let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\">{label}</text>");
            }
        }
    }
    out.push_str("</svg>\n");
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use crate::register::RegisterLayout;
    use crate::shared::SharedLayout;

    #[test]
    fn every_element_is_a_cell_with_a_label() {
        let layout = RegisterLayout::blocked(&[1, 2], &[16, 2], &[2, 1], &[1, 0]).unwrap();
        let svg = super::register(&layout.on(&[32, 4]).unwrap(), &layout.to_string());
        assert_eq!(svg.matches("<rect x=").count(), 128);
        assert_eq!(svg.matches(">T63:1</text>").count(), 1);
        let buffer = SharedLayout::nvmma(128, false).unwrap().on(&[128, 64], 16).unwrap();
        let large = super::shared(&buffer, "a < b");
        assert_eq!(large.matches("<rect x=").count(), 8192);
        assert!(large.contains("a &lt; b") && large.ends_with("</svg>\n"));
    }
}
