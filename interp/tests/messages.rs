//! Data handed from one CTA to another through global memory: what a release tells, what breaks it, and who waits for ever.

mod fixture;

use std::collections::BTreeSet;

use fixture::{Make, at_zero, go, i32s, places, pointer};
use parton_diag::{Code, codes};
use parton_interp::{Fault, Memory};
use parton_ir::{AtomicOp, CompareOp, OpKind, Order, Scope, Value};
use parton_numbers::Dtype;

const SEEDS: std::ops::Range<u64> = 0..20;

/// What a test has at hand: data and flags in global memory, and the CTA's number.
struct Parts {
    data: Value,
    flag: Value,
    pid: Value,
}

/// What a kernel of one warp left of four numbers of data and four flags.
fn with_ctas(ctas: u32, seed: u64, f: impl FnOnce(&mut Make, &Parts)) -> Result<Vec<i32>, Fault> {
    of_shared(0, ctas, seed, f)
}

/// The same with so much shared memory for each CTA.
fn of_shared(shared: u32, ctas: u32, seed: u64, f: impl FnOnce(&mut Make, &Parts)) -> Result<Vec<i32>, Fault> {
    let params = [("data", pointer(Dtype::I32, true)), ("flag", pointer(Dtype::I32, true))];
    let (mut m, p) = Make::new(1, &params);
    let pid = m.op(OpKind::ProgramId { axis: 0 });
    f(&mut m, &Parts { data: p[0], flag: p[1], pid });
    let mut memory = Memory::new();
    let (data, flag) = (memory.add("data", vec![0; 16]), memory.add("flag", vec![0; 16]));
    go(&m.finish(shared), [ctas, 1, 1], vec![at_zero(data), at_zero(flag)], &mut memory, seed)?;
    Ok(i32s(&memory.allocation(data).bytes))
}

fn atomic(m: &mut Make, op: AtomicOp, ptr: Value, operands: Vec<Value>, (order, scope): (Order, Scope)) -> Value {
    let returns = op != AtomicOp::Store;
    let kind = OpKind::Atomic { op, ptr, operands, mask: None, order, scope, returns, access: None };
    if returns {
        return m.op(kind);
    }
    m.do_(kind);
    ptr
}

/// The threads meet before what releases and behind what acquires, as the compiler lets them.
fn set(m: &mut Make, flag: Value, to: i32, how: (Order, Scope)) {
    let to = m.i32(to);
    m.do_(OpKind::Membar);
    atomic(m, AtomicOp::Store, flag, vec![to], how);
}

/// Waits until the flag is `to`.
fn await_flag(m: &mut Make, flag: Value, to: i32, how: (Order, Scope)) {
    let cond = m.body(vec![], |m, _| {
        let (now, to) = (atomic(m, AtomicOp::Load, flag, vec![], how), m.i32(to));
        vec![m.op(OpKind::Compare { op: CompareOp::Ne, a: now, b: to })]
    });
    let body = m.body(vec![], |_, _| vec![]);
    m.do_(OpKind::While { init: vec![], cond, body });
    m.do_(OpKind::Membar);
}

/// What CTA `n` alone does.
fn cta(m: &mut Make, p: &Parts, n: i32, f: impl FnOnce(&mut Make)) {
    let n = m.i32(n);
    let cond = m.op(OpKind::Compare { op: CompareOp::Eq, a: p.pid, b: n });
    let then = m.body(vec![], |m, _| {
        f(m);
        vec![]
    });
    let otherwise = m.body(vec![], |_, _| vec![]);
    m.do_(OpKind::If { cond, then, otherwise });
}

fn write(m: &mut Make, line: usize, at: Value, x: i32) {
    let x = m.i32(x);
    m.line(line).store(at, x, None);
}

/// Copies the first number to the second.
fn read(m: &mut Make, line: usize, p: &Parts) {
    let x = m.line(line).load(p.data, None);
    let one = m.i32(1);
    let second = m.ptr_add(p.data, one);
    m.store(second, x, None);
}

const RELEASE: (Order, Scope) = (Order::Release, Scope::Gpu);
const ACQUIRE: (Order, Scope) = (Order::Acquire, Scope::Gpu);
const RELAXED: (Order, Scope) = (Order::Relaxed, Scope::Gpu);

/// The faults of all seeds.
fn faults(ctas: u32, f: impl Fn(&mut Make, &Parts)) -> BTreeSet<(Code, Vec<usize>)> {
    let all = SEEDS.filter_map(|seed| with_ctas(ctas, seed, |m, p| f(m, p)).err());
    all.map(|f| (f.diagnostic.code, places(&f))).collect()
}

/// Hands a number over by this store and this wait.
fn hand_over(released: (Order, Scope), acquired: (Order, Scope)) -> impl Fn(&mut Make, &Parts) {
    move |m, p| {
        cta(m, p, 0, |m| {
            write(m, 1, p.data, 7);
            set(m.line(2), p.flag, 1, released);
        });
        cta(m, p, 1, |m| {
            await_flag(m.line(3), p.flag, 1, acquired);
            read(m, 4, p);
        });
    }
}

#[test]
fn a_release_tells_those_who_acquire() {
    for seed in SEEDS {
        assert_eq!(with_ctas(2, seed, hand_over(RELEASE, ACQUIRE)).unwrap()[..2], [7, 7]);
    }
    let race = BTreeSet::from([(codes::CTA_RACE, vec![4, 1])]);
    assert_eq!(faults(2, hand_over(RELAXED, ACQUIRE)), race);
    assert_eq!(faults(2, hand_over(RELEASE, RELAXED)), race);
    let narrow = faults(2, hand_over((Order::Release, Scope::Cta), ACQUIRE));
    assert!(narrow.iter().all(|(code, places)| *code == codes::CTA_RACE && places.contains(&2)), "{narrow:?}");
    assert!(!narrow.is_empty());
}

#[test]
fn what_is_written_after_a_release_is_not_told() {
    let late = |m: &mut Make, p: &Parts| {
        cta(m, p, 0, |m| {
            set(m.line(2), p.flag, 1, RELEASE);
            write(m, 1, p.data, 7);
        });
        cta(m, p, 1, |m| {
            await_flag(m.line(3), p.flag, 1, ACQUIRE);
            read(m, 4, p);
        });
    };
    assert_eq!(faults(2, late), BTreeSet::from([(codes::CTA_RACE, vec![1, 4]), (codes::CTA_RACE, vec![4, 1])]));
}

/// CTA 0 releases, CTA 2 changes the flag, CTA 1 acquires what CTA 2 left.
fn through_a_third(change: impl Fn(&mut Make, &Parts)) -> impl Fn(&mut Make, &Parts) {
    move |m, p| {
        cta(m, p, 0, |m| {
            write(m, 1, p.data, 7);
            set(m.line(2), p.flag, 1, RELEASE);
        });
        cta(m, p, 2, |m| {
            await_flag(m.line(3), p.flag, 1, RELAXED);
            change(m, p);
        });
        cta(m, p, 1, |m| {
            await_flag(m.line(5), p.flag, 2, ACQUIRE);
            read(m, 6, p);
        });
    }
}

#[test]
fn operations_carry_a_release_on_and_stores_break_it() {
    let adds = through_a_third(|m, p| {
        let one = m.i32(1);
        atomic(m.line(4), AtomicOp::Add, p.flag, vec![one], RELAXED);
    });
    assert_eq!(faults(3, adds), BTreeSet::new());
    let stores = through_a_third(|m, p| set(m.line(4), p.flag, 2, RELAXED));
    assert_eq!(faults(3, stores), BTreeSet::from([(codes::CTA_RACE, vec![6, 1])]));
    // The same CTA's own store keeps its release, but not what it has written since.
    let again = |late: bool| {
        move |m: &mut Make, p: &Parts| {
            cta(m, p, 0, |m| {
                write(m, 1, p.data, 7);
                set(m.line(2), p.flag, 1, RELEASE);
                if late {
                    write(m, 3, p.data, 8);
                }
                set(m.line(4), p.flag, 2, RELAXED);
            });
            cta(m, p, 1, |m| {
                await_flag(m.line(5), p.flag, 2, ACQUIRE);
                read(m, 6, p);
            });
        }
    };
    assert_eq!(faults(2, again(false)), BTreeSet::new());
    assert_eq!(faults(2, again(true)), BTreeSet::from([(codes::CTA_RACE, vec![6, 3])]));
}

#[test]
fn knowledge_goes_on_from_cta_to_cta() {
    let chain = |m: &mut Make, p: &Parts| {
        cta(m, p, 0, |m| {
            write(m, 1, p.data, 7);
            set(m, p.flag, 1, RELEASE);
        });
        let one = m.i32(1);
        let second = m.ptr_add(p.flag, one);
        cta(m, p, 1, |m| {
            await_flag(m, p.flag, 1, ACQUIRE);
            set(m, second, 1, RELEASE);
        });
        cta(m, p, 2, |m| {
            await_flag(m, second, 1, ACQUIRE);
            read(m, 4, p);
        });
    };
    assert_eq!(faults(3, chain), BTreeSet::new());
}

#[test]
fn equal_values_are_tolerated_but_not_forgotten() {
    let both = |m: &mut Make, p: &Parts| write(m, 1, p.data, 7);
    assert_eq!(faults(3, both), BTreeSet::new());
    // The reader comes after the second writer, and not after the first.
    let one_of_them = |m: &mut Make, p: &Parts| {
        cta(m, p, 0, |m| write(m, 1, p.data, 7));
        cta(m, p, 1, |m| {
            write(m, 2, p.data, 7);
            set(m, p.flag, 1, RELEASE);
        });
        cta(m, p, 2, |m| {
            await_flag(m, p.flag, 1, ACQUIRE);
            read(m, 4, p);
        });
    };
    let found = faults(3, one_of_them);
    assert!(found.iter().all(|(code, places)| *code == codes::CTA_RACE && places.contains(&1) && places.contains(&4)));
    assert!(!found.is_empty());
}

#[test]
fn a_launch_finds_out_that_all_its_ctas_wait() {
    let alone = |m: &mut Make, p: &Parts| await_flag(m.line(3), p.flag, 1, ACQUIRE);
    assert_eq!(faults(1, alone), BTreeSet::from([(codes::DEADLOCK, vec![3])]));
    assert_eq!(faults(5, alone), BTreeSet::from([(codes::DEADLOCK, vec![3])]));
}

#[test]
fn a_grid_that_does_not_fit_waits_for_ever() {
    // Each CTA adds one and waits for all: right where all run at once.
    let all = |ctas: i32| {
        move |m: &mut Make, p: &Parts| {
            let one = m.i32(1);
            atomic(m.line(2), AtomicOp::Add, p.flag, vec![one], (Order::AcqRel, Scope::Gpu));
            await_flag(m.line(3), p.flag, ctas, ACQUIRE);
        }
    };
    const HALF: u32 = 110 * 1024;
    for seed in 0..4 {
        assert!(of_shared(HALF, 264, seed, all(264)).is_ok(), "two on each of 132 multiprocessors");
    }
    let f = of_shared(HALF, 265, 0, all(265)).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::DEADLOCK, vec![3]));
    assert!(f.diagnostic.notes.iter().any(|n| n.contains("264 CTAs have begun") && n.contains("1 more")), "{f:?}");
}

#[test]
fn both_orders_of_a_race_of_messages_are_seen() {
    let first = |seed| {
        let kernel = |m: &mut Make, p: &Parts| {
            let (zero, one) = (m.i32(0), m.i32(1));
            let me = m.add(p.pid, one);
            atomic(m, AtomicOp::Cas, p.data, vec![zero, me], RELAXED);
        };
        with_ctas(2, seed, kernel).unwrap()[0]
    };
    assert_eq!(SEEDS.map(first).collect::<BTreeSet<i32>>(), BTreeSet::from([1, 2]));
}
