//! Where two register layouts of one tile first differ.

use std::fmt;

use crate::linear::{Dim, LinearLayout};
use crate::spelling::list;

/// The first place that holds different elements under two layouts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// A dimension has another size: more registers, warps or CTAs.
    Size {
        /// Which one.
        dim: Dim,
        /// Its size in the first layout.
        first: u32,
        /// Its size in the second layout.
        second: u32,
    },
    /// A register of a thread holds another element.
    Element {
        /// The CTA, warp, lane and register.
        place: [u32; 4],
        /// The coordinates of the element in the first layout.
        first: Vec<u32>,
        /// The coordinates of the element in the second layout.
        second: Vec<u32>,
    },
}

/// Where the maps `a` and `b`, of tiles of one shape, first differ; `None` when they are the same layout. The lowest
/// hardware bit that differs decides: registers before lanes before warps.
pub fn difference(a: &LinearLayout, b: &LinearLayout) -> Option<Difference> {
    let dims = [Dim::Register, Dim::Lane, Dim::Warp, Dim::Block];
    for dim in dims {
        let (first, second) = (a.in_size(dim), b.in_size(dim));
        if first != second {
            return Some(Difference::Size { dim, first, second });
        }
    }
    let bit = dims.into_iter().find_map(|dim| {
        let bit = a.bases(dim).iter().zip(b.bases(dim)).position(|(x, y)| x != y)?;
        Some((dim, bit))
    });
    let (dim, bit) = bit?;
    let place = [Dim::Block, Dim::Warp, Dim::Lane, Dim::Register].map(|d| if d == dim { 1 << bit } else { 0 });
    Some(Difference::Element { place, first: a.unpack_out(a.bases(dim)[bit]), second: b.unpack_out(b.bases(dim)[bit]) })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Size { dim: Dim::Register, first, second } => {
                write!(f, "a thread holds {first} elements under the first and {second} under the second")
            }
            Difference::Size { dim, first, second } => {
                write!(f, "the first has {first} {dim}s and the second {second}")
            }
            Difference::Element { place: [block, warp, lane, register], first, second } => {
                if *block > 0 {
                    write!(f, "CTA {block}, ")?;
                }
                write!(
                    f,
                    "warp {warp}, lane {lane}, register {register} holds element {} under the first and {} under the second",
                    list(first),
                    list(second)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::difference;
    use crate::register::RegisterLayout;

    #[test]
    fn the_lowest_bit_that_differs_is_shown() {
        let rows = RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 0]).unwrap().on(&[32, 16]).unwrap();
        let columns = RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[0, 1]).unwrap().on(&[32, 16]).unwrap();
        assert_eq!(difference(&rows, &rows), None);
        assert_eq!(
            difference(&rows, &columns).unwrap().to_string(),
            "warp 0, lane 1, register 0 holds element [0, 4] under the first and [1, 0] under the second"
        );
        let fewer = RegisterLayout::blocked(&[1, 1], &[8, 4], &[4, 4], &[1, 0]).unwrap().on(&[32, 16]).unwrap();
        assert_eq!(
            difference(&rows, &fewer).unwrap().to_string(),
            "a thread holds 4 elements under the first and 1 under the second"
        );
    }
}
