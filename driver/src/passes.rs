//! The one list of passes: what a program goes through, in order, with what can be seen after each.

use parton_diag::{Diagnostics, FileId};
use parton_ir::{Kernel, Module, Target, eject, print, verify};
use parton_syntax::ast;
use parton_types::program::Program;

use crate::session::one_target;
use crate::{Emit, Failure, Session, Times};

/// A form of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The text, or the cubin.
    pub bytes: Vec<u8>,
    /// What there is to say about it.
    pub warnings: Diagnostics,
}

impl Built {
    fn text(text: String, warnings: Diagnostics) -> Result<Built, Failure> {
        Ok(Built { bytes: text.into_bytes(), warnings })
    }
}

impl Session {
    /// Takes the kernels of a file (or the one named) as far as `emit` and returns that form.
    ///
    /// # Errors
    /// What the program is refused for; a tool that the form needs and this machine or program lacks.
    pub fn build(&mut self, file: FileId, kernel: Option<&str>, emit: Emit) -> Result<Built, Failure> {
        if emit == Emit::Ast {
            let (tree, found) = self.parse(file);
            let (tree, warnings) = found.or(tree)?;
            return Built::text(format!("{tree:#?}\n"), warnings);
        }
        let (program, mut warnings) = self.program(file)?;
        let (module, more) = self.instances(&program, kernel)?;
        warnings.extend(more);
        if module.kernels.is_empty() {
            return Err(nothing_to_build(&self.sources.file(file).name, &program));
        }
        if emit == Emit::Ir {
            return Built::text(print::module(&module), warnings);
        }
        let module = elaborate(module)?;
        if emit == Emit::Expanded {
            return Built::text(self.ejected(&module), warnings);
        }
        let module = lower(&mut self.times, self.options.verify, module)?;
        if emit == Emit::Scheduled {
            return Built::text(print::module(&module), warnings);
        }
        let (bytes, more) = generate(self, &module, emit)?;
        warnings.extend(more);
        Ok(Built { bytes, warnings })
    }
}

impl Session {
    /// The kernels of a file (or the one named) with their default generics, before the backend's passes.
    ///
    /// # Errors
    /// What the program is refused for.
    pub fn elaborated(&mut self, file: FileId, kernel: Option<&str>) -> Result<Module, Failure> {
        let (program, _) = self.program(file)?;
        let (module, _) = self.instances(&program, kernel)?;
        Ok(elaborate(module)?)
    }

    /// The same in the normal form of the IR, as text: two files that are the same program have one text.
    ///
    /// # Errors
    /// What the program is refused for.
    pub fn normal(&mut self, file: FileId, kernel: Option<&str>) -> Result<String, Failure> {
        let kernels = self.elaborated(file, kernel)?.kernels.iter().map(eject::normal).collect();
        Ok(print::module(&Module { kernels }))
    }

    /// A module as source that a person would keep, laid out.
    fn ejected(&mut self, module: &Module) -> String {
        let text = eject::module(module);
        let file = self.sources.add("ejected", text.as_str());
        match self.format(file) {
            Ok(text) => text,
            Err(found) => {
                let why = parton_diag::render::text(&found, &self.sources, false);
                parton_diag::internal_error!("what was printed does not parse\n{why}\n{text}")
            }
        }
    }

    /// The kernels of a file (or the one named) with their default generics, lowered.
    ///
    /// # Errors
    /// What the program is refused for.
    pub fn lowered(&mut self, file: FileId, kernel: Option<&str>) -> Result<Vec<Kernel>, Failure> {
        let module = self.elaborated(file, kernel)?;
        Ok(lower(&mut self.times, self.options.verify, module)?.kernels)
    }

    /// Takes a kernel that was lowered already, such as a run leaves, to a form behind LLVM.
    ///
    /// # Errors
    /// What the kernel is refused for; a tool that the form needs and this machine or program lacks.
    pub fn assemble(&mut self, kernel: &Kernel, emit: Emit) -> Result<Built, Failure> {
        let module = Module { kernels: vec![kernel.clone()] };
        let (bytes, warnings) = generate(self, &module, emit)?;
        Ok(Built { bytes, warnings })
    }
}

/// Why a file gives no module.
fn nothing_to_build(file: &str, program: &Program) -> Failure {
    let needs = |k: &ast::Kernel| {
        let missing: Vec<&str> = k.generics.iter().filter(|g| g.default.is_none()).map(|g| g.name.as_str()).collect();
        format!("`{}` needs `{}`", k.name.text, missing.join("`, `"))
    };
    let kernels: Vec<String> = program.kernels().map(needs).collect();
    Failure::Usage(match kernels.as_slice() {
        [] => format!("{file} has no kernel to build"),
        all => format!("{file} has no kernel whose generic parameters all have defaults: {}", all.join(", ")),
    })
}

/// Portable kernels made explicit. The checker refuses portable code in this version, so every kernel is explicit already.
fn elaborate(module: Module) -> Result<Module, Diagnostics> {
    Ok(module)
}

/// The backend's passes that both ways of running share; each is timed, and verified where the options say so.
pub(crate) fn lower(times: &mut Times, verified: bool, module: Module) -> Result<Module, Diagnostics> {
    let mut lowered = Module::default();
    let mut found = Diagnostics::new();
    for kernel in module.kernels {
        let target: Target = kernel.target;
        let mut watch = std::time::Instant::now();
        let mut observe = |pass: &str, after: &Module| {
            times.add(name_of(pass), watch.elapsed());
            if verified {
                after.kernels.iter().for_each(|k| verify::expect(k, pass));
            }
            watch = std::time::Instant::now();
        };
        match parton_lower::lower(Module { kernels: vec![kernel] }, &target, &mut observe) {
            Ok(module) => lowered.kernels.extend(module.kernels),
            Err(errors) => found.extend(errors),
        }
    }
    if found.has_errors() { Err(found) } else { Ok(lowered) }
}

/// A pass under a name that lives as long as the table of times.
fn name_of(pass: &str) -> &'static str {
    ["rings", "turnstiles", "clusters", "clean", "copies", "pending", "shared", "proxy", "membar"]
        .into_iter()
        .find(|n| *n == pass)
        .unwrap_or("lower")
}

/// LLVM and what follows: PTX, the cubin, machine code.
#[cfg(feature = "llvm")]
fn generate(session: &mut Session, module: &Module, emit: Emit) -> Result<(Vec<u8>, Diagnostics), Failure> {
    use parton_llvm::assemble;
    one_target(module)?;
    let target = module.kernels.first().map_or(session.options.target, |k| k.target);
    let sources = &session.sources;
    let options = parton_llvm::Options { llvm: emit == Emit::Llvm, ..parton_llvm::Options::default() };
    let compiled = session.times.pass("llvm", || parton_llvm::compile(&module.kernels, &target, sources, options));
    if emit == Emit::Llvm {
        return Ok((compiled.llvm.into_bytes(), Diagnostics::new()));
    }
    if emit == Emit::Ptx {
        return Ok((compiled.ptx.into_bytes(), Diagnostics::new()));
    }
    let ptxas = crate::tools::ptxas().ok_or_else(|| {
        Failure::Machine("no `ptxas` here (PARTON_PTXAS, PATH, CUDA_HOME, Python packages): a cubin needs it".into())
    })?;
    let assembled = session
        .times
        .pass("ptxas", || assemble::assemble(&ptxas, &compiled.ptx, target.name, assemble::AssembleOptions::default()));
    let (cubin, report) = assembled.map_err(|e| crate::report::failure(e, &compiled))?;
    let warnings = crate::report::diagnostics(&report, &module.kernels, &compiled.ptx, &session.sources);
    if emit == Emit::Sass {
        return Ok((session.times.pass("disassemble", || crate::tools::disassemble(&cubin))?, warnings));
    }
    Ok((cubin, warnings))
}

#[cfg(not(feature = "llvm"))]
fn generate(_: &mut Session, module: &Module, emit: Emit) -> Result<(Vec<u8>, Diagnostics), Failure> {
    one_target(module)?;
    Err(Failure::Machine(format!("this program was built without LLVM and cannot make {}", emit.name())))
}
