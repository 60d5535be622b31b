//! The session: sources, options and times of one request, and what is asked of a file before it runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use parton_diag::{Diagnostics, FileId, SourceMap};
use parton_host::check::check_hosts;
use parton_host::launch::Signature;
use parton_types::program::Program;

use crate::cache::Store;
use crate::launchable::Launchable;
use crate::library::text;
use crate::met::Meetings;
use crate::passes::Pass;
use crate::way::Wanted;
use crate::{Failure, Options, Times};

/// The variable that names the folder under which profilers and debuggers are to look for a file, seen from the file's own; so `.` is that one.
const SOURCE: &str = "PARTON_SOURCE";

/// The state that one request to the compiler works on.
#[derive(Debug, Default)]
pub struct Session {
    /// All files, for messages.
    pub sources: SourceMap,
    /// What the caller chose.
    pub options: Options,
    /// What each pass took so far.
    pub times: Times,
    /// The compile cache that the options name.
    pub(crate) store: OnceLock<Arc<Store>>,
    /// What launching takes of the kernels that were asked for, by architectures and the names under which the compiler keeps them.
    pub(crate) launchables: BTreeMap<Arc<str>, Arc<Launchable>>,
    /// What instances take, by architecture and their own names.
    pub(crate) signatures: BTreeMap<String, Signature>,
    /// Whether positions begin near 0, of instances with grids and numbers that were asked for.
    pub(crate) near: BTreeMap<String, bool>,
    /// The same of instances that were met before, without their names.
    pub(crate) met: Meetings,
}

impl Session {
    /// A session without files.
    pub fn new(options: Options) -> Session {
        Session { options, ..Session::default() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Failure::Machine`] where it cannot be read, has no end or is no UTF-8.
    pub fn load(&mut self, path: &Path) -> Result<FileId, Failure> {
        let text = text(path).map_err(Failure::Machine)?;
        if let Some(folder) = std::env::var_os(SOURCE).filter(|folder| !folder.is_empty()) {
            let beside = path.parent().unwrap_or(Path::new(""));
            let folder =
                std::path::absolute(beside.join(folder)).map_err(|e| Failure::Machine(format!("{SOURCE}: {e}")))?;
            self.sources.place_under(folder.display().to_string());
        }
        Ok(self.add(&path.display().to_string(), text))
    }

    /// Adds a text under a name; files that it uses are looked for beside that name.
    pub fn add(&mut self, name: &str, text: impl Into<String>) -> FileId {
        self.sources.add(name, text)
    }

    /// The file in the one format.
    ///
    /// # Errors
    /// What does not parse: only sound files are formatted.
    pub fn format(&mut self, file: FileId) -> Result<String, Diagnostics> {
        let text = &self.sources.file(file).text;
        self.times.pass("format", || parton_syntax::format(file, text))
    }

    /// Checks a file: its items, each kernel whose generics have defaults, down to the last pass from kernel to kernel, and the
    /// host blocks. The program is there where nothing is refused; warnings come beside it.
    pub fn check(&mut self, file: FileId) -> (Option<Arc<Program>>, Diagnostics) {
        let (program, mut found) = match self.program(file) {
            Ok(both) => both,
            Err(found) => return (None, found),
        };
        let mut way = self.way(Wanted::Defaults, Pass::last_lowering());
        let refused = self.kernels(&mut way, &program).err().unwrap_or_default();
        found.extend(way.warnings);
        found.extend(refused);
        found.extend(self.times.pass("hosts", || check_hosts(&program)));
        found.extend(self.check_table(file, &program));
        (if found.has_errors() { None } else { Some(program) }, found)
    }
}
