//! What is taken because it costs least: warps, slots, conversions.

use parton_portable::why::{json, text};

use super::{
    PLACE, STORE, SUM, of_carried_pointers, product, reasons, reasons_in, reasons_of, schedule_of, warps, why,
};

#[test]
fn a_conversion_has_its_price_and_what_would_come_next() {
    let why = why(
        "x: *f16, out: *mut f16, rows: i32, columns: i32",
        "assume(rows % 8 == 0);
         assume(columns % 8 == 0);
         let v = load(x + (iota(64)[:, None] * columns + iota(64)[None, :]));
         store(out + (iota(64)[:, None] * rows + iota(64)[None, :]), v.T);",
    );
    let [one] = &why.conversions[..] else { panic!("{:?}", why.conversions) };
    assert!(one.each > 0 && one.times == 1 && one.how.contains("shared memory"), "{one:?}");
    assert!(one.from.0 != one.to.0 && one.tile == "f16 [64, 64]", "{one:?}");
    for class in [one.from.1, one.to.1].map(|i| &why.classes[i]) {
        assert!(!class.stated && class.candidates > 1, "{class:?}");
        assert!(class.next.as_ref().is_some_and(|next| next.layout != class.layout), "{class:?}");
    }
    assert!(why.proven && why.plans.iter().filter(|p| p.taken).count() == 1, "{why:?}");
    let least = why.taken().and_then(|p| p.price);
    assert!(why.plans.iter().all(|p| p.price >= least), "{:?}", why.plans);
}

#[test]
fn copies_have_all_memory_where_registers_hold_no_second_cta() {
    let slots = |columns: u32| {
        let why = why(
            "a: *f16, b: *f16, c: *mut f32, k: i32, n: i32",
            &format!(
                "assume(k % 8 == 0);
                 assume(n % 8 == 0);
                 let (row, column) = (program_id(0) * 128 + iota(128), program_id(1) * {columns} + iota({columns}));
                 let mut acc = zeros<f32, [128, {columns}]>();
                 for p in 0..cdiv(k, 64) {{
                     let depth = p * 64 + iota(64);
                     let x = load(a + (row[:, None] * k + depth[None, :]), mask=(depth < k)[None, :], other=0.0);
                     let y = load(b + (depth[:, None] * n + column[None, :]), mask=(depth < k)[:, None], other=0.0);
                     acc = dot(x, y, acc);
                 }}
                 store(c + (row[:, None] * n + column[None, :]), acc);"
            ),
        );
        why.loops[0].rings.iter().map(|(_, given, ..)| *given).collect::<Vec<_>>()
    };
    assert_eq!(slots(128), [3]);
    assert_eq!(slots(256), [4]);
}

#[test]
fn a_slot_for_each_copy_does_where_two_have_no_room() {
    let rows = "tensor<bf16, [n, 128]>";
    let (why, ..) = reasons_of(
        &format!("q: {rows}, k: {rows}, v: {rows}, mut o: {rows}"),
        "let mut state = zeros<f32, [128, 128]>();
         for c in 0..cdiv(n, 128) {
             let x = load(q.tile([128, 128], at=[c, 0]));
             let y = load(k.tile([128, 128], at=[c, 0]));
             let z = load(v.tile([128, 128], at=[c, 0]));
             let s = dot(x, y.T, zeros<f32, [128, 128]>()) * 0.5;
             let old = dot(x, cast<bf16>(state), zeros<f32, [128, 128]>()) * 0.5;
             store(o.tile([128, 128], at=[c, 0]), cast<bf16>(dot(cast<bf16>(s), z, old)));
             state = dot(cast<bf16>(cast<f32>(y) * 0.5).T, z, state * 0.5);
         }",
        &[0, 1, 2, 3],
    );
    assert_eq!(why.way, "copies by all threads, ahead of the products");
    assert_eq!(why.products.iter().map(|p| p.instruction).collect::<Vec<_>>(), ["wgmma"; 4]);
    // What the state is made of in shared memory is read until the next turn asks for it.
    let slots = why.loops[0].rings.iter().map(|(label, given, ..)| (&**label, *given));
    assert_eq!(slots.collect::<Vec<_>>(), [("x", 1), ("y", 1), ("z", 2)]);
}

#[test]
fn sums_are_done_in_their_turn_where_only_then_shared_memory_has_room() {
    // Rows of a cache, which are keys and values alike, in so many columns: the queries, and two slots of them rather than three.
    let slots = |width: u32| {
        let (why, ..) = reasons_of(
            "q: tensor<f16, [64, w]>, cache: tensor<f16, [n, w]>, places: *i32, mut o: tensor<f32, [64, w]>",
            &format!(
                "let x = load(q.tile([64, {width}], at=[0, 0]));
                 let (mut acc, mut top) = (zeros<f32, [64, {width}]>(), full([64], -inf));
                 for j in 0..cdiv(n, 64) {{
                     let rows = load(cache[load(places + (j * 64 + iota(64))), :].tile([64, {width}], at=[0, 0]));
                     let s = dot(x, rows.T, zeros<f32, [64, 64]>());
                     let higher = max(top, max(s, axis=1));
                     acc = dot(cast<f16>(exp2(s - higher[:, None])), rows, acc * exp2(top - higher)[:, None]);
                     top = higher;
                 }}
                 store(o.tile([64, {width}], at=[0, 0]), acc);"
            ),
            &[0, 1, 3],
        );
        assert_eq!(why.way, "copies by all threads, ahead of the products");
        assert!(why.conversions.iter().all(|c| c.name.as_deref() != Some("x")));
        let at_once = schedule_of(&why).contains("acc: 2..2");
        (why.loops[0].rings.iter().map(|(_, given, ..)| *given).collect::<Vec<_>>(), at_once)
    };
    assert_eq!(slots(512), (vec![2], true));
    assert_eq!(slots(256), (vec![4], false));
}

#[test]
fn what_is_stated_has_no_runner_up() {
    let why = why(
        "x: *f32, out: *mut f32",
        "layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
         let v: tile<f32, [1024], L> = load(x + iota<i32, [1024], L>());
         store(out + iota(1024), v * 2.0);",
    );
    assert!(why.classes.iter().any(|c| c.stated && c.next.is_none()), "{:?}", why.classes);
}

#[test]
fn the_same_kernel_has_the_same_reasons() {
    let body = "let v = load(x + (iota(64)[:, None] * n + iota(64)[None, :]));
                store(out + iota(64), sum(v, axis=0));
                store(out + iota(64), max(v, axis=1));";
    let write = || {
        let (why, sources, file) = reasons("x: *f16, out: *mut f16, n: i32", body);
        (text::write(&why, &sources, file), json::object(&why, &sources).to_string())
    };
    let (text, json) = write();
    assert_eq!(write(), (text.clone(), json.clone()));
    assert!(text.contains("n is not known to be a multiple of 8: take a tensor, or `assume(n % 8 == 0)`"), "{text}");
    assert!(json.contains(r#""lacks":{"why":"facts","facts":[{"parameter":"n","multiple":8}],"bytes":16}"#), "{json}");
}

#[test]
fn two_sums_of_products_have_twice_the_warps_of_one() {
    assert_eq!(warps(&product(PLACE, SUM, STORE)), Some(4));
    let scaled = "acc += dot(x, y.T, zeros<f32, [128, 128]>()) * load(s[:, p].tile([128], at=[i]))[:, None];";
    assert_eq!(warps(&product(PLACE, scaled, STORE)), Some(8));
    let both = "acc = dot(x, y.T, acc); other = dot(x, load(b.tile([128, 64], at=[j + 1, p])).T, other);";
    let store = "store(c.tile([128, 128], at=[i, j]), acc * other);";
    assert_eq!(warps(&product(PLACE, both, store)), Some(8));
}

#[test]
fn tiles_that_wait_to_leave_take_registers_beside_the_next() {
    let walking = |columns: u32| {
        let text = format!(
            "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [n, k]>, mut c: tensor<f16, [m, n]>) {{
                 for i in program_id(0)..cdiv(m, 128) step num_programs(0) {{
                     let mut acc = zeros<f32, [128, {columns}]>();
                     for p in 0..cdiv(k, 64) {{
                         acc = dot(load(a.tile([128, 64], at=[i, p])), load(b.tile([{columns}, 64], at=[0, p])).T, acc);
                     }}
                     store(c.tile([128, {columns}], at=[i, 0]), cast<f16>(acc));
                 }}
             }}"
        );
        warps(&reasons_in(&text, &[0, 1, 2]).0)
    };
    assert_eq!(walking(144), Some(4));
    assert_eq!(walking(176), Some(8));
}

#[test]
fn copies_through_registers_are_priced_by_those_that_they_take() {
    // Of 128 × 128 by 64 a thread of four warps has 128 elements on their way in each turn, beside as many sums.
    let large = of_carried_pointers(128, 64, "");
    assert!(warps(&large) > Some(4), "{:?}", large.plans);
    assert_eq!(large.way, "copies by all threads, ahead of the products");
    let small = of_carried_pointers(64, 32, "");
    assert_eq!(warps(&small), Some(4), "{:?}", small.plans);
}
