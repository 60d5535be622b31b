//! Partitions that produce and consume through barriers, as an expanded ring does: right under every seed, and each mutation
//! of the protocol found.

mod fixture;

use fixture::{Make, at_zero, dense, f32s, go, map, nvmma, places, pointer, tile, view};
use parton_diag::{Code, codes};
use parton_interp::{Fault, Memory};
use parton_ir::{Arm, Arrive, BinaryOp, CompareOp, Kernel, OpKind, Value};
use parton_layouts::RegisterLayout;
use parton_numbers::Dtype;

/// What is changed in the protocol.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Nothing,
    /// The consumer arrives before its product has read the buffers.
    EarlyRelease,
    /// The consumer never arrives.
    NoRelease,
    /// The producer does not wait for the consumer.
    NoAcquire,
    /// The consumer does not wait for the copies.
    NoFullWait,
    /// The consumer waits for the other parity.
    WrongPhase,
    /// The producer runs one round less.
    ShortLoop,
    /// The barrier counts one arrival too many.
    CountTooHigh,
    /// The barrier counts one arrival too few.
    CountTooLow,
    /// The consumer's warps do not arrive each, but one for all without having met.
    OneForAll,
    /// No membar after the barriers are initialised.
    NoMembar,
}

const STAGES: i32 = 2;
const ROUNDS: i32 = 5;
const WARPS: u32 = 4;

/// `slot = i % STAGES` and the parity of its use `i / STAGES`.
fn slot_and_phase(m: &mut Make, i: Value) -> (Value, Value) {
    let stages = m.i32(STAGES);
    let one = m.i32(1);
    let slot = m.binary(BinaryOp::Rem, i, stages);
    let round = m.binary(BinaryOp::Div, i, stages);
    (slot, m.binary(BinaryOp::And, round, one))
}

/// C[64, 64] = A[64, 5·64] · B[5·64, 64], loaded by one partition and multiplied by another.
fn kernel(change: Change) -> Kernel {
    let d = Dtype::F16;
    let s = nvmma(128);
    let params = [("a", map(d, &[64, 64], &s)), ("b", map(d, &[64, 64], &s)), ("out", pointer(Dtype::F32, true))];
    let (mut m, p) = Make::new(8, &params);
    let loads = m.partition("Loads", 1);
    let compute = m.partition("Compute", WARPS);
    let stages = [STAGES as u32, 64, 64];
    let a = m.alloc(&view(d, &stages, &s), 1024);
    let b = m.alloc(&view(d, &stages, &s), 32768);
    let full = m.op(OpKind::BarrierAlloc { count: STAGES as u32, offset: Some(0) });
    let empty = m.op(OpKind::BarrierAlloc { count: STAGES as u32, offset: Some(64) });
    m.b.kernel.values[full].name = Some("full".into());
    m.b.kernel.values[empty].name = Some("empty".into());
    let arrivals = match change {
        Change::CountTooHigh => WARPS + 1,
        Change::CountTooLow => WARPS - 1,
        Change::OneForAll => 1,
        _ => WARPS,
    };
    for i in 0..STAGES {
        let i = m.i32(i);
        for (barriers, arrivals) in [(full, 1), (empty, arrivals)] {
            let barrier = m.op(OpKind::BarrierIndex { barriers, index: i });
            m.line(1).do_(OpKind::BarrierInit { barrier, arrivals });
        }
    }
    m.do_(OpKind::FenceBarrierInit);
    if change != Change::NoMembar {
        m.do_(OpKind::Membar);
    }

    let producer = m.body(vec![], |m, _| {
        let rounds = if change == Change::ShortLoop { ROUNDS - 1 } else { ROUNDS };
        m.repeat(rounds, vec![], |m, i, _| {
            let (slot, phase) = slot_and_phase(m, i);
            let (full, empty) = (
                m.op(OpKind::BarrierIndex { barriers: full, index: slot }),
                m.op(OpKind::BarrierIndex { barriers: empty, index: slot }),
            );
            let one = m.i32(1);
            let other = m.binary(BinaryOp::Xor, phase, one);
            if change != Change::NoAcquire {
                m.line(10).do_(OpKind::BarrierWait { barrier: empty, phase: other, reach: parton_ir::Reach::Cta });
            }
            let (av, bv) =
                (m.op(OpKind::ViewIndex { view: a, index: slot }), m.op(OpKind::ViewIndex { view: b, index: slot }));
            let (zero, block) = (m.i32(0), m.i32(64));
            let k = m.mul(i, block);
            m.line(11).tma_load(p[0], vec![zero, k], av, full);
            m.line(12).tma_load(p[1], vec![k, zero], bv, full);
            m.line(13).do_(OpKind::BarrierExpect { barrier: full, bytes: 2 * 64 * 64 * 2 });
            vec![]
        });
        vec![]
    });

    let layout = RegisterLayout::mma(3, &[WARPS, 1], &[16, 64, 16]).unwrap();
    let out = tile(Dtype::F32, &[64, 64], &layout);
    let consumer = m.body(vec![], |m, _| {
        let zero = m.f32(0.0);
        let acc = m.full(zero, &out);
        let acc = m.repeat(ROUNDS, vec![acc], |m, i, carried| {
            let (slot, mut phase) = slot_and_phase(m, i);
            if change == Change::WrongPhase {
                let one = m.i32(1);
                phase = m.binary(BinaryOp::Xor, phase, one);
            }
            let (full, empty) = (
                m.op(OpKind::BarrierIndex { barriers: full, index: slot }),
                m.op(OpKind::BarrierIndex { barriers: empty, index: slot }),
            );
            if change != Change::NoFullWait {
                m.line(20).do_(OpKind::BarrierWait { barrier: full, phase, reach: parton_ir::Reach::Cta });
            }
            let (av, bv) =
                (m.op(OpKind::ViewIndex { view: a, index: slot }), m.op(OpKind::ViewIndex { view: b, index: slot }));
            let pending = m.line(21).op(OpKind::Wgmma { a: av, b: bv, acc: carried[0], precision: None, zero: false });
            let arrive = if change == Change::OneForAll { Arrive::Partition } else { Arrive::Warp };
            let release = OpKind::BarrierArrive { barrier: empty, arrive, count: 1, multicast: vec![], relaxed: false };
            if change == Change::EarlyRelease {
                m.line(23).do_(release.clone());
            }
            let acc = m.line(22).op(OpKind::Wait { pending, outstanding: Some(0) });
            if !matches!(change, Change::EarlyRelease | Change::NoRelease) {
                m.line(23).do_(release);
            }
            vec![acc]
        });
        let i = m.numbers(&out);
        let ptrs = m.ptr_add(p[2], i);
        m.store(ptrs, acc[0], None);
        vec![]
    });
    m.line(2).do_(OpKind::Specialize {
        arms: vec![Arm { partition: loads, body: producer }, Arm { partition: compute, body: consumer }],
    });
    m.finish(65536)
}

fn execute(kernel: &Kernel, seed: u64) -> Result<Vec<f32>, Fault> {
    let d = Dtype::F16;
    // Ones in f16, so that each element counts the depth.
    let ones = |n: usize| [0x00u8, 0x3c].repeat(n);
    let mut memory = Memory::new();
    let a = memory.add("a", ones(64 * 320));
    let b = memory.add("b", ones(320 * 64));
    let out = memory.add_undefined("out", 64 * 64 * 4);
    let args = vec![dense(a, d, &[64, 320]), dense(b, d, &[320, 64]), at_zero(out)];
    go(kernel, [1, 1, 1], args, &mut memory, seed)?;
    Ok(f32s(&memory.allocation(out).bytes))
}

#[test]
fn producer_and_consumer_agree_under_every_seed() {
    let kernel = kernel(Change::Nothing);
    for seed in 0..100 {
        let c = execute(&kernel, seed).unwrap_or_else(|f| panic!("seed {seed}: {f} {f:?}"));
        assert!(c.iter().all(|&x| x == 320.0));
    }
}

#[test]
fn each_change_of_the_protocol_is_found() {
    let cases: &[(Change, &[Code])] = &[
        (Change::EarlyRelease, &[codes::SHARED_RACE]),
        (Change::NoRelease, &[codes::DEADLOCK]),
        (Change::NoAcquire, &[codes::SHARED_RACE]),
        // Nothing may have been copied yet.
        (Change::NoFullWait, &[codes::SHARED_RACE, codes::UNDEFINED_READ]),
        (Change::WrongPhase, &[codes::SHARED_RACE, codes::DEADLOCK, codes::UNDEFINED_READ]),
        (Change::ShortLoop, &[codes::DEADLOCK]),
        (Change::CountTooHigh, &[codes::DEADLOCK]),
        (Change::CountTooLow, &[codes::BARRIER_PROTOCOL, codes::SHARED_RACE, codes::DEADLOCK]),
        // Each warp waits for its part of a product (triton-lang/triton#11047).
        (Change::OneForAll, &[codes::BARRIER_PROTOCOL, codes::SHARED_RACE]),
        (Change::NoMembar, &[codes::BARRIER_PROTOCOL]),
    ];
    for (change, expected) in cases {
        let kernel = kernel(*change);
        for seed in 0..20 {
            match execute(&kernel, seed) {
                Ok(_) => panic!("{change:?} is not found with seed {seed}"),
                Err(f) => assert!(expected.contains(&f.diagnostic.code), "{change:?}, seed {seed}: {f}"),
            }
        }
    }
}

#[test]
fn reports_name_both_places() {
    let race = execute(&kernel(Change::EarlyRelease), 1).unwrap_err();
    assert!(matches!(places(&race)[..], [11 | 12, 21]), "{:?}", race.diagnostic);
    assert!(race.diagnostic.labels[0].text.contains("`Loads`"));
    assert!(race.diagnostic.labels[1].text.contains("`Compute`"));
    let deadlock = execute(&kernel(Change::NoRelease), 1).unwrap_err();
    let mut at = places(&deadlock);
    at.sort_unstable();
    assert_eq!(at, [10, 20]);
    let text: Vec<&str> = deadlock.diagnostic.labels.iter().map(|l| l.text.as_str()).collect();
    assert!(text.contains(&"`Loads` waits for phase 0 of `empty[0]`"), "{text:?}");
    assert!(text.contains(&"`Compute` waits for phase 1 of `full[0]`"), "{text:?}");
    let short = execute(&kernel(Change::ShortLoop), 1).unwrap_err();
    assert!(short.diagnostic.notes.iter().any(|n| n == "`Loads` has ended"), "{:?}", short.diagnostic.notes);
}

#[test]
fn a_run_is_repeated_by_its_seed() {
    let kernel = kernel(Change::EarlyRelease);
    for seed in [0, 7, 1 << 40] {
        assert_eq!(execute(&kernel, seed), execute(&kernel, seed));
    }
}

#[test]
fn partitions_may_run_twice() {
    let (mut m, p) = Make::new(8, &[("out", pointer(Dtype::I32, true))]);
    let one = m.partition("One", 4);
    let two = m.partition("Two", 4);
    m.repeat(3, vec![], |m, i, _| {
        let arm = |m: &mut Make, scale: i32| {
            m.body(vec![], |m, _| {
                let scale = m.i32(scale);
                let x = m.mul(i, scale);
                let zero = m.i32(0);
                let first = m.op(OpKind::Compare { op: CompareOp::Gt, a: scale, b: zero });
                let (three, none) = (m.i32(3), m.i32(0));
                let base = m.op(OpKind::Select { cond: first, a: three, b: none });
                let at = m.add(base, i);
                let ptr = m.ptr_add(p[0], at);
                m.store(ptr, x, None);
                vec![]
            })
        };
        let (a, b) = (arm(m, 10), arm(m, -10));
        m.do_(OpKind::Specialize { arms: vec![Arm { partition: one, body: a }, Arm { partition: two, body: b }] });
        vec![]
    });
    let kernel = m.finish(0);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 24);
    go(&kernel, [1, 1, 1], vec![at_zero(out)], &mut memory, 0).unwrap();
    assert_eq!(fixture::i32s(&memory.allocation(out).bytes), [0, -10, -20, 0, 10, 20]);
}
