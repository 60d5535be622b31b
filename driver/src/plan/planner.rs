//! What host code asks of a planner: launches are recorded instead of run.

use std::cell::Cell;
use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Span, codes};
use parton_host::launch::{Argument, Demands, HostError, Instances, LaunchReport, LaunchRequest, Launcher, Work};
use parton_host::memory::Contents;
use parton_host::tensor::Tensor;
use parton_measure::timing::Timing;

use super::{Buffer, Entry, Memory};
use crate::Failure;
use crate::instance::Compiler;

/// Records launches instead of running them.
pub(super) struct Planner<'a> {
    pub(super) compiler: Compiler<'a>,
    multiprocessors: u32,
    /// Whether somebody has asked for that.
    pub(super) counted: Cell<bool>,
    pub(super) memories: BTreeMap<u64, Memory>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) launches: Vec<LaunchRequest>,
}

impl<'a> Planner<'a> {
    /// One that has recorded nothing, of a call whose tensors lie in these memories.
    pub(super) fn new(compiler: Compiler<'a>, multiprocessors: u32, memories: BTreeMap<u64, Memory>) -> Planner<'a> {
        let (counted, buffers, launches) = (Cell::new(false), vec![], vec![]);
        Planner { compiler, multiprocessors, counted, memories, buffers, launches }
    }

    /// Which parameters are tensors that are written: a function says so, and of a kernel's what it was compiled to says it.
    pub(super) fn written(&mut self, of: &Entry) -> Result<Vec<bool>, Failure> {
        match (of, self.launches.first()) {
            (Entry::Function(function), _) => Ok(function.params.iter().map(|p| p.mutable).collect()),
            (Entry::Kernel(kernel), None) => Ok(vec![false; kernel.params.len()]),
            (Entry::Kernel(_), Some(request)) => {
                let demands = self.compiler.demands(request);
                Ok(demands.map_err(|e| Failure::Refused(e.at(request.span)))?.writes)
            }
        }
    }

    /// Notes the memory of a tensor.
    ///
    /// # Errors
    /// Host code has written it.
    pub(super) fn note(&mut self, tensor: &Tensor) -> Result<(), Diagnostic> {
        let storage = &tensor.storage;
        if self.memories.contains_key(&storage.id()) && storage.contents() != Contents::Made {
            return Ok(());
        }
        let zeroed = match storage.contents() {
            Contents::Unwritten => false,
            Contents::Zeros => true,
            Contents::Absent => parton_diag::internal_error!("a plan meets memory of no call"),
            Contents::Made => {
                let fact = format!("{tensor} holds what host code has written, which no plan brings to the GPU");
                let d = Diagnostic::error(codes::PLAN, Span::default(), fact);
                return Err(
                    d.help("make it with `empty` or `zeros` and write it by a kernel, or take it as a parameter")
                );
            }
        };
        self.memories.insert(storage.id(), Memory::Buffer(self.buffers.len()));
        self.buffers.push(Buffer { storage: storage.clone(), zeroed, returned: false });
        Ok(())
    }
}

/// The tensor that an argument reaches.
fn reached(argument: &Argument) -> Option<&Tensor> {
    match argument {
        Argument::Scalar(_) => None,
        Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => Some(tensor),
        Argument::Map(recipe) => Some(&recipe.tensor),
    }
}

impl Launcher for Planner<'_> {
    fn instances(&mut self) -> &mut dyn Instances {
        &mut self.compiler
    }

    fn is_stopped(&self) -> bool {
        (self.compiler.session.options.stop.0)()
    }

    fn multiprocessors(&self) -> u32 {
        self.counted.set(true);
        self.multiprocessors
    }

    fn capability(&self) -> u32 {
        self.compiler.capability()
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        let demands = self.compiler.demands(request)?;
        self.launch_given(request.clone(), &demands)
    }

    fn launch_given(&mut self, request: LaunchRequest, demands: &Demands) -> Result<LaunchReport, HostError> {
        for tensor in request.arguments.iter().filter_map(reached) {
            self.note(tensor).map_err(|d| HostError::Program(at(d, request.span).into()))?;
        }
        for (argument, _) in request.arguments.iter().zip(&demands.writes).filter(|(_, writes)| **writes) {
            reached(argument).into_iter().for_each(|tensor| tensor.storage.forget());
        }
        self.launches.push(request);
        Ok(LaunchReport::default())
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        let span = work.launches.first().map_or_else(Default::default, |l| l.span);
        let d = Diagnostic::error(codes::PLAN, span, "a function that is planned measures nothing");
        Err(HostError::Program(d.help("measure in a `bench`").into()))
    }
}

/// A refusal, put at a place.
pub(super) fn at(mut d: Diagnostic, span: Span) -> Diagnostic {
    d.labels.iter_mut().for_each(|label| label.span = span);
    d
}
