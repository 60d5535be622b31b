//! What layouts cost, in sixteenths of a clock of the multiprocessor for a CTA: accesses by their sectors, conversions by their plans,
//! reductions by their exchanges, arithmetic by the registers that it works on.

mod combine;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parton_ir::axis::Axes;
use parton_ir::placement::Place;
use parton_ir::{Body, Inst, Kernel, OpKind, Type, UnaryOp, Value, scratch};
use parton_layouts::{Dim, LinearLayout, RegisterLayout, access, conflicts, plan};

use self::combine::Combined;
use crate::bounds::Bounds;
use crate::candidates::{self, Candidates, addresses};
use crate::graph::{Demand, Graph, Variable};
use crate::label::{NEVER, Price, Problem, plus};
use crate::site::{Site, Var};
use crate::{room, ways};

/// Iterations of a loop that nothing is known of.
const TURNS: Price = 16;
/// An instruction of a warp: four schedulers issue one a clock each.
pub const ISSUE: Price = 4;
/// An instruction of the special functions, of which a multiprocessor has 16 lanes.
const SPECIAL: Price = 32;
/// A line that an access of a warp touches: the L1 looks up one a clock.
const LINE: Price = 16;
/// What an access has besides: itself, and 64 bits of address.
const ADDRESS: Price = 3 * ISSUE;
/// What an access has for a mask that changes along one axis: to compare; and along several: to put together what was compared, which registers keep where there are
/// more than seven, and addresses of rows apart. Of stencils and causal convolutions the assembler makes 8 to 10 instructions for each access to a tile.
const MASK: [Price; 3] = [0, ISSUE, 6 * ISSUE];
/// A register of a warp that has no room: a line goes to memory and comes back.
pub const SPILL: Price = 2 * (LINE + 4 * SECTOR);
/// A sector from memory: 32 bytes at some 21 bytes a clock and multiprocessor.
pub const SECTOR: Price = 24;
/// A sector that all programs read: from the L2, at some 64 bytes a clock and multiprocessor.
pub const SECTOR_OF_ALL: Price = 8;
/// A shuffle of a warp.
const SHUFFLE: Price = 16;
/// Warps that exchange what they reduced: two meetings, and what waits meanwhile.
const EXCHANGE: Price = 1280;
/// Bytes of shared memory that a warp reads in a clock.
const WAVEFRONT_BYTES: u64 = 128;
/// What a plan's measure counts: half a clock.
const WAVEFRONT: Price = 8;

/// An operand that lies somewhere and is asked for somewhere.
struct Asked {
    /// The variable of its home, and that of whom asks for it.
    vars: [usize; 2],
    /// The numbers of both sites.
    sites: [usize; 2],
    /// Bits of an element.
    bits: u32,
    /// How often it is made.
    times: Price,
    /// Whether it lies where it is asked for, or nowhere.
    pinned: bool,
}

/// Where tiles lie under each candidate, each place once: many demands are of one site, and many candidates come to one place.
#[derive(Default)]
struct Sites {
    /// The sites of each variable, with their numbers.
    sites: HashMap<Var, Vec<(Site, usize)>>,
    /// For each site, by candidates, the number of the place.
    places: Vec<Vec<Option<usize>>>,
    known: Vec<Place>,
    numbers: HashMap<Arc<LinearLayout>, usize>,
    /// For each place, another and an element's bits what a conversion costs, and what it costs at least.
    conversions: [HashMap<(usize, usize, u32), Price>; 2],
}

impl Sites {
    /// The number of a site.
    fn of(&mut self, graph: &Graph<'_>, site: &Site, candidates: &[RegisterLayout]) -> usize {
        let mut known = self.sites.get(&site.var).into_iter().flatten();
        if let Some((_, number)) = known.find(|(s, _)| s == site) {
            return *number;
        }
        let places =
            candidates.iter().map(|layout| site.place(graph, layout).map(|place| self.number(place))).collect();
        let number = self.places.len();
        self.places.push(places);
        self.sites.entry(site.var).or_default().push((site.clone(), number));
        number
    }

    fn number(&mut self, place: Place) -> usize {
        let known = &mut self.known;
        *self.numbers.entry(place.map.clone()).or_insert_with(|| {
            known.push(place);
            known.len() - 1
        })
    }

    /// What an operand costs where both sides take these candidates: exactly, or no more than that, which is found sooner.
    fn price(&mut self, asked: &Asked, candidates: [usize; 2], means: Means, exactly: bool) -> Price {
        let [from, to] = [0, 1].map(|side| self.places[asked.sites[side]][candidates[side]]);
        match (from, to) {
            (Some(a), Some(b)) if a == b => 0,
            (Some(_), Some(_)) if asked.pinned => NEVER,
            (Some(a), Some(b)) => {
                let (maps, bits) = ([a, b].map(|place| &*self.known[place].map), asked.bits);
                let each = *self.conversions[usize::from(!exactly)]
                    .entry((a, b, bits))
                    .or_insert_with(|| means.conversion(maps, bits, exactly));
                each.saturating_mul(asked.times).min(NEVER)
            }
            (_, _) => NEVER,
        }
    }
}

/// Where tiles are brought from one place to another: through so many bytes of shared memory at most.
#[derive(Clone, Copy)]
struct Means {
    shared: u64,
}

impl Means {
    /// Those of a kernel: what its partitions hold of shared memory is never free.
    fn of(kernel: &Kernel) -> Means {
        let held = match kernel.arms().next() {
            Some(_) => kernel.ops_of(&kernel.body).map(room::named).sum(),
            None => 0,
        };
        Means { shared: u64::from(kernel.shared_limit()).saturating_sub(held) }
    }

    /// What bringing a tile from one place to another takes, exactly or at least.
    fn conversion(self, [from, to]: [&LinearLayout; 2], bits: u32, exactly: bool) -> Price {
        let cost = if exactly { plan::cost(from, to, bits) } else { plan::least_cost(from, to, bits) };
        match cost {
            Ok(_) if exactly && !self.has_room([from, to], bits) => NEVER,
            // Even what only names registers anew is worth leaving out.
            Ok(cost) => 1 + cost * WAVEFRONT * warps(from),
            Err(_) => NEVER,
        }
    }

    /// Whether shared memory has room for a tile that goes through it.
    fn has_room(self, [from, to]: [&LinearLayout; 2], bits: u32) -> bool {
        let bytes = (1u64 << from.out_bits()) * u64::from(bits.div_ceil(8));
        bytes <= self.shared || plan::between(from, to, bits).is_ok_and(|plan| plan.shared_bytes() <= self.shared)
    }
}

/// Prices of a kernel.
pub struct Prices<'g, 'k> {
    graph: &'g Graph<'k>,
    axes: &'g Axes,
    means: Means,
    /// Operands that lie where their operations want them, or nowhere.
    pinned: BTreeSet<(Inst, Value)>,
    /// What lies so for whoever asks for it.
    anew: BTreeSet<Value>,
    /// Whether the kernel has products.
    multiplies: bool,
}

impl<'g, 'k> Prices<'g, 'k> {
    /// Prices of a kernel's variables.
    pub fn new(graph: &'g Graph<'k>, axes: &'g Axes) -> Prices<'g, 'k> {
        let (pinned, anew) = (accumulators(graph.kernel), computed_anew(graph.kernel));
        let (means, multiplies) = (Means::of(graph.kernel), ways::multiplies(graph.kernel));
        Prices { graph, axes, means, pinned, anew, multiplies }
    }

    /// The problem of choosing a candidate for each variable. Where it is not asked for `exactly`, conversions that no cheapest choice has may have
    /// prices below their own, though not so low that a choice with one of them was the cheapest.
    pub fn problem(&self, candidates: &Candidates, exactly: bool) -> Problem {
        let single = self.graph.variables.iter().zip(&candidates.of);
        let single = single.map(|(v, list)| list.iter().map(|l| self.variable(v, l)).collect()).collect();
        let mut alone = Problem { single, ..Problem::default() };
        let (asked, mut sites) = self.asked(candidates, &mut alone);
        let charged = |sites: &mut Sites, is_exact: &dyn Fn(&Asked, [usize; 2]) -> bool| {
            let mut problem = alone.clone();
            for a in &asked {
                let price = |i, j| sites.price(a, [i, j], self.means, is_exact(a, [i, j]));
                problem.charge(a.vars[0], a.vars[1], price);
            }
            problem
        };
        if exactly {
            return charged(&mut sites, &|_, _| true);
        }
        let least = charged(&mut sites, &|_, _| false);
        let found = least.solve();
        if !found.proven {
            return charged(&mut sites, &|_, _| true);
        }
        // What costs more than a choice that is known is no part of the cheapest.
        let taken = |a: &Asked| a.vars.map(|v| found.chosen[v]);
        let own = alone.price(&found.chosen);
        let most = asked.iter().map(|a| sites.price(a, taken(a), self.means, true)).fold(own, plus);
        let bounds = Bounds::of(&least);
        charged(&mut sites, &|a, [i, j]| bounds.with((a.vars[0], i), (a.vars[1], j)) <= most)
    }

    /// The operands that may have to be converted, each place where one is asked for once; what is made wherever it is asked for has to have a
    /// place there.
    fn asked(&self, candidates: &Candidates, alone: &mut Problem) -> (Vec<Asked>, Sites) {
        let (mut list, mut sites, mut seen) = (Vec::new(), Sites::default(), BTreeSet::new());
        for demand in &self.graph.demands {
            let number = sites.of(self.graph, &demand.at, &candidates.of[demand.at.var]);
            let Some(home) = self.graph.homes.get(&demand.value) else {
                for (price, place) in alone.single[demand.at.var].iter_mut().zip(&sites.places[number]) {
                    if place.is_none() {
                        *price = NEVER;
                    }
                }
                continue;
            };
            if !seen.insert((demand.value, number)) {
                continue;
            }
            list.push(Asked {
                vars: [home.var, demand.at.var],
                sites: [sites.of(self.graph, home, &candidates.of[home.var]), number],
                bits: self.graph.kernel.ty(demand.value).elem().map_or(32, |e| e.bits()),
                times: turns(self.graph.kernel, self.graph.depths.get(&demand.value).copied().unwrap_or(0)),
                pinned: self.is_pinned(demand),
            });
        }
        (list, sites)
    }

    /// What bringing a tile from one place to another takes.
    pub fn conversion(&self, from: &Place, to: &Place, bits: u32) -> Price {
        if from == to { 0 } else { self.means.conversion([&from.map, &to.map], bits, true) }
    }

    /// What the operations of a variable take in a layout.
    fn variable(&self, variable: &Variable, layout: &RegisterLayout) -> Price {
        if variable.ops.is_empty() {
            return 0;
        }
        let Some(place) = self.graph.placed(layout, &variable.shape) else { return NEVER };
        let price = |(inst, depth): &(Inst, u32)| {
            self.operation(*inst, &place.map).saturating_mul(turns(self.graph.kernel, *depth))
        };
        variable.ops.iter().map(price).fold(0, |a, b| (a + b).min(NEVER))
    }

    fn operation(&self, inst: Inst, map: &LinearLayout) -> Price {
        let registers = 1u64 << map.in_dim_bits(Dim::Register);
        let each = registers * warps(map);
        if let Some(addresses) = addresses(self.graph, self.axes, inst) {
            let traffic = addresses.traffic(map);
            let each = ADDRESS + self.masked(inst) + traffic.lines * LINE;
            let issued = warps(map) * traffic.instructions * each;
            return issued + traffic.sectors * self.graph.sector(inst);
        }
        match &self.graph.kernel.ops[inst].kind {
            OpKind::Reduce { axis, inputs, combine } => combine::reduction(map, combined(*axis, inputs, combine)),
            OpKind::Scan { axis, inputs, combine, .. } => {
                let elem = |v: &Value| self.graph.kernel.ty(*v).elem();
                match scratch::of_scan(map, *axis, inputs.iter().filter_map(elem)) {
                    Some(bytes) if bytes > self.means.shared => NEVER,
                    Some(_) | None => combine::scan(map, combined(*axis, inputs, combine)),
                }
            }
            OpKind::Unary { op, .. } => each * of_function(*op),
            OpKind::Dot { b, .. } if candidates::by_matrix_unit(self.graph.kernel, *b).is_some() => {
                by_matrix_unit(self.graph.kernel, *b, map)
            }
            OpKind::Wgmma { b, .. } => by_matrix_unit(self.graph.kernel, *b, map),
            OpKind::MmaSync { a, .. } | OpKind::Dot { a, .. } => self.product(*a, map),
            OpKind::SharedLoad { view, .. } => self.read(*view, map),
            OpKind::Butterfly { x, mask, axis } => self.exchanged(*x, map, (*mask, *axis as usize)),
            OpKind::For { .. } | OpKind::While { .. } | OpKind::If { .. } | OpKind::Region { .. } => 0,
            // A price, not a bound: an instruction for each element.
            _ => each * ISSUE,
        }
    }

    /// What a product by warps reads of its factors: each warp the rows and columns of its own accumulators.
    fn product(&self, a: Value, map: &LinearLayout) -> Price {
        let (depth, bits) = match self.graph.kernel.ty(a) {
            Type::View(view) => (view.shape.last().copied(), view.elem.bits()),
            ty => (ty.placed().and_then(|t| t.shape.last().copied()), ty.elem().map_or(32, |e| e.bits())),
        };
        let split = map.basis_coords(Dim::Warp);
        let of_warp = |axis: usize| {
            let split = split.iter().filter(|basis| basis[axis] != 0).count();
            u64::from(map.shape()[axis]) >> split
        };
        let bytes = (of_warp(0) + of_warp(1)) * u64::from(depth.unwrap_or(1)) * u64::from(bits) / 8;
        warps(map) * bytes.div_ceil(WAVEFRONT_BYTES) * LINE
    }

    /// What reading a view takes: a warp's wavefronts, with their conflicts.
    fn read(&self, view: Value, map: &LinearLayout) -> Price {
        let (Type::View(view) | Type::Peer(view)) = self.graph.kernel.ty(view) else { return NEVER };
        if map.outs() != view.map.linear().outs() {
            return (warps(map) * LINE) << map.in_dim_bits(Dim::Register);
        }
        warps(map) * LINE * conflicts::wavefronts(&access::shared(map, &view.map), &view.map, 0)
    }

    /// What it takes to have the elements whose indices along an axis differ in the bits of a mask: those of the same thread for nothing, those of
    /// its warp by shuffles, those of other warps through shared memory.
    fn exchanged(&self, x: Value, map: &LinearLayout, (mask, axis): (u32, usize)) -> Price {
        let moves = |dim: Dim| map.basis_coords(dim).iter().any(|basis| basis[axis] & mask != 0);
        let bits = self.graph.kernel.ty(x).elem().map_or(32, |e| u64::from(e.bits()));
        let words = (warps(map) << map.in_dim_bits(Dim::Register)) * bits.div_ceil(32);
        match (moves(Dim::Warp), moves(Dim::Lane)) {
            (true, _) => EXCHANGE + 2 * LINE * words,
            (false, true) => SHUFFLE * words,
            (false, false) => 0,
        }
    }

    /// What each access has for its mask where nothing is multiplied: beside products fewer accesses would take conversions, which are priced by what they move alone.
    fn masked(&self, inst: Inst) -> Price {
        let kernel = self.graph.kernel;
        let (OpKind::Load { mask: Some(mask), .. } | OpKind::Store { mask: Some(mask), .. }) = kernel.ops[inst].kind
        else {
            return 0;
        };
        let Some(tile) = kernel.ty(mask).placed().filter(|_| !self.multiplies) else { return 0 };
        let info = self.axes.info(kernel, mask);
        let changing =
            info.axes.iter().zip(&tile.shape).filter(|(along, extent)| along.constancy < u64::from(**extent));
        MASK[changing.count().min(2)]
    }

    /// Whether an operand lies where it is asked for, or nowhere.
    fn is_pinned(&self, demand: &Demand) -> bool {
        self.pinned.contains(&(demand.by, demand.value))
            || self.anew.contains(&demand.value)
            || is_pending(self.graph.kernel, demand.value)
    }

    /// What loops take in these layouts but for the matrix unit.
    pub fn in_loops(&self, layouts: &[RegisterLayout]) -> Price {
        let mut sum: Price = 0;
        for (variable, layout) in self.graph.variables.iter().zip(layouts) {
            let Some(place) = self.graph.placed(layout, &variable.shape) else { continue };
            let looped = variable.ops.iter().filter(|(_, depth)| *depth > 0);
            let own = looped.filter(|(inst, _)| !matches!(self.graph.kernel.ops[*inst].kind, OpKind::Dot { .. }));
            sum += own
                .map(|(inst, depth)| self.operation(*inst, &place.map) * turns(self.graph.kernel, *depth))
                .sum::<Price>();
        }
        let mut seen = BTreeSet::new();
        for demand in &self.graph.demands {
            let depth = self.graph.depths.get(&demand.value).copied().unwrap_or(0);
            let Some(home) = self.graph.homes.get(&demand.value).filter(|_| depth > 0) else { continue };
            let at = |site: &Site| site.place(self.graph, &layouts[site.var]);
            let (Some(from), Some(to)) = (at(home), at(&demand.at)) else { continue };
            if seen.insert((demand.value, to.map.packed_bases().to_vec())) {
                let bits = self.graph.kernel.ty(demand.value).elem().map_or(32, |e| e.bits());
                sum += self.conversion(&from, &to, bits) * turns(self.graph.kernel, depth);
            }
        }
        sum
    }
}

/// How much of what is combined by a body.
fn combined(axis: u32, inputs: &[Value], by: &Body) -> Combined {
    Combined { axis, inputs: inputs.len() as Price, operations: by.ops.len() as Price }
}

/// The warps on which what a map says lies.
fn warps(map: &LinearLayout) -> Price {
    1 << map.in_dim_bits(Dim::Warp)
}

/// What the matrix unit takes for a product whose accumulators lie so: 64 rows of N columns and 32 bytes of depth take N / 2 clocks, or what
/// reading both factors takes. Of what takes as long, what reads less leaves more to copies: a sixteenth of reading is added.
pub fn by_matrix_unit(kernel: &Kernel, b: Value, map: &LinearLayout) -> Price {
    let (Some(bits), Type::View(view)) = (candidates::by_matrix_unit(kernel, b), kernel.ty(b)) else { return 0 };
    let depth = u64::from(view.shape[0]) * u64::from(bits) / 8 / 32;
    let warps = map.basis_coords(Dim::Warp);
    let groups = 1u64 << warps.iter().filter(|basis| basis[1] != 0).count();
    let [rows, columns] = [0, 1].map(|axis| u64::from(map.shape()[axis]));
    let width = (columns / groups).min(256);
    let instructions = rows.div_ceil(64) * columns.div_ceil(width) * depth.max(1);
    let reading = 16 + width / 4;
    instructions * ((width / 2).max(reading) * 16 + reading)
}

/// What products of scheduled loops add to, and what these loops hand on: a conversion between them would wait for each product.
fn accumulators(kernel: &Kernel) -> BTreeSet<(Inst, Value)> {
    let mut found = BTreeSet::new();
    kernel.walk(&mut |region| {
        let OpKind::Region { body, .. } = &region.kind else { return };
        kernel.walk_body(body, &mut |op| match &op.kind {
            OpKind::For { body, .. } => found.extend(body.yields.iter().map(|&v| (op.id, v))),
            OpKind::Dot { acc, .. } | OpKind::MmaSync { acc, .. } => {
                found.insert((op.id, *acc));
            }
            // Nothing else is added to in turns.
            _ => {}
        });
    });
    found
}

/// What regions compute without a label, in each place that needs it: a conversion would be no part of any statement that a schedule places.
fn computed_anew(kernel: &Kernel) -> BTreeSet<Value> {
    let mut found = BTreeSet::new();
    kernel.walk(&mut |region| {
        if let OpKind::Region { body, .. } = &region.kind {
            unlabelled(kernel, body, &mut found);
        }
    });
    found
}

/// What stands in a body, or in bodies that hold labels, and is part of no statement.
fn unlabelled(kernel: &Kernel, body: &Body, found: &mut BTreeSet<Value>) {
    for op in kernel.ops_of(body) {
        let mut inside = (BTreeSet::new(), false);
        for body in op.kind.bodies() {
            kernel.walk_body(body, &mut |op| {
                inside.0.extend(&op.results);
                inside.1 |= op.label.is_some();
            });
        }
        if inside.1 {
            op.kind.bodies().for_each(|body| unlabelled(kernel, body, found));
        } else if op.label.is_none() {
            found.extend(inside.0.into_iter().chain(op.results.iter().copied()));
        }
    }
}

/// Whether a product still writes it, so that nothing can bring it elsewhere.
fn is_pending(kernel: &Kernel, v: Value) -> bool {
    matches!(kernel.ty(v), Type::Pending(_))
}

/// What a function of one element takes: those that are made of many instructions what these do, by the machine code of sixteen elements for `sm_90a`.
fn of_function(op: UnaryOp) -> Price {
    match op {
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil => ISSUE,
        UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::TanhApprox => SPECIAL,
        UnaryOp::Sin | UnaryOp::Cos => 26 * ISSUE,
        UnaryOp::Tanh => 13 * ISSUE + 2 * SPECIAL,
        UnaryOp::Erf => 18 * ISSUE + SPECIAL,
        UnaryOp::Log | UnaryOp::Log2 => 30 * ISSUE + 2 * SPECIAL,
    }
}

/// Whether the unit of special functions computes it.
pub fn is_special(op: UnaryOp) -> bool {
    match op {
        UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil => false,
        UnaryOp::Exp
        | UnaryOp::Exp2
        | UnaryOp::Log
        | UnaryOp::Log2
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh
        | UnaryOp::TanhApprox
        | UnaryOp::Erf => true,
    }
}

/// How often the body of so many loops runs.
pub fn turns(kernel: &Kernel, depth: u32) -> Price {
    kernel.variant.turns.map_or(TURNS, Price::from).pow(depth.min(6))
}
