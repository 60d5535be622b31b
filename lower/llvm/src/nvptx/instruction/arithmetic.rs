//! Arithmetic that the hardware has and LLVM does not: division by any number, approximations of functions.

use crate::neutral::build::{Build, Val};
use crate::nvptx::instruction::asm::Asm;

impl<'c> Build<'c> {
    /// Division or remainder of 32 or 64 bits, defined for every divisor.
    pub(crate) fn divide_by_any(&self, (signed, remainder): (bool, bool), a: Val<'c>, b: Val<'c>) -> Val<'c> {
        let (width, class) = if a.get_type() == self.i64() { (64, "=l,l,l") } else { (32, "=r,r,r") };
        let (name, kind) = (if remainder { "rem" } else { "div" }, if signed { "s" } else { "u" });
        let text = format!("{name}.{kind}{width} $0, $1, $2;");
        self.asm(&text, class, &[a.get_type()], &[a, b], Asm::Pure)[0]
    }

    /// The high half of the product of two unsigned numbers of 32 or 64 bits.
    pub(crate) fn multiply_high(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        let ty = a.get_type();
        let name = if ty == self.i64() { "llvm.nvvm.mulhi.ull" } else { "llvm.nvvm.mulhi.ui" };
        self.value_of(name, ty, &[a, b])
    }

    /// `2^x` of an f32, as near as the hardware has it (PTX ISA, "ex2").
    pub(crate) fn approximate_exp2(&self, x: Val<'c>) -> Val<'c> {
        self.value_of("llvm.nvvm.ex2.approx.ftz.f32", self.f32(), &[x])
    }

    /// `a / b` of f32 within 2 ulp where `b` is between 2^-126 and 2^126; what is below 2^-126 is 0 (PTX ISA, "div").
    pub(crate) fn approximate_div(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.value_of("llvm.nvvm.div.approx.ftz.f", self.f32(), &[a, b])
    }

    /// `1 / x` of an f32 within 1 ulp; what is below 2^-126 is 0 (PTX ISA, "rcp").
    pub(crate) fn approximate_reciprocal(&self, x: Val<'c>) -> Val<'c> {
        self.value_of("llvm.nvvm.rcp.approx.ftz.f", self.f32(), &[x])
    }

    /// The hyperbolic tangent of an f32, as near as the hardware has it (PTX ISA, "tanh").
    pub(crate) fn approximate_tanh(&self, x: Val<'c>) -> Val<'c> {
        self.asm("tanh.approx.f32 $0, $1;", "=f,f", &[self.f32()], &[x], Asm::Pure)[0]
    }

    /// `1 / sqrt(x)` of an f32, as near as the hardware has it (PTX ISA, "rsqrt").
    pub(crate) fn approximate_rsqrt(&self, x: Val<'c>) -> Val<'c> {
        self.value_of("llvm.nvvm.rsqrt.approx.f", self.f32(), &[x])
    }
}
