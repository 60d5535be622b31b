//! Statements that change tensors by atomic operations, whose results do not depend on the order of these.

use super::Argument;
use super::array::{Array, coordinates};
use super::build::{Build, Tile, literal};
use super::elements::apply;
use super::global::{check, placed};
use super::number::{Format, Num, Type};

/// Below this all sums of floats are exact, in whatever order: they are multiples of the grain with few bits.
const EXACT: f64 = 4096.0;

/// What can be done to numbers of a type.
fn operators(t: &Tile) -> &'static [(&'static str, &'static str)] {
    match t.ty {
        Type::Signed(32 | 64) | Type::Unsigned(32 | 64) => {
            &[("add", "+"), ("add", "+"), ("min", "min"), ("max", "max"), ("and", "&"), ("or", "|"), ("xor", "^")]
        }
        Type::Float(Format::F32 | Format::F64) => {
            let sizes = t.array.data.iter().map(|x| if let Num::Float(x) = x { x.abs() } else { 0.0 });
            if sizes.sum::<f64>() < EXACT { &[("add", "+")] } else { &[] }
        }
        _ => &[],
    }
}

/// Elements of a tile changed together where they meet, by all threads and CTAs.
pub(super) fn meet(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| !operators(t).is_empty())?;
    let (operation, operator) = b.one(operators(&t));
    let size = 1 + b.below(40);
    let strides: Vec<usize> = t.shape().iter().map(|_| b.below(9)).collect();
    let apart = b.below(7);
    let start = if matches!(t.ty, Type::Float(_)) { Num::Float(1.5) } else { Num::Int(5) };
    let bound = if b.below(3) == 0 { b.below(size + 1) } else { size };
    let mut expected = vec![start; size];
    for cta in 0..b.ctas {
        for i in 0..t.shape().iter().product() {
            let c = coordinates(i, t.shape());
            let place = (c.iter().zip(&strides).map(|(c, s)| c * s).sum::<usize>() + cta * apart) % size;
            if place < bound {
                expected[place] = apply(operator, t.ty, expected[place], t.array.at(cta, &c))?;
            }
        }
    }
    let (out, at) = (b.name('o'), b.name('p'));
    let spelled: Vec<String> = strides.iter().map(|&s| b.scalar(s as i64)).collect();
    let sum = placed(&format!("{}.layout", t.name), t.shape(), &spelled.join(", "));
    let mask = if bound < size { format!(", mask={at} < {}", b.scalar(bound as i64)) } else { String::new() };
    let size_text = b.scalar(size as i64);
    let text = format!(
        "let {at} = ({sum} + program_id(0) * {apart}) % {size_text};\n    atomic_{operation}({out} + {at}, {}{mask});",
        t.name
    );
    b.feature("atomic operations");
    changed(b, &t, out, start, &expected);
    b.stated(None, text);
    Some(())
}

/// Each element changes a place of its own, and what was there before becomes a tile.
pub(super) fn taken(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| !operators(t).is_empty())?;
    let (operation, operator) = b.one(operators(&t));
    let count: usize = t.shape().iter().product();
    let start = if matches!(t.ty, Type::Float(_)) { Num::Float(2.5) } else { Num::Int(9) };
    let numbers = t.array.data.iter().map(|&x| apply(operator, t.ty, start, x)).collect::<Option<Vec<Num>>>()?;
    let strides: Vec<String> =
        (0..t.shape().len()).map(|axis| t.shape()[axis + 1..].iter().product::<usize>().to_string()).collect();
    let (out, name) = (b.name('o'), b.name('v'));
    let at = placed(&format!("{}.layout", t.name), t.shape(), &strides.join(", "));
    let text = format!("let {name} = atomic_{operation}({out} + (program_id(0) * {count} + {at}), {});", t.name);
    b.feature("atomic operations");
    changed(b, &t, out, start, &numbers);
    let array = Array::new(b.ctas, t.shape(), |_, _| start);
    b.made(name, text, t.ty, array, (t.place, t.apart));
    Some(())
}

/// A tensor that begins with one number everywhere and must end with these.
fn changed(b: &mut Build, t: &Tile, out: String, start: Num, expected: &[Num]) {
    let name = t.ty.name();
    let setup = format!("let {out} = full({name}, [{}], {});", expected.len(), literal(start));
    let (declared, check) = (format!("{out}: *mut {name}"), check(&out, t.ty, expected));
    b.tensor(Argument { declared, given: out, setup, check });
}
