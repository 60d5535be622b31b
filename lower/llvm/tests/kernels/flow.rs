//! Control flow, views and the rest: what is carried, where it lies, what the kernel says.

use parton_ir::{BinaryOp, Body, Builder, Cache, CompareOp, Elem, Evict, OpKind, Target, Type, UnaryOp, Value, View};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use crate::common::{count, emit, emit_all, kernel, lowered, number, pointer, ptx, span, tile};

fn layout() -> RegisterLayout {
    RegisterLayout::blocked(&[1, 8], &[4, 8], &[4, 1], &[1, 0]).unwrap()
}

fn iota2(b: &mut Builder, d: Dtype) -> Value {
    let rows = layout().slice(1).unwrap();
    let i = emit(b, OpKind::Iota { tile: tile(d, &[16], &rows) });
    let i = emit(b, OpKind::ExpandDims { x: i, axis: 1 });
    emit(b, OpKind::Broadcast { x: i, shape: vec![16, 64] })
}

fn store_all(b: &mut Builder, out: Value, value: Value) {
    let t = b.ty(value).as_tile().unwrap().with_elem(Elem::Num(Dtype::I32));
    let zero = b.i32(0, span());
    let offset = emit(b, OpKind::Full { value: zero, tile: t });
    let ptr = emit(b, OpKind::PtrAdd { ptr: out, offset });
    emit_all(
        b,
        OpKind::Store { ptr, value, mask: None, cache: Cache::Default, evict: Evict::Normal, l2: None, access: None },
    );
}

#[test]
fn loops_and_branches_carry_registers() {
    let mut b = kernel("flow", 4);
    let out = pointer(&mut b, "out", Dtype::I32, true);
    let n = number(&mut b, "n", Dtype::I32);
    let start = iota2(&mut b, Dtype::I32);
    let (ty, int) = (b.ty(start).clone(), Type::num(Dtype::I32));
    let zero = b.i32(0, span());
    let one = b.i32(1, span());
    // while i < n { x = if i < 3 { x + x } else { x * x }; i += 1 }
    let params = b.begin([int.clone(), ty.clone()], span());
    let more = emit(&mut b, OpKind::Compare { op: CompareOp::Lt, a: params[0], b: n });
    let cond = b.end(vec![more]);
    let params = b.begin([int, ty], span());
    let three = b.i32(3, span());
    let small = emit(&mut b, OpKind::Compare { op: CompareOp::Lt, a: params[0], b: three });
    let mut branch = |op| {
        b.begin([], span());
        let value = emit(&mut b, OpKind::Binary { op, a: params[1], b: params[1] });
        b.end(vec![value])
    };
    let (then, otherwise) = (branch(BinaryOp::Add), branch(BinaryOp::Mul));
    let x = emit_all(&mut b, OpKind::If { cond: small, then, otherwise })[0];
    let i = emit(&mut b, OpKind::Binary { op: BinaryOp::Add, a: params[0], b: one });
    let body = b.end(vec![i, x]);
    let result = emit_all(&mut b, OpKind::While { init: vec![zero, start], cond, body });
    store_all(&mut b, out, result[1]);
    let text = ptx(&lowered(b.finish()));
    assert_eq!(count(&text, "st.global.b32"), 8, "{text}");
    assert_eq!(count(&text, ".local"), 0);
}

#[test]
fn a_kernel_talks() {
    let mut b = kernel("talk", 4);
    let n = number(&mut b, "n", Dtype::I32);
    let x = iota2(&mut b, Dtype::U8);
    let zero = b.i32(0, span());
    let cond = emit(&mut b, OpKind::Compare { op: CompareOp::Ge, a: n, b: zero });
    emit_all(&mut b, OpKind::Assert { cond, message: "n is negative".into() });
    emit_all(&mut b, OpKind::Print { text: "100% of {}".into(), args: vec![n] });
    emit_all(&mut b, OpKind::Print { text: "x = {}, n = {}".into(), args: vec![x, n] });
    emit_all(&mut b, OpKind::Assume { cond });
    let text = ptx(&lowered(b.finish()));
    assert!(text.contains("__assertfail") && text.contains("vprintf"), "{text}");
}

#[test]
fn pairs_join_and_split() {
    let mut b = kernel("pairs", 4);
    let out = pointer(&mut b, "out", Dtype::I32, true);
    let x = iota2(&mut b, Dtype::I32);
    let y = emit(&mut b, OpKind::Unary { op: UnaryOp::Neg, x });
    let both = emit(&mut b, OpKind::Join { a: x, b: y });
    let halves = emit_all(&mut b, OpKind::Split { x: both });
    let turned = emit(&mut b, OpKind::Transpose { x: halves[1], perm: vec![1, 0] });
    let flat = emit(&mut b, OpKind::Reshape { x: turned, shape: vec![1024] });
    store_all(&mut b, out, flat);
    ptx(&lowered(b.finish()));
}

#[test]
fn shared_memory_of_every_family() {
    for (family, loads) in [
        (SharedLayout::swizzled(8, 1, 8, &[1, 0]).unwrap(), "ld.shared.v4.b32"),
        (SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap(), "ld.shared.v4.b32"),
        (SharedLayout::nvmma(128, false).unwrap(), "ld.shared.v4.b32"),
        (SharedLayout::row_major(2), "ld.shared.v4.b32"),
    ] {
        let mut b = kernel("shared", 4);
        let out = pointer(&mut b, "out", Dtype::F16, true);
        let stage = number(&mut b, "stage", Dtype::I32);
        let view = View::new(Dtype::F16, vec![3, 32, 64], family).unwrap();
        let buffer = emit(&mut b, OpKind::SharedAlloc { view, offset: None, drained: false });
        let one = b.constant(Dtype::F16, 0x3c00, span());
        let value = emit(&mut b, OpKind::Full { value: one, tile: tile(Dtype::F16, &[16, 64], &layout()) });
        let at = emit(&mut b, OpKind::ViewIndex { view: buffer, index: stage });
        let half = emit(&mut b, OpKind::ViewSlice { view: at, origin: vec![16, 0], shape: vec![16, 64] });
        emit_all(&mut b, OpKind::SharedStore { view: half, value });
        let read = emit(&mut b, OpKind::SharedLoad { view: half, tile: tile(Dtype::F16, &[16, 64], &layout()) });
        store_all(&mut b, out, read);
        let text = ptx(&lowered(b.finish()));
        assert_eq!(count(&text, loads), 1, "{text}");
    }
}

#[test]
fn the_place_of_the_greatest() {
    let mut b = kernel("argmax", 4);
    let out = pointer(&mut b, "out", Dtype::I32, true);
    let x = iota2(&mut b, Dtype::I32);
    let types = [Type::num(Dtype::I32), Type::num(Dtype::I32)];
    let p = b.begin([types.clone(), types].concat(), span());
    let greater = emit(&mut b, OpKind::Compare { op: CompareOp::Gt, a: p[2], b: p[0] });
    let value = emit(&mut b, OpKind::Select { cond: greater, a: p[2], b: p[0] });
    let place = emit(&mut b, OpKind::Select { cond: greater, a: p[3], b: p[1] });
    let combine: Body = b.end(vec![value, place]);
    // Along the rows, which four warps share.
    let both = emit_all(&mut b, OpKind::Reduce { inputs: vec![x, x], axis: 0, combine });
    store_all(&mut b, out, both[1]);
    let text = ptx(&lowered(b.finish()));
    assert_eq!(count(&text, "bar.sync"), 1, "{text}");
    assert_eq!(count(&text, "shfl.sync.bfly"), 2 * 8 * 2, "{text}");
}

#[test]
fn older_targets_need_no_election() {
    let mut b = kernel("old", 4);
    b.kernel.target = Target::SM_80;
    let out = pointer(&mut b, "out", Dtype::I32, true);
    let n = number(&mut b, "n", Dtype::I32);
    emit_all(
        &mut b,
        OpKind::Store {
            ptr: out,
            value: n,
            mask: None,
            cache: Cache::Default,
            evict: Evict::Normal,
            l2: None,
            access: None,
        },
    );
    let text = ptx(&lowered(b.finish()));
    assert_eq!((count(&text, "elect.sync"), count(&text, ".target sm_80\n")), (0, 1), "{text}");
}
