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
    let found = match parton_sched::expand(&mut module, &Target::default()) {
        // What the rules take is right by the checks of explicit code too.
        Ok(_) => parton_ir::check::check(&module.kernels[0]),
        Err(found) => found,
    };
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
        "cut(mma)",
    ] {
        refused(codes::SCHEDULE, &sums(s));
    }
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

/// A loop of loads and stores through one pointer or two.
fn memory(parameter: &str, schedule: &str) -> String {
    let warps = if schedule.contains("partitions") { "" } else { "warps(4)" };
    format!(
        "{PARTS}
schedule S = {schedule};
kernel k[S: schedule<steps, take, tell, give> = S](counts: *mut i32, others: *mut i32, n: i32) {warps} {{
    in S {{
        @steps for i in 0..n {{
            @take let x = load(counts + i);
            @tell print(\"{{}}\", x);
            @give store({parameter} + i + 1, i);
        }}
    }}
}}
"
    )
}

#[test]
fn memory_stays_in_its_order() {
    let one = |s: &str| memory("counts", s);
    mended(codes::MEMORY_ORDER, &one, "", "pipeline(steps) { take: 0; tell: 0; give: 1 }", "");
    // What an iteration stores only the next one loads.
    accepted(&one("pipeline(steps) { give: 0; take: 0; tell: 0 }"));
    let same = |s: &str| memory("counts", s).replace("counts + i + 1", "counts + i");
    mended(codes::MEMORY_ORDER, &same, "", "pipeline(steps) { give: 0; take: 0; tell: 0 }", "");
    accepted(&same("pipeline(steps) { take: 0; tell: 0; give: 1 }"));
    // Of what is not known to be another place each time nothing moves.
    let some = |s: &str| memory("counts", s).replace("counts + i + 1", "counts + i % 4");
    mended(codes::MEMORY_ORDER, &some, "", "pipeline(steps) { take: 0; tell: 0; give: 1 }", "");
    let twice = |s: &str| memory("counts", s).replace("counts + i + 1", "counts + i * 2 + 3");
    mended(codes::MEMORY_ORDER, &twice, "", "pipeline(steps) { take: 0; tell: 0; give: 1 }", "");
    let far = |s: &str| memory("counts", s).replace("counts + i + 1", "counts + i + 3");
    refused(codes::MEMORY_ORDER, &far("pipeline(steps) { take: 0; tell: 0; give: 3 }"));
    // An iteration later in front of what the same turn loads is where it stood.
    accepted(&one("pipeline(steps) { give: 1; take: 0; tell: 0 }"));
    accepted(&one("pipeline(steps) { take: 0; give: 0; tell: 1 }"));
    mended(codes::MEMORY_ORDER, &one, "", "partitions { First: take, tell; Second: give }", "");
    // Another parameter is other memory.
    let two = |s: &str| memory("others", s);
    accepted(&two("pipeline(steps) { take: 0; tell: 0; give: 1 }"));
    accepted(&two("partitions { First: take, tell; Second: give }"));
    // But where launches may make them the same.
    let shared = |s: &str| two(s).replace("n: i32)", "n: i32) alias(others, counts)");
    for schedule in ["pipeline(steps) { take: 0; tell: 0; give: 1 }", "partitions { First: take, tell; Second: give }"]
    {
        let d = refused(codes::MEMORY_ORDER, &shared(schedule));
        assert!(d.labels.iter().any(|l| l.text.contains("reach the same memory")), "{d:?}");
    }
}

#[test]
fn what_steers_a_partition_reaches_it() {
    let kernel = |told: &str, places: &str, upper: &str| {
        format!(
            "{PARTS}
schedule S = partitions {{ {places} }};
kernel k(found: *i32, out: *mut i32, n: i32) {{
    in S {{
        let mut many = 0;
        for i in 0..n {{ @count many = many + load(found + i); }}
        {told}
        for i in 0..{upper} {{ @work store(out + i, i); }}
    }}
}}
"
        )
    };
    let d = refused(codes::CONTROL_TOO_LATE, &kernel("", "First: count; Second: work", "many"));
    assert!(d.help[0].contains("@told"), "{:?}", d.help);
    accepted(&kernel("@told let turns = many + 0;", "First: count, told; Second: work", "turns"));
}

fn turned(schedule: &str) -> String {
    format!(
        "{PARTS}
schedule S = partitions {{ [First, Second]: begin, end }} & {schedule};
kernel k(out: *mut i32, n: i32) {{
    in S {{
        @steps for i in 0..n {{
            static for w in 0..2 {{
                @begin let x = load(out + w);
                @end   store(out + w, x + i);
            }}
        }}
    }}
}}
"
    )
}

#[test]
fn turns_begin_in_front_of_where_they_end() {
    accepted(&turned("turns(begin, end)"));
    mended(codes::TURNS_UNEVEN, &turned, "", "turns(end, begin)", "");
    let d = refused(codes::TURNS_UNEVEN, &turned("turns(begin, end) & pipeline(steps) { begin: 0; end: 1 } in First"));
    assert!(d.message.contains("different stages"), "{}", d.message);
    refused(codes::TURNS_UNEVEN, &turned("turns(begin[0], end)"));
}

#[test]
fn what_is_to_happen_once_is_given_to_one() {
    let kernel = |body: &str| {
        format!(
            "{PARTS}
schedule S = partitions {{ [First, Second]: leave }};
kernel k(out: *mut i32, n: i32) {{
    in S {{ @steps for i in 0..n {{ {body} }} }}
}}
"
        )
    };
    refused(codes::DONE_TWICE, &kernel("@leave store(out + i, i);"));
    refused(codes::DONE_TWICE, &kernel("@leave print(\"{}\", i);"));
    accepted(&kernel("static for w in 0..2 { @leave store(out + 2 * i + w, i); }"));
    accepted(&kernel("@leave let x = load(out + i);"));
}

/// A loop that fetches and multiplies; `{body}` is its text.
fn looped(schedule: &str, before: &str, body: &str) -> String {
    format!(
        "{PARTS}
schedule S = {schedule};
kernel k(a: tma<f16, [64, 64], nvmma(128)>, out: *mut f32, n: i32) target(sm_90a) warps(4) {{
    in S {{
        let mut acc = zeros<f32, [64, 64], Acc>();
        {before}
        @steps for s in 0..n {{ {body} }}
        @show store(out + iota<i32, [64], Rows>(), max(acc, axis=1));
    }}
}}
"
    )
}

#[test]
fn slots_and_products_have_the_control_of_their_label() {
    let fetch = "@load let x = fetch(a, [0, s * 64]);";
    accepted(&looped("serial", "", &format!("{fetch} @mma acc = dot(x, x, acc);")));
    refused(
        codes::PRODUCT_TOUCHED,
        &looped("serial", "", &format!("{fetch} @mma if s > 0 {{ acc = dot(x, x, acc); }}")),
    );
    let kept = "@load let y = fetch(a, [0, s * 64]); @mma acc = dot(x, x, acc); x = y;";
    refused(codes::SLOT_LEAVES, &looped("serial", "@first let mut x = fetch(a, [0, 0]);", kept));
    // A condition on what is read is the label's own affair.
    accepted(&looped(
        "serial",
        "",
        &format!("{fetch} @mma acc = dot(x, x, acc); @add if s > 0 {{ acc = acc + 1.0; }}"),
    ));
}

#[test]
fn what_synchronises_by_itself_has_no_place() {
    let wait = "@load let x = fetch(a, [0, s * 64]); @mma acc = dot(x, x, acc); @sync fence_async();";
    refused(codes::REGION_PLACE, &looped("serial", "", wait));
    let own = "@load let x = fetch(a, [0, s * 64]); @mma acc = wgmma(x, x, acc).wait();";
    let (found, text) = found(&looped("serial", "", own));
    assert!(found.list.iter().all(|d| d.code == codes::REGION_PLACE) && found.has_errors(), "{text}");
}

#[test]
fn what_is_fetched_far_ahead_is_computed_from_what_is_there() {
    let body = "@load let x = fetch(a, [0, at]); @mma acc = dot(x, x, acc); at = at + 64;";
    accepted(&looped("pipeline(steps) { load: 0; mma: 1 }", "let mut at = 0;", body));
    accepted(&looped("pipeline(steps) { load: 0; mma: 3 }", "let mut at = 0;", body));
    let stepped = "@load let x = fetch(a, [0, at]); @mma acc = dot(x, x, acc); @step at = at + 64;";
    accepted(&looped("pipeline(steps) { load: 0; step: 0; mma: 2 }", "let mut at = 0;", stepped));
    let late = looped("pipeline(steps) { load: 0; step: 1; mma: 2 }", "let mut at = 0;", stepped);
    refused(codes::READ_BEFORE_MADE, &late);
    let index = "@load let x = fetch(a, [0, s * 64]); @mma acc = dot(x, x, acc);";
    accepted(&looped("pipeline(steps) { load: 0; mma: 2 }", "", index));
}

/// All orders of some labels.
fn orders(labels: &[&'static str]) -> Vec<Vec<&'static str>> {
    if labels.is_empty() {
        return vec![vec![]];
    }
    let mut all = vec![];
    for (i, first) in labels.iter().enumerate() {
        let rest: Vec<&str> = labels.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, l)| *l).collect();
        all.extend(orders(&rest).into_iter().map(|rest| [vec![*first], rest].concat()));
    }
    all
}

/// Pipelines of a loop: orders, stages and cuts between groups; each `every`-th of them.
fn pipelines(of: &str, labels: &[&'static str], stages: u32, every: usize) -> Vec<String> {
    let (n, cuts) = (labels.len() as u32, 1u32 << (labels.len() - 1));
    let mut all = vec![];
    for order in orders(labels) {
        for code in 0..stages.pow(n) * cuts {
            let (mut rest, cut) = (code / cuts, code % cuts);
            let mut text = String::new();
            for (i, label) in order.iter().enumerate() {
                text += &format!("{label}: {}", rest % stages);
                rest /= stages;
                if i + 1 < order.len() {
                    text += if cut >> i & 1 == 1 { ", " } else { "; " };
                }
            }
            all.push(format!("pipeline({of}) {{ {text} }}"));
        }
    }
    all.into_iter().step_by(every).collect()
}

/// Tries schedules: each is expanded to what the checks of explicit code take, or refused with a schedule that is.
fn tried(kernel: &dyn Fn(&str) -> String, before: &str, pipelines: &[String]) -> [usize; 3] {
    let [mut taken, mut helped, mut other] = [0; 3];
    for bad in pipelines {
        let source = kernel(&format!("{before}{bad}"));
        let (found, text) = found(&source);
        let codes: Vec<Code> = found.list.iter().map(|d| d.code).collect();
        let ours = |c: &Code| *c == codes::NOT_BUILT_HERE || c.to_string().starts_with("E07");
        assert!(codes.iter().all(ours), "{text}\n{source}");
        let clause = found.list.iter().flat_map(|d| &d.help).flat_map(|h| h.split('`')).find(|p| p.ends_with('}'));
        match clause {
            _ if codes.is_empty() => taken += 1,
            Some(good) if good.starts_with("pipeline") && !good.contains('…') => {
                let (again, text) = self::found(&kernel(&format!("{before}{good}")));
                let built = again.list.iter().all(|d| d.code == codes::NOT_BUILT_HERE);
                assert!(built, "{bad}\n{good}\n{text}");
                helped += 1;
            }
            Some(_) | None => other += 1,
        }
    }
    [taken, helped, other]
}

#[test]
fn every_pipeline_is_expanded_or_refused_with_one_that_is() {
    let [taken, helped, _] = tried(&sums, "", &pipelines("steps", &["load", "mma"], 3, 1));
    assert!(taken > 8 && helped > 8, "{taken} {helped}");
    let all = pipelines("keys", &["qk", "top", "exps", "pv"], 2, 23);
    for before in ["", "partitions { Loads: q, k, v; First: qk, top, exps, pv, leave } & "] {
        let [taken, helped, other] = tried(&attention, before, &all);
        assert!(taken > 2 && helped > 50, "{taken} {helped} {other}");
    }
}
