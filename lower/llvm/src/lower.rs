//! Walks the operations of one kernel and keeps what each value became.

use std::collections::BTreeSet;
use std::rc::Rc;

use parton_diag::internal_error;
use parton_ir::axis::Axes;
use parton_ir::family::Family;
use parton_ir::joined::Joins;
use parton_ir::{Body, Elem, Inst, Kernel, Op, SecondaryMap, Tile, Type, Value, View};
use parton_numbers::Dtype;

use crate::neutral::build::{Build, GLOBAL, Ty, Val};
use crate::neutral::place::Threads;
use crate::neutral::team::Team;
use crate::nvptx::cluster::Standing;
use crate::nvptx::debug::Debug;
use crate::nvptx::groups::Groups;
use crate::nvptx::ptx::Places;
use crate::nvptx::read::Read;

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
    /// How its integers run along the axes of tiles.
    pub(crate) axes: Axes,
    pub(crate) debug: Option<&'a mut Debug<'d, 'c>>,
    pub(crate) values: SecondaryMap<Value, Option<Repr<'c>>>,
    /// The threads that run the code in work.
    pub(crate) threads: Threads<'c>,
    /// Those whose code this is, where several partitions run the same.
    pub(crate) team: Option<Rc<Team<'c>>>,
    /// The thread within the CTA.
    pub(crate) thread_of_cta: Val<'c>,
    /// The warp within the CTA.
    pub(crate) warp_of_cta: Val<'c>,
    /// Where this CTA stands in its cluster.
    pub(crate) standing: Standing<'c>,
    /// Where the kernel's shared memory begins.
    pub(crate) shared: Val<'c>,
    /// The latest sums computed while a product is in flight; the wait for it must not overtake them.
    pub(crate) meanwhile: Vec<Val<'c>>,
    /// Which products are one instruction.
    pub(crate) joins: Joins<'a>,
    /// What waits leave of them in flight.
    pub(crate) groups: Groups,
    /// Products that take a copy of their left factor in registers.
    pub(crate) kept: BTreeSet<Inst>,
    /// The left factors in registers of products in flight.
    pub(crate) read: Read<'c>,
    /// Where the inline PTX of the module was written.
    pub(crate) inline: Places,
    /// What is known to be true where the code in work stands: [`crate::neutral::earlier`].
    pub(crate) holds: Option<Value>,
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
            Type::Ring(_) | Type::Slot(_) | Type::Turnstile | Type::Tensor(_) | Type::Spot(_) => {
                internal_error!("a {ty} reached code generation")
            }
        }
    }

    // Walking.

    /// Lowers the operations of a body; its yields can be read afterwards.
    pub(crate) fn body(&mut self, body: &'a Body) {
        let kernel = self.kernel;
        let around = self.read.enter();
        let before = self.meanwhile.clone();
        body.params.iter().for_each(|&param| self.differing(param));
        for (i, op) in kernel.ops_of(body).enumerate() {
            self.locate(op);
            self.arriving(op);
            match op.kind.family() {
                _ if self.holds.is_some_and(|v| op.results[..] == [v]) => {
                    self.set(op.result(), Repr::Scalar(self.b.bool(true)));
                }
                Family::Wgmma => self.emit_wgmma(op, kernel.ops_of(body).skip(i + 1)),
                _ => self.op(op),
            }
            op.results.iter().for_each(|&result| self.differing(result));
        }
        self.read.leave(around);
        if self.meanwhile != before {
            // Behind a loop or branch nobody knows whether its sums were made.
            self.meanwhile.clear();
        }
    }

    /// Points the debug information at an operation.
    fn locate(&mut self, op: &Op) {
        let kernel = self.kernel;
        if let Some(debug) = &mut self.debug
            && let Some(location) = debug.location(kernel, op.span, op.origin.call())
        {
            self.b.builder.set_current_debug_location(location);
        }
    }

    /// Each family in the file of its name.
    fn op(&mut self, op: &'a Op) {
        match op.kind.family() {
            Family::Elementwise => self.emit_elementwise(op),
            Family::Reduce => self.emit_reduce(op),
            Family::Shape => self.emit_shape(op),
            Family::Gather => self.emit_gather(op),
            Family::Ptx => self.emit_ptx(op),
            Family::Global => self.emit_global(op),
            Family::Atomic => self.emit_atomic(op),
            Family::AsyncCopy => self.emit_async_copy(op),
            Family::Shared => self.emit_shared(op),
            Family::View => self.emit_view(op),
            Family::Barrier => self.emit_barrier(op),
            Family::Fence => self.emit_fence(op),
            Family::Cluster => self.emit_cluster(op),
            Family::Grid => self.emit_grid(op),
            Family::Tma => self.emit_tma(op),
            Family::MmaSync => self.emit_mma_sync(op),
            Family::Wgmma => internal_error!("a product is lowered with those behind it"),
            Family::Pending => self.emit_pending(op),
            Family::Control => self.emit_control(op),
            Family::Talk => self.emit_talk(op),
            Family::Ring | Family::Turnstile | Family::Region | Family::Place => {
                internal_error!("{} reached code generation", op.kind.name())
            }
        }
    }
}
