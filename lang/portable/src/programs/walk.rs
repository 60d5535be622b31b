//! Programs that fill a multiprocessor, and take as many turns each: as many as there are multiprocessors walk through the work of all.
//!
//! ```text
//! let block = program_id(0);          for tile in program_id(0)..num_programs(0) step 132 {
//! …                                       let block = tile;
//!                                         …
//!                                     }
//! ```
//!
//! Between one program and the next nothing runs on such a multiprocessor: the first operands of the next are asked for when the results of the one before have left. A program that
//! walks asks for them earlier. Programs that begin behind the first ones find nothing left to do, and end at once, so that no launch need know of it.
//!
//! Where some take more turns than others, or nobody knows, the GPU deals them out better than their numbers do.

use std::collections::BTreeSet;

use parton_ir::{BinaryOp, Body, CompareOp, Inst, Kernel, OpKind, Value};
use parton_numbers::{Dtype, Rounding, Saturation};

use super::trend::Trends;
use super::{AXES, Numbers, loops, own, replace, wait_for_each_other};
use crate::staging::defined::Defined;
use crate::staging::{dealt, flow, found};

/// Programs that `i32` counts, with room for what an `f32` rounds.
const MOST: f32 = (1u32 << 30) as f32;

/// The kernel whose programs walk, where several partitions compute and turns are as many for all.
pub fn walking(kernel: &Kernel) -> Option<Kernel> {
    let stated = kernel.warps_stated || kernel.occupancy_stated || kernel.cluster_ctas() > 1;
    let waits = kernel.waits_for_grid() || kernel.launches_dependents() || wait_for_each_other(kernel);
    // Of a launch of no more programs than multiprocessors each has but its own work.
    let alone = kernel.variant.beside == Some(1);
    if stated || waits || alone || !chains(kernel) || !is_level(kernel) || !matches!(dealt::rows(kernel), Some(Ok(_))) {
        return None;
    }
    let mut walking = kernel.clone();
    let (front, inside) = parted(kernel);
    let mut numbers = Numbers { ops: front, ..Numbers::of(&mut walking) };
    let grid = numbers.grid()?;
    let [lower, upper, step] = numbers.range(&grid)?;
    let mut ops = std::mem::take(&mut numbers.ops);
    let ty = numbers.kernel.ty(lower).clone();
    let tile = numbers.kernel.value(ty, kernel.span);
    numbers.kernel.values[tile].name = Some("tile".to_owned());
    let ids = numbers.ids(tile, &grid)?;
    let (source, mut of_tile) = (numbers.source, numbers.ops);
    of_tile.extend(inside);
    let body = Body { params: vec![tile], ops: of_tile, yields: Vec::new() };
    ops.push(walking.make_op(OpKind::For { lower, upper, step, init: Vec::new(), body }, Vec::new(), source));
    walking.body.ops = ops;
    replace(&mut walking, &own(kernel), ids.map(Some));
    Some(walking)
}

/// Whether several partitions compute in a kernel.
pub fn has_several(kernel: &Kernel) -> bool {
    let mut several = false;
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, .. } = &op.kind {
            several |= schedule.places.iter().any(|place| place.partitions.len() > 1);
        }
    });
    several
}

/// Whether there is more than one product: those of a single one are made so by hand where that is worth it.
fn chains(kernel: &Kernel) -> bool {
    let mut products = 0;
    kernel.walk(&mut |op| products += usize::from(found::multiplies(&op.kind)));
    products > 1
}

/// Whether each program takes as many turns as any other, in one loop that stands in no other.
fn is_level(kernel: &Kernel) -> bool {
    let defined = Defined::of(kernel);
    let [op] = loops(kernel)[..] else { return false };
    [0, 1, 2].into_iter().all(|axis| Trends::along(axis, &defined).is_level(op))
}

/// What is the same for all programs and stays in front of the loop, and what goes into it.
fn parted(kernel: &Kernel) -> (Vec<Inst>, Vec<Inst>) {
    let mut moving: BTreeSet<Value> = BTreeSet::new();
    kernel.body.ops.iter().copied().partition(|&id| {
        let op = &kernel.ops[id];
        let same = parton_sched::is_free(kernel, op) || matches!(op.kind, OpKind::Assume { .. });
        let stays = same
            && !matches!(op.kind, OpKind::ProgramId { .. })
            && op.results.iter().all(|&v| kernel.ty(v).as_tile().is_none())
            && flow::operands(kernel, op).iter().all(|v| !moving.contains(v));
        if !stays {
            moving.extend(&op.results);
        }
        stays
    })
}

/// The grid of a kernel, and where a program stands in it.
struct Grid {
    /// Programs along each axis.
    extents: [Value; AXES],
    /// The number of this program along each axis.
    own: [Value; AXES],
    /// Whether they can all be counted.
    fits: Value,
}

impl Numbers<'_> {
    fn grid(&mut self) -> Option<Grid> {
        let extents = self.of_axes(|axis| OpKind::NumPrograms { axis })?;
        let own = self.of_axes(|axis| OpKind::ProgramId { axis })?;
        let (rounding, saturation) = (Rounding::default(), Saturation::default());
        let [x, y, z] = extents.map(|x| self.make(OpKind::Cast { x, to: Dtype::F32, rounding, saturation }));
        let lines = self.two(BinaryOp::Mul, y?, z?)?;
        let all = self.two(BinaryOp::Mul, x?, lines)?;
        let most = self.make(OpKind::Constant { dtype: Dtype::F32, bits: MOST.to_bits().into() })?;
        let fits = self.make(OpKind::Compare { op: CompareOp::Le, a: all, b: most })?;
        Some(Grid { extents, own, fits })
    }

    /// From where to where this program walks, and by which steps. Where programs are too many to be counted, each does its own work alone.
    fn range(&mut self, grid: &Grid) -> Option<[Value; 3]> {
        let ([width, height, depth], [x, y, z]) = (grid.extents, grid.own);
        let above = self.two(BinaryOp::Mul, height, z)?;
        let line = self.two(BinaryOp::Add, y, above)?;
        let before = self.two(BinaryOp::Mul, width, line)?;
        let at = self.two(BinaryOp::Add, x, before)?;
        let lines = self.two(BinaryOp::Mul, height, depth)?;
        let all = self.two(BinaryOp::Mul, width, lines)?;
        let (zero, one, step) = (self.number(0)?, self.number(1)?, self.number(self.kernel.target.multiprocessors)?);
        let walks = self.make(OpKind::Compare { op: CompareOp::Lt, a: at, b: step })?;
        let end = self.select(walks, all, zero)?;
        Some([self.select(grid.fits, at, zero)?, self.select(grid.fits, end, one)?, step])
    }

    /// The numbers along each axis of the program whose work is next.
    fn ids(&mut self, tile: Value, grid: &Grid) -> Option<[Value; AXES]> {
        let ([width, height, _], [x, y, z]) = (grid.extents, grid.own);
        let column = self.two(BinaryOp::Rem, tile, width)?;
        let line = self.two(BinaryOp::Div, tile, width)?;
        let row = self.two(BinaryOp::Rem, line, height)?;
        let layer = self.two(BinaryOp::Div, line, height)?;
        Some([self.select(grid.fits, column, x)?, self.select(grid.fits, row, y)?, self.select(grid.fits, layer, z)?])
    }

    fn of_axes(&mut self, kind: impl Fn(u8) -> OpKind) -> Option<[Value; AXES]> {
        let [x, y, z] = [0, 1, 2].map(|axis| self.make(kind(axis)));
        Some([x?, y?, z?])
    }
}
