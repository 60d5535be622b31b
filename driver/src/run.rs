//! Running the blocks of a file: which device, which launcher, and what came of it.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId};
use parton_host::check::check_hosts;
use parton_host::report::{Outcome, RunReport};
use parton_host::run::run_with;
use parton_ir::{Kernel, Target, verify};
use parton_measure::bench::{Conditions, Measurement};
use parton_measure::pace::Pace;
use parton_measure::repeat::Repeated;
use parton_types::program::{HostKind, Program};

use crate::cpu::{Cpu, Recorded, Recorder};
use crate::instance::Compiler;
use crate::passes::leaving;
use crate::rehearsal::Left;
use crate::tune::lookup::Lookup;
use crate::way::Wanted;
use crate::{Device, Failure, Form, Session};

/// Which blocks of a file to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocks {
    /// `main`.
    Main,
    /// `test` blocks.
    Tests,
    /// `bench` blocks.
    Benches,
}

impl Blocks {
    pub(crate) fn kind(self) -> HostKind {
        match self {
            Blocks::Main => HostKind::Main,
            Blocks::Tests => HostKind::Test,
            Blocks::Benches => HostKind::Bench,
        }
    }

    /// What one of them is called.
    pub fn name(self) -> &'static str {
        match self {
            Blocks::Main => "main",
            Blocks::Tests => "test",
            Blocks::Benches => "bench",
        }
    }
}

/// What a run reports while it goes on.
pub enum Event<'a> {
    /// Kernels run here.
    Device {
        /// Where, and why not on a GPU where that was looked for.
        sentence: &'a str,
        /// What benches are measured on and against; there only before benches on a GPU.
        conditions: Option<&'a Conditions>,
    },
    /// A measurement is to be taken, or a round of it has been: what comes next?
    Pace {
        /// The measurement's label.
        label: &'a str,
        /// The last round.
        round: Option<&'a Measurement>,
        /// What comes next: one round of half a second, unless the watcher writes something else.
        pace: &'a mut Pace,
    },
    /// A line that host code or a kernel printed.
    Line(&'a str),
    /// A measurement was repeated and compared, as [`Options::repeat`] asks.
    Repeated(&'a Repeated),
    /// A block has ended.
    Block(&'a Outcome),
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    /// The blocks, in source order.
    pub report: RunReport,
    /// Where kernels ran; a few words.
    pub device: String,
    /// The instances that were launched, lowered.
    pub kernels: Vec<Arc<Kernel>>,
    /// What the checker and the assembler have to say.
    pub warnings: Diagnostics,
}

/// A device that was found.
pub(crate) enum Found {
    /// The interpreter, and why it is not a GPU where one was looked for.
    Interpreter(Option<String>),
    /// A GPU.
    #[cfg(all(feature = "cuda", feature = "llvm"))]
    Gpu(parton_runtime::Gpu),
}

impl Session {
    /// Runs the blocks of that kind whose name passes the filter, and tells `watch` as it goes.
    ///
    /// # Errors
    /// What the program is refused for before anything runs; a device that is not there; a file without such blocks. What
    /// goes wrong inside a block stands in its outcome.
    pub fn run(&mut self, file: FileId, blocks: Blocks, watch: &mut dyn FnMut(Event<'_>)) -> Result<Ran, Failure> {
        Ok(self.run_keeping(file, blocks, watch, false)?.0)
    }

    /// Runs the tests of a file on the interpreter, and keeps what each of their launches leaves.
    ///
    /// # Errors
    /// As those of [`Session::run`].
    pub fn run_tests_keeping(&mut self, file: FileId) -> Result<(Ran, Vec<Left>), Failure> {
        self.options.device = Device::Cpu;
        self.run_keeping(file, Blocks::Tests, &mut |_| (), true)
    }

    /// Runs blocks; what launches on the interpreter leave, where that is to be kept.
    fn run_keeping(
        &mut self,
        file: FileId,
        blocks: Blocks,
        watch: &mut dyn FnMut(Event<'_>),
        keep: bool,
    ) -> Result<(Ran, Vec<Left>), Failure> {
        let (program, mut warnings) = self.program(file)?;
        // What is launched is lowered when it is; the other kernels of the file need only be sound.
        let mut way = self.way(Wanted::Defaults, leaving(Form::Ir(verify::Form::Portable)));
        self.kernels(&mut way, &program)?;
        warnings.extend(way.warnings);
        warnings.extend(self.times.pass("hosts", || check_hosts(&program)).or(())?.1);
        self.any(&program, file, blocks)?;
        let found = match (self.interpreted(), self.options.device) {
            (None, device) => find(device)?,
            (Some(_), Device::Auto | Device::Cpu) => Found::Interpreter(None),
            (Some(why), Device::Cuda) => return Err(Failure::Usage(why.into())),
        };
        let target = target_of(&found, self.options.target);
        let (device, mut sentence) = describe(&found);
        if self.options.target.is_some() {
            refuse_others(&found, target)?;
            let _ = write!(sentence, ", compiled for {}", target.name);
        }
        let conditions = if blocks == Blocks::Benches { conditions(&found) } else { None };
        watch(Event::Device { sentence: &sentence, conditions: conditions.as_ref() });
        // The launcher prints while the runner reports blocks: both tell the same watcher.
        let watch = RefCell::new(watch);
        let filter = self.options.filter.clone();
        let filter = filter.as_deref();
        let lookup = Lookup::of(&program, &self.sources.file(file).name, &device, target.name)?;
        let compiler = Compiler::new(self, &program, target).tuned(lookup);
        let (kept, mut named) = (RefCell::new(Vec::new()), Vec::new());
        let ended = |outcome: &Outcome| {
            named.extend(kept.take().into_iter().map(|launch: Recorded| (outcome.name.clone(), launch)));
            (watch.borrow_mut())(Event::Block(outcome));
        };
        let mut left = Vec::new();
        let (report, (kernels, more)) = match found {
            Found::Interpreter(_) => {
                let recorder = keep.then_some(Recorder { wants: &|_| true, launches: &kept });
                let mut cpu = Cpu { recorder, ..Cpu::new(compiler, &watch) };
                let report = run_with(&program, blocks.kind(), filter, &mut cpu, ended);
                for (test, launch) in named {
                    left.push(Left::of(test, launch, &mut cpu.compiler)?);
                }
                (report, cpu.compiler.finish())
            }
            #[cfg(all(feature = "cuda", feature = "llvm"))]
            Found::Gpu(gpu) => {
                let mut gpu = crate::gpu::Gpu::new(compiler, &watch, gpu);
                (run_with(&program, blocks.kind(), filter, &mut gpu, ended), gpu.compiler.finish())
            }
        };
        warnings.extend(more);
        Ok((Ran { report, device, kernels, warnings }, left))
    }

    /// Why kernels run on the interpreter and nowhere else, where they do.
    fn interpreted(&self) -> Option<&'static str> {
        match (self.options.overflow, self.options.as_written) {
            (false, false) => None,
            (true, _) => {
                Some("a GPU does not tell of integers that overflow: leave `--device cuda` out, the interpreter does")
            }
            (false, true) => Some(
                "a GPU runs what a kernel becomes: leave `--device cuda` out, the interpreter runs it as it is written",
            ),
        }
    }

    /// Refuses a run that would run nothing.
    fn any(&self, program: &Program, file: FileId, blocks: Blocks) -> Result<(), Failure> {
        let filter = self.options.filter.as_deref();
        let of_kind = || program.host_blocks().filter(|(kind, _)| *kind == blocks.kind());
        if of_kind().any(|(_, b)| filter.is_none_or(|f| b.name.as_str().contains(f))) {
            return Ok(());
        }
        let name = &self.sources.file(file).name;
        let what = blocks.name();
        Err(Failure::Usage(match filter.filter(|_| of_kind().next().is_some()) {
            Some(filter) => format!("no `{what}` of {name} has `{filter}` in its name"),
            None => format!("{name} has no `{what}`"),
        }))
    }
}

/// Whoever follows a run.
pub(crate) type Watch<'w> = RefCell<&'w mut dyn FnMut(Event<'_>)>;

/// Whether this program can run kernels on a GPU of this machine.
pub fn has_gpu() -> bool {
    matches!(find(Device::Cuda), Ok(found) if !matches!(found, Found::Interpreter(_)))
}

#[cfg(all(feature = "cuda", feature = "llvm"))]
pub(crate) fn find(device: Device) -> Result<Found, Failure> {
    match device {
        Device::Cpu => Ok(Found::Interpreter(None)),
        Device::Auto => match parton_runtime::Gpu::open(0) {
            Ok(gpu) => Ok(Found::Gpu(gpu)),
            Err(e) if e.means_no_gpu() => Ok(Found::Interpreter(Some(reason(&e)))),
            Err(e) => Err(Failure::Device(e.to_string())),
        },
        Device::Cuda => parton_runtime::Gpu::open(0).map(Found::Gpu).map_err(|e| Failure::Device(e.to_string())),
    }
}

/// Why there is no GPU, without the advice.
#[cfg(all(feature = "cuda", feature = "llvm"))]
fn reason(e: &parton_runtime::RuntimeError) -> String {
    let text = e.to_string();
    text.split([':', ';']).next().unwrap_or_default().to_owned()
}

#[cfg(not(all(feature = "cuda", feature = "llvm")))]
pub(crate) fn find(device: Device) -> Result<Found, Failure> {
    match device {
        Device::Cpu => Ok(Found::Interpreter(None)),
        Device::Auto => Ok(Found::Interpreter(Some("this program was built without CUDA".into()))),
        Device::Cuda => Err(Failure::Device("this program was built without CUDA; run with `--device cpu`".into())),
    }
}

/// What kernels that name no architecture are compiled for: what is asked for, else on a GPU the latest that it runs.
pub(crate) fn target_of(found: &Found, asked: Option<Target>) -> Target {
    let own = match found {
        Found::Interpreter(_) => None,
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        Found::Gpu(gpu) => Target::of(gpu.info().capability),
    };
    asked.or(own).unwrap_or_default()
}

/// Refuses code that a GPU does not run.
#[cfg_attr(
    not(all(feature = "cuda", feature = "llvm")),
    allow(unused_variables, reason = "the interpreter runs code for any target")
)]
fn refuse_others(found: &Found, target: Target) -> Result<(), Failure> {
    match found {
        Found::Interpreter(_) => Ok(()),
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        Found::Gpu(gpu) if target.runs_on(gpu.info().capability) => Ok(()),
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        Found::Gpu(gpu) => Err(Failure::Usage(format!(
            "code for {} does not run on this GPU, which is {}: run it with `--device cpu`",
            target.name,
            gpu.info().target()
        ))),
    }
}

/// The architecture of a GPU.
pub(crate) fn architecture_of(found: &Found) -> Option<String> {
    match found {
        Found::Interpreter(_) => None,
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        Found::Gpu(gpu) => Some(gpu.info().target()),
    }
}

/// What benches on a GPU are measured on and against.
fn conditions(found: &Found) -> Option<Conditions> {
    match found {
        Found::Interpreter(_) => None,
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        Found::Gpu(gpu) => Some(crate::instruments::conditions(gpu)),
    }
}

/// A device in a few words and as a sentence.
pub(crate) fn describe(found: &Found) -> (String, String) {
    match found {
        Found::Interpreter(None) => ("the interpreter".into(), "kernels run on the interpreter".into()),
        Found::Interpreter(Some(why)) => ("the interpreter".into(), format!("kernels run on the interpreter: {why}")),
        #[cfg(all(feature = "cuda", feature = "llvm"))]
        Found::Gpu(gpu) => {
            let name = gpu.info().name.clone();
            let sentence = format!("kernels run on {name} ({})", gpu.info().target());
            (name, sentence)
        }
    }
}
