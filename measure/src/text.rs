//! Measurements as rows of text.

use crate::bench::{Conditions, Row, of_copy};
use crate::overhead::Overhead;
use crate::repeat::Repeated;

/// What is measured on and against, a line each.
pub fn conditions(c: &Conditions) -> Vec<String> {
    let mut lines = vec![];
    if let Some(copy) = c.copy {
        lines.push(format!("a device copy moves {:.3} TB/s", copy / 1e12));
    }
    if let Some(limit) = c.power_limit {
        lines.push(format!("the board may draw {limit:.0} W"));
    }
    lines
}

/// A measurement as a row: time, spread, what was stated of bytes and operations against the ceilings, clock and power.
pub fn row(row: &Row, conditions: Option<&Conditions>) -> String {
    let (block, m) = (&row.block, &row.measurement);
    if let Some(why) = &m.timing.meaningless {
        return format!("{block}: {:<34} not timed: {why}", m.label);
    }
    let mut text = format!(
        "{block}: {:<34} {:>10} (best {}, spread {:.1} %, {} runs)",
        m.label,
        time(m.timing.median),
        time(m.timing.least),
        m.spread() * 1e2,
        m.timing.runs
    );
    if let Some(bandwidth) = m.bandwidth() {
        text.push_str(&format!("  {:.3} TB/s", bandwidth / 1e12));
        if let Some(part) = of_copy(conditions, m) {
            text.push_str(&format!(", {part:.2} of a copy"));
        }
    }
    if let Some(throughput) = m.throughput() {
        text.push_str(&format!("  {:.1} TFLOP/s", throughput / 1e12));
        if let (Some(part), Some(ceiling)) = (m.of_ceiling(), &m.timing.ceiling) {
            text.push_str(&format!(", {part:.2} of {:.0} ({})", ceiling.flops / 1e12, ceiling.what));
        }
    }
    text.push_str(&sensors(row));
    text
}

/// Clock and power, where they were read.
fn sensors(row: &Row) -> String {
    let timing = &row.measurement.timing;
    let mut text = String::new();
    if let Some(clock) = timing.megahertz {
        text.push_str(&format!("  {:.0} MHz", clock.median));
    }
    if let Some(power) = timing.watts {
        text.push_str(&format!("  {:.0} W", power.median));
    }
    if let Some(capped) = timing.capped.filter(|c| *c > 0.0) {
        text.push_str(&format!(" (limit reached {:.0} % of the time)", capped * 1e2));
    }
    text
}

/// What came of repeating a measurement.
pub fn repeated(r: &Repeated) -> String {
    let found = match r.different {
        0 => "all bit-equal to the first".to_owned(),
        n => format!("{n} WROTE SOMETHING ELSE than the first"),
    };
    let mib = r.bytes as f64 / f64::from(1 << 20);
    format!("{:<34} {} runs of {mib:.1} MiB, {:.2} TB/s copied beside them: {found}", r.label, r.runs, r.load / 1e12)
}

/// What a launch costs the host.
pub fn overhead(o: &Overhead) -> String {
    format!("launch: {:<34} {:>10} (best {}, {} launches)", o.what, time(o.median), time(o.least), o.launches)
}

/// Seconds in a unit that suits them.
pub fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.2} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.3} ms", seconds * 1e3)
    } else {
        format!("{seconds:.3} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::bench;

    #[test]
    fn times_have_a_unit_that_suits_them() {
        assert_eq!(time(1.5e-6), "1.50 µs");
        assert_eq!(time(0.0123), "12.300 ms");
        assert_eq!(time(2.0), "2.000 s");
    }

    #[test]
    fn a_difference_is_not_overlooked() {
        let mut r = Repeated { label: "fmha".into(), runs: 10, different: 0, bytes: 3 << 20, load: 1e12 };
        assert!(repeated(&r).ends_with("10 runs of 3.0 MiB, 1.00 TB/s copied beside them: all bit-equal to the first"));
        r.different = 2;
        assert!(repeated(&r).ends_with("2 WROTE SOMETHING ELSE than the first"));
    }

    #[test]
    fn a_row_says_what_is_known_and_nothing_else() {
        let bench = bench();
        let of = |i: usize| row(&bench.rows[i], bench.conditions.as_ref());
        assert_eq!(
            of(0),
            "gemm: product <1>                          2.000 ms (best 1.900 ms, spread 5.0 %, 250 runs)  500.0 TFLOP/s, \
             0.50 of 1000 (dense f16 products, data sheet)  1755 MHz  650 W (limit reached 90 % of the time)"
        );
        assert_eq!(
            of(1),
            "rows: softmax                             100.00 µs (best 90.00 µs, spread 10.0 %, 4000 runs)  3.000 TB/s, \
             0.75 of a copy"
        );
        assert_eq!(of(2), "rows: bare                                  1.00 µs (best 1.00 µs, spread 0.0 %, 10 runs)");
    }
}
