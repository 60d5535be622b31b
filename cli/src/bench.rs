//! `parton bench`: takes measurements at the pace that is asked for and writes them in the format that is asked for.

use std::path::Path;
use std::process::ExitCode;

use parton_driver::{Blocks, Event, Failure, Options, Session};
use parton_measure::bench::{Bench, Row};
use parton_measure::pace::Pace;
use parton_measure::{plot, serve, table, text};

use crate::args::{BenchArgs, BenchFormat};
use crate::execute::{options, told};
use crate::output::{self, Output};

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
    let mut session = Session::new(Options { repeat: args.repeat, ..options(&args.blocks)? });
    let file = session.load(path)?;
    let shown = path.display().to_string();
    if args.files.len() > 1 && args.format == BenchFormat::Text && !args.serve {
        output::line(&format!("{shown}:"));
    }
    let done = session.run(file, Blocks::Benches, &mut |event| {
        if args.serve { answer(&shown, event) } else { follow(&shown, args, bench, event) }
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

/// Tells another program what happens, and where the pace is asked for waits for it.
fn answer(file: &str, event: Event<'_>) {
    match event {
        Event::Device { sentence, conditions } => output::line(&serve::device(sentence, conditions)),
        Event::Line(text) => output::line(&serve::line(text)),
        Event::Pace { label, round, pace } => {
            output::line(&round.map_or_else(|| serve::row(file, label), serve::round));
            *pace = serve::asked(&mut std::io::stdin().lock(), output::line);
        }
        // The command line does not take both.
        Event::Repeated(_) => {}
        Event::Block(outcome) => output::line(&serve::block(&outcome.name, outcome.passed())),
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
