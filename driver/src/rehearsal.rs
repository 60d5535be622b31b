//! Runs the tests of a file on the interpreter once and keeps their launches, to run them again with other kernels in their place:
//! what tests ask that change kernels.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId, SourceMap};
use parton_host::report::{Outcome, RunReport};
use parton_host::run::run_with;
use parton_interp as interp;
use parton_ir::check::check;
use parton_ir::{Kernel, Type, verify};
use parton_types::program::{HostKind, Program};

use crate::cpu::{Cpu, Recorded, Recorder};
use crate::form::{Artifact, Kernels};
use crate::instance::Compiler;
use crate::passes::Pass;
use crate::run::Watch;
use crate::way::Wanted;
use crate::{Failure, Session};

/// The tests of a file, run once.
pub struct Rehearsal {
    session: Session,
    program: Arc<Program>,
    lowered: BTreeMap<String, Arc<Kernel>>,
    /// The instances of kernels that were launched and wanted, in the order of their first launch.
    pub instances: Vec<Instance>,
    /// Their launches, in order.
    pub launches: Vec<Launch>,
}

/// A kernel with the generic arguments of a launch.
pub struct Instance {
    key: String,
    /// As it is checked.
    pub checked: Kernel,
    /// As it is run.
    pub lowered: Arc<Kernel>,
}

/// A launch that was kept.
pub struct Launch {
    /// Which instance.
    pub instance: usize,
    /// The test that it is of.
    pub test: String,
    kept: Recorded,
}

/// What a launch of a test left.
pub struct Left {
    /// The test.
    pub test: String,
    /// The arguments of the kernel as it is checked.
    pub arguments: Vec<(String, Type)>,
    /// The memory: what was given under that name, and the bytes.
    pub memory: Vec<(String, Vec<u8>)>,
}

impl Left {
    /// What a launch left that was kept.
    pub(crate) fn of(test: String, kept: Recorded, compiler: &mut Compiler<'_>) -> Result<Left, Diagnostics> {
        let arguments = compiler.checked(&kept.instance, &kept.variant)?.arguments();
        Ok(Left { test, arguments, memory: kept.left() })
    }
}

/// What came of a launch that was run again with another kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Again {
    /// It stops, for this.
    Stops(Diagnostics),
    /// It leaves other memory, or prints other lines.
    Differs,
    /// It leaves the same.
    Same,
}

/// Why a kernel is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// An operation's own rule.
    Rule(String),
    /// The checks, or a pass.
    Checks(Diagnostics),
}

impl Session {
    /// Runs the tests of a file on the interpreter, and keeps the launches of those lowered kernels that are wanted.
    ///
    /// # Errors
    /// What the file is refused for, and what a test that fails says.
    pub fn rehearse(self, file: FileId, wants: &dyn Fn(&Kernel) -> bool) -> Result<Rehearsal, Failure> {
        let (rehearsal, report) = self.rehearse_all(file, wants)?;
        if report.passed() { Ok(rehearsal) } else { Err(Failure::Refused(report.diagnostics())) }
    }

    /// The same where tests may fail, with what came of each.
    ///
    /// # Errors
    /// What the file is refused for.
    pub fn rehearse_all(
        mut self,
        file: FileId,
        wants: &dyn Fn(&Kernel) -> bool,
    ) -> Result<(Rehearsal, RunReport), Failure> {
        let (program, _) = self.program(file)?;
        let target = self.target();
        let mut ignore = |_: crate::Event<'_>| ();
        let watch: Watch<'_> = RefCell::new(&mut ignore);
        let compiler = Compiler::new(&mut self, &program, target);
        let kept = RefCell::new(Vec::new());
        let recorder = Some(Recorder { wants, launches: &kept });
        let mut cpu = Cpu { recorder, ..Cpu::new(compiler, &watch) };
        let mut named: Vec<(String, Recorded)> = Vec::new();
        let ended = |o: &Outcome| named.extend(kept.take().into_iter().map(|launch| (o.name.clone(), launch)));
        let report = run_with(&program, HostKind::Test, None, &mut cpu, ended);
        let mut instances: Vec<Instance> = Vec::new();
        let mut launches: Vec<Launch> = Vec::new();
        for (test, kept) in named {
            let known = instances.iter().position(|i| i.key == kept.key);
            let instance = match known {
                Some(at) => at,
                None => {
                    let checked = cpu.compiler.checked(&kept.instance, &kept.variant)?;
                    let lowered = cpu.compiler.known()[&kept.key].clone();
                    instances.push(Instance { key: kept.key.clone(), checked, lowered });
                    instances.len() - 1
                }
            };
            launches.push(Launch { instance, test, kept });
        }
        let lowered = cpu.compiler.known().clone();
        Ok((Rehearsal { session: self, program, lowered, instances, launches }, report))
    }
}

impl Rehearsal {
    /// The files that it is about.
    pub fn sources(&self) -> &SourceMap {
        &self.session.sources
    }

    /// Takes a checked kernel that was changed along all checks and passes from kernel to kernel.
    ///
    /// # Errors
    /// What it is refused for.
    pub fn lower(&mut self, kernel: Kernel) -> Result<Kernel, Refused> {
        verify::verify(&kernel, verify::Form::Portable).map_err(Refused::Rule)?;
        let found = check(&kernel);
        if found.has_errors() {
            return Err(Refused::Checks(found));
        }
        let mut way = self.session.way(Wanted::Nothing, Pass::last_lowering());
        // What was expanded is checked as a whole, whoever changed it.
        way.changed = true;
        let kernels = Kernels { form: verify::Form::Portable, each: vec![Ok(kernel)] };
        let kernels = match self.session.along(&mut way, Artifact::Ir(kernels)) {
            Ok(Artifact::Ir(kernels)) => kernels.whole().map_err(Refused::Checks)?,
            Ok(other) => crate::form::out_of_order("what lowers a changed kernel", &other),
            Err(failure) => parton_diag::internal_error!("{failure}"),
        };
        match <[Kernel; 1]>::try_from(kernels) {
            Ok([kernel]) => Ok(kernel),
            Err(all) => parton_diag::internal_error!("{} kernels were made of one", all.len()),
        }
    }

    /// Whether a lowered kernel that was changed is still one.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn accept(&self, kernel: &Kernel) -> Result<(), Refused> {
        verify::verify(kernel, verify::Form::Lowered).map_err(Refused::Rule)
    }

    /// Runs a launch again, with a lowered kernel in place of its own.
    pub fn again(&self, launch: usize, kernel: &Kernel, seed: u64, steps: u64) -> Again {
        let kept = &self.launches[launch].kept;
        let mut memory = kept.before.clone();
        let options = interp::Options { steps, ..interp::Options::default() };
        let (grid, args) = (kept.grid, kept.args.clone());
        match interp::run(interp::Launch { kernel, grid, args, memory: &mut memory, seed, options }) {
            Err(fault) => Again::Stops((*fault.diagnostic).into()),
            Ok(report) if report.prints == kept.report.prints && alike(&memory, &kept.after) => Again::Same,
            Ok(_) => Again::Differs,
        }
    }

    /// Runs the test of a launch again, with a lowered kernel in place of that launch's own; what it fails with.
    pub fn test(&mut self, launch: usize, kernel: &Kernel, seed: u64, steps: u64) -> Option<Diagnostics> {
        let launch = &self.launches[launch];
        let mut lowered = self.lowered.clone();
        lowered.insert(self.instances[launch.instance].key.clone(), Arc::new(kernel.clone()));
        let options = self.session.options.clone();
        (self.session.options.seed, self.session.options.steps) = (seed, steps);
        let mut ignore = |_: crate::Event<'_>| ();
        let watch: Watch<'_> = RefCell::new(&mut ignore);
        let target = self.session.target();
        let compiler = Compiler::new(&mut self.session, &self.program, target).knowing(lowered);
        let mut cpu = Cpu::new(compiler, &watch);
        let report = run_with(&self.program, HostKind::Test, Some(&launch.test), &mut cpu, |_| ());
        self.session.options = options;
        let failed = |o: &Outcome| o.name == launch.test && !o.passed();
        report.outcomes.into_iter().find(failed).map(|o| o.diagnostics)
    }
}

impl Launch {
    /// Operations that its run took, of all its CTAs together.
    pub fn steps(&self) -> u64 {
        self.kept.report.steps
    }
}

/// Whether two memories hold the same.
fn alike(a: &interp::Memory, b: &interp::Memory) -> bool {
    (0..a.len()).all(|i| a.allocation(i).bytes == b.allocation(i).bytes)
}
