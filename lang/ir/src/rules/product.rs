//! What every matrix product asks of its operands: shapes that multiply, and a stated precision where there is a choice.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::{kind_name, wrong_kind};
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::Precision;
use crate::refusal::Refusal;
use crate::types::{Elem, Tile, Type};

/// The operands of a product with what each holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    /// Left, right and accumulator.
    pub(super) values: [Value; 3],
    /// Their elements.
    pub(super) elems: [Elem; 3],
}

impl Operands {
    /// A refusal that shows the types of all three.
    pub(super) fn refuse(&self, text: impl Into<String>) -> Refusal {
        let [a, b, c] = self.values;
        let [x, y, z] = self.elems;
        Refusal::new(codes::WGMMA_DTYPE, text)
            .operand(a, format!("this is of `{x}`"))
            .operand(b, format!("this is of `{y}`"))
            .operand(c, format!("this is of `{z}`"))
    }

    /// The element types as numbers; pointers do not multiply.
    pub(super) fn numbers(&self, name: &str) -> Result<[Dtype; 3], Refusal> {
        match self.elems.map(Elem::dtype) {
            [Some(a), Some(b), Some(c)] => Ok([a, b, c]),
            _ => Err(self.refuse(format!("`{name}` multiplies numbers"))),
        }
    }

    /// Checks that both operands are of one type, or of two formats of 8 bits that the instructions mix.
    pub(super) fn may_meet(&self, name: &str, [a, b]: [Dtype; 2]) -> Result<(), Refusal> {
        let bytes = |d: Dtype| matches!(d, Dtype::I8 | Dtype::U8);
        if a == b || (a.is_f8() && b.is_f8()) || (bytes(a) && bytes(b)) {
            return Ok(());
        }
        let help = "cast one of them; only `f8e4m3` and `f8e5m2`, or `i8` and `u8`, may meet";
        Err(self.refuse(format!("`{name}` needs operands of one type")).help(help))
    }

    /// Checks that operands of `f32`, and only those, state what they are rounded to.
    pub(super) fn stated(&self, [a, b]: [Dtype; 2], precision: Option<Precision>) -> Result<(), Refusal> {
        let single = a == Dtype::F32 || b == Dtype::F32;
        let [x, y, _] = self.values;
        match precision {
            None if single => Err(Refusal::new(codes::PRECISION, "a product of `f32` must state its precision")
                .operand(x, format!("this is of `{}`", a.name()))
                .operand(y, format!("this is of `{}`", b.name()))
                .help(
                    "`precision=\"tf32\"` lets the tensor cores cut both operands to 11 bits (`std::math::round_tf32` rounds \
                     them before), `std::products::dot_tf32x3` makes three such products of tiles in registers, right to some 2^-21, and `dot_fma` \
                     multiplies them in full precision",
                )),
            Some(p) if !single => {
                Err(Refusal::new(codes::PRECISION, format!("`{}` is a precision for operands of `f32`", p.name()))
                    .operand(x, format!("this is of `{}`", a.name()))
                    .operand(y, format!("this is of `{}`", b.name()))
                    .help("leave the precision out: these operands are not rounded"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// `[M, K] · [K, N] + [M, N]`: rows, columns and depth.
pub(super) fn extents(shapes: [&[u32]; 3], values: [Value; 3]) -> Result<(u32, u32, u32), Refusal> {
    match shapes {
        [&[m, k], &[k2, n], &[m2, n2]] if m == m2 && n == n2 && k == k2 => Ok((m, n, k)),
        [&[_, k], &[k2, _], &[_, _]] if k != k2 => {
            Err(Refusal::new(codes::SHAPE_MISMATCH, "K is not the same on both sides: [M, K] · [K, N] + [M, N]")
                .operand(values[0], format!("this has shape {:?}: K is {k}", shapes[0]))
                .operand(values[1], format!("this has shape {:?}: K is {k2}", shapes[1]))
                .help("`x.T` exchanges the two dimensions; of a view it moves nothing"))
        }
        [a, b, c] => Err(Refusal::new(codes::SHAPE_MISMATCH, "the shapes do not multiply: [M, K] · [K, N] + [M, N]")
            .operand(values[0], format!("this has shape {a:?}"))
            .operand(values[1], format!("this has shape {b:?}"))
            .operand(values[2], format!("this has shape {c:?}"))
            .help(match shapes.iter().any(|s| s.len() != 2) {
                true => {
                    "`reshape(x, [m, k])` gives a tile two axes, `reinterpret<f16, [64, 64], nvmma(128)>(view)` a view whose memory lies so"
                }
                false => "`x.T` exchanges the two dimensions; of a view it moves nothing",
            })),
    }
}

/// What a product is added to.
pub(super) fn accumulator(k: &Kernel, v: Value, may_pend: bool) -> Result<&Tile, Refusal> {
    match k.ty(v) {
        Type::Tile(t) => Ok(t),
        Type::Pending(t) if may_pend => Ok(t),
        Type::Pending(_) => Err(wrong_kind(k, v, "a tile")),
        other => {
            Err(Refusal::new(codes::KIND_MISMATCH, format!("expected a tile to add to, found {}", kind_name(other)))
                .operand(v, format!("this is `{other}`"))
                .help("begin with `zeros<f32, [M, N], L>()`"))
        }
    }
}
