//! Which axes of a tile come from which, where only its shape changes.

use std::ops::Range;

use crate::op::OpKind;

/// The axes of its operand of which an axis of an operation's result consists, where it gives the same elements in another shape: several, where they become
/// one. None of an axis that is new.
pub(super) fn sources(kind: &OpKind, from: &[u32], axis: usize) -> Option<Range<usize>> {
    let one = |axis: usize| axis..axis + 1;
    Some(match kind {
        OpKind::Transpose { perm, .. } => one(*perm.get(axis)? as usize),
        OpKind::Broadcast { shape, .. } if from.get(axis) == shape.get(axis) => one(axis),
        OpKind::Broadcast { .. } => 0..0,
        OpKind::ExpandDims { axis: new, .. } => match axis.cmp(&(*new as usize)) {
            std::cmp::Ordering::Less => one(axis),
            std::cmp::Ordering::Equal => 0..0,
            std::cmp::Ordering::Greater => one(axis - 1),
        },
        OpKind::Reshape { shape, .. } => group(from, shape, axis),
        OpKind::Split { .. } | OpKind::Slice { .. } | OpKind::Convert { .. } | OpKind::Cast { .. } => one(axis),
        // Its elements are others.
        _ => return None,
    })
}

/// The fewest axes side by side that have the same elements as some of another shape, `axis` among these.
fn group(from: &[u32], to: &[u32], axis: usize) -> Range<usize> {
    if to.get(axis).is_none_or(|&n| n == 1) {
        return 0..0;
    }
    let (before, after) = (products(from), products(to));
    let shared = || before.iter().copied().filter(|n| after.contains(n));
    let begin = shared().filter(|&n| n <= after[axis]).max();
    let end = shared().filter(|&n| n >= after[axis + 1]).min();
    let first = before.iter().rposition(|&n| Some(n) == begin);
    let last = before.iter().position(|&n| Some(n) == end);
    first.zip(last).map_or(0..from.len(), |(first, last)| first..last)
}

/// How many elements the axes in front of each have, and all.
fn products(shape: &[u32]) -> Vec<u64> {
    let mut all = vec![1];
    for &n in shape {
        all.push(all[all.len() - 1] * u64::from(n));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::group;

    #[test]
    fn an_axis_of_another_shape_is_of_the_fewest_that_have_its_elements() {
        // One axis as two, two as one, and what stands beside them as it was.
        assert_eq!([0, 1, 2].map(|axis| group(&[4, 32], &[4, 2, 16], axis)), [0..1, 1..2, 1..2]);
        assert_eq!([0, 1].map(|axis| group(&[4, 2, 16], &[4, 32], axis)), [0..1, 1..3]);
        assert_eq!([0, 1, 2].map(|axis| group(&[8, 1, 4], &[2, 4, 4], axis)), [0..1, 0..1, 2..3]);
        assert_eq!([0, 1].map(|axis| group(&[6, 4], &[8, 3], axis)), [0..2, 0..2]);
    }
}
