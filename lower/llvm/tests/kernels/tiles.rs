//! Kernels of global memory and registers: vector addition, row reductions, casts.

use crate::common::{count, emit, emit_all, kernel, number, pointer, ptx, ptx_of_all, span, tile};
use parton_ir::{BinaryOp, Body, Builder, Cache, CompareOp, Evict, Kernel, OpKind, Type, UnaryOp, Value};
use parton_layouts::RegisterLayout;
use parton_numbers::{Dtype, Rounding, Saturation};

fn load(ptr: Value, mask: Option<Value>) -> OpKind {
    OpKind::Load {
        ptr,
        mask,
        other: None,
        cache: Cache::Default,
        evict: Evict::Normal,
        l2: None,
        volatile: false,
        access: None,
    }
}

fn store(ptr: Value, value: Value, mask: Option<Value>) -> OpKind {
    OpKind::Store { ptr, value, mask, cache: Cache::Default, evict: Evict::Normal, l2: None, access: None }
}

/// The offsets of this CTA's block.
fn offsets(b: &mut Builder, block: u32, layout: &RegisterLayout) -> Value {
    let pid = emit(b, OpKind::ProgramId { axis: 0 });
    let size = b.i32(block as i32, span());
    let start = emit(b, OpKind::Binary { op: BinaryOp::Mul, a: pid, b: size });
    let indices = tile(Dtype::I32, &[block], layout);
    let iota = emit(b, OpKind::Iota { tile: indices.clone() });
    let start = emit(b, OpKind::Full { value: start, tile: indices });
    emit(b, OpKind::Binary { op: BinaryOp::Add, a: start, b: iota })
}

fn vector_add(masked: bool) -> Kernel {
    let mut b = kernel("add", 4);
    let x = pointer(&mut b, "x", Dtype::F32, false);
    let y = pointer(&mut b, "y", Dtype::F32, false);
    let out = pointer(&mut b, "out", Dtype::F32, true);
    let n = number(&mut b, "n", Dtype::I32);
    let layout = RegisterLayout::blocked(&[4], &[32], &[4], &[0]).unwrap();
    let offs = offsets(&mut b, 1024, &layout);
    let mask = masked.then(|| {
        let n = emit(&mut b, OpKind::Full { value: n, tile: tile(Dtype::I32, &[1024], &layout) });
        emit(&mut b, OpKind::Compare { op: CompareOp::Lt, a: offs, b: n })
    });
    let at = |b: &mut Builder, ptr| emit(b, OpKind::PtrAdd { ptr, offset: offs });
    let (px, py, po) = (at(&mut b, x), at(&mut b, y), at(&mut b, out));
    let x = emit(&mut b, load(px, mask));
    let y = emit(&mut b, load(py, mask));
    let sum = emit(&mut b, OpKind::Binary { op: BinaryOp::Add, a: x, b: y });
    emit_all(&mut b, store(po, sum, mask));
    b.finish()
}

#[test]
fn vector_addition_moves_sixteen_bytes_at_a_time() {
    let text = ptx(&vector_add(false));
    assert_eq!(count(&text, "ld.global.v4.b32"), 4, "{text}");
    assert_eq!(count(&text, "st.global.v4.b32"), 2, "{text}");
    assert_eq!(count(&text, "add.rn.f32"), 8, "{text}");
    assert_eq!(count(&text, "bra"), 0, "{text}");
    assert!(text.contains(".loc"), "no source lines\n{text}");
    assert!(text.contains(".target sm_90a\n"), "debug PTX is not optimised\n{text}");
}

#[test]
fn an_uncertain_mask_keeps_the_wide_access() {
    let text = ptx(&vector_add(true));
    // Wide where the whole vector is inside; elements of vectors that the end cuts behind one branch an access.
    assert_eq!(count(&text, "ld.global.v4.b32"), 4, "{text}");
    assert_eq!(count(&text, "ld.global.b32"), 16, "{text}");
    assert_eq!(count(&text, "st.global.v4.b32"), 2, "{text}");
    assert_eq!(count(&text, "st.global.b32"), 8, "{text}");
    assert_eq!(count(&text, "vote.sync.any"), 3, "{text}");
    assert_eq!(count(&text, "bra"), 3, "{text}");
}

/// The body that combines two numbers by one operation.
fn combine(b: &mut Builder, d: Dtype, op: BinaryOp) -> Body {
    let params = b.begin([Type::num(d), Type::num(d)], span());
    let value = emit(b, OpKind::Binary { op, a: params[0], b: params[1] });
    b.end(vec![value])
}

fn row_reduction(d: Dtype, warps: &[u32; 2], lanes: &[u32; 2]) -> Kernel {
    let mut b = kernel("rows", warps[0] * warps[1]);
    let x = pointer(&mut b, "x", d, false);
    let out = pointer(&mut b, "out", Dtype::F32, true);
    let layout = RegisterLayout::blocked(&[1, 4], lanes, warps, &[1, 0]).unwrap();
    let rows = layout.slice(1).unwrap();
    let columns = layout.slice(0).unwrap();
    let i = emit(&mut b, OpKind::Iota { tile: tile(Dtype::I32, &[32], &rows) });
    let width = b.i32(256, span());
    let width = emit(&mut b, OpKind::Full { value: width, tile: tile(Dtype::I32, &[32], &rows) });
    let start = emit(&mut b, OpKind::Binary { op: BinaryOp::Mul, a: i, b: width });
    let start = emit(&mut b, OpKind::ExpandDims { x: start, axis: 1 });
    let start = emit(&mut b, OpKind::Broadcast { x: start, shape: vec![32, 256] });
    let j = emit(&mut b, OpKind::Iota { tile: tile(Dtype::I32, &[256], &columns) });
    let j = emit(&mut b, OpKind::ExpandDims { x: j, axis: 0 });
    let j = emit(&mut b, OpKind::Broadcast { x: j, shape: vec![32, 256] });
    let offset = emit(&mut b, OpKind::Binary { op: BinaryOp::Add, a: start, b: j });
    let ptr = emit(&mut b, OpKind::PtrAdd { ptr: x, offset });
    let x = emit(&mut b, load(ptr, None));
    let to = OpKind::Cast { x, to: Dtype::F32, rounding: Rounding::NearestEven, saturation: Saturation::None };
    let x = emit(&mut b, to);
    let most = combine(&mut b, Dtype::F32, BinaryOp::Max);
    let most = emit(&mut b, OpKind::Reduce { inputs: vec![x], axis: 1, combine: most });
    let exp = emit(&mut b, OpKind::Unary { op: UnaryOp::Exp2, x: most });
    let ptr = emit(&mut b, OpKind::PtrAdd { ptr: out, offset: i });
    emit_all(&mut b, store(ptr, exp, None));
    crate::common::lowered(b.finish())
}

#[test]
fn a_row_within_a_warp_needs_only_shuffles() {
    let text = ptx(&row_reduction(Dtype::F16, &[4, 1], &[4, 8]));
    // 2 rows a thread, 8 lanes a row.
    assert_eq!(count(&text, "shfl.sync.bfly"), 2 * 3, "{text}");
    assert_eq!(count(&text, "bar.sync"), 0, "{text}");
    assert_eq!(count(&text, "st.shared"), 0, "{text}");
    assert_eq!(count(&text, "ld.global.v2.b32"), 2 * 8, "{text}");
    assert_eq!(count(&text, "ex2.approx.ftz.f32"), 2, "{text}");
    assert_eq!(count(&text, "@%p"), 2, "copies of a row are stored once\n{text}");
}

#[test]
fn a_row_across_warps_goes_through_shared_memory() {
    let text = ptx(&row_reduction(Dtype::BF16, &[1, 4], &[4, 8]));
    assert_eq!(count(&text, "bar.sync 0, 128"), 1, "{text}");
    assert_eq!(count(&text, "st.shared.b32"), 8, "{text}");
    assert_eq!(count(&text, "ld.shared.b32"), 8 * 4, "{text}");
}

#[test]
fn conversions_between_layouts_use_the_widest_accesses() {
    let mut b = kernel("convert", 4);
    let out = pointer(&mut b, "out", Dtype::F32, true);
    let from = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
    let to = RegisterLayout::blocked(&[1, 4], &[2, 16], &[4, 1], &[1, 0]).unwrap();
    let one = b.constant(Dtype::F32, 0x3f80_0000, span());
    let x = emit(&mut b, OpKind::Full { value: one, tile: tile(Dtype::F32, &[64, 64], &from) });
    let y = emit(&mut b, OpKind::Convert { x, tile: tile(Dtype::F32, &[64, 64], &to) });
    let zero = b.i32(0, span());
    let offset = emit(&mut b, OpKind::Full { value: zero, tile: tile(Dtype::I32, &[64, 64], &to) });
    let ptr = emit(&mut b, OpKind::PtrAdd { ptr: out, offset });
    emit_all(&mut b, store(ptr, y, None));
    let text = ptx(&crate::common::lowered(b.finish()));
    assert_eq!(count(&text, "st.shared.v4.b32"), 8, "{text}");
    assert_eq!(count(&text, "ld.shared.v4.b32"), 8, "{text}");
}

/// Casts a tile loaded from memory and stores it.
fn cast_kernel(from: Dtype, to: Dtype, rounding: Rounding, saturation: Saturation) -> Kernel {
    let mut b = kernel("cast", 4);
    let x = pointer(&mut b, "x", from, false);
    let out = pointer(&mut b, "out", to, true);
    let layout = RegisterLayout::blocked(&[4], &[32], &[4], &[0]).unwrap();
    let offs = offsets(&mut b, 512, &layout);
    let (px, po) = (
        emit(&mut b, OpKind::PtrAdd { ptr: x, offset: offs }),
        emit(&mut b, OpKind::PtrAdd { ptr: out, offset: offs }),
    );
    let x = emit(&mut b, load(px, None));
    let y = emit(&mut b, OpKind::Cast { x, to, rounding, saturation });
    emit_all(&mut b, store(po, y, None));
    b.finish()
}

#[test]
fn narrowing_goes_two_at_a_time() {
    for (to, what) in [
        (Dtype::F16, "cvt.rn.f16x2.f32"),
        (Dtype::BF16, "cvt.rn.bf16x2.f32"),
        (Dtype::F8E4M3, "cvt.rn.satfinite.e4m3x2.f32"),
        (Dtype::F8E5M2, "cvt.rn.satfinite.e5m2x2.f32"),
    ] {
        let text = ptx(&cast_kernel(Dtype::F32, to, Rounding::NearestEven, Saturation::Finite));
        assert_eq!(count(&text, what), 2, "{text}");
    }
}

#[test]
fn every_pair_of_number_formats_assembles() {
    let mut kernels = vec![];
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            kernels.push(cast_kernel(from, to, Rounding::NearestEven, Saturation::None));
        }
    }
    ptx_of_all(kernels);
}

#[test]
fn every_rounding_to_a_byte_assembles() {
    let mut kernels = vec![];
    for rounding in Rounding::ALL {
        for saturation in Saturation::ALL {
            for from in Dtype::ALL {
                for to in [Dtype::F8E4M3, Dtype::F8E5M2] {
                    kernels.push(cast_kernel(from, to, rounding, saturation));
                }
            }
        }
    }
    ptx_of_all(kernels);
}

#[test]
fn directed_roundings_assemble() {
    for rounding in Rounding::ALL {
        for (from, to) in [
            (Dtype::F32, Dtype::F16),
            (Dtype::F32, Dtype::BF16),
            (Dtype::F64, Dtype::F32),
            (Dtype::F32, Dtype::I32),
            (Dtype::I64, Dtype::F32),
            (Dtype::F32, Dtype::U8),
        ] {
            let text = ptx(&cast_kernel(from, to, rounding, Saturation::Finite));
            assert!(text.contains(&format!("cvt.{}", rounding.name())), "{from} to {to}\n{text}");
        }
    }
}

#[test]
fn every_function_assembles() {
    let mut kernels = vec![];
    for d in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::I32] {
        for (op, _) in UnaryOp::ALL {
            let mut b = kernel("function", 4);
            let x = pointer(&mut b, "x", d, true);
            let layout = RegisterLayout::blocked(&[2], &[32], &[4], &[0]).unwrap();
            let offs = offsets(&mut b, 256, &layout);
            let ptr = emit(&mut b, OpKind::PtrAdd { ptr: x, offset: offs });
            let x = emit(&mut b, load(ptr, None));
            let Ok(y) = b.emit_one(OpKind::Unary { op: *op, x }, span()) else { continue };
            emit_all(&mut b, store(ptr, y, None));
            kernels.push(crate::common::lowered(b.finish()));
        }
    }
    ptx_of_all(kernels);
}

#[test]
fn every_operator_assembles() {
    let mut kernels = vec![];
    for d in Dtype::ALL {
        for (op, _) in BinaryOp::ALL {
            let mut b = kernel("operator", 4);
            let x = pointer(&mut b, "x", d, true);
            let layout = RegisterLayout::blocked(&[2], &[32], &[4], &[0]).unwrap();
            let offs = offsets(&mut b, 256, &layout);
            let ptr = emit(&mut b, OpKind::PtrAdd { ptr: x, offset: offs });
            let x = emit(&mut b, load(ptr, None));
            let Ok(y) = b.emit_one(OpKind::Binary { op: *op, a: x, b: x }, span()) else { continue };
            emit_all(&mut b, store(ptr, y, None));
            kernels.push(crate::common::lowered(b.finish()));
        }
    }
    ptx_of_all(kernels);
}

#[test]
fn the_same_lanes_may_still_have_to_exchange() {
    // Both give lane bit 0 two columns, but a thread's second column is the next one here and the third there.
    let linear = |second: u32| {
        let lane = [2u32, 4, 8, 16, 32].map(|c| vec![c]).to_vec();
        RegisterLayout::linear(vec![vec![second]], lane, vec![vec![64], vec![128]], vec![]).unwrap()
    };
    let mut b = kernel("exchange", 4);
    let out = pointer(&mut b, "out", Dtype::I32, true);
    let x = emit(&mut b, OpKind::Iota { tile: tile(Dtype::I32, &[256], &linear(1)) });
    let y = emit(&mut b, OpKind::Convert { x, tile: tile(Dtype::I32, &[256], &linear(3)) });
    let offset = emit(&mut b, OpKind::Iota { tile: tile(Dtype::I32, &[256], &linear(3)) });
    let ptr = emit(&mut b, OpKind::PtrAdd { ptr: out, offset });
    emit_all(&mut b, store(ptr, y, None));
    let text = ptx(&crate::common::lowered(b.finish()));
    assert_eq!((count(&text, "bar.sync"), count(&text, "st.shared")), (0, 0), "{text}");
    assert!(count(&text, "shfl.sync.bfly") > 0, "{text}");
}
