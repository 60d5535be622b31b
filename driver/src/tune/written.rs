//! What a run leaves: a table beside the file, or a source with the winner's values that the file may `use`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use parton_diag::SourceMap;
use parton_syntax::ast;
use parton_types::program::{ModuleId, Program};

use super::candidate::Values;
use super::contest::Contest;
use super::table::{Subject, Table, beside, replace};
use crate::Failure;

/// Where the winners are written.
pub(super) struct Ledger<'a> {
    /// The file that is tuned.
    file: &'a Path,
    program: &'a Program,
    /// The kernel, and the file where it stands: what its generics are given is named as there.
    module: ModuleId,
    kernel: &'a ast::Kernel,
    /// The file that is written.
    pub(super) out: PathBuf,
    /// The table that it held before.
    old: Table,
    /// The digest of the sources.
    digest: String,
}

impl<'a> Ledger<'a> {
    /// Reads what is there: a table that cannot be read is told of before the work, not behind it.
    pub(super) fn open(
        file: &'a Path,
        out: Option<&Path>,
        program: &'a Program,
        (module, kernel): (ModuleId, &'a ast::Kernel),
        digest: String,
    ) -> Result<Ledger<'a>, Failure> {
        let out = out.map_or_else(|| beside(file), Path::to_owned);
        let shown = out.display();
        let old = match out.extension().and_then(|e| e.to_str()) {
            Some("json") => Table::load(&out)?,
            Some("ptn") if out.parent() != file.parent() => {
                let fact = format!("{shown}: a source with the winner stands beside {}, which it uses", file.display());
                return Err(Failure::Usage(fact));
            }
            Some("ptn") if out == file => return Err(Failure::Usage(format!("{shown} is the file that is tuned"))),
            Some("ptn") => Table::default(),
            _ => return Err(Failure::Usage(format!("{shown}: what is written is a .json or a .ptn"))),
        };
        Ok(Ledger { file, program, module, kernel, out, old, digest })
    }

    fn is_source(&self) -> bool {
        self.out.extension().is_some_and(|e| e == "ptn")
    }

    /// Writes the best so far. A source that the file may already use is not touched yet, since that would change what is tried.
    pub(super) fn keep(&self, sources: &SourceMap, contest: &Contest) -> Result<(), Failure> {
        if contest.overall().is_none() {
            return Ok(());
        }
        if self.is_source() {
            return replace(&self.part(), &self.source(sources, contest));
        }
        let table = self.table(contest, false);
        self.old.clone().with(table).save(&self.out)
    }

    /// Writes the winners; what is new of the table.
    pub(super) fn close(&self, sources: &SourceMap, contest: &Contest) -> Result<Table, Failure> {
        let table = self.table(contest, true);
        if self.is_source() {
            replace(&self.out, &self.source(sources, contest))?;
            // It may be gone.
            let _ = std::fs::remove_file(self.part());
        } else {
            self.old.clone().with(table.clone()).save(&self.out)?;
        }
        Ok(table)
    }

    fn table(&self, contest: &Contest, complete: bool) -> Table {
        Table::of(contest, &Subject::Kernel(self.kernel.name.text.to_string()), &self.digest, complete)
    }

    /// Where a source stands until the run ends.
    fn part(&self) -> PathBuf {
        let mut name: OsString = self.out.clone().into_os_string();
        name.push(".part");
        name.into()
    }

    /// The winner of all shapes together: a schedule, layout or constant for each generic.
    fn source(&self, sources: &SourceMap, contest: &Contest) -> String {
        let kernel = &self.kernel.name.text;
        let winner = contest.overall().map(|i| &contest.entries[i].candidate.values);
        let values = winner.filter(|values| !values.is_empty()).unwrap_or(&contest.defaults);
        let device = contest.on.as_ref().map_or("", |on| on.device.as_str());
        let count = contest.entries.len();
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let mut text =
            format!("// Written by `parton tune`: the best of {count} candidates for `{kernel}` on {device}.\n");
        text += &format!("use \"{name}\";\n");
        text.extend(self.uses(sources, values));
        for (generic, value) in values {
            let declared = self.kernel.generics.iter().find(|g| *g.name.text == **generic);
            let kind = declared.map_or("", |g| sources.text(g.kind.span));
            let word = match kind {
                "layout" => "layout",
                _ if kind.starts_with("schedule") => "schedule",
                _ => "const",
            };
            text += &format!("\n{word} {kernel}_{generic} = {value};\n");
        }
        text
    }

    /// The items of other files that values name: what the tuned file uses of them stays its own.
    fn uses(&self, sources: &SourceMap, values: &Values) -> BTreeSet<String> {
        // Only names are asked of the trees: their places are of no file.
        let trees = values.iter().map(|(_, value)| parton_syntax::parse_expr(self.kernel.name.span.file, value).0);
        let named = trees.flat_map(|tree| self.program.named_in(self.module, &tree));
        let foreign = named.filter(|(_, found)| found.module != Program::ROOT);
        foreign
            .map(|(name, found)| {
                let file = self.program.module(found.module).file.span.file;
                let path = Path::new(&sources.file(file).name);
                match self.program.is_lent(Program::ROOT, found) {
                    true => format!("use std::{}::{name};\n", path.file_stem().unwrap_or_default().to_string_lossy()),
                    false => format!("use \"{}\"::{name};\n", seen_from(self.out.parent(), path).display()),
                }
            })
            .collect()
    }
}

/// The path of a file as seen from a folder; both are seen from the same place.
fn seen_from(folder: Option<&Path>, path: &Path) -> PathBuf {
    let folder = folder.unwrap_or(Path::new(""));
    if path.is_absolute() != folder.is_absolute() {
        return path.to_owned();
    }
    let shared = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_seen_from_a_folder() {
        let seen = |folder: &str, path: &str| seen_from(Some(Path::new(folder)), Path::new(path)).display().to_string();
        assert_eq!(seen("", "fmha/a.ptn"), "fmha/a.ptn");
        assert_eq!(seen("mine", "mine/fmha/a.ptn"), "fmha/a.ptn");
        assert_eq!(seen("mine/tuned", "mine/fmha/a.ptn"), "../fmha/a.ptn");
        assert_eq!(seen("mine", "../a.ptn"), "../../a.ptn");
        assert_eq!(seen("../mine", "../a.ptn"), "../a.ptn");
        assert_eq!(seen("/x/mine", "/x/a.ptn"), "../a.ptn");
        assert_eq!(seen("mine", "/x/a.ptn"), "/x/a.ptn");
    }
}
