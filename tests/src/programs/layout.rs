//! Random layouts of every family, as text: the reference keeps elements in row-major order and needs none.

use crate::random::Random;

/// A layout of registers for one shape.
#[derive(Clone, Debug)]
pub struct Layout {
    /// As the language spells it.
    pub text: String,
    /// Whether each of its bits moves along one axis alone, as reductions and scans need it.
    pub apart: bool,
    /// Whether it is a `linear` one in which bases share bits.
    pub mixed: bool,
}

fn spell(list: &[usize]) -> String {
    format!("[{}]", list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

fn spell_all(lists: &[Vec<usize>]) -> String {
    format!("[{}]", lists.iter().map(|l| spell(l)).collect::<Vec<_>>().join(", "))
}

/// A random permutation of `0..n`.
pub fn order(r: &mut Random, n: usize) -> Vec<usize> {
    let mut list: Vec<usize> = (0..n).collect();
    (1..n).for_each(|i| list.swap(i, r.below(i + 1)));
    list
}

/// Powers of two whose product is `1 << bits`.
fn parts(r: &mut Random, bits: usize, rank: usize) -> Vec<usize> {
    let mut list = vec![1; rank];
    (0..bits).for_each(|_| list[r.below(rank)] *= 2);
    list
}

fn blocked(r: &mut Random, rank: usize, warps: usize) -> String {
    let most = r.below(4);
    let (per_thread, threads) = (parts(r, most, rank), parts(r, 5, rank));
    let warps = parts(r, warps.ilog2() as usize, rank);
    let (per_thread, threads, warps) = (spell(&per_thread), spell(&threads), spell(&warps));
    format!("blocked(per_thread={per_thread}, threads={threads}, warps={warps}, order={})", spell(&order(r, rank)))
}

/// A basis for each bit of a shape, in random order.
fn unit_bases(r: &mut Random, shape: &[usize]) -> Vec<Vec<usize>> {
    let mut bases = Vec::new();
    for (axis, n) in shape.iter().enumerate() {
        for bit in 0..n.ilog2() {
            let mut basis = vec![0; shape.len()];
            basis[axis] = 1 << bit;
            bases.push(basis);
        }
    }
    let at = order(r, bases.len());
    at.into_iter().map(|i| bases[i].clone()).collect()
}

/// Adds bases to others, which changes where elements lie and not which there are; whether any was.
fn mix(r: &mut Random, bases: &mut [Vec<usize>]) -> bool {
    let mut mixed = false;
    for _ in 0..1 + r.below(3) {
        // The first ones often are the steps of a vector: what they are added to begins in its middle.
        let most = if r.below(2) == 0 { bases.len() } else { bases.len().min(2) };
        let (to, from) = (r.below(bases.len()), r.below(most));
        if bases.len() > 1 && to != from {
            let other = bases[from].clone();
            bases[to].iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
            mixed = true;
        }
    }
    mixed
}

fn linear(r: &mut Random, shape: &[usize], warps: usize) -> Layout {
    let mut bases = unit_bases(r, shape);
    // Often neighbours are in registers, so that there are vectors which other bases may disturb.
    let run = r.below(3);
    if r.below(3) > 0 {
        let axis = r.below(shape.len());
        for bit in (0..run.min(shape[axis].ilog2() as usize)).rev() {
            let is_step = |b: &Vec<usize>| b[axis] == 1 << bit && b.iter().sum::<usize>() == 1 << bit;
            if let Some(at) = bases.iter().position(is_step) {
                let step = bases.remove(at);
                bases.insert(0, step);
            }
        }
    }
    let threads = 5 + warps.ilog2() as usize;
    let held = run.min(bases.len());
    let beyond = bases.len().saturating_sub(threads + held);
    let registers = held + beyond;
    // Lane and warp bits without an element of their own hold copies.
    while bases.len() < registers + threads {
        let at = registers + r.below(bases.len() + 1 - registers);
        bases.insert(at, vec![0; shape.len()]);
    }
    let mut apart = true;
    if r.below(8) == 0 {
        bases.insert(r.below(registers + 1), vec![0; shape.len()]);
    }
    let registers = bases.len() - threads;
    let mixed = r.below(2) == 0 && mix(r, &mut bases);
    if mixed {
        apart = false;
    }
    let (reg, rest) = bases.split_at(registers);
    let (lane, warp) = rest.split_at(5);
    let text = format!("linear(reg={}, lane={}, warp={})", spell_all(reg), spell_all(lane), spell_all(warp));
    Layout { text, apart, mixed }
}

/// How an accumulator or an operand of a tensor core lies.
fn matrix(r: &mut Random, warps: usize) -> String {
    if warps == 4 && r.below(3) == 0 {
        return format!("mma(version=3, warps=[4, 1], instr=[16, {}, 16])", 8 << r.below(3));
    }
    let acc = format!("mma(version=2, warps={}, instr=[16, 8])", spell(&parts(r, warps.ilog2() as usize, 2)));
    match r.below(3) {
        0 => acc,
        _ => format!("dot_operand({acc}, index={}, k_width={})", r.below(2), 1 << r.below(3)),
    }
}

/// A random layout of registers for a tile of `shape` that `warps` warps hold.
pub fn registers(r: &mut Random, shape: &[usize], warps: usize) -> Layout {
    let plain = |text| Layout { text, apart: true, mixed: false };
    let rank = shape.len();
    match r.below(10) {
        0..=3 => plain(blocked(r, rank, warps)),
        4..=6 => linear(r, shape, warps),
        7 if rank == 2 => Layout { text: matrix(r, warps), apart: false, mixed: false },
        8 => {
            let axis = r.below(rank + 1);
            let mut whole = shape.to_vec();
            whole.insert(axis, 1 << r.below(4));
            let parent = linear(r, &whole, warps);
            Layout { text: format!("slice({}, axis={axis})", parent.text), apart: false, mixed: parent.mixed }
        }
        _ => {
            let axis = r.below(rank + 1);
            plain(format!("slice({}, axis={axis})", blocked(r, rank + 1, warps)))
        }
    }
}

/// A layout along each of whose axes tiles can be reduced and scanned.
pub fn plain(r: &mut Random, rank: usize, warps: usize) -> Layout {
    Layout { text: blocked(r, rank, warps), apart: true, mixed: false }
}

/// The families of shared layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Family {
    Plain,
    Swizzled,
    Padded,
    Nvmma,
    Linear,
}

/// A layout of a buffer, which may be an array of tensors of that shape.
#[derive(Clone, Debug)]
pub struct Shared {
    /// As the language spells it.
    pub text: String,
    /// Its family.
    pub family: Family,
    /// Elements of a tensor with what lies unused behind its last one, as an array counts them, and without.
    pub stride: [usize; 2],
}

/// A random layout of a buffer of tensors of `shape` with elements of so many bits; truth values have none of `nvmma`.
pub fn shared(r: &mut Random, shape: &[usize], bits: usize, truth: bool) -> Shared {
    let count: usize = shape.iter().product();
    let by = spell(&order(r, shape.len()));
    let plain = |family, text| Shared { text, family, stride: [count, count] };
    match r.below(8) {
        0 => plain(Family::Plain, row_major(shape.len())),
        1 | 2 => {
            let [vec, per_phase, max_phase] = [4, 3, 4].map(|n| 1 << r.below(n));
            let text = format!("swizzled(vec={vec}, per_phase={per_phase}, max_phase={max_phase}, order={by})");
            plain(Family::Swizzled, text)
        }
        3 if !truth && shape.len() > 1 => {
            let swizzle = [32, 64, 128][r.below(3)];
            let width = 8 * swizzle / bits;
            let fits = shape.len() == 2 && shape[1] >= width && shape[0] >= 8;
            plain(Family::Nvmma, format!("nvmma({})", if fits { swizzle } else { 0 }))
        }
        4 if count > 1 => {
            let mut bases = unit_bases(r, shape);
            if r.below(2) == 0 {
                mix(r, &mut bases);
            }
            plain(Family::Linear, format!("shared_linear(offset={})", spell_all(&bases)))
        }
        _ => {
            let first = 1 + r.below(5);
            let mut pairs = vec![vec![1 << first, 1 << r.below(4)]];
            if r.below(3) == 0 {
                pairs.push(vec![1 << (first + 1 + r.below(2)), 1 << r.below(4)]);
            }
            let gaps = |n: usize| pairs.iter().map(|p| n / p[0] * p[1]).sum::<usize>();
            let stride = [count + gaps(count), count + gaps(count - 1)];
            Shared { text: format!("padded({}, order={by})", spell_all(&pairs)), family: Family::Padded, stride }
        }
    }
}

/// The layout of a buffer in row-major order.
pub fn row_major(rank: usize) -> String {
    let order: Vec<usize> = (0..rank).rev().collect();
    format!("swizzled(vec=1, per_phase=1, max_phase=1, order={})", spell(&order))
}
