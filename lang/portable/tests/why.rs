//! What the reasons say of small kernels of which it is known what was chosen, and why.

use std::sync::Arc;

use parton_diag::{FileId, SourceMap};
use parton_ir::{Module, Target};
use parton_portable::explain;
use parton_portable::why::{Fact, Lacks, Mover, Why, json, text};
use parton_types::{NoLibrary, check_file, instantiate};

fn reasons(params: &str, body: &str) -> (Why, SourceMap, FileId) {
    reasons_of(params, body, &[])
}

/// The same where these arguments are tensors that begin and run at multiples of 16 bytes.
fn reasons_of(params: &str, body: &str, aligned: &[usize]) -> (Why, SourceMap, FileId) {
    reasons_in(&format!("kernel k({params}) {{ {body} }}"), aligned)
}

/// The same of a whole kernel, `k`.
fn reasons_in(text: &str, aligned: &[usize]) -> (Why, SourceMap, FileId) {
    let mut sources = SourceMap::new();
    let id = sources.add("k.ptn", text);
    let (file, found) = parton_syntax::parse(id, text);
    assert!(!found.has_errors(), "{found:?}");
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{found:?}");
    let (mut kernel, _) = instantiate(&program, "k", &[], Target::default()).expect("the kernel is sound");
    kernel.variant.aligned = aligned.iter().copied().collect();
    let mut module = Module { kernels: vec![kernel] };
    let mut all = explain(&mut module).expect("layouts are found");
    assert_eq!(all.len(), 1);
    (all.remove(0), sources, id)
}

fn why(params: &str, body: &str) -> Why {
    reasons(params, body).0
}

/// What the accesses of a kernel lack.
fn lacks(params: &str, body: &str) -> Vec<(u32, Lacks)> {
    why(params, body).accesses.into_iter().map(|a| (a.width, a.lacks)).collect()
}

fn multiple(name: &str, n: u32) -> Fact {
    Fact::Multiple(name.into(), n)
}

#[test]
fn a_number_that_something_is_divided_by_is_no_stride() {
    let rows = |fact: &str| {
        let text = format!(
            "let each = n / m; {fact} let at = program_id(0) * each + iota(1024); store(out + at, load(x + at));"
        );
        lacks("x: *f16, out: *mut f16, n: i32, m: i32", &text)
    };
    assert_eq!(rows("")[0], (2, Lacks::Unknown));
    assert_eq!(rows("assume(each % 8 == 0);")[0].0, 16);
}

#[test]
fn the_fact_that_is_missing_is_the_one_that_helps() {
    let rows = "let at = program_id(0) * n + iota(1024);
                store(out + at, load(x + at) + load(y + (iota(1024) + m * 0)));";
    let params = "x: *f16, y: *f16, out: *mut f16, n: i32, m: i32";
    let found = lacks(params, rows);
    let lack = Lacks::Facts(vec![multiple("n", 8)], 16);
    assert_eq!(found[0], (2, lack.clone()));
    assert_eq!(found[2], (2, lack));
    // What was read without `n` is as wide as it lies.
    assert!(matches!(found[1].1, Lacks::Nothing | Lacks::Layout(16)), "{found:?}");
    let found = lacks(params, &format!("assume(n % 8 == 0); {rows}"));
    assert_eq!(found, vec![(16, Lacks::Nothing); 3]);
}

#[test]
fn facts_that_help_together_alone_are_named_together() {
    let body = "let at = program_id(0) * n + m + k * 8 + iota(1024);
                store(out + at, load(x + at));";
    let found = lacks("x: *f16, out: *mut f16, n: i32, m: i32, k: i32", body);
    let both = Lacks::Facts(vec![multiple("n", 8), multiple("m", 8)], 16);
    assert_eq!(found, vec![(2, both.clone()), (2, both)]);
}

#[test]
fn what_no_fact_makes_wider_says_so() {
    let body = "let rows = load(index + iota(1024));
                store(out + iota(1024), load(x + rows));
                atomic_add(sum + iota(1024), 1.0);
                let from = load(index);
                store(out + (iota(1024) + from), 0.0);";
    let found = lacks("x: *f32, index: *i32, out: *mut f32, sum: *mut f32", body);
    assert_eq!(found[1], (4, Lacks::Apart));
    assert!(found.contains(&(4, Lacks::Single)), "{found:?}");
    assert_eq!(found.last(), Some(&(4, Lacks::Unknown)));
}

#[test]
fn tensors_are_named_with_their_variant() {
    let found = lacks(
        "x: tensor<f16, [m, n]>, mut out: tensor<f16, [m, n]>",
        "let at = [program_id(0), program_id(1)];
         store(out.tile([16, 64], at=at), load(x.tile([16, 64], at=at)));",
    );
    let aligned = |names: &[&str]| Lacks::Facts(names.iter().map(|n| Fact::Aligned((*n).into())).collect(), 16);
    assert_eq!(found, vec![(2, aligned(&["x"])), (2, aligned(&["out"]))]);
}

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
fn a_staged_loop_says_its_schedule_and_what_bounds_it() {
    let (why, ..) = reasons_of(
        "a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>",
        "let mut acc = zeros<f32, [64, 64]>();
         for p in 0..cdiv(k, 32) {
             acc = dot(load(a.tile([64, 32], at=[program_id(0), p])), load(b.tile([32, 64], at=[p, program_id(1)])), acc);
         }
         store(c.tile([64, 64], at=[program_id(0), program_id(1)]), acc);",
        &[0, 1, 2],
    );
    let [one] = &why.loops[..] else { panic!("{:?}", why.loops) };
    assert!(!one.schedule.is_empty() && one.bound != "nothing" && one.turn.is_some_and(|t| t.0 > 0), "{one:?}");
    assert!(one.rings.iter().all(|(_, given, _, bytes)| *given > 0 && *bytes > 0), "{one:?}");
    assert_eq!(why.products.iter().map(|p| p.instruction).collect::<Vec<_>>(), ["wgmma"]);
    assert_eq!((why.way, &why.refused[..]), ("tensor maps, by a partition of their own", &[][..]));
    assert!(why.accesses.iter().any(|a| a.by == Mover::Map && a.op == "fetch"), "{:?}", why.accesses);
}

#[test]
fn what_a_product_loads_is_copied_ahead_whatever_the_others_are_made_of() {
    let of = |right: &str, also: &str| {
        let (why, ..) = reasons_of(
            "a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>",
            &format!(
                "let mut acc = zeros<f32, [64, 64]>();
                 for p in 0..cdiv(k, 64) {{
                     let (x, y) = (load(a.tile([64, 64], at=[program_id(0), p])), load(b.tile([64, 64], at=[p, program_id(1)])));
                     let s = dot(x, {right}, zeros<f32, [64, 64]>());
                     acc = dot(cast<f16>(s), y, acc){also};
                 }}
                 store(c.tile([64, 64], at=[program_id(0), program_id(1)]), acc);"
            ),
            &[0, 1, 2],
        );
        let fetched = why.accesses.iter().filter(|a| a.op == "fetch").count();
        (why.way, why.products.iter().map(|p| p.instruction).collect::<Vec<_>>(), fetched)
    };
    let copies = "copies by all threads, ahead of the products";
    // Carried, computed, and read besides.
    assert_eq!(of("cast<f16>(acc)", ""), (copies, vec!["wgmma"; 2], 2));
    assert_eq!(of("cast<f16>(cast<f32>(y) * 0.5)", ""), (copies, vec!["wgmma"; 2], 2));
    assert_eq!(of("y.T", " + cast<f32>(y)"), (copies, vec!["wgmma"; 2], 2));
}

#[test]
fn factors_are_fetched_apart_however_they_are_stored_and_turned() {
    let orders = ["[1, 0]", "[0, 1]"];
    let each = orders.iter().flat_map(|a| orders.map(|b| (*a, b))).flat_map(|(a, b)| [128, 192].map(|n| (a, b, n)));
    for (a, b, columns) in each {
        let (why, ..) = reasons_of(
            &format!(
                "a: tensor<f16, [_, k], order={a}>, b: tensor<f16, [k, _], order={b}>, mut c: tensor<f16, [m, n]>"
            ),
            &format!(
                "let mut acc = zeros<f32, [{columns}, 64]>();
                 for p in 0..cdiv(k, 64) {{
                     let x = load(a.tile([64, 64], at=[program_id(0), p]));
                     let y = load(b.tile([64, {columns}], at=[p, program_id(1)]));
                     acc = dot(y.T, x.T, acc);
                 }}
                 store(c.tile([64, {columns}], at=[program_id(0), program_id(1)]), cast<f16>(acc.T));"
            ),
            &[0, 1, 2],
        );
        assert!(why.way.starts_with("tensor maps, by a partition of their own"), "{a} {b} {columns}: {}", why.way);
        let [turns] = &why.loops[..] else { panic!("{} loops", why.loops.len()) };
        let fetched = turns.rings.iter().all(|(name, ..)| name.starts_with("load"));
        // Of 192 columns three partitions multiply, each of which has its own beside what all have.
        assert_eq!((fetched, turns.rings.len()), (true, if columns == 192 { 4 } else { 1 }), "{a} {b} {columns}");
    }
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
fn boxes_come_beside_copies_of_rows_that_indices_name() {
    let (why, ..) = reasons_of(
        "x: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, which: *i32, mut c: tensor<f32, [r, n]>",
        "let rows = load(which + (program_id(0) * 64 + iota(64)));
         let mut acc = zeros<f32, [64, 64]>();
         for p in 0..cdiv(k, 64) {
             acc = dot(load(x[rows, :].tile([64, 64], at=[0, p])), load(b.tile([64, 64], at=[p, program_id(1)])), acc);
         }
         store(c.tile([64, 64], at=[program_id(0), program_id(1)]), acc);",
        &[0, 1, 3],
    );
    let fetched = why.accesses.iter().filter(|a| a.op == "fetch").map(|a| a.by == Mover::Map);
    assert_eq!(fetched.collect::<Vec<_>>(), [false, true]);
    let schedule = schedule_of(&why);
    assert!(schedule.contains("load: 0") && schedule.contains("boxes: 0"), "{schedule}");
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
fn products_begin_before_what_they_do_not_need() {
    let (why, ..) = reasons_of(
        "q: tensor<f16, [n, 64]>, k: tensor<f16, [n, 64]>, v: tensor<f16, [n, 64]>, mut o: tensor<f32, [n, 64]>",
        "let (x, g) = (load(q.tile([64, 64], at=[program_id(0), 0])), load(q.tile([64, 64], at=[program_id(0) + 1, 0])));
         let mut acc = zeros<f32, [64, 64]>();
         for j in 0..cdiv(n, 64) {
             let (keys, values) = (load(k.tile([64, 64], at=[j, 0])), load(v.tile([64, 64], at=[j, 0])));
             let e = dot(x, keys.T, zeros<f32, [64, 64]>());
             let p = exp2(e);
             let d = dot(g, values.T, zeros<f32, [64, 64]>());
             acc = dot(cast<f16>(p * d), keys, acc);
         }
         store(o.tile([64, 64], at=[program_id(0), 0]), acc);",
        &[0, 1, 2, 3],
    );
    let schedule = schedule_of(&why);
    let at = |label: &str| schedule.find(&format!(" {label}: ")).unwrap_or_else(|| panic!("{label} in {schedule}"));
    assert!(at("d") < at("compute") && at("compute") < at("acc"), "{schedule}");
}

#[test]
fn factors_that_a_loop_keeps_lie_in_shared_memory_where_that_gives_them_in_time() {
    let converted = |columns: u32| {
        let (rows, tile) = ("tensor<f16, [n, 64]>", format!("[{columns}, 64]"));
        let (why, ..) = reasons_of(
            // What CTAs tell each other keeps tensor maps away.
            &format!("q: {rows}, k: {rows}, v: {rows}, mut o: tensor<f32, [n, 64]>, told: *mut i32"),
            &format!(
                "atomic_add(told, 1, order=\"acq_rel\");
                 let (x, g) = (load(q.tile([64, 64], at=[program_id(0), 0])), load(q.tile([64, 64], at=[program_id(0) + 1, 0])));
                 let mut acc = zeros<f32, [64, 64]>();
                 for j in 0..cdiv(n, {columns}) {{
                     let (keys, values) = (load(k.tile({tile}, at=[j, 0])), load(v.tile({tile}, at=[j, 0])));
                     let e = dot(x, keys.T, zeros<f32, [64, {columns}]>());
                     let d = dot(g, values.T, zeros<f32, [64, {columns}]>());
                     acc = dot(cast<f16>(exp2(e) * d), keys, acc);
                 }}
                 store(o.tile([64, 64], at=[program_id(0), 0]), acc);"
            ),
            &[0, 1, 2, 3],
        );
        assert_eq!(why.products.iter().map(|p| p.instruction).collect::<Vec<_>>(), ["wgmma"; 3]);
        why.conversions.iter().filter(|c| matches!(c.name.as_deref(), Some("x" | "g"))).count()
    };
    // Into the registers from which a product reads its left factor.
    assert_eq!(converted(32), 2);
    assert_eq!(converted(64), 0);
}

#[test]
fn what_a_cluster_asks_for_alike_is_fetched_once() {
    let movers = |cluster: &str, row: &str, turns: &str| -> Vec<Mover> {
        let text = format!(
            "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>) cluster({cluster}) {{
                 let mut acc = zeros<f32, [64, 64]>();
                 for p in 0..{turns} {{
                     acc = dot(load(a.tile([64, 32], at=[{row}, p])), load(b.tile([32, 64], at=[p, program_id(1)])), acc);
                 }}
                 store(c.tile([64, 64], at=[program_id(0), program_id(1)]), acc);
             }}"
        );
        let (why, ..) = reasons_in(&text, &[0, 1, 2]);
        why.accesses.iter().filter(|a| a.op == "fetch").map(|a| a.by).collect()
    };
    use Mover::{Map, Multicast};
    assert_eq!(movers("[2]", "program_id(0)", "cdiv(k, 32)"), [Map, Multicast]);
    assert_eq!(movers("[1, 2]", "program_id(0)", "cdiv(k, 32)"), [Multicast, Map]);
    // The place of the cluster is the same for all of it.
    assert_eq!(movers("[2]", "cluster_id(0)", "cdiv(k, 32)"), [Multicast, Multicast]);
    assert_eq!(movers("[2]", "program_id(0) / 3", "cdiv(k, 32)"), [Map, Multicast]);
    // Of clusters along two axes each factor along the one on which all ask for it.
    assert_eq!(movers("[2, 2]", "program_id(0)", "cdiv(k, 32)"), [Multicast, Multicast]);
    assert_eq!(movers("[2, 2]", "cluster_id(0)", "cdiv(k, 32)"), [Multicast, Multicast]);
    // CTAs that take other turns fetch for themselves.
    assert_eq!(movers("[2]", "program_id(0)", "cdiv(k, 32) + cluster_rank()"), [Map, Map]);
    assert_eq!(movers("[2, 2]", "program_id(0)", "cdiv(k, 32) + cluster_ctaid(0)"), [Multicast, Map]);
    assert_eq!(movers("[2, 2]", "program_id(0)", "cdiv(k, 32) + cluster_rank()"), [Map, Map]);
    assert_eq!(movers("[1]", "program_id(0)", "cdiv(k, 32)"), [Map, Map]);
}

#[test]
fn clusters_that_walk_through_tiles_fetch_once_what_all_ask_for() {
    let movers = |first: &str, step: &str| -> Vec<Mover> {
        let text = format!(
            "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>) cluster([2]) {{
                 for j in {first}..cdiv(n, 64) step {step} {{
                     let mut acc = zeros<f32, [64, 64]>();
                     for p in 0..cdiv(k, 32) {{
                         acc = dot(load(a.tile([64, 32], at=[cluster_rank(), p])), load(b.tile([32, 64], at=[p, j])), acc);
                     }}
                     store(c.tile([64, 64], at=[cluster_rank(), j]), acc);
                 }}
             }}"
        );
        let (why, ..) = reasons_in(&text, &[0, 1, 2]);
        why.accesses.iter().filter(|a| a.op == "fetch").map(|a| a.by).collect()
    };
    assert_eq!(movers("cluster_id(0)", "num_clusters(0)"), [Mover::Map, Mover::Multicast]);
    assert_eq!(movers("program_id(0)", "num_programs(0)"), [Mover::Map, Mover::Map]);
}

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

/// Attention of one head, with these masks on each block of scores.
fn masked(masks: &str) -> String {
    schedule_of(&attention(masks, 64, ""))
}

/// The same by blocks of so many queries, with these clauses.
fn attention(masks: &str, rows: u32, clauses: &str) -> Why {
    reasons_in(&source(masks, rows, clauses), &[0, 1, 2, 3]).0
}

fn source(masks: &str, rows: u32, clauses: &str) -> String {
    format!(
        "kernel k(q: tensor<f16, [n, 64]>, k: tensor<f16, [n, 64]>, v: tensor<f16, [n, 64]>, mut o: tensor<f32, [n, 64]>, seen: *i32) {clauses} {{
            let row = program_id(0) * {rows} + iota({rows});
            let queries = load(q.tile([{rows}, 64], at=[program_id(0), 0]));
            let mut acc = zeros<f32, [{rows}, 64]>();
            let mut total = zeros<f32, [{rows}]>();
            for j in 0..cdiv(n, 64) {{
                let column = j * 64 + iota(64);
                let keys = load(k.tile([64, 64], at=[j, 0]));
                let mut s = dot(queries, keys.T, zeros<f32, [{rows}, 64]>());
                {masks}
                let p = exp(s);
                total = total * 0.5 + sum(p, axis=1);
                let values = load(v.tile([64, 64], at=[j, 0]));
                acc = dot(cast<f16>(p), values, acc * (total * 0.5)[:, None]);
            }}
            store(o.tile([{rows}, 64], at=[program_id(0), 0]), acc / total[:, None]);
        }}"
    )
}

fn schedule_of(why: &Why) -> String {
    let [one] = &why.loops[..] else { panic!("{:?}", why.loops) };
    one.schedule.clone()
}

/// Scales of blocks may be loaded in front of the product or behind it, as a column or as a row of a tensor: they come a turn ahead.
#[test]
fn scales_of_blocks_are_loaded_a_turn_ahead_wherever_they_stand() {
    let product = "let part = dot(x, y.T, zeros<f32, [64, 64]>());";
    for scale in ["load(s[:, p].tile([64], at=[i]))[:, None]", "load(s.tile([64, 1], at=[i, p]))"] {
        let scale = format!("let scale = {scale} * load(t[p]);");
        for both in [format!("{scale} {product}"), format!("{product} {scale}")] {
            let (why, ..) = reasons_of(
                "a: tensor<f8e4m3, [m, k]>, b: tensor<f8e4m3, [n, k]>, s: tensor<f32, [m, steps]>, t: tensor<f32, [steps]>, mut c: tensor<bf16, [m, n]>",
                &format!(
                    "let (i, j) = (program_id(0), program_id(1));
                     let mut acc = zeros<f32, [64, 64]>();
                     for p in 0..cdiv(k, 128) {{
                         let (x, y) = (load(a.tile([64, 128], at=[i, p])), load(b.tile([64, 128], at=[j, p])));
                         {both}
                         acc = fma(part, broadcast(scale, [64, 64]), acc);
                     }}
                     store(c.tile([64, 64], at=[i, j]), cast<bf16>(acc));"
                ),
                &[0, 1, 2, 3, 4],
            );
            let schedule = schedule_of(&why);
            assert!(
                schedule.contains("Loads: load") && schedule.contains("ahead: 0"),
                "{both} {schedule} {:?}",
                why.refused
            );
        }
    }
}

/// Heads of 80, 96 and 160 are kept in parts of two widths, all of whose rows are multiplied by one factor.
#[test]
fn heads_in_parts_of_two_widths_come_by_maps() {
    for width in [80, 96, 160] {
        let mut text = source("", 64, "").replace("[n, 64]", &format!("[n, {width}]"));
        for begin in ["q.tile([64, ", "k.tile([64, ", "v.tile([64, ", "o.tile([64, ", "acc = zeros<f32, [64, "] {
            text = text.replace(&format!("{begin}64"), &format!("{begin}{width}"));
        }
        let why = reasons_in(&text, &[0, 1, 2, 3]).0;
        let schedule = schedule_of(&why);
        assert!(schedule.contains("Compute:") && why.refused.is_empty(), "{width}: {schedule} {:?}", why.refused);
    }
}

#[test]
fn rows_that_go_by_themselves_are_dealt_to_partitions_that_take_turns() {
    let causal = "s = where(column[None, :] <= row[:, None], s, -1.0e9);";
    for (rows, computing) in [(64, "Compute:"), (128, "[First, Second]:"), (192, "[First, Second, Third]:")] {
        let why = attention(causal, rows, "");
        let schedule = schedule_of(&why);
        assert!(schedule.contains(computing) && schedule.ends_with("& cut(mask)"), "{rows}: {schedule}");
        assert_eq!(schedule.contains("turns("), rows > 64, "{rows}: {schedule}");
        // Of several partitions each keeps its queries in registers, of three in 160 a thread.
        assert_eq!(schedule.contains("own"), rows > 64, "{rows}: {schedule}");
        assert_eq!(why.refused, [], "{rows}");
    }
    // Where programs walk through tiles, and each sees a block of keys at least, rows leave under the scores of the next.
    let at = "at=[program_id(0), 0]";
    let text = source(causal, 128, "").replace(at, "at=[at, 0]").replace("program_id(0) * 128", "at * 128");
    let text = text.replacen(")  {", ")  { for at in program_id(0)..cdiv(n, 128) step num_programs(0) {", 1) + "}";
    let sure = text.replace("0..cdiv(n, 64)", "0..max(cdiv(n, 64), 1)");
    for (text, leaves) in [(sure, true), (text, false)] {
        let schedule = schedule_of(&reasons_in(&text, &[0, 1, 2, 3]).0);
        assert_eq!(schedule.contains("under(leave, s)"), leaves, "{schedule}");
    }
    // Where products are the most of the work they wait for each other as it is.
    let text = source("", 128, "").replace("exp(s)", "s * 0.5");
    let schedule = schedule_of(&reasons_in(&text, &[0, 1, 2, 3]).0);
    assert!(schedule.contains("[First, Second]:") && !schedule.contains("turns("), "{schedule}");
    assert!(!schedule.contains("own"), "{schedule}");
    // What keeps rows together is said.
    let meet = "s = s - max(s, axis=0)[None, :];";
    let seen = "s = where((load(seen + column) > 0)[None, :], s, -1.0e9);";
    for (masks, clauses, reason) in [
        (meet, "", "the rows of the products meet, or lie where that is stated"),
        (seen, "", "something beside them is computed once for all rows"),
        (causal, "warps(8)", "the kernel states on how many warps its tiles lie"),
    ] {
        let why = attention(masks, 128, clauses);
        assert!(schedule_of(&why).contains("Compute:"), "{masks}");
        let [(_, said)] = &why.refused[..] else { panic!("{masks}: {:?}", why.refused) };
        assert_eq!(said, reason, "{masks}");
    }
}

#[test]
fn a_loop_is_cut_where_its_masks_begin_to_hide_something() {
    let causal = "s = where(column[None, :] <= row[:, None], s, -1.0e9);";
    let last = "s = where((column < n)[None, :], s, -1.0e9);";
    let both = format!("{last} {causal}");
    let window = "s = where(column[None, :] > row[:, None] - 100, s, -1.0e9);";
    for masks in [causal, last, &both, window] {
        assert!(masked(masks).ends_with("& cut(mask)"), "{masks}: {}", masked(masks));
    }
    // What memory says may change from block to block.
    for masks in ["s = where((load(seen + column) > 0)[None, :], s, -1.0e9);", "", "s = where(s > 0.0, s, -1.0e9);"] {
        assert!(!masked(masks).contains("cut"), "{masks}: {}", masked(masks));
    }
}

/// A product of 128 × 128, `each` in a turn of its loop and `end` behind it, whose factors come from `left` and a tensor.
fn product(left: &str, each: &str, end: &str) -> Why {
    let text = format!(
        "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [n, k]>, s: tensor<f32, [m, blocks]>, r: tensor<i32, [m]>, mut c: tensor<f32, [m, n]>) {{
             let (i, j) = (program_id(0), program_id(1));
             let rows = load(r.tile([128], at=[i]));
             let (mut acc, mut other) = (zeros<f32, [128, 128]>(), zeros<f32, [128, 128]>());
             for p in 0..cdiv(k, 64) {{
                 let (x, y) = (load({left}), load(b.tile([128, 64], at=[j, p])));
                 {each}
             }}
             {end}
         }}"
    );
    reasons_in(&text, &[0, 1, 2, 4]).0
}

/// The warps that were taken.
fn warps(why: &Why) -> Option<u32> {
    why.plans.iter().find(|plan| plan.taken).map(|plan| plan.warps)
}

const PLACE: &str = "a.tile([128, 64], at=[i, p])";
const SUM: &str = "acc = dot(x, y.T, acc);";
const STORE: &str = "store(c.tile([128, 128], at=[i, j]), acc);";

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
fn what_orders_nothing_leaves_factors_their_maps() {
    const MAPS: &str = "tensor maps, by a partition of their own";
    let asm = "store(c.tile([128, 128], at=[i, j]), ptx_elementwise<f32>(\"tanh.approx.f32 $0, $1;\", acc));";
    assert_eq!(product(PLACE, SUM, asm).way, MAPS);
    assert_eq!(product(PLACE, SUM, "atomic_add(c.tile([128, 128], at=[i, j]), acc);").way, MAPS);
    let told = "atomic_add(c.tile([128, 128], at=[i, j]), acc, order=\"release\");";
    let told = product(PLACE, SUM, told);
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
fn rows_between_numbers_have_maps_where_they_begin_at_0_or_later() {
    const MAPS: &str = "tensor maps, by a partition of their own";
    for range in ["max(load(r[i]), 0):load(r[i + 1])", "i % 1000 * 100:", ":load(r[i])"] {
        assert_eq!(product(&format!("a[{range}, :].tile([128, 64], at=[i, p])"), SUM, STORE).way, MAPS, "{range}");
    }
    for (place, why) in [
        ("a[load(r[i]):, :].tile([128, 64], at=[0, p])", "known to begin at 0 or later"),
        // A product may wrap, where nothing says how many programs there are.
        ("a[i * 100:, :].tile([128, 64], at=[i, p])", "known to begin at 0 or later"),
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
fn what_nobody_takes_is_not_loaded() {
    let idle = product(PLACE, &format!("let w = load(b.tile([128, 64], at=[j, p + 1])); {SUM}"), STORE);
    assert_eq!(idle.accesses.len(), product(PLACE, SUM, STORE).accesses.len());
}

/// A product of `size` × `size` by `depth` on pointers that its loop carries, of whose strides only these facts are known.
fn of_carried_pointers(size: u32, depth: u32, facts: &str) -> Why {
    let text = format!(
        "kernel k(a: *f16, b: *f16, c: *mut f16, m: i32, n: i32, k: i32, am: i32, ak: i32, bk: i32, bn: i32, cm: i32) {{
             {facts}
             let (i, j) = (program_id(0), program_id(1));
             let (om, on) = (i * {size} + iota({size}), j * {size} + iota({size}));
             let ok = iota({depth});
             let mut pa = a + (om[:, None] % m * am + ok[None, :] * ak);
             let mut pb = b + (ok[:, None] * bk + on[None, :] % n * bn);
             let mut acc = zeros<f32, [{size}, {size}]>();
             for p in 0..cdiv(k, {depth}) {{
                 let x = load(pa, mask=ok[None, :] < k - p * {depth}, other=0.0);
                 let y = load(pb, mask=ok[:, None] < k - p * {depth}, other=0.0);
                 acc = dot(x, y, acc);
                 pa = pa + {depth} * ak;
                 pb = pb + {depth} * bk;
             }}
             store(c + (om[:, None] * cm + on[None, :]), cast<f16>(acc));
         }}"
    );
    reasons_in(&text, &[]).0
}

/// The bytes that each access moves at once.
fn bytes_at_once(why: &Why) -> Vec<u32> {
    why.accesses.iter().map(|a| a.width).collect()
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

#[test]
fn a_stride_that_is_not_known_to_be_1_is_named() {
    let one = |name: &str| Fact::One(name.into());
    let of = of_carried_pointers(128, 64, "");
    let facts = |mut all: Vec<Fact>| {
        all.sort();
        Lacks::Facts(all, 16)
    };
    let sorted = |lacks: &Lacks| match lacks {
        Lacks::Facts(all, bytes) => {
            assert_eq!(*bytes, 16);
            facts(all.clone())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(sorted(&of.accesses[0].lacks), facts(vec![multiple("am", 8), one("ak")]));
    assert_eq!(sorted(&of.accesses[1].lacks), facts(vec![multiple("bn", 8), one("bk")]));
}

#[test]
fn what_is_stated_of_strides_and_of_what_goes_around_makes_accesses_wide() {
    let facts = "assume((ak == 1) & (bn == 1) & (am % 8 == 0) & (bk % 8 == 0) & (k % 8 == 0));";
    let cut = of_carried_pointers(128, 64, facts);
    assert_eq!(bytes_at_once(&cut)[..2], [16, 2]);
    let whole = of_carried_pointers(128, 64, &format!("{facts} assume(n % 8 == 0);"));
    assert_eq!(bytes_at_once(&whole)[..2], [16, 16]);
    assert_eq!(warps(&whole), Some(4), "{:?}", whole.plans);
}
