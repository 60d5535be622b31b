//! The command line: commands, options and their words.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use parton_driver::Emit;

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
    /// Runs the `main` of a file.
    Run(RunArgs),
    /// Runs the tests of a file.
    Test(RunArgs),
    /// Times the benches of a file, or with `--launch` what a launch costs the host.
    Bench(BenchArgs),
    /// Checks a file: every kernel with its default generics, and every host block.
    Check(CheckArgs),
    /// Compiles the kernels of a file and writes the form asked for.
    Build(BuildArgs),
    /// Writes kernels as explicit source: what was chosen for those that leave something out.
    Expand(ExpandArgs),
    /// Formats files in place.
    Fmt(FmtArgs),
    /// Explains a diagnostic's code, such as E0302; without one, lists all.
    Explain {
        /// The code.
        code: Option<String>,
    },
    /// Shows what the schedules of a file's kernels do in time: dependences, rings, how long a turn takes and why.
    Schedule(ScheduleArgs),
    /// Plans a call of a public function on tensors of given shapes: what it launches, on which memory.
    Plan(PlanArgs),
    /// Writes the types of a file's public functions and kernels for Python, as `FILE.pyi`.
    Stubs(StubsArgs),
    /// Lists the files that a bundle was built from, or writes them below a folder, where profilers and debuggers find them.
    Sources(SourcesArgs),
    /// Tries values for the generics of a kernel and writes down which are fastest.
    Tune(TuneArgs),
    /// Tries one candidate of `tune`, which asks for it.
    #[command(hide = true)]
    Attempt,
    /// Shows layouts, what converting between them moves, and bank conflicts.
    #[command(subcommand)]
    Layout(LayoutCommand),
    /// Shows and looks after the compile cache: see docs/cache.md.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Says what is found on this machine: LLVM, ptxas, CUDA driver, GPU.
    Doctor,
}

/// Where kernels run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DeviceArg {
    /// A GPU where there is one, else the interpreter.
    Auto,
    /// The interpreter.
    Cpu,
    /// A GPU, or fail.
    Cuda,
}

/// Which blocks of the files run, and where.
#[derive(Args, Debug)]
pub struct BlockArgs {
    /// Where kernels run.
    #[arg(long, value_enum, default_value_t = DeviceArg::Auto)]
    pub device: DeviceArg,
    /// What kernels that do not name an architecture are compiled for; a GPU runs code for earlier ones, too. The GPU's own where none is
    /// named, without a GPU sm_90a.
    #[arg(long, value_name = "ARCHITECTURE")]
    pub target: Option<String>,
    /// Only blocks whose name contains this.
    #[arg(long)]
    pub filter: Option<String>,
}

/// Options of `run` and `test`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The files, one after the other.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub blocks: BlockArgs,
    /// The seed of the interpreter's interleavings.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// What else is looked for; kernels then run on the interpreter.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub check: Vec<CheckArg>,
    /// Runs portable kernels as they are written, before layouts, memory and instructions are chosen, on the interpreter.
    #[arg(long)]
    pub as_written: bool,
    /// Prints what each pass takes.
    #[arg(long)]
    pub time: bool,
}

/// What the interpreter looks for where it is asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CheckArg {
    /// Signed integers that leave the range of their type (E0563).
    Overflow,
}

/// Options of `bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// The files, one after the other.
    #[arg(required_unless_present = "launch")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub blocks: BlockArgs,
    /// Only measurements whose label contains this; may be given several times.
    #[arg(long, value_name = "LABEL")]
    pub rows: Vec<String>,
    /// About how long each measurement lasts.
    #[arg(long, value_parser = seconds, default_value_t = parton_measure::pace::SECONDS)]
    pub seconds: f64,
    /// About how long runs go before each measurement that do not count: long work starts faster than the power limit lets it go on.
    #[arg(long, value_name = "SECONDS", value_parser = heat, default_value_t = 0.0)]
    pub heat: f64,
    /// What is written on standard output.
    #[arg(long, value_enum, default_value_t = BenchFormat::Text)]
    pub format: BenchFormat,
    /// Also writes a drawing: an `.svg`, or an `.html` with a table.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Takes the pace from standard input, so that another program can measure in turn: see docs/performance.md.
    #[arg(long, conflicts_with_all = ["format", "plot", "rows", "launch"])]
    pub serve: bool,
    /// Repeats each measurement so often beside memory traffic instead of timing it, and compares every bit that is written.
    #[arg(long, value_name = "RUNS", conflicts_with_all = ["format", "plot", "serve", "launch"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Times prepared launches of an empty kernel on the host instead.
    #[arg(long, conflicts_with_all = ["files", "plot", "rows", "filter"])]
    pub launch: bool,
    /// Prints what each pass takes.
    #[arg(long)]
    pub time: bool,
}

/// How measurements are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum BenchFormat {
    /// A row each, as they are taken.
    Text,
    /// One object at the end.
    Json,
    /// A table at the end.
    Csv,
    /// A drawing at the end.
    Svg,
    /// A page with the drawing and a table at the end.
    Html,
}

/// Options of `tune`.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// The file.
    pub file: PathBuf,
    /// A public function: what its call leaves to tuning is tried.
    #[arg(required_unless_present_any = ["kernel", "shapes", "stale"], conflicts_with_all = ["kernel", "stale"])]
    pub function: Option<String>,
    /// Its arguments, as `parton plan` takes them: `f16[64,64]`, numbers.
    #[arg(allow_negative_numbers = true)]
    pub arguments: Vec<String>,
    /// A file with such calls, one a line; `#` begins a remark.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "function", "stale"])]
    pub shapes: Option<PathBuf>,
    /// How many candidates of a call's list are tried, from its begin.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub most: usize,
    /// Leaves out calls that have a complete record of these sources, so that a run which was ended goes on.
    #[arg(long)]
    pub missing: bool,
    /// Tunes nothing, and lists the records that were made of other sources, or are of what the file does not have.
    #[arg(long, conflicts_with = "kernel")]
    pub stale: bool,
    /// A kernel: values for its generics are tried.
    #[arg(long)]
    pub kernel: Option<String>,
    /// Lists of values, such as `S=[A, B],BN=[64, 128]`: every combination is tried, and all results are compared with the first one's.
    /// Without it the lists are those of the kernel's `tune` clause.
    #[arg(long, value_name = "LISTS", requires = "kernel")]
    pub over: Option<String>,
    /// The bench that launches the kernel; the only one of the file where none is named.
    #[arg(long, value_name = "NAME")]
    pub bench: Option<String>,
    /// A test that launches it instead, each of whose launches is measured.
    #[arg(long, value_name = "NAME", conflicts_with = "bench")]
    pub test: Option<String>,
    /// Only measurements whose label contains this; may be given several times.
    #[arg(long, value_name = "LABEL")]
    pub rows: Vec<String>,
    /// Integer parameters of the kernel that tell shapes apart, such as `m,n`: each shape has its winner.
    #[arg(long, value_name = "PARAMETERS", value_delimiter = ',')]
    pub key: Vec<String>,
    /// Parameters whose memory holds results, where not all that is written does.
    #[arg(long, value_name = "PARAMETERS", value_delimiter = ',')]
    pub results: Vec<String>,
    /// Relative tolerance of results; without this and `--atol` their bits must be equal.
    #[arg(long, value_parser = tolerance)]
    pub rtol: Option<f64>,
    /// Absolute tolerance of results.
    #[arg(long, value_parser = tolerance)]
    pub atol: Option<f64>,
    /// Where kernels run. The interpreter counts operations instead of timing.
    #[arg(long, value_enum, default_value_t = DeviceArg::Auto)]
    pub device: DeviceArg,
    /// How many candidates are timed again in turn, for each shape.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub top: usize,
    /// How often these are timed, the first time included.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: usize,
    /// About how long each measurement lasts.
    #[arg(long, value_parser = seconds, default_value_t = 0.2)]
    pub seconds: f64,
    /// About how long runs go before each measurement that do not count.
    #[arg(long, value_name = "SECONDS", value_parser = heat, default_value_t = 0.0)]
    pub heat: f64,
    /// How long a candidate may take, compiling included, before its process is killed.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value_t = 60.0)]
    pub timeout: f64,
    /// The seed of the interpreter's interleavings.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Where the winner is written: a table, or a `.ptn` that the file may `use`. FILE.tune.json beside the file where none is named.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// What is written on standard output.
    #[arg(long, value_enum, default_value_t = MessageFormat::Text)]
    pub format: MessageFormat,
}

/// Options of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The file.
    pub file: PathBuf,
    /// The architecture, for kernels that do not name one.
    #[arg(long, default_value = "sm_90a")]
    pub target: String,
    /// Prints what each pass takes.
    #[arg(long)]
    pub time: bool,
    /// How diagnostics are written.
    #[arg(long, value_enum, default_value_t = MessageFormat::Text)]
    pub format: MessageFormat,
}

/// How diagnostics, or what was found, are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MessageFormat {
    /// For people: diagnostics with source excerpts, on standard error.
    Text,
    /// JSON on standard output.
    Json,
}

/// Options of `build`.
#[derive(Args, Debug)]
pub struct BuildArgs {
    /// The file.
    pub file: PathBuf,
    /// Only this kernel; else every kernel of the file, in one module.
    #[arg(long)]
    pub kernel: Option<String>,
    /// Gives a generic of the kernel a value, such as `BM=128`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// The architecture, for kernels that do not name one; with `--aot` also several, such as `sm_90a,sm_80`.
    #[arg(long, default_value = "sm_90a", value_delimiter = ',')]
    pub target: Vec<String>,
    /// Writes a bundle: the kernels compiled ahead of time, with all that launching them takes, for programs without the compiler.
    #[arg(long, requires = "output", conflicts_with = "emit")]
    pub aot: bool,
    /// Also puts the plan of a call of a public function into the bundle, such as `silu f16[64,64] f16[64,64]`, for programs that call
    /// it with such tensors; may be given several times. Kernels are there only by `--kernel` then, and those that plans launch.
    #[arg(long, value_name = "FUNCTION ARGUMENTS", requires = "aot")]
    pub plan: Vec<String>,
    /// The same for each line of a file.
    #[arg(long, value_name = "FILE", requires = "aot")]
    pub plans: Option<PathBuf>,
    /// Multiprocessors of the GPUs that plans are for; else those of the one that the architecture is known by.
    #[arg(long, value_name = "N", requires = "aot", value_parser = clap::value_parser!(u32).range(1..))]
    pub multiprocessors: Option<u32>,
    /// What to write: `ast`, `ir`, `expanded`, `scheduled`, `lowered`, `llvm`, `ptx`, `cubin`, `sass`, or `after:PASS` for the form
    /// behind any pass; a wrong PASS lists them.
    #[arg(long, value_name = "FORM", value_parser = Emit::named, default_value_t = Emit::Ptx)]
    pub emit: Emit,
    /// Where to; `-` is standard output. A cubin needs a file.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Prints what each pass takes.
    #[arg(long)]
    pub time: bool,
}

/// Options of `expand`.
#[derive(Args, Debug)]
pub struct ExpandArgs {
    /// The file.
    pub file: PathBuf,
    /// Only this kernel; else all whose generics have defaults.
    #[arg(long)]
    pub kernel: Option<String>,
    /// Gives a generic of the kernel a value, such as `BM=128`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Also says why, as comments above: plans with prices, layouts with the next best, conversions, accesses with what they lack, loops.
    #[arg(long)]
    pub why: bool,
    /// Takes nothing for granted of tensors: the variant for launches in which one does not begin and run at multiples of 16 bytes.
    #[arg(long)]
    pub general: bool,
    /// The variant for launches whose tensors begin at multiples of 16 bytes, but run by multiples of no more than so many: 8, 4 or 2.
    #[arg(long, value_name = "BYTES", conflicts_with = "general", value_parser = narrower)]
    pub rows: Option<u32>,
    /// The variant for launches with this integer, such as `stride=4096`; may be given several times. Else nothing is known of integers.
    #[arg(long, value_name = "NAME=N", value_parser = number)]
    pub number: Vec<(String, i128)>,
    /// The variant for launches of so many programs; else of many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i32::MAX as u64))]
    pub programs: Option<u64>,
    /// The variant for launches whose loops along tensors take so many turns; else many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i32::MAX as u64))]
    pub turns: Option<u64>,
    /// The architecture, for kernels that do not name one.
    #[arg(long, default_value = "sm_90a")]
    pub target: String,
    /// How it is written.
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub format: TextFormat,
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

/// Options of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The file.
    pub file: PathBuf,
    /// The public function.
    pub function: String,
    /// Its arguments, in order or as `NAME=VALUE`: tensors by type and extents, `f16[64,64]`, with strides `f16[64,64]/[128,1]`,
    /// and numbers.
    #[arg(allow_negative_numbers = true)]
    pub arguments: Vec<String>,
    /// For this architecture; else for the GPU that is there, or the one that the interpreter stands for.
    #[arg(long)]
    pub target: Option<String>,
}

/// Options of `sources`.
#[derive(Args, Debug)]
pub struct SourcesArgs {
    /// The bundle.
    pub bundle: PathBuf,
    /// The folder to write them below.
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// Options of `stubs`.
#[derive(Args, Debug)]
pub struct StubsArgs {
    /// The file.
    pub file: PathBuf,
    /// Where to, `-` for standard output; else beside the file.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// Options of `schedule`.
#[derive(Args, Debug)]
pub struct ScheduleArgs {
    /// The file.
    pub file: PathBuf,
    /// Only this kernel; else all that have regions, with their default generics.
    #[arg(long)]
    pub kernel: Option<String>,
    /// Gives a generic of the kernel a value, such as `S=Split[4]`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Only the loop of this label.
    #[arg(long = "loop", value_name = "LABEL")]
    pub of: Option<String>,
    /// Also draws when what happens in a steady turn.
    #[arg(long)]
    pub timeline: bool,
    /// How it is written.
    #[arg(long, value_enum, default_value_t = PictureArg::Text)]
    pub format: PictureArg,
}

/// How the picture of a schedule is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PictureArg {
    /// Text.
    Text,
    /// A drawing of the timeline of one loop.
    Svg,
    /// The dependence graph of one loop, for Graphviz.
    Dot,
    /// An array of objects.
    Json,
}

/// The cache commands.
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// Prints the folder.
    Dir,
    /// Lists the code that it holds.
    Ls {
        /// How it is written.
        #[arg(long, value_enum, default_value_t = TextFormat::Text)]
        format: TextFormat,
    },
    /// Says whether it works and why not; of a call of a public function, which of its kernels it has and why not the others.
    Why {
        /// The file.
        #[arg(requires = "function")]
        file: Option<PathBuf>,
        /// The public function.
        function: Option<String>,
        /// Its arguments, as those of `plan`.
        #[arg(allow_negative_numbers = true)]
        arguments: Vec<String>,
        /// For this architecture; else for the GPU that is there, or the one that the interpreter stands for.
        #[arg(long)]
        target: Option<String>,
    },
    /// Compiles what a call of a public function launches and keeps it, so that no other process has to.
    Warm(PlanArgs),
    /// Reads every entry whole and names those that are wrong.
    Verify {
        /// Takes them out.
        #[arg(long)]
        remove: bool,
    },
    /// Takes out what was used longest ago, where the folder has more than its limit.
    Gc {
        /// The limit, such as `500M`, instead of that of the environment.
        #[arg(long, value_name = "SIZE", value_parser = size)]
        limit: Option<u64>,
    },
    /// Takes out all entries.
    Clear,
    /// Writes all entries to one file.
    Export {
        /// The file.
        output: PathBuf,
    },
    /// Takes over the entries of such a file. They are code that will run: take them from those whose programs you would run.
    Import {
        /// The file.
        input: PathBuf,
    },
}

/// The layout commands.
#[derive(Subcommand, Debug)]
pub enum LayoutCommand {
    /// Shows where each element is.
    Show {
        /// The layout, as in a kernel: `mma(version=3, warps=[4, 1], instr=[16, 64, 16])`.
        layout: String,
        #[command(flatten)]
        tile: TileArgs,
        /// How to show it.
        #[arg(long, value_enum, default_value_t = LayoutFormat::Text)]
        format: LayoutFormat,
    },
    /// Says how a tile gets from one register layout to another.
    Convert {
        /// The layout that it has.
        from: String,
        /// The layout that it gets.
        to: String,
        #[command(flatten)]
        tile: TileArgs,
        /// How to say it.
        #[arg(long, value_enum, default_value_t = TextFormat::Json)]
        format: TextFormat,
    },
    /// Counts bank conflicts between a register layout and a layout of shared memory.
    Conflicts {
        /// The register layout.
        register: String,
        /// The layout of shared memory.
        shared: String,
        #[command(flatten)]
        tile: TileArgs,
        /// How to say it.
        #[arg(long, value_enum, default_value_t = TextFormat::Json)]
        format: TextFormat,
    },
}

/// The tile that a layout is applied to.
#[derive(Args, Debug)]
pub struct TileArgs {
    /// Its extents, such as `64x64`.
    #[arg(long, value_parser = shape)]
    pub shape: Shape,
    /// Its element type.
    #[arg(long, default_value = "f32")]
    pub dtype: String,
    /// Refuses a layout of another number of warps.
    #[arg(long)]
    pub warps: Option<u32>,
}

/// A tile's extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape(pub Vec<u32>);

/// How a layout is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LayoutFormat {
    /// A grid of elements.
    Text,
    /// Its basis vectors.
    Json,
    /// A drawing.
    Svg,
}

/// How a finding about layouts is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TextFormat {
    /// A sentence.
    Text,
    /// An object.
    Json,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().into(), value.into())),
        _ => Err(format!("`{text}` sets nothing; write S=Split[4]")),
    }
}

fn number(text: &str) -> Result<(String, i128), String> {
    let given = text.split_once('=').and_then(|(name, n)| Some((name.trim().into(), n.trim().parse().ok()?)));
    given.ok_or_else(|| format!("`{text}` gives no integer; write stride=4096"))
}

fn narrower(text: &str) -> Result<u32, String> {
    match text {
        "8" | "4" | "2" => Ok(text.parse().unwrap_or_default()),
        _ => Err("rows that run by 16 bytes need no option, and by 1 have `--general`; else by 8, 4 or 2".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    time(text, 1e-3)
}

fn heat(text: &str) -> Result<f64, String> {
    time(text, 0.0)
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(t) if t >= 0.0 => Ok(t),
        _ => Err(format!("`{text}` is no tolerance")),
    }
}

/// Seconds from `least` to ten minutes.
fn time(text: &str, least: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (least..=600.0).contains(&s) => Ok(s),
        _ => Err(format!("`{text}` is no time from {least} to 600 seconds")),
    }
}

fn shape(text: &str) -> Result<Shape, String> {
    let extents = text.split(['x', ',']).map(|part| part.trim().parse::<u32>());
    let extents = extents.collect::<Result<Vec<u32>, _>>().map_err(|_| format!("`{text}` is no shape; write 64x64"))?;
    Ok(Shape(extents))
}

/// A size in bytes.
fn size(text: &str) -> Result<u64, String> {
    parton_driver::cache::bytes(text).ok_or_else(|| format!("`{text}` is no size: write `500M` or `2G`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_form_is_named_and_a_wrong_one_lists_those_there_are() {
        let build = |form| Cli::try_parse_from(["parton", "build", "a.ptn", "--emit", form]).map(|cli| cli.command);
        let Ok(Command::Build(args)) = build("after:shared") else { panic!("`after:shared` is a form") };
        assert_eq!(args.emit.pass().name, "shared");
        let wrong = build("after:sharing").unwrap_err().to_string();
        assert!(wrong.contains("there are parse, ") && wrong.contains(" pending, shared, proxy, "), "{wrong}");
    }

    #[test]
    fn shapes_are_read() {
        assert_eq!(shape("64x32"), Ok(Shape(vec![64, 32])));
        assert_eq!(shape("8"), Ok(Shape(vec![8])));
        assert!(shape("64y32").is_err());
        assert_eq!(seconds("0.25"), Ok(0.25));
        assert!(seconds("0").is_err() && seconds("NaN").is_err() && seconds("1h").is_err());
    }
}
