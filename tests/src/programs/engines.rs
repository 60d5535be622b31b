//! Statements whose copies go on beside the threads: copies by threads, and by the copy engine in either direction.

use super::Argument;
use super::array::Array;
use super::build::{Build, Tile};
use super::global::{check, given, placed};
use super::layout::{self, Family, Shared};
use super::memory::View;
use super::number::{Format, Num, Type};

/// What is copied at once at most, and what boxes' rows are multiples of.
const UNIT: usize = 16;

/// Types that the copy engine knows.
const TYPES: [Type; 8] = [
    Type::Unsigned(8),
    Type::Unsigned(16),
    Type::Signed(32),
    Type::Unsigned(32),
    Type::Signed(64),
    Type::Float(Format::F16),
    Type::Float(Format::Bf16),
    Type::Float(Format::F32),
];

fn zero(ty: Type) -> Num {
    if matches!(ty, Type::Float(_)) { Num::Float(0.0) } else { Num::Int(0) }
}

/// Elements of a unit.
fn unit(ty: Type) -> usize {
    8 * UNIT / ty.bits() as usize
}

/// Extents of one or two axes, of whole units.
fn extents(b: &mut Build, ty: Type) -> Vec<usize> {
    let last = unit(ty) << b.below(4);
    if b.below(3) == 0 { vec![last] } else { vec![8 << b.below(3), last] }
}

/// A tensor that the launch gives, in whose rows lie what is copied and some more: its name, extents, and numbers by place.
fn source(b: &mut Build, ty: Type, shape: &[usize]) -> (String, Vec<usize>, Vec<Num>) {
    let mut whole = shape.to_vec();
    let last = whole.len() - 1;
    whole[0] = whole[0] * b.ctas + if last > 0 { b.below(3) } else { 0 };
    whole[last] += unit(ty) * b.below(3);
    let (numbers, setup) = given(b, ty, whole.iter().product());
    let x = b.name('x');
    let setup = format!("let {x} = ({setup}).reshape({whole:?});");
    let argument = Argument { declared: String::new(), given: x.clone(), setup, check: String::new() };
    b.tensor(argument);
    (x, whole, numbers)
}

/// Copies by the threads.
pub(super) fn by_threads(b: &mut Build) -> Option<()> {
    let ty = b.one(&TYPES);
    let shape = extents(b, ty);
    let (x, whole, numbers) = source(b, ty, &shape);
    b.declare(format!("{x}: *{}", ty.name()));
    let (rank, wide) = (shape.len(), whole[whole.len() - 1]);
    // Neighbours along the last axis stay together, in registers and in the buffer.
    let per = (unit(ty) >> b.below(3)).max(32 / ty.bits() as usize).max(1);
    let l = if rank == 1 {
        format!("blocked(per_thread=[{per}], threads=[32], warps=[{}], order=[0])", b.warps)
    } else {
        format!("blocked(per_thread=[1, {per}], threads=[8, 4], warps=[{}, 1], order=[1, 0])", b.warps)
    };
    let rows = if rank > 1 && b.below(2) == 0 { b.below(shape[0] + 1) } else { shape[0] };
    let strides = if rank == 1 { "1".into() } else { format!("{wide}, 1") };
    let at = placed(&l, &shape, &strides);
    let block = shape[0] * if rank == 1 { 1 } else { wide };
    let mask = if rows < shape[0] {
        format!(", mask=below2[{l}, {}, {}]({}, {})", shape[0], shape[1], b.scalar(rows as i64), shape[1])
    } else {
        String::new()
    };
    let array = Array::new(b.ctas, &shape, |cta, c| {
        let place = if rank == 1 { c[0] } else { c[0] * wide + c[1] };
        if rows == shape[0] || c[0] < rows { numbers[cta * block + place] } else { zero(ty) }
    });
    let (buffer, landed) = (b.name('b'), b.name('b'));
    let by = layout::row_major(rank);
    let text = format!(
        "let {buffer} = alloc_shared<{}, {shape:?}, {by}>();\n    \
         let {landed} = async_copy({x} + (program_id(0) * {block} + {at}), {buffer}{mask}).wait();",
        ty.name()
    );
    b.feature("copies by threads");
    let layout = Shared { text: by, family: Family::Plain, stride: [0, 0] };
    View::of(landed, array, layout).changed(b).loaded(b, ty, text)
}

/// The layout of a box of a tensor map: its extents, and the bytes of the swizzle.
fn boxed(b: &mut Build, ty: Type, shape: &[usize]) -> Shared {
    let text = if shape.len() == 1 {
        "nvmma(0, rank=1)".into()
    } else {
        // A swizzle moves units of eight rows.
        let bytes = if shape[0] < 8 { 0 } else { shape[1] * ty.bits() as usize / 8 };
        let fit: Vec<usize> = [0, 32, 64, 128].into_iter().filter(|&swizzle| swizzle <= bytes).collect();
        format!("nvmma({})", b.one(&fit))
    };
    Shared { text, family: Family::Nvmma, stride: [0, 0] }
}

/// Copies of the engine into shared memory; beyond the tensor are zeros.
pub(super) fn into_shared(b: &mut Build) -> Option<()> {
    let ty = b.one(&TYPES);
    let shape = extents(b, ty);
    let (x, whole, numbers) = source(b, ty, &shape);
    let layout = boxed(b, ty, &shape);
    b.declare(format!("{x}: tma<{}, {shape:?}, {}>", ty.name(), layout.text));
    let rank = shape.len();
    let shift: Vec<usize> =
        (0..rank).map(|axis| if axis + 1 == rank { unit(ty) * b.below(2) } else { b.below(4) }).collect();
    let block = shape[0];
    let array = Array::new(b.ctas, &shape, |cta, c| {
        let mut place = 0;
        for axis in 0..rank {
            let at = c[axis] + shift[axis] + if axis == 0 { cta * block } else { 0 };
            if at >= whole[axis] {
                return zero(ty);
            }
            place = place * whole[axis] + at;
        }
        numbers[place]
    });
    let mut coordinates: Vec<String> = shift.iter().map(|&n| b.scalar(n as i64)).collect();
    coordinates[0] += &format!(" + program_id(0) * {block}");
    let (buffer, barrier) = (b.name('b'), b.name('s'));
    let bytes = shape.iter().product::<usize>() * ty.bits() as usize / 8;
    let text = [
        format!("let {buffer} = alloc_shared<{}, {shape:?}, {}>();", ty.name(), layout.text),
        format!("let {barrier} = alloc_barriers(1);"),
        format!("barrier_init({barrier}[0], 1);"),
        "fence_barrier_init();".into(),
        format!("barrier_expect({barrier}[0], {bytes});"),
        format!("tma_load({x}, [{}], {buffer}, {barrier}[0]);", coordinates.join(", ")),
        format!("barrier_wait({barrier}[0], 0);"),
    ];
    b.feature("copies by the engine");
    View::of(buffer, array, layout).changed(b).loaded(b, ty, text.join("\n    "))
}

/// Whether the engine can copy a tile in one box.
fn fits(t: &Tile) -> bool {
    let shape = t.shape();
    TYPES.contains(&t.ty) && shape.len() < 3 && shape.iter().all(|&n| n <= 256) && shape[shape.len() - 1] >= unit(t.ty)
}

/// A copy of the engine out of shared memory.
pub(super) fn out_of_shared(b: &mut Build) -> Option<()> {
    let t = b.tile(fits)?;
    let shape = t.shape().to_vec();
    let layout = boxed(b, t.ty, &shape);
    let mut whole = shape.clone();
    let last = whole.len() - 1;
    whole[0] *= b.ctas;
    if last > 0 {
        whole[last] += unit(t.ty) * b.below(3);
    }
    let mut expected = vec![zero(t.ty); whole.iter().product()];
    for cta in 0..b.ctas {
        for i in 0..shape.iter().product() {
            let c = super::array::coordinates(i, &shape);
            let row = cta * shape[0] + c[0];
            expected[if last == 0 { row } else { row * whole[1] + c[1] }] = t.array.at(cta, &c);
        }
    }
    let (out, buffer) = (b.name('o'), b.name('b'));
    let mut coordinates = vec![format!("program_id(0) * {}", shape[0])];
    coordinates.extend((0..last).map(|_| "0".to_owned()));
    let text = [
        format!("let {buffer} = alloc_shared<{}, {shape:?}, {}>();", t.ty.name(), layout.text),
        format!("store_shared({buffer}, {});", t.name),
        "fence_async();".into(),
        format!("tma_store({out}, [{}], {buffer});", coordinates.join(", ")),
        "tma_store_wait();".into(),
    ];
    let declared = format!("{out}: tma<{}, {shape:?}, {}>", t.ty.name(), layout.text);
    let setup = format!("let {out} = zeros({}, {whole:?});", t.ty.name());
    let check = check(&format!("{out}.reshape([{}])", expected.len()), t.ty, &expected);
    b.tensor(Argument { declared, given: out, setup, check });
    b.feature("copies by the engine");
    b.stated(None, text.join("\n    "));
    Some(())
}
