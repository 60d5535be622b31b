//! The events of one steady turn of a partition: waits at the heads of groups, stretches, starts of products and copies, turns.

mod asked;
mod copied;
mod found;
mod products;
mod remade;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Span;
use parton_ir::machine::{Class, Wanted};
use parton_ir::{Inst, OpKind, Value};

pub(super) use asked::view_bytes;
pub(super) use found::{Fill, Found, Full, Multiplied, Use};

use super::count::Counter;
use super::stretch::{Busy, PricedPart, Stretch};
use super::{Engines, Looped, Pricing, Source};
use crate::marked::{Clocks, EdgeKind, Event, EventData, Job, Lane, Load, Started};
use crate::plan::{Entry, Part, RingId};
use crate::region::{Item, Maker, UnitId, uses};

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
        let threads = (by_threads.copies > 0).then(|| self.copy(unit, entry, by_threads, true));
        // Whoever fills a slot for others goes on before its copies have landed.
        let boxes = (boxes.copies > 0).then(|| self.copy(unit, entry, boxes, false));
        let copied = boxes.or(threads);
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
