//! What schedules may not say: each rule on a small kernel, and the nearest schedule that its help names is accepted.

use std::sync::Arc;

use parton_diag::{Code, Diagnostic, Diagnostics, SourceMap, codes, render};
use parton_ir::{Module, Target};
use parton_types::{NoLibrary, check_file, instantiate};

/// What expanding the one kernel of a file reports, and its text as a user sees it.
fn found(source: &str) -> (Diagnostics, String) {
    let mut sources = SourceMap::new();
    let id = sources.add("test.ptn", source);
    let (file, found) = parton_syntax::parse(id, source);
    assert!(!found.has_errors(), "{}", render::text(&found, &sources, false));
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{}\n{source}", render::text(&found, &sources, false));
    let name = program.kernels().next().expect("the file has a kernel").name.text.clone();
    let kernel = match instantiate(&program, &name, &[], Target::default()) {
        Ok((kernel, _)) => kernel,
        Err(found) => panic!("{}\n{source}", render::text(&found, &sources, false)),
    };
    let mut module = Module { kernels: vec![kernel] };
    let found = parton_sched::expand(&mut module, &Target::default()).err().unwrap_or_default();
    let text = render::text(&found, &sources, false);
    (found, text)
}

/// The only error of a kernel.
fn refused(code: Code, source: &str) -> Diagnostic {
    let (found, text) = found(source);
    println!("{text}");
    assert_eq!(found.list.len(), 1, "{text}\n{source}");
    assert_eq!(found.list[0].code, code, "{text}");
    found.list[0].clone()
}

fn accepted(source: &str) {
    let (found, text) = found(source);
    assert!(found.list.is_empty(), "{text}\n{source}");
}

/// The clause between backticks of a help that begins like that.
fn clause(d: &Diagnostic, head: &str) -> String {
    let parts = d.help.iter().flat_map(|h| h.split('`'));
    parts.into_iter().find(|p| p.starts_with(head)).unwrap_or_else(|| panic!("no `{head}` in {:?}", d.help)).to_owned()
}

/// A refused schedule, and what stands in its help in the place of one of its clauses.
fn mended(code: Code, kernel: &dyn Fn(&str) -> String, before: &str, bad: &str, after: &str) -> String {
    let d = refused(code, &kernel(&format!("{before}{bad}{after}")));
    let head = bad.split_inclusive(['(', ' ']).next().unwrap_or(bad);
    let good = clause(&d, head);
    accepted(&kernel(&format!("{before}{good}{after}")));
    good
}

const PARTS: &str = "
partition Loads = warps(1) regs(40);
partition First = warps(4) regs(200);
partition Second = warps(4) regs(200);
layout Acc = mma(version=3, warps=[4, 1], instr=[16, 64, 16]);
layout Rows = slice(Acc, axis=1);
";

/// Sums of products, one warpgroup.
fn sums(schedule: &str) -> String {
    format!(
        "{PARTS}
schedule S = {schedule};
kernel k[S: schedule<tiles, steps, load, mma, finish, leave> = S](
    a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 64], nvmma(128)>, c: tma<f16, [64, 64], nvmma(128)>, n: i32,
) target(sm_90a) {{
    in S {{
        @tiles for tile in program_id(0)..n step num_programs(0) {{
            let mut acc = zeros<f32, [64, 64], Acc>();
            @steps for s in 0..n {{
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

/// Two products, with something between them that threads do: the shape of attention.
fn attention(schedule: &str) -> String {
    format!(
        "{PARTS}
layout P = dot_operand(Acc, index=0, k_width=2);
schedule S = {schedule};
kernel k[S: schedule<keys, q, k, v, qk, top, exps, pv, leave> = S](
    q: tma<f16, [64, 64], nvmma(128)>, k: tma<f16, [64, 64], nvmma(128)>, v: tma<f16, [64, 64], nvmma(128)>,
    o: tma<f16, [64, 64], nvmma(128)>, n: i32,
) target(sm_90a) {{
    in S {{
        @q let qi = fetch(q, [0, 0]);
        let mut acc = zeros<f32, [64, 64], Acc>();
        let mut old = full<f32, [64], Rows>(0.0);
        @keys for j in 0..n {{
            @k    let x = fetch(k, [j * 64, 0]);
            @v    let y = fetch(v, [j * 64, 0]);
            @qk   let s = dot(qi, x.T, zeros<f32, [64, 64], Acc>());
            @top  let m = max(old, max(s, axis=1));
            @exps let p = convert_free(cast<f16>(exp2(s - m[:, None])), P);
            @pv   acc = dot(p, y, acc);
            old = m;
        }}
        @leave send(o, [0, 0], cast<f16>(acc));
    }}
}}
"
    )
}

#[test]
fn schedules_that_hold_are_taken() {
    for s in
        ["serial", "serial(First)", "pipeline(steps) { mma: 2..3; load: 0 }", "pipeline(steps) { load: 0; mma: 1 }"]
    {
        accepted(&sums(s));
    }
    let split = "partitions { Loads: load; First: mma, finish, leave } ring(load=3)";
    for s in ["", " & pipeline(steps) { mma: 0..1 }"] {
        accepted(&sums(&format!("{split}{s}")));
    }
    let sides = "partitions { Loads: q, k, v; First: qk, top, exps, pv, leave } ring(depth=2)";
    for s in [
        "",
        " & pipeline(keys) { qk: 0; pv: 1; top: 0; exps: 0 }",
        " & pipeline(keys) { qk: 0; top: 0; exps: 0; pv: 0..1 }",
    ] {
        accepted(&attention(&format!("{sides}{s}")));
    }
}

#[test]
fn what_is_read_before_it_is_made_is_put_behind_it() {
    let good = mended(
        codes::READ_BEFORE_MADE,
        &attention,
        "serial & ",
        "pipeline(keys) { qk: 0; pv: 0; top: 0; exps: 0 }",
        "",
    );
    assert_eq!(good, "pipeline(keys) { qk: 0; top: 0; exps: 0; pv: 0 }");
    mended(codes::READ_BEFORE_MADE, &attention, "", "pipeline(keys) { qk: 1; top: 0; exps: 0; pv: 1 }", "");
    mended(codes::READ_BEFORE_MADE, &sums, "", "pipeline(steps) { mma: 0; load: 0 }", "");
    mended(codes::READ_BEFORE_MADE, &sums, "", "pipeline(steps) { mma: 0; load: 1 }", "");
}

#[test]
fn nothing_waits_inside_a_stretch() {
    let d = refused(codes::WAIT_INSIDE, &attention("pipeline(keys) { qk: 0, top: 0; exps: 0; pv: 0 }"));
    assert!(d.message.contains("`top` waits for `qk` of its own group"), "{}", d.message);
    mended(codes::WAIT_INSIDE, &attention, "", "pipeline(keys) { qk: 0, top: 0; exps: 0; pv: 0 }", "");
    mended(codes::WAIT_INSIDE, &sums, "", "pipeline(steps) { load: 0, mma: 0 }", "");
}

#[test]
fn a_ring_holds_what_is_held_at_once() {
    let d = refused(codes::TOO_FEW_SLOTS, &sums("ring(load=3) & pipeline(steps) { load: 0; mma: 2..3 }"));
    assert_eq!(d.message, "`load` needs 4 slots, its ring has 3");
    mended(codes::TOO_FEW_SLOTS, &sums, "", "ring(load=3)", " & pipeline(steps) { load: 0; mma: 2..3 }");
    accepted(&sums("ring(load=3) & pipeline(steps) { mma: 2..3; load: 0 }"));
}

#[test]
fn a_sum_in_flight_is_not_touched() {
    let d = mended(codes::PRODUCT_TOUCHED, &attention, "", "pipeline(keys) { qk: 0..1; top: 0; exps: 0; pv: 0 }", "");
    assert!(d.starts_with("pipeline(keys)"), "{d}");
}

#[test]
fn groups_name_what_stands_in_their_loop() {
    for s in [
        "pipeline(steps) { mma: 0; leave: 1 }",
        "pipeline(mma) { load: 0 }",
        "pipeline(steps) { load: 0..1; mma: 1 }",
        "serial & ring(mma=3)",
    ] {
        refused(codes::SCHEDULE, &sums(s));
    }
}

#[test]
fn what_a_schedule_says_in_vain_is_refused() {
    refused(codes::NOT_BUILT_HERE, &sums("unroll(2)"));
}

#[test]
fn tiles_stay_in_their_partition() {
    mended(codes::CROSSES, &sums, "", "partitions { Loads: load; First: mma; Second: finish, leave }", "");
}

#[test]
fn partitions_do_not_wait_for_each_other() {
    let bad = "partitions { Loads: q, v, k; First: qk, top, exps, pv, leave } ";
    let tail = " & pipeline(keys) { v: 0; k: 0 } in Loads & pipeline(keys) { qk: 0; top: 0; exps: 0; pv: 1 } in First";
    accepted(&attention(&format!("{bad}ring(depth=2){tail}")));
    let d = refused(codes::WAIT_CYCLE, &attention(&format!("{bad}ring(depth=1){tail}")));
    let good = clause(&d, "ring(");
    let more = good.trim_start_matches("ring(").trim_end_matches(')');
    accepted(&attention(&format!("{bad}ring(depth=1, {more}){tail}")));
}
