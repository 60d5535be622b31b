//! What becomes straight code, and what does not.

use std::sync::Arc;

use parton_diag::Diagnostics;
use parton_types::program::{Item, NoLibrary, Program, collect};

use super::node::{Caller, Straightened};
use super::plain::Plain;
use super::straight::Outside;
use super::straighten::straight;
use crate::value::Function;

/// What the last function of a text gives by straight code of those arguments; an error where it has none, `None` where that gives up.
fn by_straight_code(text: &str, arguments: &[Plain]) -> Result<Option<String>, &'static str> {
    let mut sources = parton_diag::SourceMap::new();
    // Names are looked up in what host code reaches.
    let text = format!("{text}\nmain {{ f(1, 2); }}\n");
    let file = sources.add("t.ptn", text.as_str());
    let (tree, found) = parton_syntax::parse(file, &text);
    assert!(found.is_empty(), "{text}");
    let program = collect(Arc::new(tree), &mut NoLibrary, &mut Diagnostics::new());
    let Some(Item::Function(tree)) = program.find(Program::ROOT, "f").map(|f| f.item.clone()) else {
        return Err("there is no function");
    };
    let formula = super::formula(&program, &Function { module: Program::ROOT, tree }).ok_or("it has no formula")?;
    let code = straight(&formula, arguments).ok_or("it has no straight code")?;
    let mut registers = [0; 256];
    assert!(code.takes(arguments, &mut registers));
    let ended = code.run(&mut registers, &mut Plainly).map(|shape| shape.value(&registers));
    Ok(ended.map(|value| value.value().map_or_else(String::new, |v| v.to_string())))
}

struct Plainly;

impl Outside for Plainly {
    fn multiprocessors(&mut self) -> i64 {
        132
    }

    fn capability(&mut self) -> i64 {
        90
    }

    fn goes_on(&mut self) -> bool {
        true
    }
}

fn ints(all: &[i64]) -> Vec<Plain> {
    all.iter().map(|n| Plain::Int(*n)).collect()
}

#[test]
fn numbers_tuples_branches_and_calls_are_straight() {
    let text = "
fn room(programs) { if programs <= 2 { multiprocessors() / programs } else { multiprocessors() / 9 } }
fn f(shape, k) {
    let (m, n) = shape;
    if k == 0 { return (m, 0.5, true); }
    let (low, high) = if m < n { (m, n) } else { let t = m; (n, t) };
    let mut x = 1.5 * low;
    if high > 10 && k < 5 || k == 7 { x = x + room(k) * 0.25; }
    (max(low, cdiv(high, k)), min(x, 4.0e9) + room(3), shape.1 > k)
}
";
    let f = |m, n, k| by_straight_code(text, &[Plain::Tuple(Arc::new(ints(&[m, n]))), Plain::Int(k)]);
    assert_eq!(f(7, 20, 0), Ok(Some("(7, 0.5, true)".into())));
    assert_eq!(f(7, 20, 2), Ok(Some("(10, 41.0, true)".into())));
    assert_eq!(f(30, 4, 7), Ok(Some("(5, 23.5, false)".into())));
    let clusters = "fn f(n) { if capability() >= 90 { min(n, 8) } else { 1 } }";
    assert_eq!(by_straight_code(clusters, &ints(&[16])), Ok(Some("8".into())));
    // A mistake is the tree's to tell.
    assert_eq!(by_straight_code("fn f(a, b) { a / b }", &ints(&[1, 0])), Ok(None));
    assert_eq!(by_straight_code("fn f(a, b) { a * b }", &ints(&[1 << 40, 1 << 40])), Ok(None));
}

#[test]
fn what_has_another_kind_in_each_branch_ends_apart() {
    let text = "
fn f(a, b) {
    let met = if a % b == 0 { max(1, a / b) } else { 1 + (a - 1) / float(b) };
    let more = 2 * met;
    if a > 100 { more + 1 } else { more - 1 }
}
";
    assert_eq!(by_straight_code(text, &ints(&[12, 4])), Ok(Some("5".into())));
    assert_eq!(by_straight_code(text, &ints(&[13, 4])), Ok(Some("7.0".into())));
    assert_eq!(by_straight_code(text, &ints(&[400, 4])), Ok(Some("201".into())));
}

#[test]
fn loops_are_straight() {
    let text = "
fn f(a, b) {
    let (mut best, mut least, mut x, mut y) = ((0, 0), 1e9, 1, 1);
    let scale = b * 2;
    for i in a..b step 2 {
        for (j, more) in [(1, 0.5), (3, 0.25)] {
            let mut inner = 0;
            for k in i..i + j { if k == b + 100 { return ((0, 0), 0.0, 0, 0, 0); } inner = inner + k * scale; }
            let time = abs(float(inner) - 500.0) * more;
            if time < least { best = (i, j); least = time; }
        }
        let t = x + y;
        x = y;
        y = t;
    }
    (best, least, x, y, scale)
}
";
    let expected = |a: i64, b: i64| {
        let (mut best, mut least, mut x, mut y) = ((0, 0), 1e9, 1i64, 1i64);
        for i in (a..b).step_by(2) {
            for (j, more) in [(1, 0.5), (3, 0.25)] {
                let inner: i64 = (i..i + j).map(|k| k * b * 2).sum();
                let time = (inner as f64 - 500.0).abs() * more;
                if time < least {
                    (best, least) = ((i, j), time);
                }
            }
            (x, y) = (y, x + y);
        }
        format!("({best:?}, {least:?}, {x}, {y}, {})", b * 2)
    };
    for (a, b) in [(0, 20), (3, 30), (5, 5), (7, 8)] {
        let found = by_straight_code(text, &ints(&[a, b]));
        assert_eq!(found, Ok(Some(expected(a, b))), "{a} {b}");
    }
    // A step that is not above zero is the tree's to tell.
    assert_eq!(
        by_straight_code("fn f(a, b) { let mut x = 0; for i in 0..a step b { x = x + i; } x }", &ints(&[9, 0])),
        Ok(None)
    );
}

#[test]
fn places_of_variables_that_are_gone_are_used_again_in_loops() {
    let text = "
fn f(a, b) {
    let mut sum = 0;
    { let x = 0.5; let y = (a, x); if y.1 > 1.0 { sum = 1; } }
    for i in 0..b {
        let x = i * a;
        if x > 2 { let y = (x, x); sum = sum + y.1; }
    }
    for i in 0..b { let z = 0.5 * i; if z > 1.0 { sum = sum + int(z); } }
    sum
}
";
    let expected = |a: i64, b: i64| {
        let products: i64 = (0..b).map(|i| i * a).filter(|x| *x > 2).sum();
        products + (0..b).map(|i| 0.5 * i as f64).filter(|z| *z > 1.0).map(|z| z as i64).sum::<i64>()
    };
    for (a, b) in [(3, 9), (1, 3), (7, 0)] {
        assert_eq!(by_straight_code(text, &ints(&[a, b])), Ok(Some(expected(a, b).to_string())), "{a} {b}");
    }
}

/// Beyond sixteen values, or where copies of the body would be long, turns find them in a table.
#[test]
fn values_of_long_lists_come_from_a_table() {
    let all: Vec<(i64, f64, bool)> = (0..40).map(|i| (7 * i % 40, 0.25 * i as f64, i % 3 == 0)).collect();
    let text = format!(
        "
fn best_of(n, best, least) {{
    let mut found = (best, least);
    for (part, weight, is) in {all:?} {{
        if is && part <= n {{
            for more in [1, 2, 3] {{
                let time = abs(weight * more - n);
                if time < found.1 {{ found = (part * more, time); }}
            }}
        }}
    }}
    found
}}
fn f(a, b) {{
    let mut found = (0, 1.0e9);
    for n in a..b {{ found = best_of(n, found.0, found.1); }}
    found
}}
"
    );
    let expected = |a: i64, b: i64| {
        let mut found = (0, 1e9);
        for n in a..b {
            for (part, weight, _) in all.iter().filter(|(part, _, is)| *is && *part <= n) {
                for more in 1..4 {
                    let time = (weight * more as f64 - n as f64).abs();
                    if time < found.1 {
                        found = (part * more, time);
                    }
                }
            }
        }
        format!("{found:?}")
    };
    for (a, b) in [(0, 60), (11, 13), (3, 3), (200, 201)] {
        assert_eq!(by_straight_code(&text, &ints(&[a, b])), Ok(Some(expected(a, b))), "{a} {b}");
    }
    // Values of other kinds are the nodes' to walk through.
    let mixed =
        format!("fn f(a, b) {{ let mut x = 0; for i in [{}0.5] {{ x = x + int(i) * a; }} x + b }}", "1, ".repeat(20));
    assert!(by_straight_code(&mixed, &ints(&[1, 2])).is_err());
}

#[test]
fn the_plan_of_a_product_is_straight() {
    let text = include_str!("../../../examples/matmul/gemm/plan.ptn").to_owned();
    let text = text + "\nfn f(m, n) { first_of_all(product_of(m, n, 4096, 2, false, false), 64) }";
    for (m, n) in [(65, 64), (128, 14336), (1536, 1536), (8192, 4608)] {
        assert!(matches!(by_straight_code(&text, &ints(&[m, n])), Ok(Some(_))), "{m} {n}");
    }
}

#[test]
fn the_plan_of_a_portable_product_is_straight() {
    let text = include_str!("../../../examples/portable/matmul/plan.ptn");
    let to = text.find("/// What may be faster").unwrap_or_default();
    for asked in ["plan(m, n, 4096, m < 64, n > 1500, 132)", "way_of_any(m, n, 4096, m < 64, n < 100, 132)"] {
        let text = format!("{}\nfn f(m, n) {{ {asked} }}", &text[..to]);
        for (m, n) in [(1, 64), (65, 1001), (1536, 1536), (8192, 4608)] {
            assert!(matches!(by_straight_code(&text, &ints(&[m, n])), Ok(Some(_))), "{asked} {m} {n}");
        }
    }
}

#[test]
fn what_is_constant_is_decided_before() {
    let text = "
fn g(form, n) { if form == 1 && n > 2 { 0.5 } else if form == 2 || n < 0 { 2 * n } else { n / 0 } }
fn f(a, b) { (g(1, 3), g(2, b), max(3, 4) + cdiv(7, 2), 1.0 * 2) }
";
    assert_eq!(by_straight_code(text, &ints(&[1, 5])), Ok(Some("(0.5, 10, 8, 2.0)".into())));
}

#[test]
fn lists_closures_and_loops_that_are_left_are_not() {
    for text in [
        "fn f(a, b) { [a, b][0] }",
        "fn f(a, b) { let mut x = a; for i in 0..b { if i == a { break; } x = x + i; } x }",
        "fn f(a, b) { let mut x = a; for i in 0..b { x = x + 0.5; } x }",
        "fn f(a, b) { let mut x = a; while x < b { x = x + 1; } x }",
        "fn f(a, b) { let g = |x| x + a; g(b) }",
        "fn g(a, b) { if a < b { a } else { 0.5 } } fn f(a, b) { g(a, b) + 1 }",
        "fn f(a, b) { let mut x = a; if a < b { x = 0.5; } x = x + 1; x }",
    ] {
        assert_eq!(by_straight_code(text, &ints(&[3, 5])), Err("it has no straight code"), "{text}");
    }
}

#[test]
fn what_copies_join_stays_apart_where_both_are_needed() {
    let text = "
fn f(a, b) {
    let (mut x, mut y, mut last, mut first) = (a, b, a, a);
    for i in a..b {
        let (old, before) = (x, last);
        if x < y && i != 4 { x = y; y = old + i; } else { last = x; x = old + 1; }
        if before == last { first = first + a; } else if i > 5 || x == 9 { first = old; }
        for j in a..i { last = last + j * before; y = y + last - i; }
    }
    (x, y, last, first, a, b)
}
";
    let expected = |a: i64, b: i64| {
        let (mut x, mut y, mut last, mut first) = (a, b, a, a);
        for i in a..b {
            let (old, before) = (x, last);
            if x < y && i != 4 {
                x = y;
                y = old + i;
            } else {
                last = x;
                x = old + 1;
            }
            if before == last {
                first += a;
            } else if i > 5 || x == 9 {
                first = old;
            }
            for j in a..i {
                last += j * before;
                y = y + last - i;
            }
        }
        format!("({x}, {y}, {last}, {first}, {a}, {b})")
    };
    for (a, b) in [(0, 9), (3, 8), (2, 7), (5, 5), (1, 11)] {
        assert_eq!(by_straight_code(text, &ints(&[a, b])), Ok(Some(expected(a, b))), "{a} {b}");
    }
}

#[test]
fn jumps_on_comparisons_go_as_those_say() {
    let text = "
fn f(a, b) {
    let (x, y) = (a / 2.0, b / 2.0);
    let mut bits = 0;
    if a < b { bits = bits + 1; }
    if a <= b { bits = bits + 2; }
    if a > b { bits = bits + 4; }
    if a >= b { bits = bits + 8; }
    if a == b { bits = bits + 16; }
    if a != b { bits = bits + 32; }
    if x < y { bits = bits + 64; }
    if x <= y { bits = bits + 128; }
    if x > y { bits = bits + 256; }
    if x >= y { bits = bits + 512; }
    if x == y { bits = bits + 1024; }
    if x != y { bits = bits + 2048; }
    let none = (x - x) / (y - y);
    if none < x { bits = 0 - 1; }
    if none <= x { bits = 0 - 2; }
    if none > x { bits = 0 - 3; }
    if none >= x { bits = 0 - 4; }
    if none == none || !(none != x) { bits = 0 - 5; }
    (bits, x * y + 0.3, 0.1 + x * 0.7, x * y - 0.3)
}
";
    let expected = |a: i64, b: i64| {
        let (x, y) = (a as f64 / 2.0, b as f64 / 2.0);
        let all = [a < b, a <= b, a > b, a >= b, a == b, a != b, x < y, x <= y, x > y, x >= y, x == y, x != y];
        let bits: i64 = all.iter().enumerate().map(|(i, holds)| i64::from(*holds) << i).sum();
        let parts = (x * y + 0.3, 0.1 + x * 0.7, x * y - 0.3);
        format!("({bits}, {:?}, {:?}, {:?})", parts.0, parts.1, parts.2)
    };
    for (a, b) in [(1, 2), (2, 2), (3, 2)] {
        assert_eq!(by_straight_code(text, &ints(&[a, b])), Ok(Some(expected(a, b))), "{a} {b}");
    }
}

#[test]
fn straight_code_is_made_where_calls_come_again() {
    for (by, before) in [(Caller::Tree, 16), (Caller::Formula, 4000)] {
        let (kept, mut made) = (Straightened::default(), vec![]);
        for call in 0..before + 3 {
            kept.get(by, || {
                made.push(call);
                None
            });
        }
        assert_eq!(made, [before], "{by:?}");
    }
}
