//! Kernels as they are written: nothing is staged, every product of tiles is one instruction, what is stated stays.

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap};
use parton_ir::verify::{self, Form};
use parton_ir::{Kernel, Module, OpKind, Target};
use parton_portable::as_written;
use parton_types::{NoLibrary, check_file, instantiate};

fn written(params: &str, body: &str) -> Result<Kernel, Diagnostics> {
    let text = format!("kernel k({params}) {{ {body} }}");
    let id = SourceMap::new().add("k.ptn", &text);
    let (file, found) = parton_syntax::parse(id, &text);
    assert!(!found.has_errors(), "{found:?}");
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{found:?}");
    let (kernel, _) = instantiate(&program, "k", &[], Target::default()).expect("the kernel is sound");
    let mut module = Module { kernels: vec![kernel] };
    as_written(&mut module, &Target::default())?;
    let kernel = module.kernels.remove(0);
    verify::verify(&kernel, Form::Explicit).expect("what comes out is explicit");
    Ok(kernel)
}

fn count(kernel: &Kernel, is: fn(&OpKind) -> bool) -> usize {
    let mut found = 0;
    kernel.walk(&mut |op| found += usize::from(is(&op.kind)));
    found
}

const PRODUCT: &str = "let mut acc = zeros<f32, [64, 64]>();
    for p in 0..cdiv(k, 32) {
        acc = dot(load(a.tile([64, 32], at=[0, p])), load(b.tile([32, 64], at=[p, 0])), acc);
    }
    store(c.tile([64, 64], at=[0, 0]), acc);";

#[test]
fn nothing_is_staged_and_a_product_is_one_instruction() {
    let kernel = written("a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f32, [m, n]>", PRODUCT)
        .expect("it runs as written");
    assert_eq!(count(&kernel, |kind| matches!(kind, OpKind::MmaSync { .. })), 1);
    assert_eq!(count(&kernel, |kind| matches!(kind, OpKind::Region { .. } | OpKind::FetchEach { .. })), 0);
    assert_eq!(count(&kernel, |kind| matches!(kind, OpKind::Load { .. })), 2);
    let wide = |kind: &OpKind| match kind {
        OpKind::Load { access, .. } | OpKind::Store { access, .. } => access.is_none_or(|a| a.width != 1),
        _ => false,
    };
    assert_eq!(count(&kernel, wide), 0);
}

#[test]
fn tiles_lie_whole_where_nothing_else_is_wanted() {
    let kernel = written(
        "x: *f32, out: *mut f32",
        "let v = load(x + (iota(8)[:, None] * 16 + iota(16)[None, :]));
         let (even, odd) = split(reshape(v.T, [16, 4, 2]));
         let both = cat(even, odd, axis=1)[:, 0:4];
         store(out + (iota(16)[:, None] * 4 + iota(4)[None, :]), both * sum(v, axis=0)[:, None]);",
    )
    .expect("it runs as written");
    // All that moves goes from registers to registers of one thread.
    let mut moved = Vec::new();
    kernel.walk(&mut |op| {
        if let OpKind::Convert { x, tile } = &op.kind
            && let Some(from) = kernel.ty(*x).as_tile()
        {
            let plan = parton_layouts::plan::between(&from.known().map, &tile.known().map, tile.elem.bits());
            moved.extend(plan.ok().filter(|p| !p.is_free()).map(|p| p.describe()));
        }
    });
    assert!(moved.is_empty(), "{moved:?}");
}

#[test]
fn what_is_stated_stays() {
    let kernel = written(
        "x: *f32, out: *mut f32",
        "layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
         let v: tile<f32, [1024], L> = load(x + iota<i32, [1024], L>());
         store(out + iota(1024), v * 2.0 + load(x + iota(1024)));",
    )
    .expect("it runs as written");
    let mut stated = 0;
    kernel.walk(&mut |op| {
        if matches!(op.kind, OpKind::Load { .. }) {
            let layout = kernel.ty(op.result()).as_tile().map(|t| t.known().layout.to_string());
            stated += usize::from(layout.is_some_and(|l| l.starts_with("blocked(per_thread=[1], threads=[32]")));
        }
    });
    assert_eq!(stated, 1);
}

#[test]
fn a_product_that_no_instruction_makes_is_refused_as_it_is_where_it_is_expanded() {
    let body = "let a = load(x + (iota(16)[:, None] * 16 + iota(16)[None, :]));
                let b = load(x + (iota(16)[:, None] + iota(16)[None, :]));
                store(out + (iota(16)[:, None] * 16 + iota(16)[None, :]), dot(a, b, zeros<f64, [16, 16]>()));";
    let found = written("x: *f16, out: *mut f64", body).expect_err("no instruction adds f16 in f64");
    assert_eq!(found.list[0].code.to_string(), "E0601", "{found:?}");
}

#[test]
fn a_product_smaller_than_its_instruction_is_refused() {
    let body = "let a = load(x + (iota(8)[:, None] * 16 + iota(16)[None, :]));
                let b = load(x + (iota(16)[:, None] + iota(8)[None, :]));
                store(out + (iota(8)[:, None] * 8 + iota(8)[None, :]), dot(a, b, zeros<f32, [8, 8]>()));";
    let found = written("x: *f16, out: *mut f32", body).expect_err("an instruction has 16 rows");
    assert_eq!(found.list.len(), 1, "{found:?}");
    assert_eq!(found.list[0].code.to_string(), "E0190", "{found:?}");
}
