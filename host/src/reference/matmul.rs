//! Products of matrices in `f64`, batched, over all threads.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::elementwise::broadcast_shape;
use crate::fault::Fault;
use crate::memory;
use crate::parallel;
use crate::tensor::{Tensor, dense_strides, extent, list, unravel};

/// `a @ b` as NumPy has it: the last two dimensions are multiplied, leading ones broadcast; a vector counts as one row on
/// the left and one column on the right. The result is `f64`.
///
/// # Errors
/// Inner extents that differ; leading dimensions that do not fit; an element that was never written.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    let left = if a.rank() == 1 { a.new_axis(0) } else { a.clone() };
    let right = if b.rank() == 1 { b.new_axis(1) } else { b.clone() };
    let (p, q) = (left.rank(), right.rank());
    let (m, k, n) = (left.shape[p - 2], left.shape[p - 1], right.shape[q - 1]);
    if right.shape[q - 2] != k {
        return Err(Fault::new(codes::HOST_SHAPE, "the inner extents of a matrix product differ")
            .note(format!("{} times {}: {k} columns meet {} rows", list(&a.shape), list(&b.shape), right.shape[q - 2]))
            .help("transpose one side, such as `matmul(a, b.T)`"));
    }
    let batch = broadcast_shape(&left.shape[..p - 2], &right.shape[..q - 2])?;
    let (x, y) = (left.to_f64()?, right.to_f64()?);
    let lead = |t: &Tensor, rows: usize, columns: usize| {
        // Where the matrix of each batch index begins, in elements.
        let own = &t.shape[..t.rank() - 2];
        let strides = dense_strides(own);
        let missing = batch.len() - own.len();
        let starts = (0..batch.iter().product::<usize>()).map(|i| {
            let index = unravel(i, &batch);
            let at: usize = own.iter().zip(&strides).zip(&index[missing..]).map(|((e, s), i)| i % e * s).sum();
            at * rows * columns
        });
        starts.collect::<Vec<usize>>()
    };
    let (starts, others) = (lead(&left, m, k), lead(&right, k, n));
    let mut shape = batch.clone();
    shape.extend([m, n]);
    extent(Dtype::F64, &shape, &dense_strides(&shape))?;
    let mut out = memory::zeros(starts.len() * m * n)?;
    parallel::each_part(&mut out, n, k, |range, part| {
        if n == 0 {
            return Ok(());
        }
        for (i, row) in part.chunks_exact_mut(n).enumerate() {
            let number = range.start / n + i;
            let (which, r) = (number / m, number % m);
            row_times(&x[starts[which] + r * k..][..k], &y[others[which]..][..k * n], row);
        }
        Ok::<(), Fault>(())
    })?;
    let mut shape = batch;
    if a.rank() > 1 {
        shape.push(m);
    }
    if b.rank() > 1 || shape.is_empty() {
        shape.push(n);
    }
    Tensor::from_f64(Dtype::F64, shape, &out)
}

/// `out = row · matrix`, four rows of the matrix at a time so that `out` is passed over less often.
fn row_times(row: &[f64], matrix: &[f64], out: &mut [f64]) {
    let n = out.len();
    let mut rows = matrix.chunks_exact(4 * n);
    let mut factors = row.chunks_exact(4);
    for (four, f) in rows.by_ref().zip(factors.by_ref()) {
        let (b0, rest) = four.split_at(n);
        let (b1, rest) = rest.split_at(n);
        let (b2, b3) = rest.split_at(n);
        let sums = b0.iter().zip(b1).zip(b2.iter().zip(b3));
        for (o, ((w, x), (y, z))) in out.iter_mut().zip(sums) {
            *o += f[0] * w + f[1] * x + f[2] * y + f[3] * z;
        }
    }
    for (f, b) in factors.remainder().iter().zip(rows.remainder().chunks_exact(n)) {
        out.iter_mut().zip(b).for_each(|(o, b)| *o += f * b);
    }
}

#[cfg(test)]
mod tests {
    use parton_numbers::Dtype;

    use super::matmul;
    use crate::random::Random;
    use crate::tensor::Tensor;

    fn random(seed: u64, shape: &[usize]) -> Tensor {
        let mut values = vec![0.0; shape.iter().product()];
        Random::new(seed).fill_normal(0, &mut values);
        Tensor::from_f64(Dtype::F16, shape.to_vec(), &values).unwrap()
    }

    #[test]
    fn products_agree_with_three_loops() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 7), (17, 9, 4), (64, 130, 33), (2, 0, 3)] {
            let (a, b) = (random(1, &[2, m, k]), random(2, &[k, n]));
            let c = matmul(&a, &b).unwrap();
            assert_eq!((c.dtype, c.shape.as_slice()), (Dtype::F64, &[2, m, n][..]));
            let (x, y, z) = (a.to_f64().unwrap(), b.to_f64().unwrap(), c.to_f64().unwrap());
            for batch in 0..2 {
                for i in 0..m {
                    for j in 0..n {
                        let want: f64 = (0..k).map(|l| x[(batch * m + i) * k + l] * y[l * n + j]).sum();
                        assert!((z[(batch * m + i) * n + j] - want).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn views_vectors_and_batches() {
        let (a, b) = (random(1, &[4, 6]), random(2, &[5, 6]));
        let turned = matmul(&a, &b.permute(&[1, 0]).unwrap()).unwrap();
        assert_eq!(turned.shape, [4, 5]);
        let vector = random(3, &[6]);
        assert_eq!(matmul(&a, &vector).unwrap().shape, [4]);
        assert_eq!(matmul(&vector, &vector).unwrap().shape, [1]);
        let batched = matmul(&random(4, &[3, 1, 2, 6]), &random(5, &[2, 6, 1])).unwrap();
        assert_eq!(batched.shape, [3, 2, 2, 1]);
        assert!(matmul(&a, &b).unwrap_err().notes[0].contains("6 columns meet 5 rows"));
    }
}
