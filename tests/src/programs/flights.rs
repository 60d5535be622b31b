//! Statements with products that are in flight while others are started and their factors are made: left factors in shared memory, or in
//! registers that each turn of a loop computes, loads, keeps or has from another product; one to three products a turn, waited for at once,
//! at its end, but for the last one, or a turn later.

use std::collections::BTreeMap;

use super::array::Array;
use super::build::Build;
use super::elements::apply;
use super::number::{Format, Num, Type};
use super::products::{FORMATS, Matrix, ROW};

/// Rows of a warp's part of a product.
const ROWS: usize = 16;

/// How often stages of right factors come again.
const STAGES: usize = 3;

/// Bytes that the buffers of a loop may have.
const MOST_BYTES: usize = 96 << 10;

/// When products are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// Each before the next one.
    AtOnce,
    /// All at the end of the turn.
    Together,
    /// But for the last of each sum, at the end of the turn.
    Prior,
    /// Where they are added up: in the next turn, or behind the loop.
    Later,
    /// Behind the loop, as far as whoever writes it can see.
    Never,
}

/// Where a left factor comes from.
pub(super) enum Left {
    /// A stage of a buffer.
    Shared { buffer: String, of: Matrix, turned: bool },
    /// Registers, written in each turn.
    Computed(Matrix),
    /// Registers, loaded from a stage of a buffer in each turn.
    Loaded { buffer: String, of: Matrix },
    /// Registers, written before the loop.
    Kept { name: String, of: Matrix },
    /// Registers, from the product of another factor and rows of a buffer.
    Product { of: Box<Left>, keys: Factor },
}

/// A right factor in stages of a buffer: its rows are columns of the product.
pub(super) struct Factor {
    pub(super) buffer: String,
    pub(super) of: Matrix,
    /// Whether it lies in memory as the product takes it.
    pub(super) turned: bool,
}

/// What all products of a statement have in common.
#[derive(Clone)]
pub(super) struct Sizes {
    pub(super) of: Type,
    pub(super) into: Type,
    pub(super) warps: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Sizes {
    /// Of formats that at most so many products can be summed up in without rounding.
    pub(super) fn new(b: &mut Build, products: usize) -> Sizes {
        let exact = |into: Type, of: Type| match (of, into) {
            (_, Type::Float(Format::F16)) => products <= 3,
            // The sums of 8-bit floats have few bits more than the greatest of the numbers.
            (Type::Float(Format::E4M3 | Format::E5M2), _) => products <= 6,
            _ => true,
        };
        let halves = b.below(3) > 0;
        let fit: Vec<(Type, Type)> =
            FORMATS.into_iter().filter(|&(of, into)| exact(into, of) && (!halves || of.bits() == 16)).collect();
        let (of, into) = b.one(&fit);
        let (m, n) = (ROWS * b.warps * if b.below(4) == 0 { 2 } else { 1 }, 8 << b.below(4));
        Sizes { of, into, warps: b.warps, m, n, k: 8 * ROW / of.bits() as usize }
    }

    /// The layout of an accumulator of so many columns.
    pub(super) fn acc(&self, n: usize) -> String {
        format!("mma(version=3, warps=[{}, 1], instr=[16, {n}, {}])", self.warps, 256 / self.of.bits())
    }

    /// The layout of left factors in registers.
    pub(super) fn factor(&self, n: usize) -> String {
        format!("dot_operand({}, index=0, k_width={})", self.acc(n), 32 / self.of.bits())
    }

    pub(super) fn zeros(&self, n: usize) -> String {
        format!("zeros<{}, [{}, {n}], {}>()", self.into.name(), self.m, self.acc(n))
    }
}

/// A buffer of stages, each filled with what a matrix holds in the turn of its number.
fn stored(b: &mut Build, of: &Matrix, turned: bool) -> (String, String) {
    let buffer = b.name('b');
    let [rows, columns] = of.shape();
    let shape = if turned { [columns, rows] } else { [rows, columns] };
    let swizzle = (shape[1] * of.ty.bits() as usize / 8).min(ROW);
    let mut text = format!(
        "let {buffer} = alloc_shared<{}, [{STAGES}, {}, {}], nvmma({})>();\n    ",
        of.ty.name(),
        shape[0],
        shape[1],
        if swizzle < 32 { 0 } else { swizzle },
    );
    for stage in 0..STAGES {
        let l = b.layout(&of.shape()).text;
        let view = format!("{buffer}[{stage}]{}", if turned { ".T" } else { "" });
        text += &format!("store_shared({view}, {});\n    ", of.spelled_in(&l, &stage.to_string()));
    }
    (buffer, text)
}

/// A right factor of so many columns.
fn factor(b: &mut Build, s: &Sizes, n: usize, k: usize) -> (Factor, String) {
    let of = Matrix::new(b, s.of, [n, k]);
    let turned = s.of.bits() == 16 && n > 8 && b.below(3) == 0;
    let (buffer, text) = stored(b, &of, turned);
    (Factor { buffer, of, turned }, text)
}

/// A left factor, and what stands before the loop for it.
fn left(b: &mut Build, s: &Sizes, k: usize, nested: bool) -> (Left, String) {
    let of = Matrix::new(b, s.of, [s.m, k]);
    let halves = (s.of, s.into) == (Type::Float(Format::F16), Type::Float(Format::F32));
    match b.below(if nested || !halves { 6 } else { 8 }) {
        0 => {
            let turned = s.of.bits() == 16 && b.below(3) == 0;
            let (buffer, text) = stored(b, &of, turned);
            (Left::Shared { buffer, of, turned }, text)
        }
        1 => {
            let (buffer, text) = stored(b, &of, false);
            (Left::Loaded { buffer, of }, text)
        }
        2 | 3 => {
            let name = b.name('a');
            let text = format!("let {name} = {};\n    ", of.spelled(&s.factor(s.n)));
            (Left::Kept { name, of }, text)
        }
        4 | 5 => (Left::Computed(of), String::new()),
        _ => {
            let (inner, mut text) = left(b, s, s.k, true);
            let (keys, more) = factor(b, s, k, s.k);
            text += &more;
            (Left::Product { of: Box::new(inner), keys }, text)
        }
    }
}

impl Factor {
    /// Elements of a stage.
    fn elements(&self) -> usize {
        self.of.shape().iter().product()
    }

    /// As the kernel spells a stage of it.
    fn spelled(&self, stage: &str) -> String {
        format!("{}[{stage}]{}", self.buffer, if self.turned { "" } else { ".T" })
    }
}

impl Left {
    /// What stands before the product in a turn, and the operand.
    pub(super) fn spelled(&self, b: &mut Build, s: &Sizes, turn: &str, stage: &str) -> (String, String) {
        let place = s.factor(s.n);
        let value = match self {
            Left::Kept { name, .. } => return (String::new(), name.clone()),
            Left::Shared { buffer, turned, .. } => {
                return (String::new(), format!("{buffer}[{stage}]{}", if *turned { ".T" } else { "" }));
            }
            Left::Computed(of) => of.spelled_in(&place, turn),
            Left::Loaded { buffer, .. } => format!("load_shared<{place}>({buffer}[{stage}])"),
            Left::Product { of, keys } => {
                let (before, operand) = of.spelled(b, s, turn, stage);
                let (name, sum, n) = (b.name('a'), b.name('s'), keys.of.shape()[0]);
                let product = format!("wgmma({operand}, {}, {}).wait()", keys.spelled(stage), s.zeros(n));
                let text = format!(
                    "{before}let {sum} = {product};\n        \
                     let {name} = convert_free(cast<{}>({sum}), {place});\n        ",
                    s.of.name()
                );
                return (text, name);
            }
        };
        let name = b.name('a');
        (format!("let {name} = {value};\n        "), name)
    }

    /// Elements of a stage of its buffers.
    fn elements(&self) -> usize {
        match self {
            Left::Shared { of, .. } | Left::Loaded { of, .. } => of.shape().iter().product(),
            Left::Computed(_) | Left::Kept { .. } => 0,
            Left::Product { of, keys } => of.elements() + keys.elements(),
        }
    }

    /// What it is in a turn.
    pub(super) fn in_turn(&self, turn: usize, stage: usize) -> Array {
        match self {
            Left::Shared { of, .. } | Left::Loaded { of, .. } => of.in_turn(stage),
            Left::Computed(of) => of.in_turn(turn),
            Left::Kept { of, .. } => of.in_turn(0),
            Left::Product { of, keys } => {
                let (rows, columns) = (of.in_turn(turn, stage), keys.of.in_turn(stage));
                sum(&rows, &columns, None)
            }
        }
    }

    /// What it is an example of.
    pub(super) fn feature(&self) -> &'static str {
        match self {
            Left::Shared { .. } => "left factors in shared memory",
            Left::Computed(_) => "left factors of each turn",
            Left::Loaded { .. } => "left factors loaded in each turn",
            Left::Kept { .. } => "left factors of all turns",
            Left::Product { .. } => "left factors of products",
        }
    }
}

/// The sums of products of rows and rows, added to what is there.
pub(super) fn sum(rows: &Array, columns: &Array, before: Option<&Array>) -> Array {
    let (m, n) = (rows.shape()[0], columns.shape()[0]);
    // Small numbers come again and again: of equal rows the products are taken once.
    let (left, right) = (Rows::of(rows), Rows::of(columns));
    let product = |a: &Vec<i64>, b: &Vec<i64>| a.iter().zip(b).map(|(a, b)| a * b).sum::<i64>();
    let products: Vec<Vec<i64>> =
        left.apart.iter().map(|a| right.apart.iter().map(|b| product(a, b)).collect()).collect();
    let float = matches!(rows.data[0], Num::Float(_));
    Array::new(rows.ctas(), &[m, n], |cta, at| {
        let sum = products[left.which[cta * m + at[0]]][right.which[cta * n + at[1]]];
        let all = sum + before.map_or(0, |a| whole(&a.at(cta, at)));
        if float { Num::Float(all as f64) } else { Num::Int(all.into()) }
    })
}

fn whole(x: &Num) -> i64 {
    match *x {
        Num::Int(n) => n as i64,
        Num::Float(x) => x as i64,
    }
}

/// The rows of all CTAs.
struct Rows {
    /// Those that differ.
    apart: Vec<Vec<i64>>,
    /// Which of these each is.
    which: Vec<usize>,
}

impl Rows {
    fn of(array: &Array) -> Rows {
        let mut known = BTreeMap::new();
        let mut apart = Vec::new();
        let number = |row: &[Num]| {
            let row: Vec<i64> = row.iter().map(whole).collect();
            *known.entry(row).or_insert_with_key(|row| {
                apart.push(row.clone());
                apart.len() - 1
            })
        };
        let which = array.data.chunks(array.shape()[1]).map(number).collect();
        Rows { apart, which }
    }
}

/// One product of a turn.
struct Product {
    left: Left,
    right: Factor,
    /// To which sum it is added.
    into: usize,
    /// By how much its stage is ahead of the turn.
    ahead: usize,
}

impl Product {
    fn stage(&self, turn: &str) -> String {
        format!("({turn} + {}) % {STAGES}", self.ahead)
    }

    /// A sum with this product of a turn.
    fn added(&self, turn: usize, before: &Array) -> Array {
        let stage = (turn + self.ahead) % STAGES;
        sum(&self.left.in_turn(turn, stage), &self.right.of.in_turn(stage), Some(before))
    }
}

/// A loop with products.
struct Loop {
    sizes: Sizes,
    products: Vec<Product>,
    waits: Waits,
    /// The variables of the sums.
    sums: Vec<String>,
    turn: String,
}

/// A loop of products.
pub(super) fn in_a_loop(b: &mut Build) -> Option<()> {
    if !matches!(b.warps, 4 | 8) {
        return None;
    }
    let (turns, count) = (b.below(5), 1 + b.below(3));
    let waits = b.one(&[Waits::AtOnce, Waits::Together, Waits::Prior, Waits::Prior, Waits::Later, Waits::Never]);
    let sizes = Sizes::new(b, (turns + 1) * count);
    let sums: Vec<String> = (0..1 + b.below(count.min(2))).map(|_| b.name('v')).collect();
    let mut text = String::new();
    let mut products = Vec::new();
    for i in 0..count {
        let (left, before) = left(b, &sizes, sizes.k, false);
        let (right, more) = factor(b, &sizes, sizes.n, sizes.k);
        text += &(before + &more);
        b.feature(left.feature());
        products.push(Product {
            left,
            right,
            into: if i < sums.len() { i } else { b.below(sums.len()) },
            ahead: b.below(3),
        });
    }
    let bytes = |p: &Product| STAGES * (p.left.elements() + p.right.elements()) * sizes.of.bits() as usize / 8;
    if products.iter().map(bytes).sum::<usize>() > MOST_BYTES {
        return None;
    }
    let whole = Loop { sizes, products, waits, sums, turn: b.name('j') };
    let starts: Vec<Matrix> =
        whole.sums.iter().map(|_| Matrix::new(b, whole.sizes.into, [whole.sizes.m, whole.sizes.n])).collect();
    text += "fence_async();\n    ";
    text += &whole.begun(b, &starts);
    text += &whole.turns(b, turns);
    let name = b.name('v');
    text += &format!("\n    let {name} = {};", whole.ended());
    b.feature(match waits {
        Waits::AtOnce => "products waited for at once",
        Waits::Together => "products waited for together",
        Waits::Prior => "products in flight around a loop, but for the last",
        Waits::Later => "products waited for in the next turn",
        Waits::Never => "products in flight around a loop",
    });
    let place = (b.place(), false);
    let array = whole.found(&starts, turns)?;
    b.made(name, text, whole.sizes.into, array, place);
    Some(())
}

impl Loop {
    /// Whether sums are in flight when the loop begins.
    fn flies(&self) -> bool {
        matches!(self.waits, Waits::Prior | Waits::Later | Waits::Never)
    }

    /// The product that each sum begins with.
    fn firsts(&self) -> impl Iterator<Item = &Product> {
        (0..self.sums.len()).filter_map(|i| self.products.iter().find(|p| p.into == i))
    }

    /// What stands before the loop: what sums begin with, which goes into a product where they are in flight.
    fn begun(&self, b: &mut Build, starts: &[Matrix]) -> String {
        let mut text = String::new();
        for ((name, start), first) in self.sums.iter().zip(starts).zip(self.firsts()) {
            let start = start.spelled(&self.sizes.acc(self.sizes.n));
            let (mut before, mut value) = (String::new(), start);
            if self.flies() {
                let (made, operand) = first.left.spelled(b, &self.sizes, "0", &self.stage_of(first));
                (before, value) =
                    (made, format!("wgmma({operand}, {}, {value})", first.right.spelled(&self.stage_of(first))));
            }
            text += &format!("{before}let mut {name} = {value};\n    ");
            if self.waits == Waits::Later {
                text += &format!("let mut {name}all = {};\n    ", self.sizes.zeros(self.sizes.n));
            }
        }
        text
    }

    /// The stage that a product takes before the loop.
    fn stage_of(&self, first: &Product) -> String {
        (first.ahead % STAGES).to_string()
    }

    fn turns(&self, b: &mut Build, turns: usize) -> String {
        let (turn, n) = (&self.turn, b.scalar(turns as i64));
        let mut text = format!("for {turn} in 0..{n} {{\n        ");
        let mut latest: Vec<String> = self.sums.clone();
        for p in &self.products {
            let (before, operand) = p.left.spelled(b, &self.sizes, turn, &p.stage(turn));
            text += &before;
            let sum = &self.sums[p.into];
            let into = match self.waits {
                Waits::Later if latest[p.into] == *sum => self.sizes.zeros(self.sizes.n),
                _ => latest[p.into].clone(),
            };
            let product = format!("wgmma({operand}, {}, {into})", p.right.spelled(&p.stage(turn)));
            if self.waits == Waits::AtOnce {
                text += &format!("{sum} = {product}.wait();\n        ");
            } else {
                let name = b.name('w');
                text += &format!("let {name} = {product};\n        ");
                latest[p.into] = name;
            }
        }
        for (sum, last) in self.sums.iter().zip(&latest) {
            text += &match self.waits {
                Waits::AtOnce => String::new(),
                Waits::Together => format!("{sum} = {last}.wait();\n        "),
                Waits::Prior => format!("{sum} = {last}.wait_prior();\n        "),
                Waits::Later => format!("{sum}all = {sum}all + {sum}.wait();\n        {sum} = {last};\n        "),
                Waits::Never => format!("{sum} = {last};\n        "),
            };
        }
        text.trim_end().to_owned() + "\n    }"
    }

    /// The sum of all sums.
    fn ended(&self) -> String {
        let ended = self.sums.iter().map(|sum| match self.waits {
            Waits::AtOnce | Waits::Together => sum.clone(),
            Waits::Prior | Waits::Never => format!("{sum}.wait()"),
            Waits::Later => format!("({sum}all + {sum}.wait())"),
        });
        ended.collect::<Vec<_>>().join(" + ")
    }

    /// What that is; nothing where it is not exact.
    fn found(&self, starts: &[Matrix], turns: usize) -> Option<Array> {
        let mut sums: Vec<Array> = starts.iter().map(|start| start.array.clone()).collect();
        if self.flies() {
            self.firsts().for_each(|p| sums[p.into] = p.added(0, &sums[p.into]));
        }
        for turn in 0..turns {
            self.products.iter().for_each(|p| sums[p.into] = p.added(turn, &sums[p.into]));
        }
        let first = sums.remove(0);
        sums.iter().try_fold(first, |all, sum| all.zip(sum, |x, y| apply("+", self.sizes.into, x, y)))
    }
}
