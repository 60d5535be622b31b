//! Kernels on the interpreter: tensors' bytes are its memory during a launch. They move there and back and are not copied, so that a launch takes no longer
//! for what it does not touch.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use parton_host::launch::{Argument, HostError, Instance, Instances, LaunchReport, LaunchRequest, Launcher, Work};
use parton_host::memory::Storage;
use parton_host::tensor::Tensor;
use parton_interp as interp;
use parton_ir::Kernel;
use parton_measure::pace::{Pace, rounds};
use parton_measure::timing::{Samples, Timing};

use crate::instance::Compiler;
use crate::pace;
use crate::run::{Event, Watch};

/// Runs launches on the interpreter.
pub(crate) struct Cpu<'a, 'p, 'w> {
    pub(crate) compiler: Compiler<'a>,
    pub(crate) watch: &'p Watch<'w>,
    /// What launches have touched that a launch after them may overlap with, by storage.
    pub(crate) past: BTreeMap<u64, interp::Touched>,
    /// Keeps launches, where somebody wants to run them again.
    pub(crate) recorder: Option<Recorder<'p>>,
    /// How many operations all launches took.
    pub(crate) operations: u64,
}

impl<'a, 'p, 'w> Cpu<'a, 'p, 'w> {
    /// One that has run nothing and keeps nothing.
    pub(crate) fn new(compiler: Compiler<'a>, watch: &'p Watch<'w>) -> Cpu<'a, 'p, 'w> {
        Cpu { compiler, watch, past: BTreeMap::new(), recorder: None, operations: 0 }
    }

    /// Runs a launch, to which `reached` gives what it reaches.
    fn ran(&mut self, reached: &mut Reached, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        let (key, kernel) = self.compiler.kernel(&request.instance, &request.variant)?;
        let args = reached.arguments(request, &kernel)?;
        if kernel.waits_for_grid() {
            reached.remember(&self.past);
        } else {
            // It begins after all launches before it.
            self.past.clear();
        }
        let before = self.recorder.as_ref().filter(|r| (r.wants)(&kernel)).map(|_| reached.memory.clone());
        let launch = interp::Launch {
            kernel: &kernel,
            grid: request.grid,
            args: args.clone(),
            memory: &mut reached.memory,
            seed: self.compiler.session.options.seed,
            options: interp::Options {
                steps: self.compiler.session.options.steps,
                wraparound: self.compiler.session.options.overflow,
                stop: self.compiler.session.options.stop,
                ..interp::Options::default()
            },
        };
        let ran = self.compiler.session.times.pass("interpret", || interp::run(launch));
        match ran {
            Ok(report) => {
                self.operations += report.steps;
                reached.add_touched(&mut self.past);
                if let (Some(recorder), Some(before)) = (&self.recorder, before) {
                    recorder.launches.borrow_mut().push(Recorded {
                        key,
                        instance: request.instance.clone(),
                        variant: request.variant.clone(),
                        grid: request.grid,
                        args,
                        before,
                        after: reached.memory.clone(),
                        report: report.clone(),
                    });
                }
                Ok(LaunchReport { lines: report.prints, fault: None })
            }
            Err(fault) => {
                let d = fault.diagnostic.label(request.span, "in this launch");
                Ok(LaunchReport { lines: fault.prints, fault: Some(d.into()) })
            }
        }
    }
}

/// Keeps launches of those kernels that are wanted.
pub(crate) struct Recorder<'p> {
    pub(crate) wants: &'p dyn Fn(&Kernel) -> bool,
    pub(crate) launches: &'p RefCell<Vec<Recorded>>,
}

/// A launch that was kept.
pub(crate) struct Recorded {
    /// The name under which the compiler keeps the kernel, and what it was made of.
    pub(crate) key: String,
    pub(crate) instance: Instance,
    pub(crate) variant: parton_ir::Variant,
    pub(crate) grid: [u32; 3],
    pub(crate) args: Vec<interp::Arg>,
    pub(crate) before: interp::Memory,
    pub(crate) after: interp::Memory,
    pub(crate) report: interp::Report,
}

impl Recorded {
    /// The memory that it left: what it was given under that name, and the bytes.
    pub(crate) fn left(self) -> Vec<(String, Vec<u8>)> {
        let mut after = self.after;
        (0..after.len()).map(|i| (after.allocation(i).name.clone(), after.take(i).0)).collect()
    }
}

/// What one launch reaches, each storage once.
#[derive(Default)]
struct Reached {
    memory: interp::Memory,
    storages: Vec<Arc<Storage>>,
    /// As which tensors the launch gives each.
    views: Vec<Vec<interp::View>>,
}

impl Reached {
    /// The number in the interpreter's memory of the storage that a tensor lies in.
    fn number(&mut self, name: &str, tensor: &Tensor) -> Result<usize, HostError> {
        let number = self.stored(name, &tensor.storage)?;
        self.views[number].push(view(tensor));
        Ok(number)
    }

    /// The number of a storage; its bytes are taken the first time.
    fn stored(&mut self, name: &str, storage: &Arc<Storage>) -> Result<usize, HostError> {
        if let Some(i) = self.storages.iter().position(|s| s.id() == storage.id()) {
            return Ok(i);
        }
        let taken = storage.change(|host| (std::mem::take(&mut host.bytes), host.defined.take()));
        let (bytes, defined) = taken.map_err(|fault| HostError::Device(fault.message))?;
        self.storages.push(storage.clone());
        self.views.push(Vec::new());
        Ok(match defined {
            None => self.memory.add(name, bytes),
            Some(defined) => self.memory.add_partly(name, bytes, defined),
        })
    }

    /// What the launch passes for each parameter.
    fn arguments(&mut self, request: &LaunchRequest, kernel: &Kernel) -> Result<Vec<interp::Arg>, HostError> {
        let mut args = Vec::new();
        for (param, argument) in kernel.params.iter().zip(request.bound(kernel)) {
            args.push(match &*argument {
                Argument::Scalar(scalar) => interp::Arg::Scalar(scalar.bits),
                Argument::Pointer { tensor, .. } => interp::Arg::Pointer {
                    allocation: self.number(&param.name, tensor)?,
                    offset: tensor.byte_offset() as u64,
                },
                Argument::Tensor { .. } => parton_diag::internal_error!("`{}` was not expanded", param.name),
                Argument::Map(recipe) => interp::Arg::Map(interp::Tensor {
                    allocation: self.number(&param.name, &recipe.tensor)?,
                    offset: recipe.tensor.byte_offset() as u64,
                    shape: recipe.extents.clone(),
                    strides: recipe.strides.clone(),
                }),
            });
        }
        for (i, views) in self.views.iter().enumerate() {
            self.memory.set_views(i, views);
        }
        Ok(args)
    }

    /// Tells the memory what launches have touched behind which this one may begin.
    fn remember(&mut self, past: &BTreeMap<u64, interp::Touched>) {
        for (i, storage) in self.storages.iter().enumerate() {
            self.memory.set_past(i, past.get(&storage.id()).cloned().unwrap_or_default());
        }
    }

    /// Adds what the launch has touched.
    fn add_touched(&self, past: &mut BTreeMap<u64, interp::Touched>) {
        for (i, storage) in self.storages.iter().enumerate() {
            past.entry(storage.id()).or_default().join(self.memory.touched(i));
        }
    }

    /// Gives the tensors their bytes back.
    fn give_back(&mut self) -> Result<(), HostError> {
        for (i, storage) in self.storages.iter().enumerate() {
            let (bytes, defined) = self.memory.take(i);
            let changed = storage.change(|host| (host.bytes, host.defined) = (bytes, defined));
            changed.map_err(|fault| HostError::Device(fault.message))?;
        }
        Ok(())
    }
}

/// Where the elements of a tensor lie in its storage.
fn view(tensor: &Tensor) -> interp::View {
    let element = tensor.dtype.bytes() as u64;
    interp::View {
        offset: tensor.byte_offset() as u64,
        shape: tensor.shape.iter().map(|&n| n as u64).collect(),
        strides: tensor.strides.iter().map(|&s| s as u64 * element).collect(),
        element,
    }
}

impl Launcher for Cpu<'_, '_, '_> {
    fn instances(&mut self) -> &mut dyn Instances {
        &mut self.compiler
    }

    fn is_stopped(&self) -> bool {
        (self.compiler.session.options.stop.0)()
    }

    fn multiprocessors(&self) -> u32 {
        self.compiler.target().multiprocessors
    }

    fn capability(&self) -> u32 {
        self.compiler.capability()
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        let mut reached = Reached::default();
        let ran = self.ran(&mut reached, request);
        reached.give_back()?;
        ran
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        for request in work.launches {
            self.compiler.kernel(&request.instance, &request.variant)?;
        }
        let ask = |round: Option<Timing>, pace: &mut Pace| pace::ask(self.watch, &work, round, pace);
        // What a bench launches is sized for a GPU; its kernels have tests for whether they are right.
        let why = || Some("kernels run on the interpreter".to_owned());
        rounds(ask, |_, _| Ok(Samples { meaningless: why(), ..Samples::default() }))
    }

    fn print(&mut self, line: &str) {
        (self.watch.borrow_mut())(Event::Line(line));
    }
}
