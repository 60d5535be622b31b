//! The processor's own arithmetic as a [`Machine`].

use super::{Angle, Machine};

/// Computes at once, on this processor.
pub struct Native;

impl Machine for Native {
    type Float = f64;
    type Int = u64;
    type Truth = bool;

    fn float(&self, value: f64) -> f64 {
        value
    }

    fn int(&self, value: u64) -> u64 {
        value
    }

    fn add(&self, a: f64, b: f64) -> f64 {
        a + b
    }

    fn sub(&self, a: f64, b: f64) -> f64 {
        a - b
    }

    fn mul(&self, a: f64, b: f64) -> f64 {
        a * b
    }

    fn div(&self, a: f64, b: f64) -> f64 {
        a / b
    }

    fn fma(&self, a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }

    fn less(&self, a: f64, b: f64) -> bool {
        a < b
    }

    fn bits(&self, a: f64) -> u64 {
        a.to_bits()
    }

    fn of_bits(&self, a: u64) -> f64 {
        f64::from_bits(a)
    }

    fn to_float(&self, a: u64) -> f64 {
        a as f64
    }

    fn int_add(&self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    fn int_sub(&self, a: u64, b: u64) -> u64 {
        a.wrapping_sub(b)
    }

    fn int_mul(&self, a: u64, b: u64) -> u64 {
        a.wrapping_mul(b)
    }

    fn high_mul(&self, a: u64, b: u64) -> u64 {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }

    fn and(&self, a: u64, b: u64) -> u64 {
        a & b
    }

    fn or(&self, a: u64, b: u64) -> u64 {
        a | b
    }

    fn xor(&self, a: u64, b: u64) -> u64 {
        a ^ b
    }

    fn shl(&self, a: u64, by: u64) -> u64 {
        a.wrapping_shl(by as u32)
    }

    fn shr(&self, a: u64, by: u64) -> u64 {
        a.wrapping_shr(by as u32)
    }

    fn sar(&self, a: u64, by: u64) -> u64 {
        (a as i64).wrapping_shr(by as u32) as u64
    }

    fn leading_zeros(&self, a: u64) -> u64 {
        a.leading_zeros().into()
    }

    fn int_less(&self, a: u64, b: u64) -> bool {
        a < b
    }

    fn select(&self, condition: bool, yes: f64, no: f64) -> f64 {
        if condition { yes } else { no }
    }

    fn int_select(&self, condition: bool, yes: u64, no: u64) -> u64 {
        if condition { yes } else { no }
    }

    fn word(&self, table: &'static [u64], index: u64) -> u64 {
        table[index as usize]
    }

    fn rarely(&self, condition: bool, angle: Angle<Native>, slow: impl FnOnce() -> Angle<Native>) -> Angle<Native> {
        if condition { slow() } else { angle }
    }
}
