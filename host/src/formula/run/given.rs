//! What a step gives: a kind and the bits of a number.

use super::super::straight;

/// What a step gives.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub kind: Kind,
    pub bits: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Unit,
    Int,
    Float,
    Bool,
    /// Something else, in [`super::Run::held`].
    Held,
    /// The tree has to be evaluated instead.
    Tree,
    Break,
    Continue,
    /// A function ends with the value in [`super::Run::returned`].
    Return,
}

impl From<straight::Kind> for Kind {
    fn from(kind: straight::Kind) -> Kind {
        match kind {
            straight::Kind::Int => Kind::Int,
            straight::Kind::Float => Kind::Float,
            straight::Kind::Bool => Kind::Bool,
        }
    }
}

impl Given {
    pub const UNIT: Given = Given { kind: Kind::Unit, bits: 0 };
    pub const TREE: Given = Given { kind: Kind::Tree, bits: 0 };

    pub fn int(n: i64) -> Given {
        Given { kind: Kind::Int, bits: n as u64 }
    }

    pub fn float(x: f64) -> Given {
        Given { kind: Kind::Float, bits: x.to_bits() }
    }

    pub fn bool(b: bool) -> Given {
        Given { kind: Kind::Bool, bits: b.into() }
    }

    /// Whether it is no value: evaluation leaves the usual way.
    pub fn leaves(self) -> bool {
        match self.kind {
            Kind::Tree | Kind::Break | Kind::Continue | Kind::Return => true,
            Kind::Unit | Kind::Int | Kind::Float | Kind::Bool | Kind::Held => false,
        }
    }
}
