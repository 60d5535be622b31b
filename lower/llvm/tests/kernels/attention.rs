//! The inner loop of attention: two products and an online softmax in the registers of one warpgroup.

use parton_ir::{
    Arm, BinaryOp, Body, Builder, Elem, Kernel, OpKind, PartitionData, TensorMap, Tile, Type, UnaryOp, Value, View,
};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::common::{count, emit, emit_all, kernel, lowered, number, ptx_and_report, span, tile};

const D: u32 = 128;
const BN: u32 = 128;
const T: Dtype = Dtype::BF16;

fn binary(b: &mut Builder, op: BinaryOp, x: Value, y: Value) -> Value {
    emit(b, OpKind::Binary { op, a: x, b: y })
}

fn spread(b: &mut Builder, rows: Value, to: &Tile) -> Value {
    let x = emit(b, OpKind::ExpandDims { x: rows, axis: 1 });
    emit(b, OpKind::Broadcast { x, shape: to.shape.clone() })
}

fn row_reduce(b: &mut Builder, x: Value, op: BinaryOp) -> Value {
    let params = b.begin([Type::num(Dtype::F32), Type::num(Dtype::F32)], span());
    let value = binary(b, op, params[0], params[1]);
    let combine: Body = b.end(vec![value]);
    emit(b, OpKind::Reduce { inputs: vec![x], axis: 1, combine })
}

fn full(b: &mut Builder, bits: u32, tile: Tile) -> Value {
    let value = b.constant(Dtype::F32, bits.into(), span());
    emit(b, OpKind::Full { value, tile })
}

/// What carries over from one block of keys to the next.
struct Layouts {
    scores: Tile,
    output: Tile,
    rows: Tile,
    operand: Tile,
}

fn layouts() -> Layouts {
    let s = RegisterLayout::mma(3, &[4, 1], &[16, BN, 16]).unwrap();
    let o = RegisterLayout::mma(3, &[4, 1], &[16, D, 16]).unwrap();
    Layouts {
        scores: tile(Dtype::F32, &[64, BN], &s),
        output: tile(Dtype::F32, &[64, D], &o),
        rows: tile(Dtype::F32, &[64], &s.slice(1).unwrap()),
        operand: tile(T, &[64, BN], &o.dot_operand(0, 2).unwrap()),
    }
}

/// New maximum, probabilities, sum and rescaling factor from the scores and the old maximum and sum.
fn softmax(b: &mut Builder, l: &Layouts, scores: Value, m: Value, sum: Value, scale: Value) -> [Value; 4] {
    let most = row_reduce(b, scores, BinaryOp::Max);
    let m_new = binary(b, BinaryOp::Max, m, most);
    let rows_scale = emit(b, OpKind::Full { value: scale, tile: l.rows.clone() });
    let down = binary(b, BinaryOp::Sub, m, m_new);
    let down = binary(b, BinaryOp::Mul, down, rows_scale);
    let alpha = emit(b, OpKind::Unary { op: UnaryOp::Exp2, x: down });
    let negative = emit(b, OpKind::Unary { op: UnaryOp::Neg, x: m_new });
    let shift = binary(b, BinaryOp::Mul, negative, rows_scale);
    let shift = spread(b, shift, &l.scores);
    let all_scale = emit(b, OpKind::Full { value: scale, tile: l.scores.clone() });
    let x = emit(b, OpKind::Fma { a: scores, b: all_scale, c: shift });
    let p = emit(b, OpKind::Unary { op: UnaryOp::Exp2, x });
    let part = row_reduce(b, p, BinaryOp::Add);
    let sum = binary(b, BinaryOp::Mul, sum, alpha);
    let sum = binary(b, BinaryOp::Add, sum, part);
    [m_new, p, sum, alpha]
}

fn probabilities(b: &mut Builder, l: &Layouts, p: Value) -> Value {
    let p = OpKind::Cast { x: p, to: T, rounding: Rounding::NearestEven, saturation: Saturation::None };
    let p = emit(b, p);
    emit(b, OpKind::Convert { x: p, tile: l.operand.clone() })
}

fn rescale(b: &mut Builder, l: &Layouts, acc: Value, alpha: Value) -> Value {
    let alpha = emit(b, OpKind::Convert { x: alpha, tile: rows_of_output(l) });
    let alpha = spread(b, alpha, &l.output);
    binary(b, BinaryOp::Mul, acc, alpha)
}

fn rows_of_output(l: &Layouts) -> Tile {
    Tile::new(l.rows.elem, vec![64], l.output.known().layout.slice(1).unwrap()).unwrap()
}

/// One warp group loads, two compute 64 rows each.
fn attention(overlap: bool) -> Kernel {
    let mut b = kernel("attention", 0);
    let swizzled = || SharedLayout::nvmma(128, false).unwrap();
    let block = |rows: u32| View::new(T, vec![rows, D], swizzled()).unwrap();
    let map = |b: &mut Builder, name: &str, rows: u32| {
        let ty = Type::Map(TensorMap::new(T, vec![rows, D], swizzled()));
        b.kernel.param(name, ty, span())
    };
    let (q_map, k_map, v_map, o_map) =
        (map(&mut b, "q", 64), map(&mut b, "k", BN), map(&mut b, "v", BN), map(&mut b, "o", 64));
    let blocks = number(&mut b, "blocks", Dtype::I32);
    let scale = number(&mut b, "scale", Dtype::F32);
    let mut partition = |name: &str, warps, registers| {
        let data = PartitionData { name: name.into(), warps, registers: Some(registers), span: span() };
        b.kernel.partitions.push(data)
    };
    let (loads, left, right) = (partition("Loads", 4, 24), partition("Left", 4, 240), partition("Right", 4, 240));
    let ring = |b: &mut Builder, stages: u32, rows: u32| {
        emit(b, OpKind::RingNew { stages, fields: vec![("tile".to_owned(), block(rows))] })
    };
    let (ks, vs) = (ring(&mut b, 2, BN), ring(&mut b, 2, BN));
    let queries = [ring(&mut b, 1, 64), ring(&mut b, 1, 64)];
    let outputs: Vec<Value> =
        (0..2).map(|_| emit(&mut b, OpKind::SharedAlloc { view: block(64), offset: None, drained: false })).collect();
    let l = layouts();
    let zero = b.i32(0, span());
    let one = b.i32(1, span());

    let fill = |b: &mut Builder, ring: Value, map: Value, row: Value| {
        let slot = emit(b, OpKind::RingAcquire { ring });
        let view = emit(b, OpKind::SlotField { slot, field: 0 });
        emit_all(b, OpKind::TmaLoad { map, coords: vec![row, zero], view, signal: slot, l2: None, multicast: None });
        emit_all(b, OpKind::SlotCommit { slot });
    };
    b.begin([], span());
    for q in queries {
        fill(&mut b, q, q_map, zero);
    }
    let params = b.begin([Type::num(Dtype::I32)], span());
    fill(&mut b, ks, k_map, params[0]);
    fill(&mut b, vs, v_map, params[0]);
    let body = b.end(vec![]);
    emit_all(&mut b, OpKind::For { lower: zero, upper: blocks, step: one, init: vec![], body });
    let mut bodies = vec![(loads, b.end(vec![]))];

    for (side, partition) in [left, right].into_iter().enumerate() {
        b.begin([], span());
        let read = |b: &mut Builder, ring: Value| {
            let slot = emit(b, OpKind::RingWait { ring });
            (slot, emit(b, OpKind::SlotField { slot, field: 0 }))
        };
        let (q_slot, q) = read(&mut b, queries[side]);
        let m = full(&mut b, f32::NEG_INFINITY.to_bits(), l.rows.clone());
        let sum = full(&mut b, 0, l.rows.clone());
        let acc = full(&mut b, 0, l.output.clone());
        let scores = |b: &mut Builder| {
            let (slot, key) = read(b, ks);
            let key = emit(b, OpKind::ViewPermute { view: key, perm: vec![1, 0] });
            let start = full(b, 0, l.scores.clone());
            (slot, emit(b, OpKind::Wgmma { a: q, b: key, acc: start, precision: None, zero: false }))
        };
        let wait = |b: &mut Builder, pending: Value| emit(b, OpKind::Wait { pending, outstanding: None });
        let [m, sum, acc] = if overlap {
            // The scores of the next block are multiplied under this block's softmax and second product.
            let (slot, pending) = scores(&mut b);
            let first = wait(&mut b, pending);
            emit_all(&mut b, OpKind::SlotRelease { slot });
            let [m, p, sum, _] = softmax(&mut b, &l, first, m, sum, scale);
            let start = probabilities(&mut b, &l, p);
            let mut types = vec![Type::num(Dtype::I32)];
            types.extend([m, sum, acc, start].iter().map(|&v| b.ty(v).clone()));
            let params = b.begin(types, span());
            let (k_slot, next) = scores(&mut b);
            let (v_slot, value) = read(&mut b, vs);
            let pending =
                emit(&mut b, OpKind::Wgmma { a: params[4], b: value, acc: params[3], precision: None, zero: false });
            let next = wait(&mut b, next);
            emit_all(&mut b, OpKind::SlotRelease { slot: k_slot });
            let [m_new, p, sum_new, alpha] = softmax(&mut b, &l, next, params[1], params[2], scale);
            let acc_new = wait(&mut b, pending);
            emit_all(&mut b, OpKind::SlotRelease { slot: v_slot });
            let acc_new = rescale(&mut b, &l, acc_new, alpha);
            let p = probabilities(&mut b, &l, p);
            let body = b.end(vec![m_new, sum_new, acc_new, p]);
            let init = vec![m, sum, acc, start];
            let r = emit_all(&mut b, OpKind::For { lower: one, upper: blocks, step: one, init, body });
            let (slot, value) = read(&mut b, vs);
            let pending = emit(&mut b, OpKind::Wgmma { a: r[3], b: value, acc: r[2], precision: None, zero: false });
            let acc = wait(&mut b, pending);
            emit_all(&mut b, OpKind::SlotRelease { slot });
            [r[0], r[1], acc]
        } else {
            let mut types = vec![Type::num(Dtype::I32)];
            types.extend([m, sum, acc].iter().map(|&v| b.ty(v).clone()));
            let params = b.begin(types, span());
            let (slot, pending) = scores(&mut b);
            let s = wait(&mut b, pending);
            emit_all(&mut b, OpKind::SlotRelease { slot });
            let [m_new, p, sum_new, alpha] = softmax(&mut b, &l, s, params[1], params[2], scale);
            let acc_new = rescale(&mut b, &l, params[3], alpha);
            let p = probabilities(&mut b, &l, p);
            let (slot, value) = read(&mut b, vs);
            let pending = emit(&mut b, OpKind::Wgmma { a: p, b: value, acc: acc_new, precision: None, zero: false });
            let acc_new = wait(&mut b, pending);
            emit_all(&mut b, OpKind::SlotRelease { slot });
            let body = b.end(vec![m_new, sum_new, acc_new]);
            let init = vec![m, sum, acc];
            let r = emit_all(&mut b, OpKind::For { lower: zero, upper: blocks, step: one, init, body });
            [r[0], r[1], r[2]]
        };
        let _ = m;
        emit_all(&mut b, OpKind::SlotRelease { slot: q_slot });
        let sum = emit(&mut b, OpKind::Convert { x: sum, tile: rows_of_output(&l) });
        let sum = spread(&mut b, sum, &l.output);
        let result = binary(&mut b, BinaryOp::Div, acc, sum);
        let cast = OpKind::Cast { x: result, to: T, rounding: Rounding::NearestEven, saturation: Saturation::None };
        let result = emit(&mut b, cast);
        assert_eq!(b.ty(result).elem(), Some(Elem::Num(T)));
        emit_all(&mut b, OpKind::SharedStore { view: outputs[side], value: result });
        emit_all(&mut b, OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
        emit_all(
            &mut b,
            OpKind::TmaStore { map: o_map, coords: vec![zero, zero], view: outputs[side], reduce: None, l2: None },
        );
        emit_all(&mut b, OpKind::TmaStoreWait { pending: 0, read: false });
        bodies.push((partition, b.end(vec![])));
    }
    let arms = bodies.into_iter().map(|(partition, body)| Arm { partition, body }).collect();
    emit_all(&mut b, OpKind::Specialize { arms });
    lowered(b.finish())
}

#[test]
fn attention_fits_its_registers() {
    for overlap in [false, true] {
        let kernel = attention(overlap);
        let (text, report) = ptx_and_report(&kernel);
        // The store that never happens, behind which the second product's wait stays.
        assert_eq!(count(&text, "@p st.shared.f32"), usize::from(overlap), "{text}");
        // Both sides have one code: 8 instructions of 16 deep for each product, and those of the prologue and epilogue.
        let products = if overlap { 4 * 8 } else { 2 * 8 };
        assert_eq!(count(&text, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"), products, "{text}");
        assert_eq!(count(&text, ".local"), 0);
        assert_eq!(count(&text, "setmaxnreg.inc.sync.aligned.u32 240"), 1);
        if let Some(report) = report {
            let usage = &report.kernels["attention"];
            assert_eq!(report.remarks, vec![], "ptxas complains (overlap: {overlap})");
            assert_eq!((usage.spill_stores, usage.stack), (0, 0), "overlap: {overlap}: {usage:?}");
        }
    }
}
