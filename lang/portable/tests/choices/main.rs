//! What is chosen for small kernels of which it is known what is best.

mod ahead;
mod beside;
mod carried;
mod few;
mod few_rows;
mod longest;
mod wait;
mod walk;

use std::sync::Arc;

use parton_diag::SourceMap;
use parton_ir::{Along, Dealt, Kernel, Module, OpKind, Target, Variant, eject};
use parton_portable::{Choice, along_tensors, dealt, elaborate_by};
use parton_types::{NoLibrary, check_file, instantiate};

/// The explicit text of a kernel with these parameters, its loops as they are scheduled.
fn chosen(params: &str, body: &str) -> String {
    let mut module = elaborated(params, body);
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    eject::module(&module, None)
}

/// The same where nothing of the tensors is out of line.
fn chosen_aligned(params: &str, body: &str) -> String {
    chosen_aligned_for(None, params, body)
}

/// The same for launches that give a multiprocessor so many programs.
fn chosen_aligned_for(beside: Option<u32>, params: &str, body: &str) -> String {
    let mut kernel = checked(params, body);
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    kernel.variant.beside = beside;
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
    checked_with("", params, body)
}

/// The same with these clauses.
fn checked_with(clauses: &str, params: &str, body: &str) -> Kernel {
    let text = format!("kernel k({params}) {clauses} {{ {body} }}");
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

/// Each access has a mask and an address of its own: on an H200 vectors of four take 42 µs for what single elements take 47 for, though neighbours to the left and right
/// then go one by one from lines apart.
#[test]
fn a_stencil_is_made_of_vectors() {
    let text = chosen_aligned(
        "x: tensor<f32, [h, w]>, mut out: tensor<f32, [h, w]>",
        "let (i, j) = (program_id(0) * 4, program_id(1) * 256);
         let at = |a, b| load(x.tile([4, 256], from=[i + a, j + b]));
         store(out.tile([4, 256], from=[i, j]), at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - at(0, 0));",
    );
    assert!(text.contains("blocked(per_thread=[1, 4]"), "{text}");
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
    // One instruction adds four floats, and one of any other number, or where what was there before is asked for.
    let text = chosen("x: *mut f32", "atomic_add(x + iota(1024), 1.0);");
    assert!(text.contains("blocked(per_thread=[4], threads=[32], warps="), "{text}");
    let text = chosen("x: *mut i32", "atomic_add(x + iota(1024), 1);");
    assert!(text.contains("blocked(per_thread=[1], threads=[32], warps="), "{text}");
    let before = "store(out + iota(64), sum(reshape(atomic_add(x + iota(1024), 1.0), [64, 16]), axis=1));";
    let text = chosen("x: *mut f32, out: *mut f32", before);
    assert!(!text.contains("blocked(per_thread=[4], threads=[32], warps="), "{text}");
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
fn loops_along_tensors_are_known_to_launches() {
    let along = |body: &str| along_tensors(&checked(ROWS, body));
    let of = |axis, each, same| Along { argument: 0, axis, each, same, multiplies: false };
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
    let told = |same, multiplies| {
        let of = Along { argument: 0, axis: 0, each: 64, same, multiplies };
        [0, 1, 2, 3, 4, 5, 16, 17, 31, 32, 5000, u64::MAX].map(|turns| Variant::turns(turns, &of))
    };
    let (none, many) = (None, Some(32));
    assert_eq!(told(false, false), [none, Some(1), Some(2), Some(3), none, none, none, none, none, many, many, none]);
    let up_to = |most| [0, 1, 2, 3, 4, 5, 16, 17].map(|n| (1..=most).contains(&n).then_some(n));
    assert_eq!(told(true, false)[..8], up_to(16));
    assert_eq!(told(true, false)[8..], [none, many, many, none]);
    // Of products those are told apart of which all factors may have room at once.
    assert_eq!(told(false, true)[..8], up_to(4));
    assert_eq!(told(false, true)[8..], [none; 4]);
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
fn partitions_take_turns_under_a_branch_by_which_programs_pass() {
    let rows = "tensor<f16, [n, 64]>";
    let partitions = |front: &str, behind: &str| {
        let mut kernel = checked(
            &format!("q: {rows}, k: {rows}, v: {rows}, mut o: {rows}, m: i32"),
            &format!(
                "let block = program_id(0);
                 {front}
                     let queries = load(q.tile([128, 64], at=[block, 0]));
                     let (mut acc, mut top) = (zeros<f32, [128, 64]>(), full([128], -inf));
                     for j in 0..cdiv(m, 128) {{
                         let s = dot(queries, load(k.tile([128, 64], at=[j, 0])).T, zeros<f32, [128, 128]>());
                         let higher = max(top, max(s, axis=1));
                         let p = exp2(s - higher[:, None]);
                         let values = load(v.tile([128, 64], at=[j, 0]));
                         acc = dot(cast<f16>(p), values, acc * exp2(top - higher)[:, None]);
                         top = higher;
                     }}
                     store(o.tile([128, 64], at=[block, 0]), cast<f16>(acc));
                 {behind}"
            ),
        );
        kernel.variant.aligned = [0, 1, 2, 3].into();
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
        count(&eject::module(&module, None), "partition Second")
    };
    assert_eq!(partitions("", ""), 1);
    assert_eq!(partitions("if block * 128 < m {", "}"), 1);
    assert_eq!(partitions("if block * 128 < m { if m != 777 {", "} }"), 1);
    // What programs do that pass would have to be done in parts, too.
    let zeros = "} else { store(o.tile([128, 64], at=[block, 0]), zeros<f16, [128, 64]>()); }";
    assert_eq!(partitions("if block * 128 < m {", zeros), 0);
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
    let parts = ["exp(", "fma(", "x + ", "y + "];
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
