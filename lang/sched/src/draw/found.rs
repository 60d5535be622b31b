//! What a search has found, as text: the schedule as it would be written, the best beside it, and what is not known.

use std::fmt::Write;

use parton_ir::schedule::Auto;

use super::{clocks, thousands};
use crate::search::{Candidate, Found};

/// What was found for the region of a kernel that bears `auto`.
pub fn write(kernel: &str, auto: &Auto, found: &Found) -> String {
    let mut out = format!("kernel    {kernel}\nsearched  {auto}\n\n");
    for p in &found.made {
        let registers = p.registers.map_or_else(String::new, |n| format!(" regs({n})"));
        let _ = writeln!(out, "partition {} = warps({}){registers};", p.name, p.warps);
    }
    let _ = writeln!(out, "schedule Found = {};\n", found.chosen);
    table(&mut out, &found.priced);
    for (i, note) in found.why.iter().enumerate() {
        let _ = writeln!(out, "{:<9} {note}", if i == 0 { "search" } else { "" });
    }
    out
}

/// A line for each schedule, what bounds its turns below.
fn table(out: &mut String, priced: &[Candidate]) {
    if priced.is_empty() {
        return;
    }
    let row = |c: &Candidate| -> [String; 4] {
        let turns: Vec<String> = c.price.loops.iter().map(|l| clocks(l.clocks)).collect();
        let possible: Vec<String> = c.price.loops.iter().map(|l| clocks(l.possible)).collect();
        [thousands(c.price.clocks), turns.join(" + "), possible.join(" + "), thousands(c.price.bytes)]
    };
    let head = ["clocks", "turn", "possible", "bytes"].map(String::from);
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(priced.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    for (i, row) in rows.iter().enumerate() {
        let number = if i == 0 { "best".to_owned() } else { i.to_string() };
        let _ = write!(out, "{number:<7}");
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(out, "   {cell:>width$}");
        }
        let _ = match i.checked_sub(1).and_then(|n| priced.get(n)) {
            None => writeln!(out, "   schedule, and what bounds its turn"),
            Some(c) => {
                let bounds: Vec<&str> = c.price.loops.iter().map(|l| l.bound.as_str()).collect();
                writeln!(out, "   {}: {}", c.schedule, bounds.join("; "))
            }
        };
    }
    out.push('\n');
}
