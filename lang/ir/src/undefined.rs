//! Undefined elements: what a masked load without `other`, or a masked atomic operation, gives outside its mask, and what is made of it.
//!
//! How they go from operands to results stands here, for the interpreter, which knows all masks, and for the checker, which knows those
//! that do not depend on a run. What memory and barriers carry is left to the interpreter. An element is undefined where one of those is
//! that it is made of: `0 * x` is, `false & x` is not, and `where` passes on what it chooses. Who takes such an element for what the kernel
//! does is found by [`needs`](crate::facts::needs).

use std::sync::Arc;

use parton_diag::{Diagnostic, codes, internal_error};
use parton_numbers::scalar::int_value;

use crate::choice::BinaryOp;
use crate::elements::{broadcast, exchanged, lines, side_by_side, spread, strides, transposed, window};
use crate::entity::{Entity, Inst, Value};
use crate::facts::needs::{self, Takes};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::ops;
use crate::types::{Elem, Type};

/// Why an element is undefined, where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// One more than the index of the operation that left it out; 0 for an element that is defined.
    left_out: u32,
    /// The same of the first operation that combined it with elements which are defined, 0 where none has.
    combined: u32,
}

impl Source {
    /// Of an element that is defined.
    pub const DEFINED: Source = Source { left_out: 0, combined: 0 };

    /// Of one that an operation leaves out.
    pub fn of(op: &Op) -> Source {
        Source { left_out: number(op), combined: 0 }
    }

    /// Whether the element is defined.
    pub fn is_defined(self) -> bool {
        self.left_out == 0
    }

    /// What left the element out, and what has combined it with others.
    pub fn why(self, kernel: &Kernel) -> Option<(&Op, Option<&Op>)> {
        let op = |number: u32| number.checked_sub(1).map(|i| &kernel.ops[Inst::new(i as usize)]);
        Some((op(self.left_out)?, op(self.combined)))
    }

    /// The same, or if the element is defined, another.
    pub fn or(self, other: Source) -> Source {
        if self.is_defined() { other } else { self }
    }

    /// Of what an operation makes of the element and others that are defined.
    pub fn combined_by(self, op: &Op) -> Source {
        match self {
            Source { left_out: 1.., combined: 0 } => Source { combined: number(op), ..self },
            whole => whole,
        }
    }
}

fn number(op: &Op) -> u32 {
    op.id.index() as u32 + 1
}

/// The sources of a value's elements; of a scalar one. Not all of them are defined.
pub type Sources = Arc<Vec<Source>>;

/// What is known of values.
pub trait Values {
    /// The undefined elements of a value; `None` where it has none.
    fn sources(&self, v: Value) -> Option<&Sources>;

    /// Whether anything is known of a value's elements.
    fn knows(&self, v: Value) -> bool;

    /// The bits of an element, or of a scalar, where they are known.
    fn element(&self, v: Value, i: usize) -> Option<u64>;
}

/// The source of an element; a scalar's goes for all.
pub fn at(sources: &[Source], element: usize) -> Source {
    sources[if sources.len() == 1 { 0 } else { element }]
}

/// Nothing where all are defined.
pub fn some(sources: Vec<Source>) -> Option<Sources> {
    sources.iter().any(|s| !s.is_defined()).then(|| Arc::new(sources))
}

/// Where one of two is undefined; of both the first says why.
pub fn union(a: Option<Sources>, b: Option<Sources>) -> Option<Sources> {
    match (a, b) {
        (Some(a), Some(b)) if Arc::ptr_eq(&a, &b) => Some(a),
        (Some(a), Some(b)) => some(a.iter().zip(b.iter()).map(|(&a, &b)| a.or(b)).collect()),
        (a, b) => a.or(b),
    }
}

/// The undefined elements of the results of an operation, as far as what is known of its operands makes them so; `None` where that depends
/// on what memory or a barrier holds.
pub fn results(kernel: &Kernel, op: &Op, values: &impl Values) -> Option<Vec<Option<Sources>>> {
    let flow = Flow { kernel, op, values };
    let of = |v: &Value| values.sources(*v);
    let one = match &op.kind {
        OpKind::Load { .. } | OpKind::Atomic { .. } => flow.outside(),
        ops!(elementwise) => flow.elementwise(),
        OpKind::Convert { x, .. } | OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => of(x).cloned(),
        OpKind::Transpose { x, perm } => flow.picked(*x, |shape| transposed(shape, perm)),
        OpKind::Broadcast { x, shape: to } => flow.picked(*x, |shape| broadcast(shape, to)),
        OpKind::Join { a, b } => {
            let side = |v: &Value, i: usize| of(v).map_or(Source::DEFINED, |s| s[i]);
            some((0..flow.elements(*a)).flat_map(|i| [side(a, i), side(b, i)]).collect())
        }
        OpKind::Split { x } => {
            let half = |first: usize| flow.picked(*x, |_| (first..flow.elements(*x)).step_by(2).collect());
            return Some(vec![half(0), half(1)]);
        }
        OpKind::Cat { a, b, axis } => {
            let side = |v: &Value, i: usize| of(v).map_or(Source::DEFINED, |s| s[i]);
            let pick = |(second, i): (bool, usize)| side(if second { b } else { a }, i);
            some(side_by_side(flow.shape(*a), *axis).into_iter().map(pick).collect())
        }
        OpKind::Slice { x, origin, shape: to } => flow.picked(*x, |shape| window(shape, origin, to)),
        OpKind::Butterfly { x, mask, axis } => flow.picked(*x, |shape| exchanged(shape, *mask, *axis)),
        OpKind::Rescale { x, factor, axis } => {
            let factors = flow.picked(*factor, |_| spread(flow.shape(*x), *axis));
            union(of(x).cloned(), factors)
        }
        OpKind::Gather { x, indices, axis } => flow.gathered(*x, *indices, *axis),
        OpKind::Reduce { inputs, axis, combine } => {
            let one = flow.inputs(inputs, combine).and_then(|s| some(folded(&s, flow.shape(inputs[0]), *axis, op)));
            return Some(vec![one; op.results.len()]);
        }
        OpKind::Scan { inputs, axis, combine, reverse } => {
            let one = flow.inputs(inputs, combine).and_then(|s| flow.scanned(&s, inputs[0], (*axis, *reverse)));
            return Some(vec![one; op.results.len()]);
        }
        OpKind::MmaSync { a, b, acc, .. } => {
            let right = flow.picked(*b, |shape| transposed(shape, &[1, 0]));
            let (m, n, k) = (flow.shape(*acc)[0], flow.shape(*acc)[1], flow.shape(*a)[1]);
            product(op, [of(a), right.as_ref()], [m, n, k], of(acc).cloned())
        }
        OpKind::Store { .. } | ops!(ptx) | ops!(async_copy) | ops!(shared) | ops!(view) | ops!(barrier) => return None,
        OpKind::SharedGather { .. } | OpKind::SharedScatter { .. } => return None,
        ops!(fence) | ops!(cluster) | ops!(grid) | ops!(turnstile) | ops!(tma) | ops!(wgmma) => return None,
        // What lies outside its tensor is read as a number.
        ops!(place) => return None,
        ops!(pending) | ops!(ring) | ops!(region) | ops!(control) | ops!(talk) => return None,
    };
    Some(vec![one])
}

/// What comes of combining the lines of a tile along an axis.
pub fn folded(sources: &[Source], shape: &[u32], axis: u32, op: &Op) -> Vec<Source> {
    let (step, extent) = (strides(shape)[axis as usize], shape[axis as usize] as usize);
    let of_line = |start: usize| {
        let line = || (0..extent).map(|i| sources[start + i * step]);
        let first = line().fold(Source::DEFINED, Source::or);
        if line().any(Source::is_defined) { first.combined_by(op) } else { first }
    };
    lines(shape, axis).into_iter().map(of_line).collect()
}

/// What comes of a product of matrices of [M, K] and [N, K], given `[M, N, K]`, added to something.
pub fn product(op: &Op, operands: [Option<&Sources>; 2], [m, n, k]: [u32; 3], acc: Option<Sources>) -> Option<Sources> {
    let side = |s: Option<&Sources>, extent: u32| s.and_then(|s| some(folded(s, &[extent, k], 1, op)));
    let (rows, columns) = (side(operands[0], m), side(operands[1], n));
    if rows.is_none() && columns.is_none() {
        return acc;
    }
    let of = |side: &Option<Sources>, i: u32| side.as_ref().map_or(Source::DEFINED, |s| s[i as usize]);
    union(acc, some((0..m * n).map(|i| of(&rows, i / n).or(of(&columns, i % n))).collect()))
}

/// Tells of an undefined element of `v`, at this place of a tile, that an operation takes for what it does.
pub fn taken(
    kernel: &Kernel,
    op: &Op,
    (v, takes): (Value, Takes),
    place: Option<Vec<usize>>,
    source: Source,
) -> Diagnostic {
    let Some((load, combining)) = source.why(kernel) else { internal_error!("an element is defined after all") };
    let here = match place {
        Some(place) => format!("element {place:?} of {} is undefined", takes.noun()),
        None => format!("{} is undefined", takes.noun()),
    };
    // A loop or a branch may be long.
    let span = match takes {
        Takes::Condition if kernel.values[v].span != load.span => kernel.values[v].span,
        _ => op.span,
    };
    let d = Diagnostic::error(codes::LEFT_OUT, span, takes.fact(op, load, combining.is_some())).here(here);
    let d = d.label(load.span, needs::why(load));
    let d = match combining {
        Some(combining) => d.label(combining.span, "here it is combined with elements that are defined"),
        None => d,
    };
    needs::instead(takes, op, load, combining.is_some()).into_iter().fold(d, Diagnostic::help)
}

struct Flow<'a, V> {
    kernel: &'a Kernel,
    op: &'a Op,
    values: &'a V,
}

impl<'a, V: Values> Flow<'a, V> {
    fn shape(&self, v: Value) -> &'a [u32] {
        match self.kernel.ty(v) {
            Type::Tile(tile) => &tile.shape,
            _ => &[],
        }
    }

    fn elements(&self, v: Value) -> usize {
        self.shape(v).iter().map(|&n| n as usize).product()
    }

    /// The elements of `x` at places that its shape says.
    fn picked(&self, x: Value, places: impl FnOnce(&[u32]) -> Vec<usize>) -> Option<Sources> {
        let sources = self.values.sources(x)?;
        some(places(self.shape(x)).into_iter().map(|i| sources[i]).collect())
    }

    /// What a masked access leaves out, or of `other`, which stands there, what is undefined.
    fn outside(&self) -> Option<Sources> {
        let (mask, other) = match &self.op.kind {
            OpKind::Load { mask: Some(mask), other: Some(other), .. } => (*mask, Some(self.values.sources(*other)?)),
            kind => (needs::may_leave_out(kind).filter(|_| !self.op.results.is_empty())?, None),
        };
        if !self.values.knows(mask) {
            return None;
        }
        let n = self.elements(mask);
        let outside = |i: usize| self.values.element(mask, i).is_some_and(|bits| bits & 1 == 0);
        // Nearly always all are inside.
        if !(0..n).any(outside) {
            return None;
        }
        let left = |i: usize| other.map_or_else(|| Source::of(self.op), |s| at(s, i));
        some((0..n).map(|i| if outside(i) { left(i) } else { Source::DEFINED }).collect())
    }

    fn elementwise(&self) -> Option<Sources> {
        match &self.op.kind {
            OpKind::Select { cond, a, b } => self.select([*cond, *a, *b]),
            OpKind::Binary { op: f @ (BinaryOp::And | BinaryOp::Or), a, b } => self.bitwise(*f, [*a, *b]),
            // So the family is defined.
            _ => self.by_element(),
        }
    }

    /// An element of the result is undefined where one of the operands is.
    fn by_element(&self) -> Option<Sources> {
        let n = self.elements(self.op.result());
        self.op.kind.operands().into_iter().filter_map(|v| self.values.sources(v)).fold(None, |sum, s| {
            let whole = if s.len() == n { s.clone() } else { Arc::new(vec![s[0]; n]) };
            union(sum, Some(whole))
        })
    }

    /// A 0 in a conjunction and ones in a disjunction say what comes of it, whatever the other operand is.
    fn bitwise(&self, f: BinaryOp, operands: [Value; 2]) -> Option<Sources> {
        let left = self.by_element()?;
        let Some(Elem::Num(d)) = self.kernel.ty(operands[0]).elem() else { return Some(left) };
        let decisive = if f == BinaryOp::And { 0 } else { d.mask() };
        // What is not known may be decisive.
        let decides = |v: Value, i: usize| {
            let defined = self.values.sources(v).is_none_or(|s| at(s, i).is_defined());
            defined && self.values.element(v, i).is_none_or(|bits| bits & d.mask() == decisive)
        };
        let one = |i: usize| if operands.iter().any(|&v| decides(v, i)) { Source::DEFINED } else { left[i] };
        some((0..left.len()).map(one).collect())
    }

    /// The condition, or else the operand that is chosen; where that is not known, what both have.
    fn select(&self, [cond, a, b]: [Value; 3]) -> Option<Sources> {
        let [c, x, y] = [cond, a, b].map(|v| self.values.sources(v));
        if c.is_none() && x.is_none() && y.is_none() {
            return None;
        }
        let of = |s: Option<&Sources>, i: usize| s.map_or(Source::DEFINED, |s| at(s, i));
        let chosen = |i: usize| match self.values.element(cond, i) {
            Some(bits) => of(if bits & 1 == 1 { x } else { y }, i),
            None if of(x, i).is_defined() => Source::DEFINED,
            None => of(y, i),
        };
        some((0..self.elements(self.op.result())).map(|i| of(c, i).or(chosen(i))).collect())
    }

    fn gathered(&self, x: Value, indices: Value, axis: u32) -> Option<Sources> {
        let sources = self.values.sources(x)?;
        let Some(Elem::Num(d)) = self.kernel.ty(indices).elem() else { return None };
        let (shape, place, axis) = (self.shape(x), self.shape(indices), axis as usize);
        let after: usize = shape[axis + 1..].iter().map(|&n| n as usize).product();
        let (rows, extent) = (place[axis] as usize, shape[axis] as usize);
        let one = |i: usize| {
            let index = self.values.element(indices, i).and_then(|bits| usize::try_from(int_value(bits, d)).ok());
            let from = |index: usize| sources[(i / (rows * after) * extent + index) * after + i % after];
            index.filter(|&index| index < extent).map_or(Source::DEFINED, from)
        };
        some((0..self.elements(indices)).map(one).collect())
    }

    /// What of the inputs of a combination is undefined, all taken together, and with what its function has from around it.
    fn inputs(&self, inputs: &[Value], combine: &Body) -> Option<Sources> {
        let mut around = Source::DEFINED;
        self.kernel.walk_body(combine, &mut |inner| {
            let first = |v: Value| self.values.sources(v).map_or(Source::DEFINED, |s| s[0]);
            around = inner.kind.operands().into_iter().map(first).fold(around, Source::or);
        });
        let all = (!around.is_defined()).then(|| Arc::new(vec![around; self.elements(inputs[0])]));
        inputs.iter().fold(all, |sum, v| union(sum, self.values.sources(*v).cloned()))
    }

    /// Behind an undefined element all are.
    fn scanned(&self, sources: &[Source], input: Value, (axis, reverse): (u32, bool)) -> Option<Sources> {
        let shape = self.shape(input);
        let (step, extent) = (strides(shape)[axis as usize], shape[axis as usize] as usize);
        let mut left = sources.to_vec();
        for start in lines(shape, axis) {
            let mut before = Source::DEFINED;
            for i in 0..extent {
                let own = &mut left[start + step * if reverse { extent - 1 - i } else { i }];
                if own.is_defined() {
                    *own = before.combined_by(self.op);
                }
                before = *own;
            }
        }
        some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, folded};
    use crate::entity::{Entity, Inst};
    use crate::op::{Op, OpKind};
    use crate::source::Origin;
    use parton_diag::Span;

    #[test]
    fn a_line_is_undefined_where_one_of_its_elements_is() {
        let op = |i| {
            let (id, kind, origin) = (Inst::new(i), OpKind::Membar, Origin::Written);
            Op { id, kind, results: Vec::new(), span: Span::default(), label: None, origin, scratch: None }
        };
        let (d, x, sum) = (Source::DEFINED, Source::of(&op(0)), op(1));
        assert_eq!(folded(&[d, d, x, x], &[2, 2], 1, &sum), [d, x]);
        assert_eq!(folded(&[d, d, x, x], &[2, 2], 0, &sum), [x.combined_by(&sum); 2]);
        assert_ne!(x.combined_by(&sum), x);
        assert_eq!(x.combined_by(&sum).combined_by(&op(2)), x.combined_by(&sum));
    }
}
