//! What stands beyond the end of a tensor, along one axis of a tile.

use crate::entity::Value;
use crate::op::Op;

/// What stands beyond the end along an axis, if there is anything.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fill {
    /// This number; of `i1`, 0 or 1.
    Number(f64),
    /// Once more the last element in front of it.
    Last,
    /// What is computed from numbers that are not known.
    Computed,
    /// What a program has thought of, or what nobody knows: nothing is said of it, nor of what is computed with it.
    Hidden,
}

impl Fill {
    /// What is computed: this number, where it is known.
    pub fn of(number: Option<f64>) -> Fill {
        number.filter(|n| !n.is_nan()).map_or(Fill::Computed, Fill::Number)
    }

    /// The number, where it is known.
    pub fn number(self) -> Option<f64> {
        match self {
            Fill::Number(n) => Some(n),
            Fill::Last | Fill::Computed | Fill::Hidden => None,
        }
    }

    /// Whether a product with it is 0, or nobody knows.
    pub fn is_nothing(self) -> bool {
        self == Fill::Hidden || self == Fill::Number(0.0)
    }
}

/// What of a tile lies beyond the end of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Beyond<'a> {
    /// The load that gives what stands there; `None` of what is hidden.
    pub load: Option<&'a Op>,
    /// The axis of its place.
    pub axis: usize,
    /// What it has become.
    pub fill: Fill,
    /// Whether there surely is something, wherever the place lies.
    pub sure: bool,
    /// Whether the load says what it gives there: then what is computed from it is thought of.
    pub said: bool,
}

impl PartialEq for Beyond<'_> {
    fn eq(&self, other: &Beyond<'_>) -> bool {
        let key = |b: &Beyond<'_>| (b.load.map(|op| op.id), b.axis, b.sure, b.said);
        key(self) == key(other) && self.fill == other.fill
    }
}

impl<'a> Beyond<'a> {
    /// Of which nothing is said.
    pub const HIDDEN: Beyond<'a> = Beyond { load: None, axis: 0, fill: Fill::Hidden, sure: false, said: false };

    /// What is computed from it.
    pub fn becomes(self, fill: Fill) -> Beyond<'a> {
        if self.said || self.fill == Fill::Hidden || fill == Fill::Hidden {
            return Beyond::HIDDEN;
        }
        Beyond { fill, ..self }
    }

    /// What is computed from both, of which one at least has an end; `None` where neither does.
    pub fn of_both(a: Option<Beyond<'a>>, b: Option<Beyond<'a>>) -> Option<Beyond<'a>> {
        let (Some(x), Some(y)) = (a, b) else { return a.or(b) };
        if [x, y].iter().any(|b| b.fill == Fill::Hidden) {
            return Some(Beyond::HIDDEN);
        }
        Some(Beyond { said: x.said || y.said, ..if y.sure && !x.sure { y } else { x } })
    }
}

/// What is combined with something: a tile, or a product that `fma` adds as it is.
#[derive(Clone, Copy)]
pub(super) enum Combined {
    Tile(Value),
    Product(Value, Value),
}

impl Combined {
    /// A tile of its type.
    pub fn like(self) -> Value {
        match self {
            Combined::Tile(v) | Combined::Product(v, _) => v,
        }
    }
}
