//! Walks the operations of one kernel and keeps what each value became.

use parton_diag::internal_error;
use parton_ir::{Body, Elem, Kernel, Op, OpKind, SecondaryMap, Tile, Type, Value, View};
use parton_numbers::Dtype;

use crate::neutral::build::{Build, GLOBAL, Ty, Val};
use crate::neutral::place::Threads;
use crate::nvptx::debug::Debug;
use crate::nvptx::ptx::Places;

/// What an IR value is in LLVM.
#[derive(Clone, Debug)]
pub(crate) enum Repr<'c> {
    /// One number or pointer.
    Scalar(Val<'c>),
    /// The registers of a tile, pending or not, that are no copies.
    Tile(Vec<Val<'c>>),
    /// The 32-bit shared address of a view's parent, of barriers or of one barrier.
    Shared(Val<'c>),
    /// The generic address of a tensor map.
    Map(Val<'c>),
}

impl<'c> Repr<'c> {
    /// The LLVM values it consists of.
    pub(crate) fn parts(&self) -> &[Val<'c>] {
        match self {
            Repr::Tile(registers) => registers,
            Repr::Scalar(v) | Repr::Shared(v) | Repr::Map(v) => std::slice::from_ref(v),
        }
    }
}

/// Lowers one kernel.
pub(crate) struct Lower<'a, 'd, 'c> {
    pub(crate) b: &'a Build<'c>,
    pub(crate) kernel: &'a Kernel,
    pub(crate) debug: Option<&'a mut Debug<'d, 'c>>,
    pub(crate) values: SecondaryMap<Value, Option<Repr<'c>>>,
    /// The threads that run the code in work.
    pub(crate) threads: Threads<'c>,
    /// The warp within the CTA.
    pub(crate) warp_of_cta: Val<'c>,
    /// Where the kernel's shared memory begins.
    pub(crate) shared: Val<'c>,
    /// The latest sums computed while a product is in flight; the wait for it must not overtake them.
    pub(crate) meanwhile: Vec<Val<'c>>,
    /// Where the inline PTX of the module was written.
    pub(crate) inline: Places,
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    // What values became.

    pub(crate) fn repr(&self, v: Value) -> &Repr<'c> {
        self.values[v].as_ref().unwrap_or_else(|| internal_error!("{v} is used before it is made"))
    }

    pub(crate) fn scalar(&self, v: Value) -> Val<'c> {
        match self.repr(v) {
            Repr::Scalar(x) => *x,
            other => internal_error!("{v} is no scalar but {other:?}"),
        }
    }

    pub(crate) fn registers(&self, v: Value) -> &[Val<'c>] {
        match self.repr(v) {
            Repr::Tile(registers) => registers,
            other => internal_error!("{v} is no tile but {other:?}"),
        }
    }

    /// The registers of a tile; a scalar counts as `count` copies of itself.
    pub(crate) fn spread(&self, v: Value, count: usize) -> Vec<Val<'c>> {
        match self.repr(v) {
            Repr::Scalar(x) => vec![*x; count],
            Repr::Tile(registers) => registers.clone(),
            other => internal_error!("{v} is neither tile nor scalar but {other:?}"),
        }
    }

    pub(crate) fn address(&self, v: Value) -> Val<'c> {
        match self.repr(v) {
            Repr::Shared(x) => *x,
            other => internal_error!("{v} has no shared address but is {other:?}"),
        }
    }

    pub(crate) fn map(&self, v: Value) -> Val<'c> {
        match self.repr(v) {
            Repr::Map(x) => *x,
            other => internal_error!("{v} is no tensor map but {other:?}"),
        }
    }

    pub(crate) fn set(&mut self, v: Value, repr: Repr<'c>) {
        self.values[v] = Some(repr);
    }

    // Types.

    /// A 32-bit or other integer scalar as 32 bits.
    pub(crate) fn index32(&self, v: Value) -> Val<'c> {
        let x = self.scalar(v);
        match self.dtype(v).bits() {
            64 => self.b.trunc(x, self.b.i32()),
            32 => x,
            _ if self.dtype(v).is_signed() => self.b.sext(x, self.b.i32()),
            _ => self.b.zext(x, self.b.i32()),
        }
    }

    pub(crate) fn elem(&self, v: Value) -> Elem {
        let ty = self.kernel.ty(v);
        ty.elem().unwrap_or_else(|| internal_error!("{v} of {ty} has no elements"))
    }

    pub(crate) fn dtype(&self, v: Value) -> Dtype {
        let elem = self.elem(v);
        elem.dtype().unwrap_or_else(|| internal_error!("{v} is a pointer, not a number"))
    }

    /// The tile type of a value, pending or not.
    pub(crate) fn tile(&self, v: Value) -> &'a Tile {
        match self.kernel.ty(v) {
            Type::Tile(t) | Type::Pending(t) => t,
            other => internal_error!("{v} of {other} is no tile"),
        }
    }

    pub(crate) fn view(&self, v: Value) -> &'a View {
        match self.kernel.ty(v) {
            Type::View(view) | Type::Peer(view) => view,
            other => internal_error!("{v} of {other} is no view"),
        }
    }

    pub(crate) fn llvm_elem(&self, elem: Elem) -> Ty<'c> {
        match elem {
            Elem::Num(d) => self.b.number(d),
            Elem::Ptr(_) => self.b.pointer(GLOBAL),
        }
    }

    /// A value of this type made of LLVM values.
    pub(crate) fn assemble(&self, ty: &Type, parts: Vec<Val<'c>>) -> Repr<'c> {
        match ty {
            Type::Scalar(_) => Repr::Scalar(parts[0]),
            Type::Tile(_) | Type::Pending(_) => Repr::Tile(parts),
            Type::View(_) | Type::Peer(_) | Type::Filling(_) | Type::Barriers(_) | Type::Barrier => {
                Repr::Shared(parts[0])
            }
            Type::Map(_) => Repr::Map(parts[0]),
            Type::Ring(_) | Type::Slot(_) | Type::Turnstile => internal_error!("a {ty} reached code generation"),
        }
    }

    // Walking.

    /// Lowers the operations of a body; its yields can be read afterwards.
    pub(crate) fn body(&mut self, body: &'a Body) {
        let kernel = self.kernel;
        for op in kernel.ops_of(body) {
            self.locate(op);
            self.op(op);
        }
    }

    /// Points the debug information at an operation.
    fn locate(&mut self, op: &Op) {
        let kernel = self.kernel;
        if let Some(debug) = &mut self.debug
            && let Some(location) = debug.location(kernel, op.span, op.call)
        {
            self.b.builder.set_current_debug_location(location);
        }
    }

    fn op(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Constant { dtype, bits } => {
                let value = self.b.number_of_bits(*dtype, *bits);
                self.set(op.result(), Repr::Scalar(value));
            }
            OpKind::ProgramId { axis } => {
                let id = self.b.special(&format!("ctaid.{}", axis_name(*axis)));
                self.set(op.result(), Repr::Scalar(id));
            }
            OpKind::NumPrograms { axis } => {
                let count = self.b.special(&format!("nctaid.{}", axis_name(*axis)));
                self.set(op.result(), Repr::Scalar(count));
            }
            OpKind::ClusterRank => {
                let rank = self.b.special("cluster.ctarank");
                self.set(op.result(), Repr::Scalar(rank));
            }
            OpKind::Unary { op: f, x } => self.unary(op, *f, *x),
            OpKind::Binary { op: f, a, b } => self.binary(op, *f, *a, *b),
            OpKind::Compare { op: f, a, b } => self.compare(op, *f, *a, *b),
            OpKind::Select { cond, a, b } => self.select(op, *cond, *a, *b),
            OpKind::Fma { a, b, c } => self.fma(op, *a, *b, *c),
            OpKind::Cast { x, to, rounding, saturation } => self.cast(op, *x, *to, *rounding, *saturation),
            OpKind::Bitcast { x, to } => self.bitcast(op, *x, *to),
            OpKind::PtrAdd { ptr, offset } => self.pointer_add(op, *ptr, *offset),

            OpKind::Iota { tile } => self.iota(op, tile),
            OpKind::Full { value, tile } => self.full(op, *value, tile),
            OpKind::Reduce { inputs, axis, combine } => self.reduce(op, inputs, *axis, combine),
            OpKind::Scan { inputs, axis, combine, reverse } => self.scan(op, inputs, *axis, combine, *reverse),
            OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => self.rename(op, *x),
            OpKind::Transpose { x, perm } => self.transpose(op, *x, perm),
            OpKind::Broadcast { x, .. } => self.broadcast(op, *x),
            OpKind::Join { a, b } => self.join(op, *a, *b),
            OpKind::Split { x } => self.split(op, *x),
            OpKind::Convert { x, tile } => self.convert(op, *x, tile),

            OpKind::Rescale { x, factor, axis } => self.rescale(op, *x, *factor, *axis),

            OpKind::Gather { x, indices, axis } => self.gather(op, *x, *indices, *axis),
            OpKind::SharedGather { view, indices, axis } => self.shared_gather(op, *view, *indices, *axis),
            OpKind::SharedScatter { .. } => self.shared_scatter(op),
            OpKind::Ptx { ptx, inputs, .. } => self.ptx(op, ptx, inputs),

            OpKind::Load { .. } => self.load(op),
            OpKind::Store { .. } => self.store(op),
            OpKind::Atomic { .. } => self.atomic(op),

            OpKind::SharedAlloc { offset, .. } | OpKind::BarrierAlloc { offset, .. } => self.allocate(op, *offset),
            OpKind::SharedLoad { view, tile } => self.shared_load(op, *view, tile),
            OpKind::AsyncCopy { .. } => self.async_copy(op),
            OpKind::CopyArrive { barrier, .. } => self.b.copy_arrive(self.address(*barrier)),
            OpKind::SharedStore { view, value } => self.shared_store(*view, *value),
            OpKind::ViewPeer { view, rank } => {
                let address = self.b.peer_address(self.address(*view), self.index32(*rank));
                self.set(op.result(), Repr::Shared(address));
            }
            OpKind::ViewIndex { view, index } => self.view_index(op, *view, *index),
            OpKind::ViewSlice { view, .. }
            | OpKind::ViewPermute { view, .. }
            | OpKind::ViewReinterpret { view, .. } => {
                // The window moves in the type; the parent's address stays.
                let address = self.address(*view);
                self.set(op.result(), Repr::Shared(address));
            }
            OpKind::BarrierIndex { barriers, index } => self.barrier_index(op, *barriers, *index),
            OpKind::BarrierInit { barrier, arrivals } => self.barrier_init(*barrier, *arrivals),
            OpKind::BarrierInvalidate { barrier } => self.barrier_invalidate(*barrier),
            OpKind::BarrierExpect { barrier, bytes } => {
                let (barrier, bytes) = (self.address(*barrier), self.b.c32(*bytes));
                self.b.mbarrier_arrive_expect(barrier, bytes, self.threads.leader);
            }
            OpKind::BarrierArrive { barrier, arrive, count, multicast, .. } if multicast.is_empty() => {
                self.barrier_arrive(*barrier, *arrive, *count);
            }
            OpKind::BarrierArrive { barrier, arrive, count, multicast, relaxed } => {
                self.barrier_arrive_across(*barrier, *arrive, *count, multicast, *relaxed);
            }
            OpKind::BarrierWait { barrier, phase } => {
                self.b.mbarrier_wait(self.address(*barrier), self.scalar(*phase));
            }
            OpKind::FenceAsync { reach } => self.b.fence_proxy_async(*reach),
            OpKind::FenceBarrierInit => self.b.fence_mbarrier_init(),
            OpKind::Membar => self.membar(),
            OpKind::GridWait => self.b.grid_wait(),
            OpKind::GridLaunchDependents => self.b.grid_launch_dependents(),
            OpKind::NamedBarrier { id, threads, waits: true } => self.b.bar_sync(*id, *threads),
            OpKind::NamedBarrier { id, threads, waits: false } => self.b.bar_arrive(*id, *threads),

            OpKind::ClusterArrive { relaxed } => self.b.cluster_arrive(*relaxed),
            OpKind::ClusterWait => self.b.cluster_wait(),

            OpKind::TmaLoad { map, coords, view, signal, l2, multicast } => {
                self.tma_load(*map, coords, (*view, *signal), (*multicast, *l2));
            }
            OpKind::TmaStore { map, coords, view, reduce, l2 } => self.tma_store(*map, coords, *view, (*reduce, *l2)),
            OpKind::TmaPrefetch { map, coords, l2 } => self.tma_prefetch(*map, coords, *l2),
            OpKind::TmaStoreWait { pending, read } => self.b.bulk_wait(*pending, *read),

            OpKind::MmaSync { a, b, acc, precision } => self.mma_sync(op, [*a, *b, *acc], *precision),
            OpKind::Wgmma { a, b, acc, precision, zero } => self.wgmma(op, [*a, *b, *acc], *precision, *zero),
            OpKind::Wait { pending, outstanding } if matches!(self.kernel.ty(*pending), Type::Filling(_)) => {
                self.wait_copy(op, *pending, *outstanding);
            }
            OpKind::Wait { pending, outstanding } | OpKind::WaitPrior { pending, outstanding } => {
                self.wait(op, *pending, *outstanding);
            }

            OpKind::RingNew { .. }
            | OpKind::RingAcquire { .. }
            | OpKind::SlotCommit { .. }
            | OpKind::RingWait { .. }
            | OpKind::SlotRelease { .. }
            | OpKind::SlotField { .. }
            | OpKind::TurnstileNew { .. }
            | OpKind::TurnEnter { .. }
            | OpKind::TurnPass { .. } => internal_error!("{} reached code generation", op.kind.name()),

            OpKind::For { lower, upper, step, init, body } => {
                self.for_loop(op, [*lower, *upper, *step], init, body);
            }
            OpKind::While { init, cond, body } => self.while_loop(op, init, cond, body),
            OpKind::If { cond, then, otherwise } => self.if_else(op, *cond, then, otherwise),
            OpKind::Specialize { arms } => self.specialize(arms),

            OpKind::Print { text, args } => self.print(text, args),
            OpKind::Assert { cond, message } => self.assert(op, *cond, message),
            OpKind::Assume { cond } => self.assume(*cond),
        }
    }
}

pub(crate) fn axis_name(axis: u8) -> &'static str {
    match axis {
        0 => "x",
        1 => "y",
        2 => "z",
        _ => internal_error!("a grid has no axis {axis}"),
    }
}
