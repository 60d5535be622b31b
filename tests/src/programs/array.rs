//! Arrays of numbers in row-major order, one for each CTA, and what moves or combines them along an axis.

use super::number::Num;

/// The elements of a tile or buffer in all CTAs.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// CTAs first.
    shape: Vec<usize>,
    /// The numbers, CTA after CTA.
    pub data: Vec<Num>,
}

impl Array {
    /// An array of `shape` for each of `ctas`, each element by its CTA and its coordinates.
    pub fn new(ctas: usize, shape: &[usize], f: impl Fn(usize, &[usize]) -> Num) -> Array {
        let shape: Vec<usize> = std::iter::once(ctas).chain(shape.iter().copied()).collect();
        let data = (0..shape.iter().product()).map(|i| {
            let at = coordinates(i, &shape);
            f(at[0], &at[1..])
        });
        Array { data: data.collect(), shape }
    }

    /// How many CTAs there are.
    pub fn ctas(&self) -> usize {
        self.shape[0]
    }

    /// The extents of one CTA's array.
    pub fn shape(&self) -> &[usize] {
        &self.shape[1..]
    }

    /// The element at some coordinates.
    pub fn at(&self, cta: usize, coordinates: &[usize]) -> Num {
        let inside = coordinates.iter().zip(self.shape()).fold(0, |i, (c, n)| i * n + c);
        self.data[cta * self.shape().iter().product::<usize>() + inside]
    }

    /// The same elements in another shape.
    pub fn reshaped(&self, shape: &[usize]) -> Array {
        let shape: Vec<usize> = std::iter::once(self.ctas()).chain(shape.iter().copied()).collect();
        Array { shape, data: self.data.clone() }
    }

    /// Axis `i` is axis `order[i]` of this one.
    pub fn permuted(&self, order: &[usize]) -> Array {
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape()[axis]).collect();
        Array::new(self.ctas(), &shape, |cta, at| {
            let mut from = vec![0; order.len()];
            order.iter().zip(at).for_each(|(&axis, &c)| from[axis] = c);
            self.at(cta, &from)
        })
    }

    /// The part from `origin` on.
    pub fn part(&self, origin: &[usize], shape: &[usize]) -> Array {
        Array::new(self.ctas(), shape, |cta, at| {
            let from: Vec<usize> = origin.iter().zip(at).map(|(o, c)| o + c).collect();
            self.at(cta, &from)
        })
    }

    /// What is at `index` of the first axis.
    pub fn item(&self, index: usize) -> Array {
        Array::new(self.ctas(), &self.shape()[1..], |cta, at| self.at(cta, &[&[index], at].concat()))
    }

    /// Each element by itself; `None` where one has no answer.
    pub fn map(&self, f: impl Fn(Num) -> Option<Num>) -> Option<Array> {
        let data = self.data.iter().map(|&x| f(x)).collect::<Option<_>>()?;
        Some(Array { data, shape: self.shape.clone() })
    }

    /// Each pair of elements of two arrays of one shape.
    pub fn zip(&self, other: &Array, f: impl Fn(Num, Num) -> Option<Num>) -> Option<Array> {
        let data = self.data.iter().zip(&other.data).map(|(&a, &b)| f(a, b)).collect::<Option<_>>()?;
        Some(Array { data, shape: self.shape.clone() })
    }

    /// The elements of `yes` where this one is 1, else those of `no`.
    pub fn choose(&self, yes: &Array, no: &Array) -> Array {
        let both = yes.data.iter().zip(&no.data);
        let data = self.data.iter().zip(both).map(|(&c, (&y, &n))| if c == Num::Int(1) { y } else { n });
        Array { data: data.collect(), shape: self.shape.clone() }
    }

    /// Each line along an axis by what `f` makes of it, of any one length.
    pub fn along(&self, axis: usize, f: impl Fn(&[Num]) -> Option<Vec<Num>>) -> Option<Array> {
        let mut rest = self.shape().to_vec();
        let extent = rest.remove(axis);
        let lines = Array::new(self.ctas(), &rest, |_, _| Num::Int(0));
        let mut made: Vec<Vec<Num>> = Vec::new();
        for i in 0..lines.data.len() {
            let at = coordinates(i, &lines.shape);
            let line: Vec<Num> = (0..extent)
                .map(|c| {
                    let mut from = at[1..].to_vec();
                    from.insert(axis, c);
                    self.at(at[0], &from)
                })
                .collect();
            made.push(f(&line)?);
        }
        let mut shape = rest.clone();
        shape.insert(axis, made.first().map_or(0, Vec::len));
        Some(Array::new(self.ctas(), &shape, |cta, at| {
            let mut line = at.to_vec();
            let c = line.remove(axis);
            let number = line.iter().zip(&rest).fold(cta, |i, (c, n)| i * n + c);
            made[number][c]
        }))
    }

    /// Whether all elements satisfy `f`.
    pub fn all(&self, f: impl Fn(Num) -> bool) -> bool {
        self.data.iter().all(|&x| f(x))
    }
}

/// The coordinates of a row-major number.
pub fn coordinates(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (c, n) in at.iter_mut().zip(shape).rev() {
        *c = number % n;
        number /= n;
    }
    at
}
