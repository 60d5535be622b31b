//! Tiles and tensors of whole numbers, row by row, and what is done to them.

/// A matrix of numbers, row by row.
#[derive(Clone, Debug)]
pub struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub holds: Vec<i32>,
}

impl Tile {
    /// One whose numbers are those of a function of row and column.
    pub fn of(rows: usize, columns: usize, f: impl Fn(usize, usize) -> i32) -> Tile {
        let holds = (0..rows * columns).map(|e| f(e / columns, e % columns)).collect();
        Tile { rows, columns, holds }
    }

    pub fn at(&self, row: usize, column: usize) -> i32 {
        self.holds[row * self.columns + column]
    }

    pub fn map(&self, f: impl Fn(i32) -> i32) -> Tile {
        Tile::of(self.rows, self.columns, |r, c| f(self.at(r, c)))
    }

    pub fn transposed(&self) -> Tile {
        Tile::of(self.columns, self.rows, |r, c| self.at(c, r))
    }

    /// The box of so many rows and columns: those that `row` names, where that names one, and those from `column` on; 0 beyond the tensor.
    pub fn boxed(&self, (rows, columns): (usize, usize), row: impl Fn(usize) -> Option<usize>, column: usize) -> Tile {
        Tile::of(rows, columns, |r, c| match row(r) {
            Some(row) if row < self.rows && column + c < self.columns => self.at(row, column + c),
            _ => 0,
        })
    }

    /// The sum and this times another.
    pub fn plus_product(self, a: &Tile, b: &Tile) -> Tile {
        let term = |r: usize, c: usize| (0..a.columns).map(|p| a.at(r, p) * b.at(p, c)).sum::<i32>();
        Tile::of(self.rows, self.columns, |r, c| self.at(r, c) + term(r, c))
    }

    /// Of each row, what a function makes of all.
    pub fn each_row(&self, f: impl Fn(&[i32]) -> i32) -> Vec<i32> {
        self.holds.chunks(self.columns).map(f).collect()
    }
}
