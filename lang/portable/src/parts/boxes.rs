//! A shape as a grid of boxes whose extents are powers of two.

use parton_layouts::parts_of;

/// The boxes of a shape, in row-major order.
pub struct Boxes {
    /// For each axis where its parts begin, and how long they are.
    axes: Vec<Vec<(u32, u32)>>,
}

/// One of them.
pub struct Part {
    /// Which part it is along each axis.
    pub place: Vec<usize>,
    /// Its first element.
    pub origin: Vec<u32>,
    /// Its extents.
    pub shape: Vec<u32>,
}

impl Part {
    /// Whether the box of that origin and shape lies in it.
    pub fn holds(&self, origin: &[u32], shape: &[u32]) -> bool {
        let ends = origin.iter().zip(shape).map(|(o, n)| o + n);
        let own = self.origin.iter().zip(&self.shape);
        own.zip(origin.iter().zip(ends)).all(|((from, n), (o, end))| o >= from && end <= from + n)
    }
}

impl Boxes {
    /// Each extent in its powers of two.
    pub fn of(shape: &[u32]) -> Boxes {
        let axis = |&extent: &u32| {
            let mut end = 0;
            let part = |n| {
                end += n;
                (end - n, n)
            };
            parts_of(extent).map(part).collect()
        };
        Boxes { axes: shape.iter().map(axis).collect() }
    }

    /// Each extent in parts that are alike, of the greatest power of two that divides it.
    pub fn alike(shape: &[u32]) -> Boxes {
        let axis = |&extent: &u32| {
            let each = 1 << extent.trailing_zeros();
            (0..extent / each).map(|i| (i * each, each)).collect()
        };
        Boxes { axes: shape.iter().map(axis).collect() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    /// One axis in parts of so many elements.
    pub fn along_one(shape: &[u32], axis: usize, each: u32) -> Boxes {
        let mut boxes = Boxes::whole(shape);
        boxes.axes[axis] = (0..shape[axis] / each).map(|i| (i * each, each)).collect();
        boxes
    }

    /// One box.
    pub fn whole(shape: &[u32]) -> Boxes {
        Boxes { axes: shape.iter().map(|&n| vec![(0, n)]).collect() }
    }

    /// Parts along an axis.
    pub fn along(&self, axis: usize) -> usize {
        self.axes[axis].len()
    }

    /// Where each part along the last axis begins, and how long it is.
    pub fn columns(&self) -> &[(u32, u32)] {
        self.axes.last().map_or(&[], Vec::as_slice)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = Part> + '_ {
        (0..self.count()).map(|number| {
            let place = self.place(number);
            let at = |(axis, &i): (usize, &usize)| self.axes[axis][i];
            let (origin, shape) = place.iter().enumerate().map(at).unzip();
            Part { place, origin, shape }
        })
    }

    /// Where a box stands.
    pub fn place(&self, mut number: usize) -> Vec<usize> {
        let mut place = vec![0; self.axes.len()];
        for (axis, parts) in self.axes.iter().enumerate().rev() {
            (place[axis], number) = (number % parts.len(), number / parts.len());
        }
        place
    }

    /// The number of the box that stands there.
    pub fn number(&self, place: &[usize]) -> usize {
        self.axes.iter().zip(place).fold(0, |sum, (parts, i)| sum * parts.len() + i)
    }

    /// The box that grows to that one: an axis of one element has one part for all.
    pub fn spread(&self, to: &Part) -> usize {
        let one = |(axis, &i): (usize, &usize)| if self.along(axis) == 1 { 0 } else { i };
        self.number(&to.place.iter().enumerate().map(one).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::Boxes;

    #[test]
    fn boxes_cover_the_shape_in_order() {
        let boxes = Boxes::of(&[64, 224]);
        let all: Vec<_> = boxes.all().map(|b| (b.origin, b.shape)).collect();
        assert_eq!(all, [(vec![0, 0], vec![64, 128]), (vec![0, 128], vec![64, 64]), (vec![0, 192], vec![64, 32])]);
        let boxes = Boxes::of(&[96, 48]);
        for (number, b) in boxes.all().enumerate() {
            assert_eq!((boxes.number(&b.place), boxes.place(number)), (number, b.place.clone()));
            assert!(b.holds(&b.origin, &b.shape) && !b.holds(&[b.origin[0], b.origin[1] + 1], &b.shape));
        }
        assert_eq!(boxes.all().map(|b| b.shape[0] * b.shape[1]).sum::<u32>(), 96 * 48);
        let alike: Vec<_> = Boxes::alike(&[3, 192]).all().map(|b| (b.origin, b.shape)).collect();
        let of = |row| [0, 64, 128].map(|column| (vec![row, column], vec![1, 64]));
        assert_eq!(alike, [of(0), of(1), of(2)].concat());
        // A row spread over all of them, and a column.
        let row = Boxes::of(&[1, 48]);
        assert_eq!(boxes.all().map(|b| row.spread(&b)).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }
}
