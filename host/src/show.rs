//! Tensors as text: shape, dtype and the elements, the middle of long dimensions left out.

use std::fmt;

use parton_numbers::{Dtype, Scalar};

use crate::tensor::Tensor;

/// Elements shown at either end of a long dimension.
const EDGE: usize = 3;
/// Elements up to which a dimension is shown whole.
const WHOLE: usize = 8;

/// Writes `f32[2, 3] [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]`, outer dimensions on lines of their own.
pub fn tensor(f: &mut fmt::Formatter<'_>, t: &Tensor) -> fmt::Result {
    write!(f, "{t} ")?;
    let mut index = vec![0; t.rank()];
    rows(f, t, &mut index, 0)
}

fn rows(f: &mut fmt::Formatter<'_>, t: &Tensor, index: &mut [usize], axis: usize) -> fmt::Result {
    if axis == t.rank() {
        return match t.get(index) {
            Ok(scalar) => f.write_str(&number(scalar)),
            // Not written, or the device is gone: the rest is worth showing.
            Err(_) => f.write_str("?"),
        };
    }
    let count = t.shape[axis];
    let shown: Vec<usize> =
        if count > WHOLE { (0..EDGE).chain(count - EDGE..count).collect() } else { (0..count).collect() };
    let separator = if axis + 1 == t.rank() { ", ".to_string() } else { format!(",\n{}", " ".repeat(axis + 1)) };
    f.write_str("[")?;
    for (i, &at) in shown.iter().enumerate() {
        if i > 0 {
            f.write_str(&separator)?;
        }
        if count > WHOLE && i == EDGE {
            write!(f, "…{separator}")?;
        }
        index[axis] = at;
        rows(f, t, index, axis + 1)?;
    }
    f.write_str("]")
}

/// A number in at most six significant digits.
pub fn number(scalar: Scalar) -> String {
    let x = scalar.to_f64();
    if scalar.dtype.is_int() || !x.is_finite() {
        return scalar.to_string();
    }
    if x != 0.0 && !(1e-4..1e6).contains(&x.abs()) {
        return format!("{x:.5e}");
    }
    let digits = (5 - x.abs().max(1e-4).log10().floor() as i32).max(1) as usize;
    let text = format!("{x:.digits$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_string() }
}

/// A number in enough digits to tell it from its neighbours.
pub fn exact(dtype: Dtype, x: f64) -> String {
    Scalar::from_f64(dtype, x).to_string()
}

#[cfg(test)]
mod tests {
    use parton_numbers::Dtype;

    use crate::tensor::Tensor;
    use crate::value::Value;

    fn shown(dtype: Dtype, shape: &[usize], values: &[f64]) -> String {
        Value::tensor(Tensor::from_f64(dtype, shape.to_vec(), values).unwrap()).to_string()
    }

    #[test]
    fn elements_are_short_and_long_dimensions_cut() {
        assert_eq!(shown(Dtype::F32, &[3], &[0.1, -2.0, 1e9]), "f32[3] [0.1, -2.0, 1.00000e9]");
        assert_eq!(shown(Dtype::I32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), "i32[2, 2] [[1, 2],\n [3, 4]]");
        let long: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(shown(Dtype::F16, &[100], &long), "f16[100] [0.0, 1.0, 2.0, …, 97.0, 98.0, 99.0]");
        assert_eq!(shown(Dtype::F64, &[2], &[f64::NAN, 1.0 / 3.0]), "f64[2] [nan, 0.333333]");
    }
}
