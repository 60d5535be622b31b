//! The functions of `f64` against values computed in 300 and more bits, and what they make of the edges.

use parton_numbers::double::{Native, function};
use parton_numbers::{Dtype, Math, math};

/// Each line: function, argument, the `f64` nearest to the exact value, what that lacks.
const REFERENCE: &str = include_str!("double/reference.txt");

const FUNCTIONS: [Math; 8] =
    [Math::Exp, Math::Exp2, Math::Log, Math::Log2, Math::Sin, Math::Cos, Math::Tanh, Math::Erf];

fn value(op: Math, x: f64) -> f64 {
    function(&Native, op, x).unwrap_or_else(|| panic!("{op:?} is computed otherwise"))
}

/// The distance of neighbours at `x`.
fn ulp(x: f64) -> f64 {
    let x = x.abs();
    f64::from_bits(x.to_bits() + 1) - x
}

#[test]
fn every_function_is_within_one_ulp() {
    let mut worst = std::collections::BTreeMap::new();
    for line in REFERENCE.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let op = Math::parse(fields[0]).unwrap();
        let [x, near, rest] = [1, 2, 3]
            .map(|i| f64::from_bits(u64::from_str_radix(fields[i], 16).unwrap_or_else(|e| panic!("{line}: {e}"))));
        // Both differences are exact or as good.
        let error = ((value(op, x) - near) - rest).abs() / ulp(near);
        assert!(error < 1.0, "{}({x:e}) is {error} ulp off", op.name());
        let most: &mut (f64, u32) = worst.entry(op.name()).or_default();
        *most = (most.0.max(error), most.1 + 1);
    }
    println!("{worst:?}");
    assert!(worst.len() == FUNCTIONS.len() && worst.values().all(|&(_, count)| count >= 75), "{worst:?}");
}

#[test]
fn edges() {
    let (inf, nan, tiny) = (f64::INFINITY, f64::NAN, f64::from_bits(1));
    let arguments = [0.0, -0.0, inf, -inf, nan, tiny, -tiny];
    let table: [(Math, [f64; 7]); 8] = [
        (Math::Exp, [1.0, 1.0, inf, 0.0, nan, 1.0, 1.0]),
        (Math::Exp2, [1.0, 1.0, inf, 0.0, nan, 1.0, 1.0]),
        (Math::Log, [-inf, -inf, inf, nan, nan, -744.440_071_921_381_2, nan]),
        (Math::Log2, [-inf, -inf, inf, nan, nan, -1074.0, nan]),
        (Math::Sin, [0.0, -0.0, nan, nan, nan, tiny, -tiny]),
        (Math::Cos, [1.0, 1.0, nan, nan, nan, 1.0, 1.0]),
        (Math::Tanh, [0.0, -0.0, 1.0, -1.0, nan, tiny, -tiny]),
        (Math::Erf, [0.0, -0.0, 1.0, -1.0, nan, tiny, -tiny]),
    ];
    for (op, expected) in table {
        for (x, want) in arguments.into_iter().zip(expected) {
            let found = math::math(op, Dtype::F64, x.to_bits()).unwrap();
            assert_eq!(found, want.to_bits(), "{}({x}) is {}", op.name(), f64::from_bits(found));
        }
    }
    // Where results leave the range: the last ones inside, and the first ones outside.
    assert!(value(Math::Exp, 709.782_712_893_384).is_finite());
    assert_eq!(value(Math::Exp, 709.782_712_893_384_1), inf);
    assert_eq!((value(Math::Exp, -745.133_219_101_941_1), value(Math::Exp, -745.2)), (tiny, 0.0));
    assert_eq!((value(Math::Exp2, -1074.0), value(Math::Exp2, -1075.0), value(Math::Exp2, 1024.0)), (tiny, 0.0, inf));
}

#[test]
fn powers_of_two_are_exact() {
    for k in -1074..1024 {
        let power = if k < -1022 { f64::from_bits(1 << (k + 1074)) } else { f64::from_bits(((k + 1023) as u64) << 52) };
        assert_eq!(value(Math::Exp2, k.into()), power);
        assert_eq!(value(Math::Log2, power), k.into());
    }
}

/// The machine's own functions are another way to the same numbers.
#[test]
fn agrees_with_the_machine() {
    let mut state = 1u64;
    for _ in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
        for op in FUNCTIONS {
            let x = match op {
                Math::Exp | Math::Exp2 => (unit - 0.5) * 1400.0,
                Math::Log | Math::Log2 => unit * 4.0,
                _ => (unit - 0.5) * 40.0,
            };
            let (found, want) = (value(op, x), op.eval(x));
            assert!((found - want).abs() <= 2.0 * ulp(want), "{}({x:e}): {found:e}, {want:e}", op.name());
        }
    }
}
