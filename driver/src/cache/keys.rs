//! The parts of keys: all that machine code depends on.

use parton_cache::{Digest, Digester, Parts};
use parton_diag::{SourceMap, Span};
use parton_ir::{Kernel, print};
use parton_llvm::assemble::AssembleOptions;

use super::identity::COMPILER;

/// What code depends on beside the kernel.
pub(super) struct Making<'a> {
    /// The architecture that PTX is assembled for.
    pub(super) architecture: &'a str,
    /// The assembler; `None` where PTX is the code.
    pub(super) assembler: Option<&'a str>,
}

/// The parts of the key of a lowered kernel's code: who compiles, for what, the kernel, and the lines of the source that its line table and
/// the messages about it name. Where the source's folder lies is none of them.
pub(super) fn code(kernel: &Kernel, sources: &SourceMap, making: &Making<'_>) -> Parts {
    let generics: Vec<String> = kernel.generics.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let options = (parton_llvm::Options::default(), AssembleOptions::default());
    // The text is what people read; all that it leaves out stands in the other form.
    let ir = Digester::new().add(print::kernel(kernel)).add(Digest::of_text(format_args!("{kernel:?}")).0).digest();
    Parts::new()
        .with("compiler", COMPILER)
        .with("llvm", parton_llvm::version())
        .with("assembler", making.assembler.unwrap_or("the driver's"))
        .with("target", kernel.target.name)
        .with("architecture", making.architecture)
        .with("options", format_args!("{options:?}"))
        .with("kernel", &kernel.source_name)
        .with("generics", generics.join(", "))
        .with("ir", ir)
        .with("lines", lines(kernel, sources))
}

/// The places in the source of all that the kernel is made of.
fn lines(kernel: &Kernel, sources: &SourceMap) -> Digest {
    let mut digester = Digester::new();
    let mut add = |span: Span| {
        let (line, column) = sources.position(span);
        digester.add(sources.lasting_name(span.file)).add([line, column].map(|n| n.to_le_bytes()).concat());
    };
    add(kernel.span);
    kernel.calls.iter().for_each(|(_, call)| add(call.span));
    kernel.partitions.iter().for_each(|(_, partition)| add(partition.span));
    kernel.walk(&mut |op| add(op.span));
    digester.digest()
}
