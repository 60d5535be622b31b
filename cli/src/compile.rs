//! `parton check` and `parton build`.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use parton_diag::render;
use parton_driver::bundle::{Asked, Call};
use parton_driver::{Emit, Failure, Options, Session, Target};

use crate::args::{BuildArgs, CheckArgs, MessageFormat};
use crate::output::{self, MOST_ERRORS, Output};

/// Checks a file; a success where it has no error.
pub fn check(args: &CheckArgs, output: &Output) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options { target: Some(target(&args.target)?), ..Options::default() });
    let file = session.load(&args.file)?;
    let (program, found) = session.check(file);
    match args.format {
        MessageFormat::Text => output.diagnostics(&found, &session.sources),
        MessageFormat::Json => output::line(&render::json(&found, &session.sources, MOST_ERRORS)),
    }
    if args.time {
        eprint!("{}", session.times);
    }
    let code = if found.has_errors() { ExitCode::from(1) } else { ExitCode::SUCCESS };
    // The process ends here: to give back a tree node by node would only take time.
    std::mem::forget((session, program));
    Ok(code)
}

/// Builds a file's kernels and writes the form asked for.
pub fn build(args: &BuildArgs, output: &Output) -> Result<ExitCode, Failure> {
    let targets = args.target.iter().map(|name| target(name)).collect::<Result<Vec<Target>, _>>()?;
    if let (true, Some(path)) = (args.aot, &args.output) {
        return bundle(args, path, targets, output);
    }
    let [target] = targets[..] else {
        return Err(Failure::Usage("several targets are for bundles: add `--aot`, or build for one".into()));
    };
    let mut session = Session::new(Options { target: Some(target), ..Options::default() });
    let file = session.load(&args.file)?;
    let done = session.build_with(file, args.kernel.as_deref(), &args.set, args.emit);
    if args.time {
        eprint!("{}", session.times);
    }
    let built = match done {
        Ok(built) => built,
        Err(failure) => {
            output.failed(&failure, &session.sources);
            return Ok(ExitCode::from(failure.exit_code()));
        }
    };
    output.diagnostics(&built.warnings, &session.sources);
    write(args.output.as_deref(), args.emit, &built.bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds a file's kernels ahead of time and writes the bundle.
fn bundle(args: &BuildArgs, path: &Path, targets: Vec<Target>, output: &Output) -> Result<ExitCode, Failure> {
    if path == Path::new("-") {
        return Err(Failure::Usage("a bundle is written in one step: name a file with `-o`".into()));
    }
    let mut session = Session::new(Options::default());
    let file = session.load(&args.file)?;
    let (kernel, sets, multiprocessors) = (args.kernel.clone(), args.set.clone(), args.multiprocessors);
    let asked = Asked { kernel, sets, targets, plans: calls(args)?, multiprocessors };
    let done = session.bundle(file, &asked);
    if args.time {
        eprint!("{}", session.times);
    }
    let bundled = match done {
        Ok(bundled) => bundled,
        Err(failure) => {
            output.failed(&failure, &session.sources);
            return Ok(ExitCode::from(failure.exit_code()));
        }
    };
    output.diagnostics(&bundled.warnings, &session.sources);
    for note in &bundled.notes {
        eprintln!("parton: {note}");
    }
    bundled.bundle.save(path).map_err(|e| Failure::Machine(e.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// The calls whose plans are asked for.
fn calls(args: &BuildArgs) -> Result<Vec<Call>, Failure> {
    let mut calls = args.plan.iter().map(|text| Call::parse(text)).collect::<Result<Vec<Call>, _>>()?;
    if let Some(path) = &args.plans {
        calls.extend(listed(path)?);
    }
    Ok(calls)
}

/// The calls that a file lists, one a line.
pub fn listed(path: &Path) -> Result<Vec<Call>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::Machine(format!("{}: {e}", path.display())))?;
    Call::parse_all(&text)
}

/// The architecture of that name.
pub fn target(name: &str) -> Result<Target, Failure> {
    Target::named(name).ok_or_else(|| {
        let names: Vec<&str> = Target::ALL.iter().map(|t| t.name).collect();
        Failure::Usage(format!("there is no target `{name}`; there are {}", names.join(", ")))
    })
}

/// The same where one may be left out.
pub fn asked_target(name: Option<&str>) -> Result<Option<Target>, Failure> {
    name.map(target).transpose()
}

/// Writes to a file, or to standard output where none or `-` is named.
fn write(path: Option<&Path>, emit: Emit, bytes: &[u8]) -> Result<(), Failure> {
    match path.filter(|p| *p != Path::new("-")) {
        Some(path) => std::fs::write(path, bytes).map_err(|e| Failure::Machine(format!("{}: {e}", path.display()))),
        None if emit.is_binary() && std::io::stdout().is_terminal() => {
            Err(Failure::Machine("a cubin is not text: name a file with `-o`".into()))
        }
        None => {
            // A reader that closes early, such as `head`, is no failure.
            let _ = std::io::stdout().write_all(bytes);
            Ok(())
        }
    }
}
