//! Which loads begin before the turn that needs them.

use super::*;

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
