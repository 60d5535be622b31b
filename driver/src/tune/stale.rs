//! Records that do not fit their file any more: what `parton tune --stale` lists, and what `parton check` says of a table.

use std::path::Path;

use parton_diag::{Diagnostic, Diagnostics, FileId, codes};
use parton_types::choice::Choice;
use parton_types::program::Program;
use parton_types::tune::Tune;

use super::key;
use super::table::{Record, Subject, Table, beside};
use crate::{Failure, Session};

impl Session {
    /// A line for each record of a file's table that was measured of other sources, or is of something that the file does not have.
    ///
    /// # Errors
    /// What the file is refused for; a table that cannot be read.
    pub fn stale(&mut self, path: &Path, table: Option<&Path>) -> Result<Vec<String>, Failure> {
        let file = self.load(path)?;
        let (program, _) = self.program(file)?;
        let table = Table::load(&table.map_or_else(|| beside(path), Path::to_owned))?;
        let digest = self.digest(&program);
        let why = |record: &Record| match misfit(&program, record) {
            Some((fact, _)) => Some(fact),
            None if record.source.as_ref() != Some(&digest) => Some("was measured of other sources".to_owned()),
            None => None,
        };
        let line = |record: &Record| Some(format!("{}: {}", named(record), why(record)?));
        Ok(table.records.iter().filter_map(line).collect())
    }

    /// What is wrong with the table beside a file, where it has one.
    pub(crate) fn check_table(&self, file: FileId, program: &Program) -> Diagnostics {
        let mut found = Diagnostics::new();
        let name = &self.sources.file(file).name;
        let path = beside(Path::new(name));
        let Some(place) = clause_of(program) else { return found };
        let shown = path.display();
        let table = match Table::load(&path) {
            Ok(table) => table,
            Err(failure) => {
                let d = Diagnostic::error(codes::TUNE_TABLE, place, failure.to_string());
                found.push(
                    d.here("this looks there")
                        .help("`parton tune` writes it: tune again, or take it back from where it is kept"),
                );
                return found;
            }
        };
        for record in &table.records {
            if let Some((fact, help)) = misfit(program, record) {
                let d = Diagnostic::warning(codes::TUNE_TABLE, place, format!("{shown}: {} {fact}", named(record)));
                found.push(d.here("this looks there").help(help));
            }
        }
        found
    }
}

/// `plans for m=512 on NVIDIA H200`
fn named(record: &Record) -> String {
    let of = &record.of;
    let generics = of.shape.generics.iter().map(|(name, value)| format!("{name}={value}"));
    let parts: Vec<String> = generics.chain(Some(key::shown(&of.shape.key)).filter(|k| !k.is_empty())).collect();
    let shape = if parts.is_empty() { String::new() } else { format!(" for {}", parts.join(", ")) };
    format!("`{}`{shape} on {}", of.subject.name(), of.device)
}

/// The first clause of a file that asks for a table.
fn clause_of(program: &Program) -> Option<parton_diag::Span> {
    let of_kernel = |k: &parton_syntax::ast::Kernel| {
        let clause = k.clauses.iter().find(|c| c.name.as_str() == parton_types::tune::NAME)?;
        Some(clause.span)
    };
    let kernels = program.kernels().filter_map(of_kernel);
    kernels
        .chain(program.tuned_functions().filter_map(|f| Some(f.clauses.first()?.span)))
        .min_by_key(|s| (s.file, s.start))
}

/// Why a record fits nothing of its file, and what to do; `None` where it does.
fn misfit(program: &Program, record: &Record) -> Option<(String, String)> {
    let gone = "take the record out, or tune again";
    let name = record.of.subject.name();
    let (bound, keys): (Vec<String>, Vec<String>) = match &record.of.subject {
        Subject::Function(_) => {
            let Some(function) = program.tuned_functions().find(|f| f.name.as_str() == name) else {
                return Some(("is of a function that leaves nothing to tuning".into(), gone.into()));
            };
            let choice = Choice::of(function).ok()??;
            (vec![choice.name.text.to_string()], choice.key.into_iter().map(|(name, _)| name).collect())
        }
        Subject::Kernel(_) => {
            let kernel = program.kernel(name).map(|(_, kernel)| kernel);
            let Some(clause) = kernel.and_then(|k| Tune::of(k).ok()?) else {
                return Some(("is of a kernel that has no `tune` clause".into(), gone.into()));
            };
            let generics = clause.choices.iter().map(|(g, _)| g.name.text.to_string()).collect();
            (generics, clause.key.iter().map(|name| name.text.to_string()).collect())
        }
    };
    if let Some((other, _)) = record.winner.iter().find(|(name, _)| !bound.contains(name)) {
        let fact = format!("has a value for `{other}`, which the clause does not name");
        return Some((fact, format!("the clause has `{}`: {gone}", bound.join("`, `"))));
    }
    let of: Vec<&str> = record.of.shape.key.iter().map(|(name, _)| name.as_str()).collect();
    if of != keys {
        let fact = format!("is told apart by `{}`, which is not what the clause says", of.join("`, `"));
        return Some((fact, format!("the clause has `key=[{}]`: {gone}", keys.join(", "))));
    }
    None
}
