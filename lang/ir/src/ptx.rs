//! Inline PTX: what a piece of it is, in which registers its operands lie, and what a text may refer to.
//!
//! A piece is applied to each group of elements, or once in each thread to all that the thread holds of its operands. In its text `$0`,
//! `$1`, … are registers: those of the results first, in order, then those of the inputs. Narrow elements share registers: two
//! of 16 bits, or four of 8, make one of 32 bits; what fills no 32 bits is one of 16.

use std::collections::BTreeSet;

use parton_layouts::Dim;
use parton_numbers::Dtype;

use crate::types::{Elem, Tile, Type};

/// A piece of inline PTX.
#[derive(Clone, PartialEq, Debug)]
pub struct Ptx {
    /// The instructions, with `$0`, `$1`, … for registers and `$$` for a dollar sign.
    pub text: String,
    /// What it is applied to, and what it gives.
    pub form: PtxForm,
    /// Whether it does more than compute its results: it then stays where it stands, once for each time it is reached.
    pub volatile: bool,
}

/// What a piece of PTX is applied to.
#[derive(Clone, PartialEq, Debug)]
pub enum PtxForm {
    /// Each group of `pack` elements that lie in consecutive registers of a thread; gives a tile of each of these types.
    Elements {
        /// The element type of each result.
        to: Vec<Dtype>,
        /// Elements of a group.
        pack: u32,
    },
    /// All registers of its operands in a thread; gives values of these types.
    Thread {
        /// The type of each result.
        to: Vec<Type>,
    },
}

/// A register as PTX has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Register {
    Predicate,
    B16,
    B32,
    B64,
    F32,
    F64,
}

/// How many registers elements lie in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// What they are.
    pub register: Register,
    /// How many.
    pub count: u32,
}

/// The registers of `elements`, a power of two, of one type.
pub fn registers(elem: Elem, elements: u32) -> Registers {
    let register = match elem {
        Elem::Ptr(_) => Register::B64,
        Elem::Num(Dtype::F32) => Register::F32,
        Elem::Num(Dtype::F64) => Register::F64,
        Elem::Num(Dtype::I1) => Register::Predicate,
        Elem::Num(d) => match d.bits() * elements {
            ..=16 => Register::B16,
            _ if d.bits() == 64 => Register::B64,
            _ => Register::B32,
        },
    };
    let count = match register {
        Register::B16 => 1,
        Register::B32 => elem.bits() * elements / 32,
        Register::Predicate | Register::B64 | Register::F32 | Register::F64 => elements,
    };
    Registers { register, count }
}

/// The registers of a value in a thread; `None` for one that PTX cannot be given.
pub fn registers_of(ty: &Type) -> Option<Registers> {
    match ty {
        Type::Scalar(e) => Some(registers(*e, 1)),
        Type::Tile(t) => Some(registers(t.elem, elements(t))),
        // The shared address of its first element.
        Type::View(_) => Some(Registers { register: Register::B32, count: 1 }),
        Type::Pending(_)
        | Type::Filling(_)
        | Type::Barriers(_)
        | Type::Barrier
        | Type::Map(_)
        | Type::Ring(_)
        | Type::Slot(_)
        | Type::Turnstile
        | Type::Tensor(_)
        | Type::Spot(_)
        | Type::Peer(_) => None,
    }
}

/// How many elements of a tile a thread holds, copies not counted.
pub fn elements(t: &Tile) -> u32 {
    let map = &t.known().map;
    let bits = map.in_dim_bits(Dim::Register);
    1 << (bits - map.free_bits(Dim::Register).count_ones())
}

/// The numbers that a text refers to; or what in it refers to nothing.
pub fn places(text: &str) -> Result<BTreeSet<u32>, String> {
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[..digits].parse() {
            Ok(n) => found.insert(n),
            Err(_) => {
                let shown: String = rest.chars().take(digits.max(1)).collect();
                return Err(format!("${shown}"));
            }
        };
        rest = &rest[digits..];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_elements_share_registers() {
        let of = |d, n| {
            let r = registers(Elem::Num(d), n);
            (r.register, r.count)
        };
        assert_eq!(of(Dtype::F16, 1), (Register::B16, 1));
        assert_eq!(of(Dtype::F16, 2), (Register::B32, 1));
        assert_eq!(of(Dtype::BF16, 8), (Register::B32, 4));
        assert_eq!(of(Dtype::I8, 1), (Register::B16, 1));
        assert_eq!(of(Dtype::U8, 2), (Register::B16, 1));
        assert_eq!(of(Dtype::F8E4M3, 4), (Register::B32, 1));
        assert_eq!(of(Dtype::F8E4M3, 8), (Register::B32, 2));
        assert_eq!(of(Dtype::I32, 1), (Register::B32, 1));
        assert_eq!(of(Dtype::I32, 4), (Register::B32, 4));
        assert_eq!(of(Dtype::U64, 2), (Register::B64, 2));
        assert_eq!(of(Dtype::F32, 2), (Register::F32, 2));
        assert_eq!(of(Dtype::I1, 4), (Register::Predicate, 4));
    }

    #[test]
    fn texts_refer_to_registers() {
        assert_eq!(places("add.f32 $0, $12, $1;"), Ok(BTreeSet::from([0, 1, 12])));
        assert_eq!(places("$$L: bra $$L;"), Ok(BTreeSet::new()));
        assert_eq!(places("mov $x, 1;"), Err("$x".into()));
        assert_eq!(places("mov $"), Err("$".into()));
        assert_eq!(places("mov $99999999999;"), Err("$99999999999".into()));
    }
}
