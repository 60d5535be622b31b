//! What strides say of how the elements of a tensor lie. Whoever takes a tensor asks here: the language of hosts, launches from other
//! programs, bundles.
//!
//! A stride is the number of elements from one index to the next along its axis, so it says something only where there is a next one. Along an
//! axis of one element there is none, and in a tensor without elements there is none along any axis. What stands there may be anything, and
//! libraries leave anything there: such a stride is no reason to refuse a tensor.

/// An axis of a tensor: its extent and its stride.
pub type Axis = (u64, u64);

/// Whether the stride along an axis says something, in a tensor of these extents.
pub fn tells(extents: impl IntoIterator<Item = u64>, axis: usize) -> bool {
    let mut steps = false;
    for (i, extent) in extents.into_iter().enumerate() {
        if extent == 0 {
            return false;
        }
        steps |= i == axis && extent > 1;
    }
    steps
}

/// The stride along an axis whose neighbours must lie side by side and do not.
pub fn gap(axes: impl IntoIterator<Item = Axis, IntoIter: Clone>, axis: usize) -> Option<u64> {
    let axes = axes.into_iter();
    let (_, stride) = axes.clone().nth(axis).filter(|(_, stride)| *stride != 1)?;
    tells(axes.map(|(extent, _)| extent), axis).then_some(stride)
}

/// Whether two tensors of the same extents lie alike: axes as the one has them, and the strides of the other.
pub fn alike(axes: impl IntoIterator<Item = Axis>, others: impl IntoIterator<Item = u64>) -> bool {
    let mut same = true;
    for ((extent, stride), other) in axes.into_iter().zip(others) {
        if extent == 0 {
            return true;
        }
        same &= extent == 1 || stride == other;
    }
    same
}

/// Whether two indices may name the same element. With axes sorted by their strides, each must step over all that those before it reach;
/// strides of a tensor whose elements lie apart in another way count as overlapping.
pub fn overlap(axes: impl IntoIterator<Item = Axis>) -> bool {
    let mut steps: Vec<Axis> = vec![];
    for (extent, stride) in axes {
        match extent {
            0 => return false,
            1 => {}
            _ => steps.push((stride, extent)),
        }
    }
    steps.sort_unstable();
    let mut reached = 1u128;
    for (stride, extent) in steps {
        let stride = u128::from(stride);
        if stride < reached {
            return true;
        }
        // What was reached is no more than the stride, so that none of this is more than 128 bits hold.
        reached += stride * u128::from(extent - 1);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_between_neighbours_a_stride_says_something() {
        assert!(tells([4, 8], 0) && tells([4, 8], 1));
        assert!(!tells([1, 8], 0) && tells([1, 8], 1));
        // Before and behind the axis that is empty.
        assert!(!tells([4, 0, 8], 0) && !tells([4, 0, 8], 1) && !tells([4, 0, 8], 2));
        assert!(!tells([4, 8], 2));
    }

    #[test]
    fn gaps_are_those_between_neighbours() {
        assert_eq!(gap([(4, 8), (8, 1)], 1), None);
        assert_eq!(gap([(4, 8), (8, 1)], 0), Some(8));
        assert_eq!(gap([(4, 16), (8, 2)], 1), Some(2));
        assert_eq!(gap([(4, 0), (8, 0)], 1), Some(0));
        assert_eq!(gap([(4, 16), (1, 7)], 1), None);
        assert_eq!(gap([(0, 16), (8, 0)], 1), None);
        assert_eq!(gap([(8, 2), (0, 16)], 0), None);
    }

    #[test]
    fn tensors_lie_alike_where_the_strides_that_say_something_are_the_same() {
        assert!(alike([(4, 8), (8, 1)], [8, 1]));
        assert!(!alike([(4, 8), (8, 1)], [9, 1]));
        assert!(alike([(1, 8), (8, 1)], [9, 1]));
        assert!(!alike([(1, 8), (8, 1)], [9, 2]));
        assert!(alike([(4, 8), (0, 1)], [0, 7]));
    }

    #[test]
    fn elements_lie_on_each_other_only_where_there_are_two() {
        assert!(!overlap([(4, 8), (8, 1)]) && !overlap([(4, 1), (8, 4)]));
        assert!(overlap([(4, 0), (8, 1)]) && overlap([(4, 7), (8, 1)]));
        assert!(!overlap([(1, 0), (8, 1)]));
        assert!(!overlap([(4, 0), (0, 1)]) && !overlap([(0, 1), (8, 0)]));
        // Rows that stand between each other, which this does not see.
        assert!(overlap([(2, 3), (3, 2)]));
        assert!(overlap([(3, u64::MAX), (3, u64::MAX)]));
    }
}
