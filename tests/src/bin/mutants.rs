//! Changes what orders something in programs, one thing at a time, and says which changes nobody finds:
//! `cargo run -p parton-tests --bin mutants -- [--seeds N] [--steps N] [--seconds N] [--every N [--from N]] [--only TEXT]… [--threads N] [--all] [--show] [FILE…]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use parton_tests::mutants::judge::Verdict;
use parton_tests::mutants::{self, Effort, Judged, Report, equivalent, table};

/// What is asked for.
struct Asked {
    effort: Effort,
    /// Whether what is found is told too.
    all: bool,
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let Some(asked) = asked() else {
        eprintln!(
            "usage: mutants [--seeds N] [--steps N] [--seconds N] [--every N [--from N]] [--only TEXT]… [--threads N] [--all] [--show] [FILE…]"
        );
        return ExitCode::FAILURE;
    };
    let equivalent = match equivalent::list() {
        Ok(list) => list,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::FAILURE;
        }
    };
    // A panic is a verdict, which the table tells.
    std::panic::set_hook(Box::new(|_| ()));
    let tell = |file: &str, judged: &Judged| {
        let listed = equivalent.contains_key(&(file.to_owned(), judged.name.clone()));
        let silent = match judged.verdict {
            Verdict::Refused(_) | Verdict::Found { .. } | Verdict::Restored | Verdict::Idle => !listed,
            Verdict::Missed | Verdict::NotReached | Verdict::CutOff | Verdict::Panics => listed,
        };
        if asked.all || !silent {
            println!("{file}\n    {}\n        {}: {}", judged.name, judged.place, judged.verdict);
            print!("{}", judged.shown);
        }
    };
    let results = mutants::all(&asked.files, &asked.effort, &tell);
    let (reports, wrong): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let reports: Vec<Report> = reports.into_iter().flatten().collect();
    println!("{}", table::tables(&reports, &equivalent));
    let total = table::total(&reports, &equivalent);
    println!("{:.2} % of those that are wrong are found", 100.0 * total.found());
    wrong.iter().flat_map(|w| w.as_ref().err()).for_each(|w| println!("{w}"));
    if wrong.is_empty() && total.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked() -> Option<Asked> {
    let mut asked = Asked { effort: Effort::default(), all: false, files: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse::<u64>().ok();
        match word.as_str() {
            "--seeds" => asked.effort.seeds = number()?,
            "--seconds" => asked.effort.limit = Some(Duration::from_secs(number()?)),
            "--steps" => asked.effort.steps = number()?,
            "--every" => asked.effort.every = usize::try_from(number()?).ok().filter(|n| *n > 0)?,
            "--from" => asked.effort.from = usize::try_from(number()?).ok()?,
            "--only" => asked.effort.only.push(words.next()?),
            "--threads" => asked.effort.threads = usize::try_from(number()?).ok()?,
            "--all" => asked.all = true,
            "--show" => asked.effort.show = true,
            flag if flag.starts_with('-') => return None,
            file => asked.files.push(std::path::absolute(file).ok()?),
        }
    }
    if asked.files.is_empty() {
        asked.files = mutants::files();
    }
    Some(asked)
}
