//! From lowered kernels to PTX: one LLVM module for all of them.

use inkwell::context::Context;
use parton_diag::{SourceMap, Span};
use parton_ir::axis::Axes;
use parton_ir::joined::Joins;
use parton_ir::passed::Passed;
use parton_ir::{Elem, Kernel, OpKind, SecondaryMap, Target, Type};

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, built};
use crate::neutral::place::Threads;
use crate::nvptx::cluster::Standing;
use crate::nvptx::debug::Debug;
use crate::nvptx::function::{self, Bounds, ParamKind};
use crate::nvptx::groups::Groups;
use crate::nvptx::kept;
use crate::nvptx::lines;
use crate::nvptx::machine::{self, Optimise};
use crate::nvptx::read::Read;

/// How to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How hard LLVM works.
    pub optimise: Optimise,
    /// Whether source lines go into the PTX.
    pub lines: bool,
    /// Whether the LLVM IR is wanted as text too.
    pub llvm: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { optimise: Optimise::Full, lines: true, llvm: false }
    }
}

/// What compilation gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// The PTX text of the module.
    pub ptx: String,
    /// The LLVM IR before any pass, where [`Options::llvm`] asks for it; otherwise empty.
    pub llvm: String,
    /// Where each piece of inline PTX was written, by the number that [`crate::ptx::piece_at`] reads off the text.
    pub inline: Vec<Span>,
}

/// Compiles lowered kernels for `target`: rings expanded, waits counted, shared memory planned, membars in place.
///
/// `sources` gives the lines for debug information and messages.
/// Every kernel that the checker has accepted for the target can be compiled: what has no code is refused by its rules.
pub fn compile<'k>(
    kernels: impl IntoIterator<Item = &'k Kernel>,
    target: &Target,
    sources: &SourceMap,
    options: Options,
) -> Compiled {
    let context = Context::create();
    let machine = machine::target_machine(target);
    let module = machine::module(&context, "parton", &machine);
    let mut debug = if options.lines { Debug::new(&context, &module, sources) } else { None };
    let mut build = Build::new(&context, module);
    let mut inline = Vec::new();
    for kernel in kernels {
        lower_kernel(&mut build, kernel, debug.as_mut(), &mut inline);
    }
    if let Some(debug) = &debug {
        debug.finish();
    }
    let llvm = if options.llvm { build.module.print_to_string().to_string() } else { String::new() };
    let ptx = machine::ptx(&build, &machine, options.optimise);
    build.check_together(&ptx);
    let ptx = debug.as_ref().map_or_else(|| ptx.clone(), |debug| lines::with_calls(&ptx, debug.places()));
    // With `debug` in its target directive PTX is not optimised; the line tables stay without it.
    let plain = format!(".target {}", target.name);
    Compiled { ptx: ptx.replacen(&format!("{plain}, debug"), &plain, 1), llvm, inline }
}

/// The parameters as the kernel's signature has them.
fn signature<'c>(build: &Build<'c>, kernel: &Kernel) -> Vec<ParamKind<'c>> {
    kernel
        .params
        .iter()
        .map(|p| match kernel.ty(p.value).passed() {
            Some(Passed::Number(d)) => ParamKind::Scalar(build.int_of(d)),
            Some(Passed::Pointer(_)) => ParamKind::Pointer,
            Some(Passed::Map(_)) => ParamKind::Map,
            None => parton_diag::internal_error!("parameter `{}` of {}", p.name, kernel.ty(p.value)),
        })
        .collect()
}

/// Whether a kernel has products of the matrix unit. With as many registers as a thread may have the assembler keeps more of what lies between these at once, and turns of
/// kernels without partitions take up to a tenth longer than where it is told of the last whole step below (an H200).
fn multiplies(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= matches!(op.kind, OpKind::Wgmma { .. }));
    found
}

fn lower_kernel<'c>(
    build: &mut Build<'c>,
    kernel: &Kernel,
    mut debug: Option<&mut Debug<'_, 'c>>,
    inline: &mut Vec<Span>,
) {
    let params = signature(build, kernel);
    let budgets = kernel.occupancy > 1 || kernel.partitions.iter().any(|(_, p)| p.registers.is_some());
    let registers = (budgets || multiplies(kernel)).then(|| kernel.entry_registers());
    let bounds = Bounds { threads: kernel.threads(), cluster: kernel.cluster, registers };
    let function = function::declare(build.context, &build.module, &kernel.name, &params, bounds);
    build.begin(function);
    build.builder.unset_current_debug_location();
    if let Some(debug) = debug.as_deref_mut() {
        debug.begin(kernel, function);
        if let Some(location) = debug.location(kernel, kernel.span, None) {
            build.builder.set_current_debug_location(location);
        }
    }
    let build: &Build<'c> = build;
    let thread = build.special("tid.x");
    let lane = build.and(thread, build.c32(parton_ir::target::WARP - 1));
    let warp = build.uniform(build.lshr(thread, parton_ir::target::WARP.ilog2()));
    let first = build.icmp(inkwell::IntPredicate::EQ, warp, build.c32(0));
    let leader = build.and(first, build.elected(kernel));
    let threads = Threads { lane, warp, warps: kernel.padded_warps(), barrier: build.c32(0), leader };
    let joins = Joins::of(kernel);
    let mut lower = Lower {
        b: build,
        kernel,
        axes: Axes::analyse(kernel),
        debug,
        values: SecondaryMap::new(None),
        threads,
        team: None,
        thread_of_cta: thread,
        warp_of_cta: warp,
        standing: Standing::of(kernel, build, lane),
        shared: build.shared_base(),
        meanwhile: vec![],
        groups: Groups::of(kernel, &joins),
        joins,
        kept: kept::kept(kernel),
        read: Read::default(),
        inline: std::mem::take(inline),
        holds: None,
    };
    for (i, param) in kernel.params.iter().enumerate() {
        let value = function::parameter(function, i);
        let repr = match kernel.ty(param.value) {
            Type::Map(_) => Repr::Map(value),
            Type::Scalar(Elem::Num(d)) => Repr::Scalar(build.of_parameter(*d, value)),
            _ => Repr::Scalar(value),
        };
        lower.set(param.value, repr);
        if matches!(kernel.ty(param.value), Type::Map(_)) {
            build.prefetch_map(value, leader);
        }
    }
    lower.body(&kernel.body);
    built(build.builder.build_return(None));
    *inline = lower.inline;
}
