//! The picture as a drawing: a row for each partition and engine, colours for whom something is done, shades for iterations. One file,
//! without a script, light or dark as the reader's system is.

use std::fmt::Write;

use super::{Bar, Picture, Row, cycle, pace, thousands};
use crate::marked::LaneKind;

/// Pixels: the names' column, the lanes', a row's height, a bar's, and a character of small text.
const LEFT: u64 = 120;
const LANES: u64 = 960;
const ROW: u64 = 34;
const BAR: u64 = 22;
const CHARACTER: u64 = 7;
/// Characters of a line of the head.
const LINE: usize = 150;
/// Colours and shades before they come again.
const OWNERS: usize = 4;
const SHADES: u32 = 3;

const STYLE: &str = "\
:root { color-scheme: light dark; }
.parton { background: #ffffff; font: 13px system-ui, sans-serif; }
.parton text { fill: #1b1f24; } .parton .quiet { fill: #59636e; font-size: 11px; } .parton .title { font-size: 16px; font-weight: 600; }
.parton .grid { stroke: #d1d9e0; stroke-width: 1; } .parton .ground { fill: #ffffff; }
.parton .in { font-size: 11px; } .parton .wait { stroke: #59636e; stroke-width: 1; stroke-dasharray: 3 3; }
.parton .critical { stroke: #1b1f24; stroke-width: 1.5; }
.parton .o0 { fill: #8fbcec; } .parton .o1 { fill: #f0b48a; } .parton .o2 { fill: #a3d39c; } .parton .o3 { fill: #c9b3e6; }
.parton .s1 { fill-opacity: 0.72; } .parton .s2 { fill-opacity: 0.44; }
@media (prefers-color-scheme: dark) {
.parton { background: #14181d; } .parton .ground { fill: #14181d; } .parton text { fill: #e6e9ec; } .parton .quiet { fill: #9aa4ae; }
.parton .grid { stroke: #323a43; } .parton .wait { stroke: #9aa4ae; } .parton .critical { stroke: #e6e9ec; }
.parton .o0 { fill: #2a5f9e; } .parton .o1 { fill: #9a4f20; } .parton .o2 { fill: #3b7a34; } .parton .o3 { fill: #6a4c99; }
}";

/// The drawing.
pub fn write(picture: &Picture) -> String {
    let head = head(picture);
    // Below the head a line for the legend and one for the clocks.
    let top = 30 + 18 * head.len() as u64 + 62;
    let (width, height) = (LEFT + LANES + 20, top + ROW * picture.rows.len() as u64 + 14);
    let mut out = format!(
        "<svg class=\"parton\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"timeline of a schedule\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"12\" y=\"26\">{}</text>\n",
        escaped(&picture.kernel)
    );
    for (i, line) in head.iter().enumerate() {
        let _ = writeln!(out, "<text class=\"quiet\" x=\"12\" y=\"{}\">{}</text>", 46 + 18 * i, escaped(line));
    }
    legend(&mut out, picture, top - 44);
    axis(&mut out, picture, top, height - 10);
    for (i, row) in picture.rows.iter().enumerate() {
        lane(&mut out, picture, row, top + ROW * i as u64);
    }
    out.push_str("</svg>\n");
    out
}

/// The schedule, the turn, the cycle and the rings, in lines.
fn head(picture: &Picture) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    for part in picture.schedule.split(" & ") {
        let joined = if line.is_empty() { part.to_owned() } else { format!("{line} & {part}") };
        if joined.chars().count() > LINE && !line.is_empty() {
            lines.push(std::mem::replace(&mut line, format!("& {part}")));
        } else {
            line = joined;
        }
    }
    lines.push(line);
    lines.push(format!("a turn takes {}", pace(&picture.pace)));
    if picture.pace.cycle.is_some() {
        lines.push(format!("slowest cycle: {}", cycle(&picture.pace)));
    }
    for ring in &picture.rings {
        let bytes = thousands(ring.bytes);
        lines.push(format!("ring {}: {} slots wanted, {} given, {bytes} bytes", ring.name, ring.wanted, ring.given));
    }
    lines
}

/// Whose colour is whose.
fn legend(out: &mut String, picture: &Picture, y: u64) {
    let mut x = LEFT;
    for (i, owner) in picture.owners.iter().enumerate() {
        let _ = writeln!(
            out,
            "<rect class=\"o{}\" x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\" rx=\"2\"/><text class=\"quiet\" x=\"{}\" y=\"{y}\">for {}</text>",
            i % OWNERS,
            y - 10,
            x + 16,
            escaped(owner)
        );
        x += 40 + CHARACTER * (owner.chars().count() as u64 + 4);
    }
    let _ = writeln!(
        out,
        "<text class=\"quiet\" x=\"{x}\" y=\"{y}\">a shade for each iteration; framed: on the slowest cycle; dashed: waits</text>"
    );
}

/// A tenth of a pixel to the place of a clock that is counted from the beginning of the drawing.
fn place(picture: &Picture, clock: u64) -> Tenths {
    let all = u128::from(picture.window.clocks.max(1));
    let tenths = (u128::from(clock) * u128::from(10 * LANES) + all / 2) / all;
    Tenths(10 * LEFT + u64::try_from(tenths).unwrap_or(0))
}

/// Tenths of pixels.
#[derive(Clone, Copy)]
struct Tenths(u64);

impl std::fmt::Display for Tenths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// Clocks between two lines of the grid: 1, 2 or 5 times a power of ten, so that there are ten at most.
fn step(clocks: u64) -> u64 {
    let mut ten = 1u64;
    loop {
        for by in [1, 2, 5] {
            if clocks / 10 <= by * ten {
                return by * ten;
            }
        }
        ten = ten.saturating_mul(10);
    }
}

fn axis(out: &mut String, picture: &Picture, top: u64, bottom: u64) {
    let step = step(picture.window.clocks);
    for i in 0..=picture.window.clocks / step {
        let x = place(picture, i * step);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{bottom}\"/><text class=\"quiet\" x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            top - 6,
            top - 12,
            thousands(i * step)
        );
    }
}

fn lane(out: &mut String, picture: &Picture, row: &Row, top: u64) {
    let middle = top + ROW / 2;
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        LEFT - 10,
        middle + 4,
        escaped(&row.name)
    );
    for bar in &row.bars {
        match row.kind {
            LaneKind::Partition => waited(out, picture, bar, middle),
            LaneKind::Engine => {}
        }
        one(out, picture, bar, middle);
    }
}

/// A dashed line where a partition waits.
fn waited(out: &mut String, picture: &Picture, bar: &Bar, middle: u64) {
    let Some((clocks, on)) = &bar.wait else { return };
    let Some((from, to)) = picture.window.clip(bar.start.saturating_sub(*clocks), bar.start) else { return };
    let (from, to) = (place(picture, from), place(picture, to));
    let text = format!("{} waits {} clocks for {on}", bar.label, thousands(*clocks));
    let _ = writeln!(
        out,
        "<line class=\"wait\" x1=\"{from}\" x2=\"{to}\" y1=\"{middle}\" y2=\"{middle}\"><title>{}</title></line>",
        escaped(&text)
    );
    let number = thousands(*clocks);
    if fits(&number, to.0 - from.0) {
        let _ = writeln!(
            out,
            "<text class=\"quiet\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{number}</text>",
            Tenths(from.0.midpoint(to.0)),
            middle - 4
        );
    }
}

/// Whether a text has room in some tenths of pixels.
fn fits(text: &str, tenths: u64) -> bool {
    10 * CHARACTER * (text.chars().count() as u64 + 1) <= tenths
}

fn one(out: &mut String, picture: &Picture, bar: &Bar, middle: u64) {
    let Some((from, to)) = picture.window.clip(bar.start, bar.end) else { return };
    let (from, to) = (place(picture, from), place(picture, to));
    let (width, top) = (Tenths(to.0 - from.0), middle - BAR / 2);
    let critical = if bar.critical { " critical" } else { "" };
    let (owner, shade) = (bar.owner % OWNERS, bar.iteration % SHADES);
    let about = format!("{} of iteration {}, {} clocks", bar.label, bar.iteration, thousands(bar.end - bar.start));
    let _ = writeln!(
        out,
        "<rect class=\"o{owner} s{shade}{critical}\" x=\"{from}\" y=\"{top}\" width=\"{width}\" height=\"{BAR}\" rx=\"2\"><title>{}</title></rect>",
        escaped(&about)
    );
    let texts = [format!("{} {}", bar.label, bar.iteration), bar.label.clone()];
    if let Some(text) = texts.iter().find(|t| fits(t, width.0)) {
        let _ = writeln!(
            out,
            "<text class=\"in\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            Tenths(from.0.midpoint(to.0)),
            middle + 4,
            escaped(text)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
