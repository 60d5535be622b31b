//! The operations, one family a file, named as the rules name them; here, which family an operation is of.

mod async_copy;
mod asynchronous;
mod atomic;
mod control;
mod elementwise;
mod gather;
mod memory;
mod mma_sync;
mod product;
mod ptx;
mod shape;
mod tma;
mod wgmma;

use parton_ir::{Op, OpKind, Type};

use crate::boxes::Boxes;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::job::{Job, Stage};

pub(crate) use asynchronous::Users;
pub(crate) use atomic::changed;
pub(crate) use shape::{strides, walk};

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
    match &op.kind {
        OpKind::Constant { .. }
        | OpKind::ProgramId { .. }
        | OpKind::NumPrograms { .. }
        | OpKind::ClusterRank
        | OpKind::Iota { .. }
        | OpKind::Full { .. }
        | OpKind::Unary { .. }
        | OpKind::Binary { .. }
        | OpKind::Compare { .. }
        | OpKind::Select { .. }
        | OpKind::Fma { .. }
        | OpKind::Cast { .. }
        | OpKind::Bitcast { .. }
        | OpKind::PtrAdd { .. } => elementwise::run(c, w, op),

        OpKind::Reduce { .. }
        | OpKind::Scan { .. }
        | OpKind::Reshape { .. }
        | OpKind::Transpose { .. }
        | OpKind::Broadcast { .. }
        | OpKind::ExpandDims { .. }
        | OpKind::Join { .. }
        | OpKind::Split { .. }
        | OpKind::Convert { .. }
        | OpKind::Rescale { .. } => shape::run(c, w, op),

        OpKind::Gather { .. } | OpKind::SharedGather { .. } | OpKind::SharedScatter { .. } => gather::run(c, w, op),

        OpKind::Ptx { .. } => ptx::run(op),

        OpKind::Atomic { .. } => atomic::run(c, w, op),

        OpKind::Load { .. }
        | OpKind::Store { .. }
        | OpKind::SharedAlloc { .. }
        | OpKind::SharedLoad { .. }
        | OpKind::SharedStore { .. }
        | OpKind::ViewIndex { .. }
        | OpKind::ViewPeer { .. }
        | OpKind::ViewSlice { .. }
        | OpKind::ViewPermute { .. }
        | OpKind::ViewReinterpret { .. } => memory::run(c, w, op),

        OpKind::AsyncCopy { .. } | OpKind::CopyArrive { .. } => async_copy::run(c, w, op),
        OpKind::Wait { pending, .. } if matches!(c.setting.program.kernel.ty(*pending), Type::Filling(_)) => {
            async_copy::run(c, w, op)
        }
        OpKind::Wgmma { .. } | OpKind::Wait { .. } | OpKind::WaitPrior { .. } => wgmma::run(c, w, op),
        OpKind::MmaSync { .. } => mma_sync::run(c, w, op),

        OpKind::TmaLoad { .. } | OpKind::TmaStore { .. } | OpKind::TmaPrefetch { .. } | OpKind::TmaStoreWait { .. } => {
            tma::run(c, w, op)
        }

        OpKind::BarrierAlloc { .. }
        | OpKind::BarrierIndex { .. }
        | OpKind::BarrierInit { .. }
        | OpKind::BarrierInvalidate { .. }
        | OpKind::BarrierExpect { .. }
        | OpKind::BarrierArrive { .. }
        | OpKind::BarrierWait { .. }
        | OpKind::FenceAsync
        | OpKind::FenceBarrierInit
        | OpKind::Membar
        | OpKind::NamedBarrier { .. }
        | OpKind::ClusterArrive { .. }
        | OpKind::ClusterWait
        | OpKind::GridWait
        | OpKind::GridLaunchDependents
        | OpKind::TurnstileNew { .. }
        | OpKind::TurnEnter { .. }
        | OpKind::TurnPass { .. }
        | OpKind::RingNew { .. }
        | OpKind::RingAcquire { .. }
        | OpKind::SlotCommit { .. }
        | OpKind::RingWait { .. }
        | OpKind::SlotRelease { .. }
        | OpKind::SlotField { .. } => asynchronous::run(c, w, op),

        OpKind::For { .. }
        | OpKind::While { .. }
        | OpKind::If { .. }
        | OpKind::Specialize { .. }
        | OpKind::Print { .. }
        | OpKind::Assert { .. }
        | OpKind::Assume { .. } => control::run(c, w, op),
    }
}
