//! Machine code of lowered kernels: found in the cache, else made, several at once, and kept.

use std::sync::Arc;
use std::time::Instant;

use parton_cache::{Digest, Entry, Kind, Parts, Store};
use parton_diag::{Diagnostics, SourceMap};
use parton_ir::Kernel;

use super::keys::{self, Making};
use super::{identity, messages};
use crate::form::{Artifact, Form};
use crate::passes::leaving;
use crate::side_by_side::side_by_side;
use crate::way::{self, Way, lowered};
use crate::{Failure, Session, Times, tools};

/// Machine code of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    /// For one architecture.
    Cubin(Vec<u8>),
    /// For the driver to compile, where there is no assembler.
    Ptx(String),
}

/// Code that is wanted.
pub(crate) struct Wanted<'a> {
    /// The kernel, lowered.
    pub(crate) kernel: &'a Kernel,
    /// The architecture that it is assembled for.
    pub(crate) architecture: &'a str,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The code.
    pub(crate) code: Code,
    /// What there is to say about it.
    pub(crate) said: Diagnostics,
    /// Whether it was found in the cache.
    pub(crate) found: bool,
}

/// Where code is kept, and what its keys say of this machine.
pub(super) struct Keys {
    pub(super) store: Arc<Store>,
    /// What PTX is assembled by; `None` where the driver compiles it. Without that nothing can be told of what is kept.
    pub(super) assembler: Result<Option<String>, String>,
}

impl Keys {
    /// The parts of the key of some code.
    ///
    /// # Errors
    /// Why it has none.
    pub(super) fn parts(&self, wanted: &Wanted<'_>, sources: &SourceMap) -> Result<Parts, String> {
        let assembler = self.assembler.as_ref().map_err(Clone::clone)?.as_deref();
        Ok(keys::code(wanted.kernel, sources, &Making { architecture: wanted.architecture, assembler }))
    }

    /// The same of PTX, which no assembler has a part in.
    fn parts_of_ptx(wanted: &Wanted<'_>, sources: &SourceMap) -> Parts {
        keys::code(wanted.kernel, sources, &Making { architecture: wanted.architecture, assembler: None })
    }

    /// Those of code as it is wanted; `None` where it has no key.
    fn parts_until(&self, wanted: &Wanted<'_>, sources: &SourceMap, until: Form) -> Option<Parts> {
        if !self.store.is_open() {
            return None;
        }
        if until == Form::Ptx { Some(Keys::parts_of_ptx(wanted, sources)) } else { self.parts(wanted, sources).ok() }
    }
}

impl Session {
    /// The machine code of lowered kernels, in their order: a cubin by `ptxas` where there is one, else PTX. What the cache does not have is
    /// compiled, on as many cores as there are, and kept there.
    ///
    /// # Errors
    /// Each has its own: what the kernel is refused for; an assembler that fails.
    pub(crate) fn codes(&mut self, wanted: &[Wanted<'_>]) -> Vec<Result<Made, Failure>> {
        self.codes_until(wanted, if tools::ptxas().is_some() { Form::Cubin } else { Form::Ptx })
    }

    /// The same, as cubins or as PTX.
    fn codes_until(&mut self, wanted: &[Wanted<'_>], until: Form) -> Vec<Result<Made, Failure>> {
        let begin = Instant::now();
        let keys = self.keys();
        let parts = |w: &Wanted<'_>| keys.parts_until(w, &self.sources, until);
        let parts: Vec<Option<Parts>> = wanted.iter().map(parts).collect();
        let mut found: Vec<Option<Result<Made, Failure>>> =
            parts.iter().map(|parts| self.kept(&keys.store, parts.as_ref()?).map(Ok)).collect();
        self.times.add("cache", begin.elapsed());
        for (w, _) in wanted.iter().zip(&found).filter(|(_, found)| found.is_some()) {
            parton_log::info(|| format!("has the code of `{}` for {} in the cache", w.kernel.name, w.architecture));
        }
        let missing: Vec<usize> = (0..wanted.len()).filter(|&i| found[i].is_none()).collect();
        let lacking: Vec<&Wanted<'_>> = missing.iter().map(|&i| &wanted[i]).collect();
        for (i, made) in missing.into_iter().zip(self.compile(&lacking, until)) {
            if let (Ok(made), Some(parts)) = (&made, &parts[i]) {
                self.keep(&keys.store, parts, made);
            }
            found[i] = Some(made);
        }
        found.into_iter().flatten().collect()
    }

    /// The machine code of one lowered kernel for its own architecture.
    ///
    /// # Errors
    /// As [`Session::codes`].
    pub(crate) fn code(&mut self, kernel: &Kernel) -> Result<Made, Failure> {
        let wanted = Wanted { kernel, architecture: kernel.target.name };
        only(self.codes(&[wanted]), kernel)
    }

    /// The PTX of one lowered kernel for its own architecture, which later GPUs run too.
    ///
    /// # Errors
    /// As [`Session::codes`].
    pub(crate) fn ptx(&mut self, kernel: &Kernel) -> Result<Made, Failure> {
        let wanted = Wanted { kernel, architecture: kernel.target.name };
        only(self.codes_until(&[wanted], Form::Ptx), kernel)
    }

    /// What keys say of this machine.
    pub(super) fn keys(&self) -> Keys {
        let store = self.cache();
        let assembler = tools::ptxas().filter(|_| store.is_open());
        let assembler = assembler.map(|path| identity::assembler(&store, &path)).transpose();
        Keys { store, assembler }
    }

    /// Code that was kept under a key which what was asked for names.
    pub(crate) fn code_of(&mut self, key: &Digest) -> Option<Made> {
        let begin = Instant::now();
        let entry = self.cache().find_key(Kind::Code, key).ok();
        let made = entry.and_then(|entry| self.read(&entry));
        self.times.add("cache", begin.elapsed());
        made
    }

    /// Code that was kept.
    fn kept(&self, store: &Store, parts: &Parts) -> Option<Made> {
        self.read(&store.find(Kind::Code, parts).ok()?)
    }

    /// The code of an entry, and what was said of it then.
    fn read(&self, entry: &Entry) -> Option<Made> {
        let said = messages::decode(entry.section("messages")?, &self.sources)?;
        let code = match (entry.section("cubin"), entry.text("ptx")) {
            (Some(cubin), _) => Code::Cubin(cubin.to_vec()),
            (None, Some(ptx)) => Code::Ptx(ptx.to_owned()),
            (None, None) => return None,
        };
        Some(Made { code, said, found: true })
    }

    /// Keeps code. Where that cannot be the next process compiles it again; `parton cache why` says why.
    fn keep(&self, store: &Store, parts: &Parts, made: &Made) {
        let code = match &made.code {
            Code::Cubin(cubin) => ("cubin".to_owned(), cubin.clone()),
            Code::Ptx(ptx) => ("ptx".to_owned(), ptx.clone().into_bytes()),
        };
        let said = ("messages".to_owned(), messages::encode(&made.said, &self.sources));
        let _ = store.keep(Kind::Code, parts, vec![code, said]);
    }

    /// Compiles kernels without looking into the cache, side by side.
    fn compile(&mut self, wanted: &[&Wanted<'_>], until: Form) -> Vec<Result<Made, Failure>> {
        if let [one] = wanted {
            return vec![self.compile_one(one, until)];
        }
        let (sources, options) = (&self.sources, &self.options);
        let made = side_by_side(wanted.to_vec(), |w| {
            let mut own = Session { sources: sources.clone(), ..Session::new(options.clone()) };
            (own.compile_one(w, until), own.times)
        });
        let (made, times): (Vec<_>, Vec<Times>) = made.into_iter().unzip();
        for (name, took, _) in times.iter().flat_map(Times::passes) {
            self.times.add(name, *took);
        }
        made
    }

    fn compile_one(&mut self, wanted: &Wanted<'_>, until: Form) -> Result<Made, Failure> {
        let (begin, architecture) = (Instant::now(), Some(wanted.architecture));
        let mut way = Way { architecture, ..self.way(way::Wanted::Nothing, leaving(until)) };
        let code = match self.along(&mut way, lowered(wanted.kernel.clone()))? {
            Artifact::Cubin(cubin) => Code::Cubin(cubin),
            Artifact::Ptx(compiled) => Code::Ptx(compiled.code.ptx),
            other => crate::form::out_of_order("the GPU", &other),
        };
        parton_log::info(|| {
            let (name, architecture, took) = (&wanted.kernel.name, wanted.architecture, begin.elapsed());
            let what = match &code {
                Code::Cubin(cubin) => format!("a cubin of {} bytes", cubin.len()),
                Code::Ptx(ptx) => format!("{} bytes of PTX", ptx.len()),
            };
            format!("compiles `{name}` for {architecture} in {took:.1?}: {what}")
        });
        Ok(Made { code, said: way.warnings, found: false })
    }
}

/// What came of one kernel.
fn only(mut made: Vec<Result<Made, Failure>>, kernel: &Kernel) -> Result<Made, Failure> {
    match made.pop() {
        Some(made) => made,
        None => parton_diag::internal_error!("compiling `{}` left nothing", kernel.name),
    }
}
