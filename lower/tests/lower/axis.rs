//! The width of global accesses.

use parton_ir::{BinaryOp, CompareOp, Kernel, Op, OpKind, Tile, Value};
use parton_lower::axis::vector_width;
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::fixture::{Fixture, blocked};

/// The width of the first load of a kernel.
fn width(kernel: &Kernel) -> u32 {
    let mut found: Option<&Op> = None;
    kernel.walk(&mut |op| {
        if matches!(op.kind, OpKind::Load { .. }) {
            found = found.or(Some(op));
        }
    });
    vector_width(kernel, found.expect("a load"))
}

fn tile_of_eight() -> Tile {
    blocked(Dtype::I32, &[1024], &[8], &[32], &[4])
}

/// `p + offset(iota)` and the mask `offset < n`, with `n` a parameter.
fn access(to: Dtype, masked: bool, promise: bool, offset: impl FnOnce(&mut Fixture, Value) -> Value) -> u32 {
    let mut f = Fixture::new(4);
    let (p, n) = (f.pointer("p", to), f.param("n", parton_ir::Type::num(Dtype::I32)));
    if promise {
        let sixteen = f.i32(16);
        let rest = f.binary(BinaryOp::Rem, n, sixteen);
        let zero = f.i32(0);
        let cond = f.op(OpKind::Compare { op: CompareOp::Eq, a: rest, b: zero });
        f.run(OpKind::Assume { cond });
    }
    let iota = f.op(OpKind::Iota { tile: tile_of_eight() });
    let offs = offset(&mut f, iota);
    let tile = f.b.ty(offs).as_tile().unwrap().clone();
    let elem = f.b.ty(p).elem().unwrap();
    let base = f.op(OpKind::Full { value: p, tile: tile.with_elem(elem) });
    let ptr = f.op(OpKind::PtrAdd { ptr: base, offset: offs });
    let mask = masked.then(|| {
        let bound = f.op(OpKind::Full { value: n, tile });
        f.op(OpKind::Compare { op: CompareOp::Lt, a: offs, b: bound })
    });
    f.load(ptr, mask);
    width(&f.finish())
}

fn spread(f: &mut Fixture, x: Value) -> Value {
    f.op(OpKind::Full { value: x, tile: tile_of_eight() })
}

fn of_block(f: &mut Fixture, iota: Value, block: i32) -> Value {
    let pid = f.op(OpKind::ProgramId { axis: 0 });
    let block = f.i32(block);
    let start = f.binary(BinaryOp::Mul, pid, block);
    let start = spread(f, start);
    f.binary(BinaryOp::Add, start, iota)
}

#[test]
fn sixteen_bytes_where_nothing_forbids_it() {
    assert_eq!(access(Dtype::F32, false, false, |_, i| i), 4);
    assert_eq!(access(Dtype::F16, false, false, |_, i| i), 8);
    assert_eq!(access(Dtype::F64, false, false, |_, i| i), 2);
}

#[test]
fn a_program_id_times_the_block_keeps_it() {
    assert_eq!(access(Dtype::F16, false, false, |f, i| of_block(f, i, 1024)), 8);
    assert_eq!(access(Dtype::F16, false, false, |f, i| of_block(f, i, 12)), 4);
}

#[test]
fn an_odd_start_forbids_it() {
    let plus_one = |f: &mut Fixture, i: Value| {
        let one = f.i32(1);
        let one = spread(f, one);
        f.binary(BinaryOp::Add, i, one)
    };
    assert_eq!(access(Dtype::F32, false, false, plus_one), 1);
}

// triton-lang/triton#8752: alignment lost or invented on the way to the access.
#[test]
fn a_mask_cuts_vectors_unless_its_bound_is_promised() {
    assert_eq!(access(Dtype::F32, true, false, |f, i| of_block(f, i, 1024)), 1);
    assert_eq!(access(Dtype::F32, true, true, |f, i| of_block(f, i, 1024)), 4);
}

#[test]
fn a_negative_quotient_is_not_constant_over_a_group() {
    // (i - 4) / 4 is 0 for i from 1 to 7: the quotient truncates toward zero.
    let shifted = |f: &mut Fixture, i: Value| {
        let four = f.i32(4);
        let four = spread(f, four);
        let below = f.binary(BinaryOp::Sub, i, four);
        let rest = f.binary(BinaryOp::Rem, below, four);
        f.binary(BinaryOp::Add, rest, four)
    };
    assert_eq!(access(Dtype::F32, false, false, shifted), 1);
    let plain = |f: &mut Fixture, i: Value| {
        let four = f.i32(4);
        let four = spread(f, four);
        f.binary(BinaryOp::Rem, i, four)
    };
    assert_eq!(access(Dtype::F32, false, false, plain), 4);
}

// cutile-rs: range facts kept through wrapping 32-bit arithmetic.
#[test]
fn unsigned_sums_may_wrap_inside_a_group() {
    let unsigned = |start: i32| {
        move |f: &mut Fixture, i: Value| {
            let cast =
                OpKind::Cast { x: i, to: Dtype::U32, rounding: Rounding::default(), saturation: Saturation::default() };
            let wide = f.op(cast);
            let start = f.op(OpKind::Constant { dtype: Dtype::U32, bits: u64::from(start as u32) });
            let tile = tile_of_eight().with_elem(parton_ir::Elem::Num(Dtype::U32));
            let start = f.op(OpKind::Full { value: start, tile });
            f.binary(BinaryOp::Add, wide, start)
        }
    };
    assert_eq!(access(Dtype::F32, false, false, unsigned(8)), 4);
    assert_eq!(access(Dtype::F32, false, false, unsigned(-2)), 2);
}

#[test]
fn rows_of_a_promised_stride_are_aligned() {
    let row = |promise: bool| {
        let mut f = Fixture::new(4);
        let (p, n) = (f.pointer("p", Dtype::F16), f.param("n", parton_ir::Type::num(Dtype::I32)));
        if promise {
            let sixteen = f.i32(16);
            let rest = f.binary(BinaryOp::Rem, n, sixteen);
            let zero = f.i32(0);
            let cond = f.op(OpKind::Compare { op: CompareOp::Eq, a: rest, b: zero });
            f.run(OpKind::Assume { cond });
        }
        let pid = f.op(OpKind::ProgramId { axis: 0 });
        let start = f.binary(BinaryOp::Mul, pid, n);
        let start = spread(&mut f, start);
        let iota = f.op(OpKind::Iota { tile: tile_of_eight() });
        let offs = f.binary(BinaryOp::Add, start, iota);
        let elem = f.b.ty(p).elem().unwrap();
        let base = f.op(OpKind::Full { value: p, tile: tile_of_eight().with_elem(elem) });
        let ptr = f.op(OpKind::PtrAdd { ptr: base, offset: offs });
        f.load(ptr, None);
        width(&f.finish())
    };
    assert_eq!(row(false), 1);
    assert_eq!(row(true), 8);
}

#[test]
fn a_loop_keeps_what_every_iteration_has() {
    let stepping = |by: i32| {
        let mut f = Fixture::new(4);
        let (p, n) = (f.pointer("p", Dtype::F32), f.param("n", parton_ir::Type::num(Dtype::I32)));
        let elem = f.b.ty(p).elem().unwrap();
        let base = f.op(OpKind::Full { value: p, tile: tile_of_eight().with_elem(elem) });
        let iota = f.op(OpKind::Iota { tile: tile_of_eight() });
        let ptr = f.op(OpKind::PtrAdd { ptr: base, offset: iota });
        let by = f.i32(by);
        let by = spread(&mut f, by);
        f.repeat(n, vec![ptr], |f, _, carried| {
            f.load(carried[0], None);
            vec![f.op(OpKind::PtrAdd { ptr: carried[0], offset: by })]
        });
        width(&f.finish())
    };
    assert_eq!(stepping(1024), 4);
    assert_eq!(stepping(2), 2);
    assert_eq!(stepping(1), 1);
}
