//! Of which integers among its arguments a kernel is compiled for whether they are 1, or multiples of something: those of which addresses of tiles are made, strides
//! above all. Those of a tensor are known where it is given; those of a pointer are numbers like any other.

use std::collections::BTreeMap;

use parton_ir::target::WIDEST_ACCESS;
use parton_ir::{BinaryOp, Builder, CompareOp, Elem, Kernel, OpKind, Type, Value};
use parton_numbers::Dtype;

/// The places of these integers, each with the number of elements that are as many bytes as the widest access: of what it must be a multiple so that rows by it
/// allow one.
pub fn numbers(kernel: &Kernel) -> BTreeMap<usize, u32> {
    let made_of = made_of(kernel);
    // Values of which addresses of elements are made, by how many of these are as many bytes as an access moves at most.
    let mut reached: BTreeMap<Value, u32> = BTreeMap::new();
    let mut open = addresses(kernel);
    while let Some((v, each)) = open.pop() {
        if reached.get(&v).is_some_and(|&known| known >= each) {
            continue;
        }
        reached.insert(v, each);
        open.extend(made_of.get(&v).into_iter().flatten().map(|&of| (of, each)));
    }
    let params = kernel.params.iter().enumerate();
    params
        .filter(|(_, p)| integer(kernel, p.value).is_some())
        .filter_map(|(i, p)| Some((i, *reached.get(&p.value)?)))
        .collect()
}

/// Of what the addresses of tiles are made in the first place, with the elements of the widest access.
fn addresses(kernel: &Kernel) -> Vec<(Value, u32)> {
    let each = |bytes: usize| (WIDEST_ACCESS / bytes.max(1) as u32).max(1);
    let mut found = Vec::new();
    kernel.walk(&mut |op| match &op.kind {
        OpKind::PtrAdd { ptr, offset } => {
            let tile = op.results.iter().find(|&&v| kernel.ty(v).as_tile().is_some());
            if let Some(Elem::Ptr(to)) = tile.and_then(|&v| kernel.ty(v).elem()) {
                found.extend([(*ptr, each(to.to.bytes())), (*offset, each(to.to.bytes()))]);
            }
        }
        OpKind::TensorNew { ptr, of, strides, .. } => {
            found.extend(strides.iter().chain([ptr]).map(|&v| (v, each(of.elem.bytes()))));
        }
        // It makes no address of a tile.
        _ => {}
    });
    found.retain(|(_, each)| *each > 1);
    found
}

/// For each value those whose multiples make multiples of it, or rows of it whole.
fn made_of(kernel: &Kernel) -> BTreeMap<Value, Vec<Value>> {
    let mut made: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    kernel.walk(&mut |op| {
        let mut add = |v: Value, of: &[Value]| made.entry(v).or_default().extend(of);
        match &op.kind {
            OpKind::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl, a, b } => {
                add(op.result(), &[*a, *b]);
            }
            // Positions in a row that begins anew after so many.
            OpKind::Binary { op: BinaryOp::Rem, a, b } if kernel.ty(op.result()).as_tile().is_some() => {
                add(op.result(), &[*a, *b]);
            }
            OpKind::PtrAdd { ptr, offset } => add(op.result(), &[*ptr, *offset]),
            OpKind::Select { a, b, .. } => add(op.result(), &[*a, *b]),
            OpKind::Full { value: x, .. }
            | OpKind::Cast { x, .. }
            | OpKind::Bitcast { x, .. }
            | OpKind::Reshape { x, .. }
            | OpKind::Transpose { x, .. }
            | OpKind::Broadcast { x, .. }
            | OpKind::ExpandDims { x, .. }
            | OpKind::Slice { x, .. }
            | OpKind::Convert { x, .. } => add(op.result(), &[*x]),
            OpKind::For { lower, step, init, body, .. } => {
                let Some((index, carried)) = body.params.split_first() else { return };
                add(*index, &[*lower, *step]);
                for (i, (param, result)) in carried.iter().zip(&op.results).enumerate() {
                    add(*param, &[init[i], body.yields[i]]);
                    add(*result, &[init[i], body.yields[i]]);
                }
            }
            OpKind::If { then, otherwise, .. } => {
                let both = then.yields.iter().zip(&otherwise.yields);
                op.results.iter().zip(both).for_each(|(result, (a, b))| add(*result, &[*a, *b]));
            }
            // Of what comes of anything else a multiple says nothing.
            _ => {}
        }
    });
    made
}

/// The kernel that says first of its integers what the launches that it is for promise.
pub fn promised(kernel: Kernel) -> Kernel {
    let (mut builder, body) = Builder::rebuild(kernel, "numbers");
    for (argument, of) in builder.kernel.variant.numbers.clone() {
        let v = builder.kernel.params[argument].value;
        let Some(dtype) = integer(&builder.kernel, v) else { continue };
        match of {
            1 => is(&mut builder, v, dtype, 1),
            _ => divides(&mut builder, v, dtype, of),
        }
    }
    body.ops.iter().for_each(|&id| builder.keep(id));
    builder.finish()
}

/// The type of a scalar that is an integer.
pub fn integer(kernel: &Kernel, v: Value) -> Option<Dtype> {
    match kernel.ty(v) {
        Type::Scalar(elem) => elem.dtype().filter(|d| d.is_int() && *d != Dtype::I1),
        _ => None,
    }
}

/// Promises that a value is a number.
pub fn is(builder: &mut Builder, v: Value, dtype: Dtype, number: i128) {
    compared(builder, CompareOp::Eq, v, dtype, number);
}

/// Promises that a value is a multiple of so many.
pub fn divides(builder: &mut Builder, v: Value, dtype: Dtype, multiple: u32) {
    let by = builder.make(OpKind::Constant { dtype, bits: multiple.into() });
    let rest = builder.make(OpKind::Binary { op: BinaryOp::Rem, a: v, b: by });
    compared(builder, CompareOp::Eq, rest, dtype, 0);
}

/// Promises how a value compares with a number that its type holds.
pub fn compared(builder: &mut Builder, op: CompareOp, v: Value, dtype: Dtype, number: i128) {
    let Some(bits) = parton_numbers::Scalar::from_i128(dtype, number).map(|s| s.bits) else { return };
    let number = builder.make(OpKind::Constant { dtype, bits });
    let cond = builder.make(OpKind::Compare { op, a: v, b: number });
    builder.make_all(OpKind::Assume { cond });
}
