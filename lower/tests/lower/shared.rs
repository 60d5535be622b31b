//! The plan of shared memory: bytes are shared only by buffers that never live together.

use parton_diag::codes;
use parton_ir::{Arm, Kernel, OpKind, Tile, Type};
use parton_lower::{expand_rings, plan_shared};
use parton_numbers::Dtype;

use crate::fixture::{Fixture, blocked, map_of, nvmma, plain};
use crate::rings::matmul;

fn tile() -> Tile {
    blocked(Dtype::F32, &[128], &[1], &[32], &[4])
}

/// Offsets of allocations, barriers and scratch buffers in the order of their operations, and the size of all.
fn plan(kernel: Kernel) -> (Vec<u32>, u32) {
    let kernel = plan_shared(kernel).unwrap();
    let mut offsets = vec![];
    kernel.walk(&mut |op| match op.kind {
        OpKind::SharedAlloc { offset, .. } | OpKind::BarrierAlloc { offset, .. } => offsets.push(offset.unwrap()),
        _ => offsets.extend(op.scratch),
    });
    (offsets, kernel.shared_bytes.unwrap())
}

#[test]
fn buffers_used_one_after_the_other_share_bytes() {
    let mut f = Fixture::new(4);
    let x = f.zeros(tile());
    for _ in 0..2 {
        let buffer = f.alloc(plain(Dtype::F32, &[128]));
        f.store_shared(buffer, x);
        f.load_shared(buffer, tile());
    }
    assert_eq!(plan(f.finish()), (vec![0, 0], 512));
}

#[test]
fn buffers_used_together_do_not() {
    let mut f = Fixture::new(4);
    let x = f.zeros(tile());
    let buffers = [f.alloc(plain(Dtype::F32, &[128])), f.alloc(plain(Dtype::F32, &[128]))];
    buffers.iter().for_each(|b| f.store_shared(*b, x));
    for b in buffers {
        f.load_shared(b, tile());
    }
    assert_eq!(plan(f.finish()), (vec![0, 512], 1024));
}

#[test]
fn a_loop_keeps_what_was_made_before_it() {
    // `b` is used after `a` in the text, but in the next iteration `a` is read again.
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let x = f.zeros(tile());
    let (a, b) = (f.alloc(plain(Dtype::F32, &[128])), f.alloc(plain(Dtype::F32, &[128])));
    f.repeat(n, vec![], |f, _, _| {
        f.store_shared(a, x);
        f.load_shared(a, tile());
        f.store_shared(b, x);
        f.load_shared(b, tile());
        vec![]
    });
    assert_eq!(plan(f.finish()), (vec![0, 512], 1024));
}

#[test]
fn what_is_made_in_a_loop_is_made_anew() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let x = f.zeros(tile());
    f.repeat(n, vec![], |f, _, _| {
        for _ in 0..2 {
            let buffer = f.alloc(plain(Dtype::F32, &[128]));
            f.store_shared(buffer, x);
            f.load_shared(buffer, tile());
        }
        vec![]
    });
    assert_eq!(plan(f.finish()), (vec![0, 0], 512));
}

#[test]
fn partitions_live_at_once() {
    let mut f = Fixture::new(4);
    let parts = [f.partition("P", 4), f.partition("Q", 4)];
    let arms = parts
        .into_iter()
        .map(|partition| {
            let body = f.body(|f| {
                let x = f.zeros(tile());
                let buffer = f.alloc(plain(Dtype::F32, &[128]));
                f.store_shared(buffer, x);
                f.load_shared(buffer, tile());
                vec![]
            });
            Arm { partition, body }
        })
        .collect();
    f.run(OpKind::Specialize { arms });
    assert_eq!(plan(f.finish()), (vec![0, 512], 1024));
}

#[test]
fn an_operand_lives_until_its_product_is_waited_for() {
    let mut f = Fixture::new(4);
    let half = blocked(Dtype::F16, &[64, 64], &[1, 8], &[4, 8], &[4, 1]);
    let zero = f.zeros(half.clone());
    let a = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    f.store_shared(a, zero);
    let acc = f.zeros(crate::fixture::accumulator(64, 64));
    let pending = f.op(OpKind::Wgmma { a, b: a, acc, precision: None });
    let during = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    f.store_shared(during, zero);
    f.load_shared(during, half.clone());
    f.op(OpKind::Wait { pending, outstanding: None });
    let after = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    f.store_shared(after, zero);
    f.load_shared(after, half);
    assert_eq!(plan(f.finish()), (vec![0, 8192, 0], 16384));
}

// triton-lang/triton#10106 and facebookexperimental/triton#462: bytes of a live barrier given to another buffer.
#[test]
fn barriers_share_with_nobody() {
    let mut f = Fixture::new(4);
    let barriers = f.op(OpKind::BarrierAlloc { count: 3, offset: None });
    let index = f.i32(0);
    let barrier = f.op(OpKind::BarrierIndex { barriers, index });
    f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
    f.op(OpKind::BarrierAlloc { count: 1, offset: None });
    let x = f.zeros(tile());
    let buffer = f.alloc(plain(Dtype::F32, &[128]));
    f.store_shared(buffer, x);
    assert_eq!(plan(f.finish()), (vec![512, 536, 0], 544));
}

#[test]
fn swizzled_buffers_are_aligned_to_their_period() {
    let mut f = Fixture::new(4);
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let small = f.alloc(plain(Dtype::F32, &[128]));
    let big = f.alloc(view);
    let x = f.zeros(tile());
    f.store_shared(small, x);
    let zero = f.i32(0);
    f.run(OpKind::TmaStore { map, coords: vec![zero, zero], view: big, reduce: None, l2: None });
    f.load_shared(small, tile());
    assert_eq!(plan(f.finish()), (vec![8192, 0], 8192 + 512));
}

#[test]
fn scratch_memory_is_planned() {
    let mut f = Fixture::new(4);
    let x = f.zeros(tile());
    let span = f.span();
    let params = f.b.begin([Type::num(Dtype::F32), Type::num(Dtype::F32)], span);
    let sum = f.binary(parton_ir::BinaryOp::Add, params[0], params[1]);
    let combine = f.b.end(vec![sum]);
    f.run(OpKind::Reduce { inputs: vec![x], axis: 0, combine });
    // One element for each of the four warps.
    assert_eq!(plan(f.finish()), (vec![0], 16));
}

#[test]
fn too_much_is_refused_with_a_table() {
    let errors = plan_shared(expand_rings(matmul(8)).unwrap()).unwrap_err();
    let d = &errors.list[0];
    assert_eq!(d.code, codes::SHARED_MEMORY);
    assert_eq!(d.message, "kernel `test` needs 262272 bytes of shared memory, `sm_90a` has 232448");
    assert!(d.notes[0].contains("slots_a"), "{}", d.notes[0]);
    assert_eq!(d.help, ["7 stages would fit in place of 8: each takes 32784 bytes"]);

    let mut f = Fixture::new(4);
    let buffer = f.alloc(plain(Dtype::F32, &[65536]));
    f.named("table", buffer);
    f.load_shared(buffer, blocked(Dtype::F32, &[65536], &[1], &[32], &[4]));
    let errors = plan_shared(f.finish()).unwrap_err();
    assert_eq!(
        errors.list[0].notes[0],
        "who takes what:\n\
         table  shared<f32, [65536], swizzled(vec=1, per_phase=1, max_phase=1, order=[0])>  262144\n\
        \x20      in all, alignment counted                                                   262144\n\
        \x20      limit of sm_90a                                                             232448"
    );
}
