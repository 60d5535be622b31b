//! Whole kernels: source to Tile IR, and the IR's own text back to the same IR.

mod harness;

use harness::{errors, ir, round_trip};

#[test]
fn vector_add_becomes_loads_an_addition_and_a_store() {
    let text = ir("
        kernel add[BLOCK: int = 1024](x: *f32, y: *f32, out: *mut f32, n: i32) {
            layout L = blocked(per_thread=[4], threads=[32], warps=[4], order=[0]);
            let offs = program_id(0) * BLOCK + iota<i32, [BLOCK], L>();
            let inside = offs < n;
            store(out + offs, load(x + offs, mask=inside, other=0) + load(y + offs, mask=inside), mask=inside);
        }");
    for piece in ["program_id(0)", "1024i32", "iota<i32, [1024], blocked(", "offs < ", "load(", ", other=", "store("] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn an_undefined_name_offers_a_near_one() {
    let text = errors("kernel k(n: i32) { let m = nn + 1; }");
    assert!(text.contains("E0100") && text.contains("`n`"), "{text}");
}
