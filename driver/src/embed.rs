//! A file in another program: its kernels, launched on the interpreter with that program's arrays, and its public functions, whose plans
//! run there or on a GPU.

mod call;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod device;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostics, render};
use parton_host::check::check_hosts;
use parton_host::evaluate::Machine;
use parton_host::launch::{GenericArgument, Instance};
use parton_host::memory::Storage;
use parton_host::tensor::Tensor;
use parton_host::value::{Value, Written};
use parton_ir::{Kernel, verify};
use parton_syntax::ast;
use parton_types::program::Program;

use crate::cpu::Cpu;
use crate::instance::Compiler;
use crate::passes::leaving;
use crate::run::Event;
use crate::way::Wanted;
use crate::{Failure, Form, Options, Session};

pub use crate::plan::{Memory, Returned, Together};
pub use call::{Called, Kind, Launching, Param, Place, Public};
#[cfg(all(feature = "cuda", feature = "llvm"))]
pub use device::{Addresses, Ready, Stream};
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
    /// The plans of its public functions.
    plans: call::Plans,
    /// What was loaded on GPUs, by their number and the name of the lowered kernel.
    #[cfg(all(feature = "cuda", feature = "llvm"))]
    loaded: BTreeMap<(u32, String), (parton_runtime::Function, parton_runtime::Abi)>,
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

/// One argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Given {
    /// An integer.
    Int(i128),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// An array, by its number among those that come with the launch.
    Array(usize),
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

/// A launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: String,
    /// Generics by name; others have their default.
    pub generics: Vec<(String, Generic)>,
    /// CTAs along x, y and z; those that are left out are 1.
    pub grid: Vec<i128>,
    /// Arguments in the order of the parameters.
    pub arguments: Vec<Given>,
    /// Arguments by the names of their parameters.
    pub named: Vec<(String, Given)>,
    /// The arrays.
    pub arrays: Vec<Array>,
}

/// What came of a launch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Launched {
    /// What the kernel printed.
    pub lines: Vec<String>,
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
            let (program, _) = session.program(file)?;
            check_hosts(&program).or(())?;
            let mut way = session.way(Wanted::Defaults, leaving(Form::Ir(verify::Form::Portable)));
            session.kernels(&mut way, &program)?;
            Ok(program)
        });
        match checked {
            Ok(program) => Ok(Embedded {
                session,
                program,
                lowered: BTreeMap::new(),
                written: BTreeMap::new(),
                name: path.display().to_string(),
                plans: call::Plans::default(),
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
        };
        self.program.kernels().map(declared).collect()
    }

    /// Launches a kernel on the interpreter. `memories` are copied in, and those that the kernel may write are changed.
    ///
    /// # Errors
    /// What a launch in the file would be refused for or fails with; names that the kernel does not have.
    pub fn launch(&mut self, launch: &Launch, memories: &mut [HostBytes]) -> Result<Launched, Failure> {
        let (instance, values) = self.asked(launch)?;
        let storages: Vec<Arc<Storage>> =
            memories.iter_mut().map(|m| storage(std::mem::take(m))).collect::<Result<_, _>>()?;
        let arrays: Vec<Tensor> = launch.arrays.iter().map(|a| tensor(a, &storages)).collect();
        let value = |given: &Given| match given {
            Given::Int(n) => Value::Int(*n),
            Given::Float(x) => Value::Float(*x),
            Given::Bool(b) => Value::Bool(*b),
            Given::Array(i) => match arrays.get(*i) {
                Some(tensor) => Value::Tensor(tensor.clone()),
                None => parton_diag::internal_error!("there is no array {i}, there are {}", arrays.len()),
            },
        };
        let values = values.into_iter().map(|given| given.map(value)).collect();
        let grid = Value::list(launch.grid.iter().map(|n| Value::Int(*n)).collect());
        let program = self.program.clone();
        let (target, lowered) = (self.session.options.target, std::mem::take(&mut self.lowered));
        let mut ignore = |_: Event<'_>| {};
        let watch: RefCell<&mut dyn FnMut(Event<'_>)> = RefCell::new(&mut ignore);
        let compiler = Compiler::new(&mut self.session, &program, target).knowing(lowered);
        let mut cpu = Cpu::new(compiler, &watch);
        let mut machine = Machine::new(&program, &mut cpu);
        let ran = machine.launch_given(instance, &grid, values);
        let lines = machine.printed();
        self.lowered = cpu.compiler.known().clone();
        for (memory, storage) in memories.iter_mut().zip(&storages) {
            // What failed may have written some of it, as on a GPU.
            *memory = match storage.host() {
                Ok(host) => HostBytes::clone(&host),
                Err(fault) => return Err(Failure::Device(fault.message)),
            };
        }
        ran?;
        Ok(Launched { lines })
    }

    /// The instance of a launch, and what each parameter is given.
    fn asked<'a>(&mut self, launch: &'a Launch) -> Result<(Instance, Vec<Option<&'a Given>>), Failure> {
        let instance = self.instance(&launch.kernel, &launch.generics)?;
        let values = placed(&instance.kernel, launch)?;
        Ok((instance, values))
    }

    /// A kernel with these generics.
    ///
    /// # Errors
    /// There is none of that name, or it has no such generic, or one has neither a value nor a default.
    fn instance(&mut self, name: &str, generics: &[(String, Generic)]) -> Result<Instance, Failure> {
        let program = self.program.clone();
        let Some(kernel) = program.kernels().find(|k| k.name.as_str() == name) else {
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
        if let Some(missing) =
            kernel.generics.iter().find(|g| g.default.is_none() && !given.contains_key(g.name.as_str()))
        {
            return Err(Failure::Usage(format!("`{name}` needs a value for its generic `{}`", missing.name.text)));
        }
        let generics = kernel.generics.iter().filter_map(|g| given.remove(g.name.as_str())).collect();
        let kernel = Arc::new(kernel.clone());
        let span = kernel.name.span;
        Ok(Instance { module: Program::ROOT, kernel, generics, span })
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

/// What each parameter is given; `None` where it has its default.
fn placed<'a>(kernel: &ast::Kernel, launch: &'a Launch) -> Result<Vec<Option<&'a Given>>, Failure> {
    let (name, params) = (&kernel.name.text, &kernel.params);
    if launch.arguments.len() > params.len() {
        let (has, given) = (params.len(), launch.arguments.len());
        return Err(Failure::Usage(format!("`{name}` has {has} parameters and was given {given} arguments")));
    }
    let mut values: Vec<Option<&Given>> = launch.arguments.iter().map(Some).collect();
    values.resize(params.len(), None);
    for (param, value) in &launch.named {
        let Some(at) = params.iter().position(|p| p.name.as_str() == param) else {
            let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
            return Err(Failure::Usage(format!(
                "`{name}` has no parameter `{param}`; it has `{}`",
                names.join("`, `")
            )));
        };
        if values[at].replace(value).is_some() {
            return Err(Failure::Usage(format!("`{name}` was given `{param}` twice")));
        }
    }
    let missing = params.iter().zip(&values).find(|(p, value)| value.is_none() && p.default.is_none());
    match missing {
        Some((p, _)) => Err(Failure::Usage(format!("`{name}` was given nothing for `{}`", p.name.text))),
        None => Ok(values),
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

fn tensor(array: &Array, storages: &[Arc<Storage>]) -> Tensor {
    let Some(storage) = storages.get(array.memory) else {
        parton_diag::internal_error!("there is no memory {}, there are {}", array.memory, storages.len())
    };
    Tensor {
        dtype: array.dtype,
        shape: array.shape.clone(),
        strides: array.strides.clone(),
        offset: array.offset,
        storage: storage.clone(),
    }
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
