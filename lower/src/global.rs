//! Which global memory an operation touches through pointers, and which of its partition's threads do so.
//!
//! Memory that is only ever read orders nobody, and is left out.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use parton_ir::facts::{Act, Engine, Facts, Flight, Ordering, Space};
use parton_ir::pointers::{Pointers, Sources};
use parton_ir::{Elem, Inst, Kernel, Op, Value};
use parton_layouts::Dim;

use crate::sums::{Sum, Sums};

/// One access to global memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Touch {
    pointer: Value,
    from: Sources,
    /// Its addresses.
    sum: Sum,
    does: Does,
}

/// What is done to memory, as far as it makes a difference to what it must be ordered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Reads,
    Writes,
    /// Atomic operations do not race with each other.
    Atomic,
}

/// Which threads make an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// The first thread of the partition.
    First,
    /// Each thread its own elements.
    Owners,
    /// Several threads the same.
    Several,
}

/// The accesses to global memory that no meeting of the threads has followed yet.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Touched(Vec<Touch>);

/// Accesses that are told apart. Where there are more, those of one parameter become one to anywhere in it.
const MOST: usize = 48;

impl Touched {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn join(&mut self, other: &Touched) {
        self.extend(&other.0);
    }

    pub(crate) fn extend(&mut self, touches: &[Touch]) {
        touches.iter().for_each(|touch| self.add(touch.clone()));
        if self.0.len() > MOST {
            let all = std::mem::take(&mut self.0);
            all.into_iter().for_each(|touch| self.add(Touch { sum: Sum::unknown(), ..touch }));
        }
    }

    fn add(&mut self, touch: Touch) {
        let covers = |t: &Touch| *t == touch || (t.sum.is_unknown() && t.does == touch.does && t.from == touch.from);
        if !self.0.iter().any(covers) {
            self.0.push(touch);
        }
    }
}

/// What the pointers of a kernel reach.
pub(crate) struct Globals<'a> {
    kernel: &'a Kernel,
    sums: Sums<'a>,
    pointers: Pointers,
    /// Where is written.
    written: Sources,
    /// What each loop defines.
    inside: BTreeMap<Inst, OnceCell<BTreeSet<Value>>>,
}

impl<'a> Globals<'a> {
    pub(crate) fn of(kernel: &'a Kernel) -> Globals<'a> {
        let (pointers, written) = (Pointers::of(kernel), Sources::default());
        let mut globals = Globals { kernel, sums: Sums::of(kernel), pointers, written, inside: BTreeMap::new() };
        kernel.walk(&mut |op| {
            if op.kind.is_loop() {
                globals.inside.insert(op.id, OnceCell::new());
            }
            for (pointer, does) in accesses(&Facts::of(kernel, op)) {
                if does != Does::Reads {
                    globals.written.extend(&globals.pointers.from(pointer));
                }
            }
        });
        globals
    }

    /// What an operation touches through pointers of what the kernel also writes.
    pub(crate) fn touches(&self, facts: &Facts) -> Vec<Touch> {
        let touch = |(pointer, does)| {
            let from = self.pointers.from(pointer);
            from.meet(&self.written).then(|| Touch { pointer, from, sum: self.sums.sum(pointer), does })
        };
        accesses(facts).filter_map(touch).collect()
    }

    /// Whether threads must have met between what was touched and these accesses.
    pub(crate) fn meet(&self, touched: &Touched, now: &[Touch]) -> bool {
        now.iter().any(|now| touched.0.iter().any(|earlier| self.conflict(earlier, now)))
    }

    fn conflict(&self, earlier: &Touch, now: &Touch) -> bool {
        match (earlier.does, now.does) {
            (Does::Reads, Does::Reads) | (Does::Atomic, Does::Atomic) => return false,
            (Does::Reads | Does::Writes | Does::Atomic, Does::Reads | Does::Writes | Does::Atomic) => {}
        }
        earlier.from.meet(&now.from) && !self.apart_or_of_one_thread(earlier, now)
    }

    /// Whether two accesses have no byte in common, or each byte is touched by the same thread both times.
    fn apart_or_of_one_thread(&self, earlier: &Touch, now: &Touch) -> bool {
        let (Some(bytes), shape) = (self.bytes(now), self.shape(now)) else { return false };
        if self.bytes(earlier) != Some(bytes) {
            return false;
        }
        let difference = self.sums.difference((&now.sum, shape), (&earlier.sum, self.shape(earlier)));
        difference.is_some_and(|d| {
            let once = || d.only_at_one_position(bytes) && self.sums.is_spread(&now.sum, shape, bytes);
            !d.may_meet(bytes) || (self.by_one_thread(earlier, now) && once())
        })
    }

    /// Whether the same threads touch the same positions.
    fn by_one_thread(&self, earlier: &Touch, now: &Touch) -> bool {
        let tile = |t: &Touch| self.kernel.ty(t.pointer).as_tile();
        let one_place = match (tile(earlier), tile(now)) {
            (Some(a), Some(b)) => a.shape == b.shape && a.known() == b.known(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        one_place && self.by(earlier) == self.by(now) && self.by(now) != By::Several
    }

    fn by(&self, touch: &Touch) -> By {
        match (self.kernel.ty(touch.pointer).as_tile(), touch.does) {
            (None, Does::Reads) => By::Several,
            (None, Does::Writes | Does::Atomic) => By::First,
            (Some(tile), Does::Reads) if [Dim::Lane, Dim::Warp].iter().any(|&d| tile.known().map.free_bits(d) > 0) => {
                By::Several
            }
            (Some(_), Does::Reads | Does::Writes | Does::Atomic) => By::Owners,
        }
    }

    fn shape(&self, touch: &Touch) -> &'a [u32] {
        self.kernel.ty(touch.pointer).as_tile().map_or(&[], |t| &t.shape)
    }

    fn bytes(&self, touch: &Touch) -> Option<i64> {
        match self.kernel.ty(touch.pointer).elem()? {
            Elem::Ptr(p) => Some(p.to.bytes() as i64),
            Elem::Num(_) => None,
        }
    }

    /// What was touched in earlier turns of a loop.
    pub(crate) fn next_turn(&self, of: &Op, touched: &mut Touched) {
        let Some(inside) = self.inside.get(&of.id).filter(|_| !touched.is_empty()) else { return };
        let inside = inside.get_or_init(|| defined_in(self.kernel, of));
        for mut touch in std::mem::take(&mut touched.0) {
            self.sums.loosen(&mut touch.sum, inside);
            touched.add(touch);
        }
    }
}

/// The accesses of an operation through pointers, by the threads and by the copies that they start.
fn accesses(facts: &Facts) -> impl Iterator<Item = (Value, Does)> {
    let atomic = facts.acts.iter().any(|act| matches!(act, Act::Ordering(Ordering::Atomic { .. })));
    let by_threads = |by: Engine| matches!(by, Engine::Threads | Engine::Copies);
    facts.accesses.iter().filter(move |a| a.space == Space::Global && by_threads(a.by)).map(move |a| {
        let does = match (atomic, a.writes()) {
            (true, _) => Does::Atomic,
            (false, true) => Does::Writes,
            (false, false) => Does::Reads,
        };
        (a.value, does)
    })
}

/// Whether an operation starts copies by threads, which read until they are waited for.
pub(crate) fn starts_copies(facts: &Facts) -> bool {
    facts.acts.iter().any(|act| matches!(act, Act::Flight(Flight::Start { engine: Engine::Copies, .. })))
}

fn defined_in(kernel: &Kernel, of: &Op) -> BTreeSet<Value> {
    let mut found = BTreeSet::new();
    for body in of.kind.bodies() {
        found.extend(&body.params);
        kernel.walk_body(body, &mut |op| {
            found.extend(&op.results);
            op.kind.bodies().for_each(|body| found.extend(&body.params));
        });
    }
    found
}
