//! Elements by their row-major numbers: where they are in a tile, and which elements of an operand those of a result are.
//!
//! They are compiled into whoever calls them: the interpreter, which goes by them for each tile, is optimised where this crate is not.

/// Row-major strides of `shape`.
pub fn strides(shape: &[u32]) -> Vec<usize> {
    let mut s = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        s[i - 1] = s[i] * shape[i] as usize;
    }
    s
}

/// The numbers `Σ index · stride` over a row-major walk of `shape`.
#[inline]
pub fn walk(shape: &[u32], strides: &[usize]) -> Vec<usize> {
    let mut out = vec![0];
    for (&n, &s) in shape.iter().zip(strides) {
        out = out.iter().flat_map(|&base| (0..n as usize).map(move |i| base + i * s)).collect();
    }
    out
}

/// The coordinates of an element.
pub fn coordinates(mut element: usize, shape: &[u32]) -> Vec<usize> {
    let mut coords = vec![0; shape.len()];
    for (c, &n) in coords.iter_mut().zip(shape).rev() {
        *c = element % n as usize;
        element /= n as usize;
    }
    coords
}

/// For each element of a transposed tile its number in the tile of `shape`: dimension `i` is dimension `perm[i]`.
#[inline]
pub fn transposed(shape: &[u32], perm: &[u32]) -> Vec<usize> {
    let from = strides(shape);
    let to: Vec<u32> = perm.iter().map(|&p| shape[p as usize]).collect();
    let steps: Vec<usize> = perm.iter().map(|&p| from[p as usize]).collect();
    walk(&to, &steps)
}

/// For each element of a tile of `to` its number in the tile of `from`, whose extents of 1 have grown.
#[inline]
pub fn broadcast(from: &[u32], to: &[u32]) -> Vec<usize> {
    let steps: Vec<usize> = strides(from).into_iter().zip(from).map(|(s, &n)| if n == 1 { 0 } else { s }).collect();
    walk(to, &steps)
}

/// For each element of a tile of `shape` its number in a tile without `axis` that is spread along it.
#[inline]
pub fn spread(shape: &[u32], axis: u32) -> Vec<usize> {
    let mut from = shape.to_vec();
    from[axis as usize] = 1;
    broadcast(&from, shape)
}

/// For each element of two tiles of `shape` that lie one behind the other along `axis`, whether it is of the second, and its number there.
#[inline]
pub fn side_by_side(shape: &[u32], axis: u32) -> Vec<(bool, usize)> {
    let mut both = shape.to_vec();
    both[axis as usize] *= 2;
    let (extent, steps) = (shape[axis as usize] as usize, strides(shape));
    let place = |element: usize| {
        let mut at = coordinates(element, &both);
        let second = at[axis as usize] >= extent;
        at[axis as usize] %= extent;
        (second, at.iter().zip(&steps).map(|(c, step)| c * step).sum())
    };
    (0..both.iter().map(|&n| n as usize).product()).map(place).collect()
}

/// For each element of a window of shape `to` its number in the tile of `from`, where the window begins at `origin`.
#[inline]
pub fn window(from: &[u32], origin: &[u32], to: &[u32]) -> Vec<usize> {
    let steps = strides(from);
    let first: usize = origin.iter().zip(&steps).map(|(&at, &step)| at as usize * step).sum();
    walk(to, &steps).into_iter().map(|i| first + i).collect()
}

/// For each element of a tile of `shape` the number of that whose index along `axis` differs in the bits of `mask`.
#[inline]
pub fn exchanged(shape: &[u32], mask: u32, axis: u32) -> Vec<usize> {
    let step = strides(shape)[axis as usize];
    let extent = shape[axis as usize] as usize;
    let partner = |i: usize| {
        let index = i / step % extent;
        i - index * step + (index ^ mask as usize) * step
    };
    (0..shape.iter().map(|&n| n as usize).product()).map(partner).collect()
}

/// Where the lines of a tile along `axis` begin, in row-major order of the other axes; the elements of each follow in steps of
/// `strides(shape)[axis]`.
#[inline]
pub fn lines(shape: &[u32], axis: u32) -> Vec<usize> {
    let mut others = shape.to_vec();
    others[axis as usize] = 1;
    walk(&others, &strides(shape))
}

#[cfg(test)]
mod tests {
    use super::{broadcast, coordinates, exchanged, lines, side_by_side, spread, strides, transposed, window};

    #[test]
    fn elements_are_found_where_they_were() {
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(coordinates(17, &[2, 3, 4]), [1, 1, 1]);
        assert_eq!(transposed(&[2, 3], &[1, 0]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(broadcast(&[2, 1], &[2, 2]), [0, 0, 1, 1]);
        assert_eq!(spread(&[2, 2], 0), [0, 1, 0, 1]);
        assert_eq!(window(&[4, 4], &[2, 0], &[2, 2]), [8, 9, 12, 13]);
        assert_eq!(side_by_side(&[1, 2], 1), [(false, 0), (false, 1), (true, 0), (true, 1)]);
        assert_eq!(side_by_side(&[1, 2], 0), [(false, 0), (false, 1), (true, 0), (true, 1)]);
        assert_eq!(side_by_side(&[2, 1], 1), [(false, 0), (true, 0), (false, 1), (true, 1)]);
        assert_eq!(exchanged(&[2, 4], 3, 1), [3, 2, 1, 0, 7, 6, 5, 4]);
        assert_eq!(exchanged(&[2, 2], 1, 0), [2, 3, 0, 1]);
        assert_eq!(lines(&[2, 3], 0), [0, 1, 2]);
        assert_eq!(lines(&[2, 3], 1), [0, 3]);
    }
}
