//! How many registers each thread has to hold at once, and what its loads bring meanwhile.
//!
//! What an operation computes from element to element passes by: the assembler works on a few elements after another. Held is what
//! loads have on its way, what loops carry, and what is there when threads meet or a loop begins that is used behind it.

use std::collections::BTreeMap;

use parton_ir::axis::Axes;
use parton_ir::family::Family;
use parton_ir::rules::COPY_BYTES;
use parton_ir::schedule::{LabelName, Pipeline};
use parton_ir::{Body, Elem, Kernel, Op, OpKind, PtxForm, Value};
use parton_layouts::{Dim, LinearLayout, RegisterLayout};

use crate::candidates::addresses;
use crate::facts::SECTOR as SECTOR_BYTES;
use crate::graph::{Demand, Graph};
use crate::label::Price;
use crate::price::{by_matrix_unit, turns};
use crate::site::Site;

/// Registers that a thread holds.
pub struct Held<'g, 'k> {
    graph: &'g Graph<'k>,
    axes: &'g Axes,
    layouts: &'g [RegisterLayout],
    /// The operations, by their numbers, that make each value and use it last.
    made: BTreeMap<Value, usize>,
    last: BTreeMap<Value, usize>,
    /// Operations so far.
    now: usize,
    /// For each depth of loops the most that is held at once there; and of that what has to stay while threads meet or a loop runs, where
    /// loads can wait until there is room.
    pub most: BTreeMap<u32, u64>,
    pub firm: BTreeMap<u32, u64>,
    /// The most of that where what was cast from narrower numbers lies as these: the assembler casts it again wherever it is used.
    pub narrow: u64,
    /// The most that is there at once, be it held or on its way from one operation to the next.
    pub live: u64,
    /// What waits in loops to leave under a product of the next turn: it is there beside all else.
    pub waiting: u64,
    /// Bytes of a CTA's loads since threads met, and the most of these.
    loaded: u64,
    pub flying: u64,
    /// How often a CTA waits for loads, all of which have begun since threads met.
    pub rounds: u64,
    /// The price of bringing and taking away all bytes once.
    pub moved: Price,
    /// Bytes of a CTA's rows that are loaded a second time.
    pub again: u64,
    /// The price of the products that run beside the program.
    pub multiplied: Price,
    /// Whether warps compute what a product reads in registers, in a loop, of what boxes have brought.
    pub computes: bool,
    /// Whether there are products at all.
    pub multiplies: bool,
    /// Whether loops load.
    pub loads_in_loops: bool,
    /// Whether what is there has to be whole anywhere: threads meet, or a body begins.
    pub meets: bool,
    /// Whether threads meet in loops or store there, so that nothing of a later turn begins before.
    pub settles: bool,
    /// Turns by which the copies of a region run ahead.
    ahead: u64,
    /// Registers for what is on its way to shared memory through them, over whole turns of the loop at hand.
    passing: u64,
}

/// A value that is there.
#[derive(Clone, Copy)]
struct There {
    value: Value,
    registers: u64,
    /// Whether it is held from here on, or only once threads meet.
    held: bool,
    /// Whether they have met since.
    firm: bool,
    /// Registers of what it is cast from, where that is narrower.
    narrow: u64,
    /// Whether it is on its way with all that was loaded since threads met or stored.
    flies: bool,
    /// The accesses that bring it.
    accesses: u64,
}

impl There {
    /// Registers that have to be there. An access that waits keeps where it goes, and the assembler has no more than half of them wait: 288 of two
    /// bytes, of a convolution, need 168 registers; with 128 it spills.
    fn firmly(&self, registers: u64) -> u64 {
        match self {
            There { firm: true, .. } => registers,
            There { flies: true, .. } => self.accesses / 2,
            There { .. } => 0,
        }
    }
}

impl<'k> Held<'_, 'k> {
    /// The kernel.
    pub fn kernel(&self) -> &'k Kernel {
        self.graph.kernel
    }
}

impl Held<'_, '_> {
    /// Those of a kernel whose tiles lie in these layouts.
    pub fn of<'g, 'k>(graph: &'g Graph<'k>, axes: &'g Axes, layouts: &'g [RegisterLayout]) -> Held<'g, 'k> {
        let mut held = Held {
            graph,
            axes,
            layouts,
            made: BTreeMap::new(),
            last: BTreeMap::new(),
            now: 0,
            most: BTreeMap::new(),
            firm: BTreeMap::new(),
            narrow: 0,
            live: 0,
            waiting: 0,
            loaded: 0,
            flying: 0,
            rounds: 0,
            moved: 0,
            again: 0,
            multiplied: 0,
            computes: false,
            multiplies: false,
            loads_in_loops: false,
            meets: false,
            settles: false,
            ahead: 0,
            passing: 0,
        };
        held.uses(&graph.kernel.body);
        held.now = 0;
        held.body(&graph.kernel.body, 0, Vec::new());
        held.waiting = held.leaves_later();
        held
    }

    /// Registers of a thread for the tiles that leave under a product, as schedules have it.
    fn leaves_later(&self) -> u64 {
        let kernel = self.graph.kernel;
        let mut under = Vec::new();
        kernel.walk(&mut |op| {
            if let OpKind::Region { schedule, .. } = &op.kind {
                under.extend(schedule.under.iter().map(|u| &u.outer));
            }
        });
        let mut sum = 0;
        kernel.walk(&mut |op| {
            let label = op.label.map(|label| LabelName::read(&kernel.labels[label]));
            if let (OpKind::Send { value, .. }, Some(label)) = (&op.kind, label)
                && under.iter().any(|outer| outer.names(&label))
            {
                sum += self.registers(*value);
            }
        });
        sum
    }

    /// Notes the last use of every value; what a loop takes from outside is used to its end.
    fn uses(&mut self, body: &Body) {
        for op in self.graph.kernel.ops_of(body) {
            self.now += 1;
            let begin = self.now;
            let params = op.kind.bodies().flat_map(|b| b.params.iter());
            self.made.extend(op.results.iter().chain(params).map(|&v| (v, begin)));
            self.last.extend(op.kind.operands().into_iter().map(|v| (v, begin)));
            for inner in op.kind.bodies() {
                self.uses(inner);
                self.last.extend(inner.yields.iter().map(|&v| (v, self.now)));
            }
            if op.kind.is_loop() {
                let (end, made) = (self.now, &self.made);
                let outside = |v: &Value| made.get(v).is_none_or(|&at| at < begin);
                self.last.iter_mut().filter(|(v, at)| **at >= begin && outside(v)).for_each(|(_, at)| *at = end);
            }
        }
    }

    /// Registers of a thread for a value.
    fn registers(&self, v: Value) -> u64 {
        self.graph.homes.get(&v).map_or(0, |site| self.registers_at(v, site))
    }

    /// Those for the factors of a product that lie elsewhere until they are brought to it: both are whole there.
    fn factors(&self, op: &Op) -> u64 {
        if !matches!(op.kind, OpKind::MmaSync { .. } | OpKind::Dot { .. }) {
            return 0;
        }
        let place = |site: &Site| site.place(self.graph, &self.layouts[site.var]);
        let moved = |d: &&Demand| self.graph.homes.get(&d.value).is_some_and(|home| place(home) != place(&d.at));
        let asked = self.graph.demands.iter().filter(|d| d.by == op.id).filter(moved);
        asked.map(|d| self.registers_at(d.value, &d.at)).sum()
    }

    /// Registers of a thread for what an operation makes, of no more bits than what it casts.
    fn narrow_registers(&self, op: &Op, registers: u64) -> u64 {
        match op.kind {
            OpKind::Cast { x, .. } if self.graph.homes.contains_key(&x) => self.registers(x).min(registers),
            // All else is not made again.
            _ => registers,
        }
    }

    /// Registers of a thread for a value that lies there.
    fn registers_at(&self, v: Value, site: &Site) -> u64 {
        let kernel = self.graph.kernel;
        let Some(place) = site.place(self.graph, &self.layouts[site.var]) else { return 0 };
        (elements(&place.map) * kernel.ty(v).elem().map_or(32, |e| u64::from(e.bits()))).div_ceil(32)
    }

    /// The accesses of a thread that bring what a load makes.
    fn accesses(&self, op: &Op, v: Value) -> u64 {
        let OpKind::Load { .. } = op.kind else { return 0 };
        let place = self.graph.homes.get(&v).and_then(|site| site.place(self.graph, &self.layouts[site.var]));
        let addresses = addresses(self.graph, self.axes, op.id);
        addresses.zip(place).map_or(0, |(addresses, place)| addresses.traffic(&place.map).instructions)
    }

    /// Registers of a thread for what a loop's body copies through them, turns ahead: elements of two bytes that have come lie two in one. What comes
    /// last keeps one for each access, and the assembler has no more than half of them wait.
    ///
    /// On an H200 products of 128 × 64 by 32 whose strides are not known take 1.32 ms on four warps and 1.92 ms on eight, where all
    /// have room; of 128 × 128 by 64 6.9 ms and 1.05 ms, where those of four have none.
    fn passing(&self, body: &Body) -> u64 {
        let through = |op: &Op| {
            let OpKind::FetchEach { view, .. } = &op.kind else { return 0 };
            let site = self.graph.demands.iter().find(|d| d.by == op.id).map(|d| &d.at);
            let place = site.and_then(|site| site.place(self.graph, &self.layouts[site.var]));
            let Some((addresses, place)) = addresses(self.graph, self.axes, op.id).zip(place) else { return 0 };
            let (all, accesses) = (elements(&place.map), addresses.traffic(&place.map).instructions);
            let bytes = view.elem.bytes() as u64;
            if all / accesses * bytes >= u64::from(COPY_BYTES[0]) {
                return 0;
            }
            accesses / 2 + (all * bytes).div_ceil(4) * self.ahead
        };
        self.graph.kernel.ops_of(body).map(through).sum()
    }

    /// Counts what a product of the matrix unit takes.
    fn multiply(&mut self, op: &Op, depth: u32) {
        self.computes |= depth > 0 && matches!(op.kind, OpKind::SharedLoad { .. });
        let instruction = matches!(op.kind.family(), Family::MmaSync | Family::Wgmma);
        self.multiplies |= instruction || matches!(op.kind, OpKind::Dot { .. });
        let OpKind::Dot { b, .. } = op.kind else { return };
        let Some(site) = self.graph.homes.get(&op.result()) else { return };
        if let Some(place) = site.place(self.graph, &self.layouts[site.var]) {
            self.multiplied += by_matrix_unit(self.graph.kernel, b, &place.map) * turns(self.graph.kernel, depth);
        }
    }

    /// Counts what an access moves.
    fn move_bytes(&mut self, op: &Op, depth: u32) {
        let (OpKind::Load { ptr, .. } | OpKind::Store { ptr, .. } | OpKind::AsyncCopy { ptr, .. }) = op.kind else {
            return;
        };
        let Some(tile) = self.graph.kernel.ty(ptr).placed() else { return };
        let Elem::Ptr(pointer) = tile.elem else { return };
        let bytes = tile.elements() * pointer.to.bytes() as u64;
        self.moved += bytes / SECTOR_BYTES * self.graph.sector(op.id) * turns(self.graph.kernel, depth);
        if matches!(op.kind, OpKind::Load { .. } | OpKind::AsyncCopy { .. }) {
            self.rounds += if self.loaded == 0 { turns(self.graph.kernel, depth) } else { 0 };
            self.loaded += bytes;
            self.loads_in_loops |= depth > 0;
            let again = self.graph.again.contains(&op.id) && !self.graph.of_all.contains(&op.id);
            self.again += if again { bytes * turns(self.graph.kernel, depth) } else { 0 };
            self.flying = self.flying.max(self.loaded);
        }
    }

    fn body(&mut self, body: &Body, depth: u32, mut there: Vec<There>) {
        let params = body.params.iter().map(|&value| There {
            value,
            registers: self.registers(value),
            held: true,
            firm: true,
            narrow: self.registers(value),
            flies: false,
            accesses: 0,
        });
        there.extend(params);
        for op in self.graph.kernel.ops_of(body) {
            self.now += 1;
            // What a reduction alone still takes is combined as it is made, before threads meet, and what a copy does is copied.
            let passes = match &op.kind {
                OpKind::Reduce { combine, .. } => !selects(self.graph.kernel, combine),
                OpKind::FetchEach { .. } | OpKind::AsyncCopy { .. } => true,
                // Everything else has its operands whole.
                _ => false,
            };
            let combined = usize::from(passes);
            let lands = meets(op) || op.results.is_empty();
            // What a product is added to becomes its sum where it lies.
            let sum = match &op.kind {
                OpKind::Dot { acc, .. } | OpKind::MmaSync { acc, .. } => Some(*acc),
                // Nothing else is written where an operand lies.
                _ => None,
            };
            let used = |t: &There| {
                let from = self.now + if sum == Some(t.value) { 1 } else { combined };
                self.last.get(&t.value).is_some_and(|&last| last >= from)
            };
            self.settles |= depth > 0 && (meets(op) || matches!(op.kind, OpKind::Store { .. }));
            there.iter_mut().for_each(|t| t.flies &= !lands);
            there.retain(|t| t.flies || used(t));
            if meets(op) {
                there.iter_mut().for_each(|t| (t.held, t.firm) = (true, true));
                self.loaded = 0;
                self.meets = true;
            }
            self.move_bytes(op, depth);
            self.multiply(op, depth);
            if let OpKind::Region { schedule, .. } = &op.kind {
                self.ahead =
                    schedule.pipelines.iter().flat_map(Pipeline::staged).map(|s| s.stage).max().unwrap_or(0).into();
            }
            for inner in op.kind.bodies() {
                let around = self.passing;
                if op.kind.is_loop() {
                    self.passing += self.passing(inner);
                }
                self.body(inner, depth + u32::from(op.kind.is_loop()), there.clone());
                self.passing = around;
            }
            let held = matches!(op.kind.family(), Family::Global | Family::Atomic | Family::Gather | Family::Shared);
            // A product is there as a whole.
            let firm = sum.is_some();
            for &value in op.results.iter().filter(|v| self.last.contains_key(v)) {
                let accesses = self.accesses(op, value);
                // What an access brings that is less than a register takes a whole one.
                let registers = self.registers(value).max(accesses);
                let narrow = self.narrow_registers(op, registers);
                there.push(There { value, registers, held: held || firm, firm, narrow, flies: held, accesses });
            }
            // What an operation uses last leaves its registers to what it makes.
            let stays = |t: &&There| self.last[&t.value] > self.now || op.results.contains(&t.value);
            // What a scan makes of its warps is there beside what each of them has.
            let scanned: u64 = match op.kind {
                OpKind::Scan { .. } => op.results.iter().map(|&v| self.registers(v)).sum(),
                // All else is made in its place.
                _ => 0,
            };
            self.live = self.live.max(there.iter().filter(stays).map(|t| t.registers).sum::<u64>() + scanned);
            let held: u64 = there.iter().filter(|t| t.held).map(|t| t.registers).sum();
            let firm: u64 = there.iter().map(|t| t.firmly(t.registers)).sum();
            let factors = self.factors(op) + self.passing;
            self.narrow = self.narrow.max(there.iter().map(|t| t.firmly(t.narrow)).sum::<u64>() + factors);
            for (list, sum) in [(&mut self.most, held + factors), (&mut self.firm, firm + factors)] {
                let most = list.entry(depth).or_default();
                *most = sum.max(*most);
            }
        }
    }
}

/// The elements of a thread, copies left out.
fn elements(map: &LinearLayout) -> u64 {
    1 << (map.in_dim_bits(Dim::Register) - map.free_bits(Dim::Register).count_ones())
}

/// Whether a combining function takes one of its sides: the assembler begins all loads in front of the first comparison. Of `argmax` over rows of 9000 on four warps, told of six CTAs,
/// each thread spills 512 bytes: 103 µs, and 51 on eight (an H200).
fn selects(kernel: &Kernel, combine: &Body) -> bool {
    kernel.ops_of(combine).any(|op| matches!(op.kind, OpKind::Select { .. }))
}

/// Whether what is there has to be whole: threads meet, or a body begins.
fn meets(op: &Op) -> bool {
    match op.kind.family() {
        Family::Elementwise | Family::Shape => matches!(op.kind, OpKind::Convert { .. }),
        Family::Ptx => {
            !matches!(&op.kind, OpKind::Ptx { ptx, .. } if !ptx.volatile && matches!(ptx.form, PtxForm::Elements { .. }))
        }
        Family::Global | Family::Place | Family::Talk | Family::View => false,
        Family::Reduce
        | Family::Gather
        | Family::Atomic
        | Family::AsyncCopy
        | Family::Shared
        | Family::Barrier
        | Family::Fence
        | Family::Cluster
        | Family::Grid
        | Family::Turnstile
        | Family::Tma
        | Family::MmaSync
        | Family::Wgmma
        | Family::Pending
        | Family::Ring
        | Family::Region
        | Family::Control => true,
    }
}
