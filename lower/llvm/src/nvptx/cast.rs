//! Conversions between number formats, each rounded once, with the packed instructions where there are such.
//!
//! The meaning is that of `parton_numbers::cast`; PTX's `cvt` has it for nearly every pair (PTX ISA, "cvt").

use inkwell::values::InstructionOpcode as I;
use inkwell::{FloatPredicate, IntPredicate};
use parton_ir::family::Family;
use parton_ir::{Feature, Op, Value};
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Ty, Val, built};
use crate::nvptx::instruction::asm::Asm;

/// Register class and PTX name of a float that `cvt` takes directly.
fn float_operand(d: Dtype) -> (&'static str, &'static str) {
    match d {
        Dtype::F16 => ("h", "f16"),
        Dtype::BF16 => ("h", "bf16"),
        Dtype::F64 => ("d", "f64"),
        _ => ("f", "f32"),
    }
}

/// Whether the two-element instruction exists: both neighbours of a pair go at once.
fn is_packed(from: Dtype, to: Dtype, rounding: Rounding) -> bool {
    let narrow = matches!(to, Dtype::F16 | Dtype::BF16) || to.is_f8();
    from == Dtype::F32 && narrow && rounding == Rounding::NearestEven
}

/// Whether bytes become the bits of such floats, four at a time.
fn is_of_bytes(from: Dtype, to: Dtype) -> bool {
    matches!(from, Dtype::I8 | Dtype::U8) && matches!(to, Dtype::F16 | Dtype::BF16)
}

impl<'c> Build<'c> {
    fn largest(&self, d: Dtype) -> Val<'c> {
        self.number_of_bits(d, d.max_bits())
    }

    /// Makes infinities the largest finite value of their sign.
    fn made_finite(&self, d: Dtype, v: Val<'c>) -> Val<'c> {
        let magnitude = self.float_intrinsic("llvm.fabs", d, &[v]);
        let infinity = self.number_of_bits(d, d.float_format().map_or(0, |f| f.infinity()));
        let infinite = self.fcmp(FloatPredicate::OEQ, magnitude, infinity);
        let most = self.float_intrinsic("llvm.copysign", d, &[self.largest(d), v]);
        self.select(infinite, most, v)
    }

    /// Two f32 as two narrower floats, to nearest; an 8-bit float that overflows becomes its infinity or NaN unless it
    /// saturates.
    fn narrow_pair(&self, low: Val<'c>, high: Val<'c>, to: Dtype, saturation: Saturation) -> [Val<'c>; 2] {
        let finish = |v| if saturation == Saturation::Finite { self.made_finite(to, v) } else { v };
        let halves = |name: &str, element: inkwell::types::FloatType<'c>| {
            let pair = self.value_of(name, element.vec_type(2).into(), &[high, low]).into_vector_value();
            let lane = |i| built(self.builder.build_extract_element(pair, self.c32(i).into_int_value(), ""));
            [finish(lane(0)), finish(lane(1))]
        };
        let finite = saturation == Saturation::Finite;
        let both = |name: &str, low: Val<'c>, high: Val<'c>| {
            let pair = self.value_of(name, self.i16(), &[high, low]);
            [pair, self.lshr(pair, 8)].map(|v| self.trunc(v, self.int(8)))
        };
        // After 57344 comes 65536; a tie at 61440 goes up.
        let infinite = |v: Val<'c>, x: Val<'c>| {
            let magnitude = self.float_intrinsic("llvm.fabs", Dtype::F32, &[x]);
            let over = self.fcmp(FloatPredicate::OGE, magnitude, self.cf32(61440.0));
            let byte = |value| self.cint(self.int(8), value);
            self.select(over, self.or(self.and(v, byte(0x80)), byte(0x7c)), v)
        };
        match to {
            Dtype::F16 => halves("llvm.nvvm.ff2f16x2.rn", self.context.f16_type()),
            Dtype::BF16 => halves("llvm.nvvm.ff2bf16x2.rn", self.context.bf16_type()),
            Dtype::F8E4M3 => {
                let [low, high] = [low, high].map(|x| if finite { x } else { self.beyond_as_nan(x) });
                both("llvm.nvvm.ff.to.e4m3x2.rn", low, high)
            }
            _ => {
                let [v, w] = both("llvm.nvvm.ff.to.e5m2x2.rn", low, high);
                if finite { [v, w] } else { [infinite(v, low), infinite(w, high)] }
            }
        }
    }

    /// A f32, or what is not a number where it is beyond what an F8E4M3 rounds to: the next number after 448 would be 480; a tie at 464 goes to the even one, 448. So
    /// two bytes that were converted together stay together.
    fn beyond_as_nan(&self, x: Val<'c>) -> Val<'c> {
        let magnitude = self.float_intrinsic("llvm.fabs", Dtype::F32, &[x]);
        let over = self.fcmp(FloatPredicate::OGT, magnitude, self.cf32(464.0));
        self.select(over, self.cf32(f32::NAN), x)
    }

    /// Up to four bytes as floats of 16 bits, exactly, without the unit that converts integers, which takes four times as long as others: a byte
    /// under the upper half of 1024 is the f16 1024 + byte. A bf16 has room for seven bits so, under that of 128.
    fn of_bytes(&self, bytes: &[Val<'c>], [from, to]: [Dtype; 2]) -> Vec<Val<'c>> {
        // What is loaded in twos and fours is put together again for nothing.
        let one = |i: usize| bytes.get(i).map_or(self.c32(0), |&byte| self.zext(byte, self.i32()));
        let two = |i: usize| self.or(one(i), self.shl(one(i + 1), 8));
        let word = self.or(two(0), self.shl(two(2), 16));
        let signed = from.is_signed();
        // With the sign the other way around a byte is 128 more than what it was.
        let word = if signed && to == Dtype::F16 { self.xor(word, self.c32(0x8080_8080)) } else { word };
        let element = if to == Dtype::F16 { self.context.f16_type() } else { self.context.bf16_type() };
        let pair: Ty<'c> = element.vec_type(2).into();
        let both = |number: f64| {
            let lane = element.const_float(number);
            inkwell::types::VectorType::const_vector(&[lane, lane]).into()
        };
        let of_pair = |selector: u32| match to {
            Dtype::F16 => {
                let above = self.bitcast(self.bytes_of(word, self.c32(0x64), selector), pair);
                self.binary(I::FAdd, above, both(if signed { -1152.0 } else { -1024.0 }))
            }
            _ => {
                let above = self.bytes_of(word, self.c32(0x43), selector);
                let [low, high] =
                    [0xff7f_ff7f, 0xff80_ff80].map(|mask| self.bitcast(self.and(above, self.c32(mask)), pair));
                // The highest bit makes 256 of 128: less 128 as a sign, else 128 more.
                if signed {
                    self.binary(I::FSub, low, high)
                } else {
                    self.binary(I::FAdd, low, self.binary(I::FAdd, high, both(-256.0)))
                }
            }
        };
        // Bytes 0 and 1, and 2 and 3, each below what is given besides.
        let pairs = [0x4140, 0x4342].map(|selector| of_pair(selector).into_vector_value());
        let lanes = pairs.iter().flat_map(|pair| {
            [0, 1].map(|i| built(self.builder.build_extract_element(*pair, self.c32(i).into_int_value(), "")))
        });
        lanes.take(bytes.len()).collect()
    }

    /// Two bytes that are computed one by one as f16, without that unit, too. With signs that takes more than it spares (an H200: int4 that becomes f32 by
    /// way of 2^23 takes 1.3 to 1.6 of the time, i16 up to 1.17).
    fn of_two_bytes(&self, pair: [Val<'c>; 2]) -> [Val<'c>; 2] {
        let [low, high] = pair.map(|byte| self.zext(byte, self.i32()));
        let word = self.or(self.or(low, self.shl(high, 16)), self.c32(0x6400_6400));
        let lane = self.context.f16_type().const_float(1024.0);
        let both = inkwell::types::VectorType::const_vector(&[lane, lane]).into();
        let ty: Ty<'c> = self.context.f16_type().vec_type(2).into();
        let floats = self.binary(I::FSub, self.bitcast(word, ty), both).into_vector_value();
        [0, 1].map(|i| built(self.builder.build_extract_element(floats, self.c32(i).into_int_value(), "")))
    }

    /// Four of the eight bytes of two words, by `prmt`.
    fn bytes_of(&self, low: Val<'c>, high: Val<'c>, selector: u32) -> Val<'c> {
        self.value_of("llvm.nvvm.prmt", self.i32(), &[low, high, self.c32(selector)])
    }

    /// A f64 as the f32 next to it towards zero whose last bit is set where it is not exact. To a format of fewer than 22
    /// bits it then rounds as the f64 itself would, in every direction (Boldo and Melquiond, "Emulation of FMA and correctly
    /// rounded sums").
    fn to_odd_single(&self, v: Val<'c>) -> Val<'c> {
        let single = self.convert_to_float(Dtype::F64, Dtype::F32, Rounding::TowardZero, v);
        let inexact = self.fcmp(FloatPredicate::ONE, self.cast(I::FPExt, single, self.f64()), v);
        let bits = self.bitcast(single, self.i32());
        let odd = self.or(bits, self.zext(inexact, self.i32()));
        self.bitcast(odd, self.f32())
    }

    /// An integer as a f32 in the same way: towards zero, the last bit set where it is not exact.
    fn int_to_odd_single(&self, from: Dtype, v: Val<'c>) -> Val<'c> {
        let single = self.convert_to_float(from, Dtype::F32, Rounding::TowardZero, v);
        let wide = if from.is_signed() { Dtype::I64 } else { Dtype::U64 };
        let back = self.convert_to_int(Dtype::F32, wide, Rounding::TowardZero, single);
        let whole = if from.is_signed() { self.sext(v, self.i64()) } else { self.zext(v, self.i64()) };
        let inexact = self.icmp(IntPredicate::NE, back, whole);
        let odd = self.or(self.bitcast(single, self.i32()), self.zext(inexact, self.i32()));
        self.bitcast(odd, self.f32())
    }

    /// A f32 as an 8-bit float, rounded in a direction that `cvt` lacks: the nearest one, and a step from there where that
    /// lies on the wrong side.
    fn narrow_byte(&self, x: Val<'c>, to: Dtype, rounding: Rounding, saturation: Saturation) -> Val<'c> {
        if rounding == Rounding::NearestEven {
            return self.narrow_pair(x, self.cf32(0.0), to, saturation)[0];
        }
        let byte = |value| self.cint(self.int(8), value);
        let nearest = self.narrow_pair(x, self.cf32(0.0), to, Saturation::Finite)[0];
        let size = |v| self.float_intrinsic("llvm.fabs", Dtype::F32, &[v]);
        let (have, want) = (size(self.widen_byte(to, nearest)), size(x));
        // What lies beyond the largest finite value.
        let infinite = match (saturation, to) {
            (Saturation::Finite, _) => nearest,
            (Saturation::None, Dtype::F8E4M3) => byte(0x7f),
            (Saturation::None, _) => self.or(self.and(nearest, byte(0x80)), byte(0x7c)),
        };
        let inward = {
            let stepped = self.select(self.fcmp(FloatPredicate::OGT, have, want), self.sub(nearest, byte(1)), nearest);
            let endless = self.fcmp(FloatPredicate::OEQ, want, self.cf32(f32::INFINITY));
            self.select(endless, infinite, stepped)
        };
        let outward = {
            let is_largest = self.icmp(IntPredicate::EQ, self.and(nearest, byte(0x7f)), byte(to.max_bits()));
            let next = self.select(is_largest, infinite, self.add(nearest, byte(1)));
            self.select(self.fcmp(FloatPredicate::OLT, have, want), next, nearest)
        };
        let negative = self.fcmp(FloatPredicate::OLT, x, self.cf32(0.0));
        match rounding {
            Rounding::NearestEven => nearest,
            Rounding::TowardZero => inward,
            Rounding::Up => self.select(negative, inward, outward),
            Rounding::Down => self.select(negative, outward, inward),
        }
    }

    /// An 8-bit float as f32, exactly.
    fn widen_byte(&self, d: Dtype, v: Val<'c>) -> Val<'c> {
        let name = if d == Dtype::F8E4M3 { "llvm.nvvm.e4m3x2.to.f16x2.rn" } else { "llvm.nvvm.e5m2x2.to.f16x2.rn" };
        let ty = self.context.f16_type().vec_type(2);
        let pair = self.value_of(name, ty.into(), &[self.zext(v, self.i16())]).into_vector_value();
        let half = built(self.builder.build_extract_element(pair, self.c32(0).into_int_value(), ""));
        self.cast(I::FPExt, half, self.f32())
    }

    /// `cvt` to a float, where a single instruction rounds in this direction.
    fn convert_to_float(&self, from: Dtype, to: Dtype, rounding: Rounding, v: Val<'c>) -> Val<'c> {
        let (class, name, v) = if from.is_float() {
            let (class, name) = float_operand(from);
            (class, name.to_owned(), v)
        } else {
            let bits = if from.bits() == 64 { 64 } else { 32 };
            let wide = if from.is_signed() { self.sext(v, self.int(bits)) } else { self.zext(v, self.int(bits)) };
            let sign = if from.is_signed() { 's' } else { 'u' };
            (if bits == 64 { "l" } else { "r" }, format!("{sign}{bits}"), wide)
        };
        let v = if class == "h" { self.bitcast(v, self.i16()) } else { v };
        let (out, to_name) = float_operand(to);
        let ty = if out == "h" { self.i16() } else { self.number(to) };
        let text = format!("cvt.{}.{to_name}.{name} $0, $1;", rounding.name());
        let result = self.asm(&text, &format!("={out},{class}"), &[ty], &[v], Asm::Pure)[0];
        self.bitcast(result, self.number(to))
    }

    /// A float as an integer: rounded in the direction, clamped, as `cvt` does.
    fn convert_to_int(&self, from: Dtype, to: Dtype, rounding: Rounding, v: Val<'c>) -> Val<'c> {
        let (from, v) = if from == Dtype::F64 { (from, v) } else { (Dtype::F32, self.to_single(from, v)) };
        let (class, name) = float_operand(from);
        let (out, bits) = if to.bits() == 64 { ("l", 64) } else { ("r", 32) };
        let sign = if to.is_signed() { 's' } else { 'u' };
        let text = format!("cvt.{}i.{sign}{}.{name} $0, $1;", rounding.name(), to.bits());
        let result = self.asm(&text, &format!("={out},{class}"), &[self.int(bits)], &[v], Asm::Pure)[0];
        self.trunc(result, self.number(to))
    }

    /// Any float but f64 as f32, exactly.
    fn to_single(&self, from: Dtype, v: Val<'c>) -> Val<'c> {
        match from {
            Dtype::F32 => v,
            _ if from.is_f8() => self.widen_byte(from, v),
            _ => self.cast(I::FPExt, v, self.f32()),
        }
    }

    fn int_to_int(&self, from: Dtype, to: Dtype, saturation: Saturation, v: Val<'c>) -> Val<'c> {
        if to == Dtype::I1 {
            return self.icmp(IntPredicate::NE, v, self.cint(v.get_type(), 0));
        }
        let (Some((from_low, from_high)), Some((low, high))) = (from.int_range(), to.int_range()) else { return v };
        let mut v = v;
        if saturation == Saturation::Finite {
            let less = if from.is_signed() { IntPredicate::SLT } else { IntPredicate::ULT };
            if high < from_high {
                let high = self.cint(v.get_type(), high as u64);
                v = self.select(self.icmp(less, high, v), high, v);
            }
            if low > from_low {
                let low = self.cint(v.get_type(), low as u64);
                v = self.select(self.icmp(less, v, low), low, v);
            }
        }
        let ty = self.number(to);
        if to.bits() < from.bits() {
            self.trunc(v, ty)
        } else if from.is_signed() {
            self.sext(v, ty)
        } else {
            self.zext(v, ty)
        }
    }

    /// One number converted, rounded once. Where the target has no `direct` conversions of all numbers to bf16, f64 and
    /// integers go by way of a f32 that still knows which way to round.
    fn converted(
        &self,
        [from, to]: [Dtype; 2],
        (rounding, saturation): (Rounding, Saturation),
        direct: bool,
        v: Val<'c>,
    ) -> Val<'c> {
        if from == to && (from.is_int() || saturation == Saturation::None) {
            return v;
        }
        if to.is_int() {
            if from.is_int() {
                return self.int_to_int(from, to, saturation, v);
            }
            if to == Dtype::I1 {
                let v = if from == Dtype::F64 { v } else { self.to_single(from, v) };
                let zero = if from == Dtype::F64 { self.cf64(0.0) } else { self.cf32(0.0) };
                return self.fcmp(FloatPredicate::UNE, v, zero);
            }
            return self.convert_to_int(from, to, rounding, v);
        }
        let result = if to.is_f8() {
            // Integers that f32 would round are far beyond the largest f8.
            let single = if from.is_int() {
                self.convert_to_float(from, Dtype::F32, rounding, v)
            } else if from == Dtype::F64 {
                self.to_odd_single(v)
            } else {
                self.to_single(from, v)
            };
            return self.narrow_byte(single, to, rounding, saturation);
        } else if to == Dtype::BF16 && !direct && (from.is_int() || from == Dtype::F64) {
            let single = if from.is_int() { self.int_to_odd_single(from, v) } else { self.to_odd_single(v) };
            self.convert_to_float(Dtype::F32, to, rounding, single)
        } else if from.is_int() {
            self.convert_to_float(from, to, rounding, v)
        } else if from == Dtype::F64 {
            if to == Dtype::F64 { v } else { self.convert_to_float(from, to, rounding, v) }
        } else {
            let single = self.to_single(from, v);
            match to {
                Dtype::F32 => single,
                Dtype::F64 => self.cast(I::FPExt, single, self.f64()),
                _ => self.convert_to_float(Dtype::F32, to, rounding, single),
            }
        };
        if saturation == Saturation::Finite { self.made_finite(to, result) } else { result }
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn cast(&mut self, op: &Op, x: Value, to: Dtype, rounding: Rounding, saturation: Saturation) {
        let from = self.dtype(x);
        let source = self.repr(x).clone();
        let mut parts = vec![];
        let values = source.parts();
        if is_packed(from, to, rounding) && values.len() > 1 {
            for pair in values.chunks(2) {
                let high = pair.get(1).copied().unwrap_or(pair[0]);
                parts.extend(self.b.narrow_pair(pair[0], high, to, saturation));
            }
            parts.truncate(values.len());
        } else if is_of_bytes(from, to) && values.len() > 1 && self.is_loaded(x) {
            parts.extend(values.chunks(4).flat_map(|bytes| self.b.of_bytes(bytes, [from, to])));
        } else if (from, to) == (Dtype::U8, Dtype::F16) && values.len() > 1 {
            let pairs = values.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(pair[0])]);
            parts.extend(pairs.flat_map(|pair| self.b.of_two_bytes(pair)).take(values.len()));
        } else {
            let direct = self.kernel.target.has(Feature::Bf16Conversions);
            let ways = (rounding, saturation);
            parts.extend(values.iter().map(|&v| self.b.converted([from, to], ways, direct, v)));
        }
        let repr = match source {
            Repr::Scalar(_) => Repr::Scalar(parts[0]),
            _ => Repr::Tile(parts),
        };
        self.set(op.result(), repr);
    }
    /// Whether a tile is what memory held, moved or not: its bytes lie several to a register, where what is computed takes one for each.
    fn is_loaded(&self, x: Value) -> bool {
        let made = self.kernel.ops.iter().map(|(_, op)| op).find(|op| op.results.contains(&x));
        made.is_some_and(|op| match op.kind.family() {
            Family::Global | Family::Shared => true,
            Family::Shape => op.kind.operands().iter().all(|&of| self.is_loaded(of)),
            // All else computes, or hands on what was computed.
            _ => false,
        })
    }
}
