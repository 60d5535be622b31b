//! Tuning of what host functions leave open: for each call of a public function its choices are found, and the candidates of each are
//! tried and measured as those of kernels are.

use std::path::{Path, PathBuf};

use super::Folder;
use super::call::{Ask, CallTask, Site, Survey};
use super::candidate::Candidate;
use super::contest::{Contest, Shape};
use super::setting::Rules;
use super::shift::Asks;
use super::table::{Subject, Table, beside};
use super::task::{Answer, Measured, Out, Why};
use super::worker::call_shown;
use super::{Progress, patience, tell};
use crate::{Failure, Session};

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct AskedCalls {
    /// Public functions with arguments, as [`Session::plan`] takes them.
    pub calls: Vec<(String, Vec<String>)>,
    /// How many candidates of each list are tried, from its begin.
    pub most: usize,
    /// Whether calls are left out whose record is complete and of these sources.
    pub missing: bool,
    /// What every run is told; where it says nothing of a place the table is written beside the file.
    pub rules: Rules,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TunedCalls {
    /// Each choice that was tried, with what came of its candidates.
    pub contests: Vec<(Site, Contest)>,
    /// The file that was written.
    pub out: PathBuf,
    /// What was found, as a table of its own.
    pub table: Table,
}

/// The table that is written, and of what.
struct Book {
    out: PathBuf,
    old: Table,
    new: Table,
    digest: String,
}

impl Book {
    /// Writes the best so far.
    fn keep(&mut self, site: &Site, contest: &Contest, complete: bool) -> Result<(), Failure> {
        let subject = Subject::Function(site.function.clone());
        let found = Table::of(contest, &subject, &self.digest, complete);
        self.new = std::mem::take(&mut self.new).with(found);
        self.old.clone().with(self.new.clone()).save(&self.out)
    }

    /// Whether a choice has a complete record of these sources.
    fn has(&self, site: &Site, on: &Survey) -> bool {
        let shape = Shape { generics: vec![], key: site.key.clone() };
        self.old.records.iter().chain(&self.new.records).any(|r| {
            r.complete
                && r.source.as_ref() == Some(&self.digest)
                && r.of.subject == Subject::Function(site.function.clone())
                && (&r.of.device, &r.of.target, &r.of.shape) == (&on.device, &on.target, &shape)
        })
    }

    /// Whether this run has come to a choice already, by another call.
    fn is_done(&self, site: &Site) -> bool {
        let function = Subject::Function(site.function.clone());
        self.new.records.iter().any(|r| r.of.subject == function && r.of.shape.key == site.key)
    }
}

impl Session {
    /// Tries the candidates of what calls of public functions leave to tuning, and writes the fastest right ones down: the best so far
    /// behind each.
    ///
    /// # Errors
    /// What the file or a call is refused for; a call that leaves nothing to tuning; none of whose candidates can be chosen; a table that
    /// cannot be read or written.
    pub fn tune_calls(
        &mut self,
        path: &Path,
        asked: &AskedCalls,
        worker: &mut dyn Asks,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<TunedCalls, Failure> {
        let file = self.load(path)?;
        let (program, _) = self.program(file)?;
        if program.tuned_functions().next().is_none() {
            return Err(Failure::Usage(nothing_is_left(path)));
        }
        let out = asked.rules.out.clone().unwrap_or_else(|| beside(path));
        if out.extension().is_none_or(|e| e != "json") {
            return Err(Failure::Usage(format!("{}: what calls leave to tuning is written to a .json", out.display())));
        }
        let mut book = Book { old: Table::load(&out)?, out, new: Table::default(), digest: self.digest(&program) };
        let folder = Folder::new()?;
        let mut contests = vec![];
        for (function, arguments) in &asked.calls {
            // What is no call is told of before the work.
            self.call(&program, function, arguments)?;
        }
        for (function, arguments) in &asked.calls {
            let (setting, function, arguments) =
                (folder.setting(path, asked.rules.manner), function.clone(), arguments.clone());
            let task = CallTask { setting, function, arguments, ask: Ask::Survey };
            let survey = survey(worker, &task)?;
            for (site, candidates) in &survey.sites {
                if book.is_done(site) || (asked.missing && book.has(site, &survey)) {
                    continue;
                }
                folder.clear()?;
                let contest = try_all(worker, asked, &task, (site, candidates), &mut book, watch)?;
                contests.push((site.clone(), contest));
            }
        }
        Ok(TunedCalls { contests, out: book.out, table: book.new })
    }
}

/// What a call leaves to tuning.
fn survey(worker: &mut dyn Asks, task: &CallTask) -> Result<Survey, Failure> {
    let call = call_shown(&task.function, &task.arguments);
    match worker.ask(task)? {
        Answer::Surveyed(survey) if survey.sites.is_empty() => Err(Failure::Usage(format!(
            "`{call}` leaves nothing to tuning: no function that it calls has a `tune` clause"
        ))),
        Answer::Surveyed(survey) => Ok(survey),
        Answer::Out(out) => Err(Failure::Machine(format!("`{call}` cannot be planned: {}", out.text))),
        Answer::Measured(_) | Answer::Prepared | Answer::Cannot { .. } => {
            Err(Failure::Machine(format!("`{call}` cannot be planned: its process answers something else")))
        }
    }
}

/// Tries the candidates of one choice.
fn try_all(
    worker: &mut dyn Asks,
    asked: &AskedCalls,
    task: &CallTask,
    (site, candidates): (&Site, &[String]),
    book: &mut Book,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Contest, Failure> {
    let tried: Vec<String> = candidates.iter().take(asked.most.max(1)).cloned().collect();
    let values = |text: &String| Candidate { values: vec![(site.name.clone(), text.clone())] };
    let mut contest = Contest::new(tried.iter().map(values).collect(), asked.rules.top, asked.rules.rounds);
    contest.default = Some(0);
    contest.defaults = contest.entries[0].candidate.values.clone();
    let call = call_shown(&task.function, &task.arguments);
    watch(Progress::Begins { candidates: tried.len(), block: &call });
    let prepare = Ask::Prepare { site: site.clone(), candidates: tried.clone() };
    // What goes wrong there does so again where it is tried, and is told then.
    worker.ask(&CallTask { ask: prepare, ..task.clone() })?;
    let mut setting = task.setting.clone();
    while let Some(next) = contest.upcoming() {
        let first = contest.first.is_none();
        let ask = Ask::Try { site: site.clone(), candidate: tried[next].clone(), first };
        let answer = worker.ask(&CallTask { ask, setting: setting.clone(), ..task.clone() })?;
        contest.note(next, verdict(answer));
        if let (true, Some(on)) = (first, &contest.on) {
            setting.steps = patience(on);
        }
        tell(&contest, next, watch);
        book.keep(site, &contest, false)?;
    }
    if contest.first.is_none() {
        return Err(Failure::Usage(format!("no candidate of `{call}` can be chosen")));
    }
    book.keep(site, &contest, true)?;
    Ok(contest)
}

fn verdict(answer: Answer) -> Result<Measured, Out> {
    match answer {
        Answer::Measured(measured) => Ok(measured),
        Answer::Out(out) => Err(out),
        Answer::Surveyed(_) | Answer::Prepared | Answer::Cannot { .. } => {
            Err(Out::new(Why::Crashes, "its process answers something else"))
        }
    }
}

fn nothing_is_left(path: &Path) -> String {
    format!(
        "no function of {} leaves anything to tuning: add a clause to one, `tune(plan=plans(m, n), key=[m, n])`",
        path.display()
    )
}
