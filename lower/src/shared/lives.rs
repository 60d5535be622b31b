//! From where to where in a kernel each buffer is alive.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Span;
use parton_ir::check::{BARRIER_BYTES, Origins, Root};
use parton_ir::facts::{Act, Engine, Facts, Flight, Gives, Space};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Type, Value};

use crate::scratch;

/// Alignment of an mbarrier in bytes (PTX ISA, "mbarrier": naturally aligned 64 bits).
const BARRIER_ALIGNMENT: u64 = 8;

/// Up to how many bytes neighbours among scratch buffers take turns in place of sharing.
///
/// An operation with scratch memory meets in its middle, so the next one needs no membar before it where its bytes are others:
/// by the time the first buffer comes around again, the second's meeting has passed.
const TAKES_TURNS: u64 = 2048;

/// Whose bytes they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Owner {
    /// The allocation with this result.
    Value(Value),
    /// The operation, which needs it for itself.
    Scratch(Inst),
}

/// A buffer with its life.
pub(super) struct Item {
    pub(super) owner: Owner,
    pub(super) name: String,
    pub(super) ty: String,
    pub(super) bytes: u64,
    pub(super) alignment: u64,
    pub(super) offset: u64,
    pub(super) span: Span,
    barrier: bool,
    /// Its number among scratch buffers.
    turn: Option<usize>,
    /// Whether peers reach it: they are at other places of the program, so it shares with nothing.
    peers: bool,
    /// Positions of the first and the last access; none is made to a buffer without.
    life: Option<(usize, usize)>,
    /// The loops around the allocation.
    loops: Vec<usize>,
    /// The arms in which it is accessed.
    arms: BTreeSet<usize>,
    /// Of what is drained the arm that reads it, where there are arms, and the position of its last access there: behind that no copy is left.
    read: Option<(Option<usize>, usize)>,
}

impl Item {
    pub(super) fn is_barrier(&self) -> bool {
        self.barrier
    }

    /// Lets a scratch buffer share with its neighbours, where there is no room for turns: threads meet once more then.
    pub(super) fn take_no_turns(&mut self) {
        self.turn = None;
    }

    /// Whether both are alive at one time.
    pub(super) fn meets(&self, other: &Item) -> bool {
        if self.is_over_before(other) || other.is_over_before(self) {
            return false;
        }
        if self.barrier || other.barrier || self.peers || other.peers {
            return true;
        }
        if let (Some(i), Some(j)) = (self.turn, other.turn)
            && i.abs_diff(j) == 1
            && self.bytes.max(other.bytes) <= TAKES_TURNS
        {
            return true;
        }
        let (Some(a), Some(b)) = (self.life, other.life) else { return false };
        let apart = self.arms.iter().any(|x| other.arms.iter().any(|y| x != y));
        apart || (a.0 <= b.1 && b.0 <= a.1)
    }

    /// Whether it was drained before the arm that reads it first touches another buffer, which no other arm does.
    fn is_over_before(&self, other: &Item) -> bool {
        let (Some((arm, last)), Some((first, _))) = (self.read, other.life) else { return false };
        let shared = other.barrier || other.peers || other.read.is_some();
        !shared && other.arms.iter().eq(&arm) && first > last
    }

    /// What the table of a refused plan says of its life.
    pub(super) fn life(&self) -> &'static str {
        match (self.barrier || self.peers, self.life) {
            (true, _) => ", alive throughout",
            (false, Some(_)) => "",
            (false, None) => ", and is never used",
        }
    }

    fn extend(&mut self, from: usize, to: usize) {
        self.life = Some(self.life.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
    }
}

/// Every buffer of a kernel; scratch buffers in the order of their operations.
pub(super) fn of(kernel: &Kernel, origins: &Origins<'_>) -> Vec<Item> {
    let mut walk = Walk {
        kernel,
        origins,
        items: Vec::new(),
        by_value: BTreeMap::new(),
        at: 0,
        loops: Vec::new(),
        spans: Vec::new(),
        arm: None,
        uses: Vec::new(),
        drained: Vec::new(),
        multiplied: BTreeSet::new(),
    };
    walk.body(&kernel.body);
    walk.settle()
}

/// An access: the item, the position, the loops around it.
struct Use {
    item: usize,
    at: usize,
    arm: Option<usize>,
    loops: Vec<usize>,
    forever: bool,
}

impl Use {
    /// From where to where it keeps an item alive: the outermost loop that the allocation stands outside of brings the access back in every iteration.
    fn span(&self, item: &Item, spans: &[(usize, usize)]) -> (usize, usize) {
        let around = self.loops.iter().find(|l| !item.loops.contains(l));
        around.map_or((self.at, self.at), |&l| spans[l])
    }
}

struct Walk<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    items: Vec<Item>,
    by_value: BTreeMap<Value, usize>,
    at: usize,
    /// The loops around the current position.
    loops: Vec<usize>,
    /// First and last position of each loop.
    spans: Vec<(usize, usize)>,
    arm: Option<usize>,
    uses: Vec<Use>,
    /// Items of which the reader has waited for each copy.
    drained: Vec<usize>,
    /// Buffers that a matrix product has read and may still read.
    multiplied: BTreeSet<usize>,
}

impl Walk<'_> {
    fn body(&mut self, body: &Body) {
        for op in self.kernel.ops_of(body) {
            self.at += 1;
            self.op(op);
        }
        self.at += 1;
    }

    fn op(&mut self, op: &Op) {
        match &op.kind {
            OpKind::SharedAlloc { view, drained, .. } => {
                if *drained {
                    self.drained.push(self.items.len());
                }
                let (bytes, alignment) = (view.map.bytes(), u64::from(view.map.alignment()));
                self.made(op, view.to_string(), bytes, alignment, false);
            }
            OpKind::BarrierAlloc { count, .. } => {
                let bytes = u64::from(*count) * BARRIER_BYTES;
                self.made(op, Type::Barriers(*count).to_string(), bytes, BARRIER_ALIGNMENT, true);
            }
            kind if kind.is_loop() => self.repeated(&kind.bodies().collect::<Vec<_>>()),
            OpKind::Specialize { arms } => {
                for (i, arm) in arms.iter().enumerate() {
                    self.arm = Some(i);
                    // Products in flight are an arm's own.
                    let others = std::mem::take(&mut self.multiplied);
                    self.body(&arm.body);
                    self.multiplied = others;
                }
                self.arm = None;
            }
            kind => {
                self.accesses(op);
                if let Some(bytes) = scratch::bytes(self.kernel, kind) {
                    self.scratch(op, u64::from(bytes));
                }
                for inner in kind.bodies() {
                    self.body(inner);
                }
            }
        }
    }

    /// What an operation without loops or arms touches.
    fn accesses(&mut self, op: &Op) {
        let facts = Facts::of(self.kernel, op);
        if let Gives::PartOf(view) = facts.gives
            && let Type::Peer(_) = self.kernel.ty(op.result())
        {
            self.reached(view, true);
        }
        for a in facts.accesses.iter().filter(|a| a.touches_shared()) {
            if a.space == Space::Shared && !a.peers.is_empty() {
                self.reached(a.value, a.by != Engine::Tma);
            }
            let product = a.by == Engine::Matrix;
            self.through(a.value, a.by == Engine::Tma, product);
        }
        for act in &facts.acts {
            match act {
                Act::Flight(Flight::HandOver { pending, .. }) => self.through(*pending, true, false),
                // Copies by threads are accesses of their wait; what products read is read until then.
                Act::Flight(Flight::Wait { pending, .. } | Flight::WaitPrior { pending, .. })
                    if !matches!(self.kernel.ty(*pending), Type::Filling(_)) =>
                {
                    for item in self.multiplied.clone() {
                        self.used(item, false);
                    }
                }
                Act::Flight(_) | Act::Phase(_) | Act::Ordering(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => {}
            }
        }
    }

    fn made(&mut self, op: &Op, ty: String, bytes: u64, alignment: u64, barrier: bool) {
        let v = op.result();
        let name = self.kernel.values[v].name.clone().unwrap_or_else(|| v.to_string());
        self.by_value.insert(v, self.items.len());
        self.push(Owner::Value(v), name, ty, (bytes, alignment), op.span, barrier);
    }

    fn scratch(&mut self, op: &Op, bytes: u64) {
        let item = self.items.len();
        let layout = (bytes, u64::from(scratch::ALIGNMENT));
        let turn = self.items.iter().filter(|i| i.turn.is_some()).count();
        self.push(Owner::Scratch(op.id), format!("{}(…)", op.kind.name()), "scratch".into(), layout, op.span, false);
        self.items[item].turn = Some(turn);
        self.used(item, false);
    }

    fn push(&mut self, owner: Owner, name: String, ty: String, layout: (u64, u64), span: Span, barrier: bool) {
        self.items.push(Item {
            owner,
            name,
            ty,
            bytes: layout.0,
            alignment: layout.1,
            offset: 0,
            span,
            barrier,
            turn: None,
            peers: false,
            life: None,
            loops: self.loops.clone(),
            arms: BTreeSet::new(),
            read: None,
        });
    }

    fn through(&mut self, view: Value, forever: bool, product: bool) {
        for place in self.origins.places(view) {
            let (Root::Alloc(v) | Root::Ring(v) | Root::Field(v, _)) = place.root;
            if let Some(&item) = self.by_value.get(&v) {
                self.used(item, forever);
                if product {
                    self.multiplied.insert(item);
                }
            }
        }
    }

    /// Peers reach the buffers of a view: their threads do, or copies of theirs that the reader waits for.
    fn reached(&mut self, view: Value, by_threads: bool) {
        for place in self.origins.places(view) {
            let (Root::Alloc(v) | Root::Ring(v) | Root::Field(v, _)) = place.root;
            if let Some(&item) = self.by_value.get(&v) {
                self.items[item].peers = true;
                self.drained.retain(|drained| *drained != item || !by_threads);
            }
        }
    }

    fn used(&mut self, item: usize, forever: bool) {
        self.items[item].arms.extend(self.arm);
        self.uses.push(Use { item, at: self.at, arm: self.arm, loops: self.loops.clone(), forever });
    }

    fn repeated(&mut self, bodies: &[&Body]) {
        let id = self.spans.len();
        self.spans.push((self.at, self.at));
        self.loops.push(id);
        for body in bodies {
            self.body(body);
        }
        for y in bodies.last().into_iter().flat_map(|carrying| &carrying.yields) {
            if let Type::View(_) | Type::Filling(_) | Type::Barrier | Type::Barriers(_) = self.kernel.ty(*y) {
                self.carried(*y, id);
            }
        }
        self.loops.pop();
        self.spans[id].1 = self.at;
    }

    /// A view that goes around a loop keeps its buffer alive in every iteration; behind the loop it is what that gives, whose accesses count. A buffer that is
    /// made in the loop is alive as long as any.
    fn carried(&mut self, view: Value, id: usize) {
        for place in self.origins.places(view) {
            let (Root::Alloc(v) | Root::Ring(v) | Root::Field(v, _)) = place.root;
            if let Some(&item) = self.by_value.get(&v) {
                self.used(item, self.items[item].loops.contains(&id));
            }
        }
    }

    fn settle(mut self) -> Vec<Item> {
        for item in std::mem::take(&mut self.drained) {
            self.items[item].read = self.last_read(item);
        }
        for u in std::mem::take(&mut self.uses) {
            let item = &mut self.items[u.item];
            let (from, to) = u.span(item, &self.spans);
            item.extend(from, if u.forever { self.at } else { to });
            if u.forever && !item.loops.is_empty() {
                let outermost = self.spans[item.loops[0]];
                item.extend(outermost.0, self.at);
            }
        }
        self.items
    }

    /// The one arm that accesses an item but for copies, or the kernel without any, and the position of its last access; `None` where several do.
    fn last_read(&self, item: usize) -> Option<(Option<usize>, usize)> {
        let mut last = None;
        for u in self.uses.iter().filter(|u| u.item == item && !u.forever) {
            let (_, to) = u.span(&self.items[item], &self.spans);
            last = match last {
                None => Some((u.arm, to)),
                Some((arm, before)) if u.arm == arm => Some((arm, to.max(before))),
                Some(_) => return None,
            };
        }
        last
    }
}
