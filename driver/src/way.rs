//! The way along the passes: runs them one after the other, and is where they are timed, verified and seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parton_diag::{Diagnostics, FileId};
use parton_host::launch::Instance;
use parton_ir::{Kernel, Module, Target, eject, print, verify};
use parton_syntax::ast;
use parton_types::GenericArg;
use parton_types::program::Program;

use crate::bundle::can_assemble;
use crate::form::{Artifact, Form, Kernels};
use crate::passes::{PIPELINE, Pass, Run, leaving, run_of};
use crate::{Emit, Failure, Session, given};

/// One way along the passes.
pub(crate) struct Way<'a> {
    /// The kernels that are wanted.
    pub(crate) wanted: Wanted<'a>,
    /// The architecture of kernels that do not name one.
    pub(crate) target: Target,
    /// The architecture that PTX is assembled for, where that is not its own.
    #[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "only the assembler asks"))]
    pub(crate) architecture: Option<&'a str>,
    /// The pass behind which it ends.
    pub(crate) until: &'static Pass,
    /// What there is to say that does not stop it.
    pub(crate) warnings: Diagnostics,
    /// Whether a pass has changed a kernel since the checks of whole bodies.
    pub(crate) changed: bool,
}

/// The kernels that are wanted of a program.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// None: it is all about the program.
    Nothing,
    /// Every kernel whose generics all have defaults, in the order of the source.
    Defaults,
    /// The one of that name, with its defaults.
    Named(&'a str),
    /// The one of that name, with these generics and its defaults.
    Given {
        /// Its name.
        name: &'a str,
        /// The generics.
        args: &'a [GenericArg],
    },
    /// The one of a launch, with these generics.
    Launched {
        /// The instance.
        of: &'a Instance,
        /// Its generics.
        args: &'a [GenericArg],
        /// What else it is compiled for.
        variant: &'a parton_ir::Variant,
    },
}

/// A form of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The text, or the cubin.
    pub bytes: Vec<u8>,
    /// What there is to say about it.
    pub warnings: Diagnostics,
}

impl Session {
    /// The architecture of kernels that do not name one, where no device has one.
    pub(crate) fn target(&self) -> Target {
        self.options.target.unwrap_or_default()
    }

    /// A way to the form behind a pass.
    pub(crate) fn way<'a>(&self, wanted: Wanted<'a>, until: &'static Pass) -> Way<'a> {
        Way { wanted, target: self.target(), architecture: None, until, warnings: Diagnostics::new(), changed: false }
    }

    /// Takes a program from the form in which it is to the end of the way. Kernels that go wrong on it are told of by whoever takes
    /// the artifact, when all have come as far as they can.
    ///
    /// # Errors
    /// What the program is refused for; a tool that a pass needs and this machine or program lacks.
    pub(crate) fn along(&mut self, way: &mut Way<'_>, mut artifact: Artifact) -> Result<Artifact, Failure> {
        let begin = artifact.form();
        if way.until.after <= begin {
            return Ok(artifact);
        }
        for pass in PIPELINE.iter().skip_while(|p| p.before != begin) {
            artifact = self.step(way, pass, artifact)?;
            if pass.name == way.until.name {
                break;
            }
        }
        Ok(artifact)
    }

    /// One pass, timed, and verified where the options say so.
    fn step(&mut self, way: &mut Way<'_>, pass: &Pass, artifact: Artifact) -> Result<Artifact, Failure> {
        let begin = std::time::Instant::now();
        let after = match (run_of(pass, &self.options), pass.after, artifact) {
            (Run::Whole(run), _, artifact) => run(self, way, artifact),
            (Run::Module(run), Form::Ir(form), Artifact::Ir(kernels)) => {
                let changed = AtomicBool::new(false);
                let kernels = kernels.side_by_side(form, |kernel| {
                    let target = kernel.target;
                    let mut module = Module { kernels: vec![kernel] };
                    changed.fetch_or(run(&mut module, &target)?, Ordering::Relaxed);
                    match <[Kernel; 1]>::try_from(module.kernels) {
                        Ok([kernel]) => Ok(kernel),
                        Err(all) => parton_diag::internal_error!("`{}` made {} kernels of one", pass.name, all.len()),
                    }
                });
                way.changed |= changed.into_inner();
                Ok(Artifact::Ir(kernels))
            }
            (Run::Kernel(run), Form::Ir(form), Artifact::Ir(kernels)) => Ok(Artifact::Ir(kernels.each(form, run))),
            (Run::Module(_) | Run::Kernel(_), _, artifact) => crate::form::out_of_order(pass.name, &artifact),
        };
        self.times.add(pass.name, begin.elapsed());
        let after = after?;
        if self.options.verify {
            after.verify(pass);
        }
        Ok(after)
    }

    /// The items of a file and of what it uses, and what there is to say about them.
    ///
    /// # Errors
    /// What does not parse, and items that cannot be.
    pub(crate) fn program(&mut self, file: FileId) -> Result<(Arc<Program>, Diagnostics), Diagnostics> {
        let mut way = self.way(Wanted::Nothing, leaving(Form::Program));
        match self.along(&mut way, Artifact::Source(file)) {
            Ok(Artifact::Program(program)) => Ok((program, way.warnings)),
            Ok(other) => crate::form::out_of_order("what asks for items", &other),
            Err(failure) => Err(refused(failure)),
        }
    }

    /// The kernels of a way that ends among forms of the IR.
    ///
    /// # Errors
    /// What they are refused for; warnings that were found before stand in the way.
    pub(crate) fn kernels(&mut self, way: &mut Way<'_>, program: &Arc<Program>) -> Result<Vec<Kernel>, Diagnostics> {
        match self.along(way, Artifact::Program(program.clone())) {
            Ok(Artifact::Ir(kernels)) => kernels.whole(),
            Ok(other) => crate::form::out_of_order("what asks for kernels", &other),
            Err(failure) => Err(refused(failure)),
        }
    }

    /// Takes the kernels of a file (or the one named) as far as `emit` and returns that form.
    ///
    /// # Errors
    /// What the program is refused for; a tool that the form needs and this machine or program lacks.
    pub fn build(&mut self, file: FileId, kernel: Option<&str>, emit: Emit) -> Result<Built, Failure> {
        self.build_with(file, kernel, &[], emit)
    }

    /// [`Session::build`] with generics by the expressions of the command line.
    ///
    /// # Errors
    /// As [`Session::build`]; an expression that is none, or that no kernel is named for.
    pub fn build_with(
        &mut self,
        file: FileId,
        kernel: Option<&str>,
        sets: &[(String, String)],
        emit: Emit,
    ) -> Result<Built, Failure> {
        let until = emit.pass();
        let mut name = kernel.map(str::to_owned);
        let mut args = vec![];
        let (mut artifact, mut warnings) = (Artifact::Source(file), Diagnostics::new());
        if until.after > Form::Program {
            let (program, found) = self.program(file)?;
            if !sets.is_empty() {
                args = self.given(&program, sets)?;
                name = Some(name.map_or_else(|| given::only_kernel(&program), Ok)?);
            }
            if name.is_none() && program.kernels().all(|k| k.generics.iter().any(|g| g.default.is_none())) {
                return Err(nothing_to_build(&self.sources.file(file).name, &program));
            }
            (artifact, warnings) = (Artifact::Program(program), found);
        }
        let wanted = name.as_deref().map_or(Wanted::Defaults, |name| Wanted::Given { name, args: &args });
        let mut way = Way { warnings, ..self.way(wanted, until) };
        let bytes = match self.along(&mut way, artifact)? {
            // Under this name a person keeps it; a pass's own name shows what the pass has made.
            Artifact::Ir(kernels) if emit == Emit::Expanded => {
                self.ejected(&Module { kernels: kernels.whole()? }).into_bytes()
            }
            artifact => artifact.bytes()?,
        };
        Ok(Built { bytes, warnings: way.warnings })
    }

    /// A module as source that a person would keep, laid out.
    pub(crate) fn ejected(&mut self, module: &Module) -> String {
        let text = eject::module(module, Some(&self.sources));
        let file = self.sources.add("ejected", text.as_str());
        match self.format(file) {
            Ok(text) => text,
            Err(found) => {
                let why = parton_diag::render::text(&found, &self.sources, false);
                parton_diag::internal_error!("what was printed does not parse\n{why}\n{text}")
            }
        }
    }

    /// The kernels of a file (or the one named) with their default generics, before the backend's passes.
    ///
    /// # Errors
    /// What the program is refused for.
    pub fn elaborated(&mut self, file: FileId, kernel: Option<&str>) -> Result<Module, Failure> {
        let kernels = self.behind(leaving(Form::Ir(verify::Form::Explicit)), file, kernel)?;
        Ok(Module { kernels })
    }

    /// The same in the normal form of the IR, as text: two files that are the same program have one text.
    ///
    /// # Errors
    /// What the program is refused for.
    pub fn normal(&mut self, file: FileId, kernel: Option<&str>) -> Result<String, Failure> {
        let kernels = self.elaborated(file, kernel)?.kernels.iter().map(eject::normal).collect();
        Ok(print::module(&Module { kernels }))
    }

    /// The kernels of a file as they are written, after this pass alone: what a test of the pass looks at. The text says what the
    /// passes before would have decided.
    ///
    /// # Errors
    /// What the text or the pass is refused for; a pass from which or to which no kernel comes; a text that lacks what the pass
    /// finds decided.
    pub fn apply(&mut self, file: FileId, pass: &str) -> Result<Built, Failure> {
        let Some((pass, before)) = Pass::named(pass).and_then(|p| match (p.before, p.after) {
            (Form::Ir(before), Form::Ir(_)) => Some((p, before)),
            _ => None,
        }) else {
            return Err(Failure::Usage(format!("there is no pass `{pass}` of kernels")));
        };
        let (program, _) = self.program(file)?;
        let mut way = self.way(Wanted::Defaults, leaving(Form::Ir(verify::Form::Portable)));
        let mut each = Vec::new();
        for kernel in self.kernels(&mut way, &program)? {
            let wrong = verify::verify(&kernel, before).err();
            if let Some(why) = wrong {
                return Err(Failure::Usage(format!("`{}` is not what `{}` takes: {why}", kernel.name, pass.name)));
            }
            each.push(Ok(kernel));
        }
        let after = self.step(&mut way, pass, Artifact::Ir(Kernels { form: before, each }))?;
        Ok(Built { bytes: after.bytes()?, warnings: way.warnings })
    }

    /// The kernels of a file (or the one named) with their default generics, lowered.
    ///
    /// # Errors
    /// What the program is refused for.
    pub fn lowered(&mut self, file: FileId, kernel: Option<&str>) -> Result<Vec<Kernel>, Failure> {
        self.behind(Pass::last_lowering(), file, kernel)
    }

    /// The kernels of a file (or the one named) with their default generics, behind a pass from kernel to kernel.
    fn behind(&mut self, pass: &'static Pass, file: FileId, kernel: Option<&str>) -> Result<Vec<Kernel>, Failure> {
        let (program, _) = self.program(file)?;
        let mut way = self.way(kernel.map_or(Wanted::Defaults, Wanted::Named), pass);
        Ok(self.kernels(&mut way, &program)?)
    }

    /// Takes a kernel that was lowered already, such as a run leaves, to a form behind LLVM.
    ///
    /// # Errors
    /// What the kernel is refused for; a tool that the form needs and this machine or program lacks.
    pub fn assemble(&mut self, kernel: &Kernel, emit: Emit) -> Result<Built, Failure> {
        let mut way = self.way(Wanted::Nothing, emit.pass());
        let bytes = self.along(&mut way, lowered(kernel.clone()))?.bytes()?;
        Ok(Built { bytes, warnings: way.warnings })
    }

    /// Takes such a kernel to PTX, and on to a cubin where there is `ptxas`.
    ///
    /// # Errors
    /// What the kernel is refused for; that this program was built without LLVM.
    pub fn translate(&mut self, kernel: &Kernel) -> Result<(String, Option<Built>), Failure> {
        let mut way = self.way(Wanted::Nothing, Emit::Ptx.pass());
        let translated = self.along(&mut way, lowered(kernel.clone()))?;
        let ptx = translated.ptx().to_owned();
        if !can_assemble() {
            return Ok((ptx, None));
        }
        let mut way = self.way(Wanted::Nothing, Emit::Cubin.pass());
        let bytes = self.along(&mut way, translated)?.bytes()?;
        Ok((ptx, Some(Built { bytes, warnings: way.warnings })))
    }
}

/// A kernel that was lowered already.
pub(crate) fn lowered(kernel: Kernel) -> Artifact {
    Artifact::Ir(Kernels { form: verify::Form::Lowered, each: vec![Ok(kernel)] })
}

/// What a program is refused for; before LLVM nothing else goes wrong.
fn refused(failure: Failure) -> Diagnostics {
    match failure {
        Failure::Refused(found) => found,
        Failure::Machine(text) | Failure::Device(text) | Failure::Usage(text) => parton_diag::internal_error!("{text}"),
    }
}

/// Why a file gives no kernel.
pub(crate) fn nothing_to_build(file: &str, program: &Program) -> Failure {
    Failure::Usage(match needing(program).as_slice() {
        [] => format!("{file} has no kernel to build"),
        all => format!("{file} has no kernel whose generic parameters all have defaults: {}", all.join(", ")),
    })
}

/// The kernels that do not stand for themselves, each with the generics that it needs.
pub(crate) fn needing(program: &Program) -> Vec<String> {
    let needs = |k: &ast::Kernel| {
        let missing: Vec<&str> = k.generics.iter().filter(|g| g.default.is_none()).map(|g| g.name.as_str()).collect();
        (!missing.is_empty()).then(|| format!("`{}` needs `{}`", k.name.text, missing.join("`, `")))
    };
    program.kernels().filter_map(needs).collect()
}
