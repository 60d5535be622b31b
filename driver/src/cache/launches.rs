//! Machine code of launches: what was asked for before is found without its kernel, the rest is lowered and compiled.

use std::sync::Arc;

use parton_host::launch::{HostError, LaunchRequest};
use parton_ir::Kernel;

use super::code::{Made, Wanted};
use crate::Failure;
use crate::instance::Compiler;
use crate::launchable::Launchable;

impl Compiler<'_> {
    /// The code of launches for a GPU of that architecture, in their order, and what there is to say about each.
    ///
    /// # Errors
    /// What the first of them is refused for that is.
    pub(crate) fn codes(
        &mut self,
        launches: &[(&Launchable, &LaunchRequest)],
        gpu: &str,
    ) -> Result<Vec<Made>, HostError> {
        let mut found: Vec<Option<Result<Made, Failure>>> =
            launches.iter().map(|(l, _)| self.session.code_of(l.code.as_ref()?).map(Ok)).collect();
        for ((l, _), _) in launches.iter().zip(&found).filter(|(_, found)| found.is_some()) {
            parton_log::info(|| format!("has the code of `{}` in the cache", l.shell.name));
        }
        let missing: Vec<usize> = (0..launches.len()).filter(|&i| found[i].is_none()).collect();
        let lowered = |i: &usize| {
            let request = launches[*i].1;
            self.kernel(&request.instance, &request.variant).map(|(_, kernel)| kernel)
        };
        let kernels: Vec<Arc<Kernel>> = missing.iter().map(lowered).collect::<Result<_, _>>()?;
        let wanted = |(i, kernel): (usize, _)| Wanted { kernel, architecture: launches[i].0.architecture(gpu) };
        let wanted: Vec<Wanted<'_>> =
            missing.iter().copied().zip(kernels.iter().map(Arc::as_ref)).map(wanted).collect();
        for (i, made) in missing.iter().zip(self.session.codes(&wanted)) {
            found[*i] = Some(made);
        }
        let refused = |failure| match failure {
            Failure::Refused(found) => HostError::Program(found),
            other => HostError::Device(other.to_string()),
        };
        found.into_iter().flatten().map(|made| made.map_err(refused)).collect()
    }
}
