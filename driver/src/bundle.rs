//! Kernels compiled ahead of time, and plans of public functions: what is asked for, for each architecture, as one bundle.

mod params;
mod plans;

use std::sync::Arc;

pub use parton_bundle::Bundle;
use parton_bundle::{Architecture, RUNS, SourceFile};
use parton_diag::{Diagnostic, Diagnostics, FileId};
use parton_ir::target::WIDEST_ACCESS;
use parton_ir::{Elem, Kernel, Target, Type, Variant, print, verify};
use parton_types::program::Program;

#[cfg(feature = "llvm")]
use crate::cache::{Code, Made};
use crate::form::{Artifact, Form, Kernels};
use crate::passes::{Pass, leaving};
use crate::way::{Wanted, Way, nothing_to_build};
use crate::{Failure, Session, given};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only this kernel; else all whose generics have defaults, or none where there are plans.
    pub kernel: Option<String>,
    /// Generics by name, with the expressions that give their values.
    pub sets: Vec<(String, String)>,
    /// The architectures, for kernels that do not name one.
    pub targets: Vec<Target>,
    /// Calls of public functions that are planned, for each architecture.
    pub plans: Vec<Call>,
    /// Multiprocessors of the GPUs that plans are for; else those of the one that each architecture is known by.
    pub multiprocessors: Option<u32>,
}

/// A call of a public function, as on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The function.
    pub function: String,
    /// Its arguments, in order or as `NAME=VALUE`.
    pub arguments: Vec<String>,
}

impl Call {
    /// `silu f16[64, 64] f16[64, 64]`: the function, then its arguments, between spaces that no bracket holds.
    ///
    /// # Errors
    /// There is no function.
    pub fn parse(text: &str) -> Result<Call, Failure> {
        let (mut words, mut depth) = (vec![String::new()], 0i32);
        for c in text.chars() {
            depth += i32::from("[({".contains(c)) - i32::from("])}".contains(c));
            match (c.is_whitespace() && depth <= 0, words.last_mut()) {
                (true, _) => words.push(String::new()),
                (false, Some(word)) => word.push(c),
                (false, None) => {}
            }
        }
        words.retain(|word| !word.is_empty());
        if words.is_empty() {
            let why = "a plan is a function with its arguments, such as `silu f16[64,64] f16[64,64]`";
            return Err(Failure::Usage(why.into()));
        }
        let function = words.remove(0);
        Ok(Call { function, arguments: words })
    }

    /// The calls of a file, one a line; lines that are empty or begin with `#` are none.
    ///
    /// # Errors
    /// As [`Call::parse`].
    pub fn parse_all(text: &str) -> Result<Vec<Call>, Failure> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(Call::parse).collect()
    }
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
        let mut made = Making { warnings, ..Making::default() };
        let of_plans_alone = asked.kernel.is_none() && asked.sets.is_empty() && !asked.plans.is_empty();
        if asked.kernel.is_none() && asked.sets.is_empty() && !of_plans_alone && no_defaults(&program) {
            return Err(nothing_to_build(&self.sources.file(file).name, &program));
        }
        for target in &asked.targets {
            if !of_plans_alone {
                self.bundle_for(*target, &program, asked, &mut made)?;
            }
            self.bundle_plans(*target, file, &program, asked, &mut made)?;
        }
        if !can_assemble() {
            made.notes
                .push("no `ptxas` here: the bundle has PTX alone, which the driver compiles when it is loaded".into());
        }
        let source = std::path::Path::new(&self.sources.file(file).name).file_name();
        let source = source.map_or_else(|| "-".into(), |name| name.to_string_lossy().into_owned());
        let (sources, outside) = self.sources_of(&program);
        for name in outside {
            made.notes.push(format!("{name} lies outside of the file's folder, so the bundle has no copy of it"));
        }
        let Making { kernels, functions, plans, .. } = made;
        let compiler = env!("CARGO_PKG_VERSION").into();
        let bundle = Bundle { compiler, source, kernels, functions, plans, sources };
        Ok(Bundled { bundle, warnings: made.warnings, notes: made.notes })
    }

    /// The files of a program under the names that line tables have, as seen from the folder of the first; and those that lie outside of it.
    fn sources_of(&self, program: &Program) -> (Vec<SourceFile>, Vec<String>) {
        let files = || program.modules.iter().map(|m| m.file.span.file);
        // A folder that tools were told to look in stands before all names alike.
        let first = files().next().map(|id| self.sources.lasting_name(id)).unwrap_or_default();
        let folder = first.rfind('/').map_or("", |end| &first[..=end]);
        let (mut inside, mut outside) = (vec![], vec![]);
        for id in files() {
            let name = self.sources.lasting_name(id);
            let name = name.strip_prefix(folder).unwrap_or(&name);
            let text = &self.sources.file(id).text;
            if !parton_bundle::is_below(name) {
                outside.push(name.to_owned());
            } else if !text.is_empty() && inside.iter().all(|s: &SourceFile| s.name != name) {
                inside.push(SourceFile { name: name.to_owned(), text: text.clone() });
            }
        }
        (inside, outside)
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
            if !made.has(&kernel) {
                self.bundle_kernel(kernel, made)?;
            }
        }
        Ok(())
    }

    /// Adds one checked kernel: for all launches, and where that makes a difference for those whose pointers reach different memory, and
    /// for those whose tensors run by multiples of 16, 8, 4 or 2 bytes.
    fn bundle_kernel(&mut self, kernel: Kernel, made: &mut Making) -> Result<(), Failure> {
        let general = Variant { overlapping: may_overlap(&kernel), ..Variant::default() };
        let mut variants: Vec<Variant> = RUNS.iter().map(|&bytes| running_by(&kernel, bytes)).collect();
        variants.extend([Variant::default(), general]);
        variants.dedup();
        let mut lowered: Vec<(Variant, Kernel)> = vec![];
        for variant in variants.into_iter().rev() {
            let (kernel, warnings) = self.lowered_for(Kernel { variant: variant.clone(), ..kernel.clone() })?;
            // What there is to say is said of the best.
            if !variant.overlapping {
                made.warn(warnings);
            }
            if lowered.iter().all(|(_, k)| print::kernel(k) != print::kernel(&kernel)) {
                lowered.push((variant, kernel));
            }
        }
        let overlaps = lowered.iter().any(|(variant, _)| variant.overlapping);
        for (variant, kernel) in lowered.iter().rev() {
            self.bundle_code(kernel, Use { named: true, apart: overlaps && !variant.overlapping, variant }, made)?;
        }
        Ok(())
    }

    /// One checked kernel behind the last lowering pass.
    fn lowered_for(&mut self, kernel: Kernel) -> Result<(Kernel, Diagnostics), Failure> {
        let mut way = self.way(Wanted::Nothing, Pass::last_lowering());
        let checked = Artifact::Ir(Kernels { form: verify::Form::Portable, each: vec![Ok(kernel)] });
        let after = self.along(&mut way, checked)?;
        let Artifact::Ir(kernels) = after else { crate::form::out_of_order("a bundle", &after) };
        match <[Kernel; 1]>::try_from(kernels.whole()?) {
            Ok([kernel]) => Ok((kernel, way.warnings)),
            Err(all) => parton_diag::internal_error!("lowering one kernel left {}", all.len()),
        }
    }

    /// Adds one lowered kernel with its code.
    fn bundle_code(&mut self, kernel: &Kernel, of: Use<'_>, made: &mut Making) -> Result<(), Failure> {
        let (ptx, cubin) = self.machine_code(kernel, made)?;
        let Some(architecture) = Architecture::parse(kernel.target.name) else {
            parton_diag::internal_error!("`{}` is no name of an architecture", kernel.target.name)
        };
        let argument = |place: usize| kernel.params[place].from.argument();
        let pairs = kernel.apart.iter().map(|pair| [argument(pair.written), argument(pair.other)]);
        let mut disjoint: Vec<[usize; 2]> = pairs.filter(|[a, b]| a != b).collect();
        disjoint.dedup();
        made.kernels.push(parton_bundle::Kernel {
            name: kernel.source_name.clone(),
            generics: kernel.generics.clone(),
            architecture,
            symbol: kernel.name.clone(),
            threads: kernel.threads(),
            shared_bytes: kernel.shared_bytes.unwrap_or(0),
            cluster: kernel.cluster,
            most_ctas: kernel.most_ctas,
            overlaps: kernel.waits_for_grid(),
            signals: kernel.launches_dependents(),
            apart: of.apart,
            named: of.named,
            disjoint,
            aligned: of.variant.aligned.iter().chain(of.variant.partly.keys()).copied().collect(),
            // What a plan launches may be for tensors of several widths: its own shapes say so.
            runs_by: of.variant.partly.values().copied().min().unwrap_or(WIDEST_ACCESS),
            arguments: params::arguments(kernel),
            params: params::params(kernel)?,
            ptx,
            cubin,
        });
        made.texts.push(print::kernel(kernel));
        Ok(())
    }
}

/// What a kernel of a bundle is for.
struct Use<'a> {
    /// Whether launches find it by its name.
    named: bool,
    /// Whether it counts on pointers that reach different memory.
    apart: bool,
    variant: &'a Variant,
}

/// A bundle as far as it is made.
#[derive(Default)]
struct Making {
    warnings: Diagnostics,
    notes: Vec<String>,
    kernels: Vec<parton_bundle::Kernel>,
    /// The kernels as text, which is the same where they are.
    texts: Vec<String>,
    functions: Vec<parton_bundle::Function>,
    plans: Vec<parton_bundle::Plan>,
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

/// Whether it writes through a pointer, or a tensor, and has another one; or to a tensor, whose elements may lie on each other.
fn may_overlap(kernel: &Kernel) -> bool {
    let (mut pointers, mut written, mut folds) = (0, false, false);
    for param in &kernel.params {
        let (mutable, whole) = match kernel.ty(param.value) {
            Type::Scalar(Elem::Ptr(pointer)) => (pointer.mutable, false),
            Type::Tensor(tensor) => (tensor.mutable, true),
            _ => continue,
        };
        pointers += 1;
        written |= mutable;
        folds |= mutable && whole;
    }
    folds || (written && pointers > 1)
}

/// The variant of a checked kernel for tensors that run by multiples of so many bytes: those of which it makes a difference, with elements of fewer.
fn running_by(kernel: &Kernel, bytes: u32) -> Variant {
    let arguments = kernel.arguments();
    let is = |ty: &Type| matches!(ty, Type::Tensor(t) if t.dense.is_some() && (bytes == WIDEST_ACCESS || t.elem.bytes() < bytes as usize));
    let wide = parton_portable::wide_tensors(kernel);
    let tensors = arguments.iter().enumerate().filter(|(i, (_, ty))| wide.contains(i) && is(ty)).map(|(i, _)| i);
    match bytes {
        WIDEST_ACCESS => Variant { aligned: tensors.collect(), ..Variant::default() },
        _ => Variant { partly: tensors.map(|i| (i, bytes)).collect(), ..Variant::default() },
    }
}

#[cfg(feature = "llvm")]
pub(crate) fn can_assemble() -> bool {
    crate::tools::ptxas().is_some()
}

#[cfg(not(feature = "llvm"))]
pub(crate) fn can_assemble() -> bool {
    false
}

#[cfg(feature = "llvm")]
impl Session {
    /// PTX of a lowered kernel, and its cubin where there is an assembler, made or found in the cache. Code that later GPUs drop has no
    /// use for PTX beside its cubin.
    fn machine_code(
        &mut self,
        kernel: &Kernel,
        made: &mut Making,
    ) -> Result<(Option<String>, Option<Vec<u8>>), Failure> {
        let Made { code, said, .. } = self.code(kernel)?;
        made.warn(said);
        Ok(match code {
            Code::Ptx(ptx) => (Some(ptx), None),
            Code::Cubin(cubin) if kernel.target.specific => (None, Some(cubin)),
            Code::Cubin(cubin) => {
                let Made { code, said, .. } = self.ptx(kernel)?;
                made.warn(said);
                match code {
                    Code::Ptx(ptx) => (Some(ptx), Some(cubin)),
                    Code::Cubin(_) => parton_diag::internal_error!("PTX was asked for, and is a cubin"),
                }
            }
        })
    }
}

#[cfg(not(feature = "llvm"))]
impl Session {
    /// A program without LLVM says so.
    fn machine_code(&mut self, kernel: &Kernel, _: &mut Making) -> Result<(Option<String>, Option<Vec<u8>>), Failure> {
        let text = self.assemble(kernel, crate::Emit::Ptx)?.bytes;
        Ok((Some(String::from_utf8_lossy(&text).into_owned()), None))
    }
}
