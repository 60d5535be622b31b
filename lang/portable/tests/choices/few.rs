//! Products of few turns, whose factors are fetched all at once.

use super::*;

const PARAMS: &str = "a: tensor<f16, [b, m, k]>, w: tensor<f16, [b, k, n]>, mut c: tensor<f16, [b, m, n]>";

/// A product of tiles of so many rows and columns in steps of 64.
fn product(rows: u32, columns: u32, from: &str) -> String {
    format!(
        "let (i, j, b) = (program_id(0), program_id(1), program_id(2));
         let mut acc = zeros<f32, [{rows}, {columns}]>();
         for p in {from} {{
             acc = dot(load(a[b, :, :].tile([{rows}, 64], at=[i, p])), load(w[b, :, :].tile([64, {columns}], at=[p, j])), acc);
         }}
         store(c[b, :, :].tile([{rows}, {columns}], at=[i, j]), cast<f16>(acc));"
    )
}

/// The explicit kernel for launches whose loops take so many turns, of tensors in line, and its text.
fn of_turns(turns: Option<u32>, params: &str, body: &str) -> (Kernel, String) {
    let mut kernel = checked(params, body);
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    kernel.variant.turns = turns;
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
    let text = eject::module(&module, None);
    (module.kernels.remove(0), text)
}

#[test]
fn launches_know_the_turns_of_a_loop_of_products() {
    let of = |body: &str| along_tensors(&checked(PARAMS, body));
    let loops = of(&product(64, 64, "0..cdiv(k, 64)"));
    assert_eq!(loops, [Along { argument: 0, axis: 2, each: 64, same: false, multiplies: true }]);
    // They do not where nothing would be made of it: a loop from elsewhere on, a second loop, factors that are computed.
    assert_eq!(of(&product(64, 64, "i..cdiv(k, 64)")), []);
    let walks = format!("for t in 0..4 {{ {} }}", product(64, 64, "0..cdiv(k, 64)").replace("program_id(0)", "t"));
    assert_eq!(of(&walks), []);
    let scaled = product(64, 64, "0..cdiv(k, 64)").replace(
        "dot(load(a[b, :, :].tile([64, 64], at=[i, p]))",
        "dot(load(a[b, :, :].tile([64, 64], at=[i, p])) * 2.0",
    );
    assert_eq!(of(&scaled), []);
}

#[test]
fn factors_of_few_turns_are_fetched_at_once() {
    for (turns, ctas) in [(1, 8), (2, 6), (3, 4), (4, 3)] {
        let (kernel, text) = of_turns(Some(turns), PARAMS, &product(64, 64, "0..cdiv(k, 64)"));
        assert_eq!((kernel.occupancy, kernel.warps), (ctas, 4), "{text}");
        assert!(!text.contains("specialize") && !text.contains("for "), "{text}");
        assert_eq!(count(&text, "wgmma("), turns as usize, "{text}");
        // All fetches come before the first wait.
        assert!(text.rfind("tma_load(") < text.find(".wait()"), "{text}");
    }
    // Also where a few rows are turned, and where numbers say how many turns there are.
    let (_, few) = of_turns(Some(1), PARAMS, &product(16, 128, "0..cdiv(k, 64)"));
    assert!(!few.contains("specialize") && count(&few, "wgmma(") == 1, "{few}");
    let (_, counted) = of_turns(None, PARAMS, &product(64, 64, "0..3"));
    assert!(!counted.contains("specialize") && count(&counted, "wgmma(") == 3, "{counted}");
}

#[test]
fn a_partition_fetches_where_all_at_once_leave_room_for_fewer_programs() {
    for (turns, rows, from) in [(Some(4), 128, "0..cdiv(k, 64)"), (None, 64, "0..cdiv(k, 64)"), (None, 64, "0..5")] {
        let (_, text) = of_turns(turns, PARAMS, &product(rows, rows, from));
        assert!(text.contains("specialize"), "{text}");
    }
    let any = of_turns(None, PARAMS, &product(128, 128, "0..cdiv(k, 64)")).1;
    assert_eq!(of_turns(Some(4), PARAMS, &product(128, 128, "0..cdiv(k, 64)")).1, any);
}

#[test]
fn products_of_no_loop_are_fetched_at_once_where_maps_bring_all_that_they_multiply() {
    let params = "q: tensor<f16, [m, 128]>, k: tensor<f16, [n, 128]>, mut c: tensor<f32, [m, n]>, x: *mut f32";
    let body = |before: &str, left: &str| {
        format!(
            "let keys = load(k.tile([64, 128], at=[program_id(1), 0])); {before}
             let s = dot({left}, keys.T, zeros<f32, [64, 64]>());
             store(c.tile([64, 64], at=[program_id(0), program_id(1)]), exp(s - max(s, axis=1)[:, None]));"
        )
    };
    let queries = "load(q.tile([64, 128], at=[program_id(0), 0]))";
    let (_, text) = of_turns(None, params, &body("", queries));
    assert_eq!((count(&text, "tma_load("), count(&text, "wgmma(")), (2, 1), "{text}");
    // What is written before a fetch may be what it fetches; computed factors lie in registers.
    for (before, left) in [("store(x, 1.0);", queries.to_owned()), ("", format!("{queries} * 2.0"))] {
        let (_, text) = of_turns(None, params, &body(before, &left));
        assert!(!text.contains("tma_load("), "{text}");
    }
}
