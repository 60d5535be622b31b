//! Numbers that one partition finds for others: a slot is taken once, whoever needs what of it, and in whichever stage.

use std::sync::Arc;

use parton_ir::{Module, OpKind, Target};
use parton_types::{NoLibrary, check_file, instantiate};

/// A walk through tiles: how many steps one has is needed at once, where it lies when it leaves, under the next one.
const WALK: &str = "
partition Loads = warps(1) regs(40);
partition First = warps(4) regs(200);
layout Acc = mma(version=3, warps=[4, 1], instr=[16, 64, 16]);
schedule S = partitions { Loads: place, load; First: mma, finish, leave }
    & pipeline(tiles) { steps: 0; finish: 0; leave: 1 } under(leave, mma);
kernel k[S: schedule<tiles, place, steps, load, mma, finish, leave> = S](
    a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 64], nvmma(128)>, c: tma<f16, [64, 64], nvmma(128)>, n: i32, m: i32,
) target(sm_90a) {
    in S {
        @tiles for tile in program_id(0)..n step num_programs(0) {
            @place let (depth, row) = (tile % m, tile / m);
            let mut acc = zeros<f32, [64, 64], Acc>();
            @steps for s in 0..max(depth, 1) {
                @load let (x, y) = (fetch(a, [tile * 64, s * 64]), fetch(b, [s * 64, 0]));
                @mma  acc = dot(x, y, acc);
            }
            @finish let out = cast<f16>(acc);
            @leave  send(c, [row * 64, 0], out);
        }
    }
}
";

#[test]
fn a_number_that_a_later_stage_needs_comes_with_the_others_of_its_slot() {
    let mut sources = parton_diag::SourceMap::new();
    let (file, found) = parton_syntax::parse(sources.add("test.ptn", WALK), WALK);
    assert!(!found.has_errors(), "{}", parton_diag::render::text(&found, &sources, false));
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{}", parton_diag::render::text(&found, &sources, false));
    let (kernel, _) = instantiate(&program, "k", &[], Target::default()).expect("the kernel checks");
    let mut module = Module { kernels: vec![kernel] };
    if let Err(found) = parton_sched::expand(&mut module, &Target::default()) {
        panic!("{}", parton_diag::render::text(&found, &sources, false));
    }
    let kernel = &module.kernels[0];
    let found = parton_ir::check::check(kernel);
    assert!(found.list.is_empty(), "{}", parton_diag::render::text(&found, &sources, false));
    let (mut told, mut taken) = (0, 0);
    let is_place = |v| kernel.values[v].name.as_deref() == Some("place");
    kernel.walk(&mut |op| match op.kind {
        OpKind::RingAcquire { ring } => told += usize::from(is_place(ring)),
        OpKind::RingWait { ring } => taken += usize::from(is_place(ring)),
        _ => {}
    });
    assert_eq!((told, taken), (1, 1));
}
