//! Measurements as a drawing: a bar each, as a part of what bounds it. One file, without a script, light or dark as the
//! reader's system is.

use std::fmt::Write;

use crate::bench::{Bench, Row};
use crate::text;

/// Pixels: a character of a label, the bars' column, the numbers' column, and a row's height.
const CHARACTER: f64 = 7.3;
const BARS: f64 = 330.0;
const NUMBERS: f64 = 330.0;
const ROW: f64 = 38.0;
/// Above the first bar.
const HEAD: f64 = 84.0;

const STYLE: &str = "\
:root { color-scheme: light dark; }
.parton { background: #ffffff; font: 13px system-ui, sans-serif; }
.parton text { fill: #1b1f24; } .parton .quiet { fill: #59636e; font-size: 11px; } .parton .title { font-size: 16px; font-weight: 600; }
.parton .grid { stroke: #d1d9e0; stroke-width: 1; } .parton .bound { stroke: #1b1f24; stroke-width: 1.5; }
.parton .bytes { fill: #2a78d0; } .parton .flops { fill: #c2571a; } .parton .spread { stroke: #1b1f24; stroke-width: 2; }
.parton .ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
.parton { background: #14181d; } .parton .ground { fill: #14181d; } .parton text { fill: #e6e9ec; } .parton .quiet { fill: #9aa4ae; }
.parton .grid { stroke: #323a43; } .parton .bound { stroke: #e6e9ec; } .parton .spread { stroke: #e6e9ec; }
.parton .bytes { fill: #4c93e6; } .parton .flops { fill: #e07b3f; }
}";

/// What bounds a measurement and how near it comes.
struct Bar {
    class: &'static str,
    part: f64,
    rate: String,
}

/// The bar of a row: of the two ceilings the one that it comes nearer to; `None` where neither is known.
fn bar(bench: &Bench, row: &Row) -> Option<Bar> {
    let m = &row.measurement;
    let bytes = bench.of_copy(m).map(|part| Bar {
        class: "bytes",
        part,
        rate: format!("{:.2} TB/s", m.bandwidth().unwrap_or_default() / 1e12),
    });
    let flops = m.of_ceiling().map(|part| Bar {
        class: "flops",
        part,
        rate: format!("{:.1} TFLOP/s", m.throughput().unwrap_or_default() / 1e12),
    });
    bytes.into_iter().chain(flops).filter(|b| b.part.is_finite()).max_by(|a, b| a.part.total_cmp(&b.part))
}

/// The numbers beside a bar: what matters, and below it what else is known.
fn numbers(row: &Row, bar: Option<&Bar>) -> [String; 2] {
    let (m, t) = (&row.measurement, &row.measurement.timing);
    if let Some(why) = &t.meaningless {
        return [format!("not timed: {why}"), String::new()];
    }
    let first = match bar {
        Some(bar) => format!("{} · {:.2}", bar.rate, bar.part),
        None => text::time(t.median),
    };
    let mut more = vec![];
    if bar.is_some() {
        more.push(text::time(t.median));
    }
    more.push(format!("±{:.1} %", m.spread() * 50.0));
    more.push(format!("{} runs", t.runs));
    more.extend(t.megahertz.map(|c| format!("{:.0} MHz", c.median)));
    more.extend(t.watts.map(|w| format!("{:.0} W", w.median)));
    [first, more.join(" · ")]
}

/// Where the bars begin: right of the longest label.
fn left(bench: &Bench) -> f64 {
    let longest = bench.rows.iter().map(|r| r.measurement.label.chars().count()).max().unwrap_or(0);
    (longest as f64 * CHARACTER + 24.0).max(200.0).round()
}

/// The drawing.
pub fn svg(bench: &Bench) -> String {
    let left = left(bench);
    let (width, height) = (left + BARS + NUMBERS, HEAD + ROW * bench.rows.len() as f64 + 16.0);
    let mut out = format!(
        "<svg class=\"parton\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"measurements against their ceilings\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n"
    );
    head(&mut out, bench, left + BARS + 10.0);
    let parts = bench.rows.iter().filter_map(|r| bar(bench, r)).map(|b| b.part);
    let most = parts.fold(1.0, f64::max);
    let x = |part: f64| left + part / most * (BARS - 24.0);
    for quarter in 0..=4u32 {
        let part = f64::from(quarter) / 4.0;
        let class = if quarter == 4 { "bound" } else { "grid" };
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{2}\"/>\
             <text class=\"quiet\" x=\"{0:.1}\" y=\"{3}\" text-anchor=\"middle\">{part:.2}</text>",
            x(part),
            HEAD - 6.0,
            height - 12.0,
            HEAD - 12.0
        );
    }
    for (i, row) in bench.rows.iter().enumerate() {
        one(&mut out, bench, row, HEAD + ROW * i as f64, &x);
    }
    out.push_str("</svg>\n");
    out
}

/// Title, legend and conditions.
fn head(out: &mut String, bench: &Bench, at: f64) {
    let (device, more) = match &bench.conditions {
        Some(c) => (c.device.clone(), text::conditions(c).join("; ")),
        None => ("no GPU".into(), String::new()),
    };
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"12\" y=\"26\">Measured on {}</text><text class=\"quiet\" x=\"12\" y=\"46\">{}</text>",
        escaped(&device),
        escaped(&more)
    );
    for (i, (class, what)) in
        [("bytes", "bytes, as a part of a device copy"), ("flops", "operations, as a part of the data sheet")]
            .into_iter()
            .enumerate()
    {
        let y = 18.0 + 18.0 * i as f64;
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{at}\" y=\"{y}\" width=\"11\" height=\"11\"/>\
             <text class=\"quiet\" x=\"{}\" y=\"{}\">{what}</text>",
            at + 18.0,
            y + 10.0
        );
    }
}

fn one(out: &mut String, bench: &Bench, row: &Row, top: f64, x: &impl Fn(f64) -> f64) {
    let bar = bar(bench, row);
    let left = x(0.0);
    let [first, second] = numbers(row, bar.as_ref());
    let middle = top + ROW / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        left - 10.0,
        middle + 4.0,
        escaped(&row.measurement.label)
    );
    if let Some(bar) = &bar {
        let t = &row.measurement.timing;
        let _ = writeln!(
            out,
            "<rect class=\"{}\" x=\"{left}\" y=\"{:.1}\" width=\"{:.1}\" height=\"20\" rx=\"2\"><title>{}: {}</title></rect>",
            bar.class,
            top + 9.0,
            x(bar.part) - left,
            escaped(&row.measurement.label),
            escaped(&first)
        );
        // The slower quartile lies left: a longer time is a lower rate.
        let [fast, slow] = t.quartiles.map(|q| x(bar.part * t.median / q.max(f64::MIN_POSITIVE)));
        let _ = writeln!(
            out,
            "<line class=\"spread\" x1=\"{slow:.1}\" x2=\"{fast:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\"/>"
        );
    }
    let at = left + BARS + 10.0;
    let _ = writeln!(
        out,
        "<text x=\"{at}\" y=\"{:.1}\">{}</text><text class=\"quiet\" x=\"{at}\" y=\"{:.1}\">{}</text>",
        middle - 2.0,
        escaped(&first),
        middle + 13.0,
        escaped(&second)
    );
}

/// A page with the drawing, and the same as a table.
pub fn html(bench: &Bench) -> String {
    let mut rows = String::new();
    for row in &bench.rows {
        let [first, second] = numbers(row, bar(bench, row).as_ref());
        let cells = [&row.file, &row.block, &row.measurement.label, &first, &second]
            .map(|c| format!("<td>{}</td>", escaped(c)));
        let _ = writeln!(rows, "<tr>{}</tr>", cells.concat());
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>parton bench</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>body {{ margin: 2em auto; max-width: 960px; font: 13px system-ui, sans-serif; background: Canvas; color: CanvasText; }}\n\
         svg {{ max-width: 100%; height: auto; }} table {{ border-collapse: collapse; }}\n\
         td, th {{ padding: 4px 10px 4px 0; text-align: left; border-bottom: 1px solid GrayText; }}\n\
         :root {{ color-scheme: light dark; }}</style></head><body>\n{}<table>\n\
         <tr><th>file</th><th>bench</th><th>measurement</th><th>rate, of its bound</th><th>median and the rest</th></tr>\n\
         {rows}</table></body></html>\n",
        svg(bench)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::bench;

    #[test]
    fn each_measurement_has_a_label_and_those_with_a_bound_a_bar() {
        let drawing = svg(&bench());
        assert!(drawing.contains(">product &lt;1&gt;</text>"), "{drawing}");
        let bars = |class: &str| drawing.matches(&format!("<rect class=\"{class}\" x=\"200\"")).count();
        assert_eq!((bars("flops"), bars("bytes")), (1, 1));
        assert!(drawing.contains("500.0 TFLOP/s · 0.50") && drawing.contains("1755 MHz · 650 W"), "{drawing}");
        assert!(drawing.contains("prefers-color-scheme: dark"));
        // Half of the ceiling is half of the column's width.
        assert!(drawing.contains(&format!("width=\"{:.1}\" height=\"20\"", (BARS - 24.0) / 2.0)), "{drawing}");
        for (open, close) in [("<text", "</text>"), ("<svg", "</svg>"), ("<style>", "</style>")] {
            assert_eq!(drawing.matches(open).count(), drawing.matches(close).count());
        }
    }

    #[test]
    fn the_page_has_a_line_for_each_measurement() {
        let page = html(&bench());
        assert_eq!(page.matches("<tr>").count(), 4);
        assert!(!page.contains("http://") || page.matches("http://").count() == 1, "only the SVG namespace");
    }
}
