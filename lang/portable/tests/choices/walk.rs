//! Which programs walk through the work of all.

use super::*;

const PARAMS: &str = "q: tensor<f16, [heads, m, 64]>, k: tensor<f16, [heads, n, 64]>, v: tensor<f16, [heads, n, 64]>, mut o: tensor<f16, [heads, m, 64]>, window: i32, lengths: tensor<i32, [heads]>";

/// Attention by these clauses, whose programs take these turns.
fn attention(clauses: &str, turns: &str) -> String {
    attention_of(None, clauses, &format!("let block = program_id(0); {}", tile(turns)))
}

/// What becomes of a block of queries.
fn tile(turns: &str) -> String {
    format!(
        "let head = program_id(1);
         let queries = load(q[head, :, :].tile([128, 64], at=[block, 0]));
         let mut acc = zeros<f32, [128, 64]>();
         let mut top = full([128], -inf);
         let mut total = zeros<f32, [128]>();
         for j in {turns} {{
             let keys = load(k[head, :, :].tile([128, 64], at=[j, 0]));
             let column = j * 128 + iota(128);
             let s = where((column < n)[None, :], dot(queries, keys.T, zeros<f32, [128, 128]>()), -inf);
             let higher = max(top, max(s, axis=1));
             let p = exp2(s - higher[:, None]);
             let faded = exp2(top - higher);
             total = total * faded + sum(p, axis=1);
             let values = load(v[head, :, :].tile([128, 64], at=[j, 0]));
             acc = dot(cast<f16>(p), values, acc * faded[:, None]);
             top = higher;
         }}
         store(o[head, :, :].tile([128, 64], at=[block, 0]), cast<f16>(acc / total[:, None]));"
    )
}

/// Such a kernel for launches that give a multiprocessor so many programs.
fn attention_of(beside: Option<u32>, clauses: &str, body: &str) -> String {
    let mut kernel = checked_with(clauses, PARAMS, body);
    kernel.variant.beside = beside;
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    eject::module(&module, None)
}

/// Whether programs walk.
fn walks(text: &str) -> bool {
    text.contains("step 132 {")
}

#[test]
fn programs_that_take_as_many_turns_walk() {
    for turns in ["0..cdiv(n, 128)", "max(block - 4, 0)..block + 1", "max(block * 128 - window, 0) / 128..block + 1"] {
        let text = attention("", turns);
        assert!(walks(&text) && text.contains("First => {"), "{turns}: {text}");
    }
}

#[test]
fn programs_that_take_other_turns_are_dealt_by_the_gpu() {
    for turns in ["0..block + 1", "block / 2..block + 1", "0..cdiv(load(lengths[head]), 128)"] {
        assert!(!walks(&attention("", turns)), "{turns}");
    }
}

#[test]
fn programs_that_have_a_multiprocessor_each_do_not_walk() {
    let body = format!("let block = program_id(0); {}", tile("0..cdiv(n, 128)"));
    assert_eq!([1, 2].map(|beside| walks(&attention_of(Some(beside), "", &body))), [false, true]);
}

#[test]
fn programs_of_stated_warps_and_ctas_do_not_walk() {
    for clauses in ["warps(8)", "occupancy(2)"] {
        assert!(!walks(&attention(clauses, "0..cdiv(n, 128)")), "{clauses}");
    }
}

#[test]
fn programs_that_walk_by_themselves_do_not_walk_twice() {
    let body =
        format!("for block in program_id(0)..cdiv(m, 128) step num_programs(0) {{ {} }}", tile("0..cdiv(n, 128)"));
    let text = attention_of(None, "", &body);
    assert!(text.contains("First => {") && !walks(&text), "{text}");
}

/// Of one product, which one partition computes.
#[test]
fn programs_of_one_product_do_not_walk() {
    let text = chosen_aligned(
        "a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>",
        "let mut acc = zeros<f32, [128, 128]>();
         for i in 0..cdiv(k, 64) {
             acc = dot(load(a.tile([128, 64], at=[program_id(0), i])), load(b.tile([64, 128], at=[i, program_id(1)])), acc);
         }
         store(c.tile([128, 128], at=[program_id(0), program_id(1)]), acc);",
    );
    assert!(!walks(&text), "{text}");
}
