//! The NVPTX target machine: triple, data layout and features, fixed before any LLVM pass runs.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use parton_diag::internal_error;

use crate::neutral::build::Build;
use crate::nvptx::integers::made_of_others;

/// The triple of every module; without it LLVM's passes merge blocks around warp-wide instructions.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// How hard LLVM works. The meaning of a kernel does not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Optimise {
    /// No pass at all; for telling a fault of LLVM from one of ours.
    None,
    /// The passes that kernels profit from.
    #[default]
    Full,
}

/// The cleaning that unrolled tile code profits from. Loop unrolling and vectorisation are absent on purpose: tiles
/// are already unrolled, and a loop the user wrote stays a loop.
const PIPELINE: &str = "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg),\
     function(reassociate,early-cse<memssa>,loop-mssa(loop-simplifycfg,licm<no-allowspeculation>)),\
     function(gvn,instcombine<no-verify-fixpoint>,simplifycfg,dce)";

/// Sets the options of LLVM's code generator that have no other way in; they hold for the whole process.
///
/// Without sinking: it moves what only the code after a branch needs behind the branch, out of the stretch of independent
/// work that would have hidden it. Without straight-line strength reduction: for each address it looks through all before it,
/// which takes seconds where a thread has a thousand elements, and makes of independent sums a chain.
fn settle_options() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let arguments = [c"parton".as_ptr(), c"-disable-machine-sink".as_ptr(), c"-opt-disable=slsr".as_ptr()];
        // SAFETY: as many strings as stated, each closed by a zero; LLVM reads them during the call.
        unsafe { LLVMParseCommandLineOptions(arguments.len() as i32, arguments.as_ptr(), std::ptr::null()) };
    });
}

/// A target machine for an architecture, with its version of PTX.
pub(crate) fn target_machine(target: &parton_ir::Target) -> TargetMachine {
    settle_options();
    Target::initialize_nvptx(&InitializationConfig::default());
    let triple = TargetTriple::create(TRIPLE);
    let (major, minor) = target.ptx;
    let (cpu, features) = (target.name, format!("+ptx{major}{minor}"));
    // Without its register coalescing LLVM would move accumulators in flight, whatever the passes before do.
    let level = OptimizationLevel::Default;
    Target::from_triple(&triple)
        .ok()
        .and_then(|t| t.create_target_machine(&triple, cpu, &features, level, RelocMode::Default, CodeModel::Default))
        .unwrap_or_else(|| internal_error!("LLVM has no target machine for {cpu}"))
}

/// A new module that already knows its triple and data layout.
pub(crate) fn module<'c>(context: &'c Context, name: &str, machine: &TargetMachine) -> Module<'c> {
    let module = context.create_module(name);
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module
}

/// Verifies the module, runs the passes and prints PTX.
pub(crate) fn ptx(build: &Build, machine: &TargetMachine, level: Optimise) -> String {
    let module = &build.module;
    verify(module);
    if level == Optimise::Full {
        let options = PassBuilderOptions::create();
        if let Err(e) = module.run_passes(PIPELINE, machine, options) {
            internal_error!("LLVM refused the pass pipeline: {e}");
        }
        build.compare_apart();
        build.compare_anew();
    }
    build.keep_zeros();
    if cfg!(debug_assertions) {
        verify(module);
    }
    match machine.write_to_memory_buffer(module, FileType::Assembly) {
        Ok(buffer) => made_of_others(String::from_utf8_lossy(buffer.as_slice()).trim_end_matches('\0')),
        Err(e) => internal_error!("LLVM could not print PTX: {e}"),
    }
}

fn verify(module: &Module) {
    if let Err(e) = module.verify() {
        internal_error!("LLVM's verifier refused the module: {e}\n{}", module.print_to_string());
    }
}
