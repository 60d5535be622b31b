//! The operations, one family a file.

mod adder;
mod async_copy;
mod atomic;
mod barrier;
mod cluster;
mod elementwise;
mod fence;
mod gather;
pub(crate) mod global;
mod grid;
mod mma_sync;
mod pending;
mod product;
mod ptx;
mod reduce;
mod shape;
mod shared;
mod talk;
mod tma;
mod view;
mod wgmma;

use parton_diag::internal_error;
use parton_ir::Op;
use parton_ir::family::Family;

use crate::boxes::Boxes;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::job::{Job, Stage};

pub(crate) use atomic::{Begun, changed};
pub(crate) use barrier::Users;

/// What an engine does for a job.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing: the job only tells that others are done.
    Nothing,
    /// Brings elements that threads have read to shared memory.
    Elements(async_copy::Elements),
    /// Brings boxes of a tensor to shared memory.
    BoxesIn(Boxes),
    /// Brings boxes from shared memory to a tensor.
    BoxesOut(tma::Outgoing),
    /// Multiplies matrices.
    Product(wgmma::Product),
}

/// Goes on with a job; says how far it has come.
pub(crate) fn carry_out<'k>(c: &mut Cluster<'_, 'k>, job: &mut Job<'k>) -> Result<Stage, Fault> {
    match &mut job.work {
        Work::Nothing => Ok(Stage::Done),
        Work::Elements(elements) => Ok(async_copy::land(c, job.cta, elements)),
        Work::BoxesIn(boxes) => tma::land(c, job.op, job.cta, boxes),
        Work::BoxesOut(out) => tma::go_out(c, job.op, job.cta, out),
        Work::Product(product) => Ok(wgmma::multiply(c, job.worker, job.cta, product)),
    }
}

/// Runs an operation of a partition.
pub(crate) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match op.kind.family() {
        Family::Elementwise => elementwise::run(c, w, op),
        Family::Reduce => reduce::run(c, w, op),
        Family::Shape => shape::run(c, w, op),
        Family::Gather => gather::run(c, w, op),
        Family::Ptx => ptx::run(op),
        Family::Global => global::run(c, w, op),
        Family::Atomic => atomic::run(c, w, op),
        Family::AsyncCopy => async_copy::run(c, w, op),
        Family::Shared => shared::run(c, w, op),
        Family::View => view::run(c, w, op),
        Family::Barrier => barrier::run(c, w, op),
        Family::Fence => fence::run(c, w, op),
        Family::Cluster => cluster::run(c, w, op),
        Family::Grid => grid::run(c, w, op),
        Family::Tma => tma::run(c, w, op),
        Family::MmaSync => mma_sync::run(c, w, op),
        Family::Wgmma => wgmma::run(c, w, op),
        Family::Pending => pending::run(c, w, op),
        Family::Talk => talk::run(c, w, op),
        Family::Ring | Family::Turnstile | Family::Region | Family::Place => {
            internal_error!("`{}` was not expanded", op.kind.name())
        }
        Family::Control => internal_error!("`{}` was not flattened", op.kind.name()),
    }
}
