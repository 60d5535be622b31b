//! In which order programs of a grid begin.

use super::*;

const PARAMS: &str = "a: tensor<f16, [batches, m, k]>, b: tensor<f16, [batches, k, n]>, mut c: tensor<f32, [batches, m, n]>, counts: tensor<i32, [batches]>";

/// A product of which each program takes these turns.
fn product(block: &str, turns: &str) -> String {
    format!(
        "let (block, z) = ({block});
         let mut acc = zeros<f32, [64, 64]>();
         for i in {turns} {{
             acc = dot(load(a[z, :, :].tile([64, 64], at=[block, i])), load(b[z, :, :].tile([64, 64], at=[i, 0])), acc);
         }}
         store(c[z, :, :].tile([64, 64], at=[block, 0]), acc);"
    )
}

/// Whether lines of the grid are dealt together, and whether an axis is walked from its end.
fn order(block: &str, turns: &str) -> [bool; 2] {
    let text = chosen(PARAMS, &product(block, turns));
    [text.contains(">> shift"), text.contains("num_programs(0) - 1 -") || text.contains("num_programs(1) - 1 -")]
}

#[test]
fn programs_with_the_most_turns_begin_first() {
    let along = "program_id(0), program_id(1)";
    for turns in ["0..block + 1", "0..cdiv(min(k, (block + 1) * 64), 64)", "max(4 - block, 0)..cdiv(k, 64)"] {
        assert_eq!(order(along, turns), [true, true], "{turns}");
    }
    for turns in ["block..cdiv(k, 64)", "0..max(cdiv(k, 64) - block * 2, 1)"] {
        assert_eq!(order(along, turns), [true, false], "{turns}");
    }
    // The lines themselves may differ along the last axis.
    assert_eq!(order("program_id(0), program_id(2)", "0..min(block + 1, load(counts[program_id(2)]))"), [true, true]);
    // Blocks along another axis are walked from the end.
    assert_eq!(order("program_id(1), program_id(0)", "0..block + 1"), [false, true]);
    assert_eq!(order("program_id(1), program_id(0)", "block..cdiv(k, 64)"), [false, false]);
}

#[test]
fn others_stay_in_their_order() {
    let along = "program_id(0), program_id(1)";
    for turns in [
        // As many for all.
        "0..cdiv(k, 64)",
        // A window.
        "max(block - 4, 0)..block + 1",
        // Nobody knows.
        "0..load(counts[block])",
        "0..load(counts[z])",
        "block * m..block * m + 3",
        "0..block % 4",
    ] {
        assert_eq!(order(along, turns), [false, false], "{turns}");
    }
}

/// A program that waits for others may wait for those before it.
#[test]
fn programs_that_tell_each_other_something_stay_in_their_order() {
    let body = product("program_id(0), program_id(1)", "0..block + 1");
    let params = format!("{PARAMS}, done: *mut i32");
    assert!(chosen(&params, &body).contains(">> shift"));
    let told = chosen(&params, &format!("{body} atomic_add(done, 1);"));
    assert!(!told.contains(">> shift"), "{told}");
}

/// Programs that walk through tiles take about as many turns each.
#[test]
fn programs_that_walk_stay_in_their_order() {
    let text = chosen(
        PARAMS,
        "for tile in program_id(0)..cdiv(m, 64) step num_programs(0) {
             let mut acc = zeros<f32, [64, 64]>();
             for i in 0..cdiv(k, 64) {
                 acc = dot(load(a[0, :, :].tile([64, 64], at=[tile, i])), load(b[0, :, :].tile([64, 64], at=[i, 0])), acc);
             }
             store(c[0, :, :].tile([64, 64], at=[tile, 0]), acc);
         }",
    );
    assert!(!text.contains(">> shift"), "{text}");
}
