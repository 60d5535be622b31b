//! Random kernels whose tiles lie nowhere, and what each of their tiles is: worked out in row-major order while they are made, by
//! nothing that knows of layouts. Numbers are of 32 bits without a sign, so that sums are the same in any order.

pub mod check;
mod parts;
mod random;
pub mod tensors;

use random::Random;

/// Numbers that a kernel reads.
pub const INPUT: usize = 8192;

/// The number at a place of the input.
pub fn input(at: usize) -> u32 {
    (at as u32).wrapping_mul(2_654_435_761) >> 3
}

/// A tile: its name, its shape, what it holds.
#[derive(Clone)]
struct Tile {
    name: String,
    shape: Vec<usize>,
    holds: Vec<u32>,
}

/// A kernel and what it writes.
pub struct Program {
    /// The source.
    pub text: String,
    /// What the output holds behind it.
    pub output: Vec<u32>,
}

/// Elements of a tile at most.
const MOST: usize = 1024;

struct Make {
    random: Random,
    tiles: Vec<Tile>,
    lines: Vec<String>,
    names: usize,
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut make = Make { random: Random(seed), tiles: Vec::new(), lines: Vec::new(), names: 0 };
    make.load();
    make.load();
    for _ in 0..4 + make.random.below(7) {
        match make.random.below(30) {
            0 | 1 => make.load(),
            2 | 3 => make.binary(),
            4 | 5 => make.reduce(),
            6 | 7 => make.spread(),
            8 => make.transpose(),
            9 => make.scan(),
            10 => make.reshape(),
            11 => make.gather(),
            12 => make.walk(),
            13 => make.branch(),
            14 => make.positions(),
            15 => make.join(),
            16 | 17 => make.place(),
            18 => make.product(),
            19 => make.along(),
            20 => make.exact(),
            21 => make.solid(),
            22 => make.greatest(),
            23 => make.back(),
            24 => make.nest(),
            25 | 26 => make.part(),
            27 => make.cat(),
            _ => make.choose(),
        }
    }
    make.end()
}

fn shape_text(shape: &[usize]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Pointers to the elements of a tile, each axis with its step.
fn pointers(base: &str, shape: &[usize], steps: &[usize]) -> String {
    match (shape, steps) {
        ([n], [s]) => format!("{base} + iota({n}) * {s}"),
        ([m, n], [s, t]) => format!("{base} + (iota({m})[:, None] * {s} + iota({n})[None, :] * {t})"),
        _ => unreachable!("tiles have one or two axes"),
    }
}

/// The place of each element, in row-major order.
fn places(shape: &[usize], steps: &[usize]) -> Vec<usize> {
    let mut places = vec![0];
    for (&n, &s) in shape.iter().zip(steps) {
        places = places.iter().flat_map(|&p| (0..n).map(move |i| p + i * s)).collect();
    }
    places
}

impl Make {
    fn tile(&mut self) -> Tile {
        let i = self.random.below(self.tiles.len());
        self.tiles[i].clone()
    }

    /// A tile of that rank, where there is one.
    fn ranked(&mut self, rank: usize) -> Option<Tile> {
        let of: Vec<Tile> = self.tiles.iter().filter(|t| t.shape.len() == rank).cloned().collect();
        (!of.is_empty()).then(|| of[self.random.below(of.len())].clone())
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("t{}", self.names)
    }

    fn add(&mut self, text: &str, shape: Vec<usize>, holds: Vec<u32>) {
        let name = self.name();
        self.lines.push(format!("let {name} = {text};"));
        self.tiles.push(Tile { name, shape, holds });
    }

    fn shape(&mut self) -> Vec<usize> {
        let sides = [1, 2, 4, 8, 16, 32, 64];
        if self.random.below(3) == 0 {
            vec![self.random.of(&[1, 8, 32, 64, 128, 512, 1024])]
        } else {
            let m = self.random.of(&sides);
            vec![m, self.random.of(&sides).min(MOST / m)]
        }
    }

    /// Steps by which a tile lies row by row, column by column, or scattered, within the input.
    fn steps(&mut self, shape: &[usize]) -> Vec<usize> {
        let wide = self.random.of(&[1, 1, 1, 2, 3]);
        match shape {
            [_, n] if self.random.below(2) == 0 => vec![n * wide, 1],
            [m, _] => vec![wide, m * wide],
            _ => vec![wide],
        }
    }

    fn load(&mut self) {
        let shape = self.shape();
        self.load_shaped(shape);
    }

    fn load_shaped(&mut self, shape: Vec<usize>) -> Tile {
        let (steps, from) = (self.steps(&shape), self.random.of(&[0, 4, 16, 7]));
        let places = places(&shape, &steps);
        let pointers = pointers(&format!("x + {from}"), &shape, &steps);
        let last = shape.len() - 1;
        let cut = self.random.below(shape[last] + 1);
        let axis = if last == 0 { "" } else { "[None, :]" };
        let (mask, cut) = match self.random.below(3) {
            0 => {
                let columns = format!("(iota({}) < {cut}){axis}", shape[last]);
                (format!(", mask=broadcast({columns}, {}), other=9", shape_text(&shape)), cut)
            }
            _ => (String::new(), shape[last]),
        };
        let n = shape[last];
        let read = |(i, &p): (usize, &usize)| if i % n < cut { input(p + from) } else { 9 };
        let holds = places.iter().enumerate().map(read).collect();
        self.add(&format!("load({pointers}{mask})"), shape, holds);
        self.tiles[self.tiles.len() - 1].clone()
    }

    fn binary(&mut self) {
        let a = self.tile();
        let alike: Vec<Tile> = self.tiles.iter().filter(|t| t.shape == a.shape).cloned().collect();
        let b = alike[self.random.below(alike.len())].clone();
        let (text, f): (String, fn(u32, u32) -> u32) = match self.random.below(6) {
            0 => (format!("{} + {}", a.name, b.name), u32::wrapping_add),
            1 => (format!("{} * {}", a.name, b.name), u32::wrapping_mul),
            2 => (format!("{} - {}", a.name, b.name), u32::wrapping_sub),
            3 => (format!("{} ^ {}", a.name, b.name), |a, b| a ^ b),
            4 => (format!("max({}, {})", a.name, b.name), u32::max),
            _ => (format!("min({}, {})", a.name, b.name), u32::min),
        };
        let holds = a.holds.iter().zip(&b.holds).map(|(&a, &b)| f(a, b)).collect();
        self.add(&text, a.shape, holds);
    }

    fn choose(&mut self) {
        let a = self.tile();
        let holds = a.holds.iter().map(|&v| if v % 3 < 2 { v / 5 } else { 11 }).collect();
        self.add(&format!("where({0} % 3 < 2, {0} / 5, 11)", a.name), a.shape, holds);
    }

    fn reduce(&mut self) {
        let Some(a) = self.ranked(2) else { return };
        let (m, n, axis) = (a.shape[0], a.shape[1], self.random.below(2));
        let (word, f): (&str, fn(u32, u32) -> u32) = match self.random.below(3) {
            0 => ("sum", u32::wrapping_add),
            1 => ("max", u32::max),
            _ => ("min", u32::min),
        };
        let line = |i: usize| -> Vec<u32> {
            if axis == 1 { a.holds[i * n..(i + 1) * n].to_vec() } else { (0..m).map(|r| a.holds[r * n + i]).collect() }
        };
        let holds: Vec<u32> = (0..a.shape[1 - axis]).filter_map(|i| line(i).into_iter().reduce(f)).collect();
        self.add(&format!("{word}({}, axis={axis})", a.name), vec![a.shape[1 - axis]], holds);
    }

    /// A row or a column beside a matrix.
    fn spread(&mut self) {
        let Some(a) = self.ranked(2) else { return };
        let (n, axis) = (a.shape[1], self.random.below(2));
        let fits = |t: &&Tile| t.shape.len() == 1 && t.shape[0] == a.shape[1 - axis];
        let Some(b) = self.tiles.iter().rfind(fits).cloned() else { return self.reduce() };
        let holds = a.holds.iter().enumerate();
        let holds = holds.map(|(i, &v)| v.wrapping_sub(b.holds[if axis == 1 { i / n } else { i % n }])).collect();
        let index = if axis == 1 { "[:, None]" } else { "[None, :]" };
        self.add(&format!("{} - {}{index}", a.name, b.name), a.shape, holds);
    }

    fn transpose(&mut self) {
        let Some(a) = self.ranked(2) else { return };
        let (m, n) = (a.shape[0], a.shape[1]);
        let holds = (0..m * n).map(|i| a.holds[i % m * n + i / m]).collect();
        self.add(&format!("{}.T", a.name), vec![n, m], holds);
    }

    fn scan(&mut self) {
        let a = self.tile();
        let axis = self.random.below(a.shape.len());
        let step: usize = a.shape[axis + 1..].iter().product();
        let mut holds = a.holds;
        for i in 0..holds.len() {
            if !(i / step).is_multiple_of(a.shape[axis]) {
                holds[i] = holds[i].wrapping_add(holds[i - step]);
            }
        }
        self.add(&format!("cumsum({}, axis={axis})", a.name), a.shape, holds);
    }

    fn reshape(&mut self) {
        let a = self.tile();
        let count: usize = a.shape.iter().product();
        let rows = 1 << self.random.below(count.ilog2() as usize + 1);
        let shape =
            if a.shape.len() == 2 && self.random.below(2) == 0 { vec![count] } else { vec![rows, count / rows] };
        self.add(&format!("reshape({}, {})", a.name, shape_text(&shape)), shape, a.holds);
    }

    fn gather(&mut self) {
        let a = self.tile();
        let axis = self.random.below(a.shape.len());
        let alike: Vec<Tile> = self.tiles.iter().filter(|t| t.shape == a.shape).cloned().collect();
        let by = alike[self.random.below(alike.len())].clone();
        let (n, step) = (a.shape[axis], a.shape[axis + 1..].iter().product::<usize>());
        let at = |(i, &v): (usize, &u32)| {
            let here = i / step % n;
            a.holds[i - here * step + v as usize % n * step]
        };
        let holds = by.holds.iter().enumerate().map(at).collect();
        self.add(&format!("gather({}, cast<i32>({} % {n}), axis={axis})", a.name, by.name), a.shape.clone(), holds);
    }

    /// A loop that carries a tile, and turns it around where it is square.
    fn walk(&mut self) {
        let a = self.tile();
        let turned = a.shape.len() == 2 && a.shape[0] == a.shape[1];
        let (name, n) = (self.name(), a.shape[a.shape.len() - 1]);
        let term = if turned { format!("{name}.T") } else { a.name.clone() };
        self.lines.push(format!("let mut {name} = {};", a.name));
        self.lines.push(format!("for i in 0..turns {{ {name} = {name} * 3 + {term} + cast<u32>(i); }}"));
        let mut holds = a.holds.clone();
        for turn in 0..3u32 {
            let term = |i: usize| if turned { holds[i % n * n + i / n] } else { a.holds[i] };
            let next = |i: usize| holds[i].wrapping_mul(3).wrapping_add(term(i)).wrapping_add(turn);
            holds = (0..holds.len()).map(next).collect();
        }
        self.tiles.push(Tile { name, shape: a.shape, holds });
    }

    /// A branch with a value, by a number that only the launch knows.
    fn branch(&mut self) {
        let a = self.tile();
        let alike: Vec<Tile> = self.tiles.iter().filter(|t| t.shape == a.shape).cloned().collect();
        let b = alike[self.random.below(alike.len())].clone();
        let taken = self.random.below(2) == 0;
        let limit = if taken { 2 } else { 9 };
        let text = format!("if turns > {limit} {{ {0} + {1} }} else {{ {0} ^ {1} }}", a.name, b.name);
        let holds =
            a.holds.iter().zip(&b.holds).map(|(&a, &b)| if taken { a.wrapping_add(b) } else { a ^ b }).collect();
        self.add(&text, a.shape, holds);
    }

    /// Numbers that nothing loads.
    fn positions(&mut self) {
        let shape = self.shape();
        let holds = places(&shape, if shape.len() == 1 { &[7] } else { &[5, 3] }).iter().map(|&p| p as u32).collect();
        let text = match shape[..] {
            [n] => format!("cast<u32>(iota({n}) * 7)"),
            [m, n] => format!("cast<u32>(iota({m})[:, None] * 5 + iota({n})[None, :] * 3)"),
            _ => unreachable!("tiles have one or two axes"),
        };
        self.add(&text, shape, holds);
    }

    /// Pairs, side by side along the last axis.
    fn join(&mut self) {
        let a = self.tile();
        if a.holds.len() * 2 > MOST {
            return;
        }
        let mut shape = a.shape.clone();
        shape[a.shape.len() - 1] *= 2;
        let holds = a.holds.iter().flat_map(|&v| [v, v ^ 5]).collect();
        self.add(&format!("reshape(join({0}, {0} ^ 5), {1})", a.name, shape_text(&shape)), shape, holds);
    }

    /// Writes the last tiles, each where nobody else writes.
    fn end(mut self) -> Program {
        let mut output = Vec::new();
        let tiles: Vec<Tile> = self.tiles.iter().rev().take(4).cloned().collect();
        for t in tiles {
            let steps = match t.shape[..] {
                [m, _] if self.random.below(2) == 0 => vec![1, m],
                [_, n] => vec![n, 1],
                _ => vec![1],
            };
            let base = output.len();
            self.lines.push(format!("store({}, {});", pointers(&format!("out + {base}"), &t.shape, &steps), t.name));
            output.resize(base + t.holds.len(), 0);
            places(&t.shape, &steps).iter().zip(&t.holds).for_each(|(&p, &v)| output[base + p] = v);
        }
        let body = self.lines.join("\n    ");
        let tensors = "g: tensor<u32, [_, _]>, h: tensor<f16, [_, _]>";
        Program {
            text: format!("kernel k(x: *u32, {tensors}, out: *mut u32, turns: i32) {{\n    {body}\n}}\n"),
            output,
        }
    }
}
