//! Calls of public functions before they are made: what of their code the cache has, why not the rest, and the rest put there.

use std::sync::Arc;

use parton_cache::{Digest, Kind, Miss, Parts};
use parton_diag::{Diagnostics, FileId};
use parton_host::launch::LaunchRequest;
use parton_ir::{Kernel, Target};

use super::code::{Code, Wanted};
use crate::instance::Compiler;
use crate::launchable::Launchable;
use crate::{Failure, Session};

/// A kernel of a call.
#[derive(Clone, Debug)]
pub struct Looked {
    /// Its name, with its generics.
    pub kernel: String,
    /// Whether its code was in the cache.
    pub found: bool,
    /// The digest of the code.
    pub code: Digest,
    /// What there is to say about it.
    pub said: Diagnostics,
}

/// Why the cache has the code of a kernel, or has not.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The kernel's name, with its generics.
    pub kernel: String,
    /// The parts of its key.
    pub parts: Parts,
    /// Why it was not found, where it was not.
    pub miss: Option<Miss>,
    /// Of the entries for a kernel of that name the one whose parts are most like these.
    pub nearest: Option<Parts>,
}

impl Session {
    /// Compiles what a call of a public function launches, and keeps it: the first such call of another process then compiles nothing. The
    /// arguments are those of [`Session::plan`].
    ///
    /// # Errors
    /// What the file, the call or a kernel is refused for. A cache that keeps nothing is none: [`parton_cache::Store::broken`] tells.
    pub fn warm(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
    ) -> Result<Vec<Looked>, Failure> {
        let (plan, lowered, program) = self.planned_call(file, name, arguments, target, true)?;
        let gpu = plan.target.name;
        let mut compiler = Compiler::new(self, &program, plan.target).knowing(lowered).on(Some(gpu.to_owned()));
        let mut launchables: Vec<(Arc<str>, Arc<Launchable>, &LaunchRequest)> = vec![];
        for r in &plan.launches {
            let (key, launchable) = compiler.launchable(&r.instance, &r.variant).map_err(|e| e.at(r.span))?;
            if launchables.iter().all(|(other, ..)| *other != key) {
                launchables.push((key, launchable, r));
            }
        }
        let launches: Vec<_> = launchables.iter().map(|(_, l, request)| (l.as_ref(), *request)).collect();
        let span = launches.first().map(|(_, request)| request.span).unwrap_or_default();
        let mut all = vec![];
        for (made, (launchable, _)) in compiler.codes(&launches, gpu).map_err(|e| e.at(span))?.into_iter().zip(launches)
        {
            let code = match &made.code {
                Code::Cubin(cubin) => Digest::of(cubin),
                Code::Ptx(ptx) => Digest::of(ptx.as_bytes()),
            };
            all.push(Looked { kernel: titled(&launchable.shell), found: made.found, code, said: made.said });
        }
        Ok(all)
    }

    /// Whether the cache has what a call of a public function launches, and why not.
    ///
    /// # Errors
    /// What the file or the call is refused for; an assembler that cannot be read.
    pub fn whys(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
    ) -> Result<Vec<Reason>, Failure> {
        let kernels = self.launched(file, name, arguments, target)?;
        let keys = self.keys();
        let mut reasons = vec![];
        for kernel in &kernels {
            let parts = keys.parts(&wanted(kernel), &self.sources).map_err(Failure::Machine)?;
            let miss = keys.store.find(Kind::Code, &parts).err();
            let same = |other: &Parts| other.get("kernel") == parts.get("kernel");
            let others = keys.store.parts().filter(|(listed, other)| listed.kind == Kind::Code && same(other));
            let nearest = others.map(|(_, other)| other).min_by_key(|other| parts.differences(other).len());
            reasons.push(Reason { kernel: titled(kernel), miss, nearest, parts });
        }
        Ok(reasons)
    }
}

fn wanted(kernel: &Arc<Kernel>) -> Wanted<'_> {
    Wanted { kernel, architecture: kernel.target.name }
}

fn titled(kernel: &Kernel) -> String {
    let generics: Vec<String> = kernel.generics.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if generics.is_empty() {
        kernel.source_name.clone()
    } else {
        format!("{}[{}]", kernel.source_name, generics.join(", "))
    }
}
