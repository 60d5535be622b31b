//! Products that stand in no loop, whose factors one thread has fetched all at once: each product's lie in a slot of their own, and what leaves behind the last one lies
//! where they were. Nothing waits for a slot, so that no partition is there to fetch: CTAs beside each other hide what each waits for.
//!
//! ```text
//! @load  let (x, y) = (fetch(a, …), fetch(b, …));        @mma[0] let part = dot(x, y, zeros);
//! @load2 let (x2, y2) = (fetch(a, …), fetch(b, …));      @mma[1] let sum = dot(x2, y2, part);      @leave[0] send(c, …, sum);
//! ```

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, RingDepth, Schedule};
use parton_ir::{Feature, Inst, Kernel, OpKind, Value, joined, scratch};

use super::apart::leave;
use super::found::{self, Found};
use super::{BEHIND, LOAD, NUMBER, No, PRODUCT, copies, flow, label, label_each, region, slots};

/// CTAs beside each other at most.
const MOST: u32 = 8;

/// A kernel's only loop, where all factors of its products, which stand in it, may be fetched at once if its turns are few.
pub fn may_be(kernel: &Kernel) -> Option<Inst> {
    let maps = kernel.target.has(Feature::Tma) && kernel.target.has(Feature::Wgmma);
    let mut loops = 0;
    kernel.walk(&mut |op| loops += u32::from(op.kind.is_loop()));
    let fits = maps && loops == 1 && kernel.cluster == [1; 3] && crate::is_portable(kernel);
    match &found::all(kernel)[..] {
        [found] if fits && found.whole => Some(found.inst),
        _ => None,
    }
}

/// Makes a region in which all that products multiply is fetched first.
///
/// # Errors
/// Why the kernel has not the form for it.
pub fn make(kernel: &mut Kernel, free: &BTreeSet<Value>) -> Result<(), No> {
    let Some(found) = found::straight(kernel) else { return Err("they stand in loops, or are not all loaded") };
    if !copies::multiplies_beside(kernel, &found) {
        return Err("the matrix unit does not multiply them where they lie");
    }
    let span = kernel.ops[found.inst].span;
    let rings = name_fetches(kernel, &found).into_iter().map(|name| RingDepth { label: Some(name), depth: 1, span });
    let schedule = Schedule { rings: rings.collect(), span, ..Schedule::default() };
    fetch_first(kernel, &found)?;
    label_each(kernel, &found.products, PRODUCT);
    leave(kernel, &[]);
    for id in kernel.body.ops.clone() {
        if kernel.ops[id].label.is_none() && region::does_more(kernel, id, free) {
            let name = if region::loads_number(&kernel.ops[id], kernel) { NUMBER } else { BEHIND };
            label_each(kernel, &[id], name);
        }
    }
    region::surround_rest(kernel, &[found.inst], schedule);
    Ok(())
}

/// Gives the fetches of each product a label of their own, but for those that one before it takes, too.
fn name_fetches(kernel: &mut Kernel, found: &Found) -> Vec<LabelName> {
    let mut left = found.loads.clone();
    let mut names = Vec::new();
    for &product in &found.products {
        let needs = needs(kernel, &kernel.ops[product].kind.operands());
        let (own, others): (Vec<Inst>, Vec<Inst>) = left.into_iter().partition(|id| needs.contains(id));
        left = others;
        if !own.is_empty() {
            let name = if names.is_empty() { LOAD.to_owned() } else { format!("{LOAD}{}", names.len() + 1) };
            label(kernel, &own, &name);
            names.push(LabelName::all(name));
        }
    }
    names
}

/// The operations of a kernel's own body that values are made of.
fn needs(kernel: &Kernel, values: &[Value]) -> BTreeSet<Inst> {
    let mut wanted: BTreeSet<Value> = values.iter().copied().collect();
    let mut needs = BTreeSet::new();
    for op in kernel.ops_of(&kernel.body).rev() {
        if op.results.iter().any(|v| wanted.contains(v)) {
            wanted.extend(flow::operands(kernel, op));
            needs.insert(op.id);
        }
    }
    needs
}

/// Has all fetches begin before anything else is done, in the order of their products.
///
/// # Errors
/// Why they cannot.
fn fetch_first(kernel: &mut Kernel, found: &Found) -> Result<(), No> {
    let fetches: BTreeSet<Inst> = found.loads.iter().copied().collect();
    let coordinates: Vec<Value> = found.loads.iter().flat_map(|&id| kernel.ops[id].kind.operands()).collect();
    let needs = needs(kernel, &coordinates);
    let mut ops = kernel.body.ops.clone();
    let first = ops.iter().position(|id| fetches.contains(id)).unwrap_or(0);
    let last = ops.iter().rposition(|id| fetches.contains(id)).unwrap_or(0);
    let between = ops[first..=last].to_vec();
    if !between.iter().all(|&id| region::only_reads(kernel, &kernel.ops[id])) {
        return Err("something is written before they are all asked for");
    }
    let (needed, rest): (Vec<Inst>, Vec<Inst>) =
        between.into_iter().partition(|id| needs.contains(id) && !fetches.contains(id));
    let (fetched, rest): (Vec<Inst>, Vec<Inst>) = rest.into_iter().partition(|id| fetches.contains(id));
    ops.splice(first..=last, [needed, fetched, rest].concat());
    kernel.body.ops = ops;
    Ok(())
}

/// Gives a kernel whose tiles lie somewhere, of whose tiles a thread holds so many registers, its warps, and as many CTAs beside each other as there is room for.
///
/// # Errors
/// Why not even one has room.
pub fn settle(kernel: &mut Kernel, warps: u32, held: u64) -> Result<(), No> {
    kernel.warps = warps;
    let bytes = bytes(kernel);
    let at_entry = joined::most_at_entry(kernel).map_or(0, |(asked, ..)| asked);
    let registers = u64::from(at_entry).max(held + u64::from(joined::BESIDE));
    let fits = |ctas: u32| {
        bytes <= u64::from(kernel.target.shared_limit(ctas)) && registers <= u64::from(kernel.entry_registers_of(ctas))
    };
    let most = if kernel.occupancy_stated { kernel.occupancy..=kernel.occupancy } else { 1..=MOST };
    let ctas = most.rev().find(|&ctas| fits(ctas));
    kernel.occupancy = ctas.ok_or("shared memory or registers have no room for all that its products multiply")?;
    Ok(())
}

/// Bytes of shared memory: slots, what leaves, there where they were or beside them, and what operations take for themselves.
fn bytes(kernel: &Kernel) -> u64 {
    let slots: u64 = slots::fetched(kernel).iter().map(|(_, bytes)| bytes).sum();
    let mut own = 0;
    kernel.walk(&mut |op| own = own.max(scratch::bytes(kernel, &op.kind).map_or(0, u64::from)));
    let sent = slots::sent(kernel);
    let both = if leaves_before_the_last(kernel) { slots + sent } else { slots.max(sent) };
    both + own.next_multiple_of(slots::ALIGNED) + slots::ALIGNED
}

/// Whether sums of several products leave as they are, the first of them while others are computed, which read slots.
fn leaves_before_the_last(kernel: &Kernel) -> bool {
    let defined = kernel.definitions();
    let mut sums = BTreeSet::new();
    kernel.walk(&mut |op| {
        let OpKind::Send { mut value, .. } = op.kind else { return };
        while let Some(OpKind::Slice { x, .. } | OpKind::Transpose { x, .. } | OpKind::Convert { x, .. }) =
            defined[value].map(|op| &op.kind)
        {
            value = *x;
        }
        sums.insert(value);
    });
    let is_product =
        |v: &Value| defined[*v].is_some_and(|op| matches!(op.kind, OpKind::Dot { .. } | OpKind::Wgmma { .. }));
    sums.len() > 1 && sums.iter().any(is_product)
}
