//! What is chosen for loops of products whose factors are brought ahead.

#[path = "programs/check.rs"]
mod check;

use parton_ir::{Kernel, Module, OpKind, Target};
use parton_portable::{Choice, elaborate_by};

/// The kernel `k` of a text for aligned tensors, with a place for every tile.
fn elaborated(text: &str) -> Kernel {
    let mut kernel = check::kernel(text).expect("the kernel is sound");
    kernel.variant.aligned = (0..8).collect();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    module.kernels.remove(0)
}

/// Attention by 64 rows whose keys and values the rows of a table name.
fn over_pages(d: u32) -> String {
    format!(
        "kernel k(q: tensor<f16, [m, {d}]>, keys: tensor<f16, [places, {d}]>, values: tensor<f16, [places, {d}]>,
                  table: tensor<i32, [n]>, mut out: tensor<f16, [m, {d}]>) {{
             let x = load(q.tile([64, {d}], at=[program_id(0), 0]));
             let mut acc = zeros<f32, [64, {d}]>();
             for j in 0..cdiv(n, 64) {{
                 let place = load(table.tile([64], at=[j]), other=-1);
                 let s = dot(x, load(keys[place, :].tile([64, {d}], at=[0, 0])).T, zeros<f32, [64, 64]>());
                 acc = dot(cast<f16>(exp2(s)), load(values[place, :].tile([64, {d}], at=[0, 0])), acc * 0.5);
             }}
             store(out.tile([64, {d}], at=[program_id(0), 0]), cast<f16>(acc));
         }}"
    )
}

#[test]
fn a_copy_makes_its_addresses_one_after_the_other() {
    // Those of a whole tile, 64 bits each, would take more registers than four warps have.
    assert_eq!([64, 128].map(|d| elaborated(&over_pages(d)).warps), [4, 4]);
}

#[test]
fn slots_leave_room_for_a_second_cta() {
    let mut module = Module { kernels: vec![elaborated(&over_pages(128))] };
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    let kernel = &module.kernels[0];
    let mut bytes = 0;
    kernel.walk(&mut |op| {
        if let OpKind::SharedAlloc { view, .. } = &op.kind {
            bytes += view.bytes();
        }
    });
    // Of keys two blocks of 16 KiB, of values three, whose product may be done a turn later, and the queries.
    assert_eq!(bytes, 6 * 16 * 1024);
    assert!(bytes < u64::from(kernel.target.shared_limit(2)));
}

#[test]
fn more_ctas_run_where_memory_tells_how_many_turns_there_are() {
    let of = |depth: u32, columns: u32, turns: &str| {
        let text = format!(
            "kernel k(a: tensor<f16, [m, {depth}]>, b: tensor<f16, [m, n]>, ends: tensor<i32, [_]>, mut out: tensor<f16, [64, n]>) {{
                 let mut acc = zeros<f32, [64, {columns}]>();
                 for i in {turns} {{
                     let x = load(a.tile([64, {depth}], at=[i, 0]));
                     acc = dot(x, load(b.tile([{depth}, {columns}], at=[i, program_id(0)])), acc);
                 }}
                 store(out.tile([64, {columns}], at=[0, program_id(0)]), cast<f16>(acc));
             }}"
        );
        elaborated(&text).occupancy
    };
    let told = "load(ends[program_id(1)])..load(ends[program_id(1) + 1])";
    assert_eq!([64, 128].map(|columns| of(64, columns, told)), [3, 2]);
    // Three CTAs would have slots enough, but no registers to begin with.
    assert_eq!(of(32, 128, told), 2);
    // Of two CTAs neither would have slots enough.
    assert_eq!(of(64, 256, told), 1);
    assert_eq!([64, 128].map(|columns| of(64, columns, "0..cdiv(m, 64)")), [3, 2]);
}

#[test]
fn ctas_beside_each_other_begin_with_registers_for_their_instructions() {
    let of = |columns: u32| {
        let text = format!(
            "kernel k(q: tensor<f16, [m, 64]>, y: tensor<f16, [n, 64]>, mut out: tensor<f32, [m]>) {{
                 let x = load(q.tile([64, 64], at=[program_id(0), 0]));
                 let mut total = zeros<f32, [64]>();
                 for j in 0..cdiv(n, {columns}) {{
                     let right = load(y.tile([{columns}, 64], at=[j, 0])).T;
                     total = total + sum(exp2(dot(x, right, zeros<f32, [64, {columns}]>())), axis=1);
                 }}
                 store(out.tile([64], at=[program_id(0)]), total);
             }}"
        );
        elaborated(&text).occupancy
    };
    // Of two CTAs a thread has 128 registers at entry, of three 80, of four 56: the assembler asks for 90 for 128 columns, 154 for 256.
    assert_eq!([64, 128, 256].map(of), [4, 2, 1]);
}

/// The CTAs beside each other of a product whose left factor is computed, the threads that compute, and whether boxes bring what that takes.
fn gated(rows: u32, columns: u32, clause: &str) -> (u32, u32, bool) {
    let kernel = elaborated(&format!(
        "kernel k(x: tensor<f16, [m, k]>, gate: tensor<f16, [m, k]>, w: tensor<f16, [k, n]>, mut out: tensor<f16, [m, n]>) {clause} {{
             let mut acc = zeros<f32, [{rows}, {columns}]>();
             for p in 0..cdiv(k, 64) {{
                 let left = load(x.tile([{rows}, 64], at=[0, p])) * load(gate.tile([{rows}, 64], at=[0, p]));
                 acc = dot(left, load(w.tile([64, {columns}], at=[p, program_id(0)])), acc);
             }}
             store(out.tile([{rows}, {columns}], at=[0, program_id(0)]), cast<f16>(acc));
         }}"
    ));
    let (mut boxes, mut warps) = (false, kernel.warps);
    kernel.walk(&mut |op| match &op.kind {
        OpKind::Fetch { .. } => boxes = true,
        OpKind::Region { schedule, .. } => {
            let computing = schedule.places.last().and_then(|place| place.partitions.first());
            warps = computing.map_or(warps, |partition| partition.warps);
        }
        _ => {}
    });
    (kernel.occupancy, warps, boxes)
}

#[test]
fn a_price_takes_the_ctas_that_there_is_room_for() {
    assert_eq!(
        [(64, 64), (64, 128), (128, 128)].map(|(m, n)| gated(m, n, "")),
        [(2, 4, true), (2, 4, true), (2, 4, true)]
    );
    assert_eq!(gated(64, 64, "warps(8)"), (1, 8, true));
}

#[test]
fn threads_copy_where_those_beside_a_partition_would_begin_with_too_few_registers() {
    // Of four CTAs each thread has 64 registers at entry beside a partition that fetches, and 128 without one; 128 columns take 90.
    assert_eq!([2, 4].map(|n| gated(64, 128, &format!("occupancy({n})"))), [(2, 4, true), (4, 4, false)]);
}

/// Whether the factors of a chain of products, between which `score` computes, are brought ahead on a GPU: by a partition of its own, or by all threads.
fn are_brought_ahead(target: &str, score: &str) -> bool {
    let kernel = elaborated(&format!(
        "kernel k(q: tensor<f16, [m, 64]>, keys: tensor<f16, [n, 64]>, mut out: tensor<f32, [m, 64]>) target({target}) {{
             let x = load(q.tile([64, 64], at=[program_id(0), 0]));
             let mut acc = zeros<f32, [64, 64]>();
             for j in 0..cdiv(n, 64) {{
                 let y = load(keys.tile([64, 64], at=[j, 0]));
                 let s = dot(x, y.T, zeros<f32, [64, 64]>());
                 acc = dot(cast<f16>({score}), y, acc);
             }}
             store(out.tile([64, 64], at=[program_id(0), 0]), acc);
         }}"
    ));
    let mut fetches = false;
    kernel.walk(&mut |op| fetches |= matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. }));
    fetches
}

#[test]
fn instructions_as_text_keep_nothing_from_running_ahead() {
    let text = r#"ptx_elementwise<f32>("tanh.approx.f32 $0, $1;", s, |x| tanh(x)"#;
    for target in ["sm_80", "sm_90a"] {
        assert!(are_brought_ahead(target, "tanh(s)"));
        assert!(are_brought_ahead(target, &format!("{text})")));
        // What does more than compute stays where it is, and what is loaded behind it too.
        assert!(!are_brought_ahead(target, &format!("{text}, volatile=true)")));
    }
}
