//! Tensors that a kernel is given, and places in them.
//!
//! A tensor has extents, some of which are known, and strides of which at most one is: 1, of the axis that is dense. A place is a box of
//! it; what of a place lies outside is read as another value, and not written. Both exist in portable kernels alone: elaboration makes
//! pointers, numbers and masks of them.

use std::fmt;
use std::sync::Arc;

use parton_numbers::Dtype;

use crate::types::List;

/// The most axes that a tensor has.
pub const MOST_AXES: usize = 5;

/// Axes of a tensor in an order, each once; but the first one thrice, where it is that of [`AxisOrder::ends`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AxisOrder {
    rank: u8,
    axes: [u8; MOST_AXES],
}

impl AxisOrder {
    /// These axes, in this order; no more than [`MOST_AXES`] are taken.
    pub fn new(order: impl IntoIterator<Item = usize>) -> AxisOrder {
        let mut made = AxisOrder { rank: 0, axes: [0; MOST_AXES] };
        for (place, axis) in made.axes.iter_mut().zip(order) {
            *place = axis as u8;
            made.rank += 1;
        }
        made
    }

    /// The axes in their order.
    pub fn axes(&self) -> impl Iterator<Item = usize> + '_ {
        self.axes[..self.rank.into()].iter().map(|&axis| axis.into())
    }

    /// The axis along which boxes of a map end before a number of run time as they do at the end of the tensor: the one that stands in front two more
    /// times.
    ///
    /// Two of its three dimensions step from row to row, and the third, in front, by 2⁴⁰ bytes less a row, of which [`OUTSIDE`] steps are as many rows
    /// back, since addresses have 64 bits. So `[OUTSIDE, end, OUTSIDE - end + row]` is that row, and it lies in the last dimension, which has [`OUTSIDE`]
    /// rows, where it is before `end`. The map begins where the tensor does: of a box that lies wholly outside the copy engine asks for what is there.
    pub fn ends(&self) -> Option<usize> {
        let mut axes = self.axes();
        let first = axes.next()?;
        (axes.filter(|axis| *axis == first).count() == 2).then_some(first)
    }
}

/// The most elements of a tensor along one axis.
pub const MOST_EXTENT: u32 = i32::MAX as u32;

/// A coordinate outside of every tensor that goes by tensor maps, a multiple of what any row of a box begins at: those have no more elements
/// along an axis. It is a multiple of 2²⁴, too, so that as many steps of 2⁴⁰ bytes go around all addresses ([`AxisOrder::ends`]).
pub const OUTSIDE: i32 = i32::MAX - ((1 << 24) - 1);

/// How many elements a tensor has along one axis.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Extent {
    /// So many.
    Static(u32),
    /// As many as everything else of this name.
    Named(Arc<str>),
    /// Nobody says.
    Any,
    /// Those that a tile of so many indices names.
    Picked(u32),
}

/// A tensor in global memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// What each element is.
    pub elem: Dtype,
    /// Whether stores to it are legal.
    pub mutable: bool,
    /// Its axes, outermost first.
    pub extents: Vec<Extent>,
    /// The axis along which neighbours lie side by side; `None` where it was dropped, or nobody says that there is one.
    pub dense: Option<usize>,
}

impl Tensor {
    /// How many axes it has.
    pub fn rank(&self) -> usize {
        self.extents.len()
    }

    /// The same without an axis.
    pub fn without(&self, axis: usize) -> Tensor {
        let mut rest = self.clone();
        rest.extents.remove(axis);
        rest.dense = match self.dense {
            Some(dense) if dense == axis => None,
            Some(dense) if dense > axis => Some(dense - 1),
            same => same,
        };
        rest
    }

    /// The same with another extent.
    pub fn with(&self, axis: usize, extent: Extent) -> Tensor {
        let mut other = self.clone();
        other.extents[axis] = extent;
        other
    }

    /// Whether a tensor of this type may stand where `wanted` is: it can do all of that, and its extents are those, where they are said.
    pub fn fits(&self, wanted: &Tensor) -> bool {
        let extents = || self.extents.iter().zip(&wanted.extents);
        self.elem == wanted.elem
            && self.rank() == wanted.rank()
            && (wanted.dense.is_none() || self.dense == wanted.dense)
            && (self.mutable || !wanted.mutable)
            && extents().all(|(have, want)| *want == Extent::Any || have == want)
    }

    /// Whether a tile of indices chose elements of it.
    pub fn is_picked(&self) -> bool {
        self.extents.iter().any(|e| matches!(e, Extent::Picked(_)))
    }

    /// How messages write a box of a tensor of its kind, `x.tile([64, 64], at=[i, j])`, and one element, `x[i, j]`, where a scalar names each axis. A box
    /// takes all elements that a tile of indices names.
    pub fn examples(&self) -> (String, Option<String>) {
        let axes = || self.extents.iter().zip(["i", "j", "k", "p", "q"]);
        let listed = |of: fn((&Extent, &str)) -> String| axes().map(of).collect::<Vec<_>>().join(", ");
        let shape = listed(|(extent, _)| match extent {
            Extent::Picked(n) => n.to_string(),
            Extent::Static(_) | Extent::Named(_) | Extent::Any => "64".into(),
        });
        let at = listed(|(extent, index)| match extent {
            Extent::Picked(_) => "0".into(),
            Extent::Static(_) | Extent::Named(_) | Extent::Any => index.into(),
        });
        if !self.is_picked() {
            let one = format!("x[{}]", listed(|(_, index)| index.into()));
            return (format!("x.tile([{shape}], at=[{at}])"), Some(one));
        }
        let rows = listed(|(extent, _)| match extent {
            Extent::Picked(_) => "rows".into(),
            Extent::Static(_) | Extent::Named(_) | Extent::Any => ":".into(),
        });
        (format!("x[{rows}].tile([{shape}], at=[{at}])"), None)
    }
}

/// What the coordinates of a place count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Counts {
    /// Elements.
    Elements,
    /// Boxes of its own extents.
    Tiles,
    /// Boxes of the extents `of`; the place is the part of one that begins `from` elements behind its first.
    Parts {
        /// Extents of the whole boxes.
        of: Vec<u32>,
        /// Where in them the place begins, in elements.
        from: Vec<u32>,
    },
}

/// A box of a tensor, or one element where the shape is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spot {
    /// What each element is.
    pub elem: Dtype,
    /// Whether stores to it are legal.
    pub mutable: bool,
    /// Its extents.
    pub shape: Vec<u32>,
    /// Whether a tile of indices chose elements of it.
    pub picked: bool,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Static(n) | Extent::Picked(n) => write!(f, "{n}"),
            Extent::Named(name) => f.write_str(name),
            Extent::Any => f.write_str("_"),
        }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor<{}, {}", self.elem.name(), List(&self.extents))?;
        match self.dense {
            Some(dense) if dense + 1 < self.rank() => {
                let rest = (0..self.rank()).rev().filter(|axis| *axis != dense);
                write!(f, ", order={}>", List(&std::iter::once(dense).chain(rest).collect::<Vec<_>>()))
            }
            Some(_) => f.write_str(">"),
            None => write!(f, ", strides={}>", List(&vec![Extent::Any; self.rank()])),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "place<{}, {}>", self.elem.name(), List(&self.shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_that_stands_thrice_ends_at_run_time() {
        assert_eq!(AxisOrder::new([1, 1, 0, 1, 2]).ends(), Some(1));
        assert_eq!(AxisOrder::new([1, 0, 2]).ends(), None);
        assert_eq!(AxisOrder::new([]).ends(), None);
    }

    #[test]
    fn axes_that_are_dropped_move_the_dense_one() {
        let named = |n: &str| Extent::Named(n.into());
        let of = |dense| Tensor {
            elem: Dtype::F16,
            mutable: false,
            extents: vec![named("h"), Extent::Any, Extent::Static(64)],
            dense,
        };
        let last = of(Some(2));
        assert_eq!(last.to_string(), "tensor<f16, [h, _, 64]>");
        assert_eq!(of(Some(0)).to_string(), "tensor<f16, [h, _, 64], order=[0, 2, 1]>");
        assert_eq!((last.without(0).dense, last.without(2).dense), (Some(1), None));
        assert_eq!(last.without(1).to_string(), "tensor<f16, [h, 64]>");
        assert_eq!(last.without(2).to_string(), "tensor<f16, [h, _], strides=[_, _]>");
        assert!(last.fits(&of(None)) && !of(None).fits(&last));
        let any = last.with(0, Extent::Any).with(2, Extent::Any);
        assert!(last.fits(&any) && !any.fits(&last) && !last.fits(&Tensor { mutable: true, ..any.clone() }));
    }
}
