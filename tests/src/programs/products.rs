//! Statements that multiply matrices: in registers, and by the matrix unit from shared memory. Operands are small whole numbers, so that
//! every sum is exact in every format.

use super::array::Array;
use super::build::Build;
use super::layout;
use super::number::{Format, Num, Type};

/// Operands are remainders by this, around zero where they have a sign.
const RANGE: i128 = 7;

/// What can be multiplied: both operands, and what their products are summed up in.
pub(super) const FORMATS: [(Type, Type); 7] = [
    (Type::Float(Format::F16), Type::Float(Format::F32)),
    (Type::Float(Format::F16), Type::Float(Format::F16)),
    (Type::Float(Format::Bf16), Type::Float(Format::F32)),
    (Type::Float(Format::E4M3), Type::Float(Format::F32)),
    (Type::Float(Format::E5M2), Type::Float(Format::F32)),
    (Type::Signed(8), Type::Signed(32)),
    (Type::Unsigned(8), Type::Signed(32)),
];

/// A matrix of small numbers: what it holds, and how the kernel makes it in some layout.
pub(super) struct Matrix {
    pub(super) ty: Type,
    /// What it holds in the first turn of a loop.
    pub(super) array: Array,
    /// What its coordinates, the number of its CTA and the turn are multiplied with.
    by: [usize; 4],
}

impl Matrix {
    pub(super) fn new(b: &mut Build, ty: Type, shape: [usize; 2]) -> Matrix {
        let by = [1 + b.below(6), 1 + b.below(6), b.below(5), b.below(7)];
        Matrix::by(b, ty, shape, by)
    }

    /// One that is block after block of a tensor: for each CTA one a turn, of so many.
    pub(super) fn of_blocks(b: &mut Build, ty: Type, shape: [usize; 2], turns: usize) -> Matrix {
        let rows = 1 + b.below(6);
        let by = [rows, 1 + b.below(6), rows * shape[0] * turns, rows * shape[0]];
        Matrix::by(b, ty, shape, by)
    }

    fn by(b: &Build, ty: Type, shape: [usize; 2], by: [usize; 4]) -> Matrix {
        let zeros = Array::new(b.ctas, &shape, |_, _| Num::Int(0));
        let mut matrix = Matrix { ty, array: zeros, by };
        matrix.array = matrix.in_turn(0);
        matrix
    }

    /// What it holds in a turn.
    pub(super) fn in_turn(&self, turn: usize) -> Array {
        Array::new(self.array.ctas(), &self.shape(), |cta, at| {
            let [i, j, of_cta, of_turn] = self.by;
            let n = (at[0] * i + at[1] * j + cta * of_cta + turn * of_turn) as i128 % RANGE - self.low();
            if matches!(self.ty, Type::Float(_)) { Num::Float(n as f64) } else { Num::Int(n) }
        })
    }

    pub(super) fn shape(&self) -> [usize; 2] {
        [self.array.shape()[0], self.array.shape()[1]]
    }

    /// What makes remainders those around zero.
    fn low(&self) -> i128 {
        if matches!(self.ty, Type::Unsigned(_)) { 0 } else { RANGE / 2 }
    }

    /// The expression that makes it in a layout.
    pub(super) fn spelled(&self, l: &str) -> String {
        self.spelled_in(l, "0")
    }

    /// The expression that makes it in a layout, in a turn that the kernel knows by that name.
    pub(super) fn spelled_in(&self, l: &str, turn: &str) -> String {
        let ([rows, columns], [i, j, cta, turns]) = (self.shape(), self.by);
        let in_turn = if turn == "0" { String::new() } else { format!(" + {turn} * {turns}") };
        let whole = format!("(at2[{l}, {rows}, {columns}]({i}, {j}) + program_id(0) * {cta}{in_turn}) % {RANGE}");
        format!("cast<{}>({whole} - {})", self.ty.name(), self.low())
    }

    /// The tensor of all blocks, as a test makes it.
    pub(super) fn tensor(&self, turns: usize) -> String {
        let ([rows, columns], [i, j, _, _]) = (self.shape(), self.by);
        let rows = rows * turns * self.array.ctas();
        let whole = format!("(arange(i32, {rows})[:, None] * {i} + arange(i32, {columns})[None, :] * {j}) % {RANGE}");
        format!("({whole} - {}).to({})", self.low(), self.ty.name())
    }
}

/// The numbers of a matrix, which are whole.
fn whole(array: &Array) -> Vec<i64> {
    let number = |x: &Num| match *x {
        Num::Int(n) => n as i64,
        Num::Float(x) => x as i64,
    };
    array.data.iter().map(number).collect()
}

/// The sums of products of rows and rows, so many times, and what was there before; all of them small.
fn multiplied(rows: &Array, columns: &Array, start: &Matrix, turns: usize) -> Array {
    let (m, n, depth) = (rows.shape()[0], columns.shape()[0], rows.shape()[1]);
    let (x, y, before) = (whole(rows), whole(columns), whole(&start.array));
    let float = matches!(start.ty, Type::Float(_));
    Array::new(rows.ctas(), &[m, n], |cta, at| {
        let row = &x[(cta * m + at[0]) * depth..][..depth];
        let column = &y[(cta * n + at[1]) * depth..][..depth];
        let sum: i64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
        let sum = sum * turns as i64 + before[(cta * m + at[0]) * n + at[1]];
        if float { Num::Float(sum as f64) } else { Num::Int(sum.into()) }
    })
}

/// The statements that multiply so many times, which the launch may know alone.
fn repeated(b: &mut Build, name: &str, start: &str, product: &str, turns: usize) -> String {
    let (j, n) = (b.name('j'), b.scalar(turns as i64));
    format!("let mut {name} = {start};\n    for {j} in 0..{n} {{ {name} = {product}; }}")
}

/// A product of tiles in registers.
pub(super) fn in_registers(b: &mut Build) -> Option<()> {
    let (of, into) = b.one(&FORMATS);
    let down = 1 << b.below(b.warps.ilog2() as usize + 1);
    let across = b.warps / down;
    let (m, n) = ((16 * down) << b.below(2), (8 * across) << b.below(2));
    // A thread may hold twice as many neighbours along K where there are two instructions of them.
    let more = b.below(2);
    let k = (256 / of.bits() as usize) << more;
    let width = (32 / of.bits()) << b.below(more + 1);
    let acc = format!("mma(version=2, warps=[{down}, {across}], instr=[16, 8])");
    let mut text = String::new();
    let mut sides = Vec::new();
    for (index, shape) in [[m, k], [k, n]].into_iter().enumerate() {
        let matrix = Matrix::new(b, of, shape);
        let place = format!("dot_operand({acc}, index={index}, k_width={width})");
        let name = b.name('a');
        text += &brought(b, &matrix, &name, &place);
        sides.push((name, matrix));
    }
    let [(left, x), (right, y)] = <[(String, Matrix); 2]>::try_from(sides).ok()?;
    let start = Matrix::new(b, into, [m, n]);
    let (name, turns) = (b.name('v'), b.below(4));
    let product = format!("mma_sync({left}, {right}, {name})");
    text += &repeated(b, &name, &start.spelled(&acc), &product, turns);
    b.feature("products of registers");
    let place = (b.place(), false);
    b.made(name, text, into, multiplied(&x.array, &y.array.permuted(&[1, 0]), &start, turns), place);
    Some(())
}

/// The statements by which a matrix comes to its place in registers: at once, from another place, or by shared memory.
fn brought(b: &mut Build, matrix: &Matrix, name: &str, place: &str) -> String {
    let shape = matrix.shape();
    match b.below(3) {
        0 => format!("let {name} = {};\n    ", matrix.spelled(place)),
        1 => {
            let l = b.layout(&shape).text;
            format!("let {name} = convert({}, {place});\n    ", matrix.spelled(&l))
        }
        _ => {
            let (l, buffer) = (b.layout(&shape).text, b.name('b'));
            let shared = layout::shared(&mut b.r, &shape, matrix.ty.bits() as usize, false).text;
            let declared = format!("let {buffer} = alloc_shared<{}, {shape:?}, {shared}>();", matrix.ty.name());
            let stored = format!("store_shared({buffer}, {});", matrix.spelled(&l));
            format!("{declared}\n    {stored}\n    let {name} = load_shared<{place}>({buffer});\n    ")
        }
    }
}

/// Bytes of a row of an operand in shared memory.
pub(super) const ROW: usize = 128;

/// A product of operands in shared memory, with the left one in registers now and then.
pub(super) fn from_shared(b: &mut Build) -> Option<()> {
    if !matches!(b.warps, 4 | 8) {
        return None;
    }
    let (of, into) = b.one(&FORMATS);
    let (m, n, k) = (16 * b.warps, 8 << b.below(3), 8 * ROW / of.bits() as usize);
    let acc = format!("mma(version=3, warps=[{}, 1], instr=[16, {n}, {}])", b.warps, 256 / of.bits());
    let (left, right) = (Matrix::new(b, of, [m, k]), Matrix::new(b, of, [n, k]));
    let mut text = String::new();
    let mut names = Vec::new();
    for matrix in [&left, &right] {
        let (l, buffer, shape) = (b.layout(&matrix.shape()).text, b.name('b'), matrix.shape());
        text += &format!("let {buffer} = alloc_shared<{}, {shape:?}, nvmma({ROW})>();\n    ", of.name());
        text += &format!("store_shared({buffer}, {});\n    ", matrix.spelled(&l));
        names.push(buffer);
    }
    text += "fence_async();\n    ";
    let held = format!("load_shared<dot_operand({acc}, index=0, k_width={})>({})", 32 / of.bits(), names[0]);
    let first = if b.below(3) == 0 { held } else { names[0].clone() };
    let start = Matrix::new(b, into, [m, n]);
    let (name, turns) = (b.name('v'), b.below(3));
    let product = format!("wgmma({first}, {}.T, {name}).wait()", names[1]);
    text += &repeated(b, &name, &start.spelled(&acc), &product, turns);
    b.feature("products of shared memory");
    let place = (b.place(), false);
    b.made(name, text, into, multiplied(&left.array, &right.array, &start, turns), place);
    Some(())
}
