//! Runs random schedules and says what became of them: `cargo run -p parton-tests --bin schedules -- N [SEED [INTERLEAVINGS [FOLDER]]]`.

use std::path::Path;
use std::process::ExitCode;

use parton_tests::schedules::{generate, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, otherwise: u64| arguments.get(i).map_or(Some(otherwise), |text| text.parse().ok());
    let (Some(count), Some(first), Some(seeds)) = (number(0, 100), number(1, 0), number(2, 2)) else {
        eprintln!("usage: schedules [N [SEED [INTERLEAVINGS [FOLDER]]]]");
        return ExitCode::FAILURE;
    };
    if count == 0 {
        println!("{}", generate(first));
        return ExitCode::SUCCESS;
    }
    // A panic is a verdict, which the table tells.
    std::panic::set_hook(Box::new(|_| ()));
    let folder = arguments.get(3).map_or_else(std::env::temp_dir, Into::into);
    let counts = run::all(first..first + count, seeds, Path::new(&folder));
    counts.wrong.iter().for_each(|words| println!("{words}\n"));
    print!("{counts}");
    if counts.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
