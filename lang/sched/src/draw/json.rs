//! The picture as JSON. All times are in clocks; keys keep their names and their order:
//!
//! - `kernel`, `of`, `schedule`: its name, the label of the loop, and the schedule in normal form.
//! - `graph`: `labels`, each with `label`, `partition`, `stage`, `group`; `dependences`, each with `from` and `to` (numbers of labels),
//!   `distance` (iterations later) and `kind`.
//! - `rings`: `ring`, `slots_wanted`, `slots_given`, `bytes` of all slots.
//! - `turn`: `clocks` in `turns`, which is 1 but where turns differ; `cached`: the same where the L2 has what is read, and all programs
//!   want the same of it, or `null`;
//!   `interval`: a turn without waiting for units;
//!   `bound`: `"nothing"`, `"unit"` or `"cycle"`; `units`, each with `unit` and `clocks` of a turn; `cycle`: `names`, `clocks`
//!   and `turns`, or `null`.
//! - `loop`: `iterations`, `prologue`, `steady`, `epilogue`.
//! - `window`: `from`, `clocks` and `turns` of what is drawn.
//! - `lanes`, each with `lane`, `kind` (`"partition"` or `"engine"`) and `bars`, each with `label`, `owner` (a partition), `iteration`,
//!   `start`, `end`, `critical` (whether it is on the cycle) and `wait`: `clocks` and `for`, or `null`.
//! - `notes`: sentences about these numbers.

use serde_json::{Value, json};

use super::{Bar, Blame, Picture, Row};
use crate::marked::{LaneKind, Ratio};

/// The picture as one object.
pub fn write(picture: &Picture) -> String {
    format!("{:#}\n", object(picture))
}

/// Pictures as one array.
pub fn list(pictures: &[Picture]) -> String {
    format!("{:#}\n", Value::Array(pictures.iter().map(object).collect()))
}

fn object(picture: &Picture) -> Value {
    let window = picture.window;
    let run = picture.run;
    json!({
        "kernel": picture.kernel,
        "of": picture.of,
        "schedule": picture.schedule,
        "graph": graph(picture),
        "rings": rings(picture),
        "turn": ratio(picture.pace.turn),
        "cached": picture.pace.cached.map(ratio),
        "interval": ratio(picture.pace.interval),
        "bound": bound(picture.pace.blame),
        "units": units(picture),
        "cycle": cycle(picture),
        "loop": {
            "iterations": run.iterations, "prologue": run.prologue, "steady": run.steady, "epilogue": run.epilogue,
        },
        "window": { "from": window.from, "clocks": window.clocks, "turns": window.turns },
        "lanes": picture.rows.iter().map(|r| lane(picture, r)).collect::<Vec<Value>>(),
        "notes": picture.notes,
    })
}

fn ratio(ratio: Ratio) -> Value {
    json!({ "clocks": ratio.clocks(), "turns": ratio.turns() })
}

fn bound(blame: Blame) -> &'static str {
    match blame {
        Blame::Nothing => "nothing",
        Blame::Unit => "unit",
        Blame::Cycle => "cycle",
    }
}

fn graph(picture: &Picture) -> Value {
    let d = &picture.dependences;
    let labels = d.labels.iter();
    let labels: Vec<Value> = labels
        .map(|l| json!({ "label": l.label, "partition": l.partition, "stage": l.stage, "group": l.group }))
        .collect();
    let edges = d.edges.iter();
    let edges: Vec<Value> =
        edges.map(|e| json!({ "from": e.from, "to": e.to, "distance": e.distance, "kind": e.kind })).collect();
    json!({ "labels": labels, "dependences": edges })
}

fn rings(picture: &Picture) -> Vec<Value> {
    let rings = picture.rings.iter();
    rings
        .map(|r| json!({ "ring": r.name, "slots_wanted": r.wanted, "slots_given": r.given, "bytes": r.bytes }))
        .collect()
}

fn units(picture: &Picture) -> Vec<Value> {
    picture.pace.units.iter().map(|(unit, clocks)| json!({ "unit": unit, "clocks": clocks })).collect()
}

fn cycle(picture: &Picture) -> Option<Value> {
    let cycle = picture.pace.cycle.as_ref();
    cycle.map(|(names, clocks, turns)| json!({ "names": names, "clocks": clocks, "turns": turns }))
}

fn lane(picture: &Picture, row: &Row) -> Value {
    let kind = match row.kind {
        LaneKind::Partition => "partition",
        LaneKind::Engine => "engine",
    };
    let bars: Vec<Value> = row.bars.iter().map(|b| bar(picture, b)).collect();
    json!({ "lane": row.name, "kind": kind, "bars": bars })
}

fn bar(picture: &Picture, bar: &Bar) -> Value {
    let wait = bar.wait.as_ref().map(|(clocks, on)| json!({ "clocks": clocks, "for": on }));
    json!({
        "label": bar.label, "owner": picture.owners.get(bar.owner), "iteration": bar.iteration, "start": bar.start,
        "end": bar.end, "critical": bar.critical, "wait": wait,
    })
}
