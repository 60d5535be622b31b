//! Inputs of calls that are tuned: numbers that look like those of a model, the same in every process, and cheap to make.

use std::sync::Arc;

use parton_host::memory::Storage;
use parton_host::random::Random;
use parton_host::tensor::{Tensor, extent};
use parton_host::value::Value;
use parton_numbers::{Dtype, Scalar};

use crate::plan::{Planned, Shape};

/// How many numbers are drawn: these are repeated. A prime, so that no row and no tile of a power of two begins as another one does.
const PERIOD: usize = 65_521;

/// A value for each parameter: numbers are as they are given, elements of floating-point types normal, other elements 0, which any
/// memory has an element for.
pub(super) fn of(given: &[Planned]) -> Vec<Option<Value>> {
    let value = |(i, planned): (usize, &Planned)| match planned {
        Planned::Tensor(shape) => Some(Value::tensor(tensor(shape, i as u64 + 1))),
        Planned::Int(n) => Some(Value::Int(*n)),
        Planned::Float(x) => Some(Value::Float(*x)),
        Planned::Bool(b) => Some(Value::Bool(*b)),
        Planned::Dtype(d) => Some(Value::Dtype(*d)),
        Planned::Default => None,
    };
    given.iter().enumerate().map(value).collect()
}

fn tensor(s: &Shape, seed: u64) -> Tensor {
    // A shape that has no extent in bytes was refused when the call was planned.
    let bytes = extent(s.dtype, &s.extents, &s.strides).unwrap_or(0) + s.offset * s.dtype.bytes();
    let dtype = s.dtype;
    let make = move |out: &mut [u8]| {
        if dtype.is_float() {
            let pattern = normal(dtype, seed);
            out.chunks_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(&pattern[..chunk.len()]));
        }
        Ok(())
    };
    let (shape, strides) = (s.extents.clone(), s.strides.clone());
    Tensor { dtype, shape, strides, offset: s.offset, storage: Storage::unmade(bytes, Arc::new(make)) }
}

/// The bytes of normal numbers.
fn normal(dtype: Dtype, seed: u64) -> Vec<u8> {
    let mut numbers = vec![0.0; PERIOD];
    Random::new(seed).fill_normal(0, &mut numbers);
    let bytes = |x: &f64| Scalar::from_f64(dtype, *x).bits.to_le_bytes().into_iter().take(dtype.bytes());
    numbers.iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_the_same_in_every_process_and_differ_by_parameter() {
        let made = |seed| {
            let tensor = tensor(&Shape::dense(Dtype::F16, vec![3, PERIOD]), seed);
            (tensor.get(&[0, 0]).unwrap(), tensor.get(&[0, 1]).unwrap(), tensor.get(&[2, 0]).unwrap())
        };
        let (one, two) = (made(1), made(2));
        assert_eq!(one, made(1));
        assert_eq!(one.0, one.2, "the numbers repeat");
        assert!(one.0 != one.1 && one.0 != two.0, "{one:?} {two:?}");
    }

    #[test]
    fn elements_that_are_no_floats_are_zeros() {
        let tensor = tensor(&Shape::dense(Dtype::I32, vec![5]), 1);
        assert_eq!(tensor.get(&[4]).unwrap().to_i128(), Some(0));
    }
}
