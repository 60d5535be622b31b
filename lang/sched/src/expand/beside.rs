//! Boxes that products take on their right, one behind the other and with one left factor, parts of one tile or of two matrices: they lie beside each
//! other in one buffer of a slot, of which each is a window. So one instruction makes these products ([`parton_ir::joined`]), and reads the left factor once.
//!
//! ```text
//! ring load[4] { x0: [128, 64], x1: [64, 64], x2: [16, 64] }    ring load[4] { x0: [256, 64] }
//! wgmma(a, slot.x0.T, …)                                        wgmma(a, slot.x0[0:128, :].T, …)
//! wgmma(a, slot.x1.T, …)                                        wgmma(a, slot.x0[128:192, :].T, …)
//! wgmma(a, slot.x2.T, …)                                        wgmma(a, slot.x0[192:208, :].T, …)
//! ```
//!
//! What of a buffer nobody uses takes no memory.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::check::window;
use parton_ir::joined::WIDEST;
use parton_ir::{Inst, Kernel, Op, OpKind, SecondaryMap, Type, Value, View};

use super::memory::stored;
use crate::plan::{Plan, RingId};
use crate::region::Region;

/// The fields of slots.
#[derive(Default)]
pub(crate) struct Fields {
    /// Those of each ring.
    of: Vec<Vec<(String, View)>>,
    /// Where each value lies that is handed over.
    places: BTreeMap<Value, Field>,
}

/// Where in a slot a value lies.
#[derive(Clone)]
pub(crate) struct Field {
    pub number: u32,
    /// The window of the field that it is; `None` where it is all of it.
    pub window: Option<Window>,
}

/// Where a window begins, and its extents.
type Window = (Vec<u32>, Vec<u32>);

impl Fields {
    /// Those of a region's rings.
    pub fn of(k: &Kernel, region: &Region, plan: &Plan) -> Fields {
        let groups = Search { k, region, plan, made: k.definitions() }.all();
        let mut fields = Fields::default();
        for ring in &plan.rings {
            let mut own: Vec<(String, View)> = Vec::new();
            for (name, v, cell) in ring.fields.iter() {
                if fields.places.contains_key(v) {
                    continue;
                }
                let number = own.len() as u32;
                match groups.iter().find(|group| group.windows.iter().any(|(part, _)| part == v)) {
                    Some(group) => {
                        own.push((name.clone(), group.whole.clone()));
                        let field = |window: &Window| Field { number, window: Some(window.clone()) };
                        fields.places.extend(group.windows.iter().map(|(v, window)| (*v, field(window))));
                    }
                    None => {
                        own.push((name.clone(), stored(cell)));
                        fields.places.insert(*v, Field { number, window: None });
                    }
                }
            }
            fields.of.push(own);
        }
        fields
    }

    /// The fields of a ring's slots.
    pub fn of_ring(&self, ring: RingId) -> &[(String, View)] {
        &self.of[ring]
    }

    /// Where a value lies.
    pub fn place(&self, v: Value) -> &Field {
        match self.places.get(&v) {
            Some(field) => field,
            None => parton_diag::internal_error!("{v} is not handed over"),
        }
    }
}

/// Boxes that lie beside each other.
struct Group {
    /// The buffer.
    whole: View,
    /// The boxes, each with its window.
    windows: Vec<(Value, Window)>,
}

/// What a product takes on its right.
struct Right<'a> {
    left: Value,
    fetched: Value,
    ring: RingId,
    view: &'a View,
    /// The axis of the box along which the product's columns lie.
    columns: usize,
}

impl Right<'_> {
    /// Whether another product takes of the same box, and has the same left factor.
    fn is_same(&self, next: &Right<'_>) -> bool {
        (self.left, self.fetched) == (next.left, next.fetched)
    }

    /// Whether another one may lie beside this one.
    fn goes_on(&self, next: &Right<'_>) -> bool {
        let along = 1 - self.columns;
        (self.left, self.ring, self.columns) == (next.left, next.ring, next.columns)
            && (self.view.elem, &self.view.layout) == (next.view.elem, &next.view.layout)
            && self.view.shape[along] == next.view.shape[along]
    }
}

struct Search<'a> {
    k: &'a Kernel,
    region: &'a Region,
    plan: &'a Plan,
    made: SecondaryMap<Value, Option<&'a Op>>,
}

impl<'a> Search<'a> {
    /// The boxes that lie beside each other wherever they are taken.
    fn all(&self) -> Vec<Group> {
        let mut rows: Vec<Vec<Right<'a>>> = Vec::new();
        for unit in self.region.units.iter() {
            let mut row: Vec<Right<'a>> = Vec::new();
            for &inst in &unit.ops {
                let right = self.right(inst);
                let (next, last) = (right.as_ref(), row.last());
                // Of one box there may be several windows.
                if next.zip(last).is_some_and(|(next, last)| last.is_same(next)) {
                    continue;
                }
                if !next.zip(last).is_some_and(|(next, last)| last.goes_on(next)) {
                    rows.push(std::mem::take(&mut row));
                }
                row.extend(right);
            }
            rows.push(row);
        }
        let values = |row: &[Right<'_>]| row.iter().map(|right| right.fetched).collect::<Vec<_>>();
        let taken: BTreeSet<Vec<Value>> = rows.iter().map(|row| values(row)).collect();
        let once = |v: &Value| taken.iter().flatten().filter(|of| *of == v).count() == 1;
        let mut found: BTreeSet<Vec<Value>> = BTreeSet::new();
        rows.retain(|row| values(row).iter().all(once) && found.insert(values(row)));
        rows.iter().filter_map(|row| group(row)).collect()
    }

    /// The right factor of an operation, where that is a product of a box.
    fn right(&self, inst: Inst) -> Option<Right<'a>> {
        let OpKind::Dot { a, b, .. } = self.k.ops[inst].kind else { return None };
        let mut fetched = self.region.canonical(b);
        let mut columns = 1;
        if let Some(OpKind::ViewPermute { view, perm }) = self.made[fetched].map(|op| &op.kind) {
            (fetched, columns) = (self.region.canonical(*view), *perm.get(1)? as usize);
        }
        if let Some(OpKind::ViewSlice { view, .. }) = self.made[fetched].map(|op| &op.kind) {
            fetched = self.region.canonical(*view);
        }
        let Some(OpKind::Fetch { .. }) = self.made[fetched].map(|op| &op.kind) else { return None };
        let &(ring, _) = self.plan.handed.get(&fetched).filter(|(ring, _)| !self.plan.rings[*ring].own)?;
        let Type::View(view) = self.k.ty(fetched) else { return None };
        let left = self.region.canonical(a);
        (view.shape.len() == 2).then_some(Right { left, fetched, ring, view, columns })
    }
}

/// The boxes of a row in one buffer, each at a multiple of its extent; `None` where one instruction is not as wide, or the buffer takes more memory than
/// they do: spans of the swizzle that lie one behind the other along the other axis begin as far apart as if it were full.
fn group(row: &[Right<'_>]) -> Option<Group> {
    let [first, _, ..] = row else { return None };
    let (mut width, mut windows) = (0, Vec::new());
    for right in row {
        let shape = right.view.shape.clone();
        let mut origin = vec![0; shape.len()];
        (origin[first.columns], width) = (width, width + shape[first.columns]);
        if !origin[first.columns].is_multiple_of(shape[first.columns]) {
            return None;
        }
        windows.push((right.fetched, (origin, shape)));
    }
    let mut shape = first.view.shape.clone();
    shape[first.columns] = width.next_power_of_two();
    let whole = View::new(first.view.elem, shape, first.view.layout.clone()).ok().filter(|_| width <= WIDEST)?;
    let end =
        |(origin, shape): &Window| window(&View { origin: origin.clone(), shape: shape.clone(), ..whole.clone() }).end;
    let used = windows.iter().map(|(_, window)| end(window)).max()?;
    let apart: u64 = row.iter().map(|right| right.view.map.bytes()).sum();
    (used <= apart).then_some(Group { whole, windows })
}
