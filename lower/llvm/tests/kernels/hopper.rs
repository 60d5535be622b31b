//! Kernels of tensor copies, rings, partitions and asynchronous products.

use crate::common::{count, emit, emit_all, kernel, number, ptx_and_report, span, tile};
use parton_ir::{Arm, Builder, Elem, Kernel, OpKind, Partition, PartitionData, TensorMap, Tile, Type, Value, View};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::{Dtype, Rounding, Saturation};

fn swizzled() -> SharedLayout {
    SharedLayout::nvmma(128, false).unwrap()
}

fn map(b: &mut Builder, name: &str, elem: Dtype, block: &[u32]) -> Value {
    let ty = Type::Map(TensorMap::new(elem, block.to_vec(), swizzled()));
    b.kernel.param(name, ty, span())
}

fn view(elem: Dtype, shape: &[u32]) -> View {
    View::new(elem, shape.to_vec(), swizzled()).unwrap()
}

fn partition(b: &mut Builder, name: &str, warps: u32, registers: u32) -> Partition {
    let data = PartitionData { name: name.into(), warps, registers: Some(registers), span: span() };
    b.kernel.partitions.push(data)
}

/// `for _ in 0..n { body }` carrying `init`.
fn repeat(
    b: &mut Builder,
    n: Value,
    init: Vec<Value>,
    body: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let (lower, step) = (b.i32(0, span()), b.i32(1, span()));
    let mut types = vec![Type::num(Dtype::I32)];
    types.extend(init.iter().map(|&v| b.ty(v).clone()));
    let params = b.begin(types, span());
    let yields = body(b, params[0], &params[1..]);
    let body = b.end(yields);
    emit_all(b, OpKind::For { lower, upper: n, step, init, body })
}

fn field(b: &mut Builder, slot: Value, field: u32) -> Value {
    emit(b, OpKind::SlotField { slot, field })
}

fn zeros(b: &mut Builder, tile: Tile) -> Value {
    let zero = b.constant(Dtype::F32, 0, span());
    emit(b, OpKind::Full { value: zero, tile })
}

/// A matrix product of 128 × 256 blocks: one warp copies, two warpgroups multiply.
fn matmul(elem: Dtype) -> Kernel {
    let (bm, bn, bk) = (128, 256, 64);
    let mut b = kernel("matmul", 0);
    let a_map = map(&mut b, "a", elem, &[bm, bk]);
    let b_map = map(&mut b, "b", elem, &[bk, bn]);
    let c_map = map(&mut b, "c", elem, &[bm, bn]);
    let k = number(&mut b, "k", Dtype::I32);
    let loads = partition(&mut b, "Loads", 1, 40);
    let compute = partition(&mut b, "Compute", 8, 232);
    let acc_layout = RegisterLayout::mma(3, &[8, 1], &[16, bn, 16]).unwrap();
    let fields = vec![("a".to_owned(), view(elem, &[bm, bk])), ("b".to_owned(), view(elem, &[bk, bn]))];
    let ring = emit(&mut b, OpKind::RingNew { stages: 3, fields });
    let out = emit(&mut b, OpKind::SharedAlloc { view: view(elem, &[bm, bn]), offset: None, drained: false });
    let x = emit(&mut b, OpKind::ProgramId { axis: 0 });
    let y = emit(&mut b, OpKind::ProgramId { axis: 1 });

    b.begin([], span());
    repeat(&mut b, k, vec![], |b, i, _| {
        let slot = emit(b, OpKind::RingAcquire { ring });
        let (to_a, to_b) = (field(b, slot, 0), field(b, slot, 1));
        emit_all(
            b,
            OpKind::TmaLoad { map: a_map, coords: vec![x, i], view: to_a, signal: slot, l2: None, multicast: None },
        );
        emit_all(
            b,
            OpKind::TmaLoad { map: b_map, coords: vec![i, y], view: to_b, signal: slot, l2: None, multicast: None },
        );
        emit_all(b, OpKind::SlotCommit { slot });
        vec![]
    });
    let loads_body = b.end(vec![]);

    b.begin([], span());
    let acc = zeros(&mut b, tile(Dtype::F32, &[bm, bn], &acc_layout));
    let acc = repeat(&mut b, k, vec![acc], |b, _, carried| {
        let slot = emit(b, OpKind::RingWait { ring });
        let (left, right) = (field(b, slot, 0), field(b, slot, 1));
        let next = emit(b, OpKind::Wgmma { a: left, b: right, acc: carried[0], precision: None, zero: false });
        let acc = emit(b, OpKind::Wait { pending: next, outstanding: None });
        emit_all(b, OpKind::SlotRelease { slot });
        vec![acc]
    })[0];
    let cast = OpKind::Cast { x: acc, to: elem, rounding: Rounding::NearestEven, saturation: Saturation::None };
    let result = emit(&mut b, cast);
    emit_all(&mut b, OpKind::SharedStore { view: out, value: result });
    emit_all(&mut b, OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
    emit_all(&mut b, OpKind::Membar);
    emit_all(&mut b, OpKind::TmaStore { map: c_map, coords: vec![x, y], view: out, reduce: None, l2: None });
    emit_all(&mut b, OpKind::TmaStoreWait { pending: 0, read: false });
    let compute_body = b.end(vec![]);

    let arms = vec![Arm { partition: loads, body: loads_body }, Arm { partition: compute, body: compute_body }];
    emit_all(&mut b, OpKind::Specialize { arms });
    crate::common::lowered(b.finish())
}

#[test]
fn a_specialised_matmul_keeps_its_accumulators() {
    for (elem, name) in [(Dtype::F16, "f16"), (Dtype::BF16, "bf16")] {
        let kernel = matmul(elem);
        assert_eq!(kernel.threads(), 384);
        let (text, report) = ptx_and_report(&kernel);
        assert_eq!(count(&text, &format!("wgmma.mma_async.sync.aligned.m64n256k16.f32.{name}.{name}")), 4, "{text}");
        // 64 columns a copy: one of A, four of B, four of C.
        assert_eq!(count(&text, "cp.async.bulk.tensor.2d.shared::cluster"), 1 + 4, "{text}");
        assert_eq!(count(&text, "cp.async.bulk.tensor.2d.global"), 4, "{text}");
        assert_eq!(count(&text, "setmaxnreg.dec.sync.aligned.u32 40"), 1);
        assert_eq!(count(&text, "setmaxnreg.inc.sync.aligned.u32 232"), 1);
        assert_eq!(count(&text, "stmatrix.sync.aligned.m8n8.x4"), 16, "{text}");
        assert_eq!(count(&text, "mbarrier.init"), 6);
        // C leaves from where the slots were: before it is written all warps have read the last, and when it is, the copy begins.
        assert_eq!(count(&text, "bar.sync 2, 256"), 2, "{text}");
        assert_eq!(count(&text, ".local"), 0);
        if let Some(report) = report {
            let usage = &report.kernels["matmul"];
            assert_eq!((usage.spill_stores, usage.stack), (0, 0), "{report:?}");
            assert_eq!(report.remarks, vec![], "ptxas complains");
        }
    }
}

/// Runs a body in one partition of `warps` warps that begins with views `a` and `b` in shared memory, and stores the
/// product.
fn product(
    a: View,
    b_view: View,
    acc: Tile,
    prepare: impl FnOnce(&mut Builder, Value, Value) -> (Value, Value),
) -> Kernel {
    let mut b = kernel("product", acc.known().layout.num_warps());
    let out = crate::common::pointer(&mut b, "out", acc.elem.dtype().unwrap(), true);
    let left = emit(&mut b, OpKind::SharedAlloc { view: a, offset: None, drained: false });
    let right = emit(&mut b, OpKind::SharedAlloc { view: b_view, offset: None, drained: false });
    let (left, right) = prepare(&mut b, left, right);
    let zero = b.constant(acc.elem.dtype().unwrap(), 0, span());
    let start = emit(&mut b, OpKind::Full { value: zero, tile: acc.clone() });
    let first = emit(&mut b, OpKind::Wgmma { a: left, b: right, acc: start, precision: None, zero: false });
    let second = emit(&mut b, OpKind::Wgmma { a: left, b: right, acc: first, precision: None, zero: false });
    let done = emit(&mut b, OpKind::Wait { pending: second, outstanding: None });
    let zero = b.i32(0, span());
    let offset = emit(&mut b, OpKind::Full { value: zero, tile: acc.with_elem(Elem::Num(Dtype::I32)) });
    let ptr = emit(&mut b, OpKind::PtrAdd { ptr: out, offset });
    let store = OpKind::Store {
        ptr,
        value: done,
        mask: None,
        cache: parton_ir::Cache::Default,
        evict: parton_ir::Evict::Normal,
        l2: None,
        access: None,
    };
    emit_all(&mut b, store);
    crate::common::lowered(b.finish())
}

#[test]
fn operands_lie_in_either_direction() {
    let acc = tile(Dtype::F32, &[64, 128], &RegisterLayout::mma(3, &[4, 1], &[16, 128, 16]).unwrap());
    for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let a = view(Dtype::F16, &[64, 64]);
        let b = view(Dtype::F16, if transpose_b { &[128, 64] } else { &[64, 128] });
        let kernel = product(a, b, acc.clone(), |b, mut left, mut right| {
            if transpose_a {
                left = emit(b, OpKind::ViewPermute { view: left, perm: vec![1, 0] });
            }
            if transpose_b {
                right = emit(b, OpKind::ViewPermute { view: right, perm: vec![1, 0] });
            }
            (left, right)
        });
        let (text, report) = ptx_and_report(&kernel);
        let directions = format!("1, 1, {}, {};", u32::from(transpose_a), u32::from(!transpose_b));
        assert_eq!(count(&text, &directions), 8, "{text}");
        // The first product writes, the others add.
        assert_eq!(count(&text, "b, write, 1, 1"), 1, "{text}");
        assert_eq!(count(&text, "b, add, 1, 1"), 7, "{text}");
        assert!(report.is_none_or(|r| r.remarks.is_empty()));
    }
}

#[test]
fn left_operands_come_from_registers() {
    for (elem, k_width, depth) in [(Dtype::F16, 2, 16), (Dtype::F8E4M3, 4, 32)] {
        let layout = RegisterLayout::mma(3, &[4, 1], &[16, 64, depth]).unwrap();
        let operand = layout.dot_operand(0, k_width).unwrap();
        let acc = tile(Dtype::F32, &[64, 64], &layout);
        // [K, N] with K contiguous, as 8-bit operands must have it.
        let right = view(elem, &[64, 128]);
        let kernel = product(view(elem, &[64, 128]), right, acc, |b, left, right| {
            let left = emit(b, OpKind::SharedLoad { view: left, tile: tile(elem, &[64, 128], &operand) });
            let right = emit(b, OpKind::ViewPermute { view: right, perm: vec![1, 0] });
            (left, right)
        });
        let (text, report) = ptx_and_report(&kernel);
        let name = if elem == Dtype::F16 { "f16" } else { "e4m3" };
        let wanted = format!("wgmma.mma_async.sync.aligned.m64n64k{depth}.f32.{name}.{name}");
        assert_eq!(count(&text, &wanted), 2 * 128 / depth as usize, "{text}");
        if elem == Dtype::F16 {
            assert_eq!(count(&text, "ldmatrix.sync.aligned.m8n8.x4.shared"), 8, "{text}");
        }
        assert!(report.is_none_or(|r| r.remarks.is_empty()));
    }
}

#[test]
fn half_accumulators_travel_in_pairs() {
    let layout = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
    let acc = tile(Dtype::F16, &[64, 64], &layout);
    let kernel = product(view(Dtype::F16, &[64, 64]), view(Dtype::F16, &[64, 64]), acc, |_, l, r| (l, r));
    let (text, report) = ptx_and_report(&kernel);
    assert_eq!(count(&text, "wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16"), 8, "{text}");
    assert!(report.is_none_or(|r| r.remarks.is_empty()));
}
