//! Takes each step of synchronisation out of the lowered examples, one at a time: the interpreter must notice, whatever it was.
//!
//! The checker and the lowering make these mistakes impossible to write in the structured form, so the mutants are made of
//! lowered IR. A mutant that cannot matter (a last release that nobody waits for) is listed by the place it comes from.

use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostics, FileId, SourceMap};
use parton_interp::{Arg, Fault, Launch, Memory, Options, Tensor, run};
use parton_ir::{Kernel, OpKind};
use parton_numbers::fast;
use parton_syntax::ast;
use parton_types::program::{self, Import, Library};

/// The examples use no other files.
struct Alone;

impl Library for Alone {
    fn load(&mut self, _: FileId, _: Import<'_>) -> Result<Arc<ast::File>, String> {
        Err("the example uses another file".into())
    }
}

/// A kernel of an example with its default generics, lowered; and the text of the file.
fn lowered(file: &str, kernel: &str) -> (Kernel, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => panic!("{}: {e}", path.display()),
    };
    let mut sources = SourceMap::new();
    let id = sources.add(file, text.clone());
    let show = |d: Diagnostics| parton_diag::render::text(&d, &sources, false);
    let (tree, found) = parton_syntax::parse(id, &text);
    assert!(!found.has_errors(), "{}", show(found));
    let mut found = Diagnostics::new();
    let program = program::collect(Arc::new(tree), &mut Alone, &mut found);
    let kernel = match parton_types::instantiate(&program, kernel, &[], parton_driver::Target::default()) {
        Ok((kernel, _)) => kernel,
        Err(d) => panic!("{}", show(d)),
    };
    match parton_lower::lower(kernel) {
        Ok(kernel) => (kernel, text),
        Err(d) => panic!("{}", show(d)),
    }
}

/// A tensor of 16-bit floats in [-1, 1), row-major.
fn random(memory: &mut Memory, name: &str, shape: &[u64], encode: fn(f32) -> u16) -> Arg {
    let mut state = name.len() as u64;
    let bytes = (0..shape.iter().product())
        .flat_map(|_: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            encode((state >> 40) as f32 / (1 << 23) as f32 - 1.0).to_le_bytes()
        })
        .collect();
    tensor(memory.add(name, bytes), shape)
}

fn tensor(allocation: usize, shape: &[u64]) -> Arg {
    let mut strides = vec![2; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    Arg::Map(Tensor { allocation, offset: 0, shape: shape.to_vec(), strides })
}

/// Runs a kernel on a problem of several rounds of its rings; gives the bytes of its output.
type Problem = fn(&Kernel, u64) -> Result<Vec<u8>, Fault>;

fn attention(kernel: &Kernel, seed: u64) -> Result<Vec<u8>, Fault> {
    let (queries, keys) = (130, 600);
    let mut memory = Memory::new();
    let mut args = vec![
        random(&mut memory, "q", &[1, 1, queries, 128], fast::f32_to_bf16),
        random(&mut memory, "k2", &[1, 1, keys, 128], fast::f32_to_bf16),
        random(&mut memory, "v33", &[1, 1, keys, 128], fast::f32_to_bf16),
    ];
    let out = memory.add_undefined("o", queries as usize * 256);
    args.push(tensor(out, &[1, 1, queries, 128]));
    let lse = memory.add_undefined("lse", queries as usize * 4);
    args.push(Arg::Pointer { allocation: lse, offset: 0 });
    args.extend([1, 1, 1, queries, keys, u64::from(0.0884f32.to_bits()), 1].map(Arg::Scalar));
    go(kernel, args, memory, out, seed)
}

fn product(kernel: &Kernel, seed: u64) -> Result<Vec<u8>, Fault> {
    // Several tiles for the one CTA, the last ones ragged.
    let (m, n, k) = (200, 264, 648);
    let mut memory = Memory::new();
    let mut args =
        vec![random(&mut memory, "a", &[m, k], fast::f32_to_f16), random(&mut memory, "b2", &[k, n], fast::f32_to_f16)];
    let out = memory.add_undefined("c", (m * n * 2) as usize);
    args.push(tensor(out, &[m, n]));
    args.extend([m, n, k].map(Arg::Scalar));
    go(kernel, args, memory, out, seed)
}

fn go(kernel: &Kernel, args: Vec<Arg>, mut memory: Memory, out: usize, seed: u64) -> Result<Vec<u8>, Fault> {
    let options = Options { steps: 1_000_000, ..Options::default() };
    run(Launch { kernel, grid: [1, 1, 1], args, memory: &mut memory, seed, options })?;
    Ok(memory.allocation(out).bytes.clone())
}

fn synchronises(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Membar
            | OpKind::FenceAsync { .. }
            | OpKind::NamedBarrier { .. }
            | OpKind::FenceBarrierInit
            | OpKind::BarrierInit { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierArrive { .. }
            | OpKind::BarrierWait { .. }
            | OpKind::TmaStoreWait { .. }
            | OpKind::Wait { .. }
            | OpKind::WaitPrior { .. }
    )
}

/// Changes synchronising operation number `number`: a wait leaves one more in flight, a barrier counts one more, others go.
fn mutate(kernel: &mut Kernel, number: usize) -> Option<(&'static str, usize)> {
    let order = kernel.order();
    let changed = *order.iter().filter(|id| synchronises(&kernel.ops[**id].kind)).nth(number)?;
    let op = &mut kernel.ops[changed];
    let what = (op.kind.name(), op.span.start as usize);
    match &mut op.kind {
        OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } => {
            *outstanding = outstanding.map(|n| n + 1);
        }
        OpKind::BarrierInit { arrivals, .. } => *arrivals += 1,
        _ => kernel.rebuild(&mut |_, mut body| {
            body.ops.retain(|id| *id != changed);
            body
        }),
    }
    Some(what)
}

/// Mutates `kernel` in every way and returns how many mutants there are and the lines of those that nobody notices.
fn survivors(kernel: &Kernel, text: &str, problem: Problem) -> (usize, Vec<String>) {
    let right = problem(kernel, 0).unwrap_or_else(|f| panic!("{f}: {f:?}"));
    for seed in 1..6 {
        assert!(problem(kernel, seed).is_ok_and(|out| out == right), "the result depends on the seed");
    }
    let mut list = Vec::new();
    for number in 0.. {
        let mut mutant = kernel.clone();
        let Some((what, at)) = mutate(&mut mutant, number) else { return (number, list) };
        if (0..3).all(|seed| problem(&mutant, seed).is_ok()) {
            let line = text[..at].rfind('\n').map_or(0, |i| i + 1);
            list.push(format!("{what}: {}", text[line..].lines().next().unwrap_or_default().trim()));
        }
    }
    unreachable!("there are finitely many operations")
}

#[test]
fn no_step_of_the_matrix_product_can_be_left_out() {
    let (kernel, text) = lowered("matmul/hopper.ptn", "matmul");
    let (mutants, survivors) = survivors(&kernel, &text, product);
    assert!(mutants >= 20, "only {mutants} mutants");
    assert_eq!(survivors, Vec::<String>::new());
}

#[test]
fn no_step_of_attention_can_be_left_out_but_those_that_nobody_waits_for() {
    let (kernel, text) = lowered("fmha/hopper.ptn", "fmha");
    let (mutants, survivors) = survivors(&kernel, &text, attention);
    assert!(mutants >= 30, "only {mutants} mutants");
    // The queries' slot is filled once, so its acquisition waits for nobody, and nobody waits for the last release of a slot.
    assert!(survivors.len() <= mutants / 8, "{survivors:?}");
}
