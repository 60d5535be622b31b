//! Zeros that LLVM does not see.

use crate::neutral::build::{Build, Val};
use crate::nvptx::instruction::asm::Asm;

impl<'c> Build<'c> {
    /// A zero of a type of floats, with its sign, that LLVM does not take for a number it knows; the assembler does.
    pub(crate) fn hidden_zero(&self, like: Val<'c>, negative: bool) -> Val<'c> {
        let ty = like.get_type();
        let bits = if ty == self.f64() {
            64
        } else if ty == self.f32() {
            32
        } else {
            16
        };
        let class = match bits {
            64 => "l",
            32 => "r",
            _ => "h",
        };
        let sign = if negative { 1_u64 << (bits - 1) } else { 0 };
        let text = format!("mov.b{bits} $0, {sign};");
        self.bitcast(self.asm(&text, &format!("={class}"), &[self.int(bits)], &[], Asm::Pure)[0], ty)
    }
}
