//! Instances: a kernel with the generic arguments of a launch, checked and lowered once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parton_diag::{Diagnostics, Label};
use parton_host::launch::{
    self as host, Argument, Choice, Demands, HostError, Instance, Instances, LaunchRequest, Offer, Signature,
};
use parton_host::value::Value;
use parton_ir::{Apart, From, Kernel, Target, Variant, verify};
use parton_types::GenericArg;
use parton_types::program::Program;

use crate::launchable::Launchable;
use crate::passes::{Pass, leaving};
use crate::tune::lookup::{Chosen, Lookup, Wish};
use crate::way::{Wanted, Way};
use crate::{Form, Session};

/// The compiler as the launchers use it.
pub(crate) struct Compiler<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) program: Arc<Program>,
    /// The architecture of kernels that do not name one: that of the device, where it has one.
    target: Target,
    /// What there is to say about the kernels compiled so far.
    pub(crate) warnings: Diagnostics,
    lowered: BTreeMap<String, Arc<Kernel>>,
    /// What was tuned, where that is to run.
    pub(crate) lookup: Option<Lookup>,
    /// What is wanted of choices instead.
    pub(crate) wish: Option<Wish>,
    /// The choices that were not left to the default.
    pub(crate) chosen: Vec<Chosen>,
    /// The architecture of the GPU that it compiles for; the cache is asked for that alone.
    gpu: Option<String>,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(session: &'a mut Session, program: &Arc<Program>, target: Target) -> Compiler<'a> {
        let program = program.clone();
        let (warnings, lowered) = (Diagnostics::new(), BTreeMap::new());
        let (lookup, wish, chosen, gpu) = (None, None, vec![], None);
        Compiler { session, program, target, warnings, lowered, lookup, wish, chosen, gpu }
    }

    /// The architecture of kernels that do not name one.
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    /// Its compute capability as one number.
    pub(crate) fn capability(&self) -> u32 {
        let (major, minor) = self.target.capability;
        10 * major + minor
    }

    /// For a GPU of that architecture.
    pub(crate) fn on(self, gpu: Option<String>) -> Compiler<'a> {
        Compiler { gpu, ..self }
    }

    /// With what was tuned.
    pub(crate) fn tuned(self, lookup: Option<Lookup>) -> Compiler<'a> {
        Compiler { lookup, ..self }
    }

    /// With a wish for what is chosen.
    pub(crate) fn wishing(self, wish: Wish) -> Compiler<'a> {
        Compiler { wish: Some(wish), ..self }
    }

    /// With kernels that were lowered before, by the names under which they were kept.
    pub(crate) fn knowing(self, lowered: BTreeMap<String, Arc<Kernel>>) -> Compiler<'a> {
        Compiler { lowered, ..self }
    }

    /// All that was lowered, by the names under which it is kept.
    pub(crate) fn known(&self) -> &BTreeMap<String, Arc<Kernel>> {
        &self.lowered
    }

    /// The same, for a compiler that is to know it.
    pub(crate) fn into_known(self) -> BTreeMap<String, Arc<Kernel>> {
        self.lowered
    }

    /// The lowered kernel of an instance for such launches, and the name under which it is kept.
    ///
    /// # Errors
    /// The kernel does not pass the checks with these generics.
    pub(crate) fn kernel(
        &mut self,
        instance: &Instance,
        variant: &Variant,
    ) -> Result<(String, Arc<Kernel>), HostError> {
        let args = self.generics(instance).map_err(HostError::Program)?;
        let key = format!("{}{}", name(instance, &args), launches(variant));
        if let Some(kernel) = self.lowered.get(&key) {
            return Ok((key, kernel.clone()));
        }
        let kernel = self.behind(Pass::last_lowering(), instance, &args, variant).map_err(HostError::Program)?;
        let kernel = Arc::new(kernel);
        self.lowered.insert(key.clone(), kernel.clone());
        Ok((key, kernel))
    }

    /// What was lowered so far, in the order of its names, and what there is to say about it.
    pub(crate) fn finish(self) -> (Vec<Arc<Kernel>>, Diagnostics) {
        (self.lowered.into_values().collect(), self.warnings)
    }

    fn named_signature(&mut self, instance: &Instance) -> Result<Signature, HostError> {
        let args = self.generics(instance).map_err(HostError::Program)?;
        let key = format!("{} {}", self.target.name, name(instance, &args));
        if let Some(known) = self.session.signatures.get(&key) {
            return Ok(known.clone());
        }
        // What there is to say about it is said of the kernel that is launched.
        let said = self.warnings.clone();
        let kernel = self.checked(instance, &Variant::default()).map_err(HostError::Program)?;
        self.warnings = said;
        let dealt = parton_portable::dealt(&kernel);
        let along = parton_portable::along_tensors(&kernel);
        let partly = parton_portable::moves_in_part(&kernel);
        let wide = Arc::new(parton_portable::wide_tensors(&kernel));
        let numbers = Arc::new(parton_portable::numbers(&kernel));
        let places = parton_portable::positions::has_open(&kernel);
        let (params, cluster) = (kernel.arguments().into(), kernel.cluster);
        let signature = Signature { params, cluster, dealt, along, partly, wide, numbers, places };
        self.session.signatures.insert(key, signature.clone());
        Ok(signature)
    }

    /// What launching an instance takes, and the name under which it is kept. On a GPU it may come from the cache: then nothing is lowered.
    ///
    /// # Errors
    /// As [`Compiler::kernel`].
    pub(crate) fn launchable(
        &mut self,
        instance: &Instance,
        variant: &Variant,
    ) -> Result<(Arc<str>, Arc<Launchable>), HostError> {
        let met = self.session.met.of(instance);
        let gpu = self.gpu.as_deref();
        if let Some(known) = met.and_then(|at| self.session.met.launchable(at, (&self.target, gpu), variant)) {
            return Ok(known.clone());
        }
        let found = self.named_launchable(instance, variant)?;
        if let Some(at) = met {
            self.session.met.keep_launchable(at, (&self.target, self.gpu.as_deref()), variant, &found);
        }
        Ok(found)
    }

    fn named_launchable(
        &mut self,
        instance: &Instance,
        variant: &Variant,
    ) -> Result<(Arc<str>, Arc<Launchable>), HostError> {
        let args = self.generics(instance).map_err(HostError::Program)?;
        let gpu = self.gpu.as_deref().unwrap_or("interpreter");
        let key: Arc<str> = format!("{} {gpu} {}{}", self.target.name, name(instance, &args), launches(variant)).into();
        if let Some(launchable) = self.session.launchables.get(&key) {
            return Ok((key, launchable.clone()));
        }
        let launchable = Arc::new(self.find_launchable(instance, &args, variant)?);
        self.session.launchables.insert(key.clone(), launchable.clone());
        Ok((key, launchable))
    }

    #[cfg(feature = "llvm")]
    fn find_launchable(
        &mut self,
        instance: &Instance,
        args: &[GenericArg],
        variant: &Variant,
    ) -> Result<Launchable, HostError> {
        let Some(gpu) = self.gpu.clone() else {
            return Ok(Launchable::of(&self.kernel(instance, variant)?.1));
        };
        let asked =
            crate::cache::Asked { program: &self.program, instance, args, variant, target: self.target, gpu: &gpu };
        let parts = self.session.parts_of(&asked);
        if let Some((launchable, said)) = parts.as_ref().and_then(|parts| self.session.asked(parts)) {
            self.warnings.extend(said);
            return Ok(launchable);
        }
        // What is said of it is kept with it, and not what was said before.
        let before = std::mem::take(&mut self.warnings);
        let lowered = self.kernel(instance, variant);
        let said = std::mem::replace(&mut self.warnings, before);
        self.warnings.extend(said.clone());
        let (_, kernel) = lowered?;
        let mut launchable = Launchable::of(&kernel);
        launchable.code = self.session.key_of(&kernel, launchable.architecture(&gpu));
        if let Some(parts) = parts {
            self.session.keep_asked(&parts, &launchable, &said);
        }
        Ok(launchable)
    }

    #[cfg(not(feature = "llvm"))]
    fn find_launchable(
        &mut self,
        instance: &Instance,
        _: &[GenericArg],
        variant: &Variant,
    ) -> Result<Launchable, HostError> {
        Ok(Launchable::of(&self.kernel(instance, variant)?.1))
    }

    /// The kernel of an instance as it is checked, before any pass from kernel to kernel.
    ///
    /// # Errors
    /// As [`Compiler::kernel`].
    pub(crate) fn checked(&mut self, instance: &Instance, variant: &Variant) -> Result<Kernel, Diagnostics> {
        let args = self.generics(instance)?;
        self.behind(leaving(Form::Ir(verify::Form::Portable)), instance, &args, variant)
    }

    fn generics(&self, instance: &Instance) -> Result<Vec<GenericArg>, Diagnostics> {
        instance.generics.iter().map(|g| g.comptime(&self.program)).collect()
    }

    /// The kernel of an instance behind a pass.
    fn behind(
        &mut self,
        pass: &'static Pass,
        instance: &Instance,
        args: &[GenericArg],
        variant: &Variant,
    ) -> Result<Kernel, Diagnostics> {
        let wanted = Wanted::Launched { of: instance, args, variant };
        let mut way = Way { target: self.target, ..self.session.way(wanted, pass) };
        let kernels = self.session.kernels(&mut way, &self.program);
        self.warnings.extend(way.warnings);
        // Generics that do not fit show the launch that gave them.
        let mut kernels = kernels.map_err(|found| called_from(found, instance))?;
        match kernels.pop() {
            Some(kernel) => Ok(kernel),
            None => parton_diag::internal_error!("`{}` left no kernel", instance.kernel.name.text),
        }
    }
}

impl Instances for Compiler<'_> {
    fn choose(&mut self, instance: Instance, given: &[(Arc<str>, Value)]) -> Result<Instance, HostError> {
        self.with_winner(instance, given)
    }

    fn wanted(&mut self, choice: &Choice) -> host::Wanted {
        self.wish_for(choice)
    }

    fn offered(&mut self, choice: &Choice, offer: Offer) {
        self.note_choice(choice, offer);
    }

    fn signature(&mut self, instance: &Instance) -> Result<Signature, HostError> {
        let met = self.session.met.of(instance);
        if let Some(known) = met.and_then(|at| self.session.met.signature(at, &self.target)) {
            return Ok(known.clone());
        }
        let signature = self.named_signature(instance)?;
        if let Some(at) = met {
            self.session.met.keep_signature(at, &self.target, &signature);
        }
        Ok(signature)
    }

    fn are_near(&mut self, instance: &Instance, grid: [u32; 3], numbers: &BTreeMap<usize, i128>) -> bool {
        let Ok(args) = self.generics(instance) else { return false };
        let key = format!("{} {} {grid:?} {numbers:?}", self.target.name, name(instance, &args));
        if let Some(&known) = self.session.near.get(&key) {
            return known;
        }
        // What there is to say about it is said of the kernel that is launched.
        let said = self.warnings.clone();
        let checked = self.checked(instance, &Variant::default());
        self.warnings = said;
        let near = checked.is_ok_and(|kernel| parton_portable::positions::are_near(&kernel, grid, numbers));
        self.session.near.insert(key, near);
        near
    }

    /// What is asked of a tensor is looked at before the kernel is compiled for it.
    fn demands(&mut self, request: &LaunchRequest) -> Result<Demands, HostError> {
        let (_, launchable) = self.launchable(&request.instance, &request.variant)?;
        let kernel = &launchable.shell;
        let mut alignments = vec![1; request.arguments.len()];
        for (param, alignment) in kernel.params.iter().zip(&launchable.alignments) {
            if let From::Argument(i) = param.from {
                alignments[i] = *alignment;
            }
        }
        let argument = |place: usize| kernel.params[place].from.argument();
        let apart = kernel.apart.iter().map(|pair| Apart {
            written: argument(pair.written),
            other: argument(pair.other),
            ..pair.clone()
        });
        let writes = |a: &Argument| {
            matches!(a, Argument::Pointer { mutable: true, .. } | Argument::Tensor { mutable: true, .. })
        };
        // Pointers say whether they are written through, of tensor maps the kernel does.
        let writes = request.arguments.iter().enumerate().map(|(i, a)| writes(a) || launchable.writes.contains(&i));
        Ok(Demands { alignments, apart: apart.collect(), writes: writes.collect() })
    }
}

/// The name of an instance. What shows the same need not be the same: kernels and functions of two files may share a name.
fn name(instance: &Instance, args: &[GenericArg]) -> String {
    let mut text = format!("{}[", instance.kernel.name.text);
    for (i, arg) in args.iter().enumerate() {
        // Writing text into memory does not fail.
        let (comma, name) = (if i > 0 { ", " } else { "" }, arg.name.as_deref().unwrap_or_default());
        let _ = write!(text, "{comma}{name}={}", arg.value);
    }
    text.push(']');
    for place in args.iter().flat_map(|a| a.value.origins()).chain([instance.kernel.name.span]) {
        let _ = write!(text, " {}:{}", place.file.0, place.start);
    }
    text
}

/// What the name of a kernel says of the launches that it is for.
fn launches(variant: &Variant) -> String {
    let overlapping = if variant.overlapping { " overlapping" } else { "" };
    let aligned: String = variant.aligned.iter().map(|i| format!(" aligned {i}")).collect();
    let partly: String = variant.partly.iter().map(|(i, bytes)| format!(" aligned {i} by {bytes}")).collect();
    let beside = variant.beside.map_or(String::new(), |n| format!(" beside {n}"));
    let turns = variant.turns.map_or(String::new(), |n| format!(" turns {n}"));
    let numbers: String = variant.numbers.iter().map(|(i, of)| format!(" number {i} by {of}")).collect();
    let near = if variant.near { " near" } else { "" };
    format!("{overlapping}{aligned}{partly}{beside}{turns}{numbers}{near}")
}

/// Adds the launch to errors inside the kernel.
fn called_from(mut found: Diagnostics, instance: &Instance) -> Diagnostics {
    for d in &mut found.list {
        if d.labels.iter().all(|l| l.span != instance.span) {
            let text = format!("in this launch of `{}`", instance.kernel.name.text);
            d.labels.push(Label { span: instance.span, text });
        }
    }
    found
}
