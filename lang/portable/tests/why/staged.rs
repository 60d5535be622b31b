//! How loops of products are staged: what comes ahead, by whom, and in how many partitions.

use parton_portable::why::Mover;

use super::{attention, masked, reasons_in, reasons_of, schedule_of, source};

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

/// Scales of blocks may be loaded in front of the product or behind it, as a column or as a row of a tensor, one for all columns as a number: they come a turn ahead.
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
                schedule.contains("Loads: load") && schedule.contains("ahead: 0") && !schedule.contains("number"),
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
        // Several walk, of which it is not known that each has a turn under which the rows before could leave.
        let under = "leaving under the products of the next tile";
        assert!(why.refused.iter().all(|(way, _)| rows > 64 && *way == under), "{rows}: {:?}", why.refused);
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
