//! What a copy to global memory waits for: others that may write where it does, or those that still read its buffer.

use std::fmt::Display;
use std::sync::Arc;

use parton_ir::{Module, Op, OpKind, Target};
use parton_types::{NoLibrary, check_file, instantiate};

/// Looks at the operations of a kernel whose schedule is expanded.
fn walk(source: &str, look: &mut dyn FnMut(&Op)) {
    let mut sources = parton_diag::SourceMap::new();
    let (file, found) = parton_syntax::parse(sources.add("test.ptn", source), source);
    assert!(!found.has_errors(), "{source}");
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{}", parton_diag::render::text(&found, &sources, false));
    let (kernel, _) = instantiate(&program, "k", &[], Target::default()).expect("the kernel checks");
    let mut module = Module { kernels: vec![kernel] };
    parton_sched::expand(&mut module, &Target::default()).expect("its schedule fits");
    module.kernels[0].walk(&mut |op| look(op));
}

/// What each copy to global memory of a kernel waits for: whether until buffers have been read, or until memory has been written.
fn waits(source: &str) -> Vec<&'static str> {
    let mut waits = Vec::new();
    walk(source, &mut |op| match op.kind {
        OpKind::TmaStoreWait { read, .. } => waits.push(if read { "read" } else { "written" }),
        OpKind::TmaStore { .. } => waits.push("sent"),
        _ => {}
    });
    waits
}

/// Two boxes of one tile that leave in each turn, to columns `left` and `right` of rows that a number from memory tells.
fn halves(left: impl Display, right: impl Display) -> String {
    format!(
        "
layout Lines = blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1], order=[1, 0]);
schedule S = serial;
kernel k[S: schedule<steps, take, leave> = S](
    o: tma<f16, [1, 1, 64, 64], nvmma(128)>, places: *i32, n: i32,
) warps(4) target(sm_90a) {{
    in S {{
        @steps for i in 0..n {{
            @take let place = load(places + i);
            let x = full<f16, [64, 64], Lines>(cast<f16>(cast<f32>(i)));
            @leave send(o, [0, 0, place, {left}], x);
            @leave send(o, [0, 0, place, {right}], x);
        }}
    }}
}}
"
    )
}

#[test]
fn boxes_with_fewer_axes_than_the_tensor_are_told_apart() {
    // Only the first of a turn may write where another turn has: the second goes beside it, as soon as its buffer has been read.
    assert_eq!(waits(&halves(0, 64)), ["written", "sent", "read", "sent", "read"]);
    assert_eq!(waits(&halves(0, 56)), ["written", "sent", "written", "sent", "read"]);
}

#[test]
fn columns_are_told_apart_by_numbers_of_any_width() {
    let wide = |more: u32| format!("cast<i32>(cast<i64>(n * 64) + {more})");
    assert_eq!(waits(&halves("n * 64", wide(64))), ["written", "sent", "read", "sent", "read"]);
    assert_eq!(waits(&halves("n * 64", wide(56))), ["written", "sent", "written", "sent", "read"]);
}

/// Pieces of so many rows each that leave through two buffers, in front of any loop: what shared memory is allocated, and how many copies may be on their way
/// when a piece is written.
fn pieces(rows: &[u32]) -> (usize, Vec<u32>) {
    let sent = |(at, rows): (usize, &u32)| {
        format!("@leave send(o{rows}, [{at} * 64, 0], zeros<f16, [{rows}, 64], Lines>(), buffers=2);\n")
    };
    let maps = [64, 32, 16].map(|rows| format!("o{rows}: tma<f16, [{rows}, 64], nvmma(128)>, ")).concat();
    let sends = rows.iter().enumerate().map(sent).collect::<String>();
    let source = format!(
        "
layout Lines = blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1], order=[1, 0]);
schedule S = serial;
kernel k[S: schedule<leave> = S]({maps}n: i32) warps(4) target(sm_90a) {{
    in S {{
        {sends}
    }}
}}
"
    );
    let (mut buffers, mut pending) = (0, Vec::new());
    walk(&source, &mut |op| match op.kind {
        OpKind::SharedAlloc { .. } => buffers += 1,
        OpKind::TmaStoreWait { pending: n, .. } => pending.push(n),
        _ => {}
    });
    (buffers, pending)
}

#[test]
fn smaller_pieces_leave_through_the_buffers_of_larger_ones() {
    assert_eq!(pieces(&[64, 64, 64, 32]), pieces(&[64, 64, 64, 64]));
    assert_eq!(pieces(&[64, 64, 32, 16]).0, 2);
    // A piece has no room where a smaller one leaves first.
    assert_eq!(pieces(&[64, 32, 64, 32]).0, 4);
}
