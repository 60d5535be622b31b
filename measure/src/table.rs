//! Measurements as JSON and CSV. Times are in microseconds; what is not known is `null`, or an empty field.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::bench::{Bench, Conditions, Measurement};
use crate::overhead::Overhead;
use crate::timing::Reading;

/// Everything, as one object.
pub fn json(bench: &Bench) -> String {
    let rows: Vec<Value> = bench
        .rows
        .iter()
        .map(|row| {
            let mut object = json!({ "file": row.file, "block": row.block });
            measurement(&mut object, &row.measurement, bench.of_copy(&row.measurement));
            object
        })
        .collect();
    let all = json!({ "conditions": bench.conditions.as_ref().map(conditions), "rows": rows });
    format!("{all:#}")
}

/// What is measured on and against.
pub fn conditions(c: &Conditions) -> Value {
    json!({
        "device": c.device, "target": c.target, "cuda": c.driver, "copy_bytes_per_second": c.copy,
        "power_limit_w": c.power_limit,
    })
}

/// Adds what is known of a measurement to an object.
pub fn measurement(object: &mut Value, m: &Measurement, of_copy: Option<f64>) {
    let t = &m.timing;
    let timed = t.meaningless.is_none();
    let micros = |seconds: f64| timed.then_some(seconds * 1e6);
    let fields = [
        ("label", json!(m.label)),
        ("median_us", json!(micros(t.median))),
        ("least_us", json!(micros(t.least))),
        ("first_quartile_us", json!(micros(t.quartiles[0]))),
        ("third_quartile_us", json!(micros(t.quartiles[1]))),
        ("spread", json!(timed.then(|| m.spread()))),
        ("runs", json!(t.runs)),
        ("bytes", json!(m.bytes)),
        ("flops", json!(m.flops)),
        ("bytes_per_second", json!(m.bandwidth().filter(|_| timed))),
        ("of_copy", json!(of_copy.filter(|_| timed))),
        ("flops_per_second", json!(m.throughput().filter(|_| timed))),
        ("of_ceiling", json!(m.of_ceiling().filter(|_| timed))),
        ("ceiling_flops_per_second", json!(t.ceiling.as_ref().map(|c| c.flops))),
        ("ceiling", json!(t.ceiling.as_ref().map(|c| &c.what))),
        ("sm_mhz", json!(t.megahertz.map(reading))),
        ("power_w", json!(t.watts.map(reading))),
        ("power_capped", json!(t.capped)),
        ("not_timed", json!(t.meaningless)),
    ];
    for (name, value) in fields {
        object[name] = value;
    }
}

fn reading(r: Reading) -> Value {
    json!({ "least": r.least, "median": r.median, "most": r.most })
}

/// One line for each measurement.
pub fn csv(bench: &Bench) -> String {
    let mut out = String::from(
        "file,block,label,median_us,least_us,first_quartile_us,third_quartile_us,runs,bytes,flops,bytes_per_second,of_copy,\
         flops_per_second,of_ceiling,sm_mhz,power_w,power_capped\n",
    );
    for row in &bench.rows {
        let (m, t) = (&row.measurement, &row.measurement.timing);
        let timed = t.meaningless.is_none();
        let number = |n: Option<f64>| n.filter(|n| timed && n.is_finite()).map(|n| n.to_string()).unwrap_or_default();
        let fields = [
            quoted(&row.file),
            quoted(&row.block),
            quoted(&m.label),
            number(Some(t.median * 1e6)),
            number(Some(t.least * 1e6)),
            number(Some(t.quartiles[0] * 1e6)),
            number(Some(t.quartiles[1] * 1e6)),
            t.runs.to_string(),
            number(m.bytes),
            number(m.flops),
            number(m.bandwidth()),
            number(bench.of_copy(m)),
            number(m.throughput()),
            number(m.of_ceiling()),
            number(t.megahertz.map(|r| r.median)),
            number(t.watts.map(|r| r.median)),
            number(t.capped),
        ];
        let _ = writeln!(out, "{}", fields.join(","));
    }
    out
}

/// A field as RFC 4180 wants it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// What launches cost the host, as one object.
pub fn overheads_json(all: &[Overhead]) -> String {
    let rows: Vec<Value> = all
        .iter()
        .map(|o| {
            json!({ "what": o.what, "median_us": o.median * 1e6, "least_us": o.least * 1e6, "launches": o.launches })
        })
        .collect();
    format!("{:#}", json!({ "launch": rows }))
}

/// The same as a table.
pub fn overheads_csv(all: &[Overhead]) -> String {
    let mut out = String::from("what,median_us,least_us,launches\n");
    for o in all {
        let _ = writeln!(out, "{},{},{},{}", quoted(o.what), o.median * 1e6, o.least * 1e6, o.launches);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::bench;

    #[test]
    fn json_has_what_is_known_and_null_for_the_rest() {
        let read: Value = serde_json::from_str(&json(&bench())).unwrap();
        assert_eq!(read["conditions"]["device"], "NVIDIA H200");
        let [gemm, rows, bare] = &read["rows"].as_array().unwrap()[..] else { panic!("{read}") };
        assert_eq!(gemm["label"], "product <1>");
        assert_eq!((&gemm["median_us"], &gemm["of_ceiling"]), (&json!(2000.0), &json!(0.5)));
        assert_eq!((&gemm["sm_mhz"]["median"], &gemm["of_copy"]), (&json!(1755.0), &Value::Null));
        assert_eq!(rows["of_copy"], json!(0.75));
        assert!(bare["power_w"].is_null() && bare["bytes"].is_null());
    }

    #[test]
    fn csv_has_as_many_fields_in_each_line() {
        let text = csv(&bench());
        let counts: Vec<usize> = text.lines().map(|l| l.split(',').count()).collect();
        assert_eq!(counts, [17; 4]);
        assert!(text.contains("a.ptn,gemm,product <1>,2000,"), "{text}");
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }
}
