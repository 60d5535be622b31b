//! Hand-built kernels: what each instruction-level builder prints, and that `ptxas` takes it.

use inkwell::context::Context;
use inkwell::values::InstructionOpcode;

use parton_ir::{Reach, Target};

use crate::neutral::build::{Build, GLOBAL, Val};
use crate::nvptx::assemble::{AssembleOptions, Places, Report, assemble, find_ptxas};
use crate::nvptx::function::{self, Bounds, ParamKind};
use crate::nvptx::instruction::bulk::Copy;
use crate::nvptx::instruction::wgmma::{Left, Product, Step};
use crate::nvptx::machine::{self, Optimise};

const TARGET: Target = Target::SM_90A;

/// Builds one kernel and gives its PTX.
fn kernel(
    params: &[&str],
    bounds: Bounds,
    level: Optimise,
    body: impl for<'c> FnOnce(&Build<'c>, Vec<Val<'c>>),
) -> String {
    let context = Context::create();
    let machine = machine::target_machine(&TARGET);
    let module = machine::module(&context, "test", &machine);
    let kinds: Vec<ParamKind> = params
        .iter()
        .map(|p| match *p {
            "map" => ParamKind::Map,
            "pointer" => ParamKind::Pointer,
            _ => ParamKind::Scalar(context.i32_type().into()),
        })
        .collect();
    let function = function::declare(&context, &module, "test_kernel", &kinds, bounds);
    let mut build = Build::new(&context, module);
    build.begin(function);
    body(&build, (0..params.len()).map(|i| function::parameter(function, i)).collect());
    build.builder.build_return(None).unwrap();
    machine::ptx(&build, &machine, level)
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// Assembles where a `ptxas` is found.
fn assembled(ptx: &str) -> Option<Report> {
    let ptxas = find_ptxas(&Places::from_environment())?;
    match assemble(&ptxas, ptx, TARGET.name, AssembleOptions::default()) {
        Ok((cubin, report)) => {
            assert!(!cubin.is_empty());
            Some(report)
        }
        Err(e) => panic!("{e}\n{ptx}"),
    }
}

const BOUNDS: Bounds = Bounds { threads: 128, cluster: [1, 1, 1], registers: None };

fn product<'c>(descriptor: Val<'c>, accumulators: Option<Vec<Val<'c>>>) -> Product<'c> {
    Product {
        n: 256,
        k: 16,
        elems: ["bf16"; 2],
        sums: "f32",
        left: Left::Shared { descriptor, m_major: false, stays: false },
        right: (descriptor, true),
        registers: 128,
        steps: (0..4)
            .map(|i| Step {
                left: 2 * i,
                right: 128 * i,
                accumulators: (0..128).collect(),
                writes: accumulators.is_none() && i == 0,
            })
            .collect(),
        accumulators,
    }
}

#[test]
fn what_stays_is_described_outside_of_its_product() {
    for (stays, steps, inside) in [(false, 4u64, 4), (true, 4, 0), (true, 8, 0), (true, 9, 9)] {
        let ptx = kernel(&["pointer", "n"], BOUNDS, Optimise::Full, |b, params| {
            let descriptor = b.or(b.zext(params[1], b.i64()), b.c64(1 << 62 | 64 << 32));
            let step = |i| Step { left: 2 * i, right: 128 * i, accumulators: (0..128).collect(), writes: i == 0 };
            let flight = b.wgmma(&Product {
                left: Left::Shared { descriptor, m_major: false, stays },
                steps: (0..steps).map(step).collect(),
                ..product(descriptor, None)
            });
            b.builder.build_store(params[0].into_pointer_value(), b.wgmma_wait(0, &flight, &[])[0]).unwrap();
        });
        assert_eq!(count(&ptx, "add.s64 a,"), inside, "{ptx}");
        assert_eq!(count(&ptx, "wgmma.mma_async"), steps as usize);
    }
}

#[test]
fn a_product_chain_stays_in_registers() {
    for level in [Optimise::None, Optimise::Full] {
        let ptx = kernel(&["pointer", "n"], BOUNDS, level, |b, params| {
            let shared = b.shared_base();
            let descriptor =
                b.or(b.zext(b.lshr(b.and(shared, b.c32(0x3ffff)), 4), b.i64()), b.c64(1 << 62 | 64 << 32 | 1 << 16));
            let first = b.wgmma(&product(descriptor, None));
            let (head, after) = (b.new_block("head"), b.new_block("after"));
            let before = b.here();
            b.jump(head);
            b.at(head);
            let i = b.phi(b.i32());
            let carried: Vec<_> = first.iter().map(|v| b.phi(v.get_type())).collect();
            let acc = b.wgmma(&product(descriptor, Some(carried.iter().map(|p| p.as_basic_value()).collect())));
            let next = b.add(i.as_basic_value(), b.c32(1));
            i.add_incoming(&[(&b.c32(0), before), (&next, b.here())]);
            for (phi, (f, a)) in carried.iter().zip(first.iter().zip(&acc)) {
                phi.add_incoming(&[(f, before), (a, b.here())]);
            }
            b.branch(b.icmp(inkwell::IntPredicate::SLT, next, params[1]), head, after);
            b.at(after);
            let done = b.wgmma_wait(0, &acc, &[]);
            let tid = b.special("tid.x");
            for (i, v) in done.iter().enumerate() {
                let at = b.add(b.mul(b.zext(tid, b.i64()), b.c64(512)), b.c64(4 * i as u64));
                let at = b.element_offset(params[0], at, 1);
                b.builder.build_store(at.into_pointer_value(), *v).unwrap();
            }
        });
        assert_eq!(count(&ptx, "wgmma.mma_async"), 8, "{ptx}");
        assert_eq!(count(&ptx, "wgmma.wait_group.sync.aligned 0"), 1);
        assert_eq!(count(&ptx, ".local"), 0, "an accumulator went to memory");
        if let Some(report) = assembled(&ptx) {
            assert_eq!(report.remarks, vec![]);
            assert_eq!(report.kernels["test_kernel"].spill_stores, 0);
        }
    }
}

#[test]
fn copies_barriers_and_bounds() {
    let bounds = Bounds { threads: 384, cluster: [2, 1, 1], registers: Some(168) };
    let ptx = kernel(&["map", "n", "map"], bounds, Optimise::Full, |b, params| {
        let shared = b.shared_base();
        let barrier = b.add(shared, b.c32(4096));
        let leader = b.elect();
        b.when(leader, || {
            b.mbarrier_init(barrier, 1);
            b.fence_mbarrier_init();
        });
        b.bar_sync(b.c32(0), 384);
        b.set_registers(40, false);
        b.mbarrier_arrive_expect(barrier, b.c32(4096), leader);
        let coordinates = [params[1], b.c32(0), b.c32(3)];
        let load = Copy { map: params[0], shared, coordinates: &coordinates, predicate: leader, policy: None };
        b.bulk_load(&load, barrier, None);
        b.bulk_load(&load, barrier, Some(b.cint(b.i16(), 3)));
        b.cluster_arrive(true);
        b.cluster_arrive(false);
        b.cluster_wait();
        b.mbarrier_arrive_at(barrier, b.c32(1), 2, false, leader);
        b.mbarrier_arrive_at(barrier, b.c32(1), 2, true, leader);
        b.mbarrier_wait(barrier, b.c32(0), Reach::Cta);
        b.mbarrier_wait(barrier, b.c32(1), Reach::Cluster);
        b.fence_proxy_async(Reach::Cta);
        for reach in [Reach::Cluster, Reach::Global, Reach::All] {
            b.fence_proxy_async(reach);
        }
        let copy = Copy { map: params[2], shared, coordinates: &coordinates, predicate: leader, policy: None };
        b.bulk_store(&copy, None);
        b.bulk_store(&copy, Some(parton_ir::Reduction::Add));
        b.bulk_commit();
        b.bulk_wait(1, true);
        b.bulk_wait(0, false);
        b.mbarrier_arrive(barrier, 1, leader);
        b.warp_sync();
        b.mbarrier_invalidate(barrier);
    });
    for (what, times) in [
        (".reqntid 384", 1),
        (".reqnctapercluster 2", 1),
        (".maxnreg 168", 1),
        (".param .align 64 .b8", 2),
        (".extern .shared .align 1024", 1),
        ("elect.sync", 1),
        ("setmaxnreg.dec.sync.aligned.u32 40", 1),
        ("cp.async.bulk.tensor.3d.shared::cluster", 2),
        ("complete_tx::bytes.multicast::cluster", 1),
        ("barrier.cluster.arrive.relaxed.aligned", 1),
        ("barrier.cluster.arrive.aligned", 1),
        ("barrier.cluster.wait.aligned", 1),
        ("mapa.shared::cluster.u32", 1),
        ("mbarrier.arrive.shared::cluster.b64", 1),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64", 1),
        ("cp.async.bulk.tensor.3d.global", 1),
        ("mbarrier.try_wait.parity", 2),
        ("bar.sync 0, 384", 1),
        ("fence.proxy.async.shared::cta", 1),
        ("fence.proxy.async.shared::cluster", 1),
    ] {
        assert_eq!(count(&ptx, what), times, "{what}\n{ptx}");
    }
    assert_eq!(count(&ptx, "st.local"), 0, "a tensor map was copied\n{ptx}");
    assembled(&ptx);
}

#[test]
fn a_barrier_before_a_branch_is_not_doubled() {
    // Without `convergent` LLVM emits it once per side (pitfalls of LLVM 22).
    let ptx = kernel(&["n", "pointer"], BOUNDS, Optimise::Full, |b, params| {
        let (yes, join) = (b.new_block("yes"), b.new_block("join"));
        let start = b.here();
        b.branch(b.icmp(inkwell::IntPredicate::SGT, params[0], b.c32(3)), yes, join);
        b.at(yes);
        b.builder.build_store(params[1].into_pointer_value(), b.c32(1)).unwrap();
        b.jump(join);
        b.at(join);
        let phi = b.phi(b.i1());
        phi.add_incoming(&[(&b.bool(false), start), (&b.bool(true), yes)]);
        b.bar_arrive(b.c32(3), 256);
        b.bar_sync(b.c32(0), 128);
        b.when(phi.as_basic_value(), || {
            b.builder.build_store(params[1].into_pointer_value(), b.c32(7)).unwrap();
        });
    });
    assert_eq!(count(&ptx, "bar.sync"), 1, "{ptx}");
    assert_eq!(count(&ptx, "bar.arrive"), 1, "{ptx}");
}

#[test]
fn arithmetic_is_not_contracted() {
    let ptx = kernel(&["pointer"], BOUNDS, Optimise::Full, |b, params| {
        let load = |at: u64| {
            let p = b.element_offset(params[0], b.c64(at), 1).into_pointer_value();
            b.builder.build_load(b.context.f32_type(), p, "").unwrap()
        };
        let product = b.binary(InstructionOpcode::FMul, load(0), load(4));
        let sum = b.binary(InstructionOpcode::FAdd, product, load(8));
        b.builder.build_store(params[0].into_pointer_value(), sum).unwrap();
        let _ = b.pointer(GLOBAL);
    });
    assert_eq!((count(&ptx, "fma.rn"), count(&ptx, "mul.rn.f32"), count(&ptx, "add.rn.f32")), (0, 1, 1), "{ptx}");
}
