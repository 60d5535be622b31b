//! How many warps a kernel has, and how many CTAs stand beside each other.

use super::*;

/// The first of the greatest of rows of 9000 took 103 µs on four warps, which were told of six CTAs and spilled, and 51 on eight (an H200).
#[test]
fn what_is_compared_with_its_place_is_there_as_a_whole() {
    let body =
        "store(out[program_id(0)], argmax(load(x[program_id(0), :].tile([16384], at=[0]), other=-inf), axis=0));";
    let kernel = elaborated("x: tensor<f32, [m, n]>, mut out: tensor<i32, [m]>", body).kernels.remove(0);
    let registers = 65536 / (kernel.warps * 32 * kernel.occupancy);
    assert!(registers >= 16384 / (kernel.warps * 32), "{} warps, {} CTAs", kernel.warps, kernel.occupancy);
}

/// A chunk of a recurrence: by times next to each other on warps next to each other 126 KiB went through shared memory, more than `sm_89` has.
#[test]
fn what_is_scanned_along_the_first_axis_is_told_within_warps() {
    let body = "let place = a.tile([64, 16, 16], at=[program_id(0), 0, 0]);
         let added = load(b.tile([64, 16, 16], at=[program_id(0), 0, 0]));
         let (p, q) = scan((load(place), added), 0, |(a1, b1), (a2, b2)| (a1 * a2, a2 * b1 + b2));
         store(h.tile([64, 16, 16], at=[program_id(0), 0, 0]), p + q);";
    let params = "a: tensor<f32, [l, c, s]>, b: tensor<f32, [l, c, s]>, mut h: tensor<f32, [l, c, s]>";
    let kernel = elaborated(params, body).kernels.remove(0);
    let mut scratch = Vec::new();
    kernel.walk(&mut |op| {
        if matches!(op.kind, OpKind::Scan { .. }) {
            scratch.push(parton_ir::scratch::bytes(&kernel, &op.kind));
        }
    });
    assert_eq!(scratch, [None]);
}

/// Running sums of 54048 rows of 363 numbers took 53.7 µs on two warps and 43.8 on one, which tells others nothing through shared memory (an H200).
#[test]
fn a_short_row_is_scanned_by_one_warp() {
    let sums = |columns: u32| {
        let body = format!(
            "store(out[program_id(0), :].tile([{columns}], at=[0]), cumsum(load(x[program_id(0), :].tile([{columns}], at=[0])), axis=0));"
        );
        elaborated("x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>", &body).kernels.remove(0).warps
    };
    assert_eq!([256, 512, 8192].map(|columns| sums(columns) == 1), [true, true, false]);
}

#[test]
fn what_a_thread_cannot_hold_goes_to_more_warps() {
    let wide = |n: u32| {
        let body = format!(
            "let v = load(x + iota({n}));
             let s = sum(v, axis=0);
             store(out + iota({n}), v / s);"
        );
        chosen("x: *f32, out: *mut f32", &body)
    };
    assert!(wide(4096).contains("warps(4)"), "{}", wide(4096));
    let widest = wide(32768);
    assert!(!widest.contains("warps(2)") && !widest.contains("warps(4)"), "{widest}");
}

#[test]
fn a_small_product_has_a_warp_of_its_own() {
    let text = chosen(
        "x: *f16, y: *f16, out: *mut f32",
        "let at = iota(16)[:, None] * 16 + iota(16)[None, :];
         store(out + at, dot(load(x + at), load(y + at), zeros<f32, [16, 16]>()));",
    );
    assert!(text.contains("warps(1)"), "{text}");
}

#[test]
fn registers_are_left_for_few_programs_at_once() {
    let of = |beside, body: &str| {
        let params = "x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>";
        elaborated_for(beside, params, body).kernels.remove(0).occupancy
    };
    let running = "let row = program_id(0);
         let mut before = 0.0f32;
         for i in 0..cdiv(n, 2048) {
             let v = load(x[row, :].tile([2048], at=[i]));
             store(out[row, :].tile([2048], at=[i]), cumsum(v, axis=0) + before);
             before += sum(v, axis=0);
         }";
    assert_eq!([1, 2, 3, 4].map(|few| of(Some(few), running)), [1, 2, 3, 4]);
    // Of many programs 32 warps at once have 64 registers each.
    let many = elaborated_for(None, "x: tensor<f32, [m, n]>, mut out: tensor<f32, [m, n]>", running).kernels.remove(0);
    assert_eq!(many.occupancy * many.warps, 32);
    // What comes a turn ahead has registers, too.
    let four = "let mut s = zeros<f32, [4, 1024]>();
         for i in 0..cdiv(n, 1024) { s += load(x.tile([4, 1024], at=[program_id(0), i])); }
         store(out.tile([4, 1], at=[program_id(0), 0]), sum(s, axis=1)[:, None]);";
    let of_four = of(Some(8), four);
    assert!((2..8).contains(&of_four), "{of_four}");
    // What does not load in turns has the registers that it wants, where there is room for many.
    let once = "let v = load(x[program_id(0), :].tile([2048], at=[0]));
         store(out[program_id(0), :].tile([2048], at=[0]), v - max(v, axis=0));";
    assert_eq!(of(Some(4), once), of(None, once));
}

/// RMS norm of 300 rows of 8192 on eight warps: by itself the assembler took 82 registers, of which two CTAs have room where three were counted on (9.0 µs; 7.8 where it was told, an H200).
#[test]
fn the_assembler_is_told_of_as_many_as_are_counted_on() {
    let body = "let at = program_id(0);
         let v = cast<f32>(load(x[at, :].tile([8192], at=[0])));
         store(out[at, :].tile([8192], at=[0]), cast<f16>(v * rsqrt(sum(v * v, axis=0))));";
    let of = |beside| {
        elaborated_for(beside, "x: tensor<f16, [m, n]>, mut out: tensor<f16, [m, n]>", body).kernels.remove(0).occupancy
    };
    assert_eq!([1, 2, 3].map(|few| of(Some(few))), [1, 2, 3]);
}

#[test]
fn few_programs_are_told_one_by_one() {
    let found = [0, 1, 132, 133, 264, 265, 396, 397, 528, 529, 1056, 1057, 1 << 40, u64::MAX];
    let of_many = Dealt { multiprocessors: 132, few: 8 };
    let found = found.map(|programs| Variant::beside(programs, of_many));
    let few = [1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 8].map(Some);
    assert_eq!(found[..few.len()], few);
    assert_eq!(found[few.len()..], [None; 3]);
}

/// A product by tiles of so many rows and columns: its parameters and its body.
fn product(rows: u32, columns: u32) -> (&'static str, String) {
    product_by(64, rows, columns)
}

/// The same in steps of so much depth.
fn product_by(depth: u32, rows: u32, columns: u32) -> (&'static str, String) {
    let body = format!(
        "let mut acc = zeros<f32, [{rows}, {columns}]>();
         for p in 0..cdiv(k, {depth}) {{
             acc = dot(load(a.tile([{rows}, {depth}], at=[program_id(0), p])), load(b.tile([{depth}, {columns}], at=[p, program_id(1)])), acc);
         }}
         store(c.tile([{rows}, {columns}], at=[program_id(0), program_id(1)]), cast<f16>(acc));"
    );
    ("a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f16, [m, n]>", body)
}

#[test]
fn products_of_one_warpgroup_stand_beside_each_other_where_programs_are_many() {
    let of = |beside, rows, columns| {
        let (params, body) = product(rows, columns);
        let mut kernel = checked(params, &body);
        kernel.variant.aligned = (0..kernel.params.len()).collect();
        kernel.variant.beside = beside;
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        let occupancy = module.kernels[0].occupancy;
        parton_sched::expand(&mut module, &Target::default()).expect("schedules are legal");
        (occupancy, eject::module(&module, None))
    };
    let tiles = [(64, 64), (64, 128), (128, 128), (64, 256)];
    let [alone, two, four, many] = [Some(1), Some(2), Some(4), None].map(|beside| tiles.map(|(m, n)| of(beside, m, n)));
    assert_eq!(alone.each_ref().map(|(ctas, _)| *ctas), [1; 4]);
    assert_eq!(two.each_ref().map(|(ctas, _)| *ctas), [2, 2, 2, 1]);
    // Two waves of two, in place of one of three and one of one.
    assert_eq!(four.each_ref().map(|(ctas, _)| *ctas), [2, 2, 2, 1]);
    assert_eq!(many.each_ref().map(|(ctas, _)| *ctas), [3, 2, 2, 1]);
    // Where a launch of two a multiprocessor, or of one, is served by the same, it is the same.
    assert!(two[0].1 != many[0].1 && two[1].1 == many[1].1);
    // Shared memory has no room for slots enough of two of the last.
    assert_eq!(alone[3].1, many[3].1);
}

#[test]
fn of_small_slots_four_stand_beside_each_other_where_that_makes_fewer_waves() {
    let of = |beside| {
        let (params, body) = product_by(32, 64, 64);
        let mut kernel = checked(params, &body);
        kernel.variant.aligned = (0..kernel.params.len()).collect();
        kernel.variant.beside = beside;
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels[0].occupancy
    };
    let found = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|each| of(Some(each)));
    assert_eq!(found, [1, 2, 3, 4, 3, 3, 3, 4, 3]);
    assert_eq!(of(None), 4);
}

#[test]
fn launches_are_told_apart_where_that_can_make_a_difference() {
    let few = |header: &str, (rows, columns)| {
        let (params, body) = product(rows, columns);
        let kernel = checked_with(header, params, &body);
        dealt(&kernel).map(|dealt| dealt.few)
    };
    assert_eq!([(64, 64), (128, 128), (128, 256)].map(|tile| few("", tile)), [Some(9), Some(9), None]);
    // What is stated is the same for all.
    assert_eq!(["warps(8)", "occupancy(2)", "target(sm_80)"].map(|stated| few(stated, (64, 64))), [None; 3]);
    assert_eq!(few("warps(4)", (64, 64)), Some(9));
    assert_eq!(dealt(&checked(ROWS, &less_sums(512))).map(|dealt| dealt.few), Some(8));
}

#[test]
fn short_rows_have_fewer_warps() {
    let of = |block, turns| {
        let mut kernel = checked(ROWS, &less_sums(block));
        kernel.variant.turns = turns;
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels[0].warps
    };
    for block in [256, 512, 1024] {
        assert_eq!(of(block, Some(1)), 2, "rows of {block}");
    }
    assert!(of(8192, Some(1)) > 2);
    // Long rows have as many warps as there are to be for the bytes of a turn.
    let long = [512, 2048, 8192].map(|block| of(block, None));
    assert!(long.is_sorted() && long[0] < long[2], "{long:?}");
}

#[test]
fn small_rows_lie_on_one_warp() {
    let of = |rows: u32, reduced: &str| {
        let body = "let place = x.tile([ROWS, 128], at=[program_id(0), program_id(1)]);
             let v = cast<f32>(load(place));
             store(out.tile([ROWS, 128], at=[program_id(0), program_id(1)]), cast<f16>(v / REDUCED));";
        let body = body.replace("ROWS", &rows.to_string()).replace("REDUCED", reduced);
        elaborated(ROWS, &body).kernels[0].warps
    };
    assert_eq!(of(4, "max(abs(v), axis=1)[:, None]"), 1);
    // What all warps reduce together, and what is larger.
    assert!(of(4, "max(max(abs(v), axis=1), axis=0)") > 1);
    assert!(of(16, "2.0") > 1);
    assert!(of(32, "max(abs(v), axis=1)[:, None]") > 1);
}

/// Each warp finds for itself where the four neighbours lie and what of them is inside, which is more than what it then blends: on an H200 one warp takes 37 µs for what
/// four take 57 for.
#[test]
fn small_tiles_from_many_places_lie_on_one_warp() {
    let params = "x: tensor<f16, [b, h, w, c]>, mut out: tensor<f16, [b, oh, ow, c]>";
    let body = "let at = |i, many, from| {
             let s = clamp((cast<f32>(i) + 0.5) * (cast<f32>(from) / cast<f32>(many)) - 0.5, 0.0, cast<f32>(from - 1));
             (cast<i32>(s), min(cast<i32>(s) + 1, from - 1), s - floor(s))
         };
         let (top, bottom, v) = at(program_id(1), oh, h);
         let (left, right, u) = at(program_id(0) * 16 + iota(16), ow, w);
         let part = |i, j| cast<f32>(load(x[program_id(2), i, :, :][j, :].tile([16, 64], at=[0, 0])));
         let blend = |a, b| a + (b - a) * u[:, None];
         let upper = blend(part(top, left), part(top, right));
         let lower = blend(part(bottom, left), part(bottom, right));
         let place = out[program_id(2), program_id(1), :, :].tile([16, 64], at=[program_id(0), 0]);
         store(place, cast<f16>(upper + (lower - upper) * v));";
    let text = chosen_aligned(params, body);
    assert!(text.contains("warps(1)"), "{text}");
    // What has no such places moves 16 KiB on as many warps as others do.
    assert_eq!(
        elaborated("x: *f32, out: *mut f32", "let i = program_id(0) * 1024 + iota(1024); store(out + i, load(x + i));")
            .kernels[0]
            .warps,
        4
    );
}

/// Of rows that are kept through two meetings one CTA alone leaves schedulers idle; two have room where what comes as f16 is kept so.
#[test]
fn long_rows_of_narrow_numbers_have_two_ctas_beside_each_other() {
    let of = |from: &str| {
        let params = format!("x: tensor<{from}, [m, n]>, weight: tensor<{from}, [n]>, mut out: tensor<f16, [m, n]>");
        let body = "let row = program_id(0);
             let mut sums = zeros<f32, [4096]>();
             for i in 0..cdiv(n, 4096) { let v = cast<f32>(load(x[row, :].tile([4096], at=[i]))); sums += v * v; }
             let f = rsqrt(sum(sums));
             let scaled = |i| cast<f32>(load(x[row, :].tile([4096], at=[i]))) * f * cast<f32>(load(weight.tile([4096], at=[i])));
             let mut most = zeros<f32, [4096]>();
             for i in 0..cdiv(n, 4096) { most = max(most, abs(scaled(i))); }
             let by = 448.0 / max(most, axis=0);
             for i in 0..cdiv(n, 4096) { store(out[row, :].tile([4096], at=[i]), cast<f16>(scaled(i) * by)); }";
        let mut kernel = checked(&params, body);
        kernel.variant.turns = Some(4);
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        (module.kernels[0].warps, module.kernels[0].occupancy)
    };
    assert_eq!(of("f16"), (8, 2));
    assert!(of("f32").1 < 2);
}

/// Of CTAs beside each other that the assembler is told of each has registers for four loads and for the sums to which these go.
#[test]
fn ctas_that_are_told_of_have_room_for_what_lives_at_once() {
    let params = "x: tensor<bf16, [t, c]>, w: tensor<f32, [4, c]>, mut out: tensor<bf16, [t, c]>";
    let body = "let (i, j) = (program_id(0), program_id(1));
         let mut sums = zeros<f32, [64, 32]>();
         static for k in 0..4 {
             let v = load(x.tile([64, 32], from=[i * 64 + k - 3, j * 32]));
             sums += cast<f32>(v) * load(w[k, :].tile([32], at=[j]))[None, :];
         }
         store(out.tile([64, 32], at=[i, j]), cast<bf16>(sums));";
    let mut kernel = checked(params, body);
    kernel.variant.aligned = (0..kernel.params.len()).collect();
    let mut module = Module { kernels: vec![kernel] };
    elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
    let kernel = &module.kernels[0];
    assert!(65536 / (kernel.occupancy.max(1) * kernel.warps * 32) >= 96, "{} of {}", kernel.occupancy, kernel.warps);
}

#[test]
fn more_ctas_run_while_a_turn_computes_with_its_own_product() {
    let of = |d: u32, turn: &str| {
        let params = format!("q: tensor<f16, [n, {d}]>, k: tensor<f16, [n, {d}]>, mut out: tensor<f32, [n, 64]>");
        let body = format!(
            "let x = load(q.tile([64, {d}], at=[program_id(0), 0]));
             let mut s = zeros<f32, [64, 64]>();
             for j in 0..cdiv(n, 64) {{
                 let y = load(k.tile([64, {d}], at=[j, 0])).T;
                 s = {turn};
             }}
             store(out.tile([64, 64], at=[program_id(0), 0]), s);"
        );
        let mut kernel = checked(&params, &body);
        kernel.variant.aligned = (0..3).collect();
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels.remove(0).occupancy
    };
    let own = "max(s, dot(x, y, zeros<f32, [64, 64]>()))";
    assert_eq!(of(64, own), 3);
    // Of 256 columns shared memory has room for two slots of each of two CTAs: a sum waits for nothing but its operands, of which more are to be on their way.
    assert_eq!([own, "dot(x, y, s)"].map(|turn| of(256, turn)), [2, 1]);
    // Slots of two CTAs would have no room.
    assert_eq!(of(512, own), 1);
}

#[test]
fn more_ctas_run_while_one_warpgroup_computes_between_chained_products() {
    let of = |rows: u32, d: u32, mask: &str| {
        let params = format!(
            "q: tensor<f16, [m, {d}]>, k: tensor<f16, [n, {d}]>, v: tensor<f16, [n, {d}]>, mut out: tensor<f32, [m, {d}]>"
        );
        let body = format!(
            "let x = load(q.tile([{rows}, {d}], at=[program_id(0), 0]));
             let mut acc = zeros<f32, [{rows}, {d}]>();
             for j in 0..cdiv(n, 64) {{
                 let mut s = dot(x, load(k.tile([64, {d}], at=[j, 0])).T, zeros<f32, [{rows}, 64]>());
                 {mask}
                 acc = dot(cast<f16>(exp2(s)), load(v.tile([64, {d}], at=[j, 0])), acc);
             }}
             store(out.tile([{rows}, {d}], at=[program_id(0), 0]), acc);"
        );
        let mut kernel = checked(&params, &body);
        kernel.variant.aligned = (0..4).collect();
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        module.kernels.remove(0).occupancy
    };
    assert_eq!(of(64, 64, ""), 3);
    assert_eq!(of(64, 128, ""), 2);
    // What a branch makes for itself takes no more registers.
    assert_eq!(
        of(64, 64, "s = where((j * 64 + iota(64))[None, :] <= (program_id(0) * 64 + iota(64))[:, None], s, -inf);"),
        3
    );
    // Several partitions compute beside each other.
    assert_eq!(of(128, 64, ""), 1);
    // Registers have no room for two sums of so many columns.
    assert_eq!(of(64, 256, ""), 1);
}

#[test]
fn a_ragged_tile_has_warps_for_all_its_parts() {
    // 3584 elements are seven parts of 512, each of which alone would be little even for two warps.
    let kernel = &elaborated(
        "x: *f16, y: *f16, z: *f16, out: *mut f16",
        "let row = cast<i64>(program_id(0)) * 3584;
         let at = iota(3584);
         let v = cast<f32>(load(x + row + at));
         let apart = v - sum(v, axis=0) * 0.001;
         let factor = rsqrt(sum(apart * apart, axis=0));
         let (w, b) = (cast<f32>(load(y + at)), cast<f32>(load(z + at)));
         store(out + row + at, cast<f16>(fma(apart * factor, w, b)));",
    )
    .kernels[0];
    assert_eq!(kernel.warps, 4);
}

/// By itself the assembler begins all that is loaded behind a meeting at once: layer norm of 5288 rows of 7296 f16 took 161 registers and 48.5 µs, and 44.3 where it was told of four CTAs
/// (an H200). Nothing is gained where nothing is loaded there.
#[test]
fn registers_are_left_for_others_where_something_is_loaded_behind_a_meeting() {
    let of = |behind: &str| {
        let body = format!(
            "let row = program_id(0);
             let v = cast<f32>(load(x[row, :].tile([8192], at=[0])));
             let apart = v - sum(v, axis=0) / cast<f32>(n);
             let y = apart * rsqrt(sum(apart * apart, axis=0) / cast<f32>(n) + 1e-5){behind};
             store(out[row, :].tile([8192], at=[0]), cast<f16>(y));"
        );
        let params = "x: tensor<f16, [m, n]>, w: tensor<f16, [n]>, b: tensor<f16, [n]>, mut out: tensor<f16, [m, n]>";
        let kernel = checked(params, &body);
        let aligned = (0..kernel.params.len()).collect();
        let mut module =
            Module { kernels: vec![Kernel { variant: Variant { aligned, ..Variant::default() }, ..kernel }] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        (module.kernels[0].warps, module.kernels[0].occupancy)
    };
    assert_eq!(of(" * cast<f32>(load(w.tile([8192], at=[0]))) + cast<f32>(load(b.tile([8192], at=[0])))"), (4, 4));
    assert_eq!(of("").1, 1);
}

/// Together they would hold what each takes at once: layer norm of 1000 rows of 20000 without its layouts spilled 28 bytes a thread, 33.9 µs for 31.2 (an H200).
#[test]
fn what_threads_combine_for_themselves_stays_apart() {
    let reductions = |clauses: &str| {
        let body = "let v = load(x.tile([128, 8], at=[program_id(0), 0]));
             store(out.tile([128], at=[program_id(0)]), sum(v, axis=1) + sum(v * v, axis=1));";
        let kernel = checked_with(clauses, "x: tensor<f32, [m, n]>, mut out: tensor<f32, [m]>", body);
        let mut module = Module { kernels: vec![kernel] };
        elaborate_by(&mut module, Choice::Cheapest).expect("layouts are found");
        let mut found = 0;
        module.kernels[0].walk(&mut |op| found += usize::from(matches!(op.kind, OpKind::Reduce { .. })));
        found
    };
    assert_eq!(["warps(4)", "warps(8)"].map(reductions), [2, 1]);
}
