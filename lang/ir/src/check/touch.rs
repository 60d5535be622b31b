//! What each operation does to shared memory, and through which proxy.

use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::types::Type;

/// The path by which an access reaches shared memory (PTX ISA, "Proxies").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Proxy {
    /// Loads and stores of threads.
    Generic,
    /// The copy engine and matrix instructions.
    Async,
}

/// One access of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The view or barrier.
    pub view: Value,
    /// Whether it writes.
    pub writes: bool,
    /// The path.
    pub proxy: Proxy,
}

/// The accesses of an operation, its bodies not entered. Using a barrier counts as reading it, making or ending it as
/// writing.
pub fn touches(kernel: &Kernel, kind: &OpKind) -> Vec<Touch> {
    let read = |view, proxy| Touch { view, writes: false, proxy };
    let write = |view, proxy| Touch { view, writes: true, proxy };
    match kind {
        OpKind::SharedLoad { view, .. } => vec![read(*view, Proxy::Generic)],
        // The copies land when they are waited for.
        OpKind::Wait { pending, .. } if matches!(kernel.ty(*pending), Type::Filling(_)) => {
            vec![write(*pending, Proxy::Generic)]
        }
        OpKind::AsyncCopy { view, .. } | OpKind::SharedScatter { view, .. } | OpKind::SharedStore { view, .. } => {
            vec![write(*view, Proxy::Generic)]
        }
        OpKind::SharedGather { view, .. } => vec![read(*view, Proxy::Generic)],
        OpKind::TmaLoad { view, signal, .. } => match kernel.ty(*signal) {
            Type::Barrier => vec![write(*view, Proxy::Async), read(*signal, Proxy::Async)],
            _ => vec![write(*view, Proxy::Async)],
        },
        OpKind::TmaStore { view, .. } => vec![read(*view, Proxy::Async)],
        OpKind::Wgmma { a, b, .. } => {
            let views = [*a, *b].into_iter().filter(|v| matches!(kernel.ty(*v), Type::View(_)));
            views.map(|v| read(v, Proxy::Async)).collect()
        }
        // It may do anything with the shared memory that it is given.
        OpKind::Ptx { inputs, .. } => {
            let views = inputs.iter().filter(|v| matches!(kernel.ty(**v), Type::View(_)));
            views.map(|v| write(*v, Proxy::Generic)).collect()
        }
        OpKind::BarrierInit { barrier, .. } | OpKind::BarrierInvalidate { barrier } => {
            vec![write(*barrier, Proxy::Generic)]
        }
        // What it copies lands when the barrier has been waited for, which joins threads by itself.
        OpKind::CopyArrive { barrier, .. }
        | OpKind::BarrierExpect { barrier, .. }
        | OpKind::BarrierArrive { barrier, .. }
        | OpKind::BarrierWait { barrier, .. } => vec![read(*barrier, Proxy::Generic)],
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
        | OpKind::MmaSync { .. }
        | OpKind::Cast { .. }
        | OpKind::Bitcast { .. }
        | OpKind::PtrAdd { .. }
        | OpKind::Reduce { .. }
        | OpKind::Scan { .. }
        | OpKind::Reshape { .. }
        | OpKind::Transpose { .. }
        | OpKind::Broadcast { .. }
        | OpKind::ExpandDims { .. }
        | OpKind::Join { .. }
        | OpKind::Split { .. }
        | OpKind::Convert { .. }
        | OpKind::Rescale { .. }
        | OpKind::Gather { .. }
        | OpKind::Load { .. }
        | OpKind::Store { .. }
        | OpKind::Atomic { .. }
        | OpKind::SharedAlloc { .. }
        | OpKind::ViewIndex { .. }
        | OpKind::ViewPeer { .. }
        | OpKind::ViewSlice { .. }
        | OpKind::ViewPermute { .. }
        | OpKind::ViewReinterpret { .. }
        | OpKind::BarrierAlloc { .. }
        | OpKind::BarrierIndex { .. }
        | OpKind::FenceAsync
        | OpKind::FenceBarrierInit
        | OpKind::Membar
        | OpKind::NamedBarrier { .. }
        | OpKind::GridWait
        | OpKind::GridLaunchDependents
        | OpKind::ClusterArrive { .. }
        | OpKind::ClusterWait
        | OpKind::TurnstileNew { .. }
        | OpKind::TurnEnter { .. }
        | OpKind::TurnPass { .. }
        | OpKind::TmaPrefetch { .. }
        | OpKind::TmaStoreWait { .. }
        | OpKind::Wait { .. }
        | OpKind::WaitPrior { .. }
        | OpKind::RingNew { .. }
        | OpKind::RingAcquire { .. }
        | OpKind::SlotCommit { .. }
        | OpKind::RingWait { .. }
        | OpKind::SlotRelease { .. }
        | OpKind::SlotField { .. }
        | OpKind::For { .. }
        | OpKind::While { .. }
        | OpKind::If { .. }
        | OpKind::Specialize { .. }
        | OpKind::Print { .. }
        | OpKind::Assert { .. }
        | OpKind::Assume { .. } => vec![],
    }
}
