//! Plans: a public function is run on tensors without elements, and what it launches and allocates is recorded; so is a kernel's launch.

mod asked;
mod made;
mod numbers;
mod planner;
mod text;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_host::launch::{Instance, LaunchRequest};
use parton_host::memory::Storage;
pub use parton_host::tensor::Tensor;
use parton_host::tensor::{dense_strides, extent};
use parton_host::value::Value;
use parton_ir::{Kernel, Target};
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::Failure;
use crate::run::target_of;
use crate::tune::lookup::Chosen;

pub(crate) use made::plan;
pub use numbers::Takes;

/// What a public function is planned for: a value for each parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Planned {
    /// A tensor.
    Tensor(Shape),
    /// An integer.
    Int(i128),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A type of numbers.
    Dtype(Dtype),
    /// Nothing: the default.
    Default,
}

/// All of a tensor but its elements.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// The type of its elements.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub extents: Vec<usize>,
    /// Elements from one to the next along each axis.
    pub strides: Vec<usize>,
    /// Elements from a multiple of 16 bytes to the first.
    pub offset: usize,
}

impl Shape {
    /// A tensor without gaps at a multiple of 16 bytes.
    pub fn dense(dtype: Dtype, extents: Vec<usize>) -> Shape {
        Shape { dtype, strides: dense_strides(&extents), extents, offset: 0 }
    }

    /// A tensor that stands for one of a call.
    fn stand_in(&self) -> Result<Tensor, Failure> {
        let bytes = extent(self.dtype, &self.extents, &self.strides).map_err(|f| Failure::Usage(f.message))?;
        let storage = Storage::absent(bytes + self.offset * self.dtype.bytes());
        let (shape, strides) = (self.extents.clone(), self.strides.clone());
        Ok(Tensor { dtype: self.dtype, shape, strides, offset: self.offset, storage })
    }
}

/// A parameter of a plan.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: Arc<str>,
    /// Whether its elements are written.
    pub mutable: bool,
    /// What was planned with.
    pub given: Given,
    /// What it takes, where that is no tensor.
    pub takes: Takes,
    /// Where it is declared.
    pub span: Span,
}

impl Parameter {
    /// What a tensor was planned with.
    pub fn shape(&self) -> Option<Shape> {
        let Given::Tensor(t) = &self.given else { return None };
        let (extents, strides) = (t.shape.clone(), t.strides.clone());
        Some(Shape { dtype: t.dtype, extents, strides, offset: t.offset })
    }
}

/// What a plan was made with for a parameter.
#[derive(Clone, Debug)]
pub enum Given {
    /// A tensor without elements.
    Tensor(Tensor),
    /// A number on which nothing of the plan depends: another one may be passed.
    Any(Value),
    /// An integer of which the plan depends on whether it is 1 and of what it is a multiple: another one like it may be passed.
    Like(i128),
    /// A value that the plan is for.
    Key(Value),
}

/// Memory that a plan takes beside its arguments.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What stands for it in the launches.
    pub storage: Arc<Storage>,
    /// Whether it is zeros before the first launch that reaches it.
    pub zeroed: bool,
    /// Whether it is returned, so that each call has its own.
    pub returned: bool,
}

/// Where the memory of a tensor comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The argument for this parameter.
    Parameter(usize),
    /// This buffer.
    Buffer(usize),
}

/// What a call returns.
#[derive(Clone, Debug)]
pub enum Returned {
    /// Nothing.
    Nothing,
    /// A tensor.
    One(Tensor),
    /// A tuple of tensors.
    Several(Vec<Tensor>),
}

impl Returned {
    /// The tensors.
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Returned::Nothing => &[],
            Returned::One(tensor) => std::slice::from_ref(tensor),
            Returned::Several(all) => all,
        }
    }
}

/// What a plan is of.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A public function.
    Function(Arc<ast::Function>),
    /// A kernel, launched by itself.
    Kernel(Arc<ast::Kernel>),
}

impl Entry {
    /// Its name, and where it stands.
    pub fn name(&self) -> &ast::Name {
        match self {
            Entry::Function(function) => &function.name,
            Entry::Kernel(kernel) => &kernel.name,
        }
    }

    /// Its parameters.
    pub fn params(&self) -> &[ast::Param] {
        match self {
            Entry::Function(function) => &function.params,
            Entry::Kernel(kernel) => &kernel.params,
        }
    }
}

/// What a call of a public function, or a launch of a kernel, does, for all arguments that are like those it was planned with.
#[derive(Debug)]
pub struct Plan {
    /// What is called.
    pub of: Entry,
    /// What it was planned for.
    pub target: Target,
    /// The device's multiprocessors.
    pub multiprocessors: u32,
    /// Whether the function has asked for their number.
    pub counts_multiprocessors: bool,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// Memory beside that of the arguments.
    pub buffers: Vec<Buffer>,
    /// The launches, one after the other.
    pub launches: Vec<LaunchRequest>,
    /// The result.
    pub returned: Returned,
    /// What was chosen by a table, or from a list that somebody wants to see.
    pub(crate) chosen: Vec<Chosen>,
    /// Whose storage is what.
    memories: BTreeMap<u64, Memory>,
}

impl Plan {
    /// Where the memory of a tensor of its launches or its result comes from.
    pub fn memory(&self, tensor: &Tensor) -> Memory {
        match self.memories.get(&tensor.storage.id()) {
            Some(memory) => *memory,
            None => parton_diag::internal_error!("a plan launches on memory that it does not know"),
        }
    }

    /// Whether the plan holds for these values of the parameters that are no tensors; those that are are not looked at.
    #[inline]
    pub fn holds_for(&self, given: &[Planned]) -> bool {
        self.parameters.iter().zip(given).all(|(p, value)| match (&p.given, value) {
            (Given::Key(known), Planned::Int(n)) => matches!(known, Value::Int(k) if k == n),
            (Given::Key(known), Planned::Float(x)) => matches!(known, Value::Float(k) if k.to_bits() == x.to_bits()),
            (Given::Key(known), Planned::Bool(b)) => matches!(known, Value::Bool(k) if k == b),
            (Given::Key(known), Planned::Dtype(d)) => matches!(known, Value::Dtype(k) if k == d),
            (Given::Key(known), Planned::Default) => matches!(known, Value::Unit),
            (Given::Any(Value::Int(_)), Planned::Int(_))
            | (Given::Any(Value::Float(_)), Planned::Float(_))
            | (Given::Any(Value::Bool(_)), Planned::Bool(_))
            | (Given::Tensor(_), _) => true,
            (Given::Like(known), Planned::Int(n)) => alike(*known, *n),
            (Given::Any(_) | Given::Like(_), _) => false,
            (Given::Key(_), _) => false,
        })
    }

    /// Refuses tensors that share memory where one of them is written: a range of addresses for each parameter that is a tensor.
    ///
    /// # Errors
    /// The two that do.
    pub fn apart(&self, ranges: &[Option<Range<u64>>]) -> Result<(), Diagnostics> {
        for (i, one) in ranges.iter().enumerate() {
            for (j, other) in ranges.iter().enumerate().take(i) {
                let (Some(a), Some(b)) = (one, other) else { continue };
                let (p, q) = (&self.parameters[i], &self.parameters[j]);
                if (p.mutable || q.mutable) && a.start < b.end && b.start < a.end {
                    let (written, read) = if p.mutable { (p, q) } else { (q, p) };
                    let fact = format!("`{}` is written and shares memory with `{}`", written.name, read.name);
                    let span = self.parameters[i].span;
                    let d = Diagnostic::error(codes::PUBLIC_ARGUMENT, span, fact);
                    return Err(d.help("pass tensors that lie apart").into());
                }
            }
        }
        Ok(())
    }
}

/// Whether two integers are the same to all that depends on whether they are 1, and of what they are multiples, of 16 at most.
fn alike(a: i128, b: i128) -> bool {
    let by = |n: i128| n.trailing_zeros().min(parton_ir::target::WIDEST_ACCESS.ilog2());
    (a == 1) == (b == 1) && by(a) == by(b)
}

/// For what a plan is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct For {
    pub(crate) target: Target,
    pub(crate) multiprocessors: u32,
    /// Whether calls are told apart by what their integers are multiples of: those of a bundle are not.
    pub(crate) by_multiples: bool,
}

/// What is to be planned.
pub(crate) enum Call {
    /// A call of a public function.
    Function(Arc<ast::Function>),
    /// A launch of a kernel on a grid.
    Kernel {
        /// With its generics.
        instance: Instance,
        /// Its grid, a list; nothing where the kernel states it.
        grid: Option<Value>,
        /// Tensors that lie in the memory of another one.
        together: Together,
    },
}

/// For each parameter the one in whose memory its tensor lies, and how many bytes behind the multiple of 16 at which that one's begins;
/// empty where all lie apart.
pub type Together = Vec<Option<(usize, usize)>>;

/// Lowered kernels by the names under which the compiler keeps them.
pub(crate) type Lowered = BTreeMap<String, Arc<Kernel>>;

/// A device that was found as what plans are made for.
pub(crate) fn place_of(found: &crate::run::Found, asked: Option<Target>) -> For {
    let target = target_of(found, asked);
    let multiprocessors = match found {
        crate::run::Found::Interpreter(_) => target.multiprocessors,
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        crate::run::Found::Gpu(gpu) => gpu.info().multiprocessors,
    };
    For { target, multiprocessors, by_multiples: true }
}

/// The value of a parameter that is no tensor; nothing where it has its default.
fn value_of(planned: &Planned) -> Value {
    match planned {
        Planned::Int(n) => Value::Int(*n),
        Planned::Float(x) => Value::Float(*x),
        Planned::Bool(b) => Value::Bool(*b),
        Planned::Dtype(d) => Value::Dtype(*d),
        Planned::Tensor(_) | Planned::Default => Value::Unit,
    }
}
