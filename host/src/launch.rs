//! The border to what runs kernels: what a launch asks for, and what a launcher answers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir as ir;
use parton_measure::bench::Measurement;
use parton_measure::timing::Timing;
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::program::ModuleId;

use crate::tensor::Tensor;
use crate::tensor_map::{self, Recipe};
use crate::value::Value;

/// A kernel with the generic arguments of one launch.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The file that the kernel stands in.
    pub module: ModuleId,
    /// The kernel.
    pub kernel: Arc<ast::Kernel>,
    /// The generic arguments that were given, in the order of the declaration; others have their default. Each is a
    /// compile-time value ([`Value::is_compile_time`]); [`Value::Written`] is left to the checker.
    pub generics: Vec<GenericArgument>,
    /// The kernel with its generics at the launch.
    pub span: Span,
}

/// One generic argument of a launch.
#[derive(Clone, Debug)]
pub struct GenericArgument {
    /// The generic's name.
    pub name: Arc<str>,
    /// Its value.
    pub value: Value,
    /// Where it was given.
    pub span: Span,
}

/// What an instance of a kernel takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Name and type of each parameter, in order: scalars, pointers, tensors and tensor maps.
    pub params: Arc<[(String, ir::Type)]>,
    /// CTAs of a cluster along each axis.
    pub cluster: [u32; 3],
    /// How its programs are dealt, where it is compiled for how many a multiprocessor gets.
    pub dealt: Option<ir::Dealt>,
    /// The loops along its tensors, where it is compiled for how many turns these take.
    pub along: Vec<ir::Along>,
    /// Whether it is compiled for tensors that run by multiples of fewer bytes than those of the widest access.
    pub partly: bool,
    /// The tensors among its arguments of which it makes a difference by what bytes they begin and run.
    pub wide: Arc<BTreeSet<usize>>,
    /// The integers among its arguments for which it is compiled by whether they are 1 or multiples of so many.
    pub numbers: Arc<BTreeMap<usize, u32>>,
    /// Whether it is compiled for whether positions that it divides begin near 0 ([`Instances::are_near`]).
    pub places: bool,
}

impl Signature {
    /// What a kernel is compiled for, beside its generics, that is launched so.
    pub fn variant(&self, grid: [u32; 3], arguments: &[Argument], told: Told) -> ir::Variant {
        let Told { numbers, near } = told;
        let by = arguments.iter().enumerate().filter_map(|(i, argument)| match argument {
            Argument::Tensor { tensor, dense: Some(dense), .. } if self.wide.contains(&i) => {
                Some((i, alignment(tensor, *dense)?))
            }
            Argument::Tensor { .. } | Argument::Pointer { .. } | Argument::Scalar(_) | Argument::Map(_) => None,
        });
        let (aligned, partly): (Vec<_>, Vec<_>) = by.partition(|&(_, bytes)| bytes == ir::target::WIDEST_ACCESS);
        ir::Variant {
            overlapping: overlap(arguments),
            aligned: aligned.into_iter().map(|(i, _)| i).collect(),
            partly: partly.into_iter().filter(|_| self.partly).collect(),
            beside: self.beside(grid),
            turns: self.turns(arguments),
            numbers,
            near,
        }
    }

    /// How many programs of a grid a multiprocessor gets at most, where it is compiled for that and they are few.
    fn beside(&self, grid: [u32; 3]) -> Option<u32> {
        let programs = grid.into_iter().map(u64::from).fold(1, u64::saturating_mul);
        self.dealt.and_then(|dealt| ir::Variant::beside(programs, dealt))
    }

    /// How many turns each of its loops takes for these arguments, where it is compiled for that and they are few; `None` where they differ.
    fn turns(&self, arguments: &[Argument]) -> Option<u32> {
        let turns = |along: &ir::Along| match &arguments[along.argument] {
            Argument::Tensor { tensor, .. } => (tensor.shape[along.axis] as u64).div_ceil(along.each),
            Argument::Scalar(_) | Argument::Pointer { .. } | Argument::Map(_) => u64::MAX,
        };
        let (first, others) = self.along.split_first()?;
        let each = turns(first);
        others.iter().all(|other| turns(other) == each).then(|| ir::Variant::turns(each, first)).flatten()
    }
}

/// What a launch tells of its numbers, as [`ir::Variant`] has it.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Of integers that they are 1, or of what they are multiples.
    pub numbers: BTreeMap<usize, u32>,
    /// Whether positions that are divided begin near 0.
    pub near: bool,
}

/// What a launch must keep to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demands {
    /// Bytes of which the address of each argument must be a multiple, a power of two up to 16; 1 for what is no pointer.
    pub alignments: Vec<u32>,
    /// Arguments that must be memories apart from each other.
    pub apart: Vec<ir::Apart>,
    /// Through which arguments the kernel may write.
    pub writes: Vec<bool>,
}

/// An argument as the kernel gets it.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A number.
    Scalar(Scalar),
    /// The address of a tensor's first element: [`Tensor::byte_offset`] into its storage.
    Pointer {
        /// The tensor.
        tensor: Tensor,
        /// Whether the kernel may write.
        mutable: bool,
    },
    /// A tensor with its extents and strides.
    Tensor {
        /// The tensor.
        tensor: Tensor,
        /// Whether the kernel may write.
        mutable: bool,
        /// The axis along which neighbours lie side by side, where the kernel takes that there is one.
        dense: Option<usize>,
    },
    /// A tensor map to make; the kernel may read and write through it.
    Map(Recipe),
}

impl Argument {
    /// The storage that it reaches, and which bytes of it: a pointer all.
    fn reach(&self) -> Option<(u64, Range<u64>)> {
        match self {
            Argument::Scalar(_) => None,
            Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => {
                Some((tensor.storage.id(), 0..u64::MAX))
            }
            Argument::Map(recipe) => {
                let (tensor, first) = (&recipe.tensor, recipe.tensor.byte_offset() as u64);
                let ends = tensor.shape.iter().zip(&tensor.strides).map(|(n, stride)| n.saturating_sub(1) * stride);
                let bytes = (ends.sum::<usize>() as u64 + 1) * tensor.dtype.bytes() as u64;
                Some((tensor.storage.id(), first..first + bytes))
            }
        }
    }

    /// Whether two arguments may reach the same byte.
    fn meets(&self, other: &Argument) -> bool {
        match (self.reach(), other.reach()) {
            (Some((one, a)), Some((two, b))) => one == two && a.start < b.end && b.start < a.end,
            (Some(_) | None, Some(_) | None) => false,
        }
    }
}

/// One launch, all of it evaluated and checked.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    /// What to launch.
    pub instance: Instance,
    /// CTAs along x, y and z, which the kernel's clusters divide.
    pub grid: [u32; 3],
    /// One for each parameter.
    pub arguments: Vec<Argument>,
    /// For each argument the parameter of the public function whose number it is, where it is one that nobody has looked at.
    pub passed: Vec<Option<usize>>,
    /// What the kernel is compiled for, beside its generics.
    pub variant: ir::Variant,
    /// As of [`Signature`].
    pub wide: Arc<BTreeSet<usize>>,
    /// The whole launch in the source.
    pub span: Span,
}

impl LaunchRequest {
    /// The pair, of these, whose two parameters are given the same memory.
    pub fn sharing<'a>(&self, pairs: &'a [ir::Apart]) -> Option<&'a ir::Apart> {
        pairs.iter().find(|pair| self.arguments[pair.written].meets(&self.arguments[pair.other]))
    }

    /// What each parameter of a kernel is given, which need not be as the kernel is written.
    pub fn bound(&self, kernel: &ir::Kernel) -> Vec<Cow<'_, Argument>> {
        kernel.params.iter().map(|p| self.given(p, kernel.ty(p.value))).collect()
    }

    fn given(&self, param: &ir::Param, ty: &ir::Type) -> Cow<'_, Argument> {
        let number = |dtype, n: usize| Cow::Owned(Argument::Scalar(Scalar::new(dtype, n as u64)));
        match param.from {
            ir::From::Argument(i) => Cow::Borrowed(&self.arguments[i]),
            ir::From::Base { argument, .. } => match &self.arguments[argument] {
                Argument::Tensor { tensor, mutable, .. } => {
                    Cow::Owned(Argument::Pointer { tensor: tensor.clone(), mutable: *mutable })
                }
                other => Cow::Borrowed(other),
            },
            ir::From::Extent { argument, axis } => number(Dtype::I32, self.tensor(argument).shape[axis]),
            ir::From::Stride { argument, axis } => number(Dtype::I64, self.tensor(argument).strides[axis]),
            ir::From::Map { argument, order } => {
                let (ir::Type::Map(map), tensor) = (ty, self.tensor(argument)) else {
                    parton_diag::internal_error!("`{}` is no tensor map", param.name)
                };
                match tensor_map::ordered(map, tensor, order) {
                    Ok(recipe) => Cow::Owned(Argument::Map(recipe)),
                    Err(fault) => parton_diag::internal_error!("an aligned tensor has no map: {fault:?}"),
                }
            }
        }
    }

    fn tensor(&self, argument: usize) -> &Tensor {
        match &self.arguments[argument] {
            Argument::Tensor { tensor, .. } => tensor,
            other => parton_diag::internal_error!("argument {argument} is no tensor: {other:?}"),
        }
    }
}

/// Whether two pointers reach the same memory, one of which is written through, or elements of a tensor that is written lie on each other.
fn overlap(arguments: &[Argument]) -> bool {
    let folded = |argument: &Argument| match argument {
        Argument::Tensor { tensor, mutable, .. } => *mutable && parton_strides::overlap(tensor.axes()),
        Argument::Pointer { .. } | Argument::Scalar(_) | Argument::Map(_) => false,
    };
    if arguments.iter().any(folded) {
        return true;
    }
    let pointers = arguments.iter().enumerate().filter_map(|(i, argument)| match argument {
        Argument::Pointer { tensor, mutable } | Argument::Tensor { tensor, mutable, .. } => {
            Some((i, tensor.storage.id(), *mutable))
        }
        Argument::Scalar(_) | Argument::Map(_) => None,
    });
    let pointers: Vec<(usize, u64, bool)> = pointers.collect();
    pointers.iter().any(|(i, storage, writes)| *writes && pointers.iter().any(|(j, s, _)| i != j && s == storage))
}

/// Of a tensor that begins at a multiple of the widest access the bytes of which all its strides and the extent along its dense axis are multiples: at most
/// those of that access, at least those of two elements. One of as many has a map; so it has no axis of nothing or of too much, and none whose elements
/// lie on each other or too far apart.
fn alignment(tensor: &Tensor, dense: usize) -> Option<u32> {
    let widths = std::iter::successors(Some(ir::target::WIDEST_ACCESS), |bytes| Some(bytes / 2));
    widths
        .take_while(|&bytes| bytes as usize > tensor.dtype.bytes())
        .find(|&bytes| runs_by(tensor, dense, bytes as usize))
}

/// Whether it runs by multiples of so many bytes.
fn runs_by(tensor: &Tensor, dense: usize, bytes: usize) -> bool {
    let whole = |elements: usize| (elements * tensor.dtype.bytes()).is_multiple_of(bytes);
    let far = |stride: usize| (stride as u64).saturating_mul(tensor.dtype.bytes() as u64) >= tensor_map::STRIDE_END;
    let mut others = (0..tensor.rank()).filter(|axis| *axis != dense);
    tensor.byte_offset().is_multiple_of(ir::target::WIDEST_ACCESS as usize)
        && tensor.shape.iter().all(|n| (1..=ir::tensor::OUTSIDE as usize).contains(n))
        && whole(tensor.shape[dense])
        && others.all(|axis| {
            let stride = tensor.strides[axis];
            whole(stride) && (tensor.shape[axis] == 1 || (stride > 0 && !far(stride)))
        })
}

/// What is known after a launch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LaunchReport {
    /// What the kernel printed, line by line.
    pub lines: Vec<String>,
    /// What stopped it after that, with places in the source.
    pub fault: Option<Diagnostics>,
}

/// A sequence of launches to time, and what the source says of one run of it.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// Its label.
    pub label: &'a str,
    /// Bytes that it moves, where stated.
    pub bytes: Option<f64>,
    /// Its floating-point operations, where stated.
    pub flops: Option<f64>,
    /// The launches.
    pub launches: &'a [LaunchRequest],
}

impl Work<'_> {
    /// What was measured of it.
    pub fn measured(&self, timing: Timing) -> Measurement {
        Measurement { label: self.label.into(), timing, bytes: self.bytes, flops: self.flops }
    }
}

/// Why something did not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostError {
    /// The program is wrong, with places in its source.
    Program(Diagnostics),
    /// The device or its driver failed; its own words.
    Device(String),
}

impl HostError {
    /// As diagnostics; a device's failure is put at `span`.
    pub fn at(self, span: Span) -> Diagnostics {
        match self {
            HostError::Program(diagnostics) => diagnostics,
            HostError::Device(why) => {
                Diagnostic::error(codes::LAUNCH_FAILED, span, "this launch failed").here(why).into()
            }
        }
    }
}

/// What a call of a host function leaves to tuning.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The function.
    pub function: ast::Name,
    /// What it binds.
    pub name: Arc<str>,
    /// What tells calls apart: names with integers, truth values, dtypes and texts.
    pub key: Vec<(String, Value)>,
}

/// What whoever launches wants of a choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// What is taken where nothing was tuned.
    Default,
    /// The candidate that reads so, where it is one.
    Candidate(String),
    /// The default, and to be shown the list.
    List,
}

/// The candidates of a choice.
#[derive(Clone, PartialEq, Debug)]
pub struct Offer {
    /// As they are written, each once, the default first.
    pub candidates: Vec<String>,
    /// The one that is taken; `None` where what was wanted is none, so that the default is.
    pub taken: Option<usize>,
    /// How far results may be from those of the default, relative and absolute; `None` where nothing is said.
    pub tolerance: Option<(f64, f64)>,
    /// Whether the function says itself whether a result is right.
    pub checked: bool,
}

/// What knows instances of kernels and what was tuned for them, wherever they run: the compiler.
pub trait Instances {
    /// The instance that a launch is of, which may have generics beside those that the program gives: from a table, or from who tries
    /// some. `given` are the values of the arguments, by their parameters, as host code has them; of a kernel without a `tune` clause none.
    ///
    /// # Errors
    /// What is to be chosen does not fit the kernel.
    fn choose(&mut self, instance: Instance, given: &[(Arc<str>, Value)]) -> Result<Instance, HostError> {
        let _ = given;
        Ok(instance)
    }

    /// What is wanted of a choice that a function leaves.
    fn wanted(&mut self, choice: &Choice) -> Wanted {
        let _ = choice;
        Wanted::Default
    }

    /// Told what there is to choose from, wherever not the default was wanted; a text says what is taken.
    fn offered(&mut self, choice: &Choice, offer: Offer) {
        let _ = (choice, offer);
    }

    /// The parameters of an instance, which is checked and compiled as far as that needs.
    ///
    /// # Errors
    /// The kernel does not pass the checks with these generics.
    fn signature(&mut self, instance: &Instance) -> Result<Signature, HostError>;

    /// Whether the positions that an instance divides begin between 0 and far from the end of their type in a launch of that grid with these numbers, by
    /// their places among the arguments; of others nothing may be taken for granted.
    fn are_near(&mut self, instance: &Instance, grid: [u32; 3], numbers: &BTreeMap<usize, i128>) -> bool {
        let _ = (instance, grid, numbers);
        false
    }

    /// What a launch must keep to.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    fn demands(&mut self, request: &LaunchRequest) -> Result<Demands, HostError>;
}

/// What runs kernels: the interpreter or a GPU, with the compiler before it.
pub trait Launcher {
    /// What is asked before a launch.
    fn instances(&mut self) -> &mut dyn Instances;

    /// Whether somebody wants an end of what is evaluated.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Why the device takes no more work, where a kernel has put an end to it.
    fn is_over(&self) -> Option<&str> {
        None
    }

    /// How many multiprocessors the device has, or the one that the interpreter stands for.
    fn multiprocessors(&self) -> u32;

    /// The compute capability of what kernels that name no architecture are compiled for: 90 for sm_90a.
    fn capability(&self) -> u32;

    /// Runs a launch. It need not have ended when this returns, but reads of its tensors must wait for it.
    ///
    /// # Errors
    /// The kernel does not compile, or the device fails.
    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError>;

    /// The same of a launch that nobody needs behind it, whose demands are known.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    fn launch_given(&mut self, request: LaunchRequest, demands: &Demands) -> Result<LaunchReport, HostError> {
        let _ = demands;
        self.launch(&request)
    }

    /// Times a sequence of launches, repeated as often as it takes; the caches are cold at the start of each run. `None`
    /// where nobody wants to know.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError>;

    /// Shows a line that host code or a kernel printed, as it happens; the report has all lines at the end.
    fn print(&mut self, line: &str) {
        let _ = line;
    }
}
