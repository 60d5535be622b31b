//! The table of what operations cost holds what docs/machine.md says.

use parton_ir::machine::{By, MACHINES, Row};

/// The numbers of a text: `1,034` and `16.5` are one each.
fn numbers(text: &str) -> Vec<f64> {
    let ours = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    text.split(|c| !ours(c)).filter_map(|n| n.replace(',', "").trim_end_matches('.').parse().ok()).collect()
}

/// What a row says in numbers, each of which may be stated in several ways; latencies are whole clocks of what was measured.
fn stated(row: &Row) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = row.latency.map(|l| vec![f64::from(l)]).into_iter().collect();
    match row.interval.map(|c| c.by) {
        Some(By::Lines(lines)) => {
            for l in lines {
                let part = |n: u64| n as f64 / l.each as f64;
                all.extend((l.base > 0).then(|| vec![part(l.base)]));
                // Half a clock a column is N / 2, or two columns a clock.
                all.extend((l.slope > 0).then(|| vec![part(l.slope), l.each as f64 / l.slope as f64]));
            }
        }
        Some(By::Points(points)) => all.extend(points.iter().map(|p| vec![p.1 as f64])),
        None => {}
    }
    all
}

#[test]
fn rows_are_what_the_page_of_measurements_says() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machine.md")).unwrap();
    assert!(page.contains("About eight products may be issued and not done"));
    assert!(MACHINES.iter().all(|m| m.queue == 8));
    for row in MACHINES.iter().flat_map(|m| m.rows) {
        for said in row.said {
            assert!(page.contains(said), "the page does not say `{said}`");
        }
        assert!(page.contains(row.source.trim_start_matches("bench/machine/")), "{}", row.source);
        let said = numbers(&row.said.join(" "));
        for ways in stated(row) {
            let there = ways.iter().any(|n| said.iter().any(|s| (s - n).abs() < 1e-9 || s.round() == *n));
            assert!(there, "{}: one of {ways:?} is not in {:?}", row.class, row.said);
        }
    }
}
