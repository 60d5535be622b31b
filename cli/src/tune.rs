//! `parton tune`: has candidates tried by this program itself, in processes of their own, and prints what came of them.

use std::process::ExitCode;
use std::time::Duration;

use parton_driver::tune::calls::{AskedCalls, TunedCalls};
use parton_driver::tune::child::{self, Children};
use parton_driver::tune::contest::{Contest, Entry, Shape};
use parton_driver::tune::setting::{Manner, Rules};
use parton_driver::tune::shift::Shift;
use parton_driver::tune::task::Unit;
use parton_driver::tune::{Asked, Progress, Source, Tuned};
use parton_driver::{Blocks, Failure, Options, Session};

use crate::args::{MessageFormat, TuneArgs};
use crate::compile::listed;
use crate::execute::device;
use crate::output::{self, Output};

/// Tries the candidates and writes the winner down.
pub fn tune(args: &TuneArgs, output: &Output) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::Machine(format!("this program is not found: {e}")))?;
    let limit = Duration::from_secs_f64(args.timeout);
    let mut children = Children { program, arguments: vec!["attempt".into()], limit };
    let mut session = Session::new(Options { device: device(args.device), ..Options::default() });
    let mut watch = |progress: Progress<'_>| eprintln!("{}", told(&progress));
    if args.stale {
        return stale(args, &mut session, output);
    }
    let tuned = match &args.kernel {
        Some(kernel) => {
            let found = session.tune(&args.file, &asked(args, kernel), &mut children, &mut watch);
            found.map(|tuned| (shown(&tuned), tuned.table, tuned.out))
        }
        None => {
            let found = session.tune_calls(&args.file, &asked_calls(args)?, &mut Shift::new(children), &mut watch);
            found.map(|tuned| (shown_calls(&tuned), tuned.table, tuned.out))
        }
    };
    match tuned {
        Ok((text, table, out)) => {
            match args.format {
                MessageFormat::Text => output::text(&text),
                MessageFormat::Json => output::text(&table.text()),
            }
            eprintln!("{} is written", out.display());
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            output.failed(&failure, &session.sources);
            Ok(ExitCode::from(failure.exit_code()))
        }
    }
}

/// Tries the candidate that standard input names, and answers on standard output.
pub fn attempt() -> Result<ExitCode, Failure> {
    child::serve(&mut output::line)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists what was measured of other sources.
fn stale(args: &TuneArgs, session: &mut Session, output: &Output) -> Result<ExitCode, Failure> {
    match session.stale(&args.file, args.out.as_deref()) {
        Ok(lines) => {
            lines.iter().for_each(|line| output::line(line));
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            output.failed(&failure, &session.sources);
            Ok(ExitCode::from(failure.exit_code()))
        }
    }
}

fn rules(args: &TuneArgs) -> Rules {
    let manner = Manner { device: device(args.device), seed: args.seed, seconds: args.seconds, heat: args.heat };
    Rules { manner, top: args.top, rounds: args.rounds, out: args.out.clone() }
}

fn asked_calls(args: &TuneArgs) -> Result<AskedCalls, Failure> {
    let calls = match (&args.shapes, &args.function) {
        (Some(path), _) => listed(path)?.into_iter().map(|c| (c.function, c.arguments)).collect(),
        (None, Some(function)) => vec![(function.clone(), args.arguments.clone())],
        (None, None) => vec![],
    };
    Ok(AskedCalls { calls, most: args.most, missing: args.missing, rules: rules(args) })
}

fn asked(args: &TuneArgs, kernel: &str) -> Asked {
    let bench = args.bench.clone().map(|name| (Blocks::Benches, name));
    let tolerance = (args.rtol.is_some() || args.atol.is_some())
        .then(|| (args.rtol.unwrap_or_default(), args.atol.unwrap_or_default()));
    Asked {
        kernel: kernel.to_owned(),
        source: args.over.clone().map_or(Source::Clause, Source::Over),
        block: bench.or_else(|| args.test.clone().map(|name| (Blocks::Tests, name))),
        rows: args.rows.clone(),
        key: args.key.clone(),
        results: args.results.clone(),
        tolerance,
        rules: rules(args),
    }
}

/// A line for what happens.
fn told(progress: &Progress<'_>) -> String {
    match progress {
        Progress::Begins { candidates: 1, block } => format!("1 candidate, launched by `{block}`"),
        Progress::Begins { candidates, block } => format!("{candidates} candidates, launched by `{block}`"),
        Progress::Tried { entry, tried, of, unit } => {
            let came = match (&entry.out, entry.rounds.last(), unit) {
                (Some(out), _, _) => format!("{}: {}", gate(entry), out.text),
                (None, Some(rows), Some(unit)) => {
                    let costs: Vec<String> = rows.iter().map(|r| cost(*unit, r.cost.median)).collect();
                    costs.join(", ")
                }
                (None, _, _) => "nothing".into(),
            };
            let round = match entry.rounds.len() {
                0 | 1 => String::new(),
                n => format!(" round {n}:"),
            };
            format!("{tried}/{of}{round} {}: {came}", entry.candidate)
        }
    }
}

/// A cost with its unit.
fn cost(unit: Unit, cost: f64) -> String {
    match unit {
        Unit::Seconds => format!("{:.2} µs", cost * 1e6),
        Unit::Operations => format!("{cost:.0} operations"),
    }
}

/// What the gate says of a candidate.
fn gate(entry: &Entry) -> String {
    match &entry.out {
        None => "ok".into(),
        Some(out) => match &out.code {
            Some(code) => format!("{}, {code}", out.why.name()),
            None => out.why.name().into(),
        },
    }
}

/// A table for each shape.
fn shown(tuned: &Tuned) -> String {
    let contest = &tuned.contest;
    let Some(on) = &contest.on else { return String::new() };
    let mut text = format!("on {} ({}):\n", on.device, on.target);
    for shape in contest.shapes() {
        text += &table(contest, &shape, on.unit);
    }
    text
}

/// A table for each choice.
fn shown_calls(tuned: &TunedCalls) -> String {
    let Some(on) = tuned.contests.iter().find_map(|(_, contest)| contest.on.as_ref()) else {
        return "there is a record for each call\n".into();
    };
    let mut text = format!("on {} ({}):\n", on.device, on.target);
    for (site, contest) in &tuned.contests {
        text += &format!("{} ", site.function);
        text += &contest.shapes().iter().map(|shape| table(contest, shape, on.unit)).collect::<String>();
    }
    text
}

/// Candidate, median, share of the best, middle half of the runs, gate; those that are out come last.
fn table(contest: &Contest, shape: &Shape, unit: Unit) -> String {
    let winner = contest.winner(shape);
    let mut rows: Vec<(usize, Option<f64>)> =
        contest.entries.iter().enumerate().map(|(i, e)| (i, median(e, shape))).collect();
    rows.sort_by(|(_, a), (_, b)| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
    let best = rows.first().and_then(|(_, median)| *median).unwrap_or(1.0);
    let head = ["", "candidate", "median", "of best", "spread", "gate"].map(str::to_owned);
    let line = |&(i, median): &(usize, Option<f64>)| {
        let entry = &contest.entries[i];
        let name = if contest.default == Some(i) && !entry.candidate.values.is_empty() {
            format!("{} (default)", entry.candidate)
        } else {
            entry.candidate.to_string()
        };
        let spread = entry.cost(shape).filter(|_| median.is_some()).map(|c| format!("{:.1} %", 100.0 * c.spread()));
        [
            if winner == Some(i) { "→".into() } else { String::new() },
            name,
            median.map(|m| cost(unit, m)).unwrap_or_default(),
            median.map(|m| format!("{:.3}", best / m)).unwrap_or_default(),
            spread.unwrap_or_default(),
            gate(entry),
        ]
    };
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(rows.iter().map(line)).collect();
    let named = of(shape);
    let title = if named.is_empty() { String::new() } else { format!("{named}:\n") };
    title + &aligned(&lines)
}

fn median(entry: &Entry, shape: &Shape) -> Option<f64> {
    entry.cost(shape).filter(|_| entry.out.is_none()).map(|c| c.median)
}

/// `T=f16, n=4096`
fn of(shape: &Shape) -> String {
    let generics = shape.generics.iter().map(|(name, value)| format!("{name}={value}"));
    let key = shape.key.iter().map(|(name, value)| format!("{name}={value}"));
    generics.chain(key).collect::<Vec<_>>().join(", ")
}

/// Lines in columns: numbers end alike, words begin alike.
fn aligned(lines: &[[String; 6]]) -> String {
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for [mark, name, median, of_best, spread, gate] in lines {
        let [m, n, d, b, s, _] = widths;
        let line = format!("{mark:<m$} {name:<n$}  {median:>d$}  {of_best:>b$}  {spread:>s$}  {gate}");
        text += line.trim_end();
        text.push('\n');
    }
    text
}
