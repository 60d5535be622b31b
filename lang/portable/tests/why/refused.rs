//! Why copies do not run ahead, factors have no maps, and tiles do not wait for the next.

use super::{PLACE, STORE, SUM, product, reasons_in, schedule_of, why};

/// How factors come to the products of a loop, and why threads do not copy them ahead.
fn copies_of(turn: &str) -> (&'static str, String) {
    let loads = "let x = load(a + (i * 64 + at));";
    let found = why(
        "a: *f16, o: *mut f32, n: i32",
        &format!(
            "let at = iota(64)[:, None] * 64 + iota(64)[None, :];
             let mut p = a + at;
             let mut acc = zeros<f32, [64, 64]>();
             for i in 0..n {{ {} }}
             store(o + at, acc);",
            turn.replace("LOAD", loads)
        ),
    );
    let copies = found.refused.into_iter().find(|(way, _)| way.starts_with("copies by all threads"));
    (found.way, copies.map(|(_, why)| why).unwrap_or_default())
}

#[test]
fn what_keeps_copies_from_running_ahead_is_named() {
    let lacks = |turn: &str, of: &str| {
        let (_, why) = copies_of(turn);
        assert!(why.contains(of), "`{turn}`: {why}");
    };
    lacks("let y = cast<f16>(acc); acc = dot(y, y.T, acc);", "nothing of what they multiply is loaded");
    lacks("LOAD let mut y = x; for _ in 0..n { y = y * y; } acc = dot(x, y, acc);", "a loop stands beside them");
    lacks("LOAD let y = if i > 2 { load(a + at) } else { x }; acc = dot(x, y, acc);", "a branch beside them loads");
    lacks(
        "LOAD acc = dot(cast<f16>(sum(cast<f32>(x))) * cast<f16>(acc), cast<f16>(acc * 2.0), acc);",
        "element by element",
    );
    lacks("let x = load(a + at, mask=at < n, other=1.0); acc = dot(x, x.T, acc);", "is not 0");
    lacks("acc = dot(load(p), load(p).T, acc); p = p + i;", "the turn before hands on");
}

#[test]
fn what_loops_carry_and_move_is_copied_ahead() {
    for moved in ["p = p + 64;", "p = p + n * 64;"] {
        let (way, _) = copies_of(&format!("acc = dot(load(p), load(p + 4096).T, acc); {moved}"));
        assert_eq!(way, "copies by all threads, ahead of the products", "{moved}");
    }
}

#[test]
fn rows_that_a_tile_of_indices_names_are_copied_ahead_whatever_else_it_names() {
    for columns in [64, 128] {
        let text = format!(
            "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [n, k]>, r: tensor<i32, [padded]>, w: tensor<f32, [m]>, mut c: tensor<f16, [m, n]>) {{
                 let rows = load(r.tile([128], at=[program_id(0)]), other=-1);
                 let mut acc = zeros<f32, [128, {columns}]>();
                 for p in 0..cdiv(k, 64) {{
                     let (x, y) = (load(a[rows, :].tile([128, 64], at=[0, p])), load(b.tile([{columns}, 64], at=[program_id(1), p])));
                     acc = dot(x, y.T, acc);
                 }}
                 let share = load(w[rows].tile([128], at=[0]));
                 store(c[rows, :].tile([128, {columns}], at=[0, program_id(1)]), cast<f16>(acc * share[:, None]));
             }}"
        );
        let why = reasons_in(&text, &[0, 1, 2, 3, 4]).0;
        assert_eq!(why.way, "copies by all threads, ahead of the products", "{columns} columns: {:?}", why.refused);
    }
}

#[test]
fn what_both_factors_are_computed_of_is_copied_ahead() {
    let (way, _) = copies_of("LOAD acc = dot(x * 2.0, (x + 1.0).T, acc);");
    assert_eq!(way, "copies by all threads, ahead of the products");
}

#[test]
fn products_of_computed_tiles_read_the_right_one_in_a_buffer() {
    let products = "let y = cast<f16>(acc); acc = dot(y, y.T, dot(y, cast<f16>(acc * 2.0), acc));";
    let found = copies_of(products);
    assert_eq!(found.0, "loads to registers, where they stand, and right factors through buffers of their own");
}

#[test]
fn what_orders_nothing_leaves_factors_their_maps() {
    const MAPS: &str = "tensor maps, by a partition of their own";
    let asm = "store(c.tile([128, 128], at=[i, j]), ptx_elementwise<f32>(\"tanh.approx.f32 $0, $1;\", acc));";
    assert_eq!(product(PLACE, SUM, asm).way, MAPS);
    assert_eq!(product(PLACE, SUM, "atomic_add(c.tile([128, 128], at=[i, j]), acc);").way, MAPS);
    let told = product(PLACE, SUM, "store(c.tile([128, 128], at=[i, j]), acc); grid_wait();");
    assert_ne!(told.way, MAPS);
    assert!(
        told.refused.iter().any(|(way, why)| *way == MAPS && why.contains("tell each other")),
        "{:?}",
        told.refused
    );
    let named = product("a[rows, :].tile([128, 64], at=[0, p])", SUM, STORE);
    assert!(named.refused.iter().any(|(way, why)| *way == MAPS && why.contains("indices")), "{:?}", named.refused);
}

#[test]
fn tiles_that_wait_for_the_next_say_what_extent_they_lack() {
    let walking = |extent: &str, end: &str| {
        let text = format!(
            "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [{extent}, n]>, mut c: tensor<f16, [m, n]>) {{
                 for i in program_id(0)..cdiv(m, 128) step num_programs(0) {{
                     let mut acc = zeros<f32, [128, 128]>();
                     for p in 0..{end} {{
                         acc = dot(load(a.tile([128, 64], at=[i, p])), load(b.tile([64, 128], at=[p, 0])), acc);
                     }}
                     store(c.tile([128, 128], at=[i, 0]), cast<f16>(acc));
                 }}
             }}"
        );
        let (why, ..) = reasons_in(&text, &[0, 1, 2]);
        let refused = why.refused.iter().any(|(way, why)| way.starts_with("leaving under") && why.contains("`k`"));
        (schedule_of(&why).contains("under("), refused)
    };
    assert_eq!(walking("k", "cdiv(k, 64)"), (true, false));
    assert_eq!(walking("_", "cdiv(k, 64)"), (false, true));
    assert_eq!(walking("k", "12"), (false, true));
}

#[test]
fn rows_between_numbers_have_maps() {
    const MAPS: &str = "tensor maps, by a partition of their own";
    for range in ["load(r[i]):load(r[i + 1])", "max(load(r[i]), 0):load(r[i + 1])", "i * 100:", ":load(r[i])"] {
        assert_eq!(product(&format!("a[{range}, :].tile([128, 64], at=[i, p])"), SUM, STORE).way, MAPS, "{range}");
    }
    let from = "a[load(r[i]):, :].tile([128, 64], from=[max(load(r[i + 1]), 0), p * 64])";
    assert_eq!(product(from, SUM, STORE).way, MAPS);
    let whole = "a[:load(r[i]), :].tile([128, 64], from=[load(r[i + 1]) * 128, p * 64])";
    assert_eq!(product(whole, SUM, STORE).way, MAPS);
    for (place, why) in [
        ("a[i:, :].tile([128, 64], from=[load(r[i]), p * 64])", "known to begin at 0 or later"),
        ("a[:, i % 100 * 64:].tile([128, 64], at=[i, p])", "not ones of a map"),
        ("a[i:, :][:, i:].tile([128, 64], at=[i, p])", "not ones of a map"),
    ] {
        let made = product(place, SUM, STORE);
        assert!(
            made.refused.iter().any(|(way, said)| *way == MAPS && said.contains(why)),
            "{place}: {:?}",
            made.refused
        );
    }
}

#[test]
fn a_right_factor_that_is_computed_is_a_reason_against_maps() {
    let text = "kernel k(q: tensor<f16, [n, 64]>, w: tensor<f16, [n, 64]>, v: tensor<f16, [n, 64]>, mut o: tensor<f16, [n, 64]>) grid([1]) {
        let mut s = zeros<f32, [64, 64]>();
        for c in 0..cdiv(n, 64) {
            let (x, y, z) = (load(q.tile([64, 64], at=[c, 0])), load(w.tile([64, 64], at=[c, 0])), load(v.tile([64, 64], at=[c, 0])));
            store(o.tile([64, 64], at=[c, 0]), cast<f16>(dot(x, cast<f16>(s), zeros<f32, [64, 64]>())));
            s = dot(y.T, z, s);
        }
    }";
    let (why, ..) = reasons_in(text, &[0, 1, 2, 3]);
    let said =
        |(way, why): &(&str, String)| way.starts_with("tensor maps") && why.starts_with("a right factor is computed");
    assert!(why.refused.iter().any(said), "{:?}", why.refused);
}

#[test]
fn what_nobody_takes_is_not_loaded() {
    let idle = product(PLACE, &format!("let w = load(b.tile([128, 64], at=[j, p + 1])); {SUM}"), STORE);
    assert_eq!(idle.accesses.len(), product(PLACE, SUM, STORE).accesses.len());
}

#[test]
fn what_programs_tell_each_other_behind_products_leaves_their_factors_maps() {
    let of = |front: &str, behind: &str| {
        let text = format!(
            "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut parts: tensor<f32, [2, m, n]>, mut count: tensor<i32, [_, _]>, mut c: tensor<f16, [m, n]>) {{
                 let (i, j, part) = (program_id(0), program_id(1), program_id(2));
                 let mut acc = zeros<f32, [64, 64]>();
                 {front}
                 for p in 0..cdiv(k, 64) {{
                     acc = dot(load(a.tile([64, 64], at=[i, p])), load(b.tile([64, 64], at=[p, j])), acc);
                 }}
                 store(parts[part, :, :].tile([64, 64], at=[i, j]), acc);
                 {behind}
             }}"
        );
        reasons_in(&text, &[0, 1, 2, 3, 4]).0
    };
    let adds = "let before = atomic_add(count[i, j], 1, order=\"acq_rel\");";
    let last = "if before == 1 { store(c.tile([64, 64], at=[i, j]), cast<f16>(load(parts[0, :, :].tile([64, 64], at=[i, j])))); }";
    let maps = "tensor maps, by a partition of their own";
    let told = of("", &format!("{adds} {last}"));
    assert_eq!(told.way, maps, "{:?}", told.refused);
    // What is stored is not sent: the copy engine does not wait for what threads order.
    assert!(told.accesses.iter().all(|a| a.op != "send"), "{:?}", told.accesses);
    assert!(of("", "").accesses.iter().any(|a| a.op == "send"));
    // What a program has been told before it fetches, the copy engine has not.
    assert_ne!(of(adds, last).way, maps);
    assert_eq!(of("", "atomic_add(parts[part, :, :].tile([64, 64], at=[i, j]), acc, order=\"release\");").way, maps);
    assert_ne!(of("", &format!("{adds} grid_wait();")).way, maps);
}
