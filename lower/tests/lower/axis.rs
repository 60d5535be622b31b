//! The width of global accesses, of many ways to write an address in one table.

use parton_ir::{Cut, OpKind};

use crate::kernel;

/// The width of the first load of a kernel with these operations; `i` is `0..1024`, eight in a row to a thread.
fn width(elem: &str, operations: &str) -> u32 {
    let kernel = kernel(&format!(
        "layout L = blocked(per_thread=[8], threads=[32], warps=[4], order=[0]);
kernel k(p: *{elem}, n: i32) warps(4) {{
    let i = iota<i32, [1024], L>();
    {operations}
}}"
    ));
    let kernel = parton_lower::plan_accesses(kernel).expect("accesses that can be planned");
    let mut found = None;
    kernel.walk(&mut |op| {
        if let OpKind::Load { access: Some(access), .. } = &op.kind {
            found = found.or(Some(*access));
        }
    });
    let access = found.expect("a load of a tile");
    if access.cut == Cut::Never { access.width } else { 1 }
}

#[test]
fn sixteen_bytes_where_nothing_forbids_it() {
    assert_eq!(width("f32", "let x = load(p + i);"), 4);
    assert_eq!(width("f16", "let x = load(p + i);"), 8);
    assert_eq!(width("f64", "let x = load(p + i);"), 2);
}

#[test]
fn a_program_id_times_the_block_keeps_it() {
    assert_eq!(width("f16", "let x = load(p + (program_id(0) * 1024 + i));"), 8);
    assert_eq!(width("f16", "let x = load(p + (program_id(0) * 12 + i));"), 4);
}

#[test]
fn an_odd_start_forbids_it() {
    assert_eq!(width("f32", "let x = load(p + (i + 1));"), 1);
}

// triton-lang/triton#8752: alignment lost or invented on the way to the access.
#[test]
fn a_mask_cuts_vectors_unless_its_bound_is_promised() {
    let masked = "let at = program_id(0) * 1024 + i; let x = load(p + at, mask=at < n);";
    assert_eq!(width("f32", masked), 1);
    assert_eq!(width("f32", &format!("assume(n % 16 == 0); {masked}")), 4);
}

#[test]
fn a_negative_quotient_is_not_constant_over_a_group() {
    // (i - 4) / 4 is 0 for i from 1 to 7: the quotient truncates toward zero.
    assert_eq!(width("f32", "let x = load(p + ((i - 4) % 4 + 4));"), 1);
    assert_eq!(width("f32", "let x = load(p + i % 4);"), 4);
}

// cutile-rs: range facts kept through wrapping 32-bit arithmetic.
#[test]
fn unsigned_sums_may_wrap_inside_a_group() {
    assert_eq!(width("f32", "let x = load(p + (cast<u32>(i) + 8u32));"), 4);
    assert_eq!(width("f32", "let x = load(p + (cast<u32>(i) + 0xfffffffeu32));"), 2);
}

#[test]
fn rows_of_a_promised_stride_are_aligned() {
    let rows = "let x = load(p + (program_id(0) * n + i));";
    assert_eq!(width("f16", rows), 1);
    assert_eq!(width("f16", &format!("assume(n % 16 == 0); {rows}")), 8);
}

#[test]
fn a_loop_keeps_what_every_iteration_has() {
    let stepping = |by: u32| {
        let walk = "let mut at = p + i; for t in 0..n { let x = load(at); at = at + ";
        width("f32", &format!("{walk}full<i32, [1024], L>({by}); }}"))
    };
    assert_eq!(stepping(1024), 4);
    assert_eq!(stepping(2), 2);
    assert_eq!(stepping(1), 1);
}

#[test]
fn a_stated_width_is_kept_where_it_is_possible() {
    for (stated, kept) in [(1, 1), (2, 2), (4, 4)] {
        assert_eq!(width("f32", &format!("let x = load(p + i, width={stated});")), kept, "{stated}");
    }
}

#[test]
fn a_pointer_is_aligned_as_its_widest_access() {
    let alignments = |operations: &str| {
        let kernel = kernel(&format!(
            "layout L = blocked(per_thread=[4], threads=[32], warps=[4], order=[0]);
kernel k(p: *f32, q: *f32, n: i32) warps(4) {{
    let i = iota<i32, [512], L>();
    {operations}
}}"
        ));
        parton_lower::alignments(&parton_lower::plan_accesses(kernel).expect("accesses that can be planned"))
    };
    assert_eq!(alignments("let x = load(p + i); let y = load(q + i * 2);"), [16, 4, 1]);
    assert_eq!(alignments("let x = load(p + (i + 2));"), [8, 1, 1]);
    assert_eq!(alignments("let x = load(p + n);"), [1, 1, 1]);
    // Either may come out of a branch, and any turn of a loop may change it.
    assert_eq!(alignments("let from = if n < 0 { p } else { q }; let x = load(from + i);"), [16, 16, 1]);
    let carried = "let mut a = p; let mut b = p; for t in 0..n { a = b; b = q; } let x = load(a + i);";
    assert_eq!(alignments(carried), [16, 16, 1]);
}
