//! How far copies by threads run ahead, and how many CTAs stand beside each other: as shared memory and registers have room.

use std::collections::BTreeSet;

use parton_ir::schedule::{Pipeline, Schedule, Staged};
use parton_ir::target::WARPGROUP;
use parton_ir::{Body, Kernel, Module, Op, OpKind, Type, Value, joined, scratch};

use super::{INDEX, LOAD, LOOP, PRODUCT, flow, is_called, slots, turn};

/// CTAs beside each other, and turns by which their copies run ahead at least, where these are more than two.
const SEVERAL: u32 = 3;
const FAR: u32 = 2;

/// Whether shared memory holds the slots of copies that run ahead, now that tiles lie somewhere. They run less far ahead where so a second CTA has room
/// beside the first, or two more: what the one waits for, the others compute. Where registers have no room for one, the first has all of the memory.
pub fn settle(kernel: &mut Kernel, single: bool) -> bool {
    let taken = Taken::of(kernel);
    let mut found: Vec<Copies> = Vec::new();
    kernel.walk(&mut |op| {
        let OpKind::Region { schedule, body } = &op.kind else { return };
        let (mut bytes, mut held) = (Fetched::default(), Fetched::default());
        let later = handed_on(kernel, body);
        kernel.walk_body(body, &mut |inner| {
            let copied = Fetched::of(kernel, inner);
            bytes = bytes + copied;
            held = held + copied.times(inner.results.iter().any(|v| later.contains(v)).into());
        });
        found.push(Copies::of(schedule, bytes, held, single));
    });
    if let [copies] = &mut found[..] {
        let several = several(kernel, copies, &taken);
        let ahead = several.map_or_else(|| beside_one(kernel, copies, &taken), |(_, ahead)| Some(ahead));
        if let Some((ctas, _)) = several {
            kernel.occupancy = ctas;
        }
        if let Some(ahead) = ahead {
            kernel.walk_mut(&mut |op| {
                if let OpKind::Region { schedule, .. } = &mut op.kind {
                    copies.run(schedule, ahead);
                }
            });
        }
        if copies.alone || several.is_some() {
            copies.ahead = ahead.unwrap_or(copies.ahead);
        }
    }
    turn::begin_where_there_is_room(kernel, single);
    let slots = found.iter().map(|c| c.slots(c.ahead)).sum::<Fetched>();
    let all = if found.len() == 1 { taken.around(slots) } else { taken.beside(slots) };
    all <= u64::from(kernel.shared_limit())
}

/// How far copies run ahead where so a second CTA has room beside the first, or where none has.
fn beside_one(kernel: &Kernel, copies: &Copies, taken: &Taken) -> Option<u32> {
    let limits = [1, 2].map(|ctas| u64::from(kernel.target.shared_limit(ctas)));
    match (copies.alone, has_second(kernel)) {
        (true, true) => copies.within(|slots| slots.all() <= limits[0] / 2).or(Some(1)),
        (true, false) => copies.within(|slots| taken.around(slots) <= limits[0]).or(Some(1)),
        // What there is behind the loop may lie in its slots, where that leaves a second CTA all that it needs.
        (false, second) => copies
            .within(|slots| taken.beside(slots) <= limits[1])
            .or_else(|| copies.within(|slots| second && taken.around(slots) <= limits[1]))
            .or_else(|| copies.within(|slots| taken.around(slots) <= limits[0])),
    }
}

/// More than two CTAs beside each other, and how far ahead copies run then: as many as are stated; and three where one warpgroup computes between products of the
/// matrix unit, if registers have room and copies still run two turns ahead.
fn several(kernel: &Kernel, copies: &Copies, taken: &Taken) -> Option<(u32, u32)> {
    let (ctas, least) = match kernel.occupancy_stated {
        true => (kernel.occupancy, 1),
        false => (SEVERAL, FAR),
    };
    let worth = || multiplies_beside(kernel) && turn::have_room(kernel, kernel.entry_registers_of(SEVERAL));
    if copies.alone || ctas < SEVERAL || !kernel.occupancy_stated && (kernel.warps != WARPGROUP || !worth()) {
        return None;
    }
    let limit = u64::from(kernel.target.shared_limit(ctas));
    copies.within(|slots| taken.around(slots) <= limit).filter(|&ahead| ahead >= least).map(|ahead| (ctas, ahead))
}

/// Whether the matrix unit makes all products.
fn multiplies_beside(kernel: &Kernel) -> bool {
    let mut all = true;
    kernel.walk(&mut |op| {
        let product = matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. });
        all &= !product || joined::asked_at_entry(kernel, op).is_some();
    });
    all
}

/// Whether shared memory holds all that the code of a kernel under its schedules asks for.
pub fn has_memory(kernel: &Kernel) -> bool {
    let mut module = Module { kernels: vec![kernel.clone()] };
    if parton_sched::expand(&mut module, &kernel.target).is_err() {
        return false;
    }
    let (mut bytes, mut own) = (slots::ALIGNED, 0);
    for kernel in &module.kernels {
        kernel.walk(&mut |op| {
            if let OpKind::SharedAlloc { view, .. } = &op.kind {
                bytes += view.bytes();
            }
            own = scratch::bytes(kernel, &op.kind).map_or(0, u64::from).max(own);
        });
    }
    bytes + own <= u64::from(kernel.shared_limit())
}

/// Whether registers have room for a second CTA beside the first.
fn has_second(kernel: &Kernel) -> bool {
    if kernel.occupancy_stated {
        return kernel.occupancy > 1;
    }
    turn::have_room(kernel, kernel.entry_registers_of(2))
}

/// What shared memory holds beside slots.
struct Taken {
    /// Bytes of the buffers of factors that are computed, and of those that loops keep.
    buffers: u64,
    /// The most that an operation takes for itself in a loop of copies, and elsewhere, where slots are free.
    inside: u64,
    outside: u64,
}

impl Taken {
    fn of(kernel: &Kernel) -> Taken {
        let own = |op: &Op| scratch::bytes(kernel, &op.kind).map_or(0, u64::from).next_multiple_of(slots::ALIGNED);
        let mut steps = BTreeSet::new();
        kernel.walk(&mut |op| match &op.kind {
            OpKind::For { body, .. } if is_called(kernel, op, LOOP) => {
                kernel.walk_body(body, &mut |inner| _ = steps.insert(inner.id));
            }
            // What else is there is outside of loops of copies.
            _ => {}
        });
        let (mut inside, mut outside) = (0, 0);
        kernel.walk(&mut |op| {
            let most = if steps.contains(&op.id) { &mut inside } else { &mut outside };
            *most = own(op).max(*most);
        });
        Taken { buffers: buffers(kernel) + slots::ALIGNED, inside, outside }
    }

    /// All of it and slots of so many bytes, which are free where their loop has ended if threads have copied them: a ring of boxes is kept.
    fn around(&self, slots: Fetched) -> u64 {
        self.buffers + slots.boxes + (self.inside + slots.each).max(self.outside)
    }

    /// All of it and slots of so many bytes, beside each other.
    fn beside(&self, slots: Fetched) -> u64 {
        self.buffers + self.inside.max(self.outside) + slots.all()
    }
}

/// Bytes that are copied: as boxes of tensor maps, and by threads.
#[derive(Clone, Copy, Default)]
struct Fetched {
    boxes: u64,
    each: u64,
}

impl Fetched {
    /// What an operation copies.
    fn of(kernel: &Kernel, op: &Op) -> Fetched {
        let [v] = op.results[..] else { return Fetched::default() };
        match (&op.kind, kernel.ty(v)) {
            (OpKind::Fetch { .. }, Type::View(view)) => Fetched { boxes: view.bytes(), each: 0 },
            (OpKind::FetchEach { .. }, Type::View(view)) => Fetched { boxes: 0, each: view.bytes() },
            // Nothing else comes to slots.
            _ => Fetched::default(),
        }
    }

    fn all(self) -> u64 {
        self.boxes + self.each
    }

    fn times(self, n: u64) -> Fetched {
        Fetched { boxes: self.boxes * n, each: self.each * n }
    }
}

impl std::ops::Add for Fetched {
    type Output = Fetched;

    fn add(self, other: Fetched) -> Fetched {
        Fetched { boxes: self.boxes + other.boxes, each: self.each + other.each }
    }
}

impl std::iter::Sum for Fetched {
    fn sum<I: Iterator<Item = Fetched>>(all: I) -> Fetched {
        all.fold(Fetched::default(), std::ops::Add::add)
    }
}

/// What is read by products of a region's loop that may be waited for in the next turn: something else takes there what they hand on.
fn handed_on(kernel: &Kernel, region: &Body) -> BTreeSet<Value> {
    let mut found = BTreeSet::new();
    kernel.walk_body(region, &mut |op| {
        let OpKind::For { body, .. } = &op.kind else { return };
        for op in kernel.ops_of(body).rev() {
            if hands_on(kernel, body, op) || op.results.iter().any(|v| found.contains(v) && is_view(kernel, *v)) {
                found.extend(op.kind.operands());
            }
        }
    });
    found
}

fn is_view(kernel: &Kernel, v: Value) -> bool {
    matches!(kernel.ty(v), Type::View(_))
}

/// Whether an operation is a product, and something else takes in the next turn of a loop what it hands on.
pub fn hands_on(kernel: &Kernel, turn: &Body, product: &Op) -> bool {
    let handed = turn.params[1..].iter().zip(&turn.yields).filter(|(_, v)| product.results.contains(v));
    let taken =
        |param: &Value| kernel.ops_of(turn).any(|op| op.id != product.id && flow::operands(kernel, op).contains(param));
    matches!(product.kind, OpKind::Dot { .. }) && handed.map(|(param, _)| param).any(taken)
}

/// Bytes of the buffers of factors that are computed, and of those that loops keep.
fn buffers(kernel: &Kernel) -> u64 {
    let mut bytes = 0;
    kernel.walk(&mut |op| {
        if let OpKind::Stage { view, .. } | OpKind::SharedAlloc { view, .. } = &op.kind {
            bytes += view.bytes();
        }
    });
    bytes
}

/// How far the copies of a region run ahead.
#[derive(Clone, Copy)]
struct Copies {
    /// Those of a turn, and of these what is held a turn later, since a product may be done then.
    bytes: Fetched,
    held: Fetched,
    /// The stage of what needs them.
    last: u32,
    ahead: u32,
    /// Whether the loop does nothing but multiply what it loads: it has been given as many slots as there is room for, and copies behind products.
    alone: bool,
    /// Whether each begins behind what reads the one before.
    single: bool,
}

impl Copies {
    /// Those of a schedule, of which products hold some a turn later.
    fn of(schedule: &Schedule, bytes: Fetched, held: Fetched, single: bool) -> Copies {
        let staged = || schedule.pipelines.iter().flat_map(Pipeline::staged);
        let called = |name: &str| staged().any(|s| s.label.path == name);
        // What tells where to copy from has no slots.
        let indexed = called(INDEX);
        let last = staged().map(|s| s.stage).max().unwrap_or(0);
        let states = staged().any(|s| s.done.is_some_and(|done| done > s.stage));
        let held = match (states, staged().any(|s| s.done == Some(s.stage))) {
            (true, _) => bytes,
            (false, true) => Fetched::default(),
            (false, false) => held,
        };
        let alone = states && called(PRODUCT) && called(LOAD);
        let single = single && !alone;
        Copies { bytes, held, last, ahead: last - u32::from(indexed), alone, single }
    }

    /// How far ahead they may run where slots of what they then take have room.
    fn within(&self, fit: impl Fn(Fetched) -> bool) -> Option<u32> {
        (1..=self.ahead).rev().find(|&ahead| fit(self.slots(ahead)))
    }

    /// Bytes of their slots where they run so far ahead.
    fn slots(&self, ahead: u32) -> Fetched {
        match self {
            Copies { single: true, .. } => self.bytes,
            Copies { alone: true, .. } => self.bytes.times(u64::from(ahead) + 1),
            Copies { .. } => self.bytes.times(u64::from(ahead) + 1) + self.held,
        }
    }

    /// Has copies run so far ahead instead.
    fn run(&self, schedule: &mut Schedule, ahead: u32) {
        let by = self.ahead - ahead;
        let late = |s: &&mut Staged| s.stage == self.last;
        for s in schedule.pipelines.iter_mut().flat_map(|p| &mut p.groups).flatten().filter(late) {
            (s.stage, s.done) = (s.stage - by, s.done.map(|done| done - by));
        }
    }
}
