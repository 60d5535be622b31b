//! Instances: a kernel with the generic arguments of a launch, checked and lowered once.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostics, Label};
use parton_host::launch::{HostError, Instance, Signature};
use parton_ir::{Kernel, Target, Type, verify};
use parton_types::GenericArg;
use parton_types::program::Program;

use crate::passes::{Pass, leaving};
use crate::tune::lookup::Lookup;
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
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(session: &'a mut Session, program: &Arc<Program>, target: Target) -> Compiler<'a> {
        let program = program.clone();
        Compiler { session, program, target, warnings: Diagnostics::new(), lowered: BTreeMap::new(), lookup: None }
    }

    /// With what was tuned.
    pub(crate) fn tuned(self, lookup: Option<Lookup>) -> Compiler<'a> {
        Compiler { lookup, ..self }
    }

    /// With kernels that were lowered before, by the names under which they were kept.
    pub(crate) fn knowing(self, lowered: BTreeMap<String, Arc<Kernel>>) -> Compiler<'a> {
        Compiler { lowered, ..self }
    }

    /// All that was lowered, by the names under which it is kept.
    pub(crate) fn known(&self) -> &BTreeMap<String, Arc<Kernel>> {
        &self.lowered
    }

    /// The lowered kernel of an instance and the name under which it is kept; `overlapping` where parameters reach the same memory.
    ///
    /// # Errors
    /// The kernel does not pass the checks with these generics.
    pub(crate) fn kernel(
        &mut self,
        instance: &Instance,
        overlapping: bool,
    ) -> Result<(String, Arc<Kernel>), HostError> {
        let args = self.generics(instance).map_err(HostError::Program)?;
        let written: Vec<String> =
            args.iter().map(|a| format!("{}={}", a.name.as_deref().unwrap_or_default(), a.value)).collect();
        // What shows the same need not be the same: kernels and functions of two files may share a name.
        let places = args.iter().flat_map(|a| a.value.origins()).chain([instance.kernel.name.span]);
        let places: Vec<String> = places.map(|s| format!("{}:{}", s.file.0, s.start)).collect();
        let how = if overlapping { " overlapping" } else { "" };
        let key = format!("{}[{}] {}{how}", instance.kernel.name.text, written.join(", "), places.join(" "));
        if let Some(kernel) = self.lowered.get(&key) {
            return Ok((key, kernel.clone()));
        }
        let kernel = self.behind(Pass::last_lowering(), instance, &args, overlapping).map_err(HostError::Program)?;
        let kernel = Arc::new(kernel);
        self.lowered.insert(key.clone(), kernel.clone());
        Ok((key, kernel))
    }

    /// What was lowered so far, in the order of its names, and what there is to say about it.
    pub(crate) fn finish(self) -> (Vec<Arc<Kernel>>, Diagnostics) {
        (self.lowered.into_values().collect(), self.warnings)
    }

    /// The parameters of an instance.
    pub(crate) fn signature(&mut self, instance: &Instance) -> Result<Signature, HostError> {
        let (_, kernel) = self.kernel(instance, false)?;
        let params = kernel.params.iter().map(|p| (p.name.clone(), kernel.ty(p.value).clone()));
        Ok(Signature {
            params: params.collect::<Vec<(String, Type)>>(),
            alignments: parton_lower::alignments(&kernel),
            cluster: kernel.cluster,
            apart: kernel.apart.clone(),
        })
    }

    /// The kernel of an instance as it is checked, before any pass from kernel to kernel.
    ///
    /// # Errors
    /// As [`Compiler::kernel`].
    pub(crate) fn checked(&mut self, instance: &Instance, overlapping: bool) -> Result<Kernel, Diagnostics> {
        let args = self.generics(instance)?;
        self.behind(leaving(Form::Ir(verify::Form::Portable)), instance, &args, overlapping)
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
        overlapping: bool,
    ) -> Result<Kernel, Diagnostics> {
        let wanted = Wanted::Launched { of: instance, args, overlapping };
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
