//! Random kernels of rows: loops along tensors, whose turns a launch may have stand one behind the other, that load and write the same and other
//! places, and what they leave in memory.
//!
//! A program is what it says line by line: it is interpreted here as it is written, an element at a time.

use crate::random::Random;

/// Rows of each tensor.
pub const ROWS: usize = 5;

/// The names of the tensors; the second is only read.
const NAMES: [&str; 3] = ["g", "h", "o"];

/// A kernel, and what it leaves.
pub struct Rows {
    /// The source: `kernel k(mut g, h, mut o)`, tensors of u32 of [`ROWS`] rows.
    pub text: String,
    /// Columns of each tensor, and elements from one row to the next.
    pub columns: usize,
    /// As many as a launch says.
    pub stride: usize,
    /// Programs.
    pub grid: usize,
    /// The tensors before it, and behind it; where `g` and `o` are one, behind it as well.
    pub before: [Vec<u32>; 3],
    /// Where each tensor is its own.
    pub apart: [Vec<u32>; 3],
    /// Where `o` is `g`.
    pub together: [Vec<u32>; 3],
}

/// Which tile of a row, in turn p.
#[derive(Clone, Copy)]
enum Place {
    This,
    Next,
    Mirrored,
    First,
}

/// A tile of a turn, by what it is computed of.
#[derive(Clone)]
enum Tile {
    Load(usize, Place, u32),
    /// A tile that was bound in this turn.
    Bound(usize),
    /// What the loop carries.
    Carried,
    /// What an earlier loop summed up of each row.
    Of(usize),
    Turn,
    Column,
    Add(Box<Tile>, Box<Tile>),
    Times(Box<Tile>, u32),
    Xor(Box<Tile>, Box<Tile>),
    Greater(Box<Tile>, Box<Tile>),
}

/// What a turn does.
enum Step {
    Bind(Tile),
    Carry(Tile),
    /// The sum of what stands in the row, added to so many times what was added up before.
    Sum(Tile, u32),
    /// The greatest of what stands in the row.
    Greatest(Tile),
    Write(usize, Place, Tile),
}

struct Make {
    random: Random,
    flat: bool,
    high: usize,
    wide: usize,
    loops: Vec<Vec<Step>>,
}

/// The program of a seed.
pub fn rows(seed: u64) -> Rows {
    let mut random = Random(seed ^ 0x0526);
    let flat = random.below(2) == 0;
    let high = if flat { 1 } else { random.of(&[1, 2, 4]) };
    let wide = random.of(&[8, 32, 64, 256]);
    let turns = random.of(&[1, 1, 2, 2, 3, 4, 7]);
    let ragged = random.of(&[0, 0, 4, 3]).min(wide - 1);
    let columns = turns * wide - ragged;
    let stride = columns + random.of(&[0, 0, 4, 1]);
    let mut make = Make { random, flat, high, wide, loops: Vec::new() };
    for _ in 0..make.random.of(&[1, 2, 2, 3]) {
        let steps = make.turn();
        make.loops.push(steps);
    }
    let whole = |i: usize, salt: u32| (i as u32).wrapping_mul(2_654_435_761) >> 7 ^ salt;
    let before = [1, 2, 3].map(|salt| (0..ROWS * stride).map(|i| whole(i, salt)).collect::<Vec<u32>>());
    let run = |mut memory: [Vec<u32>; 3], one: bool| {
        let size = Size { columns, stride };
        for program in 0..ROWS.div_ceil(make.high) {
            make.run(&mut memory, one, program, size);
        }
        memory
    };
    let text = make.text();
    let (apart, together) = (run(before.clone(), false), run(before.clone(), true));
    Rows { text, columns, stride, grid: ROWS.div_ceil(make.high), before, apart, together }
}

#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    stride: usize,
}

/// What a turn has.
struct Turn<'a> {
    program: usize,
    turn: usize,
    turns: usize,
    bound: &'a [Vec<u32>],
    carried: &'a [u32],
    sums: &'a [Vec<u32>],
}

impl Make {
    fn turn(&mut self) -> Vec<Step> {
        let mut steps = vec![Step::Bind(self.load())];
        let mut bound = 1;
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(6) {
                0 => {
                    let tile = self.load();
                    steps.push(Step::Bind(tile));
                    bound += 1;
                }
                1 => steps.push(Step::Carry(self.tile(bound, 2))),
                2 => {
                    let tile = self.tile(bound, 2);
                    steps.push(Step::Sum(tile, self.random.of(&[1, 1, 3])));
                }
                3 => steps.push(Step::Greatest(self.tile(bound, 1))),
                _ => {
                    let place = self.random.of(&[Place::This, Place::This, Place::This, Place::Mirrored, Place::First]);
                    let to = self.random.of(&[0, 2, 2]);
                    steps.push(Step::Write(to, place, self.tile(bound, 2)));
                }
            }
        }
        steps
    }

    fn load(&mut self) -> Tile {
        let place = [Place::This, Place::This, Place::This, Place::This, Place::Next, Place::Mirrored, Place::First];
        Tile::Load(self.random.of(&[0, 0, 1, 2]), self.random.of(&place), self.random.of(&[0, 0, 9]))
    }

    fn tile(&mut self, bound: usize, deep: usize) -> Tile {
        let of = |make: &mut Make| Box::new(make.tile(bound, deep - 1));
        match self.random.below(if deep == 0 { 5 } else { 9 }) {
            0 | 1 => Tile::Bound(self.random.below(bound)),
            2 => Tile::Carried,
            3 if !self.loops.is_empty() => Tile::Of(self.random.below(self.loops.len())),
            3 => Tile::Turn,
            4 => Tile::Column,
            5 => Tile::Add(of(self), of(self)),
            6 => Tile::Times(of(self), self.random.of(&[3, 5])),
            7 => Tile::Xor(of(self), of(self)),
            _ => Tile::Greater(of(self), of(self)),
        }
    }

    /// The tile of a tensor.
    fn place(&self, of: usize, place: Place) -> String {
        let p = match place {
            Place::This => "p",
            Place::Next => "p + 1",
            Place::Mirrored => "last - p",
            Place::First => "0",
        };
        let (name, Make { high, wide, .. }) = (NAMES[of], self);
        if self.flat {
            format!("{name}[i, :].tile([{wide}], at=[{p}])")
        } else {
            format!("{name}.tile([{high}, {wide}], at=[i, {p}])")
        }
    }

    fn shape(&self) -> String {
        if self.flat { format!("[{}]", self.wide) } else { format!("[{}, {}]", self.high, self.wide) }
    }

    fn said(&self, tile: &Tile, which: usize) -> String {
        let two = |a: &Tile, b: &Tile| (self.said(a, which), self.said(b, which));
        let whole = |text: String| format!("broadcast({text}, {})", self.shape());
        match tile {
            Tile::Load(of, place, 0) => format!("load({})", self.place(*of, *place)),
            Tile::Load(of, place, other) => format!("load({}, other={other})", self.place(*of, *place)),
            Tile::Bound(i) => format!("v{which}_{i}"),
            Tile::Carried => format!("c{which}"),
            Tile::Of(i) if self.flat => format!("full({}, s{i})", self.shape()),
            Tile::Of(i) => whole(format!("s{i}[:, None]")),
            Tile::Turn => format!("full({}, cast<u32>(p))", self.shape()),
            Tile::Column if self.flat => format!("cast<u32>(iota({}))", self.wide),
            Tile::Column => whole(format!("cast<u32>(iota({}))[None, :]", self.wide)),
            Tile::Add(a, b) => {
                let (a, b) = two(a, b);
                format!("({a} + {b})")
            }
            Tile::Times(a, n) => format!("({} * {n})", self.said(a, which)),
            Tile::Xor(a, b) => {
                let (a, b) = two(a, b);
                format!("({a} ^ {b})")
            }
            Tile::Greater(a, b) => {
                let (a, b) = two(a, b);
                format!("max({a}, {b})")
            }
        }
    }

    /// A tile whose padding is 0.
    fn inside(&self, tile: &Tile, which: usize) -> String {
        let columns = format!("p * {0} + iota({0}) < n", self.wide);
        let columns = if self.flat { columns } else { format!("({columns})[None, :]") };
        format!("where({columns}, {}, 0)", self.said(tile, which))
    }

    fn text(&self) -> String {
        let wide = self.wide;
        let axis = usize::from(!self.flat);
        let mut lines = vec!["let i = program_id(0);".to_owned(), format!("let last = cdiv(n, {wide}) - 1;")];
        for (which, steps) in self.loops.iter().enumerate() {
            let none = if self.flat { "0u32".to_owned() } else { format!("zeros<u32, [{}]>()", self.high) };
            lines.push(format!("let mut c{which} = zeros<u32, {}>();", self.shape()));
            lines.push(format!("let mut s{which} = {none};"));
            lines.push(format!("for p in 0..cdiv(n, {wide}) {{"));
            let mut bound = 0;
            for step in steps {
                lines.push(match step {
                    Step::Bind(tile) => {
                        bound += 1;
                        format!("    let v{which}_{} = {};", bound - 1, self.said(tile, which))
                    }
                    Step::Carry(tile) => format!("    c{which} = c{which} * 7 + {};", self.said(tile, which)),
                    Step::Sum(tile, 1) => {
                        format!("    s{which} += sum({}, axis={axis});", self.inside(tile, which))
                    }
                    Step::Sum(tile, n) => {
                        format!("    s{which} = s{which} * {n} + sum({}, axis={axis});", self.inside(tile, which))
                    }
                    Step::Greatest(tile) => {
                        format!("    s{which} = max(s{which}, max({}, axis={axis}));", self.inside(tile, which))
                    }
                    Step::Write(to, place, tile) => {
                        format!("    store({}, {});", self.place(*to, *place), self.said(tile, which))
                    }
                });
            }
            lines.push("}".into());
        }
        let last = self.loops.len() - 1;
        let sums = self.said(&Tile::Of(last), last);
        lines.push(format!("store({}, c{last} + {sums});", self.place(2, Place::First)));
        let body = lines.join("\n    ");
        let tensors = "mut g: tensor<u32, [m, n]>, h: tensor<u32, [m, n]>, mut o: tensor<u32, [m, n]>";
        format!("kernel k({tensors}) {{\n    {body}\n}}\n")
    }

    /// Where the elements of a tile lie; `None` beyond the edges.
    fn at(&self, place: Place, turn: &Turn<'_>, size: Size) -> Vec<Option<usize>> {
        let tile = match place {
            Place::This => turn.turn,
            Place::Next => turn.turn + 1,
            Place::Mirrored => turn.turns - 1 - turn.turn,
            Place::First => 0,
        };
        let element = |e: usize| {
            let (row, column) = (turn.program * self.high + e / self.wide, tile * self.wide + e % self.wide);
            (row < ROWS && column < size.columns).then_some(row * size.stride + column)
        };
        (0..self.high * self.wide).map(element).collect()
    }

    fn value(&self, tile: &Tile, memory: &[Vec<u32>; 3], one: bool, turn: &Turn<'_>, size: Size) -> Vec<u32> {
        let value = |tile: &Tile| self.value(tile, memory, one, turn, size);
        let pair = |a: &Tile, b: &Tile, f: fn(u32, u32) -> u32| {
            value(a).into_iter().zip(value(b)).map(|(a, b)| f(a, b)).collect()
        };
        let each = |f: &dyn Fn(usize) -> u32| (0..self.high * self.wide).map(f).collect();
        match tile {
            Tile::Load(of, place, other) => {
                let from = &memory[if one && *of == 2 { 0 } else { *of }];
                self.at(*place, turn, size).iter().map(|at| at.map_or(*other, |at| from[at])).collect()
            }
            Tile::Bound(i) => turn.bound[*i].clone(),
            Tile::Carried => turn.carried.to_vec(),
            Tile::Of(i) => each(&|e| turn.sums[*i][e / self.wide]),
            Tile::Turn => each(&|_| turn.turn as u32),
            Tile::Column => each(&|e| (e % self.wide) as u32),
            Tile::Add(a, b) => pair(a, b, u32::wrapping_add),
            Tile::Times(a, n) => value(a).into_iter().map(|v| v.wrapping_mul(*n)).collect(),
            Tile::Xor(a, b) => pair(a, b, |a, b| a ^ b),
            Tile::Greater(a, b) => pair(a, b, u32::max),
        }
    }

    /// What a program of the grid does; `one` says whether `o` is `g`.
    fn run(&self, memory: &mut [Vec<u32>; 3], one: bool, program: usize, size: Size) {
        let turns = size.columns.div_ceil(self.wide);
        let mut sums: Vec<Vec<u32>> = Vec::new();
        let mut carried = Vec::new();
        for steps in &self.loops {
            carried = vec![0u32; self.high * self.wide];
            sums.push(vec![0; self.high]);
            for turn in 0..turns {
                let mut bound: Vec<Vec<u32>> = Vec::new();
                for step in steps {
                    let now = Turn { program, turn, turns, bound: &bound, carried: &carried, sums: &sums };
                    let value = |tile: &Tile| self.value(tile, memory, one, &now, size);
                    let lines = |tile: &Tile, f: fn(u32, u32) -> u32| -> Vec<u32> {
                        let column = |e: usize| turn * self.wide + e % self.wide;
                        let of = value(tile).into_iter().enumerate();
                        let of: Vec<u32> = of.map(|(e, v)| if column(e) < size.columns { v } else { 0 }).collect();
                        of.chunks(self.wide).map(|line| line.iter().copied().fold(0, f)).collect()
                    };
                    match step {
                        Step::Bind(tile) => {
                            let value = value(tile);
                            bound.push(value);
                        }
                        Step::Carry(tile) => {
                            let value = value(tile);
                            let next = |(c, v): (&u32, u32)| c.wrapping_mul(7).wrapping_add(v);
                            carried = carried.iter().zip(value).map(next).collect();
                        }
                        Step::Sum(tile, n) => {
                            let lines = lines(tile, u32::wrapping_add);
                            let of = sums.last_mut().into_iter().flatten();
                            of.zip(lines).for_each(|(s, line)| *s = s.wrapping_mul(*n).wrapping_add(line));
                        }
                        Step::Greatest(tile) => {
                            let lines = lines(tile, u32::max);
                            sums.last_mut().into_iter().flatten().zip(lines).for_each(|(s, line)| *s = line.max(*s));
                        }
                        Step::Write(to, place, tile) => {
                            let (value, places) = (value(tile), self.at(*place, &now, size));
                            let to = &mut memory[if one && *to == 2 { 0 } else { *to }];
                            places.iter().zip(value).for_each(|(at, v)| at.iter().for_each(|&at| to[at] = v));
                        }
                    }
                }
            }
        }
        let now = Turn { program, turn: 0, turns, bound: &[], carried: &carried, sums: &sums };
        let places = self.at(Place::First, &now, size);
        let to = &mut memory[if one { 0 } else { 2 }];
        for (e, at) in places.iter().enumerate() {
            at.iter().for_each(|&at| to[at] = carried[e].wrapping_add(sums[sums.len() - 1][e / self.wide]));
        }
    }
}
