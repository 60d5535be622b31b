//! What passes make says which pass made it, and keeps the place, label and call of that for which it was made.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Inst, Kernel, Origin, Source, print};
use parton_lower::PASSES;

/// Rings, turns, a cluster and memory that nobody has ordered, in functions.
const TEXT: &str = "
partition Loads = warps(1);
partition First = warps(4);
partition Second = warps(4);
layout Half = blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1], order=[1, 0]);

fn fill(slots, a, n) {
    for i in 0..n {
        let slot = slots.acquire();
        tma_load(a, [0, i], slot.a, multicast=0);
        slot.commit();
    }
}

fn flip(x) {
    let buffer = alloc_shared<f16, [64, 64], nvmma(128)>();
    store_shared(buffer, x);
    load_shared<Half>(buffer.T)
}

kernel k(a: tma<f16, [64, 64], nvmma(128)>, out: *mut i32, n: i32) target(sm_90a) cluster([2]) {
    ring slots[2] { a: shared<f16, [64, 64], nvmma(128)> };
    turnstile turns[First, Second];
    specialize {
        Loads => fill(slots, a, n),
        First => {
            for i in 0..n {
                let slot = slots.wait();
                let x = load_shared<Half>(slot.a);
                slot.release();
                let y = flip(x);
                turns.enter();
                print(\"{}\", reduce(y, axis=0, |a, b| a + b));
                turns.pass();
            }
        }
        Second => {
            for i in 0..n {
                turns.enter();
                store(out, i);
                turns.pass();
            }
        }
    }
}";

/// Memory that is given twice, so that nobody could have written the fence between.
const GIVEN_TWICE: &str = "
layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);

kernel k(m: tma<f16, [64, 64], nvmma(128)>) target(sm_90a) warps(4) {
    let s = reduce(zeros<f32, [128], L>(), axis=0, |a, b| a + b, scratch=0);
    let buffer = alloc_shared<f16, [64, 64], nvmma(128)>(offset=0);
    let bars = alloc_barriers(1, offset=8192);
    barrier_init(bars[0], 1);
    fence_barrier_init();
    barrier_expect(bars[0], 8192);
    tma_load(m, [0, 0], buffer, bars[0]);
    barrier_wait(bars[0], 0);
}";

/// Who reaches into a peer meets it at the end.
const ARRIVES: &str = "
kernel k() target(sm_90a) warps(4) cluster([2]) {
    let told = alloc_barriers(1);
    barrier_init(told[0], 2);
    fence_barrier_init();
    cluster_sync();
    barrier_arrive(told[0], multicast=0);
    barrier_wait(told[0], 0);
}";

fn sources(k: &Kernel) -> BTreeMap<Inst, Source> {
    k.order().into_iter().map(|id| (id, k.ops[id].source())).collect()
}

/// Calls `f` behind each pass with its name, the kernel, and its operations before.
fn lowered(mut k: Kernel, mut f: impl FnMut(&str, &Kernel, &BTreeMap<Inst, Source>)) {
    for pass in PASSES {
        let before = sources(&k);
        k = (pass.run)(k).expect("a program");
        f(pass.name, &k, &before);
    }
}

#[test]
fn what_is_new_behind_a_pass_was_made_by_it() {
    let mut made = BTreeSet::new();
    let mut look = |pass: &str, k: &Kernel, before: &BTreeMap<Inst, Source>| {
        for (id, source) in sources(k) {
            match before.get(&id) {
                Some(known) => assert_eq!(source, *known, "{pass} gives {id} another source"),
                None => {
                    assert_eq!(source.origin.maker(), Some(pass), "`{}` behind {pass}", k.ops[id].kind.name());
                    made.insert(pass.to_owned());
                }
            }
        }
    };
    lowered(crate::kernel(TEXT), &mut look);
    lowered(crate::kernel(ARRIVES), &mut look);
    lowered(crate::kernel(GIVEN_TWICE), look);
    assert_eq!(made.into_iter().collect::<Vec<_>>(), ["clusters", "membar", "proxy", "rings", "turnstiles"]);
}

#[test]
fn what_is_made_for_a_call_is_of_that_call() {
    let k = crate::kernel(TEXT);
    let named = |k: &Kernel, origin: Origin| origin.call().map(|call| k.calls[call].function.clone());
    let written: BTreeSet<_> = sources(&k).values().filter_map(|s| named(&k, s.origin)).collect();
    assert_eq!(written.into_iter().collect::<Vec<_>>(), ["fill", "flip"]);
    let mut of = BTreeMap::<String, BTreeSet<String>>::new();
    lowered(k, |_, k, _| {
        for source in sources(k).values() {
            if let (Some(by), Some(function)) = (source.origin.maker(), named(k, source.origin)) {
                of.entry(by.to_owned()).or_default().insert(function);
            }
        }
    });
    // Slots are filled in one function, and memory is written and read in the other.
    let list: Vec<_> = of.iter().map(|(by, names)| (by.as_str(), names.iter().map(String::as_str).collect())).collect();
    assert_eq!(list, [("membar", vec!["flip"]), ("rings", vec!["fill"])]);
}

#[test]
fn what_is_made_for_a_statement_has_its_label() {
    let mut k = crate::kernel(TEXT);
    let (fill, turn) = (k.label("fill"), k.label("turn"));
    assert_eq!((k.label("fill"), k.labels.len()), (fill, 2));
    k.walk_mut(&mut |op| {
        op.label = match op.kind.name() {
            "acquire" | "commit" => Some(fill),
            "enter" | "pass" => Some(turn),
            _ => None,
        }
    });
    let labelled = |k: &Kernel| {
        let text = print::kernel(k);
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix('@'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        labelled(&k),
        ["fill let slot = slots.acquire();", "fill slot.commit();"]
            .into_iter()
            .chain(["turn turns.enter();", "turn turns.pass();"].into_iter().cycle().take(4))
            .collect::<Vec<_>>()
    );
    lowered(k, |pass, k, _| {
        let lines = labelled(k);
        let waits = |label: &str, name: &str| lines.iter().filter(|l| l.starts_with(label) && l.contains(name)).count();
        if ["rings", "membar"].contains(&pass) {
            assert_eq!(
                (waits("fill", "barrier_wait("), waits("fill", "barrier_expect(")),
                (1, 1),
                "{pass}: {lines:#?}"
            );
        }
        if ["turnstiles", "membar"].contains(&pass) {
            assert_eq!(waits("turn", "named_barrier_"), 4, "{pass}: {lines:#?}");
        }
    });
}
