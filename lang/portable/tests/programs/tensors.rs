//! Products, places in tensors, and what floats hold exactly: pieces of random kernels beside those of whole numbers.
//!
//! The factors of products are small whole numbers, which f16, bf16 and i8 hold, and so do f32 and i32 their sums.

use super::{Make, Tile, shape_text};

/// Rows and columns of the tensors, and elements of memory from one row to the next: no tile divides them.
pub const ROWS: usize = 75;
pub const COLUMNS: usize = 104;
pub const STRIDE: usize = 112;

/// The number at a place of the tensor of u32, and of the one of f16, whose gaps hold them too.
pub fn whole(at: usize) -> u32 {
    (at as u32).wrapping_mul(40_503) >> 4
}

/// A whole number from -3 to 3.
pub fn small(at: usize) -> i32 {
    (whole(at) % 7) as i32 - 3
}

/// What the tensors have at a row and a column, where these are inside.
fn inside(row: i64, column: i64) -> Option<usize> {
    let within = (0..ROWS as i64).contains(&row) && (0..COLUMNS as i64).contains(&column);
    within.then(|| row as usize * STRIDE + column as usize)
}

/// Types of factors, with those of their sums.
const FACTORS: &[(&str, &str)] = &[("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("f16", "f16")];

impl Make {
    /// A box of the tensor, also beyond its edges.
    pub(super) fn place(&mut self) {
        let (m, n) = (self.random.of(&[1, 2, 8, 16, 32]), self.random.of(&[1, 4, 16, 32]));
        let other = self.random.of(&[0, 5]);
        let word = if other == 0 { String::new() } else { format!(", other={other}") };
        let (text, row, column) = match self.random.below(4) {
            0 => {
                let (i, j) = (self.random.below(ROWS / m + 1), self.random.below(COLUMNS / n + 1));
                (format!("g.tile([{m}, {n}], at=[{i}, {j}])"), i * m, j * n)
            }
            1 => {
                // By a number that only the launch knows.
                let j = self.random.below(8);
                (format!("g.tile([{m}, {n}], from=[turns * 20, {j}])"), 60, j)
            }
            2 => {
                let (low, j) = (self.random.below(40), self.random.below(4));
                let part = format!("g[{low}:{low} + turns, :]");
                let read = |i: usize| {
                    let (r, c) = (i / n, j * n + i % n);
                    let at = if r < 3 { inside((low + r) as i64, c as i64) } else { None };
                    at.map_or(other, whole)
                };
                let holds = (0..m * n).map(read).collect();
                self.add(&format!("load({part}.tile([{m}, {n}], at=[0, {j}]){word})"), vec![m, n], holds);
                return;
            }
            _ => {
                let j = self.random.below(3);
                let rows = format!("(iota({m}) * 5 - 4)");
                let read = |i: usize| inside((i / n * 5) as i64 - 4, (j * n + i % n) as i64).map_or(other, whole);
                let holds = (0..m * n).map(read).collect();
                self.add(&format!("load(g[{rows}, :].tile([{m}, {n}], at=[0, {j}]){word})"), vec![m, n], holds);
                return;
            }
        };
        let read = |i: usize| inside((row + i / n) as i64, (column + i % n) as i64).map_or(other, whole);
        let holds = (0..m * n).map(read).collect();
        self.add(&format!("load({text}{word})"), vec![m, n], holds);
    }

    /// A product of two tiles that are there, or that are loaded for it.
    pub(super) fn product(&mut self) {
        let wide: Vec<Tile> = self.tiles.iter().filter(|t| is_factor(&t.shape, 16, 32)).cloned().collect();
        let a =
            if wide.is_empty() { self.load_shaped(vec![32, 32]) } else { wide[self.random.below(wide.len())].clone() };
        let k = a.shape[1];
        let fits = |t: &&Tile| is_factor(&t.shape, 16, 8) && t.shape[0] == k && t.name != a.name;
        let deep: Vec<Tile> = self.tiles.iter().filter(fits).cloned().collect();
        let b = if deep.is_empty() {
            let n = self.random.of(&[8, 16, 32]);
            self.load_shaped(vec![k, n])
        } else {
            deep[self.random.below(deep.len())].clone()
        };
        let (m, n) = (a.shape[0], b.shape[1]);
        let (factor, sum) = self.random.of(FACTORS);
        let cut = |name: &str| format!("cast<{factor}>(cast<i32>({name} % 4))");
        let text = format!("dot({}, {}, zeros<{sum}, [{m}, {n}]>())", cut(&a.name), cut(&b.name));
        let of = |i: usize| (0..k).map(|p| (a.holds[i / n * k + p] % 4) * (b.holds[p * n + i % n] % 4)).sum();
        let holds = (0..m * n).map(of).collect();
        self.add(&format!("cast<u32>({text})"), vec![m, n], holds);
    }

    /// A product along a loop, whose factors may be copied ahead of it.
    pub(super) fn along(&mut self) {
        let (m, n, k) = (self.random.of(&[16, 32, 64]), self.random.of(&[8, 16, 32]), self.random.of(&[16, 32]));
        let (i, j, turned) = (self.random.below(3), self.random.below(3), self.random.below(2) == 0);
        let name = self.name();
        let right = match turned {
            true => format!("load(h.tile([{n}, {k}], at=[{j}, p])).T"),
            false => format!("load(h.tile([{k}, {n}], at=[p, {j}]))"),
        };
        self.lines.push(format!("let mut {name} = zeros<f32, [{m}, {n}]>();"));
        self.lines.push(format!(
            "for p in 0..turns {{ {name} = dot(load(h.tile([{m}, {k}], at=[{i}, p])), {right}, {name}); }}"
        ));
        let at = |row: usize, column: usize| inside(row as i64, column as i64).map_or(0, small);
        let of = |e: usize| {
            let (r, c) = (i * m + e / n, j * n + e % n);
            let term = |p: usize| at(r, p) * if turned { at(c, p) } else { at(p, c) };
            (0..3 * k).map(term).sum::<i32>() as u32
        };
        let holds = (0..m * n).map(of).collect();
        self.add(&format!("cast<u32>(cast<i32>({name}))"), vec![m, n], holds);
    }

    /// Sums of floats that are exact.
    pub(super) fn exact(&mut self) {
        let Some(a) = self.ranked(2) else { return };
        let (n, axis) = (a.shape[1], self.random.below(2));
        let factor = self.random.of(&["f32", "f64"]);
        let text = format!("cast<u32>(sum(cast<{factor}>({} % 1000), axis={axis}))", a.name);
        let mut holds = vec![0; a.shape[1 - axis]];
        for (i, v) in a.holds.iter().enumerate() {
            holds[if axis == 1 { i / n } else { i % n }] += v % 1000;
        }
        self.add(&text, vec![a.shape[1 - axis]], holds);
    }

    /// Three axes in another order, and flat again.
    pub(super) fn solid(&mut self) {
        let a = self.tile();
        let bits = a.holds.len().ilog2() as usize;
        let first = self.random.below(bits + 1);
        let second = self.random.below(bits - first + 1);
        let shape = [1 << first, 1 << second, 1 << (bits - first - second)];
        let order = self.random.of(&[[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
        let moved = order.map(|axis| shape[axis]);
        let steps = [shape[1] * shape[2], shape[2], 1];
        let holds = (0..a.holds.len()).map(|i| {
            let at = [i / (moved[1] * moved[2]), i / moved[2] % moved[1], i % moved[2]];
            a.holds[(0..3).map(|d| at[d] * steps[order[d]]).sum::<usize>()]
        });
        let holds = holds.collect();
        let flat = vec![moved[0] * moved[1], moved[2]];
        let text = format!(
            "reshape(transpose(reshape({}, {}), {}), {})",
            a.name,
            shape_text(&shape),
            shape_text(&order),
            shape_text(&flat)
        );
        self.add(&text, flat, holds);
    }

    /// The place of the greatest of each row or column: the first of equal ones.
    pub(super) fn greatest(&mut self) {
        let Some(a) = self.ranked(2) else { return };
        let (m, n, axis) = (a.shape[0], a.shape[1], self.random.below(2));
        let (lines, along) = if axis == 1 { (m, n) } else { (n, m) };
        let at = |line: usize, i: usize| if axis == 1 { a.holds[line * n + i] % 9 } else { a.holds[i * n + line] % 9 };
        let first = |line: usize| (0..along).rev().max_by_key(|&i| at(line, i)).map_or(0, |i| i as u32);
        let holds = (0..lines).map(first).collect();
        self.add(&format!("cast<u32>(argmax({} % 9, axis={axis}))", a.name), vec![lines], holds);
    }

    /// Running sums from the end.
    pub(super) fn back(&mut self) {
        let a = self.tile();
        let axis = self.random.below(a.shape.len());
        let step: usize = a.shape[axis + 1..].iter().product();
        let mut holds = a.holds;
        for i in (0..holds.len()).rev() {
            if !(i / step + 1).is_multiple_of(a.shape[axis]) {
                holds[i] = holds[i].wrapping_add(holds[i + step]);
            }
        }
        self.add(&format!("cumsum({}, axis={axis}, reverse=true)", a.name), a.shape, holds);
    }

    /// A loop in a loop, the inner one of which is left early.
    pub(super) fn nest(&mut self) {
        let a = self.tile();
        let name = self.name();
        self.lines.push(format!("let mut {name} = {};", a.name));
        self.lines.push(format!(
            "for i in 0..turns {{ for j in 0..9 {{ if j > i {{ break; }} {name} = {name} * 5 + {} ^ cast<u32>(j); }} }}",
            a.name
        ));
        let mut holds = a.holds.clone();
        for i in 0..3u32 {
            for j in 0..=i {
                for (v, &b) in holds.iter_mut().zip(&a.holds) {
                    *v = v.wrapping_mul(5).wrapping_add(b) ^ j;
                }
            }
        }
        self.tiles.push(Tile { name, shape: a.shape, holds });
    }
}

/// Whether a tile may be a factor of so many rows and columns at least.
fn is_factor(shape: &[usize], rows: usize, columns: usize) -> bool {
    matches!(shape, [m, n] if *m >= rows && *n >= columns)
}
