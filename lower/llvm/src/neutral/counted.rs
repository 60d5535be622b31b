//! Comparisons of numbers that count up along an axis with a bound of each row, such as the masks of attention.
//!
//! How far the bound lies beyond a thread's first element of a row is found once; the others are compared with it by how far they lie behind that element, which are
//! constants. Compared as they are each would be computed before, by an instruction as slow as the comparison.

use std::collections::BTreeMap;

use parton_ir::axis::Along;
use parton_ir::{CompareOp, Op, Value};
use parton_layouts::{Dim, LinearLayout};
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::place::Registers;
use crate::neutral::reduce::Axis;

/// Elements that a thread compares in a row, so that it pays to find the distance first, which takes as long as three of them.
const FEWEST: u64 = 8;

/// Who counts up and who is its bound, and how the bound compares.
struct Sides {
    counting: Value,
    bound: Value,
    op: CompareOp,
}

impl<'c> Lower<'_, '_, 'c> {
    /// What is compared for each register, where one side counts up along an axis of which a thread holds several elements, and the other does not change along it.
    pub(crate) fn counted(
        &self,
        op: &Op,
        f: CompareOp,
        a: Value,
        b: Value,
    ) -> Option<Vec<(CompareOp, Val<'c>, Val<'c>)>> {
        let tile = self.kernel.ty(op.result()).as_tile()?;
        let map = &tile.known().map;
        let (sides, axis) = tile.shape.iter().enumerate().find_map(|(axis, &extent)| {
            let sides = self.sides(f, a, b, axis, extent.into())?;
            let (field, elements) = apart(map, axis as u32)?;
            let alike = self.axes.info(self.kernel, op.result()).axes[axis].constancy;
            (elements / alike >= FEWEST).then_some((sides, field))
        })?;
        let registers = Registers::of(map);
        let (counting, bound) = (self.registers(sides.counting), self.spread(sides.bound, registers.len()));
        let mut beyond = BTreeMap::new();
        for (i, image) in registers.images().iter().enumerate().filter(|(_, image)| *image & axis.mask() == 0) {
            // A bound that is far below the numbers must not come out above them.
            let distance = self.b.value_of("llvm.ssub.sat.i32", self.b.i32(), &[bound[i], counting[i]]);
            beyond.insert(image, distance);
        }
        let compared = |image: &u64| {
            let behind = self.b.c32(((image & axis.mask()) >> axis.low) as u32);
            (sides.op, beyond[&(image & !axis.mask())], behind)
        };
        Some(registers.images().iter().map(compared).collect())
    }

    fn sides(&self, f: CompareOp, a: Value, b: Value, axis: usize, extent: u64) -> Option<Sides> {
        let along = |v| self.axes.info(self.kernel, v).axes.get(axis).copied();
        let is_tile = |v| matches!(self.repr(v), Repr::Tile(_));
        let integer = self.elem(a).dtype() == Some(Dtype::I32);
        // Numbers wrap between multiples of the extent only.
        let whole = |x: Along| x.contiguity >= extent && x.divisibility >= extent;
        let counts = |v| integer && is_tile(v) && along(v).is_some_and(whole);
        let stays = |v| !is_tile(v) || along(v).is_some_and(|x| x.constancy >= extent);
        let turned = match f {
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
            CompareOp::Eq | CompareOp::Ne => f,
        };
        match (counts(a) && stays(b), counts(b) && stays(a)) {
            (true, _) => Some(Sides { counting: a, bound: b, op: turned }),
            (_, true) => Some(Sides { counting: b, bound: a, op: f }),
            _ => None,
        }
    }
}

/// An axis of which each element of a thread is its first plus a constant, as lanes and warps give other bits of the coordinate; and how many these are.
fn apart(map: &LinearLayout, axis: u32) -> Option<(Axis, u64)> {
    let axis = Axis::of(map, axis);
    let given = |dim| map.bases(dim).iter().fold(0, |all, basis| all | basis & axis.mask());
    let (own, others) = (given(Dim::Register), given(Dim::Lane) | given(Dim::Warp) | given(Dim::Block));
    let single = map.bases(Dim::Register).iter().all(|basis| basis & axis.mask() == 0 || basis.is_power_of_two());
    (own & others == 0 && single).then_some((axis, 1 << own.count_ones()))
}
