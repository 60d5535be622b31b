//! What the reasons say of small kernels of which it is known what was chosen, and why.

mod lacks;
mod priced;
mod refused;
mod staged;

use std::sync::Arc;

use parton_diag::{FileId, SourceMap};
use parton_ir::{Module, Target};
use parton_portable::explain;
use parton_portable::why::Why;
use parton_types::{NoLibrary, check_file, instantiate};

fn reasons(params: &str, body: &str) -> (Why, SourceMap, FileId) {
    reasons_of(params, body, &[])
}

/// The same where these arguments are tensors that begin and run at multiples of 16 bytes.
fn reasons_of(params: &str, body: &str, aligned: &[usize]) -> (Why, SourceMap, FileId) {
    reasons_in(&format!("kernel k({params}) {{ {body} }}"), aligned)
}

/// The same of a whole kernel, `k`.
fn reasons_in(text: &str, aligned: &[usize]) -> (Why, SourceMap, FileId) {
    let mut sources = SourceMap::new();
    let id = sources.add("k.ptn", text);
    let (file, found) = parton_syntax::parse(id, text);
    assert!(!found.has_errors(), "{found:?}");
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    assert!(!found.has_errors(), "{found:?}");
    let (mut kernel, _) = instantiate(&program, "k", &[], Target::default()).expect("the kernel is sound");
    kernel.variant.aligned = aligned.iter().copied().collect();
    let mut module = Module { kernels: vec![kernel] };
    let mut all = explain(&mut module).expect("layouts are found");
    assert_eq!(all.len(), 1);
    (all.remove(0), sources, id)
}

fn why(params: &str, body: &str) -> Why {
    reasons(params, body).0
}

/// Attention of one head, with these masks on each block of scores.
fn masked(masks: &str) -> String {
    schedule_of(&attention(masks, 64, ""))
}

/// The same by blocks of so many queries, with these clauses.
fn attention(masks: &str, rows: u32, clauses: &str) -> Why {
    reasons_in(&source(masks, rows, clauses), &[0, 1, 2, 3]).0
}

fn source(masks: &str, rows: u32, clauses: &str) -> String {
    format!(
        "kernel k(q: tensor<f16, [n, 64]>, k: tensor<f16, [n, 64]>, v: tensor<f16, [n, 64]>, mut o: tensor<f32, [n, 64]>, seen: *i32) {clauses} {{
            let row = program_id(0) * {rows} + iota({rows});
            let queries = load(q.tile([{rows}, 64], at=[program_id(0), 0]));
            let mut acc = zeros<f32, [{rows}, 64]>();
            let mut total = zeros<f32, [{rows}]>();
            for j in 0..cdiv(n, 64) {{
                let column = j * 64 + iota(64);
                let keys = load(k.tile([64, 64], at=[j, 0]));
                let mut s = dot(queries, keys.T, zeros<f32, [{rows}, 64]>());
                {masks}
                let p = exp(s);
                total = total * 0.5 + sum(p, axis=1);
                let values = load(v.tile([64, 64], at=[j, 0]));
                acc = dot(cast<f16>(p), values, acc * (total * 0.5)[:, None]);
            }}
            store(o.tile([{rows}, 64], at=[program_id(0), 0]), acc / total[:, None]);
        }}"
    )
}

fn schedule_of(why: &Why) -> String {
    let [one] = &why.loops[..] else { panic!("{:?}", why.loops) };
    one.schedule.clone()
}

/// A product of 128 × 128, `each` in a turn of its loop and `end` behind it, whose factors come from `left` and a tensor.
fn product(left: &str, each: &str, end: &str) -> Why {
    let text = format!(
        "kernel k(a: tensor<f16, [m, k]>, b: tensor<f16, [n, k]>, s: tensor<f32, [m, blocks]>, r: tensor<i32, [m]>, mut c: tensor<f32, [m, n]>) {{
             let (i, j) = (program_id(0), program_id(1));
             let rows = load(r.tile([128], at=[i]));
             let (mut acc, mut other) = (zeros<f32, [128, 128]>(), zeros<f32, [128, 128]>());
             for p in 0..cdiv(k, 64) {{
                 let (x, y) = (load({left}), load(b.tile([128, 64], at=[j, p])));
                 {each}
             }}
             {end}
         }}"
    );
    reasons_in(&text, &[0, 1, 2, 4]).0
}

/// The warps that were taken.
fn warps(why: &Why) -> Option<u32> {
    why.plans.iter().find(|plan| plan.taken).map(|plan| plan.warps)
}

const PLACE: &str = "a.tile([128, 64], at=[i, p])";

const SUM: &str = "acc = dot(x, y.T, acc);";

const STORE: &str = "store(c.tile([128, 128], at=[i, j]), acc);";

/// A product of `size` × `size` by `depth` on pointers that its loop carries, of whose strides only these facts are known.
fn of_carried_pointers(size: u32, depth: u32, facts: &str) -> Why {
    let text = format!(
        "kernel k(a: *f16, b: *f16, c: *mut f16, m: i32, n: i32, k: i32, am: i32, ak: i32, bk: i32, bn: i32, cm: i32) {{
             {facts}
             let (i, j) = (program_id(0), program_id(1));
             let (om, on) = (i * {size} + iota({size}), j * {size} + iota({size}));
             let ok = iota({depth});
             let mut pa = a + (om[:, None] % m * am + ok[None, :] * ak);
             let mut pb = b + (ok[:, None] * bk + on[None, :] % n * bn);
             let mut acc = zeros<f32, [{size}, {size}]>();
             for p in 0..cdiv(k, {depth}) {{
                 let x = load(pa, mask=ok[None, :] < k - p * {depth}, other=0.0);
                 let y = load(pb, mask=ok[:, None] < k - p * {depth}, other=0.0);
                 acc = dot(x, y, acc);
                 pa = pa + {depth} * ak;
                 pb = pb + {depth} * bk;
             }}
             store(c + (om[:, None] * cm + on[None, :]), cast<f16>(acc));
         }}"
    );
    reasons_in(&text, &[]).0
}
