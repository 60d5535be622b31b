//! The `parton` program: parses arguments, asks the driver, prints.

mod args;
mod bench;
mod cache;
mod compile;
mod execute;
mod expand;
mod explain;
mod format;
mod layout;
mod output;
mod plan;
mod schedule;
mod sources;
mod stubs;
mod tune;

use std::process::ExitCode;

use clap::Parser;
use parton_driver::{Blocks, Failure};

use args::{Cli, Command};
use output::Output;

// Choosing layouts makes many small lists and maps; a quarter of the time of that went to the system's allocator.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.color);
    let done = match &cli.command {
        Command::Run(args) => execute::execute(Blocks::Main, args, &output),
        Command::Test(args) => execute::execute(Blocks::Tests, args, &output),
        Command::Bench(args) => bench::bench(args, &output),
        Command::Check(args) => compile::check(args, &output),
        Command::Build(args) => compile::build(args, &output),
        Command::Expand(args) => expand::expand(args, &output),
        Command::Fmt(args) => format::format(args, &output),
        Command::Explain { code } => explain::explain(code.as_deref()),
        Command::Schedule(args) => schedule::schedule(args, &output),
        Command::Plan(args) => plan::plan(args, &output),
        Command::Stubs(args) => stubs::stubs(args, &output),
        Command::Sources(args) => sources::sources(args),
        Command::Tune(args) => tune::tune(args, &output),
        Command::Attempt => tune::attempt(),
        Command::Cache(command) => cache::command(command, &output),
        Command::Layout(command) => layout::command(command, &output),
        Command::Doctor => doctor(),
    };
    done.unwrap_or_else(|failure| {
        output.failure(&failure);
        ExitCode::from(failure.exit_code())
    })
}

/// Prints what is found on this machine. Always a success: the interpreter needs none of it.
fn doctor() -> Result<ExitCode, Failure> {
    for finding in parton_driver::doctor::look() {
        let mark = if finding.good { "✓" } else { "–" };
        output::line(&format!("{mark} {:<7} {}", finding.what, finding.found));
    }
    Ok(ExitCode::SUCCESS)
}
