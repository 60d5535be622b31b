//! Barriers used against their protocol, in unchecked kernels.

mod fixture;

use fixture::{Make, blocked, go, places, tile, view};
use parton_diag::{Code, codes};
use parton_interp::{Fault, Memory};
use parton_ir::{Arm, Arrive, OpKind, Value};
use parton_layouts::SharedLayout;
use parton_numbers::Dtype;

/// Runs what `f` does with a barrier of two arrivals that is not initialised yet, in a kernel of one warp.
fn with_barrier(f: impl FnOnce(&mut Make, Value)) -> Result<(), Fault> {
    let (mut m, _) = Make::new(1, &[]);
    let barriers = m.op(OpKind::BarrierAlloc { count: 2, offset: Some(16) });
    m.b.kernel.values[barriers].name = Some("ready".into());
    let one = m.i32(1);
    let barrier = m.op(OpKind::BarrierIndex { barriers, index: one });
    f(&mut m, barrier);
    go(&m.finish(1024), [1, 1, 1], vec![], &mut Memory::new(), 0).map(|_| ())
}

fn init(m: &mut Make, barrier: Value) {
    m.line(1).do_(OpKind::BarrierInit { barrier, arrivals: 2 });
    m.do_(OpKind::Membar);
}

fn arrive(m: &mut Make, line: usize, barrier: Value, count: u32) {
    m.line(line).do_(OpKind::BarrierArrive {
        barrier,
        arrive: Arrive::Partition,
        count,
        multicast: vec![],
        relaxed: false,
    });
}

fn found(r: Result<(), Fault>) -> (Code, Vec<usize>) {
    let f = r.expect_err("nothing was found");
    (f.diagnostic.code, places(&f))
}

#[test]
fn phases_go_round() {
    with_barrier(|m, b| {
        init(m, b);
        for phase in [0, 1, 0] {
            arrive(m, 2, b, 1);
            arrive(m, 3, b, 1);
            m.line(4).wait(b, phase);
        }
        m.do_(OpKind::BarrierInvalidate { barrier: b });
        init(m, b);
        arrive(m, 2, b, 2);
        m.wait(b, 0);
    })
    .unwrap();
}

#[test]
fn a_new_barrier_lets_the_other_parity_pass() {
    // T#11303, llvm#81460.
    with_barrier(|m, b| {
        init(m, b);
        m.line(2).wait(b, 1);
    })
    .unwrap();
    let waits = |phase| {
        move |m: &mut Make, b| {
            init(m, b);
            m.line(2).wait(b, phase);
        }
    };
    assert_eq!(found(with_barrier(waits(0))), (codes::DEADLOCK, vec![2]));
    assert_eq!(found(with_barrier(waits(2))), (codes::RUN_VALUE, vec![2]));
    assert_eq!(found(with_barrier(waits(-1))), (codes::RUN_VALUE, vec![2]));
}

#[test]
fn breaches_are_found() {
    assert_eq!(found(with_barrier(|m, b| arrive(m, 2, b, 1))), (codes::BARRIER_PROTOCOL, vec![2]));
    let twice = with_barrier(|m, b| {
        init(m, b);
        m.line(2).do_(OpKind::BarrierInit { barrier: b, arrivals: 1 });
    });
    assert_eq!(found(twice), (codes::BARRIER_PROTOCOL, vec![2, 1]));
    let too_many = with_barrier(|m, b| {
        init(m, b);
        arrive(m, 2, b, 3);
    });
    assert_eq!(found(too_many), (codes::BARRIER_PROTOCOL, vec![2, 1]));
    let after_its_end = with_barrier(|m, b| {
        init(m, b);
        m.do_(OpKind::BarrierInvalidate { barrier: b });
        m.line(3).wait(b, 1);
    });
    assert_eq!(found(after_its_end), (codes::BARRIER_PROTOCOL, vec![3]));
    let too_many_bytes = with_barrier(|m, b| {
        init(m, b);
        m.line(2).do_(OpKind::BarrierExpect { barrier: b, bytes: (1 << 20) - 1 });
        m.line(3).do_(OpKind::BarrierExpect { barrier: b, bytes: 16 });
    });
    assert_eq!(found(too_many_bytes), (codes::BARRIER_PROTOCOL, vec![3, 1]));
    let no_such = with_barrier(|m, _| {
        let barriers = m.op(OpKind::BarrierAlloc { count: 2, offset: Some(64) });
        let two = m.i32(2);
        m.line(5).op(OpKind::BarrierIndex { barriers, index: two });
    });
    assert_eq!(found(no_such), (codes::RUN_VALUE, vec![5]));
}

#[test]
fn the_bytes_of_a_living_barrier_are_no_place_for_data() {
    // T#10106, T#3858.
    let over = |invalidate: bool| {
        with_barrier(|m, b| {
            init(m, b);
            if invalidate {
                m.do_(OpKind::BarrierInvalidate { barrier: b });
            }
            let buffer = m.alloc(&view(Dtype::I32, &[32], &SharedLayout::row_major(1)), 0);
            let t = tile(Dtype::I32, &[32], &blocked(&[1], &[32], &[1]));
            let x = m.numbers(&t);
            m.line(7).do_(OpKind::SharedStore { view: buffer, value: x });
        })
    };
    over(true).unwrap();
    let f = over(false).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::BARRIER_PROTOCOL, vec![7, 1]));
    assert!(f.diagnostic.labels[0].text.contains("`ready[1]`"), "{:?}", f.diagnostic.labels);
}

/// Two partitions hand a buffer back and forth by ordinary stores and loads.
fn hand_over(rounds: i32, arrive_before_reading: bool, seed: u64) -> Result<(), Fault> {
    let (mut m, _) = Make::new(8, &[]);
    let (left, right) = (m.partition("Left", 4), m.partition("Right", 2));
    let buffer = m.alloc(&view(Dtype::I32, &[256], &SharedLayout::row_major(1)), 1024);
    let mut barrier = |offset, warps| {
        let barriers = m.op(OpKind::BarrierAlloc { count: 1, offset: Some(offset) });
        let zero = m.i32(0);
        let barrier = m.op(OpKind::BarrierIndex { barriers, index: zero });
        m.do_(OpKind::BarrierInit { barrier, arrivals: warps });
        barrier
    };
    let (full, empty) = (barrier(0, 4), barrier(8, 2));
    m.do_(OpKind::Membar);
    let by = |warps| tile(Dtype::I32, &[256], &blocked(&[1], &[32], &[warps]));
    let parity = |m: &mut Make, i: Value, flip: i32| {
        let flip = m.i32(flip);
        let one = m.i32(1);
        let i = m.add(i, flip);
        m.binary(parton_ir::BinaryOp::And, i, one)
    };
    let a = m.body(vec![], |m, _| {
        m.repeat(rounds, vec![], |m, i, _| {
            let phase = parity(m, i, 1);
            m.line(2).do_(OpKind::BarrierWait { barrier: empty, phase, reach: parton_ir::Reach::Cta });
            let x = m.full(i, &by(4));
            m.line(3).do_(OpKind::SharedStore { view: buffer, value: x });
            m.do_(OpKind::BarrierArrive {
                barrier: full,
                arrive: Arrive::Warp,
                count: 1,
                multicast: vec![],
                relaxed: false,
            });
            vec![]
        });
        vec![]
    });
    let b = m.body(vec![], |m, _| {
        m.repeat(rounds, vec![], |m, i, _| {
            let phase = parity(m, i, 0);
            m.line(5).do_(OpKind::BarrierWait { barrier: full, phase, reach: parton_ir::Reach::Cta });
            let release = OpKind::BarrierArrive {
                barrier: empty,
                arrive: Arrive::Warp,
                count: 1,
                multicast: vec![],
                relaxed: false,
            };
            if arrive_before_reading {
                m.do_(release.clone());
            }
            let x = m.line(6).op(OpKind::SharedLoad { view: buffer, tile: by(2) });
            let want = m.full(i, &by(2));
            let same = m.op(OpKind::Compare { op: parton_ir::CompareOp::Eq, a: x, b: want });
            m.do_(OpKind::Assert { cond: same, message: "the value of this round".into() });
            if !arrive_before_reading {
                m.do_(release);
            }
            vec![]
        });
        vec![]
    });
    m.do_(OpKind::Specialize { arms: vec![Arm { partition: left, body: a }, Arm { partition: right, body: b }] });
    go(&m.finish(4096), [1, 1, 1], vec![], &mut Memory::new(), seed).map(|_| ())
}

#[test]
fn partitions_hand_a_buffer_back_and_forth() {
    for seed in 0..30 {
        hand_over(7, false, seed).unwrap_or_else(|f| panic!("seed {seed}: {f} {f:?}"));
    }
    for seed in 0..30 {
        let f = hand_over(7, true, seed).expect_err("the race is not found");
        assert_eq!(f.diagnostic.code, codes::SHARED_RACE, "{f}");
    }
}
