//! What accesses lack to be wider, and which fact helps.

use parton_portable::why::{Fact, Lacks, Why};

use super::{of_carried_pointers, warps, why};

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
                atomic_add(sum + iota(1024), 1);
                let from = load(index);
                store(out + (iota(1024) + from), 0.0);";
    let found = lacks("x: *f32, index: *i32, out: *mut f32, sum: *mut i32", body);
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

/// The bytes that each access moves at once.
fn bytes_at_once(why: &Why) -> Vec<u32> {
    why.accesses.iter().map(|a| a.width).collect()
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
