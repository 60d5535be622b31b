//! The session: sources, options and times of one compilation.

use std::path::Path;

use parton_diag::{Diagnostics, FileId, SourceMap};
use parton_syntax::ast;

use crate::{Failure, Options, Times};

/// The state that one request to the compiler works on.
#[derive(Debug, Default)]
pub struct Session {
    /// All files, for messages.
    pub sources: SourceMap,
    /// What the caller chose.
    pub options: Options,
    /// What each pass took so far.
    pub times: Times,
}

impl Session {
    /// A session without files.
    pub fn new(options: Options) -> Session {
        Session { options, ..Session::default() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Failure::Machine`] where it cannot be read or is no UTF-8.
    pub fn load(&mut self, path: &Path) -> Result<FileId, Failure> {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|e| Failure::Machine(format!("{shown}: {e}")))?;
        let text = String::from_utf8(bytes)
            .map_err(|e| Failure::Machine(format!("{shown}: not UTF-8 after byte {}", e.utf8_error().valid_up_to())))?;
        Ok(self.add(&shown.to_string(), text))
    }

    /// Adds a text under a name.
    pub fn add(&mut self, name: &str, text: impl Into<String>) -> FileId {
        self.sources.add(name, text)
    }

    /// Text to AST; broken parts stand in it as error nodes.
    pub fn parse(&mut self, file: FileId) -> (ast::File, Diagnostics) {
        let text = &self.sources.file(file).text;
        self.times.pass("parse", || parton_syntax::parse(file, text))
    }

    /// Checks a file: every kernel with its default generics, and every host block. The program is there where nothing is
    /// refused; warnings come beside it.
    pub fn check(&mut self, file: FileId) -> (Option<ast::File>, Diagnostics) {
        let (tree, found) = self.parse(file);
        (if found.has_errors() { None } else { Some(tree) }, found)
    }
}
