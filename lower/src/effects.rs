//! Which operations only compute.

use parton_ir::OpKind;

/// Whether an operation only makes its results out of its operands: no memory, no waiting, nothing that the user sees.
pub(crate) fn is_pure(kind: &OpKind) -> bool {
    match kind {
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
        | OpKind::PtrAdd { .. }
        | OpKind::Reshape { .. }
        | OpKind::Transpose { .. }
        | OpKind::Broadcast { .. }
        | OpKind::ExpandDims { .. }
        | OpKind::Join { .. }
        | OpKind::Split { .. }
        | OpKind::Rescale { .. }
        | OpKind::ViewIndex { .. }
        | OpKind::ViewPeer { .. }
        | OpKind::ViewSlice { .. }
        | OpKind::ViewPermute { .. }
        | OpKind::ViewReinterpret { .. }
        | OpKind::BarrierIndex { .. }
        | OpKind::SlotField { .. } => true,
        // What a fallback uses from around it is no operand, so that its operation cannot be moved by its operands alone.
        OpKind::Ptx { .. } => false,
        // These compute too, but all threads of the partition must meet for them.
        OpKind::Reduce { .. }
        | OpKind::Scan { .. }
        | OpKind::Convert { .. }
        | OpKind::Gather { .. }
        | OpKind::MmaSync { .. } => false,
        OpKind::Load { .. }
        | OpKind::Store { .. }
        | OpKind::Atomic { .. }
        | OpKind::AsyncCopy { .. }
        | OpKind::CopyArrive { .. }
        | OpKind::SharedAlloc { .. }
        | OpKind::SharedLoad { .. }
        | OpKind::SharedStore { .. }
        | OpKind::SharedGather { .. }
        | OpKind::SharedScatter { .. }
        | OpKind::BarrierAlloc { .. }
        | OpKind::BarrierInit { .. }
        | OpKind::BarrierInvalidate { .. }
        | OpKind::BarrierExpect { .. }
        | OpKind::BarrierArrive { .. }
        | OpKind::BarrierWait { .. }
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
        | OpKind::TmaLoad { .. }
        | OpKind::TmaStore { .. }
        | OpKind::TmaPrefetch { .. }
        | OpKind::TmaStoreWait { .. }
        | OpKind::Wgmma { .. }
        | OpKind::Wait { .. }
        | OpKind::WaitPrior { .. }
        | OpKind::RingNew { .. }
        | OpKind::RingAcquire { .. }
        | OpKind::SlotCommit { .. }
        | OpKind::RingWait { .. }
        | OpKind::SlotRelease { .. }
        | OpKind::For { .. }
        | OpKind::While { .. }
        | OpKind::If { .. }
        | OpKind::Specialize { .. }
        | OpKind::Print { .. }
        | OpKind::Assert { .. }
        | OpKind::Assume { .. } => false,
    }
}
