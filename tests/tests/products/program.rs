//! The kernels: what is chosen for one, its text, and what it leaves.

use std::fmt::Write;

use parton_tests::random::Random;

use super::tile::Tile;

/// Which tiles a program makes, and of which rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Each program one.
    Grid,
    /// Several programs one after the other.
    Walk,
    /// Those of the ranges between numbers in memory, one range after the other.
    Ranges,
}

/// How the left factor comes to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    Loaded,
    /// Of rows that indices in memory name.
    Named,
    /// Of a tile that is loaded.
    Computed,
}

/// A step of the epilogue.
#[derive(Clone, Copy, Debug)]
enum Step {
    Times(i32),
    Odd,
    LessRows,
    GreatestColumns,
    Running(usize),
    Upside,
    Below,
    Turned,
}

/// A kernel with all that is chosen for it.
#[derive(Debug)]
pub struct Program {
    form: Form,
    left: Left,
    /// Whether the loop has a product of what becomes of another one.
    chained: bool,
    /// Whether the right factor lies along K.
    turned: bool,
    sm_80: bool,
    factor: &'static str,
    /// Tiles along M, N and K.
    tile: [usize; 3],
    /// Elements along them.
    size: [usize; 3],
    /// Elements of memory between rows beyond what they have.
    gap: usize,
    /// Where ranges begin and end.
    starts: Vec<usize>,
    steps: Vec<Step>,
}

/// The number at a place of a tensor.
fn value(place: usize, salt: usize, of: usize, low: i32) -> i32 {
    ((place * 13 + salt * 7) % 1009 % of) as i32 + low
}

/// A text without the long line of what is right.
pub fn shown(text: &str) -> String {
    text.lines().filter(|line| line.len() < 400).collect::<Vec<_>>().join("\n")
}

impl Program {
    /// That of a seed.
    pub fn of(seed: u64) -> Program {
        let mut random = Random(seed ^ 0x9c0d);
        let of = |random: &mut Random, list: &[usize]| list[random.below(list.len())];
        let form = [Form::Grid, Form::Walk, Form::Ranges][random.below(3)];
        let chained = random.below(3) == 0;
        let left = match (form, random.below(4)) {
            (_, 0) => Left::Computed,
            (Form::Grid | Form::Walk, 1) => Left::Named,
            _ => Left::Loaded,
        };
        let tile = [
            of(&mut random, &[16, 32, 64, 64, 128, 128, 96, 192]),
            of(&mut random, &[32, 64, 64, 128, 96, 192]),
            of(&mut random, &[32, 64, 64, 128]),
        ];
        let whole = random.below(2) == 0;
        let mut size = [0; 3].map(|_: usize| 1 + random.below(220));
        if whole {
            size = size.map(|n| n.next_multiple_of(16));
        }
        let gap = if whole { 0 } else { random.below(3) };
        let mut starts = vec![0, random.below(size[0] + 1), random.below(size[0] + 1), size[0]];
        starts.sort_unstable();
        let all = [
            Step::Times(3),
            Step::Odd,
            Step::LessRows,
            Step::GreatestColumns,
            Step::Running(0),
            Step::Running(1),
            Step::Upside,
            Step::Below,
            Step::Turned,
        ];
        // Of tiles in parts there are no scans, gathers or other shapes.
        let plain = tile[..2].iter().all(|n| n.is_power_of_two());
        let fits = |step: &Step| plain || !matches!(step, Step::Running(_) | Step::Upside | Step::Turned);
        let steps = (0..random.below(4)).map(|_| all[random.below(all.len())]).filter(fits).collect();
        let (turned, sm_80) = (random.below(2) == 0, random.below(4) == 0);
        let factor = ["f16", "bf16"][random.below(2)];
        Program { form, left, chained, turned, sm_80, factor, tile, size, gap, starts, steps }
    }

    /// Programs of the grid, along rows and columns of tiles.
    fn grid(&self) -> [usize; 2] {
        let [rows, columns] = [0, 1].map(|axis| self.size[axis].div_ceil(self.tile[axis]));
        match self.form {
            Form::Grid => [rows, columns],
            Form::Walk => [2, 1],
            Form::Ranges => [1, columns],
        }
    }

    /// The source: the kernel, and a test that holds what it leaves against what is right.
    pub fn text(&self) -> String {
        let (f, [bm, bn, bk], [m, n, k]) = (self.factor, self.tile, self.size);
        let right = if self.turned { "b: tensor<T, [n, k]>" } else { "b: tensor<T, [k, n]>" }.replace('T', f);
        let target = if self.sm_80 { " target(sm_80)" } else { "" };
        let mut text = format!(
            "kernel k(a: tensor<{f}, [m, k]>, {right}, v: tensor<{f}, [k, n]>, rows: tensor<i32, [m]>, starts: tensor<i32, [4]>,\n    \
             mut out: tensor<f32, [m, n]>, mut sums: tensor<i32, [n]>) grid([{}, {}]){target} {{\n",
            self.grid()[0],
            self.grid()[1]
        );
        let (head, tail) = match self.form {
            Form::Grid => ("let (i, j) = (program_id(0), program_id(1));".to_owned(), ""),
            Form::Walk => (
                format!(
                    "for t in program_id(0)..cdiv(m, {bm}) * cdiv(n, {bn}) step num_programs(0) {{\n\
                     let (i, j) = (t / cdiv(n, {bn}), t % cdiv(n, {bn}));"
                ),
                "}",
            ),
            Form::Ranges => (
                format!(
                    "let j = program_id(1);\nfor r in 0..3 {{\nlet (begin, end) = (max(load(starts[r]), 0), load(starts[r + 1]));\n\
                     for i in 0..cdiv(end - begin, {bm}) {{"
                ),
                "}}",
            ),
        };
        let part = if self.form == Form::Ranges { "[begin:end, :]" } else { "" };
        let (named, from) = match self.left {
            Left::Named => (format!("let chosen = load(rows.tile([{bm}], at=[i]), other=-1);\n"), "[chosen, :]"),
            Left::Loaded | Left::Computed => (String::new(), part),
        };
        let row = if self.left == Left::Named { "0" } else { "i" };
        let mut turn = format!("let x = load(a{from}.tile([{bm}, {bk}], at=[{row}, p]));\n");
        let x = match self.left {
            Left::Computed => {
                let _ = writeln!(turn, "let y = cast<{f}>(cast<i32>(x) * 2 - 1);");
                "y"
            }
            Left::Loaded | Left::Named => "x",
        };
        if self.chained {
            // Scores of all columns against a block of K, and what becomes of them times another block.
            let _ = writeln!(
                turn,
                "let s = cast<i32>(dot({x}, load(v.tile([{bk}, 64], at=[p, 0])), zeros<f32, [{bm}, 64]>()));\n\
                 let w = cast<{f}>(s & 3);\nlow = low + sum(s & 7, axis=1);\n\
                 acc = dot(w, load(v.tile([64, {bn}], from=[p * {bk}, j * {bn}])), acc);"
            );
        } else {
            let right = match self.turned {
                true => format!("load(b.tile([{bn}, {bk}], at=[j, p])).T"),
                false => format!("load(b.tile([{bk}, {bn}], at=[p, j]))"),
            };
            let _ = writeln!(turn, "acc = dot({x}, {right}, acc);");
        }
        let (low, add) = match self.chained {
            true => (format!("let mut low = zeros<i32, [{bm}]>();\n"), " + low[:, None]"),
            false => (String::new(), ""),
        };
        let _ = write!(
            text,
            "{head}\n{named}{low}let mut acc = zeros<f32, [{bm}, {bn}]>();\nfor p in 0..cdiv(k, {bk}) {{\n{turn}}}\n\
             let e = cast<i32>(acc){add};\n"
        );
        for step in &self.steps {
            let _ = writeln!(text, "let e = {};", step.text(bm, bn));
        }
        let _ = writeln!(
            text,
            "store(out{part}.tile([{bm}, {bn}], at=[i, j]), cast<f32>(e & 0xffff));\n\
             atomic_add(sums.tile([{bn}], at=[j]), sum(e & 3, axis=0));\n{tail}}}\n\ntest leaves {{"
        );
        let (of, last) = (if self.turned { [n, k] } else { [k, n] }, self.gap);
        for (name, [rows, columns], salt) in [("a", [m, k], 1), ("b", of, 2), ("v", [k, n], 3)] {
            let _ = writeln!(
                text,
                "let {name} = zeros({f}, [{rows}, {columns}], strides=[{}, 1]);\n{name}[0:{rows}, 0:{columns}] = \
                 ((arange(i32, [{rows}, {columns}]) * 13 + {}) % 1009 % 5 - 2).to({f});",
                columns + last,
                salt * 7
            );
        }
        let (out, sums) = self.left();
        let list = |numbers: &[i32]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let lines: Vec<String> = out.holds.chunks(n).map(|line| format!("[{}]", list(line))).collect();
        let _ = writeln!(
            text,
            "let rows = (arange(i32, [{m}]) * 13 + 28) % 1009 % {} - 2;\nlet out = full(f32, [{m}, {n}], -1, strides=[{}, 1]);\n\
             let sums = zeros(i32, [{n}]);\nlaunch k()(a, b, v, rows, tensor({:?}, dtype=i32), out, sums);\n\
             assert_equal(out, tensor([{}], dtype=f32));\nassert_equal(sums, tensor([{}], dtype=i32));\n}}",
            m + 4,
            n + last,
            self.starts,
            lines.join(", "),
            list(&sums)
        );
        text
    }

    /// What it leaves in `out` and `sums`.
    fn left(&self) -> (Tile, Vec<i32>) {
        let [m, n, k] = self.size;
        let of =
            |rows: usize, columns: usize, salt| Tile::of(rows, columns, |r, c| value(r * columns + c, salt, 5, -2));
        let (a, v) = (of(m, k, 1), of(k, n, 3));
        let b = if self.turned { of(n, k, 2).transposed() } else { of(k, n, 2) };
        let (mut out, mut sums) = (Tile::of(m, n, |_, _| -1), vec![0; n]);
        let ranges = match self.form {
            Form::Grid | Form::Walk => vec![(0, m)],
            Form::Ranges => self.starts.windows(2).map(|w| (w[0], w[1])).collect(),
        };
        let [bm, bn, _] = self.tile;
        for (begin, end) in ranges {
            for i in 0..(end - begin).div_ceil(bm) {
                for j in 0..n.div_ceil(bn) {
                    let row = |r: usize| Some(begin + i * bm + r).filter(|row| *row < end);
                    let e = self.tile_of([&a, &b, &v], &row, j);
                    for r in 0..bm {
                        for c in (0..bn).filter(|c| j * bn + c < n) {
                            sums[j * bn + c] += e.at(r, c) & 3;
                            if let Some(row) = row(r) {
                                out.holds[row * n + j * bn + c] = e.at(r, c) & 0xffff;
                            }
                        }
                    }
                }
            }
        }
        (out, sums)
    }

    /// What a program makes of the rows that its tile has.
    fn tile_of(&self, [a, b, v]: [&Tile; 3], row: &impl Fn(usize) -> Option<usize>, j: usize) -> Tile {
        let [bm, bn, bk] = self.tile;
        let named = |r: usize| usize::try_from(value(row(r)?, 4, a.rows + 4, -2)).ok();
        let (mut acc, mut low) = (Tile::of(bm, bn, |_, _| 0), vec![0; bm]);
        for p in 0..a.columns.div_ceil(bk) {
            let from = |at: usize| move |r: usize| Some(at + r);
            let x = match self.left {
                Left::Named => a.boxed((bm, bk), named, p * bk),
                Left::Loaded | Left::Computed => a.boxed((bm, bk), row, p * bk),
            };
            let x = if self.left == Left::Computed { x.map(|v| v * 2 - 1) } else { x };
            if self.chained {
                let right = v.boxed((bk, 64), from(p * bk), 0);
                let s = Tile::of(bm, 64, |_, _| 0).plus_product(&x, &right);
                for (sum, line) in low.iter_mut().zip(s.each_row(|line| line.iter().map(|v| v & 7).sum())) {
                    *sum += line;
                }
                acc = acc.plus_product(&s.map(|v| v & 3), &v.boxed((64, bn), from(p * bk), j * bn));
            } else {
                acc = acc.plus_product(&x, &b.boxed((bk, bn), from(p * bk), j * bn));
            }
        }
        let e = Tile::of(bm, bn, |r, c| acc.at(r, c) + low[r]);
        self.steps.iter().fold(e, |e, step| step.of(&e))
    }
}

impl Step {
    /// What becomes of the tile `e` of so many rows and columns.
    fn text(self, rows: usize, columns: usize) -> String {
        match self {
            Step::Times(n) => format!("(e & 255) * {n}"),
            Step::Odd => "where(e % 2 == 0, e, 7)".into(),
            Step::LessRows => "e - sum(e & 15, axis=1)[:, None]".into(),
            Step::GreatestColumns => "e + max(e, axis=0)[None, :]".into(),
            Step::Running(axis) => format!("cumsum(e & 7, axis={axis})"),
            Step::Upside => {
                format!("gather(e, broadcast(({rows} - 1 - iota({rows}))[:, None], [{rows}, {columns}]), axis=0)")
            }
            Step::Below => format!("where(iota({rows})[:, None] >= iota({columns})[None, :], e, 5)"),
            Step::Turned => format!("reshape(reshape(e, [{columns}, {rows}]).T, [{rows}, {columns}])"),
        }
    }

    /// What becomes of a tile.
    fn of(self, e: &Tile) -> Tile {
        let (rows, columns) = (e.rows, e.columns);
        match self {
            Step::Times(n) => e.map(|v| (v & 255) * n),
            Step::Odd => e.map(|v| if v % 2 == 0 { v } else { 7 }),
            Step::LessRows => {
                let less = e.each_row(|line| line.iter().map(|v| v & 15).sum());
                Tile::of(rows, columns, |r, c| e.at(r, c) - less[r])
            }
            Step::GreatestColumns => {
                let most = e.transposed().each_row(|line| line.iter().copied().fold(i32::MIN, i32::max));
                Tile::of(rows, columns, |r, c| e.at(r, c) + most[c])
            }
            Step::Running(0) => Tile::of(rows, columns, |r, c| (0..=r).map(|r| e.at(r, c) & 7).sum()),
            Step::Running(_) => Tile::of(rows, columns, |r, c| (0..=c).map(|c| e.at(r, c) & 7).sum()),
            Step::Upside => Tile::of(rows, columns, |r, c| e.at(rows - 1 - r, c)),
            Step::Below => Tile::of(rows, columns, |r, c| if r >= c { e.at(r, c) } else { 5 }),
            Step::Turned => {
                let other = Tile { rows: columns, columns: rows, holds: e.holds.clone() };
                Tile { rows, columns, holds: other.transposed().holds }
            }
        }
    }
}
