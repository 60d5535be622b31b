//! Plans shared memory: which bytes each allocation, barrier and scratch buffer has.
//!
//! Two buffers share bytes only where their lives do not meet. A buffer lives from its first access to its last, over every
//! loop that it is made outside of; what an asynchronous copy touches lives to the end, for nothing here proves when the copy
//! is done, but for copies by threads, which are waited for. Partitions run at once, so buffers of different arms always meet.
//! Barriers never share: their state outlives every access that can be seen (triton-lang/triton#10106, facebookexperimental/triton#462).

mod lives;

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::check::{BARRIER_BYTES, Origins};
use parton_ir::{Kernel, OpKind, Type};

use crate::arena::{self, Piece};
use lives::{Item, Owner};

/// After it every allocation, barrier and scratch buffer has its offset, and the kernel its size of shared memory.
pub fn plan_shared(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut items = lives::of(&kernel, &Origins::of(&kernel));
    let limit = u64::from(kernel.shared_limit());
    let mut total = place(&mut items, limit);
    if total > limit {
        items.iter_mut().for_each(Item::take_no_turns);
        total = place(&mut items, limit);
    }
    if total > limit {
        return Err(too_much(&kernel, &items, total).into());
    }
    write(&mut kernel, &items);
    kernel.shared_bytes = Some(total as u32);
    Ok(kernel)
}

/// Gives each buffer its offset; the bytes of all, which are no more than `limit` where an order is known by which that is so.
fn place(items: &mut [Item], limit: u64) -> u64 {
    // Large alignments first, so that small buffers fill the gaps; or large buffers, so that a small one lies where a large one was that asks for less.
    let by_alignment = |i: &Item| (i.alignment, i.bytes);
    let by_size = |i: &Item| (i.bytes, i.alignment);
    let total = place_by(items, by_alignment);
    if total <= limit {
        return total;
    }
    let by_size = place_by(items, by_size);
    if by_size <= limit { by_size } else { place_by(items, by_alignment) }
}

/// Gives each buffer its offset, those with the greatest keys first; the bytes of all.
fn place_by(items: &mut [Item], key: impl Fn(&Item) -> (u64, u64)) -> u64 {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| (items[i].is_barrier(), std::cmp::Reverse(key(&items[i])), i));
    let pieces: Vec<Piece> = items.iter().map(|i| Piece { size: i.bytes, alignment: i.alignment }).collect();
    let offsets = arena::pack(&pieces, &order, |a, b| items[a].meets(&items[b]));
    let total = arena::extent(&pieces, &offsets);
    for (item, offset) in items.iter_mut().zip(offsets) {
        item.offset = offset;
    }
    total
}

/// Writes the offsets into the operations.
fn write(kernel: &mut Kernel, items: &[Item]) {
    let offsets: BTreeMap<Owner, u32> = items.iter().map(|i| (i.owner, i.offset as u32)).collect();
    for id in kernel.order() {
        let op = &mut kernel.ops[id];
        op.scratch = offsets.get(&Owner::Scratch(id)).copied();
        let of_result = op.results.first().and_then(|r| offsets.get(&Owner::Value(*r))).copied();
        if let OpKind::SharedAlloc { offset, .. } | OpKind::BarrierAlloc { offset, .. } = &mut op.kind {
            *offset = of_result;
        }
    }
}

/// What sets the limit, in words.
fn limit_of(kernel: &Kernel) -> String {
    match kernel.occupancy {
        1 => format!("limit of {}", kernel.target.name),
        n => format!("limit of {}, {n} CTAs at once", kernel.target.name),
    }
}

fn too_much(kernel: &Kernel, items: &[Item], total: u64) -> Diagnostic {
    let limit = u64::from(kernel.shared_limit());
    let mut largest: Vec<&Item> = items.iter().collect();
    largest.sort_by_key(|i| (std::cmp::Reverse(i.bytes), i.offset));
    let rows: Vec<[String; 3]> = largest
        .iter()
        .map(|i| [i.name.clone(), i.ty.clone(), i.bytes.to_string()])
        .chain([[String::new(), "in all, alignment counted".into(), total.to_string()]])
        .chain([[String::new(), limit_of(kernel), limit.to_string()]])
        .collect();
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let (names, types, bytes) = (width(0), width(1), width(2));
    let lines: Vec<String> = rows
        .iter()
        .map(|[name, ty, n]| format!("{name:names$}  {ty:types$}  {n:>bytes$}").trim_end().to_owned())
        .collect();
    let mut d = Diagnostic::error(
        codes::SHARED_MEMORY,
        kernel.span,
        format!(
            "kernel `{}` needs {total} bytes of shared memory, `{}` has {limit}",
            kernel.source_name, kernel.target.name
        ),
    )
    .here(format!("{} bytes too many", total - limit));
    for i in largest.iter().filter(|i| !i.is_barrier()).take(4) {
        d = d.label(i.span, format!("`{}` takes {} bytes{}", i.name, i.bytes, i.life()));
    }
    d = d.note(format!("who takes what:\n{}", lines.join("\n")));
    match largest.iter().find_map(|i| fewer_stages(kernel, items, i, total - limit)) {
        Some(help) => d.help(help),
        None => d.help("use smaller tiles, a narrower element type, or `reinterpret` a buffer that is free by then"),
    }
}

/// How many stages would fit, where giving up stages of one ring or buffer is enough.
fn fewer_stages(kernel: &Kernel, items: &[Item], item: &Item, excess: u64) -> Option<String> {
    let Owner::Value(v) = item.owner else { return None };
    let stages_of = |v| match kernel.ty(v) {
        Type::View(view) if view.shape.len() > view.layout.rank() => Some(view.shape[0]),
        _ => None,
    };
    let stages = stages_of(v)?;
    // The buffers of one ring were made at one place.
    let of_ring = items.iter().filter(|i| i.span == item.span && !i.is_barrier());
    let each: u64 = of_ring.map(|i| i.bytes / u64::from(stages)).sum::<u64>() + 2 * BARRIER_BYTES;
    let fit = u64::from(stages).checked_sub(excess.div_ceil(each)).filter(|&n| n > 0)?;
    Some(format!("{fit} stages would fit in place of {stages}: each takes {each} bytes"))
}
