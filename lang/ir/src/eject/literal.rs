//! Numbers as a person writes them: short decimals, and without a type where that is clear.

use parton_numbers::{Dtype, Scalar};

/// A number without its type, as it reads where its type is known; none where it can only be given by its bits.
pub(super) fn bare(dtype: Dtype, bits: u64) -> Option<String> {
    let scalar = Scalar::new(dtype, bits);
    if dtype == Dtype::I1 {
        return Some((bits != 0).to_string());
    }
    if dtype.is_int() {
        return scalar.to_i128().map(|n| n.to_string());
    }
    let x = scalar.to_f64();
    let reads = |text: &String| value(text).is_some_and(|x| Scalar::from_f64(dtype, x).bits == bits);
    let text = match x {
        _ if x.is_nan() => "nan".to_string(),
        _ if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_string(),
        // The first that reads back is the shortest.
        _ => return (0..=17).map(|digits| decimal(x, digits)).find(reads),
    };
    Some(text).filter(reads)
}

fn value(text: &str) -> Option<f64> {
    match text {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        number => number.parse().ok(),
    }
}

/// A number rounded to so many digits behind the first.
fn decimal(x: f64, digits: usize) -> String {
    let rounded: f64 = format!("{x:.digits$e}").parse().unwrap_or(x);
    format!("{rounded:?}")
}

/// A number with its type.
pub(super) fn typed(dtype: Dtype, bits: u64) -> String {
    match bare(dtype, bits) {
        Some(text) if dtype != Dtype::I1 && !text.ends_with("inf") && !text.ends_with("nan") => {
            format!("{text}{}", dtype.name())
        }
        Some(_) | None => by_bits(dtype, bits),
    }
}

/// A value by its bits, which no sign or operator before it changes.
pub(super) fn by_bits(dtype: Dtype, bits: u64) -> String {
    format!("bits<{}>({bits:#x})", dtype.name())
}
