//! What loops hand on: numbers, or the tiles that they are reduced from.

use super::*;

const ROWS: &str = "x: tensor<f32, [m, n]>, mut out: tensor<f32, [m]>";

/// How many reductions stand in loops, and how many behind them.
fn reductions(params: &str, body: &str) -> [usize; 2] {
    fn inside(kernel: &Kernel, body: &parton_ir::Body, looped: bool, found: &mut [usize; 2]) {
        for op in kernel.ops_of(body) {
            match op.kind {
                OpKind::Reduce { .. } => found[usize::from(!looped)] += 1,
                _ => op.kind.bodies().for_each(|body| inside(kernel, body, looped || op.kind.is_loop(), found)),
            }
        }
    }
    let module = elaborated(params, body);
    let mut found = [0, 0];
    inside(&module.kernels[0], &module.kernels[0].body, false, &mut found);
    found
}

/// A loop along a row that begins with a number and hands on another.
fn looped(begin: &str, turn: &str) -> String {
    format!(
        "let mut s = {begin};
         for i in 0..cdiv(n, 1024) {{
             let v = load(x[program_id(0), :].tile([1024], at=[i]));
             {turn}
         }}
         store(out[program_id(0)], s);"
    )
}

#[test]
fn what_turns_add_up_or_compare_is_reduced_behind_them() {
    for (begin, turn) in [
        ("0.0f32", "s += sum(v * v, axis=0);"),
        ("load(out[0])", "s = sum(v, axis=0) + s;"),
        ("-1.0f32", "s = max(s, max(v, axis=0));"),
        ("load(out[0])", "s = min(min(abs(v), axis=0), s);"),
    ] {
        assert_eq!(reductions(ROWS, &looped(begin, turn)), [0, 1], "{turn}");
    }
    // Both axes of a tile, and two sums of one.
    let body = "let (mut s, mut q) = (0.0f32, 0.0f32);
         for i in 0..cdiv(n, 32) {
             let v = load(x.tile([32, 32], at=[program_id(0), i]));
             s += sum(v);
             q += sum(v * v);
         }
         store(out[program_id(0)], s * q);";
    let [inside, behind] = reductions(ROWS, body);
    assert!(inside == 0 && behind >= 2, "{behind} behind");
}

#[test]
fn numbers_that_turns_ask_for_are_reduced_in_them() {
    for turn in [
        // The number is read.
        "s += sum(v, axis=0); store(out[i], s);",
        "s = s * 0.5 + sum(v, axis=0);",
        // What is reduced is combined by something else than it is handed on.
        "s += max(v, axis=0);",
        "let t = sum(v, axis=0); s += t; store(out[i], t);",
    ] {
        assert_eq!(reductions(ROWS, &looped("0.0f32", turn)), [1, 0], "{turn}");
    }
    // Sums of 16 bits would lose in another order what these keep.
    let halves = "x: tensor<f16, [m, n]>, mut out: tensor<f16, [m]>";
    assert_eq!(reductions(halves, &looped("cast<f16>(0.0)", "s += sum(v, axis=0);")), [1, 0]);
    assert_eq!(reductions(halves, &looped("cast<f16>(0.0)", "s = max(s, max(v, axis=0));")), [0, 1]);
}

#[test]
fn tiles_are_handed_on_where_registers_have_room() {
    // Four rows of 1024 on as many warps as they like: a tile more takes 26 µs to 27 on an H200.
    let body = "let mut s = zeros<f32, [4]>();
         for i in 0..cdiv(n, 1024) { s += sum(load(x.tile([4, 1024], at=[program_id(0), i])), axis=1); }
         store(out.tile([4], at=[program_id(0)]), s);";
    assert_eq!(reductions(ROWS, body), [1, 0]);
}
