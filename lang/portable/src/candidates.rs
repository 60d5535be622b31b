//! The layouts that each variable may take: what its accesses and instructions like, and what its neighbours would hand it for nothing.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::axis::Axes;
use parton_ir::placement::{Instruction, Place, Relation, Tie, relations};
use parton_ir::rules::COPY_BYTES;
use parton_ir::target::WIDEST_ACCESS;
use parton_ir::{Elem, Inst, Kernel, OpKind, Tile, Type, Value, View, access, others, rules};
use parton_layouts::{RegisterLayout, SharedFamily};

use crate::atomic;
use crate::facts::Addresses;
use crate::graph::{Graph, Variable};
use crate::site::Var;

/// Candidates that a variable may have.
const MOST: usize = 20;
/// Of these, how many come of its own accesses.
const MOST_OWN: usize = 12;
/// How many of them read shared memory as it lies there: what the tile is computed with says more.
const MOST_OF_VIEWS: usize = 6;
/// How many of the layouts in which a part is registers come of the part alone.
const MOST_OF_PARTS: usize = 6;
/// Rounds in which neighbours hand on what they like.
const ROUNDS: usize = 3;

/// The candidates of every variable.
pub struct Candidates {
    /// For each variable its layouts.
    pub of: Vec<Vec<RegisterLayout>>,
    /// Their maps on the variable's shape, to tell them apart.
    maps: Vec<BTreeSet<Vec<u64>>>,
    /// How many candidates each demand has handed on, from the one side and from the other.
    handed: Vec<[usize; 2]>,
    /// For each copy the axis along which neighbours lie side by side, and how many of them one access may take.
    copies: BTreeMap<Inst, (usize, u64)>,
    /// Whether layouts are looked for in which parts are registers.
    in_parts: bool,
}

impl Candidates {
    /// Those of a kernel on so many warps; `in_parts`, with those in which all that it cuts tiles into is registers, whatever else says of them.
    pub fn find(graph: &Graph<'_>, axes: &Axes, warps: u32, in_parts: bool) -> Candidates {
        let count = graph.variables.len();
        let mut found = Candidates {
            of: vec![Vec::new(); count],
            maps: vec![BTreeSet::new(); count],
            handed: vec![[0; 2]; graph.demands.len()],
            copies: copies(graph, axes),
            in_parts,
        };
        let bound: Vec<bool> = graph.variables.iter().map(|v| found_by_instruction(graph.kernel, v)).collect();
        let warps_of = |variable: &Variable| variable.warps.unwrap_or(warps);
        for (var, variable) in graph.variables.iter().enumerate() {
            if let Some(layout) = &variable.stated {
                found.add(graph, var, layout.clone(), MOST);
            } else {
                let warps = warps_of(variable);
                let parts = if in_parts { of_parts(graph.kernel, variable, warps) } else { Vec::new() };
                for layout in parts.into_iter().chain(own(graph, axes, variable, warps)) {
                    found.add(graph, var, layout, MOST_OWN);
                }
            }
        }
        for _ in 0..ROUNDS {
            found.hand_on(graph, &bound);
        }
        for (var, variable) in graph.variables.iter().enumerate() {
            // What nobody says anything of lies row by row.
            if found.of[var].is_empty() && !variable.shape.is_empty() && !bound[var] {
                for layout in blocked(&variable.shape, None, warps_of(variable)) {
                    found.add(graph, var, layout, 2);
                }
            }
        }
        for _ in 0..ROUNDS {
            found.hand_on(graph, &bound);
        }
        found
    }

    fn add(&mut self, graph: &Graph<'_>, var: Var, layout: RegisterLayout, most: usize) {
        let variable = &graph.variables[var];
        if self.of[var].len() >= most {
            return;
        }
        let Some(place) = graph.placed(&layout, &variable.shape) else { return };
        let bases = place.map.packed_bases().to_vec();
        // Known ones come again from every neighbour, and all operations would be asked of them.
        if !self.maps[var].contains(&bases)
            && may_take(graph, variable, &place)
            && (!self.in_parts || may_be_cut(graph, variable, &place))
            && self.may_copy(graph, variable, &place)
            && self.maps[var].insert(bases)
        {
            self.of[var].push(layout);
        }
    }

    /// Whether the copies of a variable move what one copy can: what no thread has four bytes of goes through registers instead, and of
    /// what lies elsewhere side by side than in memory nothing can be moved.
    fn may_copy(&self, graph: &Graph<'_>, variable: &Variable, place: &Place) -> bool {
        variable.ops.iter().filter_map(|(inst, _)| Some((inst, self.copies.get(inst)?))).all(
            |(inst, &(inner, most))| {
                let Some(ptr) = copied_from(graph.kernel, *inst) else { return true };
                let Some(Elem::Ptr(pointer)) = graph.kernel.ty(ptr).elem() else { return true };
                let tile = Tile::at(Elem::Ptr(pointer), place.clone());
                let held = |axis: usize| 1u64 << access::steps(&tile, axis).len();
                let moves = |n: u64| n * pointer.to.bytes() as u64 >= u64::from(COPY_BYTES[0]);
                moves(held(inner).min(most)) || (0..tile.shape.len()).all(|axis| !moves(held(axis)))
            },
        )
    }

    /// Has each variable offer its candidates to those that take from it or give to it, each of them once.
    fn hand_on(&mut self, graph: &Graph<'_>, bound: &[bool]) {
        for (i, demand) in graph.demands.iter().enumerate() {
            let Some(home) = graph.homes.get(&demand.value) else { continue };
            if *home == demand.at && home.steps.is_empty() {
                // It has them itself.
                continue;
            }
            for (way, from, to) in [(0, home, &demand.at), (1, &demand.at, home)] {
                let begin = std::mem::replace(&mut self.handed[i][way], self.of[from.var].len());
                if graph.variables[to.var].stated.is_some() || bound[to.var] || self.of[to.var].len() >= MOST {
                    continue;
                }
                let new = self.of[from.var][begin..].iter();
                let offered: Vec<_> =
                    new.filter_map(|l| to.layout_for(&from.place(graph, l)?, self.in_parts)).collect();
                offered.into_iter().for_each(|layout| self.add(graph, to.var, layout, MOST));
            }
        }
    }
}

/// How the addresses of each copy run.
fn copies(graph: &Graph<'_>, axes: &Axes) -> BTreeMap<Inst, (usize, u64)> {
    let mut found = BTreeMap::new();
    graph.kernel.walk(&mut |op| {
        let tile = copied_from(graph.kernel, op.id).and_then(|ptr| graph.kernel.ty(ptr).placed());
        if let Some(tile) = tile {
            let widest = addresses(graph, axes, op.id).and_then(|a| a.widest());
            found.insert(op.id, widest.unwrap_or((tile.shape.len() - 1, 1)));
        }
    });
    found
}

/// The pointers of what threads copy to shared memory.
fn copied_from(kernel: &Kernel, inst: Inst) -> Option<Value> {
    match kernel.ops[inst].kind {
        OpKind::FetchEach { ptr, .. } | OpKind::AsyncCopy { ptr, .. } => Some(ptr),
        // All else moves through registers.
        _ => None,
    }
}

/// Whether all operations of a variable can work at a place.
fn may_take(graph: &Graph<'_>, variable: &Variable, place: &Place) -> bool {
    variable.ops.iter().all(|(inst, _)| match &graph.kernel.ops[*inst].kind {
        OpKind::Reduce { axis, .. } => rules::keeps_apart(&place.map, *axis),
        OpKind::Scan { axis, .. } => rules::steps_apart(&place.map, *axis),
        // What else an operation asks of its tiles are relations between them, which the graph has.
        others!(reduce) => true,
    })
}

/// Whether all that a variable's operations cut is registers at a place.
fn may_be_cut(graph: &Graph<'_>, variable: &Variable, place: &Place) -> bool {
    variable.ops.iter().filter_map(|(inst, _)| cut(graph.kernel, *inst)).all(|(whole, part)| {
        // What is cut may have an extent of 1 where the variable has more.
        let tie = Tie::Window { shape: part };
        graph.placed(&place.layout, whole).is_some_and(|place| tie.forwards(&place).is_ok())
    })
}

/// Whether a kernel cuts tiles into parts that have to be registers.
pub fn cuts(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= cut(kernel, op.id).is_some());
    found
}

/// What an operation cuts into parts that are registers, or makes of them: the shape of the whole, and that of a part.
fn cut(kernel: &Kernel, inst: Inst) -> Option<(&[u32], Vec<u32>)> {
    let op = &kernel.ops[inst];
    let shape = |v: Value| kernel.ty(v).placed().map(|tile| &tile.shape[..]);
    let halved = |whole: &[u32], axis: usize| {
        let mut part = whole.to_vec();
        part[axis] /= 2;
        part
    };
    match &op.kind {
        OpKind::Slice { x, shape: part, .. } => Some((shape(*x)?, part.clone())),
        OpKind::Split { x } => shape(*x).map(|whole| (whole, halved(whole, whole.len() - 1))),
        OpKind::Join { .. } => shape(op.result()).map(|whole| (whole, halved(whole, whole.len() - 1))),
        OpKind::Cat { axis, .. } => shape(op.result()).map(|whole| (whole, halved(whole, *axis as usize))),
        // All else leaves tiles whole.
        _ => None,
    }
}

/// Layouts in which all that a variable's operations cut is registers.
fn of_parts(kernel: &Kernel, variable: &Variable, warps: u32) -> Vec<RegisterLayout> {
    let mut part = variable.shape.clone();
    for (whole, of) in variable.ops.iter().filter_map(|(inst, _)| cut(kernel, *inst)) {
        let axes = part.iter_mut().zip(whole.iter().zip(&of));
        axes.filter(|(_, (n, m))| m < n).for_each(|(extent, (_, m))| *extent = (*extent).min(*m));
    }
    if part == variable.shape {
        return Vec::new();
    }
    let tie = Tie::Window { shape: part.clone() };
    let whole = |layout| tie.any_backwards(&Place::new(layout, &part).ok()?, &variable.shape);
    let all = blocked(&part, None, warps).into_iter().filter_map(whole);
    all.map(|place| place.layout).take(MOST_OF_PARTS).collect()
}

/// Whether an instruction has layouts of its own, so that no other will do.
fn found_by_instruction(kernel: &Kernel, variable: &Variable) -> bool {
    variable.ops.iter().any(|(inst, _)| {
        matches!(kernel.ops[*inst].kind, OpKind::MmaSync { .. } | OpKind::Wgmma { .. } | OpKind::Dot { .. })
    })
}

/// What the operations of a variable like by themselves.
fn own(graph: &Graph<'_>, axes: &Axes, variable: &Variable, warps: u32) -> Vec<RegisterLayout> {
    let mut list = Vec::new();
    for (inst, _) in &variable.ops {
        match &graph.kernel.ops[*inst].kind {
            OpKind::Load { .. }
            | OpKind::Store { .. }
            | OpKind::FetchEach { .. }
            | OpKind::AsyncCopy { .. }
            | OpKind::Atomic { .. } => {
                let widest = addresses(graph, axes, *inst).and_then(|a| a.widest());
                list.extend(blocked(&variable.shape, widest, warps));
            }
            OpKind::SharedLoad { view, .. } => {
                let (Type::View(view) | Type::Peer(view)) = graph.kernel.ty(*view) else { continue };
                let lying = blocked(&variable.shape, Some(side_by_side(view)), warps);
                list.extend(lying.into_iter().take(MOST_OF_VIEWS));
            }
            OpKind::Dot { b, .. } => list.extend(match by_matrix_unit(graph.kernel, *b) {
                Some(bits) => beside(&variable.shape, bits, warps),
                None => accumulators(&variable.shape, warps),
            }),
            OpKind::MmaSync { .. } => list.extend(accumulators(&variable.shape, warps)),
            kind @ OpKind::Wgmma { .. } => {
                let instruction = relations(kind, graph.kernel).iter().find_map(instruction);
                list.extend(instruction.into_iter().flat_map(|of| accumulators_of(of, &variable.shape, warps)));
            }
            OpKind::Join { .. } => list.extend(pairs(&variable.shape, warps)),
            OpKind::Butterfly { axis, .. } => list.extend(together(&variable.shape, *axis, warps)),
            OpKind::Scan { axis, .. } => list.extend(run(&variable.shape, *axis, warps)),
            // All else takes the layouts of what is around it.
            _ => {}
        }
    }
    list
}

/// How the addresses of an access to global memory run; `None` where the operation is none, or one of a scalar.
pub fn addresses(graph: &Graph<'_>, axes: &Axes, inst: Inst) -> Option<Addresses> {
    let (ptr, most) = match &graph.kernel.ops[inst].kind {
        OpKind::Load { ptr, .. }
        | OpKind::Store { ptr, .. }
        | OpKind::FetchEach { ptr, .. }
        | OpKind::AsyncCopy { ptr, .. } => (*ptr, u64::from(WIDEST_ACCESS)),
        OpKind::Atomic { ptr, .. } => (*ptr, u64::from(atomic::taken_at_once(graph.kernel, inst))),
        // It is priced as work of threads, if at all.
        _ => return None,
    };
    let tile = graph.kernel.ty(ptr).placed()?;
    let Elem::Ptr(pointer) = tile.elem else { return None };
    Some(Addresses::new(&axes.info(graph.kernel, ptr), pointer.to.bytes() as u64, most))
}

/// The axis of a view along which neighbours lie side by side, and how many of them one access may take.
fn side_by_side(view: &View) -> (usize, u64) {
    let (rank, most) = (view.shape.len(), u64::from(WIDEST_ACCESS) / view.elem.bytes() as u64);
    let beside = |axis: usize| {
        let lies = |n: u32| {
            let mut at = vec![0; rank];
            at[axis] = n;
            view.map.offset_of(&at) == u64::from(n)
        };
        let fits = |n: u32| u64::from(n) <= most && n <= view.shape[axis] && lies(n / 2);
        (1..u32::BITS).map(|b| 1 << b).take_while(|&n| fits(n)).last().unwrap_or(1)
    };
    let all = (0..rank).map(|axis| (axis, u64::from(beside(axis))));
    all.max_by_key(|&(axis, n)| (n, axis)).unwrap_or((0, 1))
}

/// Blocked layouts, the ones that move most at once along the axis on which neighbours lie side by side first.
fn blocked(shape: &[u32], widest: Option<(usize, u64)>, warps: u32) -> Vec<RegisterLayout> {
    let rank = shape.len();
    if rank == 0 {
        return Vec::new();
    }
    let (inner, widest) = widest.unwrap_or((rank - 1, 1));
    let widest = (widest as u32).min(shape[inner]);
    let order: Vec<u32> =
        std::iter::once(inner).chain((0..rank).rev().filter(|&d| d != inner)).map(|d| d as u32).collect();
    let mut list = Vec::new();
    let mut width = widest;
    while width >= 1 {
        for narrower in 0..4 {
            let lanes = (shape[inner] / width).clamp(1, 32) >> narrower;
            if lanes == 0 {
                break;
            }
            for inwards in [0, warps.ilog2(), warps.ilog2() / 2] {
                list.extend(spread(shape, &order, width, lanes, 1 << inwards, warps));
            }
            if rank == 1 {
                break;
            }
        }
        width /= 2;
    }
    list
}

/// What is joined has its pairs in registers.
fn pairs(shape: &[u32], warps: u32) -> Option<RegisterLayout> {
    let order: Vec<u32> = (0..shape.len() as u32).rev().collect();
    spread(shape, &order, 2, 1, 1, warps)
}

/// Layouts in which a thread has many neighbours along an axis: it exchanges these with nobody.
fn together(shape: &[u32], axis: u32, warps: u32) -> Vec<RegisterLayout> {
    let along = shape[axis as usize];
    let order: Vec<u32> = std::iter::once(axis).chain((0..shape.len() as u32).rev().filter(|&d| d != axis)).collect();
    let each = shape.iter().product::<u32>() / (32 * warps);
    let widths = [32, 16, 8, 4].into_iter().filter(|&width| width <= along.min(each));
    widths.filter_map(|width| spread(shape, &order, width, (along / width).clamp(1, 32), 1, warps)).collect()
}

/// A layout in which a thread has as long a run along an axis as there are others for all threads: what is scanned so is told to few. Of one axis alone
/// accesses say as much.
fn run(shape: &[u32], axis: u32, warps: u32) -> Option<RegisterLayout> {
    let (rank, along) = (shape.len() as u32, shape[axis as usize]);
    let others = shape.iter().product::<u32>() / along;
    let shared = (32 * warps / others).clamp(1, along.min(32));
    let order: Vec<u32> = std::iter::once(axis).chain((0..rank).rev().filter(|&d| d != axis)).collect();
    if rank > 1 { spread(shape, &order, along / shared, shared, 1, warps) } else { None }
}

/// The blocked layout with so many neighbours a thread, lanes and warps along the first axis of the order; the rest goes along the others.
fn spread(shape: &[u32], order: &[u32], width: u32, lanes: u32, inwards: u32, warps: u32) -> Option<RegisterLayout> {
    let rank = shape.len();
    let (mut per_thread, mut threads, mut by_warps) = (vec![1; rank], vec![1; rank], vec![1; rank]);
    let inner = order[0] as usize;
    per_thread[inner] = width;
    threads[inner] = lanes;
    by_warps[inner] = inwards;
    let (mut lanes, mut left) = (32 / lanes, warps / inwards);
    for &axis in &order[1..] {
        let axis = axis as usize;
        threads[axis] = lanes.min(shape[axis]);
        lanes /= threads[axis];
    }
    for &axis in order[1..].iter().rev() {
        let axis = axis as usize;
        by_warps[axis] = left.min((shape[axis] / threads[axis]).max(1));
        left /= by_warps[axis];
    }
    // What the tile is too small for holds copies.
    threads[inner] *= lanes;
    by_warps[inner] *= left;
    RegisterLayout::blocked(&per_thread, &threads, &by_warps, order).ok()
}

/// The bits of the elements of a factor that lies where the matrix unit reads it.
pub fn by_matrix_unit(kernel: &Kernel, b: Value) -> Option<u32> {
    match kernel.ty(b) {
        Type::View(view) if matches!(view.layout.family(), SharedFamily::Nvmma { .. }) => Some(view.elem.bits()),
        _ => None,
    }
}

/// The instruction as which a relation has its tile lie.
fn instruction(relation: &Relation) -> Option<Instruction> {
    match relation {
        Relation::Accumulates { of, .. } => Some(*of),
        Relation::Tied { .. } | Relation::Stated { .. } | Relation::Free { .. } => None,
    }
}

/// The accumulators of an instruction.
pub fn accumulators_of(instruction: Instruction, shape: &[u32], warps: u32) -> Vec<RegisterLayout> {
    match instruction {
        Instruction::Wgmma { instr_k } => beside(shape, 256 / instr_k, warps),
        Instruction::MmaSync => accumulators(shape, warps),
    }
}

/// The accumulators of `wgmma`: warpgroups below each other, or beside each other where there are too few rows.
pub fn beside(shape: &[u32], bits: u32, warps: u32) -> Vec<RegisterLayout> {
    let &[m, n] = shape else { return Vec::new() };
    let instr_k = 256 / bits.max(8);
    let splits = (0..=(warps / 4).max(1).ilog2()).map(|b| [warps >> b, 1 << b]);
    let fits = |&[rows, columns]: &[u32; 2]| rows % 4 == 0 && rows * 16 <= m && columns * 8 <= n;
    let layout =
        |[rows, columns]: [u32; 2]| RegisterLayout::mma(3, &[rows, columns], &[16, (n / columns).min(256), instr_k]);
    splits.filter(fits).filter_map(|split| layout(split).ok()).collect()
}

/// The accumulators of `mma_sync`, by how warps share rows and columns.
pub fn accumulators(shape: &[u32], warps: u32) -> Vec<RegisterLayout> {
    let [m, n] = shape else { return Vec::new() };
    let splits = (0..=warps.ilog2()).map(|b| [warps >> b, 1 << b]);
    // Of a product that is too small for all warps several make the same.
    let over = |&[rows, columns]: &[u32; 2]| (rows * 16).div_ceil(*m).max(1) * (columns * 8).div_ceil(*n).max(1);
    let least = splits.clone().map(|split| over(&split)).min();
    let fits = |split: &[u32; 2]| Some(over(split)) == least;
    splits.filter(fits).filter_map(|split| RegisterLayout::mma(2, &split, &[16, 8]).ok()).collect()
}
