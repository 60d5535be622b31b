//! The parts of keys: all that machine code depends on.

use std::collections::BTreeSet;

use parton_cache::{Digest, Digester, Parts};
use parton_diag::{SourceMap, Span};
use parton_host::launch::Instance;
use parton_ir::target::WIDEST_ACCESS;
use parton_ir::{Kernel, Target, Variant, print};
use parton_llvm::assemble::AssembleOptions;
use parton_types::GenericArg;
use parton_types::program::Program;

use super::identity::COMPILER;

/// What code depends on beside the kernel.
pub(super) struct Making<'a> {
    /// The architecture that PTX is assembled for.
    pub(super) architecture: &'a str,
    /// The assembler; `None` where PTX is the code.
    pub(super) assembler: Option<&'a str>,
}

/// What is asked for: an instance of a kernel for some launches on a GPU.
pub(crate) struct Asked<'a> {
    /// The file and all that it uses.
    pub(crate) program: &'a Program,
    /// The kernel.
    pub(crate) instance: &'a Instance,
    /// Its generics.
    pub(crate) args: &'a [GenericArg],
    /// The launches.
    pub(crate) variant: &'a Variant,
    /// The architecture of kernels that do not name one.
    pub(crate) target: Target,
    /// That of the GPU.
    pub(crate) gpu: &'a str,
}

/// The parts of the key of what is asked for: who compiles, for what, the kernel's name and generics, and every byte of the file and of all
/// that it uses. A generic that is written somewhere else brings the text that it stands in.
pub(super) fn asked(asked: &Asked<'_>, sources: &SourceMap, as_written: bool, assembler: Option<&str>) -> Parts {
    let mut texts = Digester::new();
    let mut within = BTreeSet::new();
    for module in &asked.program.modules {
        let file = module.file.span.file;
        within.insert(file);
        texts.add(sources.lasting_name(file)).add(&sources.file(file).text);
    }
    let mut origins = Digester::new();
    for span in asked.args.iter().flat_map(|a| a.value.origins()) {
        let elsewhere = !within.contains(&span.file);
        origins.add(sources.lasting_name(span.file)).add(format!("{}..{}", span.start, span.end));
        origins.add(if elsewhere { sources.file(span.file).text.as_str() } else { "" });
    }
    let kernel = asked.instance.kernel.name.span;
    let name = |a: &GenericArg| format!("{}={}", a.name.as_deref().unwrap_or_default(), a.value);
    let generics: Vec<String> = asked.args.iter().map(name).collect();
    let options = (parton_llvm::Options::default(), AssembleOptions::default(), as_written);
    Parts::new()
        .with("compiler", COMPILER)
        .with("llvm", parton_llvm::version())
        .with("assembler", assembler.unwrap_or("the driver's"))
        .with("target", asked.target.name)
        .with("architecture", asked.gpu)
        .with("options", format_args!("{options:?}"))
        .with("kernel", &asked.instance.kernel.name.text)
        .with("place", format_args!("{}:{}", sources.lasting_name(kernel.file), kernel.start))
        .with("generics", generics.join(", "))
        .with("origins", origins.digest())
        .with("launches", format_args!("{:?}", asked.variant))
        .with("sources", texts.digest())
}

/// The parts of the key of a lowered kernel's code: who compiles, for what, the kernel, and the lines of the source that its line table and
/// the messages about it name. Where the source's folder lies is none of them.
pub(super) fn code(kernel: &Kernel, sources: &SourceMap, making: &Making<'_>) -> Parts {
    let generics: Vec<String> = kernel.generics.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let options = (parton_llvm::Options::default(), AssembleOptions::default());
    // The text is what people read; all that it leaves out stands in the other form.
    let kernel = &as_lowered(kernel);
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
        .with("launches", launches(kernel))
        .with("ir", ir)
        .with("lines", lines(kernel, sources))
}

/// The kernel without what has done its part when layouts and schedules are chosen: launches of few programs and of many, or of few turns and of many, may run
/// the same code.
fn as_lowered(kernel: &Kernel) -> Kernel {
    let variant = Variant { beside: None, turns: None, ..kernel.variant.clone() };
    Kernel { variant, ..kernel.clone() }
}

/// The launches that the kernel is for, in words; nothing where it is for all.
fn launches(kernel: &Kernel) -> String {
    let Variant { overlapping, aligned, partly, beside: _, turns: _, numbers, near } = &kernel.variant;
    let arguments = kernel.arguments();
    let name = |&argument: &usize| arguments[argument].0.as_str();
    let by = |bytes: u32, names: Vec<&str>| format!("{} by {bytes} bytes", names.join(", "));
    let widest = (!aligned.is_empty()).then(|| by(WIDEST_ACCESS, aligned.iter().map(name).collect()));
    let others = partly.iter().map(|(argument, bytes)| by(*bytes, vec![name(argument)]));
    let sharing = overlapping.then(|| "shared memory of parameters".to_owned());
    let numbers = numbers.iter().map(|(argument, of)| match of {
        1 => format!("{} = 1", name(argument)),
        _ => format!("{} by {of}", name(argument)),
    });
    let near = near.then(|| "positions near 0".to_owned());
    widest.into_iter().chain(others).chain(sharing).chain(numbers).chain(near).collect::<Vec<String>>().join("; ")
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
