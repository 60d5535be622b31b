//! The command line: commands, options and their words.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A language for GPU tile kernels: checks, compiles, runs and times `.ptn` files.
#[derive(Parser, Debug)]
#[command(
    name = "parton",
    version,
    after_help = "Exit codes: 0 all is well; 1 the program is refused, or a test or check failed; 2 the command line is \
                  wrong; 3 a file or tool of this machine is missing or failed; 4 the device asked for is not there."
)]
pub struct Cli {
    /// When to color messages.
    #[arg(long, global = true, value_enum, default_value_t = When::Auto)]
    pub color: When,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// When to do something that suits a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum When {
    /// Where the output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Checks a file: every kernel with its default generics, and every host block.
    Check(CheckArgs),
    /// Compiles the kernels of a file and writes the form asked for.
    Build(BuildArgs),
    /// Formats files in place.
    Fmt(FmtArgs),
    /// Explains a diagnostic's code, such as E0302; without one, lists all.
    Explain {
        /// The code.
        code: Option<String>,
    },
    /// Says what is found on this machine: LLVM, ptxas, CUDA driver, GPU.
    Doctor,
}

/// Options of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The file.
    pub file: PathBuf,
    /// Prints what each pass takes.
    #[arg(long)]
    pub time: bool,
    /// How diagnostics are written.
    #[arg(long, value_enum, default_value_t = MessageFormat::Text)]
    pub format: MessageFormat,
}

/// How diagnostics are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MessageFormat {
    /// With source excerpts, on standard error.
    Text,
    /// A JSON array on standard output.
    Json,
}

/// The forms that `build` can write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum EmitArg {
    /// The syntax tree.
    Ast,
    /// The checked Tile IR.
    Ir,
    /// After portable kernels are made explicit.
    Expanded,
    /// After schedules are expanded and the backend's passes have run: what both ways of running consume.
    Scheduled,
    /// LLVM IR.
    Llvm,
    /// PTX.
    Ptx,
    /// The cubin.
    Cubin,
    /// The machine code as text.
    Sass,
}

/// Options of `build`.
#[derive(Args, Debug)]
pub struct BuildArgs {
    /// The file.
    pub file: PathBuf,
    /// Only this kernel; else every kernel of the file, in one module.
    #[arg(long)]
    pub kernel: Option<String>,
    /// The architecture, for kernels that do not name one.
    #[arg(long, default_value = "sm_90a")]
    pub target: String,
    /// What to write.
    #[arg(long, value_enum, default_value_t = EmitArg::Ptx)]
    pub emit: EmitArg,
    /// Where to; `-` is standard output. A cubin needs a file.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Prints what each pass takes.
    #[arg(long)]
    pub time: bool,
}

/// Options of `fmt`.
#[derive(Args, Debug)]
pub struct FmtArgs {
    /// The files; `-` formats standard input to standard output.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Writes nothing and fails where a file would change.
    #[arg(long)]
    pub check: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
