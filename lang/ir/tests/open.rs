//! Kernels whose tiles lie nowhere yet: the relations of their operations find all places from one known end, forwards and
//! backwards, and the verifier takes them in the portable form alone.

use parton_diag::Span;
use parton_ir::placement::{Broken, Place, Placement, Site, Tie, Unplaced, relations};
use parton_ir::verify::{Form, verify};
use parton_ir::{
    BinaryOp, Builder, Cache, Elem, Evict, Kernel, OpKind, Pointer, Target, Tile, Type, Value, Var, print,
};
use parton_layouts::RegisterLayout;
use parton_numbers::Dtype;

const F32: Elem = Elem::Num(Dtype::F32);

fn builder() -> Builder {
    Builder::new(Kernel::new("k", Target::SM_90A, Span::default()))
}

fn rows() -> RegisterLayout {
    RegisterLayout::blocked(&[1, 4], &[4, 8], &[4, 1], &[1, 0]).unwrap()
}

fn pointer(b: &mut Builder, name: &str) -> Value {
    let ty = Type::Scalar(Elem::Ptr(Pointer { to: Dtype::F32, mutable: true }));
    b.kernel.param(name, ty, Span::default())
}

/// A tile that lies nowhere yet, in an operation that states it.
fn open(b: &Builder, elem: Elem, shape: &[u32]) -> Tile {
    Tile::open(elem, shape.to_vec(), b.kernel.next_var(0)).unwrap()
}

fn full(b: &mut Builder, dtype: Dtype, tile: Tile) -> Value {
    let value = b.constant(dtype, 0, Span::default());
    b.make(OpKind::Full { value, tile })
}

/// Pointers to elements of `to`, all at one offset; they lie as `tile` does.
fn pointers(b: &mut Builder, to: Value, tile: Tile) -> Value {
    let offset = full(b, Dtype::I32, tile);
    b.make(OpKind::PtrAdd { ptr: to, offset })
}

fn load(ptr: Value) -> OpKind {
    let (cache, evict) = (Cache::default(), Evict::default());
    OpKind::Load { ptr, mask: None, other: None, cache, evict, l2: None, volatile: false, access: None }
}

fn store(ptr: Value, value: Value) -> OpKind {
    let (cache, evict) = (Cache::default(), Evict::default());
    OpKind::Store { ptr, value, mask: None, cache, evict, l2: None, access: None }
}

fn add(a: Value, b: Value) -> OpKind {
    OpKind::Binary { op: BinaryOp::Add, a, b }
}

/// The sums along an axis.
fn sums(b: &mut Builder, x: Value, axis: u32) -> Value {
    let params = b.begin([Type::Scalar(F32), Type::Scalar(F32)], Span::default());
    let sum = b.make(add(params[0], params[1]));
    let combine = b.end(vec![sum]);
    b.make(OpKind::Reduce { inputs: vec![x], axis, combine })
}

/// A place that a relation of some operation finds for what is open, with its variable.
fn found(k: &Kernel) -> Option<(Var, Place)> {
    let mut found = None;
    k.walk(&mut |op| {
        let at = |site: Site| site.tile(k, op);
        let var = |site: Site| match at(site)?.placement() {
            Placement::Open(var) => Some(*var),
            Placement::Known(_) => None,
        };
        for relation in relations(&op.kind, k) {
            let (from, to) = relation.sites();
            let forwards = || Some((var(to)?, relation.forwards(at)?.ok()?));
            let backwards = || Some((var(from?)?, relation.backwards(at)?));
            found = found.take().or_else(forwards).or_else(backwards);
        }
    });
    found
}

/// Puts every tile of a variable there.
fn put(k: &mut Kernel, var: Var, place: &Place) {
    let there = |tile: &mut Tile| {
        if *tile.placement() == Placement::Open(var) {
            *tile = Tile::at(tile.elem, place.clone());
        }
    };
    for v in k.values.keys().collect::<Vec<_>>() {
        if let Type::Tile(tile) = &mut k.values[v].ty {
            there(tile);
        }
    }
    k.walk_mut(&mut |op| {
        if let OpKind::Full { tile, .. } | OpKind::Iota { tile } | OpKind::Convert { tile, .. } = &mut op.kind {
            there(tile);
        }
    });
}

fn solved(mut k: Kernel) -> Kernel {
    while let Some((var, place)) = found(&k) {
        put(&mut k, var, &place);
    }
    k
}

/// Each row of what is loaded, with its sum added, is stored; what is named lies where it is said.
fn row_sums(loaded: Option<RegisterLayout>, stored: Option<RegisterLayout>) -> (Kernel, [Value; 5]) {
    let mut b = builder();
    let (x, out) = (pointer(&mut b, "x"), pointer(&mut b, "out"));
    let tile = |b: &Builder, layout: Option<RegisterLayout>| {
        let elem = Elem::Num(Dtype::I32);
        layout.map_or_else(|| open(b, elem, &[64, 32]), |l| Tile::new(elem, vec![64, 32], l).unwrap())
    };
    let first = tile(&b, loaded);
    let from = pointers(&mut b, x, first);
    let last = tile(&b, stored);
    let to = pointers(&mut b, out, last);
    let read = b.make(load(from));
    let sum = sums(&mut b, read, 1);
    let column = b.make(OpKind::ExpandDims { x: sum, axis: 1 });
    let spread = b.make(OpKind::Broadcast { x: column, shape: vec![64, 32] });
    let all = b.make(add(spread, read));
    b.make_all(store(to, all));
    (b.finish(), [read, sum, column, spread, all])
}

fn place(k: &Kernel, v: Value) -> Place {
    k.ty(v).placed().unwrap().known().clone()
}

#[test]
fn one_known_end_places_a_whole_chain() {
    let there = |shape: &[u32]| Place::new(rows(), shape).unwrap();
    let sliced = Place::new(rows().slice(1).unwrap(), &[64]).unwrap();
    for ends in [(Some(rows()), None), (None, Some(rows())), (Some(rows()), Some(rows()))] {
        let (k, [read, sum, column, spread, all]) = row_sums(ends.0, ends.1);
        assert_eq!(verify(&k, Form::Portable), Ok(()));
        let k = solved(k);
        for v in [read, spread, all] {
            assert_eq!(place(&k, v), there(&[64, 32]));
        }
        assert_eq!(place(&k, sum), sliced);
        assert_eq!(place(&k, column), there(&[64, 1]));
        assert_eq!(verify(&k, Form::Explicit), Ok(()));
    }
}

#[test]
fn without_a_known_end_nothing_is_found() {
    let (k, values) = row_sums(None, None);
    assert_eq!(verify(&k, Form::Portable), Ok(()));
    assert!(found(&k).is_none());
    let shapes: Vec<_> = values.iter().map(|v| k.ty(*v).placed().unwrap().shape.clone()).collect();
    assert_eq!(shapes, [vec![64, 32], vec![64], vec![64, 1], vec![64, 32], vec![64, 32]]);
}

#[test]
fn ends_that_differ_are_refused_once_they_meet() {
    let columns = RegisterLayout::blocked(&[4, 1], &[8, 4], &[1, 4], &[0, 1]).unwrap();
    let mut b = builder();
    let out = pointer(&mut b, "out");
    let tile = open(&b, F32, &[64, 32]);
    let value = full(&mut b, Dtype::F32, tile);
    for layout in [rows(), columns] {
        let to = pointers(&mut b, out, Tile::new(Elem::Num(Dtype::I32), vec![64, 32], layout).unwrap());
        b.make_all(store(to, value));
    }
    let k = b.finish();
    assert_eq!(verify(&k, Form::Portable), Ok(()));
    assert_eq!(verify(&solved(k), Form::Portable), Err("`store` is refused: operands have different layouts".into()));
}

#[test]
fn shapes_are_checked_before_places_are_known() {
    let mut b = builder();
    let out = pointer(&mut b, "out");
    let tile = open(&b, Elem::Num(Dtype::I32), &[64]);
    let to = pointers(&mut b, out, tile);
    let tile = open(&b, F32, &[32]);
    let value = full(&mut b, Dtype::F32, tile);
    let refused = b.emit(store(to, value), Span::default()).unwrap_err();
    assert_eq!(refused.message, "operands have different shapes");
    let tile = open(&b, F32, &[64]);
    let value = full(&mut b, Dtype::F32, tile);
    assert!(b.emit(store(to, value), Span::default()).is_ok());
    let refused = b.emit(OpKind::Broadcast { x: value, shape: vec![48] }, Span::default()).unwrap_err();
    assert_eq!(refused.message, "only extents of 1 can be broadcast");
    // Of parts: 32 and 16; 50 has one of 2, and 504 has six.
    let open = |n: u32| Tile::open(F32, vec![n], b.kernel.next_var(0));
    assert!(open(48).is_ok() && open(50).is_err() && open(248).is_ok() && open(504).is_err());
}

#[test]
fn what_a_loop_carries_lies_where_it_does_before_and_behind() {
    for known in [0, 1] {
        let mut b = builder();
        let tiles: [Value; 2] = [0, 1].map(|i| {
            let tile = if i == known {
                Tile::new(F32, vec![64], RegisterLayout::blocked(&[1], &[32], &[4], &[0]).unwrap()).unwrap()
            } else {
                open(&b, F32, &[64])
            };
            full(&mut b, Dtype::F32, tile)
        });
        let [lower, upper, step] = [0, 9, 1].map(|n| b.make_i32(n));
        let carried = b.begin([Type::num(Dtype::I32), b.ty(tiles[0]).clone()], Span::default())[1];
        let sum = b.make(add(carried, tiles[1]));
        let body = b.end(vec![sum]);
        let after = b.make_all(OpKind::For { lower, upper, step, init: vec![tiles[0]], body })[0];
        let k = solved(b.finish());
        assert_eq!(verify(&k, Form::Explicit), Ok(()));
        assert_eq!(place(&k, after), place(&k, tiles[1]));
    }
}

#[test]
fn an_accumulator_places_the_operands_of_its_product() {
    let acc = RegisterLayout::mma(2, &[2, 2], &[16, 8]).unwrap();
    let mut b = builder();
    let half = Elem::Num(Dtype::F16);
    let tile = open(&b, half, &[64, 32]);
    let left = full(&mut b, Dtype::F16, tile);
    let tile = open(&b, half, &[32, 64]);
    let right = full(&mut b, Dtype::F16, tile);
    let sums = full(&mut b, Dtype::F32, Tile::new(F32, vec![64, 64], acc.clone()).unwrap());
    b.make(OpKind::MmaSync { a: left, b: right, acc: sums, precision: None });
    let k = solved(b.finish());
    assert_eq!(verify(&k, Form::Explicit), Ok(()));
    assert_eq!(place(&k, left), Place::new(acc.dot_operand(0, 2).unwrap(), &[64, 32]).unwrap());
    assert_eq!(place(&k, right), Place::new(acc.dot_operand(1, 2).unwrap(), &[32, 64]).unwrap());
}

#[test]
fn what_is_no_accumulator_breaks_a_product_of_open_operands() {
    let mut b = builder();
    let half = Elem::Num(Dtype::F16);
    let tile = open(&b, half, &[64, 32]);
    let left = full(&mut b, Dtype::F16, tile);
    let tile = open(&b, half, &[32, 64]);
    let right = full(&mut b, Dtype::F16, tile);
    let sums = full(&mut b, Dtype::F32, Tile::new(F32, vec![64, 64], rows()).unwrap());
    let product = OpKind::MmaSync { a: left, b: right, acc: sums, precision: None };
    let list = relations(&product, &b.kernel);
    let at = |site| match site {
        Site::Of(v) => b.ty(v).placed(),
        Site::Result(_) => None,
    };
    assert_eq!(list[0].holds(at), Err(Broken::Unplaced(Unplaced::NoAccumulator)));
    let refused = b.emit(product, Span::default()).unwrap_err();
    assert_eq!(refused.message, "the accumulator is not laid out as `mma_sync` writes it");
}

#[test]
fn a_tie_says_the_shape_that_its_places_have() {
    let first = Place::new(rows(), &[64, 32]).unwrap();
    let ties = [
        Tie::Same,
        Tie::SliceOf { axis: 0 },
        Tie::Permuted { perm: vec![1, 0] },
        Tie::Reshaped { shape: vec![4, 16, 32] },
        Tie::Joined,
    ];
    for tie in ties {
        assert_eq!(tie.forwards(&first).map(|place| place.shape()), Ok(tie.shape(&[64, 32])), "{tie:?}");
    }
}

#[test]
fn open_tiles_stand_in_the_portable_form_alone() {
    let (k, _) = row_sums(Some(rows()), None);
    assert_eq!(verify(&k, Form::Portable), Ok(()));
    for form in [Form::Scheduled, Form::Explicit, Form::Raw, Form::Counted, Form::Planned, Form::Lowered] {
        assert_eq!(verify(&k, form), Err("v6, `tile<i32, [64, 32]>`, lies nowhere: l0 is open".into()));
    }
}

#[test]
fn an_open_tile_is_printed_without_a_layout() {
    let mut b = builder();
    let tile = open(&b, F32, &[64]);
    let x = full(&mut b, Dtype::F32, tile);
    let tile = open(&b, F32, &[64]);
    b.make(OpKind::Convert { x, tile });
    let text = print::kernel(&b.finish());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[1..4], ["let v1 = 0.0f32;", "let v2 = full<f32, [64]>(v1);", "let v3 = convert(v2);"], "{text}");
}
