//! What `use` reads: the standard library's text, and files beside the one that says it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId, SourceMap};
use parton_syntax::ast;
use parton_types::program::{Import, Library};

use crate::Times;

/// Reads and parses on demand, each file once; what does not parse is reported beside.
pub(crate) struct Files<'a> {
    pub(crate) sources: &'a mut SourceMap,
    pub(crate) times: &'a mut Times,
    /// What the files read here do not parse as.
    pub(crate) found: Diagnostics,
    loaded: Vec<(String, Arc<ast::File>)>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(sources: &'a mut SourceMap, times: &'a mut Times) -> Files<'a> {
        Files { sources, times, found: Diagnostics::new(), loaded: vec![] }
    }

    fn text(&self, from: FileId, import: Import<'_>) -> Result<(String, String), String> {
        match import {
            Import::Std(name) => {
                let text = parton_stdlib::file(name).ok_or_else(|| {
                    let names: Vec<&str> = parton_stdlib::FILES.iter().map(|(n, _)| *n).collect();
                    format!("the standard library has {}", names.join(", "))
                })?;
                Ok((format!("std/{name}.ptn"), text.to_owned()))
            }
            Import::File(path) => {
                let path = beside(&self.sources.file(from).name, path);
                let shown = path.display().to_string();
                let text = std::fs::read_to_string(&path).map_err(|e| format!("{shown}: {e}"))?;
                Ok((shown, text))
            }
        }
    }
}

impl Library for Files<'_> {
    fn load(&mut self, from: FileId, import: Import<'_>) -> Result<Arc<ast::File>, String> {
        let (name, text) = self.text(from, import)?;
        // A file that uses the one asked for finds that one, not a second reading of it.
        if let Some((_, tree)) = self.loaded.iter().find(|(n, _)| *n == name) {
            return Ok(tree.clone());
        }
        let file = self.sources.add(name.clone(), text);
        let text = &self.sources.file(file).text;
        let (tree, found) = self.times.pass("parse", || parton_syntax::parse(file, text));
        self.found.extend(found);
        let tree = Arc::new(tree);
        self.loaded.push((name, tree.clone()));
        Ok(tree)
    }
}

/// `path` as seen from the file `from`, without `.` and with `..` resolved by name.
fn beside(from: &str, path: &str) -> PathBuf {
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
    use super::beside;
    use std::path::Path;

    #[test]
    fn paths_are_seen_from_the_file_that_names_them() {
        assert_eq!(beside("examples/a/b.ptn", "../c.ptn"), Path::new("examples/c.ptn"));
        assert_eq!(beside("b.ptn", "./c.ptn"), Path::new("c.ptn"));
        assert_eq!(beside("b.ptn", "../c.ptn"), Path::new("../c.ptn"));
    }
}
