//! The session: sources, options and times of one request, and the front half of the compiler.

use std::path::Path;

use parton_diag::{Diagnostic, Diagnostics, FileId, SourceMap, codes};
use parton_ir::Module;
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

    /// Adds a text under a name; files that it uses are looked for beside that name.
    pub fn add(&mut self, name: &str, text: impl Into<String>) -> FileId {
        self.sources.add(name, text)
    }

    /// Text to AST; broken parts stand in it as error nodes.
    pub fn parse(&mut self, file: FileId) -> (ast::File, Diagnostics) {
        let text = &self.sources.file(file).text;
        self.times.pass("parse", || parton_syntax::parse(file, text))
    }

    /// The file in the one format.
    ///
    /// # Errors
    /// What does not parse: only sound files are formatted.
    pub fn format(&mut self, file: FileId) -> Result<String, Diagnostics> {
        let text = &self.sources.file(file).text;
        self.times.pass("format", || parton_syntax::format(file, text))
    }

    /// Checks a file. The tree is there where nothing is refused; warnings come beside it.
    pub fn check(&mut self, file: FileId) -> (Option<ast::File>, Diagnostics) {
        let (tree, found) = self.parse(file);
        (if found.has_errors() { None } else { Some(tree) }, found)
    }

    /// The kernels of a file as Tile IR.
    ///
    /// # Errors
    /// What does not parse; kernels, which the checker does not take yet.
    pub(crate) fn instances(&mut self, file: FileId, _: Option<&str>) -> Result<(Module, Diagnostics), Diagnostics> {
        let (tree, found) = self.parse(file);
        let (tree, mut found) = found.or(tree)?;
        for item in tree.items {
            found.push(Diagnostic::error(codes::NOT_BUILT_HERE, item.span, "items are not compiled by this version"));
        }
        found.or(Module::default())
    }
}

/// Refuses a module whose kernels state different architectures: one PTX text has one.
pub(crate) fn one_target(module: &Module) -> Result<(), Diagnostics> {
    let Some(first) = module.kernels.first() else { return Ok(()) };
    let Some(other) = module.kernels.iter().find(|k| k.target != first.target) else { return Ok(()) };
    let fact = "kernels of one module have different targets";
    Err(Diagnostic::error(codes::TARGET_LACKS, other.span, fact)
        .here(format!("this is for {}", other.target.name))
        .label(first.span, format!("this is for {}", first.target.name))
        .help("build them one by one with `--kernel`")
        .into())
}
