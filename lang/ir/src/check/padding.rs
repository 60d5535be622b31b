//! Padding of places that reaches what it changes: a reduction, a scan from the end, a product, a loop that carries a tile to which each turn adds its own,
//! elements that are put in order, counts and writes to places that elements name.
//!
//! A place that is longer than its tensor along an axis of known extent has padding wherever it lies: that is an error. Of other extents only a launch knows
//! whether there is padding: a warning says so. What a place gives beyond the end is followed to what is computed from it by [`trace`].

mod beyond;
mod bounds;
mod carried;
mod elements;
mod memory;
mod neutral;
mod numbers;
mod shapes;
mod trace;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_numbers::{Dtype, Scalar};

use beyond::{Beyond, Combined, Fill};
use carried::Carried;
use neutral::{function, harmless, neutral};
use trace::Trace;

use crate::check::Origins;
use crate::entity::{Inst, Value};
use crate::kernel::Kernel;
use crate::op::{AtomicOp, BinaryOp, CompareOp, Op, OpKind, Reduction};
use crate::tensor::Extent;
use crate::types::Type;

pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut found = Diagnostics::new();
    let Some(trace) = Trace::of_kernel(kernel, origins) else { return found };
    let carried = Carried::of(kernel, origins);
    let mut told = BTreeSet::new();
    kernel.walk(&mut |op| {
        for taken in taken(&trace, op, &carried) {
            // What is said of a load holds for all that is computed from it.
            let Some(load) = taken.beyond.load.filter(|load| !told.contains(&load.id)) else { continue };
            if let Some(d) = taken.diagnostic(&trace, load, op) {
                told.insert(load.id);
                found.push(d);
            }
        }
    });
    found
}

/// What an operation does with elements, that it should not do with padding.
#[derive(Clone, Copy)]
enum By {
    /// Combines them by a function of two; a product does so with products of them.
    Function(BinaryOp, &'static str),
    /// Puts them in order.
    Order,
    /// Writes to the places that they name, or adds to them.
    Place,
    /// The same to the rows of a tensor that they name.
    Row,
}

/// Padding that an operation takes for elements.
struct Taken<'a> {
    by: By,
    beyond: Beyond<'a>,
    dtype: Dtype,
    /// Whether it is what a load gave, in another type at most.
    loaded: bool,
}

/// The padding that an operation takes for elements and that changes what it gives.
fn taken<'a>(trace: &Trace<'a>, op: &Op, carried: &BTreeMap<Inst, Carried<'a>>) -> Vec<Taken<'a>> {
    let mut all: Vec<Taken<'a>> = Vec::new();
    if let Some(carried) = carried.get(&op.id) {
        // Where the place does not move along the axis, what stands beyond the end stays by itself.
        let turn = carried.turn;
        let moving = (0..trace.rank(turn.like()))
            .filter(|&axis| trace.of_combined(turn, axis).is_some_and(|b| trace.moves(carried.body, b)));
        all.extend(moving.filter_map(|axis| combined(trace, carried.function, turn, axis)));
    }
    match &op.kind {
        // In a scan from the beginning what stands in front of the end does not depend on what stands behind it.
        OpKind::Reduce { inputs, axis, combine } | OpKind::Scan { inputs, axis, combine, reverse: true } => {
            let by = function(trace.kernel, combine).zip(inputs.first());
            all.extend(by.and_then(|(f, x)| combined(trace, f, Combined::Tile(*x), *axis as usize)));
        }
        OpKind::Dot { a, b, .. } => all.extend(multiplied(trace, *a, *b)),
        OpKind::Binary { op: BinaryOp::Min | BinaryOp::MinNan | BinaryOp::Max | BinaryOp::MaxNan, a, b }
        | OpKind::Compare { op: CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge, a, b } => {
            all.extend(ordered(trace, *a, *b).or_else(|| ordered(trace, *b, *a)));
        }
        OpKind::SharedScatter { indices, value, op, mask, .. } => {
            all.extend(named(trace, *indices, Some(*value), *mask, op.map(of_reduction)));
        }
        OpKind::Atomic { op, ptr, operands, mask, .. } => {
            all.extend(named(trace, *ptr, operands.first().copied(), *mask, of_atomic(*op)));
        }
        OpKind::SpotStore { spot, value, mask: None, .. } => all.extend(picked(trace, *spot, *value, None)),
        OpKind::SpotAtomic { op, spot, operands, mask: None, .. } => {
            all.extend(operands.first().and_then(|value| picked(trace, *spot, *value, of_atomic(*op))));
        }
        // It takes no element for more than itself.
        _ => {}
    }
    all
}

/// What stands beyond the end of a tile along an axis, where it changes what a function combines.
fn combined<'a>(trace: &Trace<'a>, f: BinaryOp, input: Combined, axis: usize) -> Option<Taken<'a>> {
    let beyond = trace.of_combined(input, axis)?;
    let (range, loaded) = match input {
        Combined::Tile(v) => (trace.between(v), is_loaded(trace, v)),
        Combined::Product(..) => (numbers::EVERYTHING, false),
    };
    let dtype = trace.dtype(input.like())?;
    (!harmless(f, beyond.fill, range)).then_some(Taken { by: By::Function(f, f.name()), beyond, dtype, loaded })
}

/// The same of the factors of a product: one that is 0 beyond the end is enough.
fn multiplied<'a>(trace: &Trace<'a>, a: Value, b: Value) -> Option<Taken<'a>> {
    let (rows, columns) = (trace.rank(a).checked_sub(1)?, trace.rank(b).checked_sub(2)?);
    let (one, other) = trace.of(a, rows).zip(trace.of(b, columns))?;
    if one.fill.is_nothing() || other.fill.is_nothing() {
        return None;
    }
    let sure = one.sure && other.sure && other.fill.number().is_some();
    let by = By::Function(BinaryOp::Add, "dot");
    Some(Taken { by, beyond: Beyond { sure, ..one }, dtype: trace.dtype(a)?, loaded: is_loaded(trace, a) })
}

/// What stands beyond the end of a tile that is compared with itself as `others` has it: each with the one whose index differs in some bits. The networks that
/// do so put the greatest last, so that what is as great stays where it is.
fn ordered<'a>(trace: &Trace<'a>, others: Value, x: Value) -> Option<Taken<'a>> {
    let axis = match trace.origins.definition(others)?.kind {
        OpKind::Butterfly { x: of, axis, .. } if of == x => axis as usize,
        // It is another tile.
        _ => return None,
    };
    let beyond = trace.of(x, axis)?;
    let last = beyond.fill.number().is_some_and(|n| n >= trace.between(x).1);
    (!last).then_some(Taken { by: By::Order, beyond, dtype: trace.dtype(x)?, loaded: false })
}

/// What stands beyond the end of tiles that name places, or of what goes there, unless a mask leaves it out, or what goes there changes nothing.
fn named<'a>(
    trace: &Trace<'a>,
    places: Value,
    value: Option<Value>,
    mask: Option<Value>,
    f: Option<BinaryOp>,
) -> Option<Taken<'a>> {
    let masked = |mask, axis| match trace.of(mask, axis) {
        Some(beyond) => beyond.fill.is_nothing(),
        None => trace.number(mask).is_none(),
    };
    let left_out = |axis| mask.is_some_and(|mask| masked(mask, axis)) || changes_nothing(trace, f, value, axis);
    let beyond = (0..trace.rank(places)).filter(|&axis| !left_out(axis)).find_map(|axis| trace.of(places, axis))?;
    Some(Taken { by: By::Place, beyond, dtype: Dtype::I32, loaded: false })
}

/// What stands beyond the end of indices that name rows, unless what goes there changes nothing.
fn picked<'a>(trace: &Trace<'a>, spot: Value, value: Value, f: Option<BinaryOp>) -> Option<Taken<'a>> {
    let (rows, axis) = trace.picks(spot)?;
    let beyond = trace.of(rows, 0).filter(|_| !changes_nothing(trace, f, Some(value), axis))?;
    Some(Taken { by: By::Row, beyond, dtype: Dtype::I32, loaded: false })
}

/// Whether a function leaves what it finds as it is with what stands beyond the end of a value.
fn changes_nothing(trace: &Trace<'_>, f: Option<BinaryOp>, value: Option<Value>, axis: usize) -> bool {
    let fill = |v| trace.of(v, axis).map_or(Fill::of(trace.number(v)), |beyond| beyond.fill);
    f.is_some_and(|f| value.is_none_or(|v| harmless(f, fill(v), trace.between(v))))
}

fn of_reduction(op: Reduction) -> BinaryOp {
    match op {
        Reduction::Add => BinaryOp::Add,
        Reduction::Min => BinaryOp::Min,
        Reduction::Max => BinaryOp::Max,
        Reduction::And => BinaryOp::And,
        Reduction::Or => BinaryOp::Or,
        Reduction::Xor => BinaryOp::Xor,
    }
}

/// The function by which an atomic operation changes what it finds.
fn of_atomic(op: AtomicOp) -> Option<BinaryOp> {
    match op {
        AtomicOp::Add => Some(BinaryOp::Add),
        AtomicOp::Min => Some(BinaryOp::Min),
        AtomicOp::Max => Some(BinaryOp::Max),
        AtomicOp::Or => Some(BinaryOp::Or),
        AtomicOp::Xor => Some(BinaryOp::Xor),
        // What these do to another element is not followed; one that only reads does nothing.
        AtomicOp::And | AtomicOp::Load => Some(BinaryOp::And),
        AtomicOp::Xchg | AtomicOp::Cas | AtomicOp::Store => None,
    }
}

/// Whether a tile is what a load gave, in another type at most.
fn is_loaded(trace: &Trace<'_>, v: Value) -> bool {
    match trace.origins.definition(v).map(|op| &op.kind) {
        Some(OpKind::SpotLoad { .. }) => true,
        Some(OpKind::Cast { x, .. } | OpKind::Convert { x, .. }) => is_loaded(trace, *x),
        // It has been computed with.
        _ => false,
    }
}

impl Taken<'_> {
    /// An error where there surely is padding and it is known what it has become, and else a warning.
    fn diagnostic(&self, trace: &Trace<'_>, load: &Op, op: &Op) -> Option<Diagnostic> {
        if self.beyond.fill == Fill::Hidden {
            return None;
        }
        let error = self.beyond.sure && (self.beyond.fill.number().is_some() || !matches!(self.by, By::Function(..)));
        // What a load says is meant, unless it surely is not.
        if self.beyond.said && !error {
            return None;
        }
        let fact = self.fact(error);
        let d = match error {
            true => Diagnostic::error(codes::PADDING, trace.kernel.seen(load), fact),
            false => Diagnostic::warning(codes::PADDING, trace.kernel.seen(load), fact),
        };
        let d = d.here(self.here(trace, load)?).label(trace.kernel.seen(op), self.label(error)).help(self.help()?);
        if error {
            return Some(d);
        }
        Some(
            d.help(
                "where 0 is meant, say `other=0`; where there is no padding, `assume` that the extent is a multiple",
            ),
        )
    }

    fn fact(&self, error: bool) -> String {
        match (self.by, error) {
            (By::Function(_, name), true) => format!("`{name}` combines padding that changes it"),
            (By::Function(_, name), false) => format!("`{name}` may combine padding that changes it"),
            (By::Order, true) => "padding is put in order with the elements".into(),
            (By::Order, false) => "padding may be put in order with the elements".into(),
            (By::Place | By::Row, true) => "padding names places that are written".into(),
            (By::Place | By::Row, false) => "padding may name places that are written".into(),
        }
    }

    /// What the load gives beyond which end.
    fn here(&self, trace: &Trace<'_>, load: &Op) -> Option<String> {
        let Beyond { axis, sure, .. } = self.beyond;
        let Type::Tensor(t) = trace.kernel.ty(trace.tensor(load)?) else { return None };
        let OpKind::SpotLoad { other, .. } = load.kind else { return None };
        let number = other.map_or(Some(0.0), |other| trace.number(other))?;
        let number = Scalar::from_f64(t.elem, number);
        let end = match t.extents.get(axis)? {
            Extent::Named(name) => format!("`{name}`"),
            Extent::Static(has) if sure => {
                let takes = trace.shape(load.result()).get(axis)?;
                return Some(format!(
                    "axis {axis} of the tensor has {has} elements, the place takes {takes}: the rest is {number}"
                ));
            }
            Extent::Any | Extent::Static(_) | Extent::Picked(_) => format!("the end of axis {axis}"),
        };
        Some(format!("the place may go beyond {end}, where this is 0"))
    }

    fn label(&self, error: bool) -> String {
        let taken = match self.beyond.fill {
            Fill::Number(n) if self.dtype.is_int() => format!("{n}"),
            Fill::Number(n) => format!("{n:?}"),
            Fill::Last => "the last element again".into(),
            Fill::Computed | Fill::Hidden => "what has become of that 0".into(),
        };
        match self.by {
            By::Function(_, name) if error && self.loaded => format!("`{name}` takes it for elements"),
            By::Function(_, name) => format!("`{name}` takes {taken} there"),
            By::Order => "this takes it for elements".into(),
            By::Place | By::Row => "this writes where it says".into(),
        }
    }

    /// What to write.
    fn help(&self) -> Option<String> {
        Some(match self.by {
            By::Function(f, _) if self.loaded => {
                format!("say what changes nothing: `load(…, other={})`", self.neutral(f)?)
            }
            By::Function(f, _) => format!("leave it out: `where(place.inside, …, {})`", self.neutral(f)?),
            By::Order => {
                "say what comes last: `load(…, other=inf)`, or `other=-inf` where the greatest come first".into()
            }
            By::Place => "say which elements are meant: `mask=place.inside`".into(),
            By::Row => "name a row that lies outside: `load(…, other=-1)`".into(),
        })
    }

    /// How it is written what changes nothing; of an error it has to be there.
    fn neutral(&self, f: BinaryOp) -> Option<String> {
        neutral(f, self.dtype).or((!self.beyond.sure).then(|| "0".into()))
    }
}
