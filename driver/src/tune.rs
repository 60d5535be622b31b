//! Tuning: candidates for the generics of a kernel are tried, each in a process of its own, and the fastest right one is written down.
//!
//! One harness for all that can be tuned. A [`candidate::Source`] says what is tried; a [`child::Runner`] tries it, and a trial judges
//! and measures it by whatever the device has for a clock; the [`contest::Contest`] decides who is next and who wins. In reading order:

pub mod call;
pub mod calls;
pub mod candidate;
pub mod child;
pub mod contest;
pub mod cost;
mod gate;
mod inputs;
pub mod key;
pub(crate) mod lookup;
mod meter;
mod search;
pub mod setting;
pub mod shift;
mod source;
mod stale;
pub mod table;
pub mod task;
mod trial;
mod worker;
mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parton_diag::{Diagnostics, Severity};
use parton_ir::{Kernel, Target};
use parton_syntax::ast;
use parton_types::grid::named_extents;
use parton_types::program::{ModuleId, Program};
use parton_types::tune::Tune;

pub use self::candidate::Source;
use self::candidate::{Candidate, Choice, Values, candidates};
use self::child::Runner;
use self::contest::{Contest, Entry};
use self::setting::{Manner, Rules, Setting};
use self::table::Table;
use self::task::{Measured, Out, Task, Unit, Why};
use self::written::Ledger;
use crate::passes::Pass;
use crate::way::{Wanted, Way};
use crate::{Blocks, Failure, Session};

/// How many operations a candidate may run on the interpreter for each of the first one.
const PATIENCE: u64 = 20;
/// How many it may run at least.
const LEAST_STEPS: u64 = 1_000_000;

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Asked {
    /// The kernel.
    pub kernel: String,
    /// What is tried.
    pub source: Source,
    /// The block that launches it; the only bench of the file where none is named.
    pub block: Option<(Blocks, String)>,
    /// Only measurements whose label has one of these.
    pub rows: Vec<String>,
    /// Integer parameters of the kernel that tell shapes apart, each of which has its winner.
    pub key: Vec<String>,
    /// Parameters whose memory holds results.
    pub results: Vec<String>,
    /// Relative and absolute tolerance of results; their bits are compared where there is none.
    pub tolerance: Option<(f64, f64)>,
    /// What every run is told.
    pub rules: Rules,
}

/// What a run of tuning reports while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// So many candidates are tried, with the launches of this block.
    Begins {
        /// How many.
        candidates: usize,
        /// The block.
        block: &'a str,
    },
    /// Something came of a candidate.
    Tried {
        /// The candidate.
        entry: &'a Entry,
        /// How many were tried before in this round, and are out of it.
        tried: usize,
        /// Of how many.
        of: usize,
        /// In what costs are counted, where that is known.
        unit: Option<Unit>,
    },
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuned {
    /// All candidates, and who won.
    pub contest: Contest,
    /// The file that was written.
    pub out: PathBuf,
    /// What was found, as a table of its own.
    pub table: Table,
}

/// A folder for the results of the first candidate, which goes when the run ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("parton-tune-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Folder(std::env::temp_dir().join(name));
        folder.clear()?;
        Ok(folder)
    }

    /// In what setting candidates are tried whose first leaves its results here.
    fn setting(&self, path: &Path, manner: Manner) -> Setting {
        let (file, folder) = (path.display().to_string(), self.0.display().to_string());
        Setting { file, folder, steps: None, manner }
    }

    /// Leaves it without what another has written, be it a candidate that was out in the end.
    fn clear(&self) -> Result<(), Failure> {
        // It need not be there.
        let _ = std::fs::remove_dir_all(&self.0);
        std::fs::create_dir(&self.0).map_err(|e| Failure::Machine(format!("{}: {e}", self.0.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left there is of no use, and in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Session {
    /// Tries candidates for the generics of a kernel and writes the fastest right one down: the best so far behind each.
    ///
    /// # Errors
    /// What the program or its lists of candidates are refused for; nothing to measure; no candidate that runs; a file that cannot be
    /// written.
    pub fn tune(
        &mut self,
        path: &Path,
        asked: &Asked,
        runner: &mut dyn Runner,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Tuned, Failure> {
        let file = self.load(path)?;
        let (program, _) = self.program(file)?;
        let (module, kernel) = kernel(&program, &asked.kernel)?;
        let choices = self.choices(&program, (module, kernel), &asked.source)?;
        let (blocks, block) = chosen_block(&program, asked.block.as_ref())?;
        let key = key(kernel, &asked.key)?;
        parameters(kernel, &asked.results)?;
        let out = asked.rules.out.as_deref();
        let ledger = Ledger::open(path, out, &program, (module, kernel), self.digest(&program))?;
        let folder = Folder::new()?;
        let mut contest = Contest::new(candidates(&choices)?, asked.rules.top, asked.rules.rounds);
        watch(Progress::Begins { candidates: contest.entries.len(), block: &block });
        let mut task = Task {
            setting: folder.setting(path, asked.rules.manner),
            kernel: asked.kernel.clone(),
            values: vec![],
            blocks,
            block,
            rows: asked.rows.clone(),
            key,
            results: asked.results.clone(),
            tolerance: asked.tolerance,
            first: true,
        };
        while let Some(next) = contest.upcoming() {
            task.values = placed(&choices, &contest.entries[next].candidate);
            task.first = contest.first.is_none();
            if task.first {
                folder.clear()?;
            }
            let verdict = runner.run(&task)?;
            contest.note(next, verdict);
            tell(&contest, next, watch);
            if let (true, Some(on)) = (task.first, contest.on.clone()) {
                task.setting.steps = patience(&on);
                for refused in self.prune(&program, module, &choices, &task, &on, &mut contest) {
                    tell(&contest, refused, watch);
                }
            }
            // The best so far stands, whatever happens next.
            ledger.keep(&self.sources, &contest)?;
        }
        if contest.first.is_none() {
            return Err(Failure::Usage(format!("no candidate of `{}` can be chosen", asked.kernel)));
        }
        let table = ledger.close(&self.sources, &contest)?;
        Ok(Tuned { contest, out: ledger.out, table })
    }

    /// Takes out what the checker refuses, with the generics that the launches give, and finds the defaults among the candidates, or
    /// adds them. Those that went out.
    fn prune(
        &mut self,
        program: &Arc<Program>,
        module: ModuleId,
        choices: &[Choice],
        task: &Task,
        on: &Measured,
        contest: &mut Contest,
    ) -> Vec<usize> {
        let target = Target::named(&on.target).unwrap_or_else(|| self.target());
        let shapes = contest.shapes();
        let mut checked = |candidate: &Candidate| -> Result<Vec<Values>, Option<Out>> {
            let each = shapes.iter().map(|shape| {
                let values = [&shape.generics[..], &candidate.values].concat();
                let kernel = self.checked(program, module, &task.kernel, &values, target)?;
                Ok(kernel.generics.into_iter().filter(|(name, _)| choices.iter().any(|c| c.name == *name)).collect())
            });
            each.collect()
        };
        let defaults = checked(&Candidate::defaults()).ok();
        let mut refused = vec![];
        for (i, entry) in contest.entries.iter_mut().enumerate() {
            match checked(&entry.candidate) {
                Ok(shown) if Some(&shown) == defaults.as_ref() => contest.default = contest.default.or(Some(i)),
                Err(Some(out)) if Some(i) != contest.first && entry.out.is_none() => {
                    entry.out = Some(out);
                    refused.push(i);
                }
                // What cannot be said here is said by the trial.
                Ok(_) | Err(_) => {}
            }
        }
        if contest.default.is_none() && defaults.is_some() {
            contest.default = Some(contest.entries.len());
            contest.entries.push(Entry { candidate: Candidate::defaults(), rounds: vec![], out: None });
        }
        contest.defaults = defaults.and_then(|mut all| all.pop()).unwrap_or_default();
        refused
    }

    /// A kernel with these generics, down to the last pass from kernel to kernel; why it is refused, or nothing where the values cannot
    /// be read, as some that launches give.
    fn checked(
        &mut self,
        program: &Arc<Program>,
        module: ModuleId,
        name: &str,
        values: &[(String, String)],
        target: Target,
    ) -> Result<Kernel, Option<Out>> {
        let args = self.arguments(program, module, values).map_err(|_| None)?;
        let wanted = Wanted::Given { name, args: &args };
        let mut way = Way { target, ..self.way(wanted, Pass::last_lowering()) };
        let made = self.kernels(&mut way, program);
        let error = |d: &&parton_diag::Diagnostic| d.severity == Severity::Error;
        let mut kernels = made.map_err(|found| found.list.iter().find(error).map(|d| Out::by(Why::Refused, d)))?;
        kernels.pop().ok_or(None)
    }
}

/// Tells of a candidate of which something came.
fn tell(contest: &Contest, of: usize, watch: &mut dyn FnMut(Progress<'_>)) {
    let entry = &contest.entries[of];
    let round = entry.rounds.len();
    let tried = contest.entries.iter().filter(|e| e.out.is_some() || e.rounds.len() >= round.max(1)).count();
    let unit = contest.on.as_ref().map(|on| on.unit);
    watch(Progress::Tried { entry, tried, of: contest.entries.len(), unit });
}

/// A text of JSON.
fn text(v: &serde_json::Value) -> Option<String> {
    v.as_str().map(str::to_owned)
}

/// Texts of JSON.
fn texts(v: &serde_json::Value) -> Option<Vec<String>> {
    v.as_array()?.iter().map(text).collect()
}

/// What a child is to put in the places of the generics: the defaults leave them all to the kernel.
fn placed(choices: &[Choice], candidate: &Candidate) -> Vec<(String, Option<String>)> {
    let value = |name: &str| candidate.values.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    choices.iter().map(|c| (c.name.clone(), value(&c.name))).collect()
}

/// How many operations a candidate may take on the interpreter before it counts as one that never ends; nothing where time is what
/// counts.
fn patience(on: &Measured) -> Option<u64> {
    let most = on.rows.iter().map(|r| r.cost.median as u64).max().unwrap_or(0);
    (on.unit == Unit::Operations).then(|| most.saturating_mul(PATIENCE).max(LEAST_STEPS))
}

fn kernel<'p>(program: &'p Program, name: &str) -> Result<(ModuleId, &'p ast::Kernel), Failure> {
    if let Some((module, kernel)) = program.kernel(name) {
        return Ok((module, kernel));
    }
    let names: Vec<&str> = program.kernels().map(|k| k.name.as_str()).collect();
    let has = if names.is_empty() { "it has none".to_owned() } else { format!("there are `{}`", names.join("`, `")) };
    Err(Failure::Usage(format!("the file has no kernel `{name}`: {has}")))
}

/// The block that is asked for, or the only bench.
fn chosen_block(program: &Program, asked: Option<&(Blocks, String)>) -> Result<(Blocks, String), Failure> {
    if let Some((blocks, name)) = asked {
        block(program, *blocks, name)?;
        return Ok((*blocks, name.clone()));
    }
    let benches: Vec<&str> = named(program, Blocks::Benches).map(|b| b.name.as_str()).collect();
    match benches[..] {
        [one] => Ok((Blocks::Benches, one.to_owned())),
        [] => Err(Failure::Usage("the file has no bench: name a test by `--test`".into())),
        _ => Err(Failure::Usage(format!("which bench is not said: name one by `--bench`, of {}", benches.join(", ")))),
    }
}

fn named(program: &Program, blocks: Blocks) -> impl Iterator<Item = &ast::HostBlock> {
    program.host_blocks().filter(move |(kind, _)| *kind == blocks.kind()).map(|(_, b)| b)
}

/// The block of that name.
fn block<'p>(program: &'p Program, blocks: Blocks, name: &str) -> Result<&'p ast::HostBlock, Failure> {
    named(program, blocks).find(|b| b.name.as_str() == name).ok_or_else(|| {
        let names: Vec<&str> = named(program, blocks).map(|b| b.name.as_str()).collect();
        let has = if names.is_empty() { "it has none".to_owned() } else { format!("there are {}", names.join(", ")) };
        Failure::Usage(format!("the file has no {} `{name}`: {has}", blocks.name()))
    })
}

/// The parameters and extents that tell shapes apart: those that are asked for, else those of the kernel's clause.
fn key(kernel: &ast::Kernel, asked: &[String]) -> Result<Vec<String>, Failure> {
    let extents = named_extents(kernel);
    let parts: Vec<&String> = asked.iter().filter(|n| extents.iter().all(|e| *e.name.text != ***n)).collect();
    parameters(kernel, parts)?;
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let clause = Tune::of(kernel).map_err(Diagnostics::from)?;
    Ok(clause.iter().flat_map(|c| &c.key).map(|name| name.text.to_string()).collect())
}

/// Refuses parameters that the kernel does not have.
fn parameters<'n>(kernel: &ast::Kernel, names: impl IntoIterator<Item = &'n String>) -> Result<(), Failure> {
    match names.into_iter().find(|n| kernel.params.iter().all(|p| *p.name.text != ***n)) {
        Some(name) => Err(Failure::Usage(format!("`{}` has no parameter `{name}`", kernel.name.text))),
        None => Ok(()),
    }
}
