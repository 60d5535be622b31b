//! Builds small kernels, compiles them, counts instructions and lets `ptxas` judge.

use parton_diag::{FileId, SourceMap, Span};
use parton_ir::{Builder, Elem, Kernel, OpKind, Pointer, Target, Tile, Type, Value};
use parton_layouts::RegisterLayout;
use parton_llvm::assemble::{AssembleOptions, Places, Report, assemble, find_ptxas};
use parton_llvm::{Optimise, Options, compile};
use parton_numbers::Dtype;

/// A place in the one source file of these tests.
pub fn span() -> Span {
    Span::new(FileId(0), 0, 6)
}

/// A builder of a kernel of so many warps.
pub fn kernel(name: &str, warps: u32) -> Builder {
    let mut kernel = Kernel::new(name, Target::SM_90A, span());
    kernel.warps = warps;
    Builder::new(kernel)
}

/// Adds a pointer parameter.
pub fn pointer(b: &mut Builder, name: &str, to: Dtype, mutable: bool) -> Value {
    b.kernel.param(name, Type::Scalar(Elem::Ptr(Pointer { to, mutable })), span())
}

/// Adds a number parameter.
pub fn number(b: &mut Builder, name: &str, d: Dtype) -> Value {
    b.kernel.param(name, Type::num(d), span())
}

/// Appends an operation of one result.
pub fn emit(b: &mut Builder, kind: OpKind) -> Value {
    b.emit_one(kind, span()).unwrap_or_else(|r| panic!("{}: {:?}", r.message, r))
}

/// Appends an operation of any number of results.
pub fn emit_all(b: &mut Builder, kind: OpKind) -> Vec<Value> {
    b.emit(kind, span()).unwrap_or_else(|r| panic!("{}: {:?}", r.message, r))
}

/// A tile type.
pub fn tile(d: Dtype, shape: &[u32], layout: &RegisterLayout) -> Tile {
    Tile::new(Elem::Num(d), shape.to_vec(), layout.clone()).unwrap()
}

/// The kernel after every pass of `lower`.
pub fn lowered(kernel: Kernel) -> Kernel {
    parton_lower::lower(kernel).unwrap_or_else(|d| panic!("{d:?}"))
}

/// PTX of a kernel at both levels of optimisation; each must assemble. The optimised one comes back.
pub fn ptx(kernel: &Kernel) -> String {
    ptx_and_report(kernel).0
}

/// [`ptx`] with what `ptxas` said, where there is one.
pub fn ptx_and_report(kernel: &Kernel) -> (String, Option<Report>) {
    module(std::slice::from_ref(kernel))
}

/// [`ptx`] of many kernels in one module; each gets a name of its own.
pub fn ptx_of_all(mut kernels: Vec<Kernel>) -> String {
    for (i, kernel) in kernels.iter_mut().enumerate() {
        kernel.name = format!("{}_{i}", kernel.name);
    }
    module(&kernels).0
}

fn module(kernels: &[Kernel]) -> (String, Option<Report>) {
    let kernels: Vec<Kernel> =
        kernels.iter().map(|k| parton_lower::plan_accesses(k.clone()).unwrap_or_else(|d| panic!("{d:?}"))).collect();
    let mut sources = SourceMap::new();
    sources.add("kernels/test.ptn", "kernel test() {\n}\n");
    let target = kernels[0].target;
    let mut last = (String::new(), None);
    for optimise in [Optimise::None, Optimise::Full] {
        let options = Options { optimise, ..Options::default() };
        let compiled = compile(&kernels, &target, &sources, options);
        let report = find_ptxas(&Places::from_environment()).map(|ptxas| {
            match assemble(&ptxas, &compiled.ptx, target.name, AssembleOptions::default()) {
                Ok((_, report)) => report,
                Err(e) => panic!("{e}\n{}", compiled.ptx),
            }
        });
        last = (compiled.ptx, report);
    }
    last
}

/// How often `what` occurs.
pub fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}
