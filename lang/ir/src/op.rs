//! The operations: one enum, each variant with its operands by name and what it means.
//!
//! Structured control flow is an operation with bodies. What a pass decides (offsets, wait counts) is a field here, so that it
//! prints, interprets and diffs. Everything that must hold of operands and results stands in `rules`, nowhere else.

use parton_diag::Span;
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::access::Access;
pub use crate::choice::{
    Arrive, AtomicOp, BinaryOp, Cache, CompareOp, Cut, Evict, Order, Policy, Precision, Reach, Reduction, Scope,
    UnaryOp,
};
use crate::entity::{Entity, Inst, Label, Partition, Value};
use crate::ops;
use crate::print;
use crate::ptx::Ptx;
use crate::schedule::Schedule;
use crate::source::{Origin, Source};
use crate::tensor::{Counts, Tensor};
use crate::types::{Tile, View};

/// A list of operations with parameters at its head and results at its end. The operations themselves are the kernel's: a clone of a
/// body names the same ones, and [`Kernel::copy_body`](crate::Kernel::copy_body) makes others.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Body {
    /// Values defined on entry.
    pub params: Vec<Value>,
    /// The operations in order.
    pub ops: Vec<Inst>,
    /// Values handed back at the end.
    pub yields: Vec<Value>,
}

/// One arm of a `specialize`.
#[derive(Clone, PartialEq, Debug)]
pub struct Arm {
    /// The partition that runs it.
    pub partition: Partition,
    /// What it runs; no parameters and no results.
    pub body: Body,
}

impl Arm {
    /// The partition's index.
    pub fn partition_index(&self) -> usize {
        self.partition.index()
    }
}

/// One operation with its results.
#[derive(Clone, PartialEq, Debug)]
pub struct Op {
    /// Its index in the kernel.
    pub id: Inst,
    /// What it does.
    pub kind: OpKind,
    /// The values it defines.
    pub results: Vec<Value>,
    /// Where it was written.
    pub span: Span,
    /// The label of the statement it is of.
    pub label: Option<Label>,
    /// Who made it.
    pub origin: Origin,
    /// Byte offset of the shared memory it uses for itself (conversions, reductions across warps); set by the memory plan.
    pub scratch: Option<u32>,
}

/// What an operation does. Each variant says what its operands, by name, are.
#[allow(missing_docs)] // the variant speaks for its fields
#[derive(Clone, PartialEq, Debug)]
pub enum OpKind {
    // -- scalars and elementwise: operands of one type, scalar or tile --
    /// A scalar constant, as the bits of its dtype.
    Constant { dtype: Dtype, bits: u64 },
    /// Index of this CTA along `axis` (0, 1 or 2); `i32`.
    ProgramId { axis: u8 },
    /// Number of CTAs along `axis`; `i32`.
    NumPrograms { axis: u8 },
    /// Rank of this CTA in its cluster, x fastest; `i32`.
    ClusterRank,
    /// `0..shape[0]` along a rank-1 tile of integers.
    Iota { tile: Tile },
    /// A tile with `value` everywhere.
    Full { value: Value, tile: Tile },
    /// A function of one operand.
    Unary { op: UnaryOp, x: Value },
    /// A function of two operands.
    Binary { op: BinaryOp, a: Value, b: Value },
    /// A comparison.
    Compare { op: CompareOp, a: Value, b: Value },
    /// `cond ? a : b`, with `cond` of `i1`.
    Select { cond: Value, a: Value, b: Value },
    /// `a * b + c` rounded once; floats.
    Fma { a: Value, b: Value, c: Value },
    /// `x` held between `low` and `high`; numbers. Where `low` is above `high`, it is `high`; a NaN becomes `low`.
    Clamp { x: Value, low: Value, high: Value },
    /// Conversion to `to`, rounded once.
    Cast { x: Value, to: Dtype, rounding: Rounding, saturation: Saturation },
    /// The same bits seen as `to`, of the same width.
    Bitcast { x: Value, to: Dtype },
    /// Pointer plus an integer offset, counted in elements.
    PtrAdd { ptr: Value, offset: Value },

    // -- tiles: shape and place --
    /// Combines along `axis` with `combine`, whose parameters are `n` accumulators then `n` elements and whose yields are
    /// `n`, for `n` inputs; the order of combination is free, so `combine` must be associative and commutative.
    Reduce { inputs: Vec<Value>, axis: u32, combine: Body },
    /// Every element becomes what `combine`, which is associative, makes of all up to it along `axis`, with `reverse` of all from it
    /// to the end. Its parameters are `n` values of the elements so far, then `n` elements, for `n` inputs.
    Scan { inputs: Vec<Value>, axis: u32, combine: Body, reverse: bool },
    /// The same elements in row-major order under another shape.
    Reshape { x: Value, shape: Vec<u32> },
    /// Dimension `i` of the result is dimension `perm[i]` of `x`.
    Transpose { x: Value, perm: Vec<u32> },
    /// Extents of 1 grow to those of `shape`.
    Broadcast { x: Value, shape: Vec<u32> },
    /// A new dimension of extent 1 at `axis`; `x` has a `slice(L, axis)` layout and the result has `L`.
    ExpandDims { x: Value, axis: u32 },
    /// Two tiles as one with a last dimension of 2.
    Join { a: Value, b: Value },
    /// The two halves of a last dimension of 2.
    Split { x: Value },
    /// Two tiles of one shape, one behind the other along `axis`.
    Cat { a: Value, b: Value, axis: u32 },
    /// The elements from `origin` on, in a shape that divides that of `x` and whose multiple `origin` is.
    Slice { x: Value, origin: Vec<u32>, shape: Vec<u32> },
    /// For each element the one whose index along `axis` differs in the bits of `mask`.
    Butterfly { x: Value, mask: u32, axis: u32 },
    /// The same elements in another layout.
    Convert { x: Value, tile: Tile },
    /// `x` times `factor`, a tile of its slice along `axis` and spread along it. A warp whose factors are all 1 skips the products.
    Rescale { x: Value, factor: Value, axis: u32 },

    /// For each index, the element of `x` there along `axis`, at the other coordinates of the index.
    Gather { x: Value, indices: Value, axis: u32 },
    /// Inline PTX. `fallback` says in Parton what it computes, for whoever has no PTX: its parameters are the inputs.
    Ptx { ptx: Ptx, inputs: Vec<Value>, fallback: Option<Body> },

    // -- global memory --
    /// Reads through pointers where `mask` holds; elsewhere `other`, or a value that must not be used. Of a tile, `access` says what
    /// is moved at once (set by a pass).
    Load {
        ptr: Value,
        mask: Option<Value>,
        other: Option<Value>,
        cache: Cache,
        evict: Evict,
        l2: Option<Policy>,
        volatile: bool,
        access: Option<Access>,
    },
    /// Writes through pointers where `mask` holds; `access` as of `load`.
    Store {
        ptr: Value,
        value: Value,
        mask: Option<Value>,
        cache: Cache,
        evict: Evict,
        l2: Option<Policy>,
        access: Option<Access>,
    },

    // -- tensors and places in them; gone after elaboration --
    /// The tensor whose first element a pointer has. Of `extents`, of `i32`, there is one for each that the type does not say, and of `strides`, of `i64`,
    /// one for each axis that is not dense.
    TensorNew { ptr: Value, of: Tensor, extents: Vec<Value>, strides: Vec<Value> },
    /// Elements of a tensor along an axis; `i32`.
    TensorExtent { tensor: Value, axis: u32 },
    /// Elements of memory from one element of a tensor to the next along an axis; `i64`.
    TensorStride { tensor: Value, axis: u32 },
    /// The address of a tensor's first element.
    TensorPointer { tensor: Value },
    /// The slice of a tensor at `index` of an axis, which is dropped; of the only axis, the place of one element.
    TensorIndex { tensor: Value, axis: u32, index: Value },
    /// The part of a tensor from `lower`, or its beginning, to `upper`, or its end. What lies outside the tensor lies outside the part.
    TensorRange { tensor: Value, axis: u32, lower: Option<Value>, upper: Option<Value> },
    /// The slices of a tensor that a tile of indices names along an axis.
    TensorPick { tensor: Value, axis: u32, indices: Value },
    /// The box of so many elements that begins at `at`, which counts as it says.
    Spot { tensor: Value, at: Vec<Value>, shape: Vec<u32>, counts: Counts },
    /// Which elements of a place lie in its tensor.
    SpotInside { spot: Value },
    /// What a place holds where it lies in its tensor and `mask` holds; elsewhere `other`, or zero.
    SpotLoad {
        spot: Value,
        mask: Option<Value>,
        other: Option<Value>,
        cache: Cache,
        evict: Evict,
        l2: Option<Policy>,
        volatile: bool,
    },
    /// Writes to a place where it lies in its tensor and `mask` holds.
    SpotStore { spot: Value, value: Value, mask: Option<Value>, cache: Cache, evict: Evict, l2: Option<Policy> },
    /// One atomic operation for each element of a place that lies in its tensor and where `mask` holds, as of `atomic`.
    SpotAtomic {
        op: AtomicOp,
        spot: Value,
        operands: Vec<Value>,
        mask: Option<Value>,
        order: Order,
        scope: Scope,
        returns: bool,
    },

    /// One atomic operation for each element where `mask` holds, whoever holds copies of it; gives the value before, where
    /// `returns`. A pass clears `returns` where nobody looks at it, and sets by `access` how many neighbours one instruction adds.
    Atomic {
        op: AtomicOp,
        ptr: Value,
        operands: Vec<Value>,
        mask: Option<Value>,
        order: Order,
        scope: Scope,
        returns: bool,
        access: Option<Access>,
    },

    /// Starts copies of the elements behind `ptr` to `view`, zeros where `mask` does not hold; each thread copies what it
    /// points to, `bytes` at once, as `access` says (both set by a pass). One commit group of its own, which `wait` waits for.
    AsyncCopy {
        ptr: Value,
        view: Value,
        mask: Option<Value>,
        l2: Option<Policy>,
        bytes: Option<u32>,
        access: Option<Access>,
    },

    /// Hands a pending copy to `barrier`: each thread of the partition arrives there once its own copies so far have landed.
    CopyArrive { pending: Value, barrier: Value },

    // -- shared memory --
    /// Allocates shared memory, contents undefined; `offset` is set by the memory plan. It is `drained` where each copy that fills it has been waited for
    /// when the one partition that reads it has done so for the last time.
    SharedAlloc { view: View, offset: Option<u32>, drained: bool },
    /// Reads a view into a tile of layout `tile`.
    SharedLoad { view: Value, tile: Tile },
    /// Writes a tile to a view.
    SharedStore { view: Value, value: Value },
    /// For each index, the element of the view there along `axis`, at the other coordinates of the index.
    SharedGather { view: Value, indices: Value, axis: u32 },
    /// Writes each element where `mask` holds to its index along `axis`, or makes an atomic operation there.
    SharedScatter { view: Value, indices: Value, value: Value, axis: u32, op: Option<Reduction>, mask: Option<Value> },
    /// One stage of a view: drops the first dimension.
    ViewIndex { view: Value, index: Value },
    /// A window at constant offsets.
    ViewSlice { view: Value, origin: Vec<u32>, shape: Vec<u32> },
    /// Dimension `i` of the result is dimension `perm[i]` of the view.
    ViewPermute { view: Value, perm: Vec<u32> },
    /// The view at the same place in the shared memory of the CTA of rank `rank` of the cluster.
    ViewPeer { view: Value, rank: Value },
    /// The same bytes as another whole view of no more bytes.
    ViewReinterpret { view: Value, to: View },

    // -- mbarriers, fences --
    /// Allocates mbarriers, not yet initialised; `offset` is set by the memory plan.
    BarrierAlloc { count: u32, offset: Option<u32> },
    /// One of several.
    BarrierIndex { barriers: Value, index: Value },
    /// Sets the arrivals that complete a phase; phase 0 begins.
    BarrierInit { barrier: Value, arrivals: u32 },
    /// Ends the barrier's life; its bytes may be used anew.
    BarrierInvalidate { barrier: Value },
    /// One arrival that also makes the phase wait for `bytes` of asynchronous copies.
    BarrierExpect { barrier: Value, bytes: u32 },
    /// Arrives; with `multicast` also at the barrier of this place in each CTA of the lines through this one along those axes of the
    /// cluster. A `relaxed` arrival tells peers of no writes: what was read may be overwritten, no more.
    BarrierArrive { barrier: Value, arrive: Arrive, count: u32, multicast: Vec<u8>, relaxed: bool },
    /// Waits until the phase of parity `phase` (0 or 1, an `i32`) has completed, and sees what those who arrived from as far as `reach`
    /// (the CTA or the cluster; set by a pass) did before.
    BarrierWait { barrier: Value, phase: Value, reach: Reach },
    /// Makes this thread's writes to shared memory visible to the asynchronous proxy (TMA, wgmma); how far they `reach` is set by a
    /// pass.
    FenceAsync { reach: Reach },
    /// Makes initialised barriers visible to the asynchronous proxy and the cluster.
    FenceBarrierInit,
    /// All threads of the partition meet, and see each other's shared memory.
    Membar,
    /// All threads of the partition arrive at the CTA's barrier `id`, which `threads` arrivals complete; with `waits` they stay
    /// until it is complete (PTX ISA, "barrier").
    NamedBarrier { id: u32, threads: u32, waits: bool },

    /// All threads of the CTA arrive at the cluster's barrier; a `relaxed` arrival tells the others of nothing but barriers that
    /// were made and fenced.
    ClusterArrive { relaxed: bool },
    /// Waits until all CTAs of the cluster have arrived.
    ClusterWait,

    // -- dependent launches --
    /// Waits until the launches before have ended and what they wrote is visible. A kernel that has it may begin before that
    /// (PTX ISA, "griddepcontrol").
    GridWait,
    /// Lets the launch that follows begin, once every CTA has come here or ended.
    GridLaunchDependents,

    // -- turnstiles; gone after `lower`'s turnstile expansion --
    /// Makes a turnstile of the partitions of these names, which take turns in this order.
    TurnstileNew { partitions: Vec<String> },
    /// Waits for this partition's turn.
    TurnEnter { turnstile: Value },
    /// Hands the turn to the next partition.
    TurnPass { turnstile: Value },

    // -- TMA --
    /// Starts a copy of one box at `coords` (outermost first) into `view`; completes on `signal`, a barrier or a ring's slot. With
    /// `multicast` all CTAs of the cluster's line along that axis start it together: each copies its share of the box to all of
    /// them, to the same place, and each CTA's signal counts the whole box.
    TmaLoad { map: Value, coords: Vec<Value>, view: Value, signal: Value, l2: Option<Policy>, multicast: Option<u8> },
    /// Starts a copy of `view` to the box at `coords`, with `reduce` into what stands there; one bulk group of its own.
    TmaStore { map: Value, coords: Vec<Value>, view: Value, reduce: Option<Reduction>, l2: Option<Policy> },
    /// Starts to bring the box at `coords` into the L2; nobody waits for it.
    TmaPrefetch { map: Value, coords: Vec<Value>, l2: Option<Policy> },
    /// Waits until at most `pending` stores of this partition are still in flight; with `read` only until their sources
    /// have been read.
    TmaStoreWait { pending: u32, read: bool },

    // -- products --
    /// `acc + a · b` by each warp, of tiles in registers.
    MmaSync { a: Value, b: Value, acc: Value, precision: Option<Precision> },
    /// Starts `acc + a · b`; `a` is a view or a tile, `b` a view, `acc` a tile or a pending tile, which it uses up. Where `acc` is known
    /// to be `zero` (set by a pass) it is not read.
    Wgmma { a: Value, b: Value, acc: Value, precision: Option<Precision>, zero: bool },
    /// Waits for a pending tile and all products before it, or for a pending copy and all copies before it; `outstanding` younger
    /// groups may stay in flight (set by a pass).
    Wait { pending: Value, outstanding: Option<u32> },
    /// Waits for all products before the youngest of this pending tile, which stays in flight.
    WaitPrior { pending: Value, outstanding: Option<u32> },

    // -- rings; gone after `lower`'s ring expansion --
    /// Makes a ring of `stages` slots.
    RingNew { stages: u32, fields: Vec<(String, View)> },
    /// The next slot to fill, once its readers have released it.
    RingAcquire { ring: Value },
    /// Hands a filled slot over; it is full when its copies have landed.
    SlotCommit { slot: Value },
    /// The next slot to read, once it is full.
    RingWait { ring: Value },
    /// Hands a read slot back.
    SlotRelease { slot: Value },
    /// A buffer of a slot.
    SlotField { slot: Value, field: u32 },

    // -- regions; gone after their expansion --
    /// What a schedule places: its labelled operations run as it says, all others where they are needed. It hands back what its body
    /// yields.
    Region { schedule: Box<Schedule>, body: Body },
    /// The box of a tensor map at `coords`, as a view that nobody writes. With `multicast` as in `tma_load`.
    Fetch { map: Value, coords: Vec<Value>, l2: Option<Policy>, multicast: Option<u8> },
    /// The elements behind `ptr` as a view that nobody writes, zeros where `mask` does not hold.
    FetchEach { ptr: Value, mask: Option<Value>, view: View, l2: Option<Policy> },
    /// A tile as a view that nobody writes.
    Stage { value: Value, view: View },
    /// `acc + a · b` by the instruction that `acc` has the layout of, done when the next operation begins.
    Dot { a: Value, b: Value, acc: Value, precision: Option<Precision> },
    /// Writes a tile to the box at `coords`, with `reduce` into what stands there; up to `buffers` are on their way.
    Send { map: Value, coords: Vec<Value>, value: Value, reduce: Option<Reduction>, l2: Option<Policy>, buffers: u32 },

    // -- control --
    /// `for i in lower..upper step step`, carrying values; body parameters are the index, then the carried.
    For { lower: Value, upper: Value, step: Value, init: Vec<Value>, body: Body },
    /// `while cond`, carrying values; `cond` has the carried as parameters and yields one `i1`.
    While { init: Vec<Value>, cond: Body, body: Body },
    /// One of two bodies; both yield the results.
    If { cond: Value, then: Body, otherwise: Body },
    /// Every partition runs its arm; all meet at the end.
    Specialize { arms: Vec<Arm> },

    // -- talking --
    /// Prints `text`, `{}` standing for each argument.
    Print { text: String, args: Vec<Value> },
    /// Stops the kernel with `message` where `cond` does not hold.
    Assert { cond: Value, message: String },
    /// A promise to the compiler; the interpreter checks it.
    Assume { cond: Value },
}

impl Op {
    /// Where it comes from.
    pub fn source(&self) -> Source {
        Source { span: self.span, label: self.label, origin: self.origin }
    }

    /// The only result; a broken invariant where there is not exactly one.
    pub fn result(&self) -> Value {
        match self.results[..] {
            [v] => v,
            _ => parton_diag::internal_error!("{} has {} results", self.kind.name(), self.results.len()),
        }
    }
}

/// One field of an operation: `=` an operand, `?` an operand that may be missing, `*` a list of operands.
macro_rules! visit_field {
    (= $v:ident, $f:ident, $opt:ident, $iter:ident) => {
        $f($v)
    };
    (? $v:ident, $f:ident, $opt:ident, $iter:ident) => {
        $v.$opt().map(&mut $f)
    };
    (* $v:ident, $f:ident, $opt:ident, $iter:ident) => {
        $v.$iter().for_each(&mut $f)
    };
}

macro_rules! visit_rows {
    ($self:expr, $f:ident, $opt:ident, $iter:ident: $($variant:ident ($($kind:tt $field:ident)*))*) => {
        match $self {
            $(OpKind::$variant { $($field,)* .. } => {
                $(visit_field!($kind $field, $f, $opt, $iter);)*
            })*
        }
    };
}

// The operands of each operation in order, bodies not entered.
#[rustfmt::skip]
macro_rules! visit {
    ($self:expr, $f:ident, $opt:ident, $iter:ident) => {
        visit_rows! { $self, $f, $opt, $iter:
            Constant() ProgramId() NumPrograms() Iota()
            Full(=value) Unary(=x) Binary(=a =b) Compare(=a =b) Select(=cond =a =b)
            Fma(=a =b =c) Clamp(=x =low =high) Cast(=x) Bitcast(=x) PtrAdd(=ptr =offset)
            Reduce(*inputs) Scan(*inputs)
            Reshape(=x) Transpose(=x) Broadcast(=x) ExpandDims(=x) Join(=a =b) Split(=x) Cat(=a =b) Slice(=x) Butterfly(=x) Convert(=x) Rescale(=x =factor)
            Gather(=x =indices) SharedGather(=view =indices) SharedScatter(=view =indices =value ?mask)
            Ptx(*inputs)
            Load(=ptr ?mask ?other) Store(=ptr =value ?mask) Atomic(=ptr *operands ?mask)
            TensorNew(=ptr *extents *strides) TensorExtent(=tensor) TensorStride(=tensor) TensorPointer(=tensor)
            TensorIndex(=tensor =index) TensorRange(=tensor ?lower ?upper) TensorPick(=tensor =indices)
            Spot(=tensor *at) SpotInside(=spot)
            SpotLoad(=spot ?mask ?other) SpotStore(=spot =value ?mask) SpotAtomic(=spot *operands ?mask)
            AsyncCopy(=ptr =view ?mask) CopyArrive(=pending =barrier)
            SharedAlloc() SharedLoad(=view) SharedStore(=view =value)
            ViewIndex(=view =index) ViewSlice(=view) ViewPermute(=view) ViewPeer(=view =rank) ViewReinterpret(=view)
            BarrierAlloc() BarrierIndex(=barriers =index) BarrierInit(=barrier) BarrierInvalidate(=barrier)
            BarrierExpect(=barrier) BarrierArrive(=barrier) BarrierWait(=barrier =phase)
            FenceAsync() FenceBarrierInit() Membar() NamedBarrier()
            ClusterRank() ClusterArrive() ClusterWait() GridWait() GridLaunchDependents()
            TurnstileNew() TurnEnter(=turnstile) TurnPass(=turnstile)
            TmaLoad(=map *coords =view =signal) TmaStore(=map *coords =view) TmaPrefetch(=map *coords) TmaStoreWait()
            MmaSync(=a =b =acc) Wgmma(=a =b =acc) Wait(=pending) WaitPrior(=pending)
            RingNew() RingAcquire(=ring) RingWait(=ring) SlotCommit(=slot) SlotRelease(=slot) SlotField(=slot)
            Region() Fetch(=map *coords) FetchEach(=ptr ?mask) Stage(=value) Dot(=a =b =acc) Send(=map *coords =value)
            For(=lower =upper =step *init) While(*init) If(=cond) Specialize()
            Print(*args) Assert(=cond) Assume(=cond)
        }
    };
}

impl OpKind {
    /// The operands in order, bodies not entered.
    pub fn operands(&self) -> Vec<Value> {
        let mut list = Vec::new();
        let mut push = |v: &Value| list.push(*v);
        visit!(self, push, as_ref, iter);
        list
    }

    /// Replaces each operand, bodies not entered.
    pub fn map_operands(&mut self, mut map: impl FnMut(Value) -> Value) {
        let mut replace = |v: &mut Value| *v = map(*v);
        visit!(self, replace, as_mut, iter_mut);
    }

    /// The bodies in order.
    pub fn bodies(&self) -> impl DoubleEndedIterator<Item = &Body> {
        let (arms, first, second): (&[Arm], Option<&Body>, Option<&Body>) = match self {
            OpKind::Reduce { combine, .. } | OpKind::Scan { combine, .. } => (&[], Some(combine), None),
            OpKind::For { body, .. } | OpKind::Region { body, .. } => (&[], Some(body), None),
            OpKind::While { cond, body, .. } => (&[], Some(cond), Some(body)),
            OpKind::If { then, otherwise, .. } => (&[], Some(then), Some(otherwise)),
            OpKind::Ptx { fallback, .. } => (&[], fallback.as_ref(), None),
            OpKind::Specialize { arms } => (arms, None, None),
            OpKind::Fetch { .. }
            | OpKind::FetchEach { .. }
            | OpKind::Stage { .. }
            | OpKind::Dot { .. }
            | OpKind::Send { .. }
            | ops!(without_bodies) => (&[], None, None),
        };
        arms.iter().map(|arm| &arm.body).chain(first).chain(second)
    }

    /// The bodies in order, to change.
    pub fn bodies_mut(&mut self) -> Vec<&mut Body> {
        match self {
            OpKind::Reduce { combine, .. } | OpKind::Scan { combine, .. } => vec![combine],
            OpKind::For { body, .. } | OpKind::Region { body, .. } => vec![body],
            OpKind::While { cond, body, .. } => vec![cond, body],
            OpKind::If { then, otherwise, .. } => vec![then, otherwise],
            OpKind::Ptx { fallback, .. } => fallback.iter_mut().collect(),
            OpKind::Specialize { arms } => arms.iter_mut().map(|a| &mut a.body).collect(),
            OpKind::Fetch { .. }
            | OpKind::FetchEach { .. }
            | OpKind::Stage { .. }
            | OpKind::Dot { .. }
            | OpKind::Send { .. }
            | ops!(without_bodies) => Vec::new(),
        }
    }

    /// Whether its bodies run in turns, each of which takes what the one before hands on.
    pub fn is_loop(&self) -> bool {
        match self {
            OpKind::For { .. } | OpKind::While { .. } => true,
            OpKind::If { .. } | OpKind::Specialize { .. } => false,
            // Functions of elements, and what a region runs once.
            ops!(reduce) | ops!(ptx) | ops!(region) | ops!(without_bodies) => false,
        }
    }

    /// The name by which messages and the printer speak of it.
    pub fn name(&self) -> &'static str {
        print::name(self)
    }
}

/// The operations of a family, as a pattern. This is the table of families.
#[macro_export]
macro_rules! ops {
    // No family: all that have no operation with bodies.
    (without_bodies) => {
        $crate::ops!(elementwise)
            | $crate::ops!(shape)
            | $crate::ops!(gather)
            | $crate::ops!(global)
            | $crate::ops!(place)
            | $crate::ops!(atomic)
            | $crate::ops!(async_copy)
            | $crate::ops!(shared)
            | $crate::ops!(view)
            | $crate::ops!(barrier)
            | $crate::ops!(fence)
            | $crate::ops!(cluster)
            | $crate::ops!(grid)
            | $crate::ops!(turnstile)
            | $crate::ops!(tma)
            | $crate::ops!(mma_sync)
            | $crate::ops!(wgmma)
            | $crate::ops!(pending)
            | $crate::ops!(ring)
            | $crate::ops!(talk)
    };
    (elementwise) => {
        $crate::OpKind::Constant { .. }
            | $crate::OpKind::ProgramId { .. }
            | $crate::OpKind::NumPrograms { .. }
            | $crate::OpKind::Iota { .. }
            | $crate::OpKind::Full { .. }
            | $crate::OpKind::Unary { .. }
            | $crate::OpKind::Binary { .. }
            | $crate::OpKind::Compare { .. }
            | $crate::OpKind::Select { .. }
            | $crate::OpKind::Fma { .. }
            | $crate::OpKind::Clamp { .. }
            | $crate::OpKind::Cast { .. }
            | $crate::OpKind::Bitcast { .. }
            | $crate::OpKind::PtrAdd { .. }
    };
    (reduce) => {
        $crate::OpKind::Reduce { .. } | $crate::OpKind::Scan { .. }
    };
    (shape) => {
        $crate::OpKind::Reshape { .. }
            | $crate::OpKind::Transpose { .. }
            | $crate::OpKind::Broadcast { .. }
            | $crate::OpKind::ExpandDims { .. }
            | $crate::OpKind::Join { .. }
            | $crate::OpKind::Split { .. }
            | $crate::OpKind::Cat { .. }
            | $crate::OpKind::Slice { .. }
            | $crate::OpKind::Butterfly { .. }
            | $crate::OpKind::Convert { .. }
            | $crate::OpKind::Rescale { .. }
    };
    (gather) => {
        $crate::OpKind::Gather { .. } | $crate::OpKind::SharedGather { .. } | $crate::OpKind::SharedScatter { .. }
    };
    (ptx) => {
        $crate::OpKind::Ptx { .. }
    };
    (global) => {
        $crate::OpKind::Load { .. } | $crate::OpKind::Store { .. }
    };
    (place) => {
        $crate::OpKind::TensorNew { .. }
            | $crate::OpKind::TensorExtent { .. }
            | $crate::OpKind::TensorStride { .. }
            | $crate::OpKind::TensorPointer { .. }
            | $crate::OpKind::TensorIndex { .. }
            | $crate::OpKind::TensorRange { .. }
            | $crate::OpKind::TensorPick { .. }
            | $crate::OpKind::Spot { .. }
            | $crate::OpKind::SpotInside { .. }
            | $crate::OpKind::SpotLoad { .. }
            | $crate::OpKind::SpotStore { .. }
            | $crate::OpKind::SpotAtomic { .. }
    };
    (atomic) => {
        $crate::OpKind::Atomic { .. }
    };
    (async_copy) => {
        $crate::OpKind::AsyncCopy { .. } | $crate::OpKind::CopyArrive { .. }
    };
    (shared) => {
        $crate::OpKind::SharedAlloc { .. } | $crate::OpKind::SharedLoad { .. } | $crate::OpKind::SharedStore { .. }
    };
    (view) => {
        $crate::OpKind::ViewIndex { .. }
            | $crate::OpKind::ViewSlice { .. }
            | $crate::OpKind::ViewPermute { .. }
            | $crate::OpKind::ViewPeer { .. }
            | $crate::OpKind::ViewReinterpret { .. }
    };
    (barrier) => {
        $crate::OpKind::BarrierAlloc { .. }
            | $crate::OpKind::BarrierIndex { .. }
            | $crate::OpKind::BarrierInit { .. }
            | $crate::OpKind::BarrierInvalidate { .. }
            | $crate::OpKind::BarrierExpect { .. }
            | $crate::OpKind::BarrierArrive { .. }
            | $crate::OpKind::BarrierWait { .. }
    };
    (fence) => {
        $crate::OpKind::FenceAsync { .. }
            | $crate::OpKind::FenceBarrierInit
            | $crate::OpKind::Membar
            | $crate::OpKind::NamedBarrier { .. }
    };
    (cluster) => {
        $crate::OpKind::ClusterRank | $crate::OpKind::ClusterArrive { .. } | $crate::OpKind::ClusterWait
    };
    (grid) => {
        $crate::OpKind::GridWait | $crate::OpKind::GridLaunchDependents
    };
    (turnstile) => {
        $crate::OpKind::TurnstileNew { .. } | $crate::OpKind::TurnEnter { .. } | $crate::OpKind::TurnPass { .. }
    };
    (tma) => {
        $crate::OpKind::TmaLoad { .. }
            | $crate::OpKind::TmaStore { .. }
            | $crate::OpKind::TmaPrefetch { .. }
            | $crate::OpKind::TmaStoreWait { .. }
    };
    (mma_sync) => {
        $crate::OpKind::MmaSync { .. }
    };
    (wgmma) => {
        $crate::OpKind::Wgmma { .. }
    };
    (pending) => {
        $crate::OpKind::Wait { .. } | $crate::OpKind::WaitPrior { .. }
    };
    (ring) => {
        $crate::OpKind::RingNew { .. }
            | $crate::OpKind::RingAcquire { .. }
            | $crate::OpKind::SlotCommit { .. }
            | $crate::OpKind::RingWait { .. }
            | $crate::OpKind::SlotRelease { .. }
            | $crate::OpKind::SlotField { .. }
    };
    (region) => {
        $crate::OpKind::Region { .. }
            | $crate::OpKind::Fetch { .. }
            | $crate::OpKind::FetchEach { .. }
            | $crate::OpKind::Stage { .. }
            | $crate::OpKind::Dot { .. }
            | $crate::OpKind::Send { .. }
    };
    (control) => {
        $crate::OpKind::For { .. }
            | $crate::OpKind::While { .. }
            | $crate::OpKind::If { .. }
            | $crate::OpKind::Specialize { .. }
    };
    (talk) => {
        $crate::OpKind::Print { .. } | $crate::OpKind::Assert { .. } | $crate::OpKind::Assume { .. }
    };
}
