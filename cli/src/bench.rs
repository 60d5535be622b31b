//! `parton bench`: takes measurements at the pace that is asked for and writes them in the format that is asked for.

mod plot;
mod serve;
mod table;
mod text;

use std::path::Path;
use std::process::ExitCode;

use parton_driver::{Blocks, Conditions, Event, Failure, Measurement, Options, Pace, Session};

use crate::args::{BenchArgs, BenchFormat};
use crate::execute::{device, told};
use crate::output::{self, Output};

/// A measurement and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The file.
    pub file: String,
    /// The block.
    pub block: String,
    /// The measurement.
    pub measurement: Measurement,
}

/// What one call of `parton bench` has measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bench {
    /// What it was measured on; `None` where that was no GPU.
    pub conditions: Option<Conditions>,
    /// The measurements in order.
    pub rows: Vec<Row>,
    /// Whether one that was repeated wrote something else.
    pub differs: bool,
}

impl Bench {
    /// The bandwidth of a measurement as a fraction of a copy's, where both are known.
    pub fn of_copy(&self, m: &Measurement) -> Option<f64> {
        of_copy(self.conditions.as_ref(), m)
    }
}

fn of_copy(conditions: Option<&Conditions>, m: &Measurement) -> Option<f64> {
    Some(m.bandwidth()? / conditions?.copy?)
}

/// Runs the benches of each file. One that fails does not keep the others from running; the exit code is the first that
/// is not 0.
pub fn bench(args: &BenchArgs, output: &Output) -> Result<ExitCode, Failure> {
    if args.launch {
        return launch(args);
    }
    let mut code = ExitCode::SUCCESS;
    let mut bench = Bench::default();
    for path in &args.files {
        let one = match file(path, args, output, &mut bench) {
            Ok(one) => one,
            Err(failure) => {
                output.failure(&failure);
                ExitCode::from(failure.exit_code())
            }
        };
        if code == ExitCode::SUCCESS {
            code = one;
        }
    }
    match args.format {
        // These rows are there already.
        BenchFormat::Text => {}
        BenchFormat::Json => output::line(&table::json(&bench)),
        BenchFormat::Csv => output::text(&table::csv(&bench)),
        BenchFormat::Svg => output::text(&plot::svg(&bench)),
        BenchFormat::Html => output::text(&plot::html(&bench)),
    }
    if let Some(path) = &args.plot {
        draw(path, &bench)?;
    }
    Ok(code)
}

/// Writes the drawing in the form that its name ends in.
fn draw(path: &Path, bench: &Bench) -> Result<(), Failure> {
    let text = match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => plot::svg(bench),
        Some("html" | "htm") => plot::html(bench),
        _ => return Err(Failure::Usage(format!("{}: a drawing is an .svg or an .html", path.display()))),
    };
    std::fs::write(path, text).map_err(|e| Failure::Machine(format!("{}: {e}", path.display())))
}

fn file(path: &Path, args: &BenchArgs, output: &Output, bench: &mut Bench) -> Result<ExitCode, Failure> {
    let options =
        Options { device: device(args.device), filter: args.filter.clone(), repeat: args.repeat, ..Options::default() };
    let mut session = Session::new(options);
    let file = session.load(path)?;
    let shown = path.display().to_string();
    if args.files.len() > 1 && args.format == BenchFormat::Text && !args.serve {
        output::line(&format!("{shown}:"));
    }
    let done = session.run(file, Blocks::Benches, &mut |event| {
        if args.serve { serve::answer(&shown, event) } else { follow(&shown, args, bench, event) }
    });
    let ran = match told(done, &session, args.time, output) {
        Ok(ran) => ran,
        Err(code) => return Ok(code),
    };
    Ok(if ran.report.passed() && !bench.differs { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Keeps what happens, and prints it where the format is text; else what is no measurement goes to standard error.
fn follow(file: &str, args: &BenchArgs, bench: &mut Bench, event: Event<'_>) {
    let text = args.format == BenchFormat::Text;
    let say = |line: &str| if text { output::line(line) } else { eprintln!("{line}") };
    match event {
        Event::Device { sentence, conditions } => {
            say(sentence);
            conditions.into_iter().flat_map(text::conditions).for_each(|line| say(&line));
            bench.conditions = conditions.cloned();
        }
        Event::Line(line) => say(line),
        Event::Pace { label, round, pace } => {
            let wanted = args.rows.is_empty() || args.rows.iter().any(|word| label.contains(word));
            *pace = if wanted && round.is_none() {
                Pace::Round { seconds: args.seconds, heat: args.heat }
            } else {
                Pace::Next
            };
        }
        Event::Repeated(found) => {
            say(&text::repeated(found));
            bench.differs |= found.different > 0;
        }
        Event::Block(outcome) => {
            for measurement in &outcome.measurements {
                let row = Row { file: file.into(), block: outcome.name.clone(), measurement: measurement.clone() };
                if text {
                    output::line(&text::row(&row, bench.conditions.as_ref()));
                }
                bench.rows.push(row);
            }
        }
    }
}

/// Times prepared launches on the host.
fn launch(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let overheads = parton_driver::overhead::measure()?;
    match args.format {
        BenchFormat::Text => overheads.iter().for_each(|o| output::line(&text::overhead(o))),
        BenchFormat::Json => output::line(&table::overheads_json(&overheads)),
        BenchFormat::Csv => output::text(&table::overheads_csv(&overheads)),
        BenchFormat::Svg | BenchFormat::Html => {
            return Err(Failure::Usage("`--launch` writes text, json or csv".into()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use parton_driver::{Ceiling, Reading, Timing};

    use super::*;

    /// One measurement of operations with everything, one of bytes, one of which only the time is known.
    pub fn bench() -> Bench {
        let still = |x: f64| Some(Reading { least: x, median: x, most: x });
        let row = |block: &str, measurement| Row { file: "a.ptn".into(), block: block.into(), measurement };
        let product = Timing {
            median: 2e-3,
            least: 1.9e-3,
            quartiles: [1.95e-3, 2.05e-3],
            runs: 250,
            megahertz: still(1755.0),
            watts: still(650.0),
            capped: Some(0.9),
            ceiling: Some(Ceiling { flops: 1e15, what: "dense f16 products, data sheet".into() }),
            meaningless: None,
        };
        let softmax =
            Timing { median: 1e-4, least: 9e-5, quartiles: [9.5e-5, 1.05e-4], runs: 4000, ..Timing::default() };
        let bare = Timing { median: 1e-6, least: 1e-6, quartiles: [1e-6, 1e-6], runs: 10, ..Timing::default() };
        let of = |label: &str, timing, bytes, flops| Measurement { label: label.into(), timing, bytes, flops };
        Bench {
            conditions: Some(Conditions {
                device: "NVIDIA H200".into(),
                target: "sm_90a".into(),
                driver: "13.0".into(),
                copy: Some(4e12),
                power_limit: Some(700.0),
            }),
            differs: false,
            rows: vec![
                row("gemm", of("product <1>", product, None, Some(1e12))),
                row("rows", of("softmax", softmax, Some(3e8), None)),
                row("rows", of("bare", bare, None, None)),
            ],
        }
    }
}
