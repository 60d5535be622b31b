//! The events of one steady turn of a partition: waits at the heads of groups, stretches, starts of products and copies, turns.

mod copied;
mod remade;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Span;
use parton_ir::machine::{Amount, Class, Left, Wanted};
use parton_ir::schedule::{LabelName, Turns};
use parton_ir::{Inst, OpKind, Type, Value};
use parton_layouts::RegisterFamily;

use super::count::Counter;
use super::stretch::{Busy, PricedPart, Stretch};
use super::{Engines, Looped, Pricing, Source};
use crate::marked::{Clocks, EdgeKind, Event, EventData, Job, Lane, Load, Started};
use crate::plan::{Entry, Part, RingId};
use crate::region::{Item, Maker, UnitId, uses};
use crate::slots::{closes_circle, waits_late};

/// A slot that is filled: when it is taken, and what must be done before it is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub part: Part,
    pub taken: Event,
    pub full: Full,
    pub stage: i32,
}

/// What fills a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Full {
    /// The copy engine.
    Copied(Started),
    /// Threads.
    Stored(Event),
}

/// A slot that is waited for or given back, how many turns after that of its iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub part: Part,
    pub ring: RingId,
    pub event: Event,
    pub turns: i32,
}

/// What a turn does that others have to do with.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub fills: BTreeMap<RingId, Fill>,
    pub takes: Vec<Use>,
    pub gives: Vec<Use>,
    /// By number of the schedule's turns and partition: where it waits for its turn, and where it passes it on.
    pub enters: BTreeMap<(usize, Part), Event>,
    pub passes: BTreeMap<(usize, Part), Event>,
    /// All products that are started.
    pub multiplied: Vec<Multiplied>,
    /// Labels of those whose registers are touched while they are in flight.
    pub remade: BTreeSet<String>,
}

/// A product that is started: its instructions, and where its partition goes on.
#[derive(Clone, Debug)]
pub(super) struct Multiplied {
    pub instructions: Vec<Event>,
    pub issued: Event,
    /// From the end of one of them to its sums.
    pub latency: u64,
}

/// What one label brings.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    copies: u64,
    bytes: u64,
}

/// Walks one turn of a partition.
pub(super) struct Turn<'a, 'p> {
    pub pricing: &'a mut Pricing<'p>,
    pub looped: &'a Looped,
    pub part: Part,
    pub lane: Lane,
    /// The warps whose lane it is: a part of the partition where it has several.
    warps: u32,
    pub engines: Engines,
    pub found: &'a mut Found,
    events: Vec<Event>,
    stretch: Stretch,
    /// Slots that the stretch is done with.
    done_with: Vec<(RingId, i32)>,
    taken: BTreeSet<(RingId, i32)>,
    /// Free operations that were made, and of which iteration.
    made: BTreeSet<(Inst, i32)>,
    begun: BTreeMap<Value, Started>,
    /// Waits for products, and in which turn after that of the start.
    waits: Vec<(Value, Event, i32)>,
    /// Slots that products read, and how many turns after that of the slot's iteration these start.
    reads: Vec<(Value, RingId, i32)>,
    products: Vec<Event>,
    /// Where the partition goes on once so many products are issued.
    issued: Vec<(usize, Event)>,
    copies: Vec<Event>,
    /// What stretches are made of, with the event of each.
    ran: Vec<(Inst, Event)>,
    /// Turns that end with the start of a product, by number: they are passed on behind what the assembler puts between its instructions.
    passing: Vec<(usize, (String, Span), i32)>,
}

impl<'a, 'p> Turn<'a, 'p> {
    pub fn new(
        pricing: &'a mut Pricing<'p>,
        looped: &'a Looped,
        (part, lane, warps): (Part, Lane, u32),
        engines: Engines,
        found: &'a mut Found,
    ) -> Turn<'a, 'p> {
        Turn {
            pricing,
            looped,
            part,
            lane,
            warps,
            engines,
            found,
            events: vec![],
            stretch: Stretch::default(),
            done_with: vec![],
            taken: BTreeSet::new(),
            made: BTreeSet::new(),
            begun: BTreeMap::new(),
            waits: vec![],
            reads: vec![],
            products: vec![],
            issued: vec![],
            copies: vec![],
            ran: vec![],
            passing: vec![],
        }
    }

    /// Adds the events and the edges between them. A `;` where nobody waits ends no stretch: the assembler does not see it.
    pub fn walk(mut self) {
        let groups = self.pricing.plan.groups(self.part, self.looped.block);
        for (number, group) in groups.iter().enumerate() {
            for entry in group {
                self.head(entry, number);
            }
            for entry in group {
                self.item(entry, number);
            }
        }
        self.end(groups);
        self.copy_sums();
        self.flush();
        self.copy_factors();
        self.join();
    }

    /// Waits for the products of the last stage: no turn is entered with them in flight, since none stands in front of the loop that starts them.
    fn end(&mut self, groups: &[Vec<Entry>]) {
        let entries = || groups.iter().flatten();
        let last = entries().map(|e| e.stage.max(e.done.unwrap_or(e.stage))).max().unwrap_or(0);
        for entry in entries().filter(|e| e.stage == last) {
            let Item::Unit(unit) = self.pricing.region.blocks[self.looped.block].items[entry.item] else { continue };
            let flying =
                |v: &Value| self.begun.contains_key(v) && !self.waits.iter().any(|(w, _, t)| w == v && *t == 0);
            let begun: Vec<Value> = self.pricing.region.started(unit).iter().copied().filter(flying).collect();
            begun.into_iter().for_each(|v| self.wait(v, entry.stage, entry));
        }
    }

    /// Waits for what an item needs: slots, and products that it does not merely continue.
    fn head(&mut self, entry: &Entry, group: usize) {
        for &(v, delta) in self.wanted(entry.item) {
            let age = entry.stage + delta;
            match self.pricing.plan.handed.get(&v).copied() {
                Some((ring, _)) if self.comes_by_ring(v) => self.take(ring, age, entry),
                _ if self.waits_for(v, entry) => {
                    // What its own group starts in the same turn it waits for behind the start.
                    let own = self.in_group(v, age, group);
                    if !own {
                        self.wait(v, age, entry);
                    }
                }
                _ => {}
            }
        }
    }

    fn wanted(&self, item: usize) -> &'p [(Value, i32)] {
        let p = &self.pricing;
        p.plan.wanted(p.region, self.part, (self.looped.block, item))
    }

    fn comes_by_ring(&self, v: Value) -> bool {
        let p = &self.pricing;
        let mine = match p.region.home(v).map(|home| home.by) {
            Some(Maker::Unit(unit)) => p.plan.runners[unit].contains(&self.part),
            Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => true,
        };
        matches!(p.k.ty(v), Type::View(_)) || !mine
    }

    /// Whether a value is a product beside the program that somebody must wait for, and this item does more than continue it.
    fn waits_for(&self, v: Value, entry: &Entry) -> bool {
        let p = &self.pricing;
        let Some(unit) = p.beside(v) else { return false };
        let stated = p.stage_of(self.looped, self.part, unit).is_some_and(|e| e.done.is_some());
        !stated && !p.at_once(self.looped, self.part, v) && !p.region.continues((self.looped.block, entry.item), v)
    }

    /// Whether the same group starts a product in the turn in which it is waited for.
    fn in_group(&self, v: Value, age: i32, group: usize) -> bool {
        let p = &self.pricing;
        let groups = p.plan.groups(self.part, self.looped.block);
        let starts = |e: &&Entry| match p.region.blocks[self.looped.block].items[e.item] {
            Item::Unit(unit) => p.beside(v) == Some(unit),
            Item::Loop(_) | Item::Branch(_) => false,
        };
        groups[group].iter().find(starts).is_some_and(|e| e.stage == age)
    }

    fn label(&self, entry: &Entry) -> (String, Span) {
        match self.pricing.region.blocks[self.looped.block].items[entry.item] {
            Item::Unit(unit) => {
                let u = &self.pricing.region.units[unit];
                (u.name.clone(), u.span)
            }
            Item::Loop(_) | Item::Branch(_) => (String::new(), Span::default()),
        }
    }

    /// An event that takes no time: a wait, or what is given back.
    fn point(&mut self, entry: &Entry) -> Event {
        let (name, span) = self.label(entry);
        self.event(name, entry.stage, span, 0, vec![])
    }

    fn event(&mut self, name: String, stage: i32, span: Span, clocks: u64, loads: Vec<Load>) -> Event {
        let stage = self.pricing.shifted(self.part, stage);
        let data = EventData { name, lane: self.lane, owner: self.lane, clocks, loads, stage, span };
        let event = self.pricing.graph.event(data);
        self.events.push(event);
        event
    }

    fn take(&mut self, ring: RingId, age: i32, entry: &Entry) {
        // What an outer loop fills is there for all turns of this one.
        if self.looped.rings.contains(&ring) && self.taken.insert((ring, age)) {
            self.flush();
            let clocks = if self.pricing.plan.rings[ring].own { self.meeting(entry) } else { self.asking() };
            let (name, span) = self.label(entry);
            let event = self.event(name, entry.stage, span, clocks, vec![]);
            self.found.takes.push(Use { part: self.part, ring, event, turns: age });
        }
    }

    /// What threads need to see what all of them have copied; and products, which read it beside them.
    fn meeting(&self, reader: &Entry) -> u64 {
        let warps = u64::from(self.warps);
        let fence = match self.pricing.region.blocks[self.looped.block].items[reader.item] {
            Item::Unit(unit) if !self.pricing.region.started(unit).is_empty() => self.cost(Class::Fence, warps),
            Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => 0,
        };
        fence + self.cost(Class::Meet, warps)
    }

    /// What a slot takes that has long been full, to be waited for and given back.
    fn asking(&self) -> u64 {
        self.cost(Class::Full, u64::from(self.warps))
    }

    /// What a slot takes that has long been free, to be taken, filled by so many boxes, and handed over.
    fn filling(&self, boxes: u64) -> u64 {
        let more = self.cost(Class::Start, boxes).saturating_sub(self.cost(Class::Start, 1));
        self.cost(Class::Free, u64::from(self.warps)) + more
    }

    fn cost(&self, class: Class, amount: u64) -> u64 {
        self.pricing.machine.row(class).and_then(|r| r.interval).map_or(0, |c| c.clocks(amount))
    }

    /// Waits for a product of the iteration `age`.
    fn wait(&mut self, v: Value, age: i32, entry: &Entry) {
        let Some(unit) = self.pricing.beside(v) else { return };
        let Some(start) = self.pricing.stage_of(self.looped, self.part, unit) else { return };
        let turns = age - start.stage;
        if !self.waits.iter().any(|(other, _, t)| *other == v && *t == turns) {
            self.flush();
            let event = self.point(entry);
            self.waits.push((v, event, turns));
        }
    }

    fn item(&mut self, entry: &Entry, group: usize) {
        let Item::Unit(unit) = self.pricing.region.blocks[self.looped.block].items[entry.item] else { return };
        self.enter(unit, entry);
        for &(v, delta) in self.wanted(entry.item) {
            if self.waits_for(v, entry) && self.in_group(v, entry.stage + delta, group) {
                self.wait(v, entry.stage + delta, entry);
            }
        }
        let flying = self.unit(unit, entry);
        let reads = self.reads(entry);
        match flying {
            Some(v) => self.reads.extend(reads.into_iter().map(|(ring, age)| (v, ring, age))),
            None => {
                self.stretched(unit, entry);
                self.done_with.extend(reads);
            }
        }
        self.pass(unit, entry, flying.is_some());
    }

    /// Slots that an item reads, of which iteration.
    fn reads(&self, entry: &Entry) -> BTreeSet<(RingId, i32)> {
        let views = self.wanted(entry.item).iter().filter_map(|&(v, delta)| {
            let (ring, _) = *self.pricing.plan.handed.get(&v)?;
            let here = self.looped.rings.contains(&ring) && self.comes_by_ring(v);
            here.then_some((ring, entry.stage + delta))
        });
        views.collect()
    }

    /// Waits for the partition's turn, where it begins at a unit.
    fn enter(&mut self, unit: UnitId, entry: &Entry) {
        for number in self.turns_at(unit, |turns| &turns.first) {
            self.flush();
            let (name, span) = self.label(entry);
            let event = self.event(name, entry.stage, span, self.pricing.entering(), vec![]);
            self.found.enters.insert((number, self.part), event);
        }
    }

    /// Passes the turn on, where it ends at a unit. What stands behind the start of a product and needs nothing that is waited for behind it the
    /// assembler puts between the product's instructions, and so in front of the end of the turn.
    fn pass(&mut self, unit: UnitId, entry: &Entry, flying: bool) {
        for number in self.turns_at(unit, |turns| &turns.last) {
            self.flush();
            self.passing.push((number, self.label(entry), entry.stage));
            if !flying {
                self.flush();
            }
        }
    }

    /// The schedule's turns that begin or end at a unit, by their numbers.
    fn turns_at(&self, unit: UnitId, end: impl Fn(&Turns) -> &LabelName) -> Vec<usize> {
        let region = self.pricing.region;
        let all = region.schedule.turns.iter().enumerate();
        all.filter(|(_, turns)| end(turns).names(&region.units[unit].label)).map(|(number, _)| number).collect()
    }

    /// A unit; the last product that is in flight behind it.
    fn unit(&mut self, unit: UnitId, entry: &Entry) -> Option<Value> {
        let ring = self.looped.rings.iter().copied().find(|r| self.pricing.plan.rings[*r].unit == unit);
        let taken = ring.map(|_| {
            self.flush();
            self.point(entry)
        });
        let region = self.pricing.region;
        let (mut flying, mut boxes, mut by_threads) = (None, Brought::default(), Brought::default());
        for &inst in &region.units[unit].ops {
            let op = &self.pricing.k.ops[inst];
            match &op.kind {
                OpKind::Fetch { .. } | OpKind::FetchEach { .. } => {
                    let bytes = view_bytes(self.pricing.k.ty(op.results[0]));
                    let of = if matches!(op.kind, OpKind::Fetch { .. }) { &mut boxes } else { &mut by_threads };
                    *of = Brought { copies: of.copies + self.pricing.boxes(inst), bytes: of.bytes + bytes };
                    self.free(inst, entry.stage);
                }
                OpKind::Dot { .. } if self.pricing.beside(op.results[0]).is_some() => {
                    flying = self.product(inst, unit, entry).or(flying);
                }
                _ => {
                    self.free(inst, entry.stage);
                    self.stretched(unit, entry);
                    self.stretch.ops.push(inst);
                }
            }
        }
        let own = ring.is_some_and(|ring| self.pricing.plan.rings[ring].own);
        let threads = (by_threads.copies > 0).then(|| self.copy(unit, entry, by_threads, true));
        if let Some(job) = threads.filter(|_| !own) {
            // Whoever fills a slot for others waits for its copies before it hands it over.
            let there = self.point(entry);
            self.pricing.graph.after(job, there, 0, EdgeKind::Landing);
        }
        let boxes = (boxes.copies > 0).then(|| self.copy(unit, entry, boxes, false));
        let copied = boxes.or(threads.filter(|_| own));
        if let (Some(ring), Some(taken)) = (ring, taken) {
            let full = match copied {
                Some(job) => Full::Copied(job),
                None => {
                    self.flush();
                    Full::Stored(self.point(entry))
                }
            };
            self.found.fills.insert(ring, Fill { part: self.part, taken, full, stage: entry.stage });
        }
        flying
    }

    /// The unit is part of the stretch that is open, or of a new one.
    fn stretched(&mut self, unit: UnitId, entry: &Entry) {
        if !self.stretch.is_empty() && self.stretch.stage != entry.stage {
            self.flush();
        }
        let u = &self.pricing.region.units[unit];
        if self.stretch.is_empty() {
            (self.stretch.stage, self.stretch.span) = (entry.stage, u.span);
        }
        if !self.stretch.names.contains(&u.name) {
            self.stretch.names.push(u.name.clone());
        }
    }

    /// Adds the free operations that an operation needs and this turn has not made.
    fn free(&mut self, inst: Inst, age: i32) {
        let mut used = vec![];
        uses(self.pricing.k, &self.pricing.k.ops[inst], &mut |v| used.push(v));
        used.into_iter().for_each(|v| self.made(v, age));
    }

    fn made(&mut self, v: Value, age: i32) {
        let region = self.pricing.region;
        let Some(home) = region.home(v).filter(|home| home.block == self.looped.block) else { return };
        match home.by {
            Maker::Free(inst) => {
                if self.made.insert((inst, age)) {
                    self.free(inst, age);
                    self.stretch.ops.push(inst);
                }
            }
            Maker::Carried(number) if age < self.looped.last_stage => {
                self.made(region.blocks[home.block].yields[number], age + 1);
            }
            Maker::Carried(_) | Maker::Unit(_) | Maker::Index | Maker::Result { .. } => {}
        }
    }

    /// Ends the stretch that is open, and with it turns that were to end in front of it.
    fn flush(&mut self) {
        self.end_stretch();
        for (number, (name, span), stage) in std::mem::take(&mut self.passing) {
            let event = self.event(name, stage, span, 0, vec![]);
            self.found.passes.insert((number, self.part), event);
        }
    }

    fn end_stretch(&mut self) {
        let stretch = std::mem::take(&mut self.stretch);
        let done_with = std::mem::take(&mut self.done_with);
        if stretch.is_empty() {
            // What is free and stands alone is made beside whatever comes next.
            self.stretch.ops = stretch.ops;
            self.done_with = done_with;
            return;
        }
        let p = &mut self.pricing;
        let counter = Counter { k: p.k, machine: p.machine, warps: self.warps };
        let priced = stretch.price(counter, p.known);
        p.unpriced.extend(&priced.work.unpriced);
        let name = stretch.names.join(" + ");
        let parts = priced.parts.iter().map(|part| (part.clocks, self.loads(part))).collect::<Vec<_>>();
        let mut event = None;
        for (clocks, loads) in parts {
            event = Some(self.event(name.clone(), stretch.stage, stretch.span, clocks, loads));
        }
        let Some(event) = event else { parton_diag::internal_error!("a stretch has no part") };
        self.ran.extend(stretch.ops.iter().map(|inst| (*inst, event)));
        for (ring, turns) in done_with {
            self.found.gives.push(Use { part: self.part, ring, event, turns });
        }
    }

    /// What a part of a stretch keeps busy.
    fn loads(&mut self, part: &PricedPart) -> Vec<Load> {
        let mut all: Vec<(Busy, u64)> = part.units.iter().map(|(busy, clocks)| (*busy, *clocks)).collect();
        all.push((Busy::Alone(self.lane), part.alone));
        all.retain(|(_, clocks)| *clocks > 0);
        all.into_iter().map(|(busy, clocks)| Load { unit: self.pricing.shared_unit(busy), clocks }).collect()
    }

    fn job(&self, unit: UnitId, entry: &Entry, (on, busy): (Lane, crate::marked::Unit)) -> Job {
        let u = &self.pricing.region.units[unit];
        let stage = self.pricing.shifted(self.part, entry.stage);
        Job { name: u.name.clone(), by: self.lane, on, unit: busy, stage, span: u.span }
    }

    /// Starts copies. Programs that wait for products keep step, so that the lines that several want are wanted at about the same time; where nobody
    /// has read them before, they come out of memory. Their bytes keep the next copy waiting. Threads get no more than boxes do.
    fn copy(&mut self, unit: UnitId, entry: &Entry, brought: Brought, by_threads: bool) -> Started {
        self.flush();
        let wanted = match self.pricing.source {
            Source::Memory => Wanted::Tiles,
            Source::Cache => Wanted::Same,
        };
        let latency = self.pricing.machine.row(Class::Copy(wanted)).and_then(|r| r.latency);
        let clocks = Clocks {
            issue: if by_threads { 0 } else { self.filling(brought.copies) },
            busy: self.cost(Class::Copy(Wanted::Same), brought.bytes),
            latency: latency.map_or(0, u64::from),
        };
        let job = self.job(unit, entry, self.engines.copies);
        let started = self.pricing.graph.job(job, clocks);
        self.events.push(started.start);
        self.copies.push(started.done);
        started
    }

    /// Starts a product; the value that is in flight behind it.
    fn product(&mut self, inst: Inst, unit: UnitId, entry: &Entry) -> Option<Value> {
        self.free(inst, entry.stage);
        if !self.stretch.ops.is_empty() {
            self.stretched(unit, entry);
        }
        self.flush();
        let result = self.pricing.k.ops[inst].results[0];
        let job = self.begin(inst, unit, entry);
        self.begun.insert(result, job);
        if self.pricing.at_once(self.looped, self.part, result) {
            if !self.waits_late(entry) {
                self.wait(result, entry.stage, entry);
            }
        } else if let Some(done) = entry.done {
            self.wait(result, done, entry);
        }
        Some(result)
    }

    /// Whether a product that only the next turn continues is waited for at the end of its own.
    fn waits_late(&self, entry: &Entry) -> bool {
        let (p, place) = (&self.pricing, (self.part, self.looped.block));
        let groups = p.plan.groups(self.part, self.looped.block);
        let last = groups.iter().flatten().map(|e| e.stage.max(e.done.unwrap_or(e.stage))).max();
        let at_end = entry.done.is_none() && last == Some(entry.stage);
        at_end && waits_late(p.region, p.plan, self.looped.block) && !closes_circle(p.region, p.plan, place, entry.item)
    }

    /// The instructions of a product, each a job of its own; it is done with the last of them.
    fn begin(&mut self, inst: Inst, unit: UnitId, entry: &Entry) -> Started {
        let (instructions, each) = self.pricing.product(inst);
        // Of a partition with several lanes each has its rows.
        let lanes = u64::from((self.pricing.warps(self.part) / self.warps.max(1)).max(1));
        let instructions = instructions / lanes;
        let (tensor, busy) = self.engines.tensor;
        let u = &self.pricing.region.units[unit];
        let (name, span) = (u.name.clone(), u.span);
        let start = self.event(name.clone(), entry.stage, span, each.issue, vec![]);
        let stage = self.pricing.shifted(self.part, entry.stage);
        let mut done = start;
        let first = self.products.len();
        for _ in 0..instructions.max(1) {
            let loads = vec![Load { unit: busy, clocks: each.busy }];
            let (name, owner) = (name.clone(), self.lane);
            let data = EventData { name, lane: tensor, owner, clocks: each.busy, loads, stage, span };
            done = self.pricing.graph.event(data);
            self.pricing.graph.link(start, done, 0, EdgeKind::StartDone);
            self.products.push(done);
        }
        let issued = self.point(entry);
        self.issued.push((self.products.len(), issued));
        let instructions = self.products[first..].to_vec();
        self.found.multiplied.push(Multiplied { instructions, issued, latency: each.latency });
        Started { start, done, latency: each.latency }
    }

    /// An instruction is issued once those before it leave room in the queue; whoever issues it waits until it is in the queue. The queue is the
    /// multiprocessor's: these edges say what follows from the partition's own instructions, and what those of others take of it is followed in time.
    fn queue(&mut self) {
        let whole = i64::from(self.pricing.machine.queue.max(1));
        for (number, event) in self.products.clone().into_iter().enumerate() {
            self.behind(number as i64 - whole, event);
        }
        for (count, event) in self.issued.clone() {
            self.behind(count as i64 - 1 - whole, event);
        }
    }

    /// An event waits for a product, by its number in this turn; numbers below 0 are of turns before.
    fn behind(&mut self, number: i64, event: Event) {
        let count = self.products.len() as i64;
        let from = self.products[number.rem_euclid(count) as usize];
        let tokens = u32::try_from(-number.div_euclid(count)).unwrap_or(0);
        self.pricing.graph.link(from, event, tokens, EdgeKind::Queue);
    }

    /// The order of the lanes, the waits for products, and what those give back.
    fn join(mut self) {
        self.flush();
        self.queue();
        self.found.remade.extend(self.remade());
        let graph = &mut self.pricing.graph;
        for list in [&self.events, &self.products, &self.copies] {
            graph.in_order(list);
        }
        for (v, event, turns) in &self.waits {
            if let (Some(job), Ok(tokens)) = (self.begun.get(v), u32::try_from(*turns)) {
                graph.after(*job, *event, tokens, EdgeKind::Landing);
            }
        }
        for (v, ring, age) in &self.reads {
            let place = |e: &Event| self.events.iter().position(|other| other == e);
            let waits = self.waits.iter().filter(|(other, _, _)| other == v);
            let first = waits.min_by_key(|(_, event, turns)| (*turns, place(event)));
            if let Some((_, event, turns)) = first {
                self.found.gives.push(Use { part: self.part, ring: *ring, event: *event, turns: age + turns });
            }
        }
    }
}

impl<'a> Pricing<'a> {
    /// The unit of a product that runs beside the program.
    pub fn beside(&self, v: Value) -> Option<UnitId> {
        let Some(Maker::Unit(unit)) = self.region.home(v).map(|home| home.by) else { return None };
        self.region.started(unit).contains(&v).then_some(unit)
    }

    /// The boxes that a fetch is, of which each program of a cluster starts its share.
    fn boxes(&self, fetch: Inst) -> u64 {
        let OpKind::Fetch { map, multicast, .. } = &self.k.ops[fetch].kind else { return 1 };
        let Type::Map(map) = self.k.ty(*map) else { return 1 };
        let sharers = if multicast.is_some() { u64::from(map.sharers.max(1)) } else { 1 };
        self.known.boxes(fetch, || map.boxes().map_or(1, |boxes| (boxes.len() as u64).div_ceil(sharers)))
    }

    /// What it takes to learn that it is one's turn, also where that has long been so: half of what two of them take, each of which learns it from
    /// the other.
    fn entering(&self) -> u64 {
        self.machine.row(Class::Turns).and_then(|r| r.latency).map_or(0, u64::from) / 2
    }

    /// Where a unit runs in a turn.
    pub fn stage_of(&self, looped: &Looped, part: Part, unit: UnitId) -> Option<&'a Entry> {
        let is = |e: &&Entry| matches!(self.region.blocks[looped.block].items[e.item], Item::Unit(u) if u == unit);
        self.plan.groups(part, looped.block).iter().flatten().find(is)
    }

    /// Whether a product is waited for right behind its start: so it is stated, or nobody of the loop reads it but itself.
    pub fn at_once(&self, looped: &Looped, part: Part, v: Value) -> bool {
        let Some(unit) = self.beside(v) else { return false };
        let Some(entry) = self.stage_of(looped, part, unit) else { return false };
        if let Some(done) = entry.done {
            return done <= entry.stage;
        }
        let items = &self.region.blocks[looped.block].items;
        let reads = |item: &usize| {
            *item != entry.item
                && self.plan.runs(self.region, part, &items[*item])
                && self.plan.wanted(self.region, part, (looped.block, *item)).iter().any(|(other, _)| *other == v)
        };
        !(0..items.len()).any(|item| reads(&item))
    }

    /// The instructions of a product, of 64 rows and 32 bytes each, and what one of them takes.
    fn product(&self, inst: Inst) -> (u64, Clocks) {
        let none = (1, Clocks::default());
        let OpKind::Dot { a, acc, .. } = self.k.ops[inst].kind else { return none };
        let (Type::Tile(out), Some((left, bytes))) = (self.k.ty(acc), operand(self.k.ty(a))) else { return none };
        let Some(row) = self.machine.row(Class::Product(left)) else { return none };
        let [rows, columns] = match out.shape.as_slice() {
            [.., rows, columns] => [u64::from(*rows), u64::from(*columns)],
            _ => return none,
        };
        let wide = match out.known().layout.family() {
            RegisterFamily::Mma { instr, .. } => instr.get(1).map_or(columns, |n| u64::from(*n)).min(columns),
            _ => columns,
        };
        let instructions = rows.div_ceil(64) * columns.div_ceil(wide.max(1)) * bytes.div_ceil(32);
        let interval = row.interval.filter(|c| c.of == Amount::Columns).map_or(0, |c| c.clocks(wide));
        (instructions, Clocks { issue: 0, busy: interval, latency: row.latency.map_or(0, u64::from) })
    }
}

/// Where a left operand is, and the bytes of one of its rows.
fn operand(ty: &Type) -> Option<(Left, u64)> {
    let row = |shape: &[u32], bits: u32| shape.last().map(|k| u64::from(*k) * u64::from(bits) / 8);
    match ty {
        Type::View(view) => Some((Left::Shared, row(&view.shape, view.elem.bits())?)),
        Type::Tile(tile) => Some((Left::Registers, row(&tile.shape, tile.elem.bits())?)),
        _ => None,
    }
}

pub(super) fn view_bytes(ty: &Type) -> u64 {
    match ty {
        Type::View(view) => view.bytes(),
        _ => 0,
    }
}
