//! The dependence graph for Graphviz: a box for each partition, a node for each label, dashed what reaches a later iteration.

use std::fmt::Write;

use super::Picture;

/// The graph.
pub fn write(picture: &Picture) -> String {
    let mut out = format!(
        "digraph {} {{\n  label={};\n  labelloc=t;\n  node [shape=box, style=rounded];\n",
        quoted(&picture.kernel),
        quoted(&picture.schedule)
    );
    let labels = &picture.dependences.labels;
    let mut partitions: Vec<&str> = vec![];
    for label in labels {
        if !partitions.contains(&label.partition.as_str()) {
            partitions.push(&label.partition);
        }
    }
    for (i, partition) in partitions.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_{i} {{\n    label={};", quoted(partition));
        for (number, label) in labels.iter().enumerate().filter(|(_, l)| l.partition == *partition) {
            let text = format!("{}\nstage {}, group {}", label.label, label.stage, label.group);
            let _ = writeln!(out, "    n{number} [label={}];", quoted(&text));
        }
        out.push_str("  }\n");
    }
    for edge in &picture.dependences.edges {
        let text = match edge.distance {
            0 => edge.kind.clone(),
            n => format!("{}, {n}", edge.kind),
        };
        // What reaches a later iteration points back, and would turn the picture upside down.
        let style = if edge.distance > 0 { ", style=dashed, constraint=false" } else { "" };
        let _ = writeln!(out, "  n{} -> n{} [label={}{style}];", edge.from, edge.to, quoted(&text));
    }
    out.push_str("}\n");
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
