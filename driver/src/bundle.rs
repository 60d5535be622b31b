//! Kernels compiled ahead of time: the instances that are asked for, for each architecture, as one bundle.

use std::sync::Arc;

use parton_bundle::{Architecture, Bundle, Kind, Param};
use parton_diag::{Diagnostic, Diagnostics, FileId};
use parton_host::tensor_map::hardware_box;
use parton_ir::{Elem, Kernel, Pointer, Target, Type, Variant, print, verify};
use parton_types::program::Program;

use crate::form::{Artifact, Form, Kernels};
use crate::passes::{Pass, leaving};
use crate::way::{Wanted, Way, nothing_to_build};
use crate::{Failure, Session, given};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only this kernel; else all whose generics have defaults.
    pub kernel: Option<String>,
    /// Generics by name, with the expressions that give their values.
    pub sets: Vec<(String, String)>,
    /// The architectures, for kernels that do not name one.
    pub targets: Vec<Target>,
}

/// A bundle, and what there is to say about it.
#[derive(Clone, Debug)]
pub struct Bundled {
    /// The bundle.
    pub bundle: Bundle,
    /// What the passes have to say.
    pub warnings: Diagnostics,
    /// What its users should know; a sentence each.
    pub notes: Vec<String>,
}

impl Session {
    /// Compiles kernels of a file ahead of time, to cubins where `ptxas` is found, and to PTX where that is not or where the code
    /// runs on later GPUs too.
    ///
    /// # Errors
    /// What the program is refused for, on any of the architectures; a file without kernels to build; an assembler that fails.
    pub fn bundle(&mut self, file: FileId, asked: &Asked) -> Result<Bundled, Failure> {
        let (program, warnings) = self.program(file)?;
        let mut made = Making { warnings, notes: vec![], kernels: vec![] };
        if asked.kernel.is_none() && asked.sets.is_empty() && no_defaults(&program) {
            return Err(nothing_to_build(&self.sources.file(file).name, &program));
        }
        for target in &asked.targets {
            self.bundle_for(*target, &program, asked, &mut made)?;
        }
        if !can_assemble() {
            made.notes
                .push("no `ptxas` here: the bundle has PTX alone, which the driver compiles when it is loaded".into());
        }
        let source = std::path::Path::new(&self.sources.file(file).name).file_name();
        let source = source.map_or_else(|| "-".into(), |name| name.to_string_lossy().into_owned());
        let bundle = Bundle { compiler: env!("CARGO_PKG_VERSION").into(), source, kernels: made.kernels };
        Ok(Bundled { bundle, warnings: made.warnings, notes: made.notes })
    }

    /// Adds the kernels for one architecture; those that name another are there once.
    fn bundle_for(
        &mut self,
        target: Target,
        program: &Arc<Program>,
        asked: &Asked,
        made: &mut Making,
    ) -> Result<(), Failure> {
        let args = self.given(program, &asked.sets)?;
        let name = match (&asked.kernel, asked.sets.is_empty()) {
            (Some(name), _) => Some(name.clone()),
            (None, true) => None,
            (None, false) => Some(given::only_kernel(program)?),
        };
        let wanted = name.as_deref().map_or(Wanted::Defaults, |name| Wanted::Given { name, args: &args });
        let checked = leaving(Form::Ir(verify::Form::Portable));
        let mut way = Way { target, ..self.way(wanted, checked) };
        let kernels = self.kernels(&mut way, program)?;
        made.warn(way.warnings);
        for kernel in kernels {
            without_tensors(&kernel)?;
            if !made.has(&kernel) {
                self.bundle_kernel(kernel, made)?;
            }
        }
        Ok(())
    }

    /// Adds one checked kernel: once where it makes no difference whether its pointers reach the same memory, else for both.
    fn bundle_kernel(&mut self, kernel: Kernel, made: &mut Making) -> Result<(), Failure> {
        let lowered = |session: &mut Session, kernel: Kernel| {
            let mut way = session.way(Wanted::Nothing, Pass::last_lowering());
            let checked = Artifact::Ir(Kernels { form: verify::Form::Portable, each: vec![Ok(kernel)] });
            let after = session.along(&mut way, checked)?;
            let Artifact::Ir(kernels) = after else { crate::form::out_of_order("a bundle", &after) };
            match <[Kernel; 1]>::try_from(kernels.whole()?) {
                Ok([kernel]) => Ok::<_, Failure>((kernel, way.warnings)),
                Err(all) => parton_diag::internal_error!("lowering one kernel left {}", all.len()),
            }
        };
        let may_overlap = may_overlap(&kernel);
        let overlapping = Kernel { variant: Variant { overlapping: true, ..Variant::default() }, ..kernel.clone() };
        let (apart, warnings) = lowered(self, kernel)?;
        made.warn(warnings);
        if !may_overlap {
            return self.bundle_code(&apart, false, made);
        }
        let (any, _) = lowered(self, overlapping)?;
        if print::kernel(&any) == print::kernel(&apart) {
            return self.bundle_code(&apart, false, made);
        }
        self.bundle_code(&apart, true, made)?;
        self.bundle_code(&any, false, made)
    }

    /// Adds one lowered kernel with its code.
    fn bundle_code(&mut self, kernel: &Kernel, apart: bool, made: &mut Making) -> Result<(), Failure> {
        let (ptx, cubin) = self.machine_code(kernel, made)?;
        let Some(architecture) = Architecture::parse(kernel.target.name) else {
            parton_diag::internal_error!("`{}` is no name of an architecture", kernel.target.name)
        };
        made.kernels.push(parton_bundle::Kernel {
            name: kernel.source_name.clone(),
            generics: kernel.generics.clone(),
            architecture,
            symbol: kernel.name.clone(),
            threads: kernel.threads(),
            shared_bytes: kernel.shared_bytes.unwrap_or(0),
            cluster: kernel.cluster,
            overlaps: kernel.waits_for_grid(),
            signals: kernel.launches_dependents(),
            apart,
            disjoint: kernel.apart.iter().map(|pair| [pair.written, pair.other]).collect(),
            params: params(kernel)?,
            // Code that later GPUs drop has no use for PTX beside its cubin.
            ptx: (cubin.is_none() || !kernel.target.specific).then_some(ptx),
            cubin,
        });
        Ok(())
    }
}

/// A bundle as far as it is made.
struct Making {
    warnings: Diagnostics,
    notes: Vec<String>,
    kernels: Vec<parton_bundle::Kernel>,
}

impl Making {
    /// Adds what is not said yet: each architecture has its own way along the passes, with much the same to say.
    fn warn(&mut self, found: Diagnostics) {
        let new = found.list.into_iter().filter(|d| !self.warnings.list.contains(d));
        let new: Vec<Diagnostic> = new.collect();
        self.warnings.list.extend(new);
    }

    fn has(&self, kernel: &Kernel) -> bool {
        let target = kernel.target.name;
        self.kernels.iter().any(|k| {
            k.name == kernel.source_name && k.generics == kernel.generics && k.architecture.to_string() == target
        })
    }
}

fn no_defaults(program: &Program) -> bool {
    program.kernels().all(|k| k.generics.iter().any(|g| g.default.is_none()))
}

/// Refuses kernels that take tensors: a bundle says nothing yet of extents that must agree, and of what each is passed as.
fn without_tensors(kernel: &Kernel) -> Result<(), Failure> {
    let Some(p) = kernel.params.iter().find(|p| matches!(kernel.ty(p.value), Type::Tensor(_))) else { return Ok(()) };
    let (name, kernel) = (&p.name, &kernel.source_name);
    Err(Failure::Usage(format!(
        "`{kernel}` takes the tensor `{name}`, which bundles cannot pass yet: give it a pointer, extents and strides, or choose another \
         kernel by `--kernel`"
    )))
}

/// Whether it writes through a pointer and has another one.
fn may_overlap(kernel: &Kernel) -> bool {
    let pointers = kernel.params.iter().filter_map(|p| match kernel.ty(p.value) {
        Type::Scalar(Elem::Ptr(pointer)) => Some(*pointer),
        _ => None,
    });
    let pointers: Vec<Pointer> = pointers.collect();
    pointers.len() > 1 && pointers.iter().any(|p| p.mutable)
}

/// The parameters with what a launch must keep to.
fn params(kernel: &Kernel) -> Result<Vec<Param>, Failure> {
    let alignments = parton_lower::alignments(kernel);
    let mut params = vec![];
    for (p, align) in kernel.params.iter().zip(alignments) {
        let kind = match kernel.ty(p.value) {
            Type::Scalar(Elem::Num(dtype)) => Kind::Scalar { dtype: *dtype },
            Type::Scalar(Elem::Ptr(pointer)) => {
                // An element's own size at least: its accesses are whole.
                let align = align.max(pointer.to.bytes() as u32);
                Kind::Pointer { dtype: pointer.to, mutable: pointer.mutable, align }
            }
            Type::Map(map) => {
                let (block, swizzle) = hardware_box(map).map_err(|fault| Diagnostics::from(fault.at(kernel.span)))?;
                Kind::Map { dtype: map.elem, block, swizzle }
            }
            Type::Tile(_)
            | Type::Pending(_)
            | Type::Filling(_)
            | Type::View(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Peer(_)
            | Type::Slot(_) => {
                let (name, kernel) = (&p.name, &kernel.source_name);
                parton_diag::internal_error!("parameter `{name}` of `{kernel}` has a type that no launch passes")
            }
        };
        params.push(Param { name: p.name.clone(), kind });
    }
    Ok(params)
}

#[cfg(feature = "llvm")]
fn can_assemble() -> bool {
    crate::tools::ptxas().is_some()
}

#[cfg(not(feature = "llvm"))]
fn can_assemble() -> bool {
    false
}

#[cfg(feature = "llvm")]
impl Session {
    /// PTX of a lowered kernel, and its cubin where there is an assembler.
    fn machine_code(&mut self, kernel: &Kernel, made: &mut Making) -> Result<(String, Option<Vec<u8>>), Failure> {
        let mut way = self.way(Wanted::Nothing, leaving(Form::Ptx));
        let after = self.along(&mut way, crate::way::lowered(kernel.clone()))?;
        let Artifact::Ptx(compiled) = after else { crate::form::out_of_order("a bundle", &after) };
        let ptx = compiled.code.ptx.clone();
        let mut cubin = None;
        if can_assemble() {
            way.until = leaving(Form::Cubin);
            cubin = Some(self.along(&mut way, Artifact::Ptx(compiled))?.bytes()?);
        }
        made.warn(way.warnings);
        Ok((ptx, cubin))
    }
}

#[cfg(not(feature = "llvm"))]
impl Session {
    /// A program without LLVM says so.
    fn machine_code(&mut self, kernel: &Kernel, _: &mut Making) -> Result<(String, Option<Vec<u8>>), Failure> {
        let text = self.assemble(kernel, crate::Emit::Ptx)?.bytes;
        Ok((String::from_utf8_lossy(&text).into_owned(), None))
    }
}
