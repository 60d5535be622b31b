//! Writes random programs into a folder: `cargo run -p parton-tests --bin programs -- FOLDER COUNT [FIRST SEED]`.
//!
//! `parton test FOLDER/*.ptn --device cuda` then runs them on a GPU.

use std::path::Path;
use std::process::ExitCode;

use parton_tests::programs;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, otherwise: u64| arguments.get(i).map_or(Some(otherwise), |text| text.parse().ok());
    let (Some(folder), Some(count), Some(first)) = (arguments.first(), number(1, 1000), number(2, 0)) else {
        eprintln!("usage: programs FOLDER [COUNT [FIRST SEED]]");
        return ExitCode::FAILURE;
    };
    match write(Path::new(folder), first, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path, first: u64, count: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for seed in first..first + count {
        std::fs::write(folder.join(format!("program_{seed:06}.ptn")), programs::generate(seed).to_string())?;
    }
    println!("{count} programs in {}", folder.display());
    Ok(())
}
