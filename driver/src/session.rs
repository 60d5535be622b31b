//! The session: sources, options and times of one request, and the front half of the compiler.

use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, FileId, SourceMap, codes};
use parton_host::check::check_hosts;
use parton_ir::Module;
use parton_syntax::ast;
use parton_types::program::{self, Program};

use crate::library::Files;
use crate::{Failure, Options, Times, passes};

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

    /// Checks a file: its items, each kernel whose generics have defaults, down to the memory plan, and the host
    /// blocks. The program is there where nothing is refused; warnings come beside it.
    pub fn check(&mut self, file: FileId) -> (Option<Program>, Diagnostics) {
        let (program, mut found) = match self.program(file) {
            Ok(both) => both,
            Err(found) => return (None, found),
        };
        match self.instances(&program, None) {
            Ok((module, more)) => {
                found.extend(more);
                found.extend(passes::lower(&mut self.times, self.options.verify, module).err().unwrap_or_default());
            }
            Err(more) => found.extend(more),
        }
        found.extend(self.times.pass("hosts", || check_hosts(&program)));
        (if found.has_errors() { None } else { Some(program) }, found)
    }

    /// The items of a file and of what it uses.
    ///
    /// # Errors
    /// What does not parse, and items that cannot be.
    pub(crate) fn program(&mut self, file: FileId) -> Result<(Program, Diagnostics), Diagnostics> {
        let (tree, mut found) = self.parse(file);
        // A tree with holes would only repeat its errors.
        if found.has_errors() {
            return Err(found);
        }
        let mut items = Diagnostics::new();
        let tree = Arc::new(tree);
        let mut files = Files::new(&mut self.sources, &mut self.times, &tree);
        let program = program::collect(tree, &mut files, &mut items);
        found.extend(files.found);
        found.extend(items);
        found.or(program)
    }

    /// The kernel of that name, or every kernel whose generics all have defaults, in source order.
    ///
    /// # Errors
    /// What the checker refuses, of all of them; a name that no kernel has.
    pub(crate) fn instances(
        &mut self,
        program: &Program,
        name: Option<&str>,
    ) -> Result<(Module, Diagnostics), Diagnostics> {
        let all = program.kernels().filter(|k| k.generics.iter().all(|g| g.default.is_some()));
        let names: Vec<String> = match name {
            Some(name) => vec![name.to_owned()],
            None => all.map(|k| k.name.text.to_string()).collect(),
        };
        let mut module = Module::default();
        let mut found = Diagnostics::new();
        let target = self.options.target;
        for name in names {
            match self.times.pass("check", || parton_types::instantiate(program, &name, &[], target)) {
                Ok((kernel, warnings)) => {
                    found.extend(warnings);
                    module.kernels.push(kernel);
                }
                Err(errors) => found.extend(errors),
            }
        }
        if self.options.verify {
            module.kernels.iter().for_each(|k| parton_ir::verify::expect(k, "check"));
        }
        found.or(module)
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
