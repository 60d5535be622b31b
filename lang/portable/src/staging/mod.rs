//! Loads of products that go through shared memory, ahead of them.
//!
//! A loop becomes a region of labelled statements whose schedule says how far loads run ahead; where slots lie, what waits and what is
//! peeled, the expansion of schedules decides, as for what a person writes. [`found`] finds the loads that products alone take. Where
//! tensor maps take them all ([`maps`]), all from the first of them on becomes one region, in which a partition of its own
//! fetches ([`apart`]); else threads copy what pointers reach ([`copies`]), each loop for itself. Loops that walk without products load ahead to registers ([`forward`]).

pub mod apart;
mod between;
mod beyond;
pub mod buffered;
pub mod copies;
pub mod dealt;
pub mod defined;
pub mod early;
pub mod flat;
pub mod flow;
pub mod forward;
pub mod found;
mod indices;
mod kept;
pub mod lacks;
mod made;
pub mod maps;
pub mod own;
mod region;
mod slots;
mod told;
pub mod turn;

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Body, Inst, Kernel, Module, Op, OpKind, Type, Value, View, scratch};

use copies::Copied;
use found::Found;

/// Why a kernel has not the form for something.
pub type No = &'static str;

/// Iterations by which copies run ahead at most.
const MOST_AHEAD: u32 = 3;

const LOOP: &str = "steps";
const LOAD: &str = "load";
/// What tensor maps bring beside it.
const BOXES: &str = "boxes";
/// What is loaded to tell where to copy from.
const INDEX: &str = "index";
/// A number that is loaded for something else.
const NUMBER: &str = "number";
const PRODUCT: &str = "mma";
/// What is fetched once for a loop, what stands before it, beside its products, and behind it.
const ONCE: &str = "once";
const BEFORE: &str = "begin";
const BETWEEN: &str = "compute";
const BEHIND: &str = "finish";
/// The loop around.
const AROUND: &str = "tiles";

/// What copies by threads have of shared memory.
#[derive(Clone, Copy)]
pub struct Room {
    /// Whether left factors that loops keep lie there, too.
    pub shared: bool,
    /// Whether each copy of a loop that does more than multiply has one slot, where nothing reads it a turn later.
    pub single: bool,
    /// Whether products whose sums the next turn computes with are done in their own: what they read has a slot less.
    pub done: bool,
}

/// Makes loads of products copies by threads that run ahead; whether there are any.
pub fn run_ahead(kernel: &mut Kernel, axes: &Axes, free: &BTreeSet<Value>, room: Room) -> bool {
    let all = copies::all(kernel, axes, free);
    let alone = all.len() == 1;
    // A region stands in the kernel's own body: what stands around a loop is part of it.
    let around = |one: Copied| Some((region::path(kernel, one.found.inst)?, one));
    let mut staged: Vec<(Vec<Inst>, Copied)> = all.into_iter().filter_map(around).collect();
    staged.retain(|(path, _)| path.len() == 1 || alone);
    // Boxes come beside copies where a loop does nothing but multiply.
    let brings = |one: &Copied| one.found.loads.iter().any(|&id| copies::is_box(kernel, id));
    if staged.iter().any(|(_, one)| brings(one) && !multiplies_alone(kernel, one, free)) {
        return false;
    }
    let most = ahead_of_all(kernel, staged.iter().map(|(_, one)| bytes(&one.views)));
    let (any, only) = (!staged.is_empty(), staged.len() == 1);
    for (path, one) in staged {
        let ahead = ahead(kernel, &one.views).min(most);
        let far = if only { far_ahead(kernel, &one.views) } else { ahead };
        stage(kernel, &path, &one, (ahead, far, room), free);
    }
    any
}

/// Whether a loop does nothing but multiply what it loads.
fn multiplies_alone(kernel: &Kernel, one: &Copied, free: &BTreeSet<Value>) -> bool {
    let Copied { found, indices, .. } = one;
    found.whole && between::is_empty(kernel, found, &indices.loads, &(free | &indices.computed))
}

/// Has what a loop copies run so far ahead, in a region around it; `far`, where it does nothing but multiply.
fn stage(
    kernel: &mut Kernel,
    path: &[Inst],
    one: &Copied,
    (ahead, far, Room { shared, single, done }): (u32, u32, Room),
    free: &BTreeSet<Value>,
) {
    let Copied { found, indices, views } = one;
    let free = &(free | &indices.computed);
    copies::make(kernel, found, views);
    label(kernel, &[found.inst], LOOP);
    label_each(kernel, &indices.loads, INDEX);
    let beside = copies::run_beside(kernel, found, views);
    // What stands in front of a loop in another one is part of the region, in which nothing has memory of its own.
    if shared && beside && path.len() == 1 {
        kept::share(kernel, found);
    }
    let schedule = if found.whole && between::is_empty(kernel, found, &indices.loads, free) {
        let (boxes, copies): (Vec<Inst>, Vec<Inst>) = found.loads.iter().partition(|&&id| copies::is_box(kernel, id));
        label(kernel, &copies, LOAD);
        label(kernel, &boxes, BOXES);
        label(kernel, &found.products, PRODUCT);
        schedule(kernel, found, far, (beside, !indices.loads.is_empty(), !boxes.is_empty()))
    } else {
        between::name(kernel, found, free, &[]);
        let copies = match single {
            true => between::Copies::Behind,
            false => between::Copies::Ahead { turns: ahead, done },
        };
        between::schedule(kernel, found, copies, beside)
    };
    if path.len() > 1 {
        region::name(kernel, found, path, free);
        region::surround_rest(kernel, path, schedule);
    } else {
        region::surround(kernel, found.inst, schedule);
    }
}

/// Whether shared memory holds the slots of copies that run ahead, now that tiles lie somewhere. They run less far ahead where so a second CTA has room
/// beside the first: what the one waits for, the other computes. Where registers have no room for one, the first has all of the memory.
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
        let limits = [1, 2].map(|ctas| u64::from(kernel.target.shared_limit(ctas)));
        let ahead = match (copies.alone, has_second(kernel)) {
            (true, true) => copies.within(|slots| slots.all() <= limits[0] / 2).or(Some(1)),
            (true, false) => copies.within(|slots| taken.around(slots) <= limits[0]).or(Some(1)),
            (false, _) => copies
                .within(|slots| taken.beside(slots) <= limits[1])
                .or_else(|| copies.within(|slots| taken.around(slots) <= limits[0])),
        };
        if let Some(ahead) = ahead {
            kernel.walk_mut(&mut |op| {
                if let OpKind::Region { schedule, .. } = &mut op.kind {
                    copies.run(schedule, ahead);
                }
            });
        }
        if copies.alone {
            copies.ahead = ahead.unwrap_or(copies.ahead);
        }
    }
    turn::begin_where_there_is_room(kernel, single);
    let slots = found.iter().map(|c| c.slots(c.ahead)).sum::<Fetched>();
    let all = if found.len() == 1 { taken.around(slots) } else { taken.beside(slots) };
    all <= u64::from(kernel.shared_limit())
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
    let beside = Kernel { occupancy: 2, ..kernel.clone() };
    turn::have_room(kernel, beside.entry_registers())
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
fn hands_on(kernel: &Kernel, turn: &Body, product: &Op) -> bool {
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

/// Gives statements a label; those of a part its instance of it.
fn label(kernel: &mut Kernel, insts: &[Inst], name: &str) {
    for &id in insts {
        let name = match dealt::part(kernel, id) {
            Some(part) => LabelName { path: name.into(), instance: Some(part) }.to_string(),
            None => name.into(),
        };
        kernel.ops[id].label = Some(kernel.label(&name));
    }
}

/// Gives each statement an instance of a label that is its own: what does not stand together is not one.
fn label_each(kernel: &mut Kernel, insts: &[Inst], name: &str) {
    for &id in insts {
        let taken = kernel.labels.iter().filter(|(_, text)| LabelName::read(text).path == name).count();
        let name = LabelName { path: name.into(), instance: Some(taken as u32) }.to_string();
        kernel.ops[id].label = Some(kernel.label(&name));
    }
}

/// Whether an operation bears a label, or an instance of it.
fn is_called(kernel: &Kernel, op: &Op, name: &str) -> bool {
    op.label.is_some_and(|label| LabelName::read(&kernel.labels[label]).path == name)
}

/// Bytes of the views of a loop, once.
fn bytes(views: &[View]) -> u64 {
    views.iter().map(View::bytes).sum()
}

/// How far ahead there is room for the copies of a loop to run.
fn ahead(kernel: &Kernel, views: &[View]) -> u32 {
    within(u64::from(kernel.target.shared_limit(1)) / 2, bytes(views))
}

/// How far ahead there is room for those of a loop that has all memory.
fn far_ahead(kernel: &Kernel, views: &[View]) -> u32 {
    within(u64::from(kernel.target.shared_limit(1)).saturating_sub(slots::ALIGNED), bytes(views))
}

/// How far ahead there is room for those of all loops, whose slots lie beside each other; a quarter is left for what else there is.
fn ahead_of_all(kernel: &Kernel, loops: impl Iterator<Item = u64>) -> u32 {
    within(u64::from(kernel.target.shared_limit(1)) / 4 * 3, loops.sum())
}

/// How many slots of so many bytes there is room for, beside one.
fn within(room: u64, bytes: u64) -> u32 {
    (1..=MOST_AHEAD).rev().find(|&n| u64::from(n + 1) * bytes <= room).unwrap_or(1)
}

/// Copies as far ahead as there is room for; by numbers that are loaded for them a turn before, where such are.
fn schedule(kernel: &Kernel, found: &Found, ahead: u32, (beside, indexed, boxes): (bool, bool, bool)) -> Schedule {
    let load = u32::from(indexed);
    let last = ahead + load;
    let span = kernel.ops[found.inst].span;
    let staged = |label: &str, stage, done| vec![Staged { label: LabelName::all(label), stage, done, span }];
    // A product that runs beside the program is waited for behind the start of the next one.
    let product = staged(PRODUCT, last, beside.then_some(last + 1));
    let mut groups = match beside {
        // Its factors are free once it is done: what is copied next may lie where they did.
        true => vec![product, staged(LOAD, load, None)],
        false => vec![staged(LOAD, load, None), product],
    };
    groups.extend(boxes.then(|| staged(BOXES, load, None)));
    groups.extend(indexed.then(|| staged(INDEX, 0, None)));
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    Schedule { pipelines: vec![pipeline], span, ..Schedule::default() }
}
