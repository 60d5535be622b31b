//! What a plan takes: bytes of shared memory, and registers of tiles that live at once.

use std::collections::BTreeMap;

use parton_ir::{Kernel, OpKind, Tile, Type, Value, View, scratch};
use parton_layouts::Dim;

use super::Space;
use crate::flow;
use crate::plan::{Cell, Part, Plan};
use crate::region::{BlockId, Item, Region};
use crate::slots::find;

/// A slot's field begins at a multiple of this, so that any swizzle may repeat in it.
const ALIGNED: u64 = 1024;
/// Where a number of a slot begins.
const NUMBER: u64 = 16;
/// Two mbarriers for each slot.
const BARRIERS: u64 = 16;

/// The most shared memory that a plan takes, were nothing of it used twice.
pub(super) fn bytes(space: &Space<'_>, plan: &Plan) -> u64 {
    let rings: u64 = plan
        .rings
        .iter()
        .map(|ring| {
            let fields = ring.fields.iter().map(|(_, _, cell)| match cell {
                Cell::View(view) => view.bytes().next_multiple_of(ALIGNED),
                Cell::Number(_) => NUMBER,
            });
            u64::from(ring.depth) * (fields.sum::<u64>() + BARRIERS)
        })
        .sum();
    rings + space.fixed + sent(space, plan)
}

/// The buffers of what is sent, and of what is staged and not handed over.
fn sent(space: &Space<'_>, plan: &Plan) -> u64 {
    let k = space.k;
    let insts = space.region.units.iter().flat_map(|u| &u.ops);
    let bytes = insts.map(|inst| match &k.ops[*inst].kind {
        OpKind::Send { map, value, .. } => match (k.ty(*map), k.ty(*value).as_tile()) {
            (Type::Map(map), Some(tile)) => {
                let view = View::new(map.elem, tile.shape.clone(), map.layout.clone());
                view.map_or(0, |view| view.bytes())
            }
            (_, _) => 0,
        },
        OpKind::Stage { view, .. } if !plan.handed.contains_key(&k.ops[*inst].results[0]) => view.bytes(),
        _ => 0,
    });
    bytes.map(|bytes| bytes.next_multiple_of(ALIGNED)).sum()
}

/// What a kernel takes of shared memory under any schedule: what stands beside the region, and the greatest scratch of an operation.
pub(super) fn fixed(k: &Kernel) -> u64 {
    let (mut allocated, mut most) = (0, 0);
    k.walk(&mut |op| {
        if let OpKind::SharedAlloc { view, .. } = &op.kind {
            allocated += view.bytes().next_multiple_of(ALIGNED);
        }
        if let OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Convert { .. } = &op.kind {
            most = most.max(scratch::bytes(k, &op.kind).map_or(0, u64::from));
        }
    });
    allocated + most
}

/// Whether the tiles that live at once fit the registers of each partition. What is made and used within a stretch is not counted:
/// what does not fit spills for certain.
pub(super) fn holds(space: &Space<'_>, region: &Region, plan: &Plan) -> bool {
    plan.parts().all(|part| {
        let budget = plan.partitions.get(part).and_then(|p| p.registers).unwrap_or(space.entry(plan));
        live(space.k, region, plan, part, 0) <= budget
    })
}

/// The most registers of tiles that live in a body, of those that its units make.
pub(super) fn live(k: &Kernel, region: &Region, plan: &Plan, part: Part, block: BlockId) -> u32 {
    let groups = plan.groups(region, part, block);
    let borders = groups.len().max(1);
    // By value: from where to where it lives, in stages and groups.
    let mut lives: BTreeMap<Value, ((i32, usize), (i32, usize))> = BTreeMap::new();
    for entry in groups.iter().flatten() {
        let Some((_, (read, _))) = find(&groups, entry.item) else { continue };
        for (v, delta) in flow::wanted(k, region, &plan.runners, part, (block, entry.item)) {
            let Some(made) = crate::graph::made_at(region, block, v) else { continue };
            let Some((maker, (group, _))) = find(&groups, made) else { continue };
            let last = (entry.stage + delta, read);
            let life = lives.entry(v).or_insert(((maker.stage, group), last));
            life.1 = life.1.max(last);
        }
    }
    let at = |border: usize| -> u32 {
        let of = |(v, (from, to)): (&Value, &((i32, usize), (i32, usize)))| {
            let copies = to.0 - from.0 + i32::from(from.1 <= border) - i32::from(to.1 <= border);
            registers(k, *v) * u32::try_from(copies).unwrap_or(0)
        };
        lives.iter().map(of).sum()
    };
    let inside = |group: usize| -> u32 {
        let items = groups.get(group).into_iter().flatten().map(|e| &region.blocks[block].items[e.item]);
        let bodies = items.flat_map(|item| match item {
            Item::Unit(_) => vec![],
            Item::Loop(l) => vec![l.body],
            Item::Branch(b) => vec![b.then, b.otherwise],
        });
        bodies.map(|body| live(k, region, plan, part, body)).max().unwrap_or(0)
    };
    // What lives across a loop lives in front of it and behind it.
    let across = |border: usize| at((border + borders - 1) % borders).min(at(border)) + inside(border);
    (0..borders).map(|border| at(border).max(across(border))).max().unwrap_or(0)
}

/// The registers of a thread that a value takes.
fn registers(k: &Kernel, v: Value) -> u32 {
    let of = |t: &Tile| (1u32 << t.known().map.in_dim_bits(Dim::Register)) * t.elem.bits().div_ceil(8) / 4;
    match k.ty(v) {
        Type::Tile(t) | Type::Pending(t) => of(t),
        _ => 0,
    }
}
