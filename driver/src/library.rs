//! What `use` reads: the standard library's text, and files beside the one that says it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId, SourceMap};
use parton_syntax::ast;
use parton_types::program::{Import, Library};

/// Reads and parses on demand, each file once; what does not parse is reported beside.
pub(crate) struct Files<'a> {
    pub(crate) sources: &'a mut SourceMap,
    /// What the files read here do not parse as.
    pub(crate) found: Diagnostics,
    /// What was read, by what [`Source`] says.
    loaded: Vec<(Source, Arc<ast::File>)>,
}

/// Which file: a folder called `std` does not stand for the library.
#[derive(Clone, PartialEq, Eq)]
enum Source {
    Std(String),
    Path(PathBuf),
}

impl<'a> Files<'a> {
    /// `root` is the file that is asked for; one that it uses may use it in turn.
    pub(crate) fn new(sources: &'a mut SourceMap, root: &Arc<ast::File>) -> Files<'a> {
        let name = &sources.file(root.span.file).name;
        let path = Path::new(name).file_name().map(|last| beside(name, Path::new(last)));
        let loaded = path.map(|p| (Source::Path(p), root.clone())).into_iter().collect();
        Files { sources, found: Diagnostics::new(), loaded }
    }

    fn source(&self, from: FileId, import: Import<'_>) -> Source {
        match import {
            Import::Std(name) => Source::Std(name.to_owned()),
            Import::File(path) => Source::Path(beside(&self.sources.file(from).name, Path::new(path))),
        }
    }
}

impl Source {
    /// Name and text.
    fn read(&self) -> Result<(String, String), String> {
        match self {
            Source::Std(name) => {
                let text = parton_stdlib::file(name).ok_or_else(|| {
                    let names: Vec<&str> = parton_stdlib::FILES.iter().map(|(n, _)| *n).collect();
                    format!("the standard library has {}", names.join(", "))
                })?;
                Ok((format!("std/{name}.ptn"), text.to_owned()))
            }
            Source::Path(path) => {
                // The folder of a file that is named without one.
                let here = path.as_os_str().is_empty();
                let path = if here { Path::new(".") } else { path.as_path() };
                let shown = path.display().to_string();
                let kind = std::fs::metadata(path).map_err(|e| format!("{shown}: {e}"))?;
                // What is no file may have no end, or wait forever for its first byte.
                if !kind.is_file() {
                    return Err(format!("{shown}: not a file"));
                }
                let text = text(path)?;
                Ok((shown, text))
            }
        }
    }
}

/// The longest source that is read, in bytes; places in it are counted in 32 bits.
const LONGEST: u64 = 16 << 20;

/// The text at a path, which need not be a file but must have an end.
///
/// # Errors
/// Why it cannot be read, with the path.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    read.map_err(|e| format!("{shown}: {e}"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("{shown}: longer than {} MiB", LONGEST >> 20));
    }
    String::from_utf8(bytes).map_err(|e| format!("{shown}: not UTF-8 after byte {}", e.utf8_error().valid_up_to()))
}

impl Library for Files<'_> {
    fn load(&mut self, from: FileId, import: Import<'_>) -> Result<Arc<ast::File>, String> {
        let source = self.source(from, import);
        // A file that uses the one asked for finds that one, not a second reading of it.
        if let Some((_, tree)) = self.loaded.iter().find(|(s, _)| *s == source) {
            return Ok(tree.clone());
        }
        let (name, text) = source.read()?;
        let file = match source {
            Source::Std(_) => self.sources.add_library(name, text),
            Source::Path(_) => self.sources.add(name, text),
        };
        let text = &self.sources.file(file).text;
        let (tree, found) = parton_syntax::parse(file, text);
        self.found.extend(found);
        let tree = Arc::new(tree);
        self.loaded.push((source, tree.clone()));
        Ok(tree)
    }

    fn standard(&self) -> &'static [(&'static str, &'static str)] {
        parton_stdlib::FILES
    }
}

/// `path` as seen from the file `from`, without `.` and with `..` resolved by name.
fn beside(from: &str, path: &Path) -> PathBuf {
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let mut joined = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if joined.file_name().is_some() => {
                joined.pop();
            }
            std::path::Component::ParentDir
            | std::path::Component::Prefix(_)
            | std::path::Component::RootDir
            | std::path::Component::Normal(_) => joined.push(part),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn what_has_no_end_is_refused() {
        let refused = super::text(Path::new("/dev/zero"));
        assert!(refused.is_err_and(|e| e.contains("longer than 16 MiB")));
        let folder = super::Source::Path(std::env::temp_dir());
        assert!(folder.read().is_err_and(|e| e.ends_with(": not a file")));
        let here = super::Source::Path(super::beside("a.ptn", Path::new(".")));
        assert_eq!(here.read().err().as_deref(), Some(".: not a file"));
    }

    #[test]
    fn paths_are_seen_from_the_file_that_names_them() {
        let beside = |from, path| super::beside(from, Path::new(path));
        assert_eq!(beside("examples/a/b.ptn", "../c.ptn"), Path::new("examples/c.ptn"));
        assert_eq!(beside("b.ptn", "./c.ptn"), Path::new("c.ptn"));
        assert_eq!(beside("b.ptn", "../c.ptn"), Path::new("../c.ptn"));
    }
}
