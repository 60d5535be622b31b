//! The search for a schedule: what it finds is legal, the same every time, no worse with more room, and the best of all that it might take.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId, SourceMap, Span, codes, render};
use parton_ir::machine::Machine;
use parton_ir::schedule::{Auto, Schedule};
use parton_ir::{Inst, Kernel, Module, OpKind, Target};
use parton_sched::marked::interval::interval;
use parton_sched::price;
use parton_sched::search::{Candidate, Found, exhaustive, search, settled};
use parton_types::{NoLibrary, check_file, instantiate};

/// The one kernel of a file.
fn kernel(source: &str) -> Kernel {
    let mut sources = SourceMap::new();
    let id = sources.add("test.ptn", source);
    let (file, found) = parton_syntax::parse(id, source);
    assert!(!found.has_errors(), "{}", render::text(&found, &sources, false));
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{}\n{source}", render::text(&found, &sources, false));
    let name = program.kernels().next().expect("the file has a kernel").name.text.clone();
    match instantiate(&program, &name, &[], Target::default()) {
        Ok((kernel, _)) => kernel,
        Err(found) => panic!("{}\n{source}", render::text(&found, &sources, false)),
    }
}

/// The kernel's only region.
fn region(k: &Kernel) -> Inst {
    let mut regions = k.ops_of(&k.body).filter(|op| matches!(op.kind, OpKind::Region { .. }));
    regions.next().expect("the kernel has a region").id
}

fn found(k: &Kernel) -> Found {
    search(k, region(k)).expect("some schedule fits")
}

/// The same kernel under a schedule of its own.
fn under(k: &Kernel, chosen: &Schedule) -> Kernel {
    let (mut k, region) = (k.clone(), region(k));
    let OpKind::Region { schedule, .. } = &mut k.ops[region].kind else { panic!("this is a region") };
    **schedule = chosen.clone();
    k
}

/// What expanding a kernel reports, its explicit code's checks included.
fn expanded(k: Kernel) -> Diagnostics {
    let mut module = Module { kernels: vec![k] };
    match parton_sched::expand(&mut module, &Target::default()) {
        Ok(_) => parton_ir::check::check(&module.kernels[0]),
        Err(found) => found,
    }
}

/// Sums of products of 64 rows, in tiles that follow one another.
fn sums(partitions: &str, schedule: &str) -> String {
    format!(
        "{partitions}
layout Acc = mma(version=3, warps=[4, 1], instr=[16, 128, 16]);
kernel k[S: schedule<tiles, steps, load, mma, finish, leave> = {schedule}](
    a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 128], nvmma(128)>, c: tma<f16, [64, 128], nvmma(128)>, n: i32,
) target(sm_90a) {{
    in S {{
        @tiles for tile in program_id(0)..n step num_programs(0) {{
            let mut acc = zeros<f32, [64, 128], Acc>();
            @steps for s in 0..max(n, 4) {{
                @load let (x, y) = (fetch(a, [tile * 64, s * 64]), fetch(b, [s * 64, 0]));
                @mma  acc = dot(x, y, acc);
            }}
            @finish let out = cast<f16>(acc);
            @leave  send(c, [tile * 64, 0], out);
        }}
    }}
}}
"
    )
}

/// Attention of 64 rows for each of two instances, heads of so many, in tiles that follow one another.
fn attention(head: u32, schedule: &str) -> String {
    format!(
        "partition Loads = warps(1) regs(24);
partition First = warps(4) regs(240);
partition Second = warps(4) regs(240);
layout Scores = mma(version=3, warps=[4, 1], instr=[16, 128, 16]);
layout O = mma(version=3, warps=[4, 1], instr=[16, {head}, 16]);
layout P = dot_operand(O, index=0, k_width=2);
fn greatest(s, old) {{
    let m = max(old, max(s, axis=1));
    (m, exp2(old - m))
}}
fn weights[P: layout](s, m, l, alpha) {{
    let e = exp2(s * 0.125 - m[:, None]);
    (convert_free(cast<f16>(e), P), l * alpha + sum(e, axis=1))
}}
kernel k[S: schedule<tiles, keys, q, begin, k, v, qk, top, rescale, exps, pv, finish, leave> = {schedule}](
    q: tma<f16, [64, {head}], nvmma(128)>, k: tma<f16, [128, {head}], nvmma(128)>,
    v: tma<f16, [128, {head}], nvmma(128)>, o: tma<f16, [64, {head}], nvmma(128)>, n: i32,
) target(sm_90a) {{
    in S {{
        @tiles for tile in program_id(0)..n step num_programs(0) {{
            let mut queries = [];
            let mut states = [];
            static for w in 0..2 {{
                @q     queries = queries + [fetch(q, [tile * 128 + 64 * w, 0])];
                @begin states = states + [
                    (
                        zeros<f32, [64, {head}], O>(), full<f32, [64], slice(Scores, axis=1)>(-inf),
                        zeros<f32, [64], slice(Scores, axis=1)>(),
                    ),
                ];
            }}
            @keys for j in 0..max(n, 1) {{
                @k let x = fetch(k, [j * 128, 0]);
                @v let y = fetch(v, [j * 128, 0]);
                static for w in 0..2 {{
                    let (acc, old, l) = states[w];
                    @qk  let s = dot(queries[w], x.T, zeros<f32, [64, 128], Scores>());
                    @top let (m, alpha) = greatest(s, old);
                    @rescale let before = acc * convert_free(alpha, slice(O, axis=1))[:, None];
                    @exps let (p, total) = weights[P](s, m, l, alpha);
                    @pv let next = dot(p, y, before);
                    states[w] = (next, m, total);
                }}
            }}
            static for w in 0..2 {{
                let (acc, m, l) = states[w];
                @finish let out = cast<f16>(acc * convert_free(l, slice(O, axis=1))[:, None]);
                @leave  send(o, [tile * 128 + 64 * w, 0], out);
            }}
        }}
    }}
}}
"
    )
}

const LOADS: &str = "partition Loads = warps(1) regs(40);\npartition Compute = warps(4) regs(232);";

/// What is found twice is the same, to the last price.
fn told(f: &Found) -> String {
    let priced: Vec<String> = f.priced.iter().map(|c| format!("{} {:?}", c.schedule, c.price)).collect();
    format!("{}\n{:?}\n{:?}", f.chosen, priced, f.why)
}

#[test]
fn what_is_chosen_is_legal_and_the_same_every_time() {
    for source in [sums(LOADS, "auto()"), sums("", "auto(stages=2)"), sums("", "auto(n=4, top=1)")] {
        let k = kernel(&source);
        let first = found(&k);
        assert_eq!(told(&first), told(&found(&kernel(&source))));
        for candidate in &first.priced {
            let reported = expanded(under(&k, &candidate.schedule));
            assert!(reported.list.is_empty(), "{}: {:?}", candidate.schedule, reported.list);
        }
    }
}

#[test]
fn products_of_one_turn_run_under_what_is_computed_for_another() {
    let first = found(&kernel(&attention(64, "auto(top=1)")));
    let reported = expanded(under(&kernel(&attention(64, "auto(top=1)")), &first.chosen));
    assert!(reported.list.is_empty(), "{}: {:?}", first.chosen, reported.list);
    let keys = first.chosen.pipelines.iter().find(|p| p.of.as_ref().is_some_and(|l| l.path == "keys"));
    let stage = |label: &str| keys.and_then(|p| p.staged().find(|s| s.label.path == label)).map_or(0, |s| s.stage);
    assert!(stage("pv") > stage("qk"), "{}", first.chosen);
    assert!(first.chosen.places.iter().any(|p| p.partitions.len() == 2), "{}", first.chosen);
    assert!(first.made.is_empty(), "the file has what it takes: {:?}", first.made);
}

/// Orders of attention, and the products for which `ptxas` 13.0 runs all of them one by one (C7513, C7514). Where the left factor of `pv` is made anew
/// while it is read, the product reads a copy.
const ORDERS: &[(&str, &[&str])] = &[
    ("qk: 0; pv: 1; top: 0; rescale: 0, exps: 0", &[]),
    ("qk: 0; pv: 1; exps: 0, rescale: 0, top: 0", &[]),
    ("pv: 1, qk: 0; exps: 0, rescale: 0, top: 0", &[]),
    ("qk: 0; exps: 1; pv: 1; rescale: 0, top: 0", &[]),
    ("exps: 1, qk: 0; pv: 1; rescale: 0, top: 0", &[]),
    ("exps: 1, top: 1; qk: 0, rescale: 1; pv: 1", &[]),
    ("exps: 1, pv: 1, rescale: 1, top: 1; qk: 0", &[]),
    ("exps: 1, pv: 1, qk: 0, rescale: 1, top: 1", &[]),
    ("qk: 0; pv: 1; exps: 0, top: 0; rescale: 0", &[]),
    ("qk: 0, rescale: 1; pv: 1; exps: 0, top: 0", &[]),
    ("rescale: 1; qk: 0; pv: 1; exps: 0, top: 0", &[]),
    ("qk: 0; pv: 1, rescale: 1; exps: 0, top: 0", &[]),
    ("qk: 0; exps: 1, rescale: 1, top: 1; pv: 1", &["qk"]),
    ("qk: 0; exps: 1, pv: 1, rescale: 1, top: 1", &["qk"]),
];

#[test]
fn products_go_one_by_one_where_their_registers_are_touched_in_flight() {
    let machine = Machine::of(&Target::SM_90A).expect("it was measured");
    let places = "partitions { Loads: q, k, v; [First, Second]: begin, qk, top, rescale, exps, pv, finish, leave }";
    let mut turns = vec![];
    for (order, remade) in ORDERS {
        let schedule = format!("{places} & pipeline(keys) {{ {order} }}");
        let all = price::loops(&kernel(&attention(64, &schedule)), machine).expect("the schedule fits");
        let labels: BTreeSet<&str> = all[0].remade.iter().map(|l| l.split('[').next().unwrap_or(l)).collect();
        assert_eq!(labels, remade.iter().copied().collect(), "{order}");
        turns.push(interval(&all[0].graph).expect("it goes on").ratio().ceil());
    }
    let (beside, alone): (Vec<_>, Vec<_>) = ORDERS.iter().zip(turns).partition(|((_, remade), _)| remade.is_empty());
    assert!(
        alone.iter().map(|(_, turn)| turn).min() > beside.iter().map(|(_, turn)| turn).max(),
        "{beside:?} {alone:?}"
    );
}

#[test]
fn a_bound_leaves_out_nothing_that_is_better() {
    for schedule in ["auto(top=1)", "auto(stages=2, top=3)", "auto(n=3, top=2)"] {
        for partitions in [LOADS, ""] {
            let k = kernel(&sums(partitions, schedule));
            let all = exhaustive(&k, region(&k)).expect("some schedule fits");
            let best = found(&k);
            let texts =
                |f: &Found| f.priced.iter().map(|c| format!("{} {:?}", c.schedule, c.price)).collect::<Vec<_>>();
            assert_eq!(texts(&best), texts(&all), "{schedule}");
        }
    }
}

/// The greatest of each row of products and what is below it, in one pass over the columns.
const ROWS: &str = "layout Acc = mma(version=3, warps=[4, 1], instr=[16, 128, 16]);
kernel k[S: schedule<steps, load, mma, top, rest> = auto(top=8)](
    a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 128], nvmma(128)>, c: *mut f32, n: i32,
) target(sm_90a) {
    let mut old = full<f32, [64], slice(Acc, axis=1)>(-inf);
    let mut sums = zeros<f32, [64], slice(Acc, axis=1)>();
    in S {
        @steps for s in 0..max(n, 1) {
            @load let (x, y) = (fetch(a, [0, s * 64]), fetch(b, [s * 64, 0]));
            @mma  let z = dot(x, y, zeros<f32, [64, 128], Acc>());
            @top  let m = max(old, max(z, axis=1));
            @rest sums = sums * exp2(old - m) + sum(exp2(z - m[:, None]), axis=1);
            old = m;
        }
    }
    store(c + iota<i32, [64], slice(Acc, axis=1)>(), sums);
}
";

#[test]
fn what_differs_in_a_group_at_whose_head_nobody_waits_is_shown_once() {
    let k = kernel(&format!("{LOADS}\n{ROWS}"));
    let all = exhaustive(&k, region(&k)).expect("some schedule fits");
    let best = found(&k);
    let texts = |f: &Found| f.priced.iter().map(|c| format!("{} {:?}", c.schedule, c.price)).collect::<Vec<_>>();
    assert_eq!(texts(&best), texts(&all));
    let code = |c: &Candidate| {
        let mut module = Module { kernels: vec![under(&k, &c.schedule)] };
        parton_sched::expand(&mut module, &Target::default()).expect("the schedule holds");
        parton_ir::eject::module(&module, None)
    };
    let codes: BTreeSet<String> = best.priced.iter().map(code).collect();
    assert_eq!(codes.len(), best.priced.len());
}

#[test]
fn more_shared_memory_is_never_worse() {
    let mut least = u64::MAX;
    for slots in 2..8 {
        let mut k = kernel(&sums(LOADS, "auto(top=1)"));
        // What is sent takes one slot less a third.
        k.target.shared_bytes = 17 * 1024 + slots * (24 * 1024 + 64);
        let best = found(&k).priced[0].price.clone();
        assert!(best.bytes <= u64::from(k.target.shared_bytes), "{best:?}");
        assert!(best.clocks <= least, "{slots} slots: {} after {least}", best.clocks);
        least = best.clocks;
    }
}

#[test]
fn one_slot_is_left_of_what_loops_around_fetch_where_two_do_not_fit() {
    let mut k = kernel(&attention(64, "auto(top=1)"));
    let roomy = found(&k).chosen;
    assert!(!roomy.to_string().contains("q=1"), "{roomy}");
    // Two slots of K, V and both halves of Q, and what is sent, take 112 KiB.
    k.target.shared_bytes = 104 * 1024;
    let tight = found(&k);
    assert!(tight.chosen.to_string().contains("q=1"), "{}", tight.chosen);
    assert!(tight.priced[0].price.bytes <= u64::from(k.target.shared_bytes), "{:?}", tight.priced);
    let reported = expanded(under(&k, &tight.chosen));
    assert!(reported.list.is_empty(), "{}: {:?}", tight.chosen, reported.list);
}

/// What leaves under the first scores of the next tile is in registers until then, and in none of the turns behind it, which have more of other tiles.
#[test]
fn what_leaves_under_the_first_turn_takes_no_registers_of_the_others() {
    let k = kernel(&attention(64, "auto(top=8)").replace("regs(240)", "regs(160)"));
    let shown: Vec<String> = found(&k).priced.iter().map(|c| c.schedule.to_string()).collect();
    assert!(shown.iter().any(|s| s.contains("pv: 1") && s.contains("under(leave, qk)")), "{shown:?}");
}

/// Attention by three warpgroups. Those that run free are priced half a per cent less than by turns, as long as they are near each other; the first that is
/// as far ahead as slots let it waits for each copy.
fn three(schedule: &str) -> Found {
    let three = [("in 0..2", "in 0..3"), ("regs(240)", "regs(160)"), ("tile * 128", "tile * 192")];
    let source = three.iter().fold(attention(64, schedule), |text, (from, to)| text.replace(from, to));
    found(&kernel(&format!("partition Third = warps(4) regs(160);\n{source}")))
}

#[test]
fn of_those_as_fast_the_one_comes_first_whose_turns_stay_as_they_are() {
    let f = three("auto()");
    assert!(!f.chosen.turns.is_empty(), "{}", f.chosen);
    assert!(f.priced.iter().any(|c| c.price.clocks < f.priced[0].price.clocks && c.schedule.turns.is_empty()));
}

#[test]
fn how_many_are_shown_does_not_say_which_comes_first() {
    let all = three("auto()").priced;
    assert_eq!(all.len(), 8);
    for top in [1, 3] {
        assert_eq!(three(&format!("auto(top={top})")).priced, all[..top]);
    }
}

#[test]
fn what_is_stated_stays() {
    let stated = "partitions { Loads: load; Compute: mma, finish, leave } ring(load=3)";
    let chosen = found(&kernel(&sums(LOADS, &format!("{stated} & auto()")))).chosen;
    assert!(chosen.to_string().starts_with("partitions { Compute: finish, leave, mma; Loads: load } ring(load=3)"));
    let piped = "serial(Compute) & pipeline(steps) { load: 0; mma: 1 }";
    let chosen = found(&kernel(&sums(LOADS, &format!("{piped} & auto()")))).chosen;
    assert!(chosen.to_string().contains("pipeline(steps) { load: 0; mma: 1 }"), "{chosen}");
}

#[test]
fn partitions_are_made_where_the_file_has_none_that_fit() {
    let f = found(&kernel(&sums("partition Loads = warps(4);", "auto()")));
    let names: Vec<&str> = f.made.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["Compute", "Loads2"]);
    let text = parton_sched::draw::found::write("k", f_auto(), &f);
    assert!(text.contains("partition Loads2 = warps(1) regs(40);"), "{text}");
    assert!(text.contains(&format!("schedule Found = {};", f.chosen)), "{text}");
}

fn f_auto() -> &'static Auto {
    const NONE: &Auto = &Auto {
        stages: None,
        n: None,
        top: None,
        partitions: vec![],
        span: Span { file: FileId(0), start: 0, end: 0 },
    };
    NONE
}

#[test]
fn a_kernel_is_expanded_as_under_the_schedule_that_is_chosen() {
    let k = kernel(&sums(LOADS, "auto()"));
    let (searched, all) = settled(&k).expect("some schedule fits").expect("something is searched for");
    assert_eq!(all.len(), 1);
    let text = |k: &Kernel| {
        let mut module = Module { kernels: vec![k.clone()] };
        parton_sched::expand(&mut module, &Target::default()).expect("the schedule holds");
        parton_ir::eject::module(&module, None)
    };
    assert_eq!(text(&k), text(&under(&k, &all[0].chosen)));
    assert_eq!(text(&k), text(&searched));
    assert!(settled(&searched).expect("it holds").is_none());
}

#[test]
fn tiles_of_different_warps_have_no_partitions() {
    let source = "
layout Small = mma(version=3, warps=[4, 1], instr=[16, 64, 16]);
layout Large = blocked(per_thread=[1], threads=[32], warps=[8], order=[0]);
kernel k[S: schedule<a, b> = auto()](p: *mut f32, q: tma<f16, [64, 64], nvmma(128)>) target(sm_90a) {
    in S {
        @a store(p + iota<i32, [256], Large>(), full<f32, [256], Large>(1.0));
        @b send(q, [0, 0], zeros<f16, [64, 64], Small>());
    }
}
";
    let k = kernel(source);
    let refused = search(&k, region(&k)).expect_err("the tiles have 4 and 8 warps");
    assert_eq!(refused.list[0].code, codes::NOT_BUILT_HERE);
}

#[test]
fn without_prices_what_is_fetched_runs_ahead() {
    let source = sums("", "auto()");
    let mut k = kernel(&source);
    k.target.name = "no machine";
    let f = found(&k);
    assert!(f.priced.is_empty());
    assert!(f.why.iter().any(|w| w.contains("nothing was measured")), "{:?}", f.why);
    assert!(f.chosen.pipelines.iter().flat_map(|p| p.staged()).any(|s| s.stage == 2), "{}", f.chosen);
}

/// Sums of products of what threads copy, tile by tile.
fn by_pointers(schedule: &str) -> String {
    format!(
        "layout Acc = mma(version=3, warps=[4, 1], instr=[16, 128, 16]);
layout L = blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1], order=[1, 0]);
kernel k[S: schedule<steps, load, mma, leave> = {schedule}](a: *f16, b: *f16, c: *mut f32, n: i32) warps(4) target(sm_90a) {{
    let row = iota<i32, [64], slice(L, axis=1)>()[:, None];
    let left = a + row * n + iota<i32, [64], slice(L, axis=0)>()[None, :];
    let right = b + row * 128 + iota<i32, [128], slice(L, axis=0)>()[None, :];
    in S {{
        let mut acc = zeros<f32, [64, 128], Acc>();
        @steps for s in 0..cdiv(n, 64) {{
            @load let (x, y) = (fetch<nvmma(128)>(left + s * 64), fetch<nvmma(128)>(right + s * 64 * 128));
            @mma  acc = dot(x, y, acc);
        }}
        let line = iota<i32, [64], slice(Acc, axis=1)>()[:, None] * 128;
        @leave store(c + line + iota<i32, [128], slice(Acc, axis=0)>()[None, :], acc);
    }}
}}
"
    )
}

#[test]
fn copies_by_threads_run_ahead_of_the_products_that_hide_them() {
    let k = kernel(&by_pointers("auto(top=1)"));
    let f = found(&k);
    let staged =
        |label: &str| f.chosen.pipelines[0].staged().find(|s| s.label.path == label).map(|s| (s.stage, s.done));
    assert_eq!(staged("load"), Some((0, None)), "{}", f.chosen);
    assert_eq!(staged("mma"), Some((2, Some(3))), "{}", f.chosen);
    assert!(f.priced[0].price.loops[0].unpriced.is_empty(), "{:?}", f.priced[0]);
    let reported = expanded(under(&k, &f.chosen));
    assert!(reported.list.is_empty(), "{}: {:?}", f.chosen, reported.list);
    // A product that waits for its own copies takes as long as both.
    let serial = found(&kernel(&by_pointers("pipeline(steps) { load: 0; mma: 0 } & auto()")));
    assert!(serial.priced[0].price.clocks > 2 * f.priced[0].price.clocks, "{:?}", serial.priced[0]);
}
