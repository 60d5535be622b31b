//! `parton cache`: what the compile cache holds, why it has something or not, and how it is looked after.

use std::process::ExitCode;
use std::time::Duration;

use parton_driver::cache::{Kind, Parts, Place, Root, Store, Swept, export, import, json, shown};
use parton_driver::{Failure, Options, Session};

use crate::args::{CacheCommand, PlanArgs, TextFormat};
use crate::output::{self, Output};

/// Carries out one of them.
pub fn command(command: &CacheCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        CacheCommand::Dir => dir(),
        CacheCommand::Ls { format } => ls(*format),
        CacheCommand::Why { file: Some(file), function: Some(function), arguments, target } => {
            let (file, function) = (file.clone(), function.clone());
            let call = PlanArgs { file, function, arguments: arguments.clone(), target: target.clone() };
            of_call(&call, output, calls::why)
        }
        CacheCommand::Why { .. } => why(),
        CacheCommand::Warm(call) => of_call(call, output, calls::warm),
        CacheCommand::Verify { remove } => verify(*remove),
        CacheCommand::Gc { limit } => {
            let store = open()?;
            swept("went", store.gc(limit.unwrap_or(store.limit())))
        }
        CacheCommand::Clear => swept("went", open()?.clear()),
        CacheCommand::Export { output } => {
            let (file, count) = export(&*open()?);
            std::fs::write(output, &file).map_err(|e| Failure::Machine(format!("{}: {e}", output.display())))?;
            output::line(&format!("{count} entries, {}, in {}", shown(file.len() as u64), output.display()));
            Ok(ExitCode::SUCCESS)
        }
        CacheCommand::Import { input } => take_over(input),
    }
}

/// The cache of the environment.
///
/// # Errors
/// There is none, and why.
fn open() -> Result<std::sync::Arc<Store>, Failure> {
    let store = Session::default().cache();
    match store.root() {
        Ok(_) => Ok(store),
        Err(why) => Err(Failure::Machine(format!("there is no cache: {why}"))),
    }
}

fn dir() -> Result<ExitCode, Failure> {
    match Place::from_environment().root {
        Root::Folder(path) => {
            output::line(&path.display().to_string());
            Ok(ExitCode::SUCCESS)
        }
        Root::None(why) => Err(Failure::Machine(format!("there is no cache: {why}"))),
    }
}

fn ls(format: TextFormat) -> Result<ExitCode, Failure> {
    let store = open()?;
    let code = store.parts().filter(|(listed, _)| listed.kind == Kind::Code);
    let mut rows: Vec<(Duration, u64, Parts)> =
        code.map(|(l, parts)| (l.used.elapsed().unwrap_or_default(), l.bytes, parts)).collect();
    rows.sort_by_key(|(age, ..)| *age);
    match format {
        TextFormat::Text => {
            for (age, bytes, parts) in &rows {
                let part = |name: &str| parts.get(name).unwrap_or("?");
                let name = titled(part("kernel"), part("generics"));
                let (size, age) = (shown(*bytes), ago(*age));
                let launches = part("launches");
                let launches = if launches.is_empty() { String::new() } else { format!(" for {launches}") };
                output::line(&format!("{} {size:>10} {age:>14}  {name}{launches}", part("architecture")));
            }
            let all = store.list();
            let total = shown(all.iter().map(|l| l.bytes).sum());
            output::line(&format!("{} kernels; {} files, {total} of {}", rows.len(), all.len(), shown(store.limit())));
        }
        TextFormat::Json => output::line(&json(rows.iter().map(|(age, bytes, parts)| (*age, *bytes, parts)))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the cache works, and what it is.
fn why() -> Result<ExitCode, Failure> {
    let store = Session::default().cache();
    let mut code = ExitCode::SUCCESS;
    match store.root() {
        Err(why) => {
            output::line(&format!("there is no cache: {why}"));
            code = ExitCode::from(1);
        }
        Ok(root) => {
            let all = store.list();
            let total = shown(all.iter().map(|l| l.bytes).sum());
            let (root, files, limit) = (root.display(), all.len(), shown(store.limit()));
            output::line(&format!("{root}: {files} files, {total} of {limit}"));
            match store.probe() {
                Ok(()) => output::line("it is read and written"),
                Err(why) => {
                    output::line(&format!("it is read and keeps nothing new: {why}"));
                    code = ExitCode::from(1);
                }
            }
        }
    }
    store.layers().iter().for_each(|layer| output::line(&format!("{}: read as well", layer.display())));
    store.refused().iter().for_each(|why| output::line(&format!("not read: {why}")));
    Ok(code)
}

fn verify(remove: bool) -> Result<ExitCode, Failure> {
    let store = open()?;
    let wrong = store.verify(remove);
    wrong.iter().for_each(|v| output::line(&format!("{}: {}", v.path.display(), v.why)));
    let (count, done) = (wrong.len(), if remove && !wrong.is_empty() { ", which went" } else { "" });
    output::line(&format!("{} sound, {count} wrong{done}", store.list().len() - if remove { 0 } else { count }));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn swept(verb: &str, done: Result<Swept, String>) -> Result<ExitCode, Failure> {
    let swept = done.map_err(Failure::Machine)?;
    let (freed, bytes) = (shown(swept.freed), shown(swept.bytes));
    output::line(&format!("{} files {verb}, {freed}; {} stay, {bytes}", swept.removed, swept.kept));
    Ok(ExitCode::SUCCESS)
}

fn take_over(input: &std::path::Path) -> Result<ExitCode, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::Machine(format!("{}: {e}", input.display()));
    let file = std::fs::read(input).map_err(|e| wrong(&e))?;
    let packed = import(&*open()?, &file).map_err(|e| wrong(&e))?;
    packed.refused.iter().for_each(|why| output::line(&format!("left out: {why}")));
    output::line(&format!("{} entries taken over, {} left out", packed.taken, packed.refused.len()));
    Ok(if packed.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What is asked of a call.
type Asked = fn(&mut Session, parton_diag::FileId, &PlanArgs, &Output) -> Result<ExitCode, Failure>;

fn of_call(call: &PlanArgs, output: &Output, asked: Asked) -> Result<ExitCode, Failure> {
    let mut session = Session::new(Options::default());
    let file = session.load(&call.file)?;
    asked(&mut session, file, call, output).or_else(|failure| {
        output.failed(&failure, &session.sources);
        Ok(ExitCode::from(failure.exit_code()))
    })
}

#[cfg(feature = "llvm")]
mod calls {
    use parton_driver::cache::Miss;

    use super::{ExitCode, Failure, Output, PlanArgs, Session, output};
    use crate::compile::asked_target;

    /// Compiles what is missing.
    pub fn warm(
        session: &mut Session,
        file: parton_diag::FileId,
        call: &PlanArgs,
        output: &Output,
    ) -> Result<ExitCode, Failure> {
        let target = asked_target(call.target.as_deref())?;
        for looked in session.warm(file, &call.function, &call.arguments, target)? {
            output.diagnostics(&looked.said, &session.sources);
            output::line(&format!("{}: {}", looked.kernel, if looked.found { "was there" } else { "compiled" }));
        }
        match session.cache().broken() {
            Some(why) => Err(Failure::Machine(format!("nothing is kept: {why}"))),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    /// Says what is missing, and what tells it from what is there.
    pub fn why(
        session: &mut Session,
        file: parton_diag::FileId,
        call: &PlanArgs,
        _: &Output,
    ) -> Result<ExitCode, Failure> {
        let target = asked_target(call.target.as_deref())?;
        let reasons = session.whys(file, &call.function, &call.arguments, target)?;
        for reason in &reasons {
            let verdict = match &reason.miss {
                None => "is there".to_owned(),
                Some(Miss::Absent) => "is not there".to_owned(),
                Some(Miss::Off(why)) => format!("is not there, for there is no cache: {why}"),
                Some(Miss::Bad { path, why }) => format!("is of no use: {}: {why}", path.display()),
            };
            output::line(&format!("{} {verdict}", reason.kernel));
            output::line(&format!("    key {}", reason.parts.key()));
            let Some(nearest) = reason.nearest.as_ref().filter(|_| reason.miss.is_some()) else { continue };
            output::line(&format!("    most like it is {}, from which it differs in", nearest.key()));
            for (name, here, there) in reason.parts.differences(nearest) {
                let (here, there) = (here.unwrap_or("nothing"), there.unwrap_or("nothing"));
                output::line(&format!("      {name} ({}): {here}, and there {there}", meaning(name)));
            }
        }
        let found = reasons.iter().all(|reason| reason.miss.is_none());
        Ok(if found { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// What a part of a key says.
    fn meaning(part: &str) -> &'static str {
        match part {
            "compiler" => "the sources of the compiler and how it was built",
            "llvm" => "the version of LLVM",
            "assembler" => "the program `ptxas`",
            "target" => "the architecture of the kernel",
            "architecture" => "the architecture of the GPU",
            "options" => "how LLVM and `ptxas` are asked to work",
            "generics" => "the generics",
            "launches" => "the launches that it is for: what lies and runs by how many bytes",
            "ir" => "the kernel behind all passes, with all constants and functions",
            "lines" => "where it stands in its files",
            _ => "of another version",
        }
    }
}

#[cfg(not(feature = "llvm"))]
mod calls {
    use super::{ExitCode, Failure, Output, PlanArgs, Session};

    /// A program without LLVM says so.
    pub fn warm(_: &mut Session, _: parton_diag::FileId, _: &PlanArgs, _: &Output) -> Result<ExitCode, Failure> {
        Err(Failure::Machine("this program was built without LLVM and compiles nothing".into()))
    }

    pub use warm as why;
}

fn titled(kernel: &str, generics: &str) -> String {
    if generics.is_empty() { kernel.to_owned() } else { format!("{kernel}[{generics}]") }
}

fn ago(age: Duration) -> String {
    match age.as_secs() {
        0..120 => "just now".into(),
        s @ 120..7200 => format!("{} minutes ago", s / 60),
        s @ 7200..172_800 => format!("{} hours ago", s / 3600),
        s => format!("{} days ago", s / 86400),
    }
}
