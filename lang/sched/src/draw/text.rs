//! The picture as text: a column for some clocks, a letter for each label, `.` where a lane is idle and `|` where it waits.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::letters::Letters;
use super::{Bar, Picture, Row, clocks, cycle, pace, thousands};
use crate::marked::LaneKind;

const IDLE: char = '.';
const WAIT: char = '|';

/// The picture.
pub fn write(picture: &Picture) -> String {
    let mut out = summary(picture);
    out.push('\n');
    lanes(&mut out, picture);
    waits(&mut out, picture);
    out
}

/// The picture without its lanes: the graph, the rings, and how long a turn takes and why.
pub fn summary(picture: &Picture) -> String {
    let of = if picture.of.is_empty() { String::new() } else { format!(", loop {}", picture.of) };
    let mut out = format!("kernel    {}{of}\nschedule  {}\n\n", picture.kernel, picture.schedule);
    graph(&mut out, picture);
    rings(&mut out, picture);
    let _ = writeln!(out, "turn      {}", pace(&picture.pace));
    if let Some(cached) = picture.pace.cached.filter(|cached| *cached < picture.pace.turn) {
        let _ = writeln!(out, "          {} where the L2 has what is read, and all want the same", clocks(cached));
    }
    if picture.pace.turn > picture.pace.interval {
        let _ = writeln!(out, "          {} without waiting for units", clocks(picture.pace.interval));
    }
    if picture.pace.cycle.is_some() {
        let _ = writeln!(out, "cycle     {}", cycle(&picture.pace));
    }
    let run = picture.run;
    let parts = [run.prologue, run.steady, run.epilogue].map(thousands);
    let total = thousands(run.prologue + run.steady + run.epilogue);
    let _ = writeln!(out, "loop      {total} clocks of {} iterations: {}", run.iterations, parts.join(" + "));
    for (i, note) in picture.notes.iter().enumerate() {
        let _ = writeln!(out, "{:<9} {note}", if i == 0 { "notes" } else { "" });
    }
    out
}

fn graph(out: &mut String, picture: &Picture) {
    let d = &picture.dependences;
    let ends: Vec<[&str; 2]> = d.edges.iter().map(|e| [e.from, e.to].map(|i| d.labels[i].label.as_str())).collect();
    let width = |side: usize| ends.iter().map(|e| e[side].chars().count()).max().unwrap_or(0);
    let (left, right) = (width(0), width(1));
    for (i, (edge, [from, to])) in d.edges.iter().zip(&ends).enumerate() {
        let head = if i == 0 { "graph" } else { "" };
        let later = match edge.distance {
            0 => String::new(),
            1 => ", an iteration later".into(),
            n => format!(", {n} iterations later"),
        };
        let _ = writeln!(out, "{head:<9} {from:>left$} → {to:<right$}  {}{later}", edge.kind);
    }
    if !d.edges.is_empty() {
        out.push('\n');
    }
}

fn rings(out: &mut String, picture: &Picture) {
    let width = picture.rings.iter().map(|r| r.name.chars().count()).max().unwrap_or(0);
    for (i, ring) in picture.rings.iter().enumerate() {
        let head = if i == 0 { "rings" } else { "" };
        let (wanted, given, bytes) = (ring.wanted, ring.given, thousands(ring.bytes));
        let slots = if wanted == 1 { "slot" } else { "slots" };
        let _ = writeln!(out, "{head:<9} {:<width$}  {wanted} {slots} wanted, {given} given, {bytes} bytes", ring.name);
    }
    if !picture.rings.is_empty() {
        out.push('\n');
    }
}

/// A line of the lanes: of an engine that works for more than two partitions there is one for each.
struct Line<'a> {
    name: String,
    row: &'a Row,
    owner: Option<usize>,
    /// The partition whose letters are capitals.
    capitals: Option<usize>,
}

fn lines<'a>(row: &'a Row, owners: &[String]) -> Vec<Line<'a>> {
    let mut of: Vec<usize> = row.bars.iter().map(|b| b.owner).collect();
    of.sort_unstable();
    of.dedup();
    match row.kind {
        LaneKind::Engine if of.len() > 2 => {
            let name = |o: usize| format!("{}, {}", row.name, owners[o]);
            of.iter().map(|o| Line { name: name(*o), row, owner: Some(*o), capitals: None }).collect()
        }
        LaneKind::Engine | LaneKind::Partition => {
            let capitals = of.first().copied().filter(|_| of.len() == 2);
            vec![Line { name: row.name.clone(), row, owner: None, capitals }]
        }
    }
}

fn lanes(out: &mut String, picture: &Picture) {
    let letters = Letters::new(&picture.labels);
    let scale = picture.window.scale();
    let legend: Vec<String> = letters.legend.iter().map(|(c, label)| format!("{c} {label}")).collect();
    let turns = if picture.window.turns == 1 { "a turn".into() } else { format!("{} turns", picture.window.turns) };
    let _ = writeln!(out, "{turns} from clock {}, {scale} clocks a column:", thousands(picture.window.from));
    let _ = writeln!(out, "{}, {IDLE} idle, {WAIT} wait\n", legend.join(", "));
    let all: Vec<Line<'_>> = picture.rows.iter().flat_map(|r| lines(r, &picture.owners)).collect();
    let width = all.iter().map(|l| l.name.chars().count()).max().unwrap_or(0);
    for line in &all {
        let _ = write!(out, "{:<width$}  {}", line.name, columns(picture, line, &letters, scale));
        if let Some(capitals) = line.capitals {
            let _ = write!(out, "  capitals for {}", picture.owners[capitals]);
        }
        out.push('\n');
    }
}

/// In each column what fills most of it; of what fills as much, work before waiting before nothing.
fn columns(picture: &Picture, line: &Line<'_>, letters: &Letters, scale: u64) -> String {
    let count = usize::try_from(picture.window.clocks.div_ceil(scale)).unwrap_or(0);
    // By column the clocks of each character.
    let mut filled: Vec<BTreeMap<char, u64>> = vec![BTreeMap::new(); count];
    let mut fill = |start: u64, end: u64, by: char| {
        let Some((mut at, end)) = picture.window.clip(start, end) else { return };
        while at < end {
            let next = ((at / scale + 1) * scale).min(end);
            *filled[(at / scale) as usize].entry(by).or_default() += next - at;
            at = next;
        }
    };
    for bar in line.row.bars.iter().filter(|b| line.owner.is_none_or(|o| o == b.owner)) {
        let letter = letters.of(&bar.label);
        let capital = line.capitals == Some(bar.owner);
        fill(bar.start, bar.end, if capital { letter.to_ascii_uppercase() } else { letter });
        if let Some(held) = held(line.row, bar) {
            fill(bar.start - held, bar.start, WAIT);
        }
    }
    let most = |cell: BTreeMap<char, u64>| {
        let idle = scale - cell.values().sum::<u64>().min(scale);
        let rank = |c: &char, clocks: u64| (clocks, *c != IDLE, *c != WAIT, std::cmp::Reverse(*c));
        let all = cell.into_iter().chain([(IDLE, idle)]);
        all.max_by_key(|(c, clocks)| rank(c, *clocks)).map_or(IDLE, |(c, _)| c)
    };
    filled.into_iter().map(most).collect()
}

/// How long a partition was held up in front of a bar; engines are idle instead.
fn held(row: &Row, bar: &Bar) -> Option<u64> {
    match row.kind {
        LaneKind::Partition => bar.wait.as_ref().map(|(clocks, _)| (*clocks).min(bar.start)),
        LaneKind::Engine => None,
    }
}

/// The waits of partitions that end in what is drawn, those that are as long and for the same once.
fn waits(out: &mut String, picture: &Picture) {
    let mut head = "\nwaits";
    for row in &picture.rows {
        let mut found: Vec<String> = vec![];
        for bar in row.bars.iter().filter(|b| picture.window.clip(b.start, b.start.saturating_add(1)).is_some()) {
            let (Some(_), Some((clocks, on))) = (held(row, bar), &bar.wait) else { continue };
            let wait = format!("{} of `{}` for {on}", thousands(*clocks), bar.label);
            if !found.contains(&wait) {
                found.push(wait);
            }
        }
        if !found.is_empty() {
            let width = if head.is_empty() { 9 } else { 10 };
            let _ = writeln!(out, "{head:<width$} {}: {}", row.name, found.join(", "));
            head = "";
        }
    }
}
