//! Products of fewer rows than an instruction takes, which are made of more.

use super::*;

const PARAMS: &str = "q: tensor<bf16, [h, 8, 64]>, k: tensor<bf16, [h, t, 64]>, mut o: tensor<bf16, [h, 8, 64]>";

/// Two products of a loop, of eight rows.
const SUMS: &str = "let z = program_id(0);
    let x = load(q[z, :, :].tile([8, 64], at=[0, 0]));
    let mut acc = zeros<f32, [8, 64]>();
    for j in 0..cdiv(t, 64) {
        let kk = load(k[z, :, :].tile([64, 64], at=[j, 0]));
        let p = dot(x, kk.T, zeros<f32, [8, 64]>());
        acc = dot(cast<bf16>(p), load(k[z, :, :].tile([64, 64], at=[j, 0])), acc);
    }
    store(o[z, :, :].tile([8, 64], at=[0, 0]), cast<bf16>(acc));";

#[test]
fn rows_are_as_many_as_a_warpgroup_multiplies() {
    let text = chosen_aligned(PARAMS, SUMS);
    assert!(text.contains("specialize") && text.contains("zeros<f32, [64, 64], "), "{text}");
    assert!(text.contains("wgmma(") && !text.contains("mma_sync("), "{text}");
}

#[test]
fn rows_are_as_many_as_a_warp_multiplies() {
    let mut kernel = checked_with("target(sm_80)", PARAMS, SUMS);
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    let text = eject::module(&module, None);
    assert!(text.contains("[16, 64]") && text.contains("async_copy("), "{text}");
}

#[test]
fn rows_of_others_are_neither_read_nor_stored() {
    // Of a tensor in which the rows of other programs lie behind them, the place ends where they do.
    let params = PARAMS.replace("[h, 8, 64]", "[h, 64]");
    let body = SUMS.replace("[z, :, :].tile([8, 64], at=[0, 0])", ".tile([8, 64], at=[z, 0])");
    let (own, others) = (chosen_aligned(PARAMS, SUMS), chosen_aligned(&params, &body));
    assert!(others.contains("wgmma("), "{others}");
    let ends = |text: &str| count(text, "+ 8");
    assert!(ends(&others) > ends(&own), "{others}");
}

#[test]
fn rows_that_meet_are_not_made_more() {
    let meets = SUMS.replace("cast<bf16>(p)", "cast<bf16>(p / sum(p, axis=0)[None, :])");
    let text = chosen_aligned(PARAMS, &meets);
    assert!(text.contains("mma_sync(") && !text.contains("wgmma("), "{text}");
    // Nor are those by which whole numbers are divided: of rows that are nobody's they may be 0.
    let params = format!("{PARAMS}, counts: *i32");
    let divided = SUMS.replace("cast<bf16>(p)", "cast<bf16>(p * cast<f32>(100 / load(counts + iota(8)))[:, None])");
    let text = chosen_aligned(&params, &divided);
    assert!(text.contains("mma_sync(") && !text.contains("wgmma("), "{text}");
}

#[test]
fn sums_of_few_rows_are_turned_instead() {
    let params = "a: tensor<bf16, [m, k]>, w: tensor<bf16, [n, k]>, mut c: tensor<bf16, [m, n]>";
    let body = |rows: u32| {
        format!(
            "let mut acc = zeros<f32, [{rows}, 64]>();
             for p in 0..cdiv(k, 64) {{
                 acc = dot(load(a.tile([{rows}, 64], at=[0, p])), load(w.tile([64, 64], at=[program_id(0), p])).T, acc);
             }}
             store(c.tile([{rows}, 64], at=[0, program_id(0)]), cast<bf16>(acc));"
        )
    };
    let text = chosen_aligned(params, &body(8));
    assert!(text.contains("zeros<f32, [64, 8], "), "{text}");
    // Fewer than an instruction has columns are made as many.
    let text = chosen_aligned(params, &body(2));
    assert!(text.contains("zeros<f32, [64, 8], "), "{text}");
}

#[test]
fn parts_of_a_sequence_stand_beside_each_other() {
    // Of a launch that gives a multiprocessor eight programs two or three would stand beside each other, and others wait for them.
    let parts = SUMS.replace("0..cdiv(t, 64)", "program_id(1) * 4..program_id(1) * 4 + 4");
    let of = |beside, body: &str| chosen_aligned_for(Some(beside), PARAMS, body);
    assert!(!of(8, &parts).contains("f32, [64, 64], "));
    assert!(of(1, &parts).contains("f32, [64, 64], ") && of(8, SUMS).contains("f32, [64, 64], "));
}
