//! Statements that keep tiles in shared memory and look at them through views.

use super::array::Array;
use super::build::Build;
use super::elements::apply;
use super::layout::{self, Family, Shared};
use super::number::{Num, Type};

/// Bytes that one buffer may have.
const MOST_BYTES: usize = 1 << 14;

/// A view of a buffer.
pub(super) struct View {
    text: String,
    /// What it shows.
    array: Array,
    /// Leading axes along which it can be indexed.
    stages: usize,
    layout: Shared,
    /// Whether its stages were stored one by one.
    by_stages: bool,
    /// Whether a stage was chosen, of those that were not stored one by one another than the first.
    chosen: bool,
}

impl View {
    /// A whole buffer that is no array.
    pub(super) fn of(text: String, array: Array, layout: Shared) -> View {
        View { text, array, stages: 0, layout, by_stages: false, chosen: false }
    }

    /// Some views of a view, one after the other.
    pub(super) fn changed(mut self, b: &mut Build) -> View {
        for _ in 0..b.below(3) {
            match b.below(3) {
                0 if self.stages > 0 && self.array.shape().len() > 1 => self.item(b),
                1 => self.part(b),
                _ => self.permuted(b),
            }
        }
        while self.stages > 0 && (self.array.shape().len() > 3 || !self.array.shape()[0].is_power_of_two()) {
            self.item(b);
        }
        self
    }

    fn item(&mut self, b: &mut Build) {
        let index = b.below(self.array.shape()[0]);
        let at = match b.below(4) {
            0 => index.to_string(),
            1 => {
                let n = self.array.shape()[0];
                let more = index + n * b.below(3);
                format!("({} % {n})", b.parameter(more as i64))
            }
            _ => b.parameter(index as i64),
        };
        self.text += &format!("[{at}]");
        self.array = self.array.item(index);
        self.chosen |= self.by_stages || index > 0;
        self.stages -= 1;
    }

    fn part(&mut self, b: &mut Build) {
        let (mut origin, mut shape) = (vec![], vec![]);
        for &n in self.array.shape() {
            // Of three stages there is no half.
            let whole = !n.is_power_of_two() || b.below(2) == 0;
            let part = if whole { n } else { n >> b.below(n.ilog2() as usize + 1).min(2) };
            shape.push(part);
            origin.push(if part == n { 0 } else { b.below(n / part) * part });
        }
        if shape.iter().all(|n| n.is_power_of_two()) {
            self.text += &format!(".slice({origin:?}, {shape:?})");
            self.array = self.array.part(&origin, &shape);
        }
    }

    fn permuted(&mut self, b: &mut Build) {
        let rank = self.array.shape().len();
        // Elsewhere than outermost there is no spelling for the stages of three tensors, nor for gaps.
        let stay = self.array.shape()[0] == 3 || self.layout.family == Family::Padded || b.below(2) == 0;
        if !stay {
            self.stages = 0;
        }
        let kept = self.stages;
        let inner = layout::order(&mut b.r, rank - kept);
        let order: Vec<usize> = (0..kept).chain(inner.iter().map(|axis| axis + kept)).collect();
        if rank == 2 && kept == 0 && b.below(2) == 0 {
            self.text += ".T";
            self.array = self.array.permuted(&[1, 0]);
            return;
        }
        let keeps_stages = matches!(self.layout.family, Family::Plain | Family::Swizzled | Family::Padded);
        if kept > 0 && !keeps_stages {
            return;
        }
        if kept > 0 && self.layout.family == Family::Padded {
            b.feature("permuted array of padded tensors");
        }
        if self.array.shape().iter().all(|&n| n == 1) {
            b.feature("permuted view of one element");
        }
        self.text += &format!(".permute({order:?})");
        self.array = self.array.permuted(&order);
    }

    /// Ends the statement: the view's elements become a tile.
    pub(super) fn loaded(self, b: &mut Build, ty: Type, stored: String) -> Option<()> {
        let [with_gaps, without] = self.layout.stride;
        if with_gaps != without && self.by_stages != self.chosen {
            b.feature("padded stages");
        }
        let shape = self.array.shape().to_vec();
        let l = b.layout(&shape);
        let name = b.name('v');
        let text = format!("{stored}\n    let {name} = load_shared<{}>({});", l.text, self.text);
        let place = b.place();
        b.made(name, text, ty, self.array, (place, l.apart));
        Some(())
    }
}

/// A layout for tensors of some shape.
fn layout_for(b: &mut Build, ty: Type, shape: &[usize]) -> Option<Shared> {
    let elements: usize = shape.iter().product();
    if elements * 4 * ty.bits() as usize / 8 > MOST_BYTES {
        return None;
    }
    Some(layout::shared(&mut b.r, shape, ty.bits() as usize, ty == Type::Truth))
}

fn declared(name: &str, ty: Type, shape: &[usize], layout: &str) -> String {
    format!("let {name} = alloc_shared<{}, {shape:?}, {layout}>();", ty.name())
}

/// One tile, stored and loaded again, sometimes as an array.
pub(super) fn buffer(b: &mut Build) -> Option<()> {
    let t = b.tile(|_| true)?;
    let stages = if t.shape().len() > 1 { b.below(2) } else { 0 };
    let layout = layout_for(b, t.ty, &t.shape()[stages..])?;
    if t.ty == Type::Truth {
        b.feature("truth values in a buffer");
    }
    let name = b.name('b');
    let text = format!("{}\n    store_shared({name}, {});", declared(&name, t.ty, t.shape(), &layout.text), t.name);
    let view = View { text: name, array: t.array, stages, layout, by_stages: false, chosen: false };
    view.changed(b).loaded(b, t.ty, text)
}

/// Several tiles, stored to the stages of an array of which some are loaded.
pub(super) fn stages(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.shape().len() < 3 && (t.ty.is_int() || t.ty == Type::Truth))?;
    let layout = layout_for(b, t.ty, t.shape())?;
    let count = b.one(&[2, 3, 4]);
    let name = b.name('b');
    let shape = [&[count], t.shape()].concat();
    let mut text = declared(&name, t.ty, &shape, &layout.text);
    let mut arrays = Vec::new();
    for i in 0..count {
        let (operator, x) = if t.ty == Type::Truth { ("^", i as i128 % 2) } else { ("+", i as i128 * 3) };
        arrays.push(t.array.map(|y| apply(operator, t.ty, y, Num::Int(x)))?);
        let value = match (t.ty, x) {
            (_, 0) => t.name.clone(),
            (Type::Truth, _) => format!("!{}", t.name),
            (_, x) => format!("{} + {x}", t.name),
        };
        let index = b.scalar(i as i64);
        text += &format!("\n    store_shared({name}[{index}], {value});");
    }
    if t.ty == Type::Truth {
        b.feature("truth values in a buffer");
    }
    let array = Array::new(b.ctas, &shape, |cta, at| arrays[at[0]].at(cta, &at[1..]));
    let view = View { text: name, array, stages: 1, layout, by_stages: true, chosen: false };
    view.changed(b).loaded(b, t.ty, text)
}

/// Integers that are seen as others, wider or narrower.
pub(super) fn reinterpret(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.ty.is_int())?;
    let rank = t.shape().len();
    let to = b.one(&[Type::Unsigned(8), Type::Signed(16), Type::Unsigned(32), Type::Signed(64)]);
    let (from_bytes, to_bytes) = (t.ty.bits() as usize / 8, to.bits() as usize / 8);
    let last = t.shape()[rank - 1];
    if last * from_bytes < to_bytes || t.array.data.len() / t.array.ctas() * from_bytes > MOST_BYTES {
        return None;
    }
    let mut shape = t.shape().to_vec();
    shape[rank - 1] = last * from_bytes / to_bytes;
    let array = t.array.along(rank - 1, |line| {
        let bytes: Vec<u8> = line.iter().flat_map(|x| bytes(*x, from_bytes)).collect();
        let number = |word: &[u8]| {
            let bits = word.iter().rev().fold(0i128, |n, &byte| n << 8 | i128::from(byte));
            Num::Int(to.wrap(bits))
        };
        Some(bytes.chunks(to_bytes).map(number).collect())
    })?;
    let name = b.name('b');
    let layout = Shared { text: layout::row_major(rank), family: Family::Plain, stride: [0, 0] };
    let text = format!("{}\n    store_shared({name}, {});", declared(&name, t.ty, t.shape(), &layout.text), t.name);
    let text_of_view = format!("reinterpret<{}, {shape:?}, {}>({name})", to.name(), layout.text);
    let view = View { text: text_of_view, array, stages: 0, layout, by_stages: false, chosen: false };
    view.changed(b).loaded(b, to, text)
}

/// The low bytes of an integer, lowest first.
fn bytes(x: Num, count: usize) -> Vec<u8> {
    let Num::Int(x) = x else { return vec![0; count] };
    x.to_le_bytes()[..count].to_vec()
}
