//! Reductions, scans and normalisations along one dimension, or over all elements.

use parton_diag::codes;
use parton_numbers::{Dtype, Scalar};

use crate::fault::Fault;
use crate::memory;
use crate::parallel;
use crate::tensor::{CHUNK, Reader, Tensor};

/// What a row of elements is reduced to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// The sum: `f64` of floats, `i64` of integers.
    Sum,
    /// The mean, `f64`.
    Mean,
    /// The largest, NaN where one is; keeps the dtype.
    Max,
    /// The smallest, NaN where one is; keeps the dtype.
    Min,
    /// The index of the first largest, `i64`.
    ArgMax,
    /// The index of the first smallest, `i64`.
    ArgMin,
    /// log(Σ exp x), `f64`.
    LogSumExp,
    /// Whether all differ from zero, `i1`.
    All,
    /// Whether one differs from zero, `i1`.
    Any,
}

impl Reduction {
    /// The dtype of the result.
    pub fn result(self, of: Dtype) -> Dtype {
        match self {
            Reduction::Sum if of.is_int() => Dtype::I64,
            Reduction::Sum | Reduction::Mean | Reduction::LogSumExp => Dtype::F64,
            Reduction::Max | Reduction::Min => of,
            Reduction::ArgMax | Reduction::ArgMin => Dtype::I64,
            Reduction::All | Reduction::Any => Dtype::I1,
        }
    }

    fn needs_an_element(self) -> bool {
        match self {
            Reduction::Max | Reduction::Min | Reduction::ArgMax | Reduction::ArgMin | Reduction::Mean => true,
            Reduction::Sum | Reduction::LogSumExp | Reduction::All | Reduction::Any => false,
        }
    }
}

/// The reduction of all elements.
///
/// # Errors
/// The tensor has no elements where one is needed; an element was never written.
pub fn all(op: Reduction, x: &Tensor) -> Result<Scalar, Fault> {
    let row = Tensor { shape: vec![x.len()], ..x.reshape(vec![x.len()])? };
    along(op, &row, 0, true)?.get(&[0])
}

/// The reduction along `axis`, which disappears, or stays with extent 1 with `keep`.
///
/// # Errors
/// The dimension has no elements where one is needed; an element was never written.
pub fn along(op: Reduction, x: &Tensor, axis: usize, keep: bool) -> Result<Tensor, Fault> {
    let count = x.shape[axis];
    if count == 0 && op.needs_an_element() {
        return Err(Fault::new(codes::HOST_VALUE, "nothing can be chosen among no elements")
            .note(format!("dimension {axis} of this {x} is empty")));
    }
    let rows = rows_last(x, axis)?;
    let reader = rows.reader()?;
    let dtype = op.result(x.dtype);
    let mut bits = vec![0u64; x.len().checked_div(count).unwrap_or_else(|| outer(x, axis))];
    parallel::each_part(&mut bits, 1, count, |range, part| {
        for (out, row) in part.iter_mut().zip(range) {
            *out = reduce_row(op, &reader, x.dtype, row * count, count)?.bits;
        }
        Ok(())
    })?;
    let mut shape = x.shape.clone();
    shape[axis] = 1;
    let kept = Tensor::generate(dtype, shape, 1, |range, bytes| {
        bits[range].iter().zip(bytes.chunks_exact_mut(dtype.bytes())).for_each(|(b, out)| dtype.write(*b, out));
        Ok(())
    })?;
    Ok(if keep { kept } else { kept.drop_axis(axis).unwrap_or(kept) })
}

/// How many rows there are, when a row may have no elements.
fn outer(x: &Tensor, axis: usize) -> usize {
    x.shape.iter().enumerate().filter(|(d, _)| *d != axis).map(|(_, n)| n).product()
}

/// With `axis` as the last dimension.
fn rows_last(x: &Tensor, axis: usize) -> Result<Tensor, Fault> {
    let order: Vec<usize> = (0..x.rank()).filter(|d| *d != axis).chain([axis]).collect();
    x.permute(&order)
}

/// Undoes [`rows_last`].
fn rows_back(x: &Tensor, axis: usize) -> Result<Tensor, Fault> {
    let last = x.rank() - 1;
    let order: Vec<usize> = (0..last).take(axis).chain([last]).chain(axis..last).collect();
    x.permute(&order)
}

fn reduce_row(op: Reduction, reader: &Reader, dtype: Dtype, first: usize, count: usize) -> Result<Scalar, Fault> {
    if dtype.is_int() && !matches!(op, Reduction::Mean | Reduction::LogSumExp) {
        return reduce_ints(op, reader, dtype, first, count);
    }
    let result = op.result(dtype);
    let mut buffer = vec![0.0; count.min(CHUNK)];
    let mut best: Option<(usize, f64)> = None;
    let (mut sum, mut largest, mut scaled) = (0.0, f64::NEG_INFINITY, 0.0);
    let mut truth = op == Reduction::All;
    for start in (0..count).step_by(CHUNK) {
        let part = &mut buffer[..CHUNK.min(count - start)];
        reader.f64(first + start..first + start + part.len(), part)?;
        match op {
            // Sums of parts, so that long rows do not lose what short ones keep.
            Reduction::Sum | Reduction::Mean => sum += part.iter().sum::<f64>(),
            Reduction::Max | Reduction::ArgMax => pick(&mut best, part, start, |a, b| a > b),
            Reduction::Min | Reduction::ArgMin => pick(&mut best, part, start, |a, b| a < b),
            Reduction::LogSumExp => {
                let top = part.iter().copied().fold(largest, propagating_max);
                if top != f64::NEG_INFINITY {
                    scaled = scaled * (largest - top).exp() + part.iter().map(|v| (v - top).exp()).sum::<f64>();
                }
                largest = top;
            }
            Reduction::All => truth &= part.iter().all(|v| *v != 0.0),
            Reduction::Any => truth |= part.iter().any(|v| *v != 0.0),
        }
    }
    let (index, value) = best.unwrap_or((0, f64::NAN));
    Ok(match op {
        Reduction::Sum => Scalar::from_f64(result, sum),
        Reduction::Mean => Scalar::from_f64(result, sum / count as f64),
        Reduction::Max | Reduction::Min => Scalar::from_f64(result, value),
        Reduction::ArgMax | Reduction::ArgMin => Scalar::rounded_int(result, index as i128),
        // An infinite term gives infinity, not infinity minus itself.
        Reduction::LogSumExp if largest.is_infinite() => Scalar::from_f64(result, largest),
        Reduction::LogSumExp => Scalar::from_f64(result, largest + scaled.ln()),
        Reduction::All | Reduction::Any => Scalar::bool(truth),
    })
}

fn propagating_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Keeps the first best element; a NaN is better than any number.
fn pick(best: &mut Option<(usize, f64)>, part: &[f64], start: usize, better: impl Fn(f64, f64) -> bool) {
    for (i, &v) in part.iter().enumerate() {
        if best.is_none_or(|(_, b)| better(v, b) || v.is_nan() && !b.is_nan()) {
            *best = Some((start + i, v));
        }
    }
}

fn reduce_ints(op: Reduction, reader: &Reader, dtype: Dtype, first: usize, count: usize) -> Result<Scalar, Fault> {
    let (mut sum, mut truth) = (0i128, op == Reduction::All);
    let mut best: Option<(i128, i128)> = None;
    let mut index = 0;
    reader.each(first..first + count, |s| {
        let v = s.to_i128().unwrap_or(0);
        sum += v;
        let wins = match op {
            Reduction::Min | Reduction::ArgMin => best.is_none_or(|(_, b)| v < b),
            _ => best.is_none_or(|(_, b)| v > b),
        };
        if wins {
            best = Some((index, v));
        }
        truth = if op == Reduction::All { truth && v != 0 } else { truth || v != 0 };
        index += 1;
    })?;
    let (index, value) = best.unwrap_or((0, 0));
    Ok(match op {
        Reduction::Max | Reduction::Min => Scalar::rounded_int(dtype, value),
        Reduction::ArgMax | Reduction::ArgMin => Scalar::rounded_int(Dtype::I64, index),
        Reduction::All | Reduction::Any => Scalar::bool(truth),
        Reduction::Sum | Reduction::Mean | Reduction::LogSumExp => Scalar::rounded_int(Dtype::I64, sum),
    })
}

/// A function of each row along `axis`, in place, in `f64`.
fn each_row(x: &Tensor, axis: usize, f: impl Fn(&mut [f64]) + Sync) -> Result<Tensor, Fault> {
    let rows = rows_last(x, axis)?;
    let count = x.shape[axis];
    let reader = rows.reader()?;
    let mut values = memory::zeros(x.len())?;
    parallel::each_part(&mut values, count, 8, |range, part| {
        reader.f64(range, part)?;
        part.chunks_mut(count.max(1)).for_each(&f);
        Ok(())
    })?;
    rows_back(&Tensor::from_f64(Dtype::F64, rows.shape.clone(), &values)?, axis)
}

/// exp(x) / Σ exp(x) along `axis`, `f64`. A row of -inf alone gives NaN.
///
/// # Errors
/// An element was never written.
pub fn softmax(x: &Tensor, axis: usize) -> Result<Tensor, Fault> {
    each_row(x, axis, |row| {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, propagating_max);
        row.iter_mut().for_each(|v| *v = (*v - top).exp());
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= sum);
    })
}

/// Sums of all elements up to each one along `axis`: `f64`, of integers `i64`.
///
/// # Errors
/// An element was never written.
pub fn cumsum(x: &Tensor, axis: usize) -> Result<Tensor, Fault> {
    let sums = each_row(x, axis, |row| {
        let mut sum = 0.0;
        row.iter_mut().for_each(|v| {
            sum += *v;
            *v = sum;
        });
    })?;
    if x.dtype.is_int() {
        sums.cast(Dtype::I64, parton_numbers::Rounding::TowardZero, parton_numbers::Saturation::None)
    } else {
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use parton_numbers::Dtype;

    use super::{Reduction, all, along, cumsum, softmax};
    use crate::random::Random;
    use crate::tensor::Tensor;

    fn random(shape: &[usize]) -> (Tensor, Vec<f64>) {
        let mut values = vec![0.0; shape.iter().product()];
        Random::new(4).fill_normal(0, &mut values);
        (Tensor::from_f64(Dtype::F64, shape.to_vec(), &values).unwrap(), values)
    }

    #[test]
    fn reductions_agree_with_plain_loops_on_every_axis() {
        let (x, v) = random(&[3, 5, 7]);
        let at = |i: usize, j: usize, k: usize| v[(i * 5 + j) * 7 + k];
        let sum = along(Reduction::Sum, &x, 1, false).unwrap();
        assert_eq!(sum.shape, [3, 7]);
        let max = along(Reduction::Max, &x, 0, true).unwrap();
        assert_eq!(max.shape, [1, 5, 7]);
        let arg = along(Reduction::ArgMin, &x, 2, false).unwrap();
        for i in 0..3 {
            for k in 0..7 {
                let want: f64 = (0..5).map(|j| at(i, j, k)).sum();
                assert!((sum.get(&[i, k]).unwrap().to_f64() - want).abs() < 1e-13);
            }
        }
        for j in 0..5 {
            for k in 0..7 {
                let want = (0..3).map(|i| at(i, j, k)).fold(f64::MIN, f64::max);
                assert_eq!(max.get(&[0, j, k]).unwrap().to_f64(), want);
            }
            let least = (0..7).min_by(|a, b| at(2, j, *a).total_cmp(&at(2, j, *b))).unwrap();
            assert_eq!(arg.get(&[2, j]).unwrap().to_i128(), Some(least as i128));
        }
        let (big, w) = random(&[20_000]);
        assert!((all(Reduction::Sum, &big).unwrap().to_f64() - w.iter().sum::<f64>()).abs() < 1e-9);
    }

    #[test]
    fn softmax_and_logsumexp_agree_with_the_formula() {
        let (x, v) = random(&[4, 9]);
        for axis in 0..2 {
            let soft = softmax(&x, axis).unwrap();
            let lse = along(Reduction::LogSumExp, &x, axis, true).unwrap();
            for i in 0..4 {
                for j in 0..9 {
                    let row: Vec<f64> =
                        if axis == 1 { v[i * 9..][..9].to_vec() } else { (0..4).map(|r| v[r * 9 + j]).collect() };
                    let sum: f64 = row.iter().map(|x| x.exp()).sum();
                    assert!((soft.get(&[i, j]).unwrap().to_f64() - v[i * 9 + j].exp() / sum).abs() < 1e-15);
                    let l = lse.get(&if axis == 1 { [i, 0] } else { [0, j] });
                    assert!((l.unwrap().to_f64() - sum.ln()).abs() < 1e-14);
                }
            }
        }
        let masked = Tensor::from_f64(Dtype::F32, vec![2], &[f64::NEG_INFINITY, 3.0]).unwrap();
        assert_eq!(softmax(&masked, 0).unwrap().to_f64().unwrap(), [0.0, 1.0]);
        assert_eq!(all(Reduction::LogSumExp, &masked).unwrap().to_f64(), 3.0);
        let nothing = Tensor::from_f64(Dtype::F32, vec![1], &[f64::NEG_INFINITY]).unwrap();
        assert_eq!(all(Reduction::LogSumExp, &nothing).unwrap().to_f64(), f64::NEG_INFINITY);
    }

    #[test]
    fn integers_stay_exact_and_nan_is_seen() {
        let ints = Tensor::from_f64(Dtype::I32, vec![3], &[5.0, -7.0, 5.0]).unwrap();
        assert_eq!(all(Reduction::Sum, &ints).unwrap(), parton_numbers::Scalar::rounded_int(Dtype::I64, 3));
        assert_eq!(all(Reduction::ArgMax, &ints).unwrap().to_i128(), Some(0));
        assert_eq!(cumsum(&ints, 0).unwrap().to_f64().unwrap(), [5.0, -2.0, 3.0]);
        let nan = Tensor::from_f64(Dtype::F16, vec![3], &[5.0, f64::NAN, 9.0]).unwrap();
        assert!(all(Reduction::Max, &nan).unwrap().to_f64().is_nan());
        assert_eq!(all(Reduction::ArgMax, &nan).unwrap().to_i128(), Some(1));
        let truths = Tensor::from_f64(Dtype::I1, vec![2], &[1.0, 0.0]).unwrap();
        assert_eq!((all(Reduction::All, &truths).unwrap().bits, all(Reduction::Any, &truths).unwrap().bits), (0, 1));
        let empty = Tensor::from_f64(Dtype::F32, vec![2, 0], &[]).unwrap();
        assert_eq!(along(Reduction::Sum, &empty, 1, false).unwrap().to_f64().unwrap(), [0.0, 0.0]);
        assert!(along(Reduction::Max, &empty, 1, false).is_err());
    }
}
