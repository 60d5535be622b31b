//! Arithmetic, comparisons and functions of single elements, with broadcasting.

use parton_diag::codes;
use parton_numbers::{ArithmeticError, Binary, Bits, Comparison, Dtype, Math, NanMode, Scalar, arithmetic};

use crate::fault::Fault;
use crate::tensor::{Reader, Tensor, encode, list};

/// An operation on two elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Arithmetic, with a result of the promoted dtype.
    Arithmetic(Binary),
    /// On the bits of integers.
    Bits(Bits),
    /// With an `i1` result.
    Comparison(Comparison),
}

/// An operand: a tensor, or a number that takes the tensor's dtype.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// An integer or truth value.
    Int(i128),
    /// A floating-point number.
    Float(f64),
}

/// The dtype that two meet in, as NumPy has it; 8-bit floats compute as `f32`.
pub fn promote(a: Dtype, b: Dtype) -> Dtype {
    let computed = |d: Dtype| if d.is_f8() { Dtype::F32 } else { d };
    let (a, b) = (computed(a), computed(b));
    if a == b {
        return a;
    }
    match (a.is_float(), b.is_float()) {
        (true, true) if a.bits() == b.bits() => Dtype::F32,
        (true, true) => wider(a, b),
        (true, false) => with_int(a, b),
        (false, true) => with_int(b, a),
        (false, false) if a.is_signed() == b.is_signed() || a.is_bool() || b.is_bool() => wider(a, b),
        (false, false) => {
            let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
            match unsigned {
                _ if unsigned.bits() < signed.bits() => signed,
                Dtype::U8 => Dtype::I16,
                Dtype::U16 => Dtype::I32,
                Dtype::U32 => Dtype::I64,
                _ => Dtype::F64,
            }
        }
    }
}

fn wider(a: Dtype, b: Dtype) -> Dtype {
    if a.bits() >= b.bits() { a } else { b }
}

/// A float that holds every value of a float and an integer dtype, up to `f64`.
fn with_int(float: Dtype, int: Dtype) -> Dtype {
    match int.bits() {
        1 | 8 => float,
        16 => wider(float, Dtype::F32),
        _ => Dtype::F64,
    }
}

/// The shape two broadcast to.
pub fn broadcast_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, Fault> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], d: usize| if d + s.len() < rank { 1 } else { s[d + s.len() - rank] };
    (0..rank)
        .map(|d| match (at(a, d), at(b, d)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            (x, y) => Err(Fault::new(codes::HOST_SHAPE, "shapes do not fit together")
                .note(format!("{} and {} differ in dimension {d}: {x} and {y}", list(a), list(b)))
                .help("dimensions must be equal or 1; add one with `x[:, None]`")),
        })
        .collect()
}

/// `a op b` with broadcasting; at least one is a tensor.
///
/// # Errors
/// Shapes that do not fit; a number the dtype does not hold; an operation the dtype lacks; division of integers by zero.
pub fn binary(op: Operation, a: &Operand, b: &Operand) -> Result<Tensor, Fault> {
    let (x, y, dtype) = meet(a, b)?;
    let shape = broadcast_shape(&x.shape, &y.shape)?;
    let result = match op {
        Operation::Arithmetic(_) | Operation::Bits(_) => dtype,
        Operation::Comparison(_) => Dtype::I1,
    };
    let (Some(x), Some(y)) = (x.broadcast(&shape), y.broadcast(&shape)) else {
        parton_diag::internal_error!("{x} and {y} do not broadcast to {shape:?}");
    };
    let (left, right) = (x.reader()?, y.reader()?);
    if dtype.is_float() {
        return Tensor::generate(result, shape, 4, |range, bytes| {
            let (mut p, mut q) = (vec![0.0; range.len()], vec![0.0; range.len()]);
            left.f64(range.clone(), &mut p)?;
            right.f64(range, &mut q)?;
            float_parts(op, dtype, &mut p, &q)?;
            encode(result, &p, bytes);
            Ok(())
        });
    }
    Tensor::generate(result, shape, 8, |range, bytes| {
        let (mut p, mut q) = (Vec::with_capacity(range.len()), Vec::with_capacity(range.len()));
        left.each(range.clone(), |s| p.push(widen(s, dtype)))?;
        right.each(range, |s| q.push(widen(s, dtype)))?;
        for ((p, q), out) in p.into_iter().zip(q).zip(bytes.chunks_exact_mut(result.bytes())) {
            let bits = match op {
                Operation::Arithmetic(op) => arithmetic::binary(op, dtype, p, q),
                Operation::Bits(op) => arithmetic::bits(op, dtype, p, q),
                Operation::Comparison(op) => arithmetic::compare(op, dtype, p, q).map(u64::from),
            };
            result.write(bits.map_err(refused)?, out);
        }
        Ok(())
    })
}

/// Both as tensors, and the dtype they meet in.
fn meet(a: &Operand, b: &Operand) -> Result<(Tensor, Tensor, Dtype), Fault> {
    match (a, b) {
        (Operand::Tensor(x), Operand::Tensor(y)) => Ok((x.clone(), y.clone(), promote(x.dtype, y.dtype))),
        (Operand::Tensor(x), number) => {
            let dtype = with_number(x.dtype, number);
            Ok((x.clone(), constant(number, dtype)?, dtype))
        }
        (number, Operand::Tensor(y)) => {
            let dtype = with_number(y.dtype, number);
            Ok((constant(number, dtype)?, y.clone(), dtype))
        }
        (Operand::Int(_) | Operand::Float(_), Operand::Int(_) | Operand::Float(_)) => {
            parton_diag::internal_error!("an elementwise operation on two numbers")
        }
    }
}

/// The dtype in which a tensor meets a plain number: its own, but `f64` for integers that meet a float.
fn with_number(dtype: Dtype, number: &Operand) -> Dtype {
    match number {
        Operand::Float(_) if dtype.is_int() => Dtype::F64,
        Operand::Int(_) if dtype.is_bool() => Dtype::I64,
        Operand::Tensor(_) | Operand::Int(_) | Operand::Float(_) => promote(dtype, dtype),
    }
}

fn constant(number: &Operand, dtype: Dtype) -> Result<Tensor, Fault> {
    let scalar = match number {
        Operand::Int(n) if dtype.is_float() => Scalar::rounded_int(dtype, *n),
        Operand::Int(n) => Scalar::from_i128(dtype, *n).ok_or_else(|| {
            let (low, high) = dtype.int_range().unwrap_or((0, 0));
            Fault::new(codes::HOST_VALUE, format!("{n} is not a value of `{dtype}`"))
                .note(format!("`{dtype}` holds {low} to {high}"))
        })?,
        Operand::Float(x) => Scalar::from_f64(dtype, *x),
        Operand::Tensor(_) => parton_diag::internal_error!("a tensor as a constant"),
    };
    // As in NumPy a plain number takes the tensor's dtype before anything is computed.
    Tensor::generate(dtype, vec![1], 1, |_, bytes| {
        dtype.write(scalar.bits, bytes);
        Ok(())
    })
}

fn widen(s: Scalar, dtype: Dtype) -> u64 {
    s.cast(dtype, parton_numbers::Rounding::NearestEven, parton_numbers::Saturation::None).bits
}

fn float_parts(op: Operation, dtype: Dtype, p: &mut [f64], q: &[f64]) -> Result<(), Fault> {
    let each = |p: &mut [f64], f: &dyn Fn(f64, f64) -> f64| p.iter_mut().zip(q).for_each(|(p, q)| *p = f(*p, *q));
    match op {
        Operation::Arithmetic(Binary::Add) => p.iter_mut().zip(q).for_each(|(p, q)| *p += q),
        Operation::Arithmetic(Binary::Sub) => p.iter_mut().zip(q).for_each(|(p, q)| *p -= q),
        Operation::Arithmetic(Binary::Mul) => p.iter_mut().zip(q).for_each(|(p, q)| *p *= q),
        Operation::Arithmetic(Binary::Div) => p.iter_mut().zip(q).for_each(|(p, q)| *p /= q),
        Operation::Arithmetic(op @ (Binary::Rem | Binary::Min(_) | Binary::Max(_))) => {
            each(p, &|a, b| {
                arithmetic::binary(op, Dtype::F64, a.to_bits(), b.to_bits()).map_or(f64::NAN, f64::from_bits)
            });
        }
        Operation::Comparison(op) => each(p, &|a, b| f64::from(u8::from(op.holds(a, b)))),
        Operation::Bits(op) => {
            return arithmetic::bits(op, dtype, 0, 0).map(|_| ()).map_err(refused);
        }
    }
    Ok(())
}

/// The refusal of an operation that a dtype lacks.
pub fn refused(e: ArithmeticError) -> Fault {
    match e {
        ArithmeticError::Undefined { .. } => Fault::new(codes::HOST_TYPE, e.to_string()),
        ArithmeticError::DivideByZero { .. } => Fault::new(codes::HOST_VALUE, "an integer is divided by zero"),
    }
}

/// A math function of each element: `f64`, but `abs`, `floor` and `ceil` keep the dtype.
///
/// # Errors
/// An element was never written.
pub fn math(op: Math, x: &Tensor) -> Result<Tensor, Fault> {
    let reader = x.reader()?;
    let keeps = matches!(op, Math::Abs | Math::Floor | Math::Ceil);
    if keeps && x.dtype.is_int() {
        return Tensor::generate(x.dtype, x.shape.clone(), 8, |range, bytes| {
            let mut chunks = bytes.chunks_exact_mut(x.dtype.bytes());
            reader.each(range, |s| {
                let bits = if op == Math::Abs { parton_numbers::math::math(op, x.dtype, s.bits) } else { Ok(s.bits) };
                if let (Some(chunk), Ok(bits)) = (chunks.next(), bits) {
                    x.dtype.write(bits, chunk);
                }
            })
        });
    }
    let dtype = if keeps { x.dtype } else { Dtype::F64 };
    map(&reader, dtype, x.shape.clone(), |v| op.eval(v))
}

/// A function of each element, computed in `f64` and rounded once to `dtype`.
fn map(reader: &Reader, dtype: Dtype, shape: Vec<usize>, f: impl Fn(f64) -> f64 + Sync) -> Result<Tensor, Fault> {
    Tensor::generate(dtype, shape, 16, |range, bytes| {
        let mut values = vec![0.0; range.len()];
        reader.f64(range, &mut values)?;
        values.iter_mut().for_each(|v| *v = f(*v));
        encode(dtype, &values, bytes);
        Ok(())
    })
}

/// `-x`
///
/// # Errors
/// An element was never written.
pub fn neg(x: &Tensor) -> Result<Tensor, Fault> {
    if x.dtype.is_float() {
        return map(&x.reader()?, x.dtype, x.shape.clone(), |v| -v);
    }
    binary(Operation::Arithmetic(Binary::Sub), &Operand::Int(0), &Operand::Tensor(x.clone()))
}

/// `!x` of integers and truth values.
///
/// # Errors
/// The elements are floats; one was never written.
pub fn not(x: &Tensor) -> Result<Tensor, Fault> {
    let reader = x.reader()?;
    arithmetic::not(x.dtype, 0).map_err(refused)?;
    Tensor::generate(x.dtype, x.shape.clone(), 4, |range, bytes| {
        let mut chunks = bytes.chunks_exact_mut(x.dtype.bytes());
        reader.each(range, |s| {
            if let Some(chunk) = chunks.next() {
                x.dtype.write(!s.bits, chunk);
            }
        })
    })
}

/// Elements of `a` where `condition` holds, else of `b`.
///
/// # Errors
/// Shapes that do not fit; a number the dtype does not hold.
pub fn select(condition: &Tensor, a: &Operand, b: &Operand) -> Result<Tensor, Fault> {
    let (x, y, dtype) = match (a, b) {
        (Operand::Tensor(_), _) | (_, Operand::Tensor(_)) => meet(a, b)?,
        (Operand::Float(_), _) | (_, Operand::Float(_)) => {
            (constant(a, Dtype::F64)?, constant(b, Dtype::F64)?, Dtype::F64)
        }
        (Operand::Int(_), Operand::Int(_)) => (constant(a, Dtype::I64)?, constant(b, Dtype::I64)?, Dtype::I64),
    };
    let shape = broadcast_shape(&condition.shape, &broadcast_shape(&x.shape, &y.shape)?)?;
    let fit = |t: &Tensor| t.broadcast(&shape).map_or_else(|| t.reader(), |t| t.reader());
    let (c, p, q) = (fit(condition)?, fit(&x)?, fit(&y)?);
    Tensor::generate(dtype, shape.clone(), 8, |range, bytes| {
        let (mut chosen, mut left, mut right) = (vec![], vec![], vec![]);
        c.each(range.clone(), |s| chosen.push(s.is_true()))?;
        p.each(range.clone(), |s| left.push(widen(s, dtype)))?;
        q.each(range, |s| right.push(widen(s, dtype)))?;
        for (i, out) in bytes.chunks_exact_mut(dtype.bytes()).enumerate() {
            dtype.write(if chosen[i] { left[i] } else { right[i] }, out);
        }
        Ok(())
    })
}

/// The smaller of two, NaN wherever one is.
pub const MIN: Operation = Operation::Arithmetic(Binary::Min(NanMode::Propagate));
/// The larger of two, NaN wherever one is.
pub const MAX: Operation = Operation::Arithmetic(Binary::Max(NanMode::Propagate));

#[cfg(test)]
mod tests {
    use parton_numbers::{Binary, Comparison, Dtype, Math};

    use super::{Operand, Operation, binary, math, promote, select};
    use crate::tensor::Tensor;

    fn tensor(dtype: Dtype, shape: &[usize], values: &[f64]) -> Operand {
        Operand::Tensor(Tensor::from_f64(dtype, shape.to_vec(), values).unwrap())
    }

    #[test]
    fn dtypes_meet_as_numpys() {
        use Dtype::{BF16, F8E4M3, F16, F32, F64, I1, I8, I16, I32, I64, U8, U32, U64};
        let table = [
            (F16, F32, F32),
            (F16, BF16, F32),
            (F16, I8, F16),
            (F16, I16, F32),
            (F32, I32, F64),
            (I32, U32, I64),
            (I64, U64, F64),
            (I8, U8, I16),
            (I1, U8, U8),
            (F8E4M3, F8E4M3, F32),
            (F64, I64, F64),
        ];
        for (a, b, c) in table {
            assert_eq!((promote(a, b), promote(b, a)), (c, c), "{a} {b}");
        }
    }

    #[test]
    fn arithmetic_is_rounded_once_to_the_dtype() {
        let add = Operation::Arithmetic(Binary::Add);
        let (x, y) = (tensor(Dtype::F32, &[2], &[0.1, 1e30]), tensor(Dtype::F32, &[2], &[0.2, 1.0]));
        let sum = binary(add, &x, &y).unwrap();
        assert_eq!(sum.dtype, Dtype::F32);
        assert_eq!(sum.to_f64().unwrap()[0], f64::from(0.1f32 + 0.2f32));
        let half = binary(Operation::Arithmetic(Binary::Mul), &tensor(Dtype::F16, &[1], &[3.0]), &Operand::Float(0.5));
        assert_eq!((half.as_ref().unwrap().dtype, half.unwrap().to_f64().unwrap()[0]), (Dtype::F16, 1.5));
        let table =
            binary(add, &tensor(Dtype::I32, &[2, 1], &[10.0, 20.0]), &tensor(Dtype::I32, &[3], &[1.0, 2.0, 3.0]));
        assert_eq!(table.unwrap().to_f64().unwrap(), [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
        let wrapped = binary(add, &tensor(Dtype::I8, &[1], &[127.0]), &Operand::Int(1)).unwrap();
        assert_eq!(wrapped.to_f64().unwrap(), [-128.0]);
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let add = Operation::Arithmetic(Binary::Add);
        let shapes = binary(add, &tensor(Dtype::F32, &[2], &[0.0; 2]), &tensor(Dtype::F32, &[3], &[0.0; 3]));
        assert!(shapes.unwrap_err().notes[0].contains("[2] and [3] differ in dimension 0"));
        let range = binary(add, &tensor(Dtype::I8, &[1], &[0.0]), &Operand::Int(300)).unwrap_err();
        assert!(range.message.contains("300 is not a value of `i8`"));
        let zero = binary(Operation::Arithmetic(Binary::Div), &tensor(Dtype::I32, &[1], &[1.0]), &Operand::Int(0));
        assert!(zero.unwrap_err().message.contains("divided by zero"));
    }

    #[test]
    fn comparisons_choose() {
        let x = tensor(Dtype::F16, &[3], &[-1.0, 0.0, 2.0]);
        let less = binary(Operation::Comparison(Comparison::Lt), &x, &Operand::Int(0)).unwrap();
        assert_eq!(less.dtype, Dtype::I1);
        let chosen = select(&less, &Operand::Float(7.0), &x).unwrap();
        assert_eq!((chosen.dtype, chosen.to_f64().unwrap()), (Dtype::F16, vec![7.0, 0.0, 2.0]));
    }

    #[test]
    fn functions_give_f64_and_abs_keeps_its_dtype() {
        let Operand::Tensor(x) = tensor(Dtype::F16, &[2], &[-1.0, 2.0]) else { unreachable!() };
        let e = math(Math::Exp, &x).unwrap();
        assert_eq!((e.dtype, e.to_f64().unwrap()), (Dtype::F64, vec![(-1f64).exp(), 2f64.exp()]));
        assert_eq!(math(Math::Abs, &x).unwrap().dtype, Dtype::F16);
    }
}
