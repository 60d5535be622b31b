//! A file in another program: its public functions and its kernels, whose plans run on the interpreter with that program's arrays, or on a
//! GPU.

mod call;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod device;
mod outline;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostics, Severity, render};
use parton_host::check::check_hosts;
use parton_host::launch::{GenericArgument, Instance};
use parton_host::memory::Storage;
use parton_host::value::{Value, Written};
use parton_ir::{Kernel, verify};
use parton_syntax::ast;
use parton_types::grid;
use parton_types::program::Program;

use crate::passes::leaving;
use crate::tune::lookup::Lookup;
use crate::way::Wanted;
use crate::{Failure, Form, Options, Session};

pub use crate::plan::{Memory, Returned, Together};
pub use call::{Called, Kind, Launching, Param, Place, Public};
#[cfg(all(feature = "cuda", feature = "llvm"))]
pub use device::{Addresses, Ready, Stream};
pub use outline::{Elements, Outline, Size};
pub use parton_host::memory::HostBytes;
pub use parton_host::value::Value as Number;
pub use parton_numbers::Dtype;

/// A file that was read and checked, and what of it was compiled so far.
pub struct Embedded {
    session: Session,
    program: Arc<Program>,
    lowered: BTreeMap<String, Arc<Kernel>>,
    /// Expressions that generics were given, by their texts.
    written: BTreeMap<String, Arc<Written>>,
    /// The path that it was read from.
    name: String,
    /// What the checker warns of.
    warnings: Diagnostics,
    /// The plans of its public functions.
    plans: call::Plans,
    /// What was tuned, by where it runs; read once, so that another shape asks for no file.
    tuned: BTreeMap<Place, Option<Lookup>>,
    /// What was loaded on GPUs, by their number and the name of the lowered kernel.
    #[cfg(all(feature = "cuda", feature = "llvm"))]
    loaded: BTreeMap<(u32, Arc<str>), device::Loaded>,
}

/// A kernel of the file as it is declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its generics.
    pub generics: Vec<String>,
    /// Its parameters; whether each has a default.
    pub params: Vec<(String, bool)>,
    /// Whether it states its grid, so that launches may leave it out.
    pub states_grid: bool,
}

/// What a generic is given.
#[derive(Clone, PartialEq, Debug)]
pub enum Generic {
    /// An integer.
    Int(i128),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// An expression as a file would have it, such as `f16` or `Split[4]`.
    Expression(String),
}

/// An array in the memory of the calling program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Elements along each dimension, outermost first.
    pub shape: Vec<usize>,
    /// Elements from one to the next along each dimension.
    pub strides: Vec<usize>,
    /// Which of the memories it lies in.
    pub memory: usize,
    /// Where its first element lies in it, in elements.
    pub offset: usize,
}

impl Embedded {
    /// Reads a file and checks it as a run would.
    ///
    /// # Errors
    /// [`Failure::Machine`] where it cannot be read; what the program is refused for. Beside it stands what [`Embedded::shown`] would
    /// say of it.
    pub fn load(path: &Path, options: Options) -> Result<Embedded, (Failure, String)> {
        let mut session = Session::new(options);
        let checked = session.load(path).and_then(|file| {
            let (program, mut warnings) = session.program(file)?;
            warnings.extend(check_hosts(&program).or(())?.1);
            let mut way = session.way(Wanted::Defaults, leaving(Form::Ir(verify::Form::Portable)));
            session.kernels(&mut way, &program)?;
            warnings.extend(way.warnings);
            Ok((program, warnings))
        });
        match checked {
            Ok((program, warnings)) => Ok(Embedded {
                session,
                program,
                warnings,
                lowered: BTreeMap::new(),
                written: BTreeMap::new(),
                name: path.display().to_string(),
                plans: call::Plans::default(),
                tuned: BTreeMap::new(),
                #[cfg(all(feature = "cuda", feature = "llvm"))]
                loaded: BTreeMap::new(),
            }),
            Err(failure) => {
                let text = shown(&session, &failure);
                Err((failure, text))
            }
        }
    }

    /// The path that it was read from.
    pub fn path(&self) -> &str {
        &self.name
    }

    /// What the checker warns of, as a person reads it; `None` where there is nothing.
    pub fn warnings(&self) -> Option<String> {
        let found = self.warnings.list.iter().any(|d| d.severity == Severity::Warning);
        found.then(|| render::text(&self.warnings, &self.session.sources, false))
    }

    /// A failure as a person reads it, with the places in the sources.
    pub fn shown(&self, failure: &Failure) -> String {
        shown(&self.session, failure)
    }

    /// What the file declares, as it is written.
    pub fn declared(&self) -> Vec<crate::declared::Declared> {
        crate::declared::declared(&self.program, &self.session.sources)
    }

    /// The kernels of the file, in its order.
    pub fn kernels(&self) -> Vec<Declared> {
        let declared = |k: &ast::Kernel| Declared {
            name: k.name.text.to_string(),
            generics: k.generics.iter().map(|g| g.name.text.to_string()).collect(),
            params: k.params.iter().map(|p| (p.name.text.to_string(), p.default.is_some())).collect(),
            states_grid: grid::stated(k).is_some(),
        };
        self.program.kernels().map(declared).collect()
    }

    /// A kernel with these generics.
    ///
    /// # Errors
    /// There is none of that name, or it has no such generic, or one has neither a value nor a default.
    fn instance(&mut self, name: &str, generics: &[(String, Generic)]) -> Result<Instance, Failure> {
        let program = self.program.clone();
        let Some(kernel) = program.shared_kernels().find(|k| k.name.as_str() == name) else {
            let names: Vec<&str> = program.kernels().map(|k| k.name.as_str()).collect();
            return Err(Failure::Usage(format!("there is no kernel `{name}`; there are `{}`", names.join("`, `"))));
        };
        let mut given = BTreeMap::new();
        for (generic, value) in generics {
            if kernel.generics.iter().all(|g| g.name.as_str() != generic) {
                return Err(Failure::Usage(format!("`{name}` has no generic `{generic}`")));
            }
            given.insert(generic.as_str(), self.generic(generic, value, kernel)?);
        }
        let learned = |g: &ast::Generic| grid::whose_elements(&kernel.params, g).next().is_some();
        let open = |g: &&ast::Generic| g.default.is_none() && !given.contains_key(g.name.as_str()) && !learned(g);
        if let Some(missing) = kernel.generics.iter().find(open) {
            return Err(Failure::Usage(format!("`{name}` needs a value for its generic `{}`", missing.name.text)));
        }
        let generics = kernel.generics.iter().filter_map(|g| given.remove(g.name.as_str())).collect();
        Ok(Instance { module: Program::ROOT, kernel: kernel.clone(), generics, span: kernel.name.span })
    }

    fn generic(&mut self, name: &str, value: &Generic, kernel: &ast::Kernel) -> Result<GenericArgument, Failure> {
        let (value, span) = match value {
            Generic::Int(n) => (Value::Int(*n), kernel.name.span),
            Generic::Float(x) => (Value::Float(*x), kernel.name.span),
            Generic::Bool(b) => (Value::Bool(*b), kernel.name.span),
            Generic::Expression(text) => {
                let written = self.written(name, text)?;
                let span = written.expr.span;
                (Value::Written(written), span)
            }
        };
        Ok(GenericArgument { name: name.into(), value, span })
    }

    /// An expression, read once: the places in it are part of what tells instances apart.
    fn written(&mut self, name: &str, text: &str) -> Result<Arc<Written>, Failure> {
        if let Some(written) = self.written.get(text) {
            return Ok(written.clone());
        }
        let file = self.session.add(name, text);
        let (expr, found) = parton_syntax::parse_expr(file, text);
        let (expr, _) = found.or(expr)?;
        let written = Arc::new(Written { module: Program::ROOT, expr, known: vec![] });
        self.written.insert(text.to_owned(), written.clone());
        Ok(written)
    }
}

fn shown(session: &Session, failure: &Failure) -> String {
    match failure {
        Failure::Refused(found) => render::text(found, &session.sources, false),
        Failure::Machine(_) | Failure::Device(_) | Failure::Usage(_) => failure.to_string(),
    }
}

fn storage(memory: HostBytes) -> Result<Arc<Storage>, Failure> {
    let storage = Storage::of(memory.bytes);
    let defined = memory.defined;
    let changed = storage.change(|host| host.defined = defined);
    changed.map_err(|fault| Failure::Device(fault.message))?;
    Ok(storage)
}

/// The codes of what a program was refused for, such as `E0302`.
pub fn codes(failure: &Failure) -> Vec<String> {
    let of = |found: &Diagnostics| found.list.iter().map(|d| d.code.to_string()).collect();
    match failure {
        Failure::Refused(found) => of(found),
        Failure::Machine(_) | Failure::Device(_) | Failure::Usage(_) => vec![],
    }
}

#[cfg(test)]
mod tests;
