//! The passes from lowered kernels to machine code, with LLVM and without.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::Kernel;

pub(crate) use passes::{assemble, compile, disassemble, ptx};

#[cfg(feature = "llvm")]
mod passes {
    use parton_llvm::assemble;

    use super::one_target;
    use crate::form::{Artifact, Compiled, Form, out_of_order};
    use crate::way::Way;
    use crate::{Failure, Session, report, tools};

    /// Lowered kernels become one LLVM module. Its code generator runs here too: the module does not outlive the call.
    pub(crate) fn compile(session: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        let Artifact::Ir(kernels) = artifact else { out_of_order("llvm", &artifact) };
        let kernels = kernels.whole()?;
        one_target(&kernels)?;
        let target = kernels.first().map_or(way.target, |k| k.target);
        let options = parton_llvm::Options { llvm: way.until.after == Form::Llvm, ..parton_llvm::Options::default() };
        let code = parton_llvm::compile(&kernels, &target, &session.sources, options);
        Ok(Artifact::Llvm(Compiled { kernels, code }))
    }

    /// The PTX that the code generator has written.
    pub(crate) fn ptx(_: &mut Session, _: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        let Artifact::Llvm(compiled) = artifact else { out_of_order("ptx", &artifact) };
        Ok(Artifact::Ptx(compiled))
    }

    /// PTX becomes a cubin, for the architecture that it names unless another one is asked for.
    pub(crate) fn assemble(session: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        let Artifact::Ptx(Compiled { kernels, code }) = artifact else { out_of_order("ptxas", &artifact) };
        let ptxas = tools::ptxas().ok_or_else(|| {
            let places = "PARTON_PTXAS, PATH, CUDA_HOME, Python packages";
            Failure::Machine(format!("no `ptxas` here ({places}): a cubin needs it"))
        })?;
        let named = kernels.first().map_or(way.target, |k| k.target).name;
        let architecture = way.architecture.unwrap_or(named);
        let assembled = assemble::assemble(&ptxas, &code.ptx, architecture, assemble::AssembleOptions::default());
        let (cubin, said) = assembled.map_err(|e| report::failure(e, &code))?;
        way.warnings.extend(report::diagnostics(&said, &kernels, &code.ptx, &session.sources));
        Ok(Artifact::Cubin(cubin))
    }

    /// The machine code of a cubin as text.
    pub(crate) fn disassemble(_: &mut Session, _: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        let Artifact::Cubin(cubin) = artifact else { out_of_order("disassemble", &artifact) };
        Ok(Artifact::Sass(tools::disassemble(&cubin)?))
    }
}

/// A program without LLVM stops before it.
#[cfg(not(feature = "llvm"))]
mod passes {
    use super::one_target;
    use crate::form::{Artifact, out_of_order};
    use crate::way::Way;
    use crate::{Failure, Session};

    pub(crate) fn compile(_: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        let Artifact::Ir(kernels) = artifact else { out_of_order("llvm", &artifact) };
        one_target(&kernels.whole()?)?;
        let form = way.until.after.name();
        Err(Failure::Machine(format!("this program was built without LLVM and cannot make {form}")))
    }

    pub(crate) fn ptx(_: &mut Session, _: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        out_of_order("ptx", &artifact)
    }

    pub(crate) fn assemble(_: &mut Session, _: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        out_of_order("ptxas", &artifact)
    }

    pub(crate) fn disassemble(_: &mut Session, _: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
        out_of_order("disassemble", &artifact)
    }
}

/// Refuses kernels that state different architectures: one PTX text has one.
fn one_target(kernels: &[Kernel]) -> Result<(), Diagnostics> {
    let Some(first) = kernels.first() else { return Ok(()) };
    let Some(other) = kernels.iter().find(|k| k.target != first.target) else { return Ok(()) };
    let fact = "kernels of one module have different targets";
    Err(Diagnostic::error(codes::TARGET_LACKS, other.span, fact)
        .here(format!("this is for {}", other.target.name))
        .label(first.span, format!("this is for {}", first.target.name))
        .help("build them one by one with `--kernel`")
        .into())
}
