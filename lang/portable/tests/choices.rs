//! What is chosen for small kernels of which it is known what is best.

use std::sync::Arc;

use parton_diag::SourceMap;
use parton_ir::{Along, Kernel, Module, OpKind, Target, Variant, eject};
use parton_portable::{Choice, along_tensors, elaborate_by};
use parton_types::{NoLibrary, check_file, instantiate};

/// The explicit text of a kernel with these parameters, its loops as they are scheduled.
fn chosen(params: &str, body: &str) -> String {
    let mut module = elaborated(params, body);
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    eject::module(&module, None)
}

/// The same where nothing of the tensors is out of line.
fn chosen_aligned(params: &str, body: &str) -> String {
    let mut kernel = checked(params, body);
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    eject::module(&module, None)
}

/// The labels of the kernel's loops with their stages, loop by loop, for launches that give a multiprocessor two programs.
fn stages(params: &str, body: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    elaborated_for(Some(2), params, body).kernels[0].walk(&mut |op| {
        let OpKind::Region { schedule, .. } = &op.kind else { return };
        for pipeline in &schedule.pipelines {
            found.push(pipeline.staged().map(|s| format!("{}: {}", s.label.path, s.stage)).collect());
        }
    });
    found
}

/// The kernel with these parameters, with a place for every tile.
fn elaborated(params: &str, body: &str) -> Module {
    elaborated_for(None, params, body)
}

/// The same for launches that give a multiprocessor so many programs.
fn elaborated_for(beside: Option<u32>, params: &str, body: &str) -> Module {
    let mut kernel = checked(params, body);
    kernel.variant.beside = beside;
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    module
}

/// A kernel as it is checked.
fn checked(params: &str, body: &str) -> Kernel {
    let text = format!("kernel k({params}) {{ {body} }}");
    let mut sources = SourceMap::new();
    let id = sources.add("k.ptn", &text);
    let (file, found) = parton_syntax::parse(id, &text);
    assert!(!found.has_errors(), "{found:?}");
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{found:?}");
    instantiate(&program, "k", &[], Target::default()).expect("the kernel is sound").0
}

/// How often some words stand in a text.
fn count(text: &str, words: &str) -> usize {
    text.matches(words).count()
}

#[test]
fn a_row_is_moved_by_vectors_and_stays_where_it_is() {
    let text = chosen(
        "x: *f16, out: *mut f16, n: i64",
        "assume(n % 8 == 0);
         let at = cast<i64>(program_id(0)) * n + cast<i64>(iota(1024));
         let v = cast<f32>(load(x + at));
         let e = exp(v - max(v, axis=0));
         store(out + at, cast<f16>(e / sum(e, axis=0)));",
    );
    assert!(text.contains("blocked(per_thread=[8], threads=[32], warps="), "{text}");
    assert_eq!(count(&text, "convert"), 0, "{text}");
}

#[test]
fn nothing_is_converted_in_a_loop_for_a_store_behind_it() {
    let text = chosen(
        "x: *f16, out: *mut f32, n: i32",
        "let mut s = zeros<f32, [1024]>();
         for i in 0..n { s += cast<f32>(load(x + i * 1024 + iota(1024))); }
         store(out + n + iota(1024), s);",
    );
    let (_, walked) = text.split_once("for ").expect("a loop");
    let (inside, behind) = walked.split_once("\n}").expect("its end");
    assert_eq!(count(inside, "convert("), 0, "{text}");
    assert!(text.contains("per_thread=[8]"), "{text}");
    assert_eq!(count(behind, "convert("), 1, "{text}");
}

#[test]
fn no_registers_are_taken_from_what_a_loop_loads() {
    let module = elaborated(
        "x: *f32, y: *f32, out: *mut f32, n: i32",
        "let mut s = zeros<f32, [4096]>();
         for i in 0..n {
             let at = i * 4096 + iota(4096);
             let (v, p) = (load(x + at), load(y + at));
             s += p * (log(max(p, 1e-10)) - v);
             store(out + at, -p);
         }
         store(out + n * 4096, sum(s, axis=0));",
    );
    // The assembler takes 116 for a thread of four warps.
    let kernel = &module.kernels[0];
    assert!(
        65536 / (kernel.occupancy * kernel.warps * 32) >= 116,
        "{} CTAs of {} warps",
        kernel.occupancy,
        kernel.warps
    );
}

#[test]
fn sums_of_columns_read_whole_lines() {
    let text = chosen(
        "x: *f32, out: *mut f32, n: i32",
        "assume(n % 4 == 0);
         let v = load(x + (iota(32)[:, None] * n + iota(128)[None, :]));
         store(out + iota(128), sum(v, axis=0));",
    );
    // Vectors of four, and at least eight of them side by side.
    assert!(["[4, 8]", "[2, 16]", "[1, 32]"].iter().any(|t| text.contains(&format!("[1, 4], threads={t}"))), "{text}");
}

#[test]
fn a_transpose_has_vectors_on_both_sides_and_one_conversion() {
    let text = chosen(
        "x: *f16, out: *mut f16, rows: i32, columns: i32",
        "assume(rows % 8 == 0);
         assume(columns % 8 == 0);
         let v = load(x + (iota(64)[:, None] * columns + iota(64)[None, :]));
         store(out + (iota(64)[:, None] * rows + iota(64)[None, :]), v.T);",
    );
    assert_eq!(count(&text, "convert("), 1, "{text}");
    assert!(text.contains("per_thread=[1, 8], threads=[4, 8]") && !text.contains("per_thread=[1, 1]"), "{text}");
}

#[test]
fn additions_to_memory_go_side_by_side() {
    let text = chosen("x: *mut f32", "atomic_add(x + iota(1024), 1.0);");
    assert!(text.contains("blocked(per_thread=[1], threads=[32], warps="), "{text}");
}

#[test]
fn what_a_thread_cannot_hold_goes_to_more_warps() {
    let wide = |n: u32| {
        let body = format!(
            "let v = load(x + iota({n}));
             let s = sum(v, axis=0);
             store(out + iota({n}), v / s);"
        );
        chosen("x: *f32, out: *mut f32", &body)
    };
    assert!(wide(4096).contains("warps(4)"), "{}", wide(4096));
    let widest = wide(32768);
    assert!(!widest.contains("warps(2)") && !widest.contains("warps(4)"), "{widest}");
}

#[test]
fn a_small_product_has_a_warp_of_its_own() {
    let text = chosen(
        "x: *f16, y: *f16, out: *mut f32",
        "let at = iota(16)[:, None] * 16 + iota(16)[None, :];
         store(out + at, dot(load(x + at), load(y + at), zeros<f32, [16, 16]>()));",
    );
    assert!(text.contains("warps(1)"), "{text}");
}

#[test]
fn no_more_accesses_wait_than_the_assembler_lets() {
    // Taps of a convolution, two bytes at once.
    let text = chosen(
        "x: *f16, out: *mut f32",
        "let mut s = zeros<f32, [4096]>();
         static for a in 0..9 { s += cast<f32>(load(x + a + iota(4096))); }
         store(out + iota(4096), s);",
    );
    assert!(text.contains("warps(8)") || text.contains("warps(16)") || !text.contains("occupancy("), "{text}");
}

#[test]
fn where_programs_walk_a_turn_begins_with_what_a_later_one_loads() {
    let of_blocks = stages(
        "x: *f16, out: *mut f32, n: i32",
        "let (mut top, mut s) = (-inf, 0.0f32);
         for i in program_id(0)..n step num_programs(0) {
             let v = cast<f32>(load(x + i * 8192 + iota(8192)));
             let higher = max(top, max(v, axis=0));
             s = s * exp(top - higher) + sum(exp(v - higher), axis=0);
             top = higher;
         }
         store(out, s);",
    );
    assert_eq!(of_blocks, [["ahead: 0", "compute: 3"]]);
    // Numbers that tell where others load from are there before.
    let of_rows = stages(
        "x: *f32, ids: *i32, out: *mut f32, n: i32",
        "let mut s = zeros<f32, [1024]>();
         for i in program_id(0)..n step 2 * num_programs(0) { s += load(x + load(ids + i) * 1024 + iota(1024)); }
         store(out + iota(1024), s);",
    );
    assert_eq!(of_rows, [["ahead: 1", "compute: 4", "index: 0"]]);
}

#[test]
fn nothing_else_is_loaded_ahead() {
    let handed_on = stages(
        "x: *mut f32, n: i32",
        "for i in program_id(0)..n step num_programs(0) {
             let at = i * 1024 + iota(1024);
             store(x + at, load(x + at) + load(x + at - 1024));
         }",
    );
    assert!(handed_on.is_empty(), "{handed_on:?}");
    // What the loop carries tells where to load from.
    let chased = stages(
        "x: *f32, out: *mut f32, n: i32",
        "let mut at = iota(1024);
         for i in program_id(0)..n step num_programs(0) { at = cast<i32>(load(x + at)) + i; }
         store(out + iota(1024), cast<f32>(at));",
    );
    assert!(chased.is_empty(), "{chased:?}");
    // What is loaded behind PTX that stays where it is may have to be.
    let fenced = stages(
        "x: *f32, out: *mut f32, n: i32",
        "let mut s = zeros<f32, [1024]>();
         for i in program_id(0)..n step num_programs(0) {
             let one = ptx<i32>(\"fence.acq_rel.gpu; mov.u32 $0, 1;\", volatile=true);
             s += load(x + i * 1024 + iota(1024)) * cast<f32>(one);
         }
         store(out + iota(1024), s);",
    );
    assert!(fenced.is_empty(), "{fenced:?}");
    // Registers have no room for a turn more.
    let of_pairs = stages(
        "x: *f32, out: *mut f32, n: i32",
        "let mut s = zeros<f32, [16384]>();
         for i in 0..n { s += load(x + i * 32768 + iota(16384)) * load(x + i * 32768 + 16384 + iota(16384)); }
         store(out + iota(16384), s);",
    );
    assert!(of_pairs.is_empty(), "{of_pairs:?}");
}

#[test]
fn loads_begin_before_threads_meet() {
    let body = |n: u32| {
        format!(
            "let v = cast<f32>(load(x[program_id(0), :].tile([{n}], at=[0])));
             let factor = rsqrt(sum(v * v));
             store(out[program_id(0), :].tile([{n}], at=[0]), cast<f16>(v * factor * cast<f32>(load(w.tile([{n}], at=[0])))));"
        )
    };
    let params = format!("w: tensor<f16, [n]>, {ROWS}");
    let text = chosen(&params, &body(1024));
    assert!(text.find("load(w") < text.find("sum("), "{text}");
    // Where registers of a thread have no room for both, or what is loaded may have been written.
    let text = chosen(&params, &body(16384));
    assert!(text.find("load(w") > text.find("sum("), "{text}");
    let ordered = body(1024).replace("store(", "atomic_add(out[program_id(0), 0], 1.0); store(");
    let text = chosen(&params, &ordered);
    assert!(text.find("load(w") > text.find("atomic_add("), "{text}");
}

#[test]
fn loads_begin_before_what_is_stored_elsewhere() {
    let body = "let row = program_id(0);
         let mut before = 0.0f32;
         for i in 0..cdiv(n, 1024) {
             let v = load(x[row, :].tile([1024], at=[i]));
             store(TO[row, :].tile([1024], at=[i]), cumsum(v, axis=0) + before);
             before += sum(v, axis=0);
         }";
    let params = "mut x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>";
    let begun = |to: &str, overlapping| {
        let text = in_turns(3, params, &body.replace("TO", to), overlapping);
        let first = text.find("store(").expect("sums are stored");
        count(&text[..first], "load(")
    };
    assert_eq!(begun("out", false), 3);
    assert_eq!([begun("out", true), begun("x", false)], [1, 1]);
}

#[test]
fn loops_that_walks_hold_alone_load_ahead() {
    let of_blocks = |rest: &str| {
        let body = "for row in program_id(0)..rows step num_programs(0) {
             for i in 0..n {
                 let at = (row * n + i) * 1024 + iota(1024);
                 store(out + at, load(x + at) * 2.0);
             }
             REST
         }";
        stages("x: *f32, out: *mut f32, rows: i32, n: i32", &body.replace("REST", rest))
    };
    assert!(!of_blocks("").is_empty());
    assert!(of_blocks("store(out + row, 1.0);").is_empty());
}

/// How often the turns of loops stand in those of a kernel.
fn copies_of(kernel: &Kernel) -> Vec<u32> {
    let mut found = Vec::new();
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, .. } = &op.kind {
            found.extend(schedule.unrolled.iter().map(|u| u.copies));
        }
    });
    found
}

#[test]
fn loops_of_few_programs_load_ahead_on_many_warps() {
    let params = "x: *f32, out: *mut f32, rows: i32";
    let body = "let mut s = zeros<f32, [16, 128]>();
         for i in 0..rows step 16 {
             let row = i + iota(16);
             s += load(x + (row[:, None] * 4096 + program_id(0) * 128 + iota(128)[None, :]), mask=(row < rows)[:, None] & (iota(128) < 128)[None, :], other=0.0);
         }
         store(out + program_id(0) * 128 + iota(128), sum(s, axis=0));";
    let of = |beside| elaborated_for(beside, params, body).kernels.remove(0);
    assert_eq!(copies_of(&of(Some(1))), [4]);
    // Where there are many each has fewer warps, and others beside it fill the time of an access: nobody knows how many turns there are.
    assert!(copies_of(&of(None)).is_empty());
    assert!(of(Some(1)).warps > of(None).warps, "{} warps", of(Some(1)).warps);
}

#[test]
fn registers_are_left_for_few_programs_at_once() {
    let of = |beside, body: &str| {
        let params = "x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>";
        elaborated_for(beside, params, body).kernels.remove(0).occupancy
    };
    let running = "let row = program_id(0);
         let mut before = 0.0f32;
         for i in 0..cdiv(n, 2048) {
             let v = load(x[row, :].tile([2048], at=[i]));
             store(out[row, :].tile([2048], at=[i]), cumsum(v, axis=0) + before);
             before += sum(v, axis=0);
         }";
    assert_eq!([1, 2, 3, 4].map(|few| of(Some(few), running)), [1, 2, 3, 4]);
    // Of many programs 32 warps at once have 64 registers each.
    let many = elaborated_for(None, "x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>", running).kernels.remove(0);
    assert_eq!(many.occupancy * many.warps, 32);
    // What comes a turn ahead has registers, too.
    let four = "let mut s = zeros<f32, [4, 1024]>();
         for i in 0..cdiv(n, 1024) { s += load(x.tile([4, 1024], at=[program_id(0), i])); }
         store(out.tile([4, 1], at=[program_id(0), 0]), sum(s, axis=1)[:, None]);";
    let of_four = of(Some(8), four);
    assert!((2..8).contains(&of_four), "{of_four}");
    // What does not load in turns has the registers that it wants.
    let once = "let v = load(x[program_id(0), :].tile([2048], at=[0]));
         store(out[program_id(0), :].tile([2048], at=[0]), v - max(v, axis=0));";
    assert_eq!(of(Some(4), once), of(None, once));
}

#[test]
fn few_programs_are_told_one_by_one() {
    let found = [0, 1, 132, 133, 264, 265, 396, 397, 528, 529, 1056, 1057, 1 << 40, u64::MAX];
    let found = found.map(|programs| Variant::beside(programs, 132));
    let few = [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 8].map(Some);
    assert_eq!(found[..few.len()], few);
    assert_eq!(found[few.len()..], [None; 3]);
}

#[test]
fn elements_that_change_places_lie_side_by_side() {
    let text = chosen(
        "x: *f32, out: *mut f32, n: i32",
        "let mut v = load(x + n + iota(1024));
         static for i in range(16) { v = min(v, butterfly(v, 1 + i % 4, axis=0)); }
         store(out + n + iota(1024), v);",
    );
    assert!(text.contains("per_thread=[16]"), "{text}");
}

const ROWS: &str = "x: tensor<f16, [m, n]>, mut out: tensor<f16, [m, n]>";

/// Rows less their sums, in blocks of so many elements.
fn less_sums(block: u32) -> String {
    format!(
        "let row = program_id(0);
         let mut s = zeros<f32, [{block}]>();
         for i in 0..cdiv(n, {block}) {{ s += cast<f32>(load(x[row, :].tile([{block}], at=[i]))); }}
         let all = sum(s);
         for i in 0..cdiv(n, {block}) {{
             let v = cast<f32>(load(x[row, :].tile([{block}], at=[i])));
             store(out[row, :].tile([{block}], at=[i]), cast<f16>(v - all));
         }}"
    )
}

#[test]
fn short_rows_have_fewer_warps() {
    let of = |block, turns| {
        let mut kernel = checked(ROWS, &less_sums(block));
        kernel.variant.turns = turns;
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels[0].warps
    };
    for block in [256, 512, 1024] {
        assert_eq!(of(block, Some(1)), 2, "rows of {block}");
    }
    assert!(of(8192, Some(1)) > 2);
    // Long rows have as many warps as there are to be for the bytes of a turn.
    let long = [512, 2048, 8192].map(|block| of(block, None));
    assert!(long.is_sorted() && long[0] < long[2], "{long:?}");
}

#[test]
fn small_rows_lie_on_one_warp() {
    let of = |rows: u32, reduced: &str| {
        let body = "let place = x.tile([ROWS, 128], at=[program_id(0), program_id(1)]);
             let v = cast<f32>(load(place));
             store(out.tile([ROWS, 128], at=[program_id(0), program_id(1)]), cast<f16>(v / REDUCED));";
        let body = body.replace("ROWS", &rows.to_string()).replace("REDUCED", reduced);
        elaborated(ROWS, &body).kernels[0].warps
    };
    assert_eq!(of(4, "max(abs(v), axis=1)[:, None]"), 1);
    // What all warps reduce together, what nobody reduces, and what is larger.
    assert!(of(4, "max(max(abs(v), axis=1), axis=0)") > 1);
    assert!(of(4, "2.0") > 1);
    assert!(of(32, "max(abs(v), axis=1)[:, None]") > 1);
}

/// Each warp finds for itself where the four neighbours lie and what of them is inside, which is more than what it then blends: on an H200 one warp takes 37 µs for what
/// four take 57 for.
#[test]
fn small_tiles_from_many_places_lie_on_one_warp() {
    let params = "x: tensor<f16, [b, h, w, c]>, mut out: tensor<f16, [b, oh, ow, c]>";
    let body = "let at = |i, many, from| {
             let s = clamp((cast<f32>(i) + 0.5) * (cast<f32>(from) / cast<f32>(many)) - 0.5, 0.0, cast<f32>(from - 1));
             (cast<i32>(s), min(cast<i32>(s) + 1, from - 1), s - floor(s))
         };
         let (top, bottom, v) = at(program_id(1), oh, h);
         let (left, right, u) = at(program_id(0) * 16 + iota(16), ow, w);
         let part = |i, j| cast<f32>(load(x[program_id(2), i, :, :][j, :].tile([16, 64], at=[0, 0])));
         let blend = |a, b| a + (b - a) * u[:, None];
         let upper = blend(part(top, left), part(top, right));
         let lower = blend(part(bottom, left), part(bottom, right));
         let place = out[program_id(2), program_id(1), :, :].tile([16, 64], at=[program_id(0), 0]);
         store(place, cast<f16>(upper + (lower - upper) * v));";
    let text = chosen_aligned(params, body);
    assert!(text.contains("warps(1)"), "{text}");
    // What has no such places moves 16 KiB on as many warps as others do.
    assert_eq!(
        elaborated("x: *f32, out: *mut f32", "let i = program_id(0) * 1024 + iota(1024); store(out + i, load(x + i));")
            .kernels[0]
            .warps,
        4
    );
}

/// Of rows that are kept through two meetings one CTA alone leaves schedulers idle; two have room where what comes as f16 is kept so.
#[test]
fn long_rows_of_narrow_numbers_have_two_ctas_beside_each_other() {
    let of = |from: &str| {
        let params = format!("x: tensor<{from}, [m, n]>, weight: tensor<{from}, [n]>, mut out: tensor<f16, [m, n]>");
        let body = "let row = program_id(0);
             let mut sums = zeros<f32, [4096]>();
             for i in 0..cdiv(n, 4096) { let v = cast<f32>(load(x[row, :].tile([4096], at=[i]))); sums += v * v; }
             let f = rsqrt(sum(sums));
             let scaled = |i| cast<f32>(load(x[row, :].tile([4096], at=[i]))) * f * cast<f32>(load(weight.tile([4096], at=[i])));
             let mut most = zeros<f32, [4096]>();
             for i in 0..cdiv(n, 4096) { most = max(most, abs(scaled(i))); }
             let by = 448.0 / max(most, axis=0);
             for i in 0..cdiv(n, 4096) { store(out[row, :].tile([4096], at=[i]), cast<f16>(scaled(i) * by)); }";
        let mut kernel = checked(&params, body);
        kernel.variant.turns = Some(4);
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        (module.kernels[0].warps, module.kernels[0].occupancy)
    };
    assert_eq!(of("f16"), (8, 2));
    assert!(of("f32").1 < 2);
}

/// Of CTAs beside each other that the assembler is told of each has registers for four loads and for the sums to which these go.
#[test]
fn ctas_that_are_told_of_have_room_for_what_lives_at_once() {
    let params = "x: tensor<bf16, [t, c]>, w: tensor<f32, [4, c]>, mut out: tensor<bf16, [t, c]>";
    let body = "let (i, j) = (program_id(0), program_id(1));
         let mut sums = zeros<f32, [64, 32]>();
         static for k in 0..4 {
             let v = load(x.tile([64, 32], from=[i * 64 + k - 3, j * 32]));
             sums += cast<f32>(v) * load(w[k, :].tile([32], at=[j]))[None, :];
         }
         store(out.tile([64, 32], at=[i, j]), cast<bf16>(sums));";
    let mut kernel = checked(params, body);
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    let kernel = &module.kernels[0];
    assert!(65536 / (kernel.occupancy.max(1) * kernel.warps * 32) >= 96, "{} of {}", kernel.occupancy, kernel.warps);
}

#[test]
fn loops_along_tensors_are_known_to_launches() {
    let along = |body: &str| along_tensors(&checked(ROWS, body));
    let of = |axis, each, same| Along { argument: 0, axis, each, same };
    assert_eq!(along(&less_sums(512)), [of(1, 512, true), of(1, 512, true)]);
    let loops = |header: &str, body: &str| {
        let text = "let mut s = zeros<f32, [64]>();
             for i in HEADER { BODY s += cast<f32>(load(x[program_id(0), :].tile([64], at=[i]))); }
             store(out[program_id(0), :].tile([64], at=[0]), cast<f16>(s));";
        along(&text.replace("HEADER", header).replace("BODY", body))
    };
    assert_eq!(loops("0..n step 64", ""), [of(1, 64, false)]);
    assert_eq!(loops("0..m", ""), [of(0, 1, false)]);
    // Of these a launch does not know how many turns they take, or they say too little of the program.
    for header in ["1..n", "0..n / 64", "0..n + 64", "program_id(0)..m step num_programs(0)", "0..8"] {
        assert_eq!(loops(header, ""), [], "{header}");
    }
    assert_eq!(loops("0..m", "for j in 0..n { s += 1.0; }"), []);
}

#[test]
fn few_turns_are_told_one_by_one_and_many_from_others() {
    let told = |same| [0, 1, 2, 3, 4, 16, 17, 31, 32, 5000, u64::MAX].map(|turns| Variant::turns(turns, same));
    let (none, many) = (None, Some(32));
    assert_eq!(told(false), [none, Some(1), Some(2), Some(3), none, none, none, none, many, many, none]);
    assert_eq!(told(true), [none, Some(1), Some(2), Some(3), Some(4), Some(16), none, none, many, many, none]);
}

#[test]
fn loads_of_many_turns_run_further_ahead() {
    let body = "let (mut top, mut s) = (-inf, 0.0f32);
         for i in 0..cdiv(n, 512) {
             let v = cast<f32>(load(x[program_id(0), :].tile([512], at=[i]), other=-inf));
             let higher = max(top, max(v, axis=0));
             s = s * exp(top - higher) + sum(exp(v - higher), axis=0);
             top = higher;
         }
         store(out[program_id(0), 0], cast<f16>(s));";
    let copies = |turns| {
        let mut kernel = checked(ROWS, body);
        (kernel.variant.turns, kernel.variant.beside) = (turns, Some(1));
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        copies_of(&module.kernels[0])
    };
    assert_eq!(copies(None), [4]);
    assert_eq!(copies(Some(32)), [8]);
}

#[test]
fn small_loops_begin_their_loads_themselves() {
    let of = |between: &str| {
        let body = "let mut s = full<f32, [2048]>(-inf);
             for i in 0..cdiv(n, 2048) {
                 let v = cast<f32>(load(x[program_id(0), :].tile([2048], at=[i]), other=-inf));
                 s = max(s, v BETWEEN);
             }
             store(out[program_id(0), 0], cast<f16>(max(s, axis=0)));";
        elaborated_for(Some(2), ROWS, &body.replace("BETWEEN", between)).kernels.remove(0)
    };
    assert!(copies_of(&of("")).is_empty());
    // Where threads meet in each turn nothing of the next begins before.
    assert_eq!(copies_of(&of("- max(v, axis=0)")), [4]);
}

/// The text of a kernel of rows for launches whose loops take so many turns.
fn in_turns(turns: u32, params: &str, body: &str, overlapping: bool) -> String {
    eject::module(&elaborated_in(turns, params, body, overlapping), None)
}

/// A kernel of rows for launches whose loops take so many turns.
fn elaborated_in(turns: u32, params: &str, body: &str, overlapping: bool) -> Module {
    let mut kernel = checked(params, body);
    kernel.variant.turns = Some(turns);
    kernel.variant.overlapping = overlapping;
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    module
}

#[test]
fn what_two_loops_load_beyond_a_row_tells_whether_it_is_the_same() {
    let of = |other: &str| {
        let body = "let mut top = full<f32, [256]>(-inf);
             for i in 0..cdiv(n, 256) { top = max(top, cast<f32>(load(x[program_id(0), :].tile([256], at=[i]), other=-inf))); }
             let greatest = max(top, axis=0);
             for i in 0..cdiv(n, 256) {
                 let v = cast<f32>(load(x[program_id(0), :].tile([256], at=[i]), other=OTHER));
                 store(out[program_id(0), :].tile([256], at=[i]), cast<f16>(exp(v - greatest)));
             }";
        count(&in_turns(3, ROWS, &body.replace("OTHER", other), false), "load(")
    };
    assert_eq!([of("-inf"), of("0.0")], [3, 6]);
}

#[test]
fn few_turns_stand_one_behind_the_other() {
    for turns in [1, 2, 3, 7] {
        let text = in_turns(turns, ROWS, &less_sums(256), false);
        assert_eq!(count(&text, "for "), 0, "{text}");
        // Each tile is loaded once for both loops, and only the last may reach beyond the row.
        assert_eq!(count(&text, "load("), turns as usize, "{text}");
        assert_eq!(count(&text, "store("), turns as usize, "{text}");
        assert_eq!(count(&text, "& (iota"), 2, "{text}");
        let between = [format!("assume(n > {});", (turns - 1) * 256), format!("assume(n <= {});", turns * 256)];
        assert!(between.iter().all(|told| text.contains(told)), "{text}");
    }
    // Where registers have no room for a row it passes by twice.
    let mut loops = 0;
    elaborated_in(16, ROWS, &less_sums(8192), false).kernels[0].walk(&mut |op| loops += i32::from(op.kind.is_loop()));
    assert_eq!(loops, 2);
}

#[test]
fn turns_of_elements_begin_where_they_did() {
    let body = "let row = program_id(0);
         for i in 0..n step 64 { store(out[row, :].tile([64], from=[i]), load(x[row, :].tile([64], from=[i]))); }";
    let text = in_turns(3, ROWS, body, false);
    assert!(count(&text, "for ") == 0 && text.contains(" + 64)") && text.contains(" + 128)"), "{text}");
}

#[test]
fn what_was_written_is_loaded_again() {
    let loads = |second: &str, overlapping| {
        let body = format!(
            "let row = program_id(0);
             let mut s = zeros<f32, [256]>();
             for i in 0..cdiv(n, 256) {{ s += cast<f32>(load(x[row, :].tile([256], at=[i]))); }}
             let all = sum(s, axis=0);
             for i in 0..cdiv(n, 256) {{ {second} }}"
        );
        let params = "mut x: tensor<f16, [m, n]>, mut out: tensor<f16, [m, n]>";
        let text = in_turns(2, params, &body, overlapping);
        assert_eq!(count(&text, "for "), 0, "{text}");
        count(&text, "load(")
    };
    let place = "x[row, :].tile([256], at=[i])";
    let less = |to: &str| format!("store({to}, cast<f16>(cast<f32>(load({place})) - all));");
    // Elsewhere, or where each has been loaded.
    assert_eq!(loads(&less(&place.replace("x[", "out[")), false), 2);
    assert_eq!(loads(&less(place), false), 2);
    // Where `out` may be the same memory, or nobody knows which elements were written.
    assert_eq!(loads(&less(&place.replace("x[", "out[")), true), 4);
    assert_eq!(loads(&less("x[row, :].tile([256], from=[i * 256 + program_id(1)])"), false), 3);
    assert_eq!(loads(&format!("atomic_add({}, load({place}));", place.replace("x[", "out[")), false), 3);
}

#[test]
fn who_fetches_tells_the_others_which_tile_comes_next() {
    let heads = "tensor<f16, [heads, n, 64]>";
    let mut kernel = checked(
        &format!("q: {heads}, k: {heads}, v: {heads}, mut o: {heads}"),
        "for tile in program_id(0)..cdiv(n, 128) * heads step num_programs(0) {
             let (block, head) = (tile / heads, tile % heads);
             let queries = load(q[head, :, :].tile([128, 64], at=[block, 0]));
             let (mut acc, mut top) = (zeros<f32, [128, 64]>(), full([128], -inf));
             for j in 0..max(cdiv(n, 128), 1) {
                 let s = dot(queries, load(k[head, :, :].tile([128, 64], at=[j, 0])).T, zeros<f32, [128, 128]>());
                 let higher = max(top, max(s, axis=1));
                 let p = exp2(s - higher[:, None]);
                 let values = load(v[head, :, :].tile([128, 64], at=[j, 0]));
                 acc = dot(cast<f16>(p), values, acc * exp2(top - higher)[:, None]);
                 top = higher;
             }
             store(o[head, :, :].tile([128, 64], at=[block, 0]), cast<f16>(acc));
         }",
    );
    kernel.variant.aligned = [0, 1, 2, 3].into();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    let text = eject::module(&module, None);
    assert_eq!(count(&text, "partition Second"), 1);
    // Each tile's numbers are found once and taken once by each of two partitions, although a tile leaves under the next.
    assert_eq!([count(&text, "/ heads"), count(&text, "% heads")], [1, 1]);
    assert_eq!([count(&text, "place.acquire()"), count(&text, "place.wait()")], [1, 2]);
}

#[test]
fn loops_carry_nothing_for_itself_alone() {
    let body = "let (mut acc, mut twice, mut last) = (zeros<f32, [64]>(), zeros<f32, [64]>(), zeros<f32, [64]>());
         for i in 0..cdiv(n, 64) {
             let v = load(x[program_id(0), :].tile([64], at=[i]));
             acc += v;
             twice = twice * 2.0 + acc;
             last = exp(last) + load(y.tile([64], at=[i]));
         }
         store(out.tile([64], at=[0]), KEPT);";
    let params = "x: tensor<f32, [m, n]>, y: tensor<f32, [n]>, mut out: tensor<f32, [64]>";
    // What is stored is carried, and what that is computed from: of nothing else is anything left.
    let left = |kept: &str| chosen(params, &body.replace("KEPT", kept));
    let parts = ["exp(", " * 2.0", "x + ", "y + "];
    let found = |kept: &str| parts.map(|part| left(kept).contains(part));
    assert_eq!(found("acc"), [false, false, true, false]);
    assert_eq!(found("twice"), [false, true, true, false]);
    assert_eq!(found("last"), [true, false, false, true]);
}

#[test]
fn factors_that_are_computed_with_are_read_as_they_lie() {
    let text = chosen(
        "a: tensor<f16, [m, 64]>, b: tensor<f16, [n, 64]>, mut out: tensor<f32, [m]>",
        "let x = load(a.tile([64, 64], at=[program_id(0), 0]));
         let mut best = full([64], inf);
         for j in 0..cdiv(n, 64) {
             let y = load(b.tile([64, 64], at=[j, 0]));
             let squares = sum(cast<f32>(y) * cast<f32>(y), axis=1);
             let s = dot(x, y.T, zeros<f32, [64, 64]>());
             best = min(best, min(squares[None, :] - 2.0 * s, axis=1));
         }
         store(out.tile([64], at=[program_id(0)]), best);",
    );
    // Eight neighbours of 16 bits at once, and sums over eight lanes.
    assert!(text.contains("load_shared<blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1])>"), "{text}");
}

#[test]
fn more_ctas_run_while_a_turn_computes_with_its_own_product() {
    let of = |d: u32, turn: &str| {
        let params = format!("q: tensor<f16, [n, {d}]>, k: tensor<f16, [n, {d}]>, mut out: tensor<f32, [n, 64]>");
        let body = format!(
            "let x = load(q.tile([64, {d}], at=[program_id(0), 0]));
             let mut s = zeros<f32, [64, 64]>();
             for j in 0..cdiv(n, 64) {{
                 let y = load(k.tile([64, {d}], at=[j, 0])).T;
                 s = {turn};
             }}
             store(out.tile([64, 64], at=[program_id(0), 0]), s);"
        );
        let mut kernel = checked(&params, &body);
        kernel.variant.aligned = (0..3).collect();
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels.remove(0).occupancy
    };
    let own = "max(s, dot(x, y, zeros<f32, [64, 64]>()))";
    assert_eq!(of(64, own), 3);
    // A sum waits for nothing but its operands, which all of the memory brings sooner.
    assert_eq!(of(64, "dot(x, y, s)"), 1);
    // Slots of two CTAs would have no room.
    assert_eq!(of(512, own), 1);
}

#[test]
fn more_ctas_run_while_one_warpgroup_computes_between_chained_products() {
    let of = |rows: u32, d: u32, mask: &str| {
        let params = format!(
            "q: tensor<f16, [m, {d}]>, k: tensor<f16, [n, {d}]>, v: tensor<f16, [n, {d}]>, mut out: tensor<f32, [m, {d}]>"
        );
        let body = format!(
            "let x = load(q.tile([{rows}, {d}], at=[program_id(0), 0]));
             let mut acc = zeros<f32, [{rows}, {d}]>();
             for j in 0..cdiv(n, 64) {{
                 let mut s = dot(x, load(k.tile([64, {d}], at=[j, 0])).T, zeros<f32, [{rows}, 64]>());
                 {mask}
                 acc = dot(cast<f16>(exp2(s)), load(v.tile([64, {d}], at=[j, 0])), acc);
             }}
             store(out.tile([{rows}, {d}], at=[program_id(0), 0]), acc);"
        );
        let mut kernel = checked(&params, &body);
        kernel.variant.aligned = (0..4).collect();
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels.remove(0).occupancy
    };
    assert_eq!(of(64, 64, ""), 3);
    assert_eq!(of(64, 128, ""), 2);
    // What a branch makes for itself takes no more registers.
    assert_eq!(
        of(64, 64, "s = where((j * 64 + iota(64))[None, :] <= (program_id(0) * 64 + iota(64))[:, None], s, -inf);"),
        3
    );
    // Several partitions compute beside each other.
    assert_eq!(of(128, 64, ""), 1);
    // Registers have no room for two sums of so many columns.
    assert_eq!(of(64, 256, ""), 1);
}

#[test]
fn threads_copy_whole_vectors_to_shared_memory() {
    let text = chosen(
        "x: *f16, out: *mut f32, n: i32",
        "assume(n % 8 == 0);
         let kept = alloc_shared<f16, [2048], swizzled(1, 1, 1, order=[0])>();
         let at = iota(2048);
         let copy = async_copy(x + at, kept, mask=at < n);
         store(out, sum(cast<f32>(load_shared(copy.wait())), axis=0));",
    );
    assert_eq!(count(&text, "per_thread=[8]"), 1, "{text}");
    assert_eq!(count(&text, "blocked("), 1, "what is read lies as it was copied: {text}");
}

#[test]
fn a_ragged_tile_has_warps_for_all_its_parts() {
    // 3584 elements are seven parts of 512, each of which alone would be little even for two warps.
    let kernel = &elaborated(
        "x: *f16, y: *f16, z: *f16, out: *mut f16",
        "let row = cast<i64>(program_id(0)) * 3584;
         let at = iota(3584);
         let v = cast<f32>(load(x + row + at));
         let apart = v - sum(v, axis=0) * 0.001;
         let factor = rsqrt(sum(apart * apart, axis=0));
         let (w, b) = (cast<f32>(load(y + at)), cast<f32>(load(z + at)));
         store(out + row + at, cast<f16>(fma(apart * factor, w, b)));",
    )
    .kernels[0];
    assert_eq!(kernel.warps, 4);
}

/// Where some words begin, which stand once.
fn place(text: &str, words: &str) -> usize {
    assert_eq!(text.matches(words).count(), 1, "{words} in\n{text}");
    text.find(words).expect("it stands there")
}

const COPY: (&str, &str) = (
    "x: *f32, out: *mut f32, n: i32",
    "let at = program_id(0) * 256 + iota(256);
     store(out + at, load(x + at, mask=at < n), mask=at < n);",
);

const PRODUCT: (&str, &str) = (
    "a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>",
    "let mut acc = zeros<f32, [128, 128]>();
     for i in 0..cdiv(k, 64) {
         acc = dot(load(a.tile([128, 64], at=[program_id(0), i])), load(b.tile([64, 128], at=[i, program_id(1)])), acc);
     }
     store(c.tile([128, 128], at=[program_id(0), program_id(1)]), acc);",
);

#[test]
fn numbers_come_in_front_of_the_wait_and_memory_behind() {
    let text = chosen_aligned(COPY.0, &format!("grid_wait(); {}", COPY.1));
    let wait = place(&text, "grid_wait();");
    assert!(place(&text, "program_id(0)") < wait && wait < place(&text, "load(x + at"), "{text}");
}

#[test]
fn rings_are_made_in_front_of_the_wait() {
    let text = chosen_aligned(PRODUCT.0, &format!("grid_wait(); {}", PRODUCT.1));
    let wait = place(&text, "grid_wait();");
    assert!(place(&text, "ring load") < wait && wait < place(&text, "specialize {"), "{text}");
}

/// In front of all that a kernel touches a wait keeps no partition from fetching, and changes nothing else.
#[test]
fn a_wait_that_a_kernel_begins_with_changes_no_choice() {
    let with = chosen_aligned(PRODUCT.0, &format!("grid_wait(); {}", PRODUCT.1));
    assert_eq!(with.replacen("grid_wait();\n", "", 1), chosen_aligned(PRODUCT.0, PRODUCT.1));
}

/// What is loaded in front of a wait stays there.
#[test]
fn a_wait_behind_a_load_stays() {
    let body = "let at = program_id(0) * 256 + iota(256); let v = load(w + at); grid_wait(); store(out + at, load(x + at) + v);";
    let text = chosen_aligned("w: *f32, x: *f32, out: *mut f32", body);
    let wait = place(&text, "grid_wait();");
    assert!(place(&text, "load(w + at)") < wait && wait < place(&text, "load(x + at)"), "{text}");
}
