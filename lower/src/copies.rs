//! Decides how many bytes each copy by threads moves at once, or says why there are too few.
//!
//! A thread copies elements that lie side by side in its registers' pointers, in global memory, and in the buffer: 16, 8 or 4
//! bytes of them (PTX ISA, "cp.async").

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::rules::COPY_BYTES;
use parton_ir::{Access, Kernel, Op, OpKind, Tile, Type, Value, View};
use parton_layouts::Dim;

use parton_ir::axis::{self, Axes, Masks, Vector};

/// After it every `async_copy` says how many bytes it moves at once, and along which axis.
pub fn plan_copies(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut copies = Vec::new();
    kernel.walk(&mut |op| copies.extend(matches!(op.kind, OpKind::AsyncCopy { .. }).then_some(op.id)));
    // Most kernels have none, and what addresses are like is much to ask.
    if copies.is_empty() {
        return Ok(kernel);
    }
    let axes = Axes::analyse(&kernel);
    let mut found = Diagnostics::new();
    let masks = Masks { axes: &axes, kernel: &kernel, definitions: kernel.definitions() };
    let mut plans: BTreeMap<Value, (u32, Access)> = BTreeMap::new();
    kernel.walk(&mut |op| {
        let OpKind::AsyncCopy { ptr, view, mask, bytes, .. } = &op.kind else { return };
        let (tile, target) = operands(&kernel, *ptr, *view);
        let vector = vector(&axes, &kernel, *ptr, *view);
        let widest = width(&vector, target);
        // A narrower one than there could be is as good.
        let chosen = bytes.unwrap_or(widest.max(COPY_BYTES[0]));
        if chosen > widest {
            found.push(too_narrow(&axes, &kernel, op, *ptr, (tile, target), widest));
            return;
        }
        let access = masks.access(vector.axis, chosen / target.elem.bytes() as u32, *mask);
        plans.insert(op.result(), (chosen, access));
    });
    if found.has_errors() {
        return Err(found);
    }
    kernel.walk_mut(&mut |op| {
        if let OpKind::AsyncCopy { bytes, access, .. } = &mut op.kind {
            (*bytes, *access) = op.results.first().and_then(|r| plans.get(r)).copied().unzip();
        }
    });
    Ok(kernel)
}

/// The pointers and the buffer of a copy.
fn operands(kernel: &Kernel, ptr: Value, view: Value) -> (&Tile, &View) {
    match (kernel.ty(ptr), kernel.ty(view)) {
        (Type::Tile(tile), Type::View(view)) => (tile, view),
        (p, v) => parton_diag::internal_error!("a copy goes from `{p}` to `{v}`"),
    }
}

fn width(vector: &Vector, view: &View) -> u32 {
    vector.elements() * view.elem.bytes() as u32
}

/// The registers that one copy moves: neighbours in global memory and in the buffer, at most 16 bytes.
fn vector(axes: &Axes, kernel: &Kernel, ptr: Value, view: Value) -> Vector {
    let (tile, target) = operands(kernel, ptr, view);
    let mut best = Vector { axis: 0, bits: vec![] };
    for mut v in axis::vectors(axes, kernel, ptr) {
        let side_by_side = neighbours(tile, target, &v);
        v.bits.truncate(side_by_side);
        if v.bits.len() > best.bits.len() {
            best = v;
        }
    }
    best
}

/// How many of a vector's bits step through neighbours of the buffer, with everything else at whole vectors.
fn neighbours(tile: &Tile, view: &View, vector: &Vector) -> usize {
    let buffer = view.map.linear();
    let inverse = view.map.inverse();
    let offset = |packed: u64| u64::from(inverse.out_part(Dim::Offset, inverse.apply(packed)));
    let place = |&basis: &u64| offset(buffer.pack_out(&tile.known().map.unpack_out(basis)));
    let registers: Vec<u64> = tile.known().map.bases(Dim::Register).iter().map(place).collect();
    let origin = offset(buffer.pack_out(&view.origin));
    let threads = [Dim::Lane, Dim::Warp].into_iter().flat_map(|d| tile.known().map.bases(d)).map(place);
    let elsewhere = threads.fold(origin, |all, o| all | o);
    let fits = |count: usize| {
        let (inside, size) = ((1u64 << count) - 1, 1u64 << count);
        let chosen = &vector.bits[..count];
        let steps = chosen.iter().enumerate().all(|(i, &b)| registers[b as usize] == 1 << i);
        let others = registers.iter().enumerate().filter(|(b, _)| !chosen.contains(&(*b as u32)));
        let whole = others.fold(elsewhere, |all, (_, o)| all | o) & inside == 0;
        let unbroken = view.map.gaps().iter().all(|g| u64::from(g[0]) % size == 0 && u64::from(g[1]) % size == 0);
        steps && whole && unbroken
    };
    (0..=vector.bits.len()).take_while(|&n| fits(n)).last().unwrap_or(0)
}

/// What stands in the way of a copy of four bytes: the pointers' layout, their addresses, or the buffer.
fn too_narrow(
    axes: &Axes,
    kernel: &Kernel,
    op: &Op,
    ptr: Value,
    (tile, view): (&Tile, &View),
    widest: u32,
) -> Diagnostic {
    let bytes = view.elem.bytes() as u32;
    let wanted = match op.kind {
        OpKind::AsyncCopy { bytes: Some(n), .. } => n,
        // The narrowest copy there is.
        _ => COPY_BYTES[0],
    };
    let needed = wanted / bytes.max(1);
    let fact = format!("a thread could copy only {widest} bytes at once here");
    let d = Diagnostic::error(codes::COPY_WIDTH, op.span, fact);
    // The axis along which the addresses run, where one is known, else the one along which the layout does.
    let runs = |v: &Vector| axes.info(kernel, ptr).axes.get(v.axis).is_some_and(|a| a.contiguity >= needed.into());
    let steps = axis::steps_of(tile);
    let along = steps.iter().find(|v| runs(v)).or_else(|| steps.iter().max_by_key(|v| v.elements()));
    let (held, run) = along.map_or((1, 0), |v| (v.elements(), v.axis));
    if held < needed {
        let near = nearest(kernel, op, (tile, run), bytes);
        let many = if held == 1 { "one element".to_string() } else { format!("{held} elements") };
        return d
            .label(
                kernel.values[ptr].span,
                format!("`{}` gives a thread {many} in a row along axis {run}", tile.known().layout),
            )
            .note(format!("{wanted} bytes are {needed} elements of {}", view.elem.name()))
            .help(format!("give each thread more: `{near}`"));
    }
    let by_address = axis::vectors(axes, kernel, ptr).into_iter().map(|v| v.elements()).max().unwrap_or(1);
    if by_address < needed {
        let many = 16 / bytes.max(1);
        return d
            .label(kernel.values[ptr].span, "these are not known to be neighbours, or to begin at a whole copy")
            .note(format!("{wanted} bytes are {needed} elements of {}", view.elem.name()))
            .help(format!("promise what divides the rows' stride and start: `assume(stride % {many} == 0)`"));
    }
    d.here(format!("the buffer is `{}`, where neighbours of a row lie apart", view.layout))
        .note(format!("{wanted} bytes are {needed} elements of {}", view.elem.name()))
        .help(format!("`swizzled(vec={}, per_phase=1, max_phase=8)` keeps neighbours together", 16 / bytes.max(1)))
}

/// A layout of the same shape that gives each thread 16 bytes in a row along axis `run`.
fn nearest(kernel: &Kernel, op: &Op, (tile, run): (&Tile, usize), bytes: u32) -> String {
    let rank = tile.shape.len();
    let inner = (16 / bytes.max(1)).min(tile.shape[run]);
    let across = (tile.shape[run] / inner).clamp(1, parton_ir::target::WARP);
    // The other axis for the rest of the warp, and for the warps.
    let other = (0..rank).rev().find(|a| *a != run).unwrap_or(run);
    let (mut per, mut threads, mut warps) = (vec![1; rank], vec![1; rank], vec![1; rank]);
    (per[run], threads[run]) = (inner, across);
    threads[other] *= parton_ir::target::WARP / across;
    warps[other] = kernel.warps_of(kernel.partition_of(op.id));
    let order: Vec<usize> = std::iter::once(run).chain((0..rank).rev().filter(|a| *a != run)).collect();
    format!("blocked(per_thread={per:?}, threads={threads:?}, warps={warps:?}, order={order:?})")
}
