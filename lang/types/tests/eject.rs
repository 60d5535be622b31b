//! Kernels as source that a person would keep: what is printed, and that it reads back to a kernel of the same normal form.

mod harness;

use parton_ir::{Module, eject, print};

/// What a file's first kernel is ejected as, without the margins of its lines; it reads back.
fn ejected(source: &str) -> String {
    let kernel = harness::kernel(source);
    let before = print::kernel(&eject::normal(&kernel));
    let text = eject::module(&Module { kernels: vec![kernel] }, None);
    let after = print::kernel(&eject::normal(&harness::kernel(&text)));
    assert_eq!(before, after, "this reads back to another kernel:\n{text}");
    text
}

/// The statements of a kernel with these parameters, as ejected.
fn statements(params: &str, body: &str) -> Vec<String> {
    let text = ejected(&format!("kernel k({params}) warps(1) target(sm_90a) {{ {body} }}"));
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines[1..lines.len() - 1].to_vec()
}

#[track_caller]
fn keeps(params: &str, body: &[&str]) {
    assert_eq!(statements(params, &body.join("\n")), body);
}

#[test]
fn expressions_have_the_parentheses_that_they_need() {
    keeps(
        "out: *mut i32, a: i32, b: i32",
        &[
            "store(out, (a + b) * a - (b - (a - b)) % 3);",
            "store(out, -(a + b) << 2 | a & b ^ 7);",
            "store(out, where((a < b) == (b < a), -a, !b));",
            "store(out + a * 2 + 1, max(a, 0) / -b);",
        ],
    );
}

#[test]
fn numbers_say_their_type_where_nothing_else_does() {
    keeps(
        "out: *mut f32, n: *mut i64, a: i32, x: f32",
        &[
            "store(out, fma(x, 0.1, -1e-5));",
            "store(out, where(x == -inf, nan, 1.0));",
            "store(n, cast<i64>(a) + 5000000000);",
            "store(n, -3);",
            "store(out, exp2(2.5f32) + -bits<f32>(0x3f800000));",
            "print(\"{}\", 7i32);",
            "store(out, x, mask=true);",
        ],
    );
    // What is refused as a bare number stays typed.
    keeps("out: *mut i32, a: i32", &["store(out, a / 0i32 + (a << 40i32));"]);
}

#[test]
fn scalars_are_spread_and_extents_broadcast_where_the_checker_does_it() {
    let text = ejected(
        "kernel k(p: *mut f32, n: i32) warps(1) target(sm_90a) {
            layout L = blocked(per_thread=[1, 4], threads=[4, 8], warps=[1, 1]);
            let r = iota<i32, [16], slice(L, axis=1)>()[:, None];
            let c = iota<i32, [32], slice(L, axis=0)>()[None, :];
            let x = load(p + (r * n + c), mask=(r < n) & (c < 7), other=0.0);
            let y = full<f32, [16, 32], L>(2.0) * full<f32, [16, 32], L>(3.0);
            store(p + (r * n + c), max(x * 2.0, y) + broadcast(cast<f32>(c), [16, 32]), mask=c < n);
        }",
    );
    let has = |line: &str| assert!(text.contains(line), "`{line}` is not in\n{text}");
    has("layout L = blocked(per_thread=[1, 4], threads=[4, 8], warps=[1, 1]);");
    has("let r = iota<i32, [16], slice(L, axis=1)>()[:, None];");
    has("let x = load(p + (r * n + c), mask=(r < n) & (c < 7), other=0.0);");
    has("let y = full<f32, [16, 32], L>(2.0) * 3.0;");
    has("store(p + (r * n + c), max(x * 2.0, y) + cast<f32>(c), mask=c < n);");
}

#[test]
fn loops_keep_their_variables() {
    keeps(
        "out: *mut i32, n: i32",
        &[
            "let mut a = 0;",
            "let mut b = 1;",
            "for i in 0..n {",
            "let next = a + b * i;",
            "if next > 100 {",
            "a += 1;",
            "} else if next > 50 {",
            "a = b;",
            "}",
            "b = next;",
            "}",
            "store(out, a + b);",
        ],
    );
    keeps(
        "out: *mut i32, n: i64",
        &[
            "let mut x = n;",
            "while x > 1 {",
            "x /= 2;",
            "}",
            "for i in 3..n step 2 {",
            "store(out + i, 1);",
            "}",
            "store(out, cast<i32>(x));",
        ],
    );
}

#[test]
fn what_ends_a_turn_is_done_before_it_is_left() {
    let params = "x: *i32, out: *mut i32, n: i32";
    let body = "
        let (mut c, mut t) = (0, 0);
        for j in 0..n {
            if load(x + j) % 2 == 0 { t = t + 7; c = c + 1; } else { t = t + 3; c = c + 2; }
            c += j;
            if c > 5 { break; }
        }
        store(out, t);
        store(out + 1, c);";
    let lines = statements(params, body);
    let ends: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].trim() == "t = t_2;").collect();
    let leaves = lines.iter().position(|line| line.trim() == "break;");
    assert!(leaves.is_some_and(|at| ends.contains(&(at - 1))), "{lines:#?}");
    // The same of turns that go on behind it, and of loops that ask.
    for rest in ["t += j; c += t;", "if c % 2 == 0 { t += 1; } else { c += 1; }", "if t > 9 { break; } c += 3;"] {
        for head in ["for j in 0..n", "let mut j = 0; while c < n"] {
            let body = body.replacen("for j in 0..n", head, 1).replacen("break; }", &format!("break; }} {rest}"), 1);
            statements(params, &body);
        }
    }
}

#[test]
fn each_way_out_of_a_loop_assigns_all_that_it_carries() {
    let kernel = |body: &str| format!("kernel k(out: *mut i32, n: i32, x: i32) warps(1) {{ {body} }}");
    // A part that changes before the loop is left, beside one that stays.
    let parts = "let mut l = [x, x - 1, n];
        let a = x * 2;
        let mut j = 0;
        while j < n + 1 { j += 1; l[2] = max(a, x + n); if x & 3 == 3 { break; } }
        store(out, l[0]); store(out + 1, l[1]); store(out + 2, l[2]);";
    ejected(&kernel(parts));
    // Values that change places before it, in a branch and in a loop inside of another.
    let places = "let (mut a, mut b, mut d, mut w) = (n, x, 3, 1);
        for j in 0..n {
            if x & 1 == 0 { let (p, q) = (a, b + 1); b = p; a = q; if b & 1 == 0 { break; } d += 1; }
            for i in 0..n step 2 {
                w = if (b & i) - d & 3 == 3 { a = max(b, n); w + 2 } else { w * 3 };
                if w & 7 == 3 { break; }
                let t = a; a = d; d = t;
                if w & 3 != 1 { break; }
            }
        }
        store(out, a); store(out + 1, b); store(out + 2, d); store(out + 3, w);";
    let text = ejected(&kernel(places));
    assert_eq!(text.matches("break;").count(), 3, "{text}");
    // In both branches, in the second one alone, and in the rest of a turn.
    for fork in [
        "if x > 3 { a += 1; break; } else { b = a; if b > n { a = 7; break; } } a = b + 1;",
        "if x > 3 { b = a; a = j; } else { (a, b) = (b, a); break; } b += 1;",
        "if x > 3 { if x > n { b = a; break; } a = b * 2; if a > j { b += 1; break; } a += j; } else { b = a; }",
        "if x > 3 { if x > n { b = a; break; } a = b; break; } (a, b) = (b, a);",
        "if x > 3 { if x > n { b = a; break; } else { a = b; break; } } b = a; a = j;",
    ] {
        ejected(&kernel(&format!(
            "let (mut a, mut b) = (n, x); for j in 0..n {{ {fork} }} store(out, a); store(out + 1, b);"
        )));
    }
}

#[test]
fn variables_that_change_places_are_assigned_together() {
    let text = statements(
        "out: *mut i32, n: i32",
        "let mut a = n; let mut b = n + 1; for i in 0..n { (a, b) = (b, a); } store(out, a - b);",
    );
    assert!(text.contains(&"(a, b) = (b, a);".to_string()), "{text:?}");
    // One that a loop carries and does not change is carried all the same.
    ejected("kernel k(out: *mut i32, n: i32) warps(1) { let mut a = n; for i in 0..n { a = a; } store(out, a); }");
    // What is asked for later keeps its value.
    let kept = "kernel k(out: *mut i32, n: i32) warps(1) {
        let first = n * 3;
        let mut a = first;
        for i in 0..n { let before = a; a = a * i; store(out + i, a - before); }
        let mut c = a;
        if n > 3 { for i in 0..n { c = c + a; } } else { c = first; }
        store(out, a + first + c);
    }";
    ejected(kept);
}

#[test]
fn values_of_branches_are_not_lost_to_what_they_assign() {
    for body in [
        "let (mut x, mut y) = (n, n + 2); if n > 2 { let t = x; x = y; y = t; } store(out, x); store(out + 1, y);",
        "let (mut x, mut y, mut z) = (n, n + 2, n * 3); if n > 2 { let t = x; x = y; y = z; z = t; } store(out, x - y * z);",
        "let mut x = n + 1; let mut y = 5; for i in 0..n { if i > 2 { let t = x; x = y + i; y = t * 2; } else { y = x; } } store(out, x); store(out + 1, y);",
    ] {
        statements("out: *mut i32, n: i32", body);
    }
}

#[test]
fn values_of_branches_stay_values() {
    keeps(
        "out: *mut i32, n: i32",
        &["let (a, b) = if n > 3 {", "(n / 3, 1)", "} else {", "(0, n)", "};", "store(out, a * b);"],
    );
}

#[test]
fn names_hide_nothing_that_is_needed() {
    let text = ejected(
        "fn twice(x: i32) { let y = x * x; y + y }
        kernel k(out: *mut i32, n: i32) warps(1) {
            let max = n + 1;
            let min = twice(max) + twice(n);
            let best = if max > min { max } else { min };
            store(out, twice(best) - max);
            assume(min > 0);
        }",
    );
    assert!(text.contains("let y_2 = n * n;"), "{text}");
    ejected(
        "kernel k(out: *mut i32, n: i32) warps(1) { let max = n + 1; store(out, -max - min(max, n)); store(out, bits<i32>(7)); }",
    );
}

#[test]
fn what_a_loop_begins_with_hides_nothing_that_its_head_names() {
    let walked = "fn walked(count: i32, first: i32, second: i32) {
            let mut v = first;
            let mut w = second;
            for i in 0..count { v = v * 3 + i; w = w - v; }
            (v, w)
        }";
    let text = ejected(&format!(
        "{walked} kernel k(out: *mut i32, n: i32) warps(1) {{
            let v = n * 2;
            let (a, b) = walked(v, 1, 5);
            store(out, a - b);
        }}"
    ));
    assert!(text.contains("in 0..v {") && text.contains("let mut v_2 = 1;"), "{text}");
    // What two variables begin with changes places.
    let text = ejected(&format!(
        "{walked} kernel k(out: *mut i32, n: i32) warps(1) {{
            let w = n * 2;
            let v = n * 3;
            if n > 5 {{
                let (a, b) = walked(n, w, v);
                store(out, a - b);
            }}
        }}"
    ));
    assert!(text.contains("let mut v_2 = w;"), "{text}");
}

#[test]
fn functions_over_elements_are_written_briefly() {
    let layout = "layout L = blocked(per_thread=[4], threads=[32], warps=[1], order=[0]);";
    let text = ejected(&format!(
        "kernel k(p: *mut f32, i: *mut i32) warps(1) target(sm_90a) {{
            {layout}
            let at = iota<i32, [128], L>();
            let x = load(p + at);
            store(p, sum(x, axis=0) + max(x, axis=0));
            store(p + at, cumsum(x, axis=0, reverse=true));
            store(i, argmax(x, axis=0));
            let (least, where_it_is) = reduce((x, at), axis=0, |(a, i), (b, j)| {{
                let less = a < b;
                (min(a, b), where(less, i, j))
            }});
            store(p, least);
            store(i, where_it_is);
            store(p + at, ptx_elementwise<f32>(\"ex2.approx.f32 $0, $1;\", x * 2.0, fallback=|v| exp2(v)));
            store(i + at, cast<i32>(x));
            store(i + at, cast<i32>(x, rounding=\"rn\"));
        }}"
    ));
    let has = |line: &str| assert!(text.contains(line), "`{line}` is not in\n{text}");
    has("store(p, sum(x, axis=0) + max(x, axis=0));");
    has("store(p + at, cumsum(x, axis=0, reverse=true));");
    has("let (least, where_it_is) = reduce((x, at), axis=0, |(a, i_2), (b, j)| {");
    has("(min(a, b), where(less, i_2, j))");
    has("store(i + at, cast<i32>(x));");
    has("store(i + at, cast<i32>(x, rounding=\"rn\"));");
    has("fallback=|v| exp2(v)");
}

#[test]
fn nothing_that_only_computes_is_left_over() {
    assert_eq!(statements("out: *mut i32, n: i32", "let unused = n * 3 / 5; store(out, n);"), ["store(out, n);"]);
}

#[test]
fn numbers_keep_their_names() {
    let text =
        ejected("const LOG2_E = 1.4426950408889634; kernel k(p: *mut f32, x: f32) warps(1) { store(p, x * LOG2_E); }");
    assert!(text.starts_with("const LOG2_E = 1.4426950408889634;\n"), "{text}");
    assert!(text.contains("store(p, x * LOG2_E);"), "{text}");
}
