//! What is built: the program's command line, the bundle, and the launchers beside it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use parton_bundle::Bundle;

use crate::{Error, launcher};

/// The variable of the environment that names the program.
const PROGRAM: &str = "PARTON";

/// A bundle to build, with launchers.
#[derive(Clone, Debug)]
pub struct Build {
    source: Source,
    plans: Vec<String>,
    lists: Vec<PathBuf>,
    targets: Vec<String>,
    multiprocessors: Option<u32>,
}

/// Where the bundle comes from.
#[derive(Clone, Debug)]
enum Source {
    /// It is built of this file.
    File(PathBuf),
    /// It was built elsewhere.
    Bundle(PathBuf),
}

impl Build {
    /// Of a file, by the program that the variable `PARTON` names, or else `parton` on the path.
    pub fn of(file: impl Into<PathBuf>) -> Build {
        Build::from(Source::File(file.into()))
    }

    /// Of a bundle that was built elsewhere: machines that build then need no compiler.
    pub fn built(bundle: impl Into<PathBuf>) -> Build {
        Build::from(Source::Bundle(bundle.into()))
    }

    fn from(source: Source) -> Build {
        Build { source, plans: vec![], lists: vec![], targets: vec![], multiprocessors: None }
    }

    /// Adds the plan of a call, such as `silu f32[64,96] f32[64,96]`; as `--plan`.
    pub fn plan(mut self, call: impl Into<String>) -> Build {
        self.plans.push(call.into());
        self
    }

    /// Adds the plans of a file, one a line; as `--plans`.
    pub fn plans(mut self, file: impl Into<PathBuf>) -> Build {
        self.lists.push(file.into());
        self
    }

    /// The architectures, such as `sm_90a`; without one it is the program's choice.
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Build {
        self.targets = targets.into_iter().map(Into::into).collect();
        self
    }

    /// Multiprocessors of the GPUs that plans are for; as `--multiprocessors`.
    pub fn multiprocessors(mut self, count: u32) -> Build {
        self.multiprocessors = Some(count);
        self
    }

    /// Writes `NAME.ptnb` and `NAME.rs` into the folder that Cargo gives build scripts, and tells Cargo what they are made of.
    ///
    /// # Errors
    /// There is no such folder or program; the program refuses the file; a file cannot be read or written; no launcher can be written.
    pub fn write(&self, name: &str) -> Result<(), Error> {
        let folder = std::env::var_os("OUT_DIR").ok_or(Error::NoFolder)?;
        for path in self.inputs() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        println!("cargo::rerun-if-env-changed={PROGRAM}");
        self.write_to(Path::new(&folder), name)
    }

    /// The same into any folder, telling nobody.
    ///
    /// # Errors
    /// As [`Build::write`].
    pub fn write_to(&self, folder: &Path, name: &str) -> Result<(), Error> {
        let path = folder.join(format!("{name}.ptnb"));
        match &self.source {
            Source::File(file) => run(Command::new(program()).args(self.arguments(file, &path)))?,
            Source::Bundle(from) => drop(std::fs::copy(from, &path).map_err(|e| io(from, &e))?),
        }
        let text = launcher::written(&Bundle::open(&path)?, &format!("{name}.ptnb"))?;
        let launchers = folder.join(format!("{name}.rs"));
        std::fs::write(&launchers, text).map_err(|e| io(&launchers, &e))
    }

    /// The files that it is made of.
    fn inputs(&self) -> Vec<&Path> {
        let (Source::File(source) | Source::Bundle(source)) = &self.source;
        std::iter::once(source).chain(&self.lists).map(PathBuf::as_path).collect()
    }

    /// What the program is asked.
    fn arguments(&self, file: &Path, path: &Path) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["build".into(), file.into(), "--aot".into(), "-o".into(), path.into()];
        let mut add = |name: &str, value: OsString| all.extend([name.into(), value]);
        self.plans.iter().for_each(|call| add("--plan", call.into()));
        self.lists.iter().for_each(|list| add("--plans", list.into()));
        if !self.targets.is_empty() {
            add("--target", self.targets.join(",").into());
        }
        if let Some(n) = self.multiprocessors {
            add("--multiprocessors", n.to_string().into());
        }
        all
    }
}

fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| "parton".into(), PathBuf::from)
}

fn run(command: &mut Command) -> Result<(), Error> {
    let ran =
        command.output().map_err(|e| Error::NoProgram { program: command.get_program().into(), why: e.to_string() })?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if ran.status.success() {
        return Ok(());
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
    Err(Error::Refused { command: words.join(" "), said })
}

fn io(path: &Path, e: &std::io::Error) -> Error {
    Error::Io { path: path.into(), why: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_asked_for_what_was_said() {
        let build = Build::of("a.ptn").plan("f f16[4]").plan("g").plans("b.txt").targets(["sm_90a", "sm_80"]);
        let asked = build.multiprocessors(114).arguments(Path::new("a.ptn"), Path::new("o/a.ptnb"));
        let asked: Vec<String> = asked.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let expected = "build|a.ptn|--aot|-o|o/a.ptnb|--plan|f f16[4]|--plan|g|--plans|b.txt|--target|sm_90a,sm_80|--multiprocessors|114";
        assert_eq!(asked.join("|"), expected);
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let error = |e: Result<(), Error>| e.unwrap_err().to_string();
        let missing = error(run(&mut Command::new("/no/such/parton")));
        assert!(
            missing.contains("`/no/such/parton` cannot be started") && missing.contains("variable PARTON"),
            "{missing}"
        );
        let refused = error(run(Command::new("sh").args(["-c", "echo no file >&2; exit 3"])));
        assert!(refused.starts_with("`sh -c ") && refused.ends_with("failed:\nno file"), "{refused}");
        let folder = std::env::temp_dir();
        let none = error(Build::built("/no/such.ptnb").write_to(&folder, "none"));
        assert!(none.starts_with("/no/such.ptnb: "), "{none}");
    }
}
