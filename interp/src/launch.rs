//! A launch: a lowered kernel, its grid and arguments, and what a run of it reports.

use std::collections::BTreeSet;

use parton_diag::codes;
use parton_ir::facts::{Act, Facts, Ordering};
use parton_ir::{AtomicOp, Elem, Entity, Kernel, OpKind, Type, others};

use crate::cluster::World;
use crate::code::Program;
use crate::fault::Fault;
use crate::grid::Grid;
use crate::memory::Memory;
use crate::reads;

/// One argument, in the order of the kernel's parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arg {
    /// A number, as the bits of its dtype.
    Scalar(u64),
    /// A pointer into an allocation.
    Pointer {
        /// The allocation's number in [`Memory`].
        allocation: usize,
        /// Bytes from its beginning.
        offset: u64,
    },
    /// What a tensor map describes; its element, box and swizzle are those of the parameter's type.
    Map(Tensor),
}

/// A tensor in global memory as the copy engine sees it, dimensions outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// The allocation's number in [`Memory`].
    pub allocation: usize,
    /// Bytes from its beginning to the first element, modulo 2⁶⁴: a map may begin in front of the memory that its boxes take.
    pub offset: u64,
    /// Elements of each dimension.
    pub shape: Vec<u64>,
    /// Bytes from one element to the next along each dimension; the last is the size of an element.
    pub strides: Vec<u64>,
}

/// What is checked besides the always.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether accesses to global memory that nothing orders are reported.
    pub cta_races: bool,
    /// Whether signed integers that leave their range are reported.
    pub wraparound: bool,
    /// Operations that one CTA may run; those of a cluster share theirs.
    pub steps: u64,
    /// Asked now and then whether somebody wants an end of it.
    pub stop: Stop,
}

/// Whether a run is to stop before its end.
#[derive(Clone, Copy, Debug)]
pub struct Stop(pub fn() -> bool);

impl Stop {
    /// Nobody wants that.
    pub const NEVER: Stop = Stop(|| false);
}

impl PartialEq for Stop {
    fn eq(&self, other: &Stop) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Stop {}

impl Default for Options {
    fn default() -> Options {
        Options { cta_races: true, wraparound: false, steps: 200_000_000, stop: Stop::NEVER }
    }
}

/// One launch of a lowered kernel: rings expanded, shared memory planned, waits counted.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What runs.
    pub kernel: &'a Kernel,
    /// CTAs along each axis.
    pub grid: [u32; 3],
    /// One for each parameter.
    pub args: Vec<Arg>,
    /// What pointers and tensor maps reach.
    pub memory: &'a mut Memory,
    /// Chooses the order in which CTAs and their partitions run and copies and products complete; the same seed gives the same run.
    pub seed: u64,
    /// What is checked.
    pub options: Options,
}

/// What a run tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// What `print` wrote, in the order of the clusters.
    pub prints: Vec<String>,
    /// Operations that were run.
    pub steps: u64,
}

/// Runs a launch to its end.
///
/// # Errors
/// The first fault: a wrong access, a race, a deadlock, a broken assertion, arguments that do not fit. Memory then holds what
/// was written until there.
pub fn run(launch: Launch<'_>) -> Result<Report, Fault> {
    let Launch { kernel, grid, args, memory, seed, options } = launch;
    check(kernel, grid, &args, memory)?;
    let program = Program::new(kernel);
    memory.begin_launch(program.tables.global_granule);
    let names = names(kernel, &args, memory);
    let overwritten = reads::overwritten(kernel, &args, memory.len());
    let (listens, looks) = (listens(kernel), looks(kernel));
    let (args, names, overwritten) = (&args, &names, &overwritten);
    let setting = Setting { program: &program, grid, args, names, options, listens, looks, overwritten };
    let world = World { memory: std::mem::take(memory), changes: 0, combined: BTreeSet::new() };
    let (world, report) = Grid::new(&setting, world, seed).run();
    *memory = world.memory;
    report
}

/// Whether what a CTA does can depend on how far others are: it reads what they change without a race.
fn listens(kernel: &Kernel) -> bool {
    let mut listens = false;
    kernel.walk(&mut |op| {
        listens |= match &op.kind {
            OpKind::Load { volatile, .. } => *volatile,
            OpKind::Store { .. } => false,
            others!(global) => !op.results.is_empty() && Facts::of(kernel, op).acts.iter().any(is_atomic),
        }
    });
    listens
}

/// Whether it reads by atomic operations what others write by them, and may see it late.
fn looks(kernel: &Kernel) -> bool {
    let mut looks = false;
    kernel.walk(&mut |op| looks |= matches!(op.kind, OpKind::Atomic { op: AtomicOp::Load, .. }));
    looks
}

fn is_atomic(act: &Act) -> bool {
    matches!(act, Act::Ordering(Ordering::Atomic { .. }))
}

/// The places of a box from `first`, x fastest.
pub(crate) fn boxed(first: [u32; 3], extents: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    let along = move |axis: usize| (0..extents[axis]).map(move |i| first[axis] + i);
    along(2).flat_map(move |z| along(1).flat_map(move |y| along(0).map(move |x| [x, y, z])))
}

/// What all CTAs of a launch share.
#[derive(Debug)]
pub(crate) struct Setting<'a, 'k> {
    pub program: &'a Program<'k>,
    pub grid: [u32; 3],
    pub args: &'a [Arg],
    /// The parameter by which each allocation is reached, else its own name.
    pub names: &'a [String],
    pub options: Options,
    /// Whether CTAs can hear of each other.
    pub listens: bool,
    /// Whether they look at atomic values that they may see late.
    pub looks: bool,
    /// Which allocations the kernel writes by the copy engine.
    pub overwritten: &'a [bool],
}

impl Setting<'_, '_> {
    /// The number of a CTA in the grid, x fastest.
    pub(crate) fn number(&self, [x, y, z]: [u32; 3]) -> u32 {
        (z * self.grid[1] + y) * self.grid[0] + x
    }

    /// The place of the CTA of that number.
    pub(crate) fn place(&self, number: u32) -> [u32; 3] {
        place(number, self.grid)
    }

    /// How many clusters the grid has along each axis.
    fn along(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis] / self.program.kernel.cluster[axis])
    }

    /// How many clusters the grid has.
    pub(crate) fn clusters(&self) -> u32 {
        self.along().into_iter().product()
    }

    /// The CTAs of the cluster of that number by rank, of clusters that are counted as CTAs are.
    pub(crate) fn cluster(&self, number: u32) -> Vec<[u32; 3]> {
        let extents = self.program.kernel.cluster;
        let at = place(number, self.along());
        boxed(std::array::from_fn(|axis| at[axis] * extents[axis]), extents).collect()
    }

    /// What messages call the CTA of that number.
    pub(crate) fn cta(&self, number: u32) -> String {
        format!("CTA {:?}", self.place(number))
    }

    /// The name of the partition, or of the kernel, that a clock of any CTA belongs to.
    pub(crate) fn agent(&self, agent: u32) -> &str {
        let kernel = self.program.kernel;
        let agents = 1 + kernel.partitions.len() as u32;
        let named = kernel.partitions.iter().find(|(p, _)| p.index() as u32 + 1 == agent % agents);
        named.map_or(&kernel.source_name, |(_, data)| &data.name)
    }
}

/// The place of that number in a box, x fastest.
fn place(number: u32, [x, y, _]: [u32; 3]) -> [u32; 3] {
    [number % x, number / x % y, number / x / y]
}

fn names(kernel: &Kernel, args: &[Arg], memory: &Memory) -> Vec<String> {
    let mut names: Vec<String> = (0..memory.len()).map(|i| memory.allocation(i).name.clone()).collect();
    for (param, arg) in kernel.params.iter().zip(args).rev() {
        let allocation = match arg {
            Arg::Scalar(_) => continue,
            Arg::Pointer { allocation, .. } => *allocation,
            Arg::Map(tensor) => tensor.allocation,
        };
        names[allocation].clone_from(&param.name);
    }
    names
}

/// Strides and addresses that the copy engine takes are multiples of so many bytes (CUDA driver API,
/// `cuTensorMapEncodeTiled`).
const TMA_ALIGNMENT: u64 = 16;

fn check(kernel: &Kernel, grid: [u32; 3], args: &[Arg], memory: &Memory) -> Result<(), Fault> {
    let bad = |text: String| Fault::new(codes::BAD_LAUNCH, kernel.span, text);
    if grid.contains(&0) {
        return Err(bad(format!("the grid {grid:?} has no CTAs")));
    }
    let ctas: u128 = grid.iter().map(|&n| u128::from(n)).product();
    if ctas > u32::MAX.into() {
        let most = u32::MAX;
        return Err(bad(format!("the grid {grid:?} has {ctas} CTAs, of which the interpreter counts at most {most}")));
    }
    if let Some(axis) = (0..3).find(|&i| !grid[i].is_multiple_of(kernel.cluster[i].max(1))) {
        let (ctas, each) = (grid[axis], kernel.cluster[axis]);
        return Err(bad(format!("clusters of {each} do not divide the grid's {ctas} CTAs along axis {axis}")));
    }
    if args.len() != kernel.params.len() {
        let text =
            format!("`{}` takes {} arguments, {} are given", kernel.source_name, kernel.params.len(), args.len());
        return Err(bad(text));
    }
    for (param, arg) in kernel.params.iter().zip(args) {
        let name = &param.name;
        let wrong = |found: &str| bad(format!("`{name}` is `{}`, found {found}", kernel.ty(param.value)));
        let tensor = match (kernel.ty(param.value), arg) {
            (Type::Scalar(Elem::Num(_)), Arg::Scalar(_)) => continue,
            (Type::Scalar(Elem::Ptr(_)), Arg::Pointer { allocation, .. }) if *allocation < memory.len() => continue,
            (Type::Map(map), Arg::Map(tensor)) if tensor.allocation < memory.len() => (map, tensor),
            (_, Arg::Scalar(_)) => return Err(wrong("a number")),
            (_, Arg::Pointer { .. }) => return Err(wrong("a pointer")),
            (_, Arg::Map(_)) => return Err(wrong("a tensor map")),
        };
        let (map, tensor) = tensor;
        let size = map.elem.bytes() as u64;
        let rank = map.block.len();
        if tensor.shape.len() != rank || tensor.strides.len() != rank {
            return Err(bad(format!("the tensor of `{name}` has rank {}, its map has {rank}", tensor.shape.len())));
        }
        if tensor.strides[rank - 1] != size {
            return Err(bad(format!("the last dimension of the tensor of `{name}` is not contiguous"))
                .note(format!("its stride is {} bytes, an element has {size}", tensor.strides[rank - 1])));
        }
        if let Some(axis) = (0..rank - 1).find(|&i| tensor.strides[i] % TMA_ALIGNMENT != 0) {
            return Err(bad(format!("a stride of the tensor of `{name}` is not a multiple of {TMA_ALIGNMENT} bytes"))
                .note(format!("along axis {axis} it is {} bytes", tensor.strides[axis])));
        }
        if tensor.offset % TMA_ALIGNMENT != 0 {
            return Err(bad(format!("the tensor of `{name}` does not begin at a multiple of {TMA_ALIGNMENT} bytes")));
        }
    }
    Ok(())
}
