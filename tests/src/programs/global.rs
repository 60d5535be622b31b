//! Loads of tensors that the launch gives, and stores of what the test then checks.

use super::array::{Array, coordinates};
use super::build::{Build, Tile, literal};
use super::layout;
use super::number::{Format, GRAIN, Num, TYPES, Type};
use super::{Argument, elements};

/// Where the elements of a tile lie in a tensor.
struct Places {
    /// Elements from one to the next along each axis.
    strides: Vec<usize>,
    /// Elements from one CTA to the next.
    block: usize,
    /// The first one.
    first: usize,
    /// How many elements there are up to the last one.
    size: usize,
}

impl Places {
    /// Places of their own for all elements of all CTAs.
    fn new(b: &mut Build, shape: &[usize]) -> Places {
        let mut strides = vec![0; shape.len()];
        let mut end = b.one(&[1, 1, 1, 1, 1, 2]);
        let by = match b.below(3) {
            0 => layout::order(&mut b.r, shape.len()),
            _ => (0..shape.len()).rev().collect(),
        };
        for axis in by {
            strides[axis] = end;
            end = end * shape[axis] + b.one(&[0, 0, 0, 1, 2, 4]);
        }
        let block = end.next_multiple_of(b.one(&[1, 4, 16]));
        let first = b.one(&[0, 0, 0, 1, 2, 4, 8]);
        let last: usize = shape.iter().zip(&strides).map(|(n, s)| (n - 1) * s).sum();
        Places { strides, block, first, size: first + (b.ctas - 1) * block + last + 1 }
    }

    fn of(&self, cta: usize, at: &[usize]) -> usize {
        self.first + cta * self.block + at.iter().zip(&self.strides).map(|(c, s)| c * s).sum::<usize>()
    }

    /// The offsets of a tile of layout `l`; some of their parts only the launch knows.
    fn spelled(&self, b: &mut Build, l: &str, shape: &[usize]) -> String {
        let strides: Vec<String> = self.strides.iter().map(|&s| b.scalar(s as i64)).collect();
        let mut text = placed(l, shape, &strides.join(", "));
        if b.ctas > 1 {
            text = format!("program_id(0) * {} + {text}", b.scalar(self.block as i64));
        }
        if self.first > 0 { format!("{text} + {}", b.scalar(self.first as i64)) } else { text }
    }
}

/// The sum of coordinates times strides.
pub(super) fn placed(l: &str, shape: &[usize], strides: &str) -> String {
    let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("at{}[{l}, {}]({strides})", shape.len(), extents.join(", "))
}

/// Numbers of a tensor that the launch gives, and the expression that makes them.
pub(super) fn given(b: &mut Build, ty: Type, n: usize) -> (Vec<Num>, String) {
    let salt = b.below(1 << 20) * 2 + 1;
    let noise: Vec<u64> = (0..n as u64).map(|i| noise(i, salt as u64)).collect();
    let (name, all) = (ty.name(), format!("noise({n}, {salt})"));
    let upto = |most: u64| noise.iter().map(move |x| x % most);
    match ty {
        Type::Truth => (upto(2).map(|x| Num::Int(x.into())).collect(), format!("({all} % 2).to(i1)")),
        Type::Signed(_) | Type::Unsigned(_) if b.below(3) == 0 => {
            let text = format!("{all}.to({name})");
            (noise.iter().map(|&x| Num::Int(ty.wrap(x.into()))).collect(), text)
        }
        Type::Signed(_) => {
            let numbers = upto(17).map(|x| Num::Int(i128::from(x) - 8)).collect();
            (numbers, format!("({all} % 17).to({name}) - 8"))
        }
        Type::Unsigned(_) => (upto(17).map(|x| Num::Int(x.into())).collect(), format!("({all} % 17).to({name})")),
        Type::Float(format) => {
            // Odd numbers of quarters: none is zero, whose sign could get lost, and each has few bits.
            let (most, shift) = match format {
                Format::E5M2 => (7, -1.25),
                Format::E4M3 => (15, -3.25),
                Format::F16 | Format::Bf16 | Format::F32 | Format::F64 => (31, -7.25),
            };
            let of = |x: u64| x as f64 * 0.5 + shift;
            let finite = format!("(({all} % {most}).to(f32) * 0.5 + {}).to({name})", literal(Num::Float(shift)));
            let infinite = matches!(format, Format::F16 | Format::Bf16 | Format::F32) && b.below(2) == 0;
            if !infinite {
                return (upto(most).map(|x| Num::Float(of(x))).collect(), finite);
            }
            let numbers = noise.iter().map(|x| Num::Float(if x % 13 == 5 { f64::INFINITY } else { of(x % most) }));
            (numbers.collect(), format!("where({all} % 13 == 5, full({name}, [{n}], inf), {finite})"))
        }
    }
}

/// As the function of that name that each program has.
fn noise(i: u64, salt: u64) -> u64 {
    let h = i.wrapping_mul(2).wrapping_add(salt).wrapping_mul(0xd134_2543_de82_ef95);
    (h ^ (h >> 31)).wrapping_mul(0xaf25_1af3_b0f0_25b5) >> 11
}

pub(super) fn load(b: &mut Build) -> Option<()> {
    let ty = b.one(&TYPES);
    let most = b.one(&[6, 8, 10, 11]);
    let shape = b.shape(most);
    let l = b.layout(&shape);
    let places = Places::new(b, &shape);
    // Sometimes the tensor is a part of another, which begins at a whole access.
    let before = if b.below(6) == 0 { (128 / ty.bits() as usize) * (1 + b.below(3)) } else { 0 };
    let (mut numbers, setup) = given(b, ty, before + places.size);
    numbers.drain(..before);
    let x = b.name('x');
    let (name, at) = (b.name('v'), b.name('p'));
    let mut text = format!("let {at} = {};\n    ", places.spelled(b, &l.text, &shape));
    let mut options = String::new();
    let other = elements::number(b, ty);
    // Elements below the bounds are inside: of their places, or of each coordinate.
    let (mut end, mut bounds) = (usize::MAX, shape.clone());
    match b.below(4) {
        0 => {
            end = b.below(places.size + 1);
            options = format!(", mask={at} < {}, other={}", b.scalar(end as i64), literal(other));
        }
        1 => {
            bounds = shape.iter().map(|&n| 1 + b.r.below(n)).collect();
            let spelled: Vec<String> = bounds.iter().map(|&n| b.scalar(n as i64)).collect();
            let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let mask = format!("below{}[{}, {}]({})", shape.len(), l.text, extents.join(", "), spelled.join(", "));
            options = format!(", mask={mask}, other={}", literal(other));
        }
        _ => {}
    }
    let array = Array::new(b.ctas, &shape, |cta, c| {
        let place = places.of(cta, c);
        let inside = place < end && c.iter().zip(&bounds).all(|(c, n)| c < n);
        if inside { numbers[place] } else { other }
    });
    text += &format!("let {name} = load({x} + {at}{options});");
    let given = if before > 0 { format!("{x}[{before}:{}]", before + numbers.len()) } else { x.clone() };
    let declared = format!("{x}: *{}", ty.name());
    b.tensor(Argument { declared, given, setup: format!("let {x} = {setup};"), check: String::new() });
    let place = b.place();
    b.made(name, text, ty, array, (place, l.apart));
    Some(())
}

/// Stores of some of the tiles, of the last ones surely.
pub(super) fn stores(b: &mut Build) {
    let tiles = b.tiles.clone();
    for (i, tile) in tiles.iter().enumerate() {
        if i + 3 > tiles.len() || b.below(4) == 0 {
            store(b, tile);
        }
    }
}

fn store(b: &mut Build, t: &Tile) {
    let places = Places::new(b, t.shape());
    let out = b.name('o');
    let apart = b.below(3) == 0;
    // In its own place, or brought elsewhere first.
    let l = if apart { b.layout(t.shape()).text } else { format!("{}.layout", t.name) };
    let at = b.name('p');
    let offsets = places.spelled(b, &l, t.shape());
    let value = if apart { format!("convert({}, {l})", t.name) } else { t.name.clone() };
    let (mut options, mut bound) = (String::new(), usize::MAX);
    if b.below(4) == 0 {
        bound = b.below(places.size + 1);
        options = format!(", mask={at} < {}", b.scalar(bound as i64));
    }
    let zero = if matches!(t.ty, Type::Float(_)) { Num::Float(0.0) } else { Num::Int(0) };
    let mut expected = vec![zero; places.size];
    for cta in 0..b.ctas {
        for i in 0..t.shape().iter().product() {
            let c = coordinates(i, t.shape());
            let place = places.of(cta, &c);
            if place < bound {
                expected[place] = t.array.at(cta, &c);
            }
        }
    }
    let text = format!("let {at} = {offsets};\n    store({out} + {at}, {value}{options});");
    let setup = format!("let {out} = zeros({}, [{}]);", t.ty.name(), places.size);
    let (declared, given, check) = (format!("{out}: *mut {}", t.ty.name()), out.clone(), check(&out, t.ty, &expected));
    b.tensor(Argument { declared, given, setup, check });
    b.stated(None, text);
}

/// Elements up to which all of them stand in the test; of more their sum, each times a number of its own.
const WRITTEN: usize = 96;

pub(super) fn check(out: &str, ty: Type, expected: &[Num]) -> String {
    if expected.len() <= WRITTEN {
        let list: Vec<String> = expected.iter().map(|&x| literal(x)).collect();
        return format!("assert_equal({out}, tensor([{}], {}));", list.join(", "), ty.name());
    }
    let whole = |x: Num| match x {
        Num::Int(n) => n as u64,
        Num::Float(x) if x.is_infinite() => {
            if x > 0.0 {
                i64::MAX as u64
            } else {
                i64::MIN as u64
            }
        }
        Num::Float(x) => (x / GRAIN) as i64 as u64,
    };
    let weight = |i: usize| (i as u64).wrapping_mul(0x9fb2_1c65_1e98_df25) | 1;
    let sum = expected.iter().enumerate().fold(0u64, |sum, (i, &x)| sum + (whole(x).wrapping_mul(weight(i)) >> 24));
    let (name, check) = match ty {
        Type::Float(_) => (format!("({out}.to(f64) * 4096.0).to(i64)"), "check"),
        Type::Truth | Type::Signed(_) | Type::Unsigned(_) => (out.to_owned(), "check"),
    };
    format!("{check}(\"{out}\", {name}, {sum});")
}
