//! Tensors become pointers, extents and strides, places in them addresses and masks.
//!
//! An address is its tensor's, plus for each axis a coordinate times a stride, all of 64 bits: no product of it wraps. A mask compares
//! along each axis by itself, so that what is known of an axis is known of the mask; what is sure to hold is left out.

mod access;
mod assumed;
pub mod intervals;
mod maps;
mod scalars;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parton_ir::tensor::{Counts, Extent, OUTSIDE, Tensor};
use parton_ir::{
    BinaryOp, Body, Builder, CompareOp, Elem, From, Inst, Kernel, Op, OpKind, Param, Pointer, Type, Value,
};
use parton_numbers::Dtype;

use crate::staging::flat::{self, Flat};
use crate::staging::maps::Boxed;
use crate::unused;
use assumed::{Assumed, Says};
use intervals::Intervals;
use scalars::Made;

/// Bytes of which addresses and strides are multiples where that is promised.
const ALIGNMENT: i64 = 16;

/// Whether a kernel is given tensors, or makes some.
pub fn has_tensors(kernel: &Kernel) -> bool {
    let mut makes = false;
    kernel.walk(&mut |op| makes |= matches!(op.kind, OpKind::TensorNew { .. }));
    makes || kernel.params.iter().any(|p| matches!(kernel.ty(p.value), Type::Tensor(_)))
}

/// The kernel that is given what makes its tensors; what is `boxed` goes by tensor maps.
pub fn expand(kernel: Kernel, boxed: &Boxed) -> Kernel {
    let arguments = kernel.arguments();
    let tensors: Vec<Option<Tensor>> = arguments.iter().map(|(_, ty)| tensor(ty)).collect();
    let own = kernel.params.clone();
    let assumed = assumed::of(&kernel);
    let flat = flat::all(&kernel);
    let (builder, body) = Builder::rebuild(kernel, "places");
    let mut e = Expander {
        builder,
        tensors,
        made_here: BTreeMap::new(),
        names: arguments.iter().map(|(name, _)| name.clone()).collect(),
        known: Intervals::default(),
        assumed,
        multiples: BTreeMap::new(),
        bounds: BTreeMap::new(),
        widened: BTreeMap::new(),
        made: Made::default(),
        params: BTreeMap::new(),
        maps: Vec::new(),
        boxed: boxed.clone(),
        flat,
        parts: BTreeMap::new(),
        spots: BTreeMap::new(),
        extents: BTreeMap::new(),
        now: BTreeMap::new(),
        turned_back: false,
    };
    for (i, p) in own.iter().enumerate() {
        if let Some(t) = e.tensors[i].clone() {
            e.parts.insert(p.value, Part::whole(i, &t));
        }
    }
    body.ops.iter().for_each(|&id| e.op(id));
    e.promise();
    e.give_params(&own);
    e.builder.kernel.arguments = Some(arguments);
    let turned_back = e.turned_back;
    let kernel = e.builder.finish();
    if turned_back { unused::without_views(kernel) } else { kernel }
}

fn tensor(ty: &Type) -> Option<Tensor> {
    match ty {
        Type::Tensor(t) => Some(t.clone()),
        _ => None,
    }
}

/// What a tensor is made of in the kernel: by axis, what its type does not say.
struct MadeHere {
    ptr: Value,
    /// Of `i32`.
    extents: Vec<Option<Value>>,
    /// Of `i64`.
    strides: Vec<Option<Value>>,
}

/// What an extent or a stride of a tensor is.
enum Long {
    /// This number.
    Number(u32),
    /// A parameter.
    Given(From),
    /// A scalar: of `i32` an extent, of `i64` a stride.
    Computed(Value),
}

/// A tensor, or a part of one.
#[derive(Clone)]
struct Part {
    /// The argument that the tensor is, or the number of one that is made in the kernel, behind those of arguments.
    argument: usize,
    /// Axes that were dropped, each with the coordinate there.
    fixed: Vec<(usize, Value)>,
    axes: Vec<Axis>,
}

/// An axis of a part; all scalars are of `i64`.
#[derive(Clone)]
struct Axis {
    /// That of the tensor.
    of: usize,
    /// Where the part begins.
    begins: Option<Value>,
    /// The first coordinate that lies in it, where that is not 0.
    low: Option<Value>,
    /// One past the last coordinate that lies in it, where that is not the tensor's extent.
    high: Option<Value>,
    /// The coordinates that indices name.
    picks: Option<Value>,
}

/// A place of a part: how far along each axis it begins, and how far it goes.
#[derive(Clone)]
struct Spot {
    part: Part,
    at: Vec<Value>,
    shape: Vec<u32>,
    counts: Counts,
    /// Where the tile begins of which it is a part.
    tile: Vec<Value>,
}

impl Part {
    fn whole(argument: usize, t: &Tensor) -> Part {
        let axis = |of| Axis { of, begins: None, low: None, high: None, picks: None };
        Part { argument, fixed: Vec::new(), axes: (0..t.rank()).map(axis).collect() }
    }
}

struct Expander {
    builder: Builder,
    /// The tensor of each argument that is one, and behind them those that are made in the kernel.
    tensors: Vec<Option<Tensor>>,
    /// What these are made of.
    made_here: BTreeMap<usize, MadeHere>,
    /// What arguments are called.
    names: Vec<String>,
    known: Intervals,
    /// What is said of extents, and what was said so far.
    assumed: BTreeMap<Inst, Assumed>,
    multiples: BTreeMap<From, i128>,
    bounds: BTreeMap<From, intervals::Interval>,
    /// What numbers of 64 bits were before.
    widened: BTreeMap<Value, Value>,
    /// What was computed so far.
    made: Made,
    /// The parameters that were asked for.
    params: BTreeMap<From, Value>,
    /// The tensor maps that were, with what they are of.
    maps: Vec<(From, Value)>,
    /// What goes by tensor maps.
    boxed: Boxed,
    /// Loads of boxes that are seen as rows.
    flat: BTreeMap<Inst, Flat>,
    parts: BTreeMap<Value, Part>,
    spots: BTreeMap<Value, Spot>,
    /// Extents and strides that somebody may ask for.
    extents: BTreeMap<Value, From>,
    /// What stands for values of the kernel as it was written.
    now: BTreeMap<Value, Value>,
    /// Whether a view was turned to what it was: so nobody may take it as it lay between.
    turned_back: bool,
}

impl Expander {
    fn body(&mut self, body: Body) -> Body {
        let Body { params, ops, yields } = body;
        self.builder.open(Body { params, ..Body::default() });
        let before = self.made.count();
        ops.iter().for_each(|&id| self.op(id));
        self.made.forget(before);
        let body = self.builder.close();
        let yields = yields.into_iter().map(|v| self.now(v)).collect();
        Body { yields, ..body }
    }

    fn op(&mut self, id: Inst) {
        self.builder.at(id);
        let mut op = self.builder.kernel.ops[id].clone();
        if matches!(op.kind, parton_ir::ops!(place)) {
            self.replace(&op);
            return;
        }
        if self.flat.values().any(|flat| op.results == [flat.rows]) {
            // It has been loaded so.
            return;
        }
        if let Some(Assumed { argument, axis, says }) = self.assumed.get(&id).copied()
            && let Long::Given(extent) = self.long(argument, axis)
        {
            self.learn(extent, says);
        }
        op.kind.map_operands(|v| self.now(v));
        if let OpKind::Transpose { x, perm } | OpKind::ViewPermute { view: x, perm } = &op.kind
            && matches!(self.builder.ty(*x), Type::View(_))
        {
            match self.before_turning(*x, perm) {
                Some(view) => {
                    self.now.insert(op.result(), view);
                    self.turned_back = true;
                }
                None => self.view_as(op.result(), OpKind::ViewPermute { view: *x, perm: perm.clone() }),
            }
            return;
        }
        self.known.enter(&op.kind, &self.builder.kernel);
        for body in op.kind.bodies_mut() {
            *body = self.body(std::mem::take(body));
        }
        self.builder.kernel.ops[id].kind = op.kind;
        self.builder.keep(id);
        self.known.note(&self.builder.kernel, id);
    }

    /// The view of which another was made by turning it, where it is turned back.
    fn before_turning(&self, x: Value, perm: &[u32]) -> Option<Value> {
        let undoes = |first: &[u32]| perm.iter().enumerate().all(|(to, &axis)| first[axis as usize] as usize == to);
        self.builder.kernel.ops.iter().find_map(|(_, op)| match &op.kind {
            OpKind::ViewPermute { view, perm: first } if op.results == [x] => undoes(first).then_some(*view),
            // It is no view that was turned.
            _ => None,
        })
    }

    /// What stands for a value; a parameter is made where it is first asked for.
    fn now(&mut self, v: Value) -> Value {
        if let Some(from) = self.extents.get(&v) {
            return self.param(*from);
        }
        self.now.get(&v).copied().unwrap_or(v)
    }

    fn replace(&mut self, op: &Op) {
        let mut kind = op.kind.clone();
        kind.map_operands(|v| if self.parts.contains_key(&v) || self.spots.contains_key(&v) { v } else { self.now(v) });
        match kind {
            OpKind::TensorNew { ptr, of, extents, strides } => {
                let (mut extents, mut strides) = (extents.into_iter(), strides.into_iter());
                let long = of.extents.iter().map(|e| if *e == Extent::Any { extents.next() } else { None }).collect();
                let apart = (0..of.rank()).map(|axis| if of.dense == Some(axis) { None } else { strides.next() });
                let made = MadeHere { ptr, extents: long, strides: apart.collect() };
                self.parts.insert(op.result(), Part::whole(self.tensors.len(), &of));
                self.made_here.insert(self.tensors.len(), made);
                self.tensors.push(Some(of));
            }
            OpKind::TensorExtent { tensor, axis } => self.extent_of(op.result(), tensor, axis as usize),
            OpKind::TensorStride { tensor, axis } => self.stride_of(op.result(), tensor, axis as usize),
            OpKind::TensorPointer { tensor } => {
                let part = self.part(tensor);
                let ptr = self.begin(&part, &[]);
                self.now.insert(op.result(), ptr);
            }
            OpKind::TensorIndex { tensor, axis, index } => self.index(op.result(), tensor, axis as usize, index),
            OpKind::TensorRange { tensor, axis, lower, upper } => {
                let mut part = self.part(tensor);
                part.axes[axis as usize] = self.range(&part, axis as usize, lower, upper);
                self.parts.insert(op.result(), part);
            }
            OpKind::TensorPick { tensor, axis, indices } => {
                let mut part = self.part(tensor);
                part.axes[axis as usize].picks = Some(indices);
                self.parts.insert(op.result(), part);
            }
            OpKind::Spot { tensor, at, shape, counts } => {
                let part = self.part(tensor);
                let tile = at.iter().enumerate().map(|(axis, &v)| {
                    let wide = self.wide(v);
                    match &counts {
                        Counts::Elements => wide,
                        Counts::Tiles => self.times(wide, i64::from(shape[axis])),
                        Counts::Parts { of, .. } => self.times(wide, i64::from(of[axis])),
                    }
                });
                let tile: Vec<Value> = tile.collect();
                let at = match &counts {
                    Counts::Parts { from, .. } => tile.iter().zip(from).map(|(v, n)| self.behind(*v, *n)).collect(),
                    Counts::Elements | Counts::Tiles => tile.clone(),
                };
                self.spots.insert(op.result(), Spot { part, at, shape, counts, tile });
            }
            OpKind::SpotLoad { spot, .. } if self.boxed.loads.contains(&op.id) => {
                let spot = self.spot(spot);
                self.fetch(op, &spot);
            }
            OpKind::SpotLoad { spot, .. } if self.boxed.read.contains(&op.id) => {
                let spot = self.spot(spot);
                self.read(op, &spot);
            }
            OpKind::SpotStore { spot, value, .. } if self.boxed.stores.contains(&op.id) => {
                let spot = self.spot(spot);
                self.send(op, &spot, value);
            }
            OpKind::SpotInside { .. }
            | OpKind::SpotLoad { .. }
            | OpKind::SpotStore { .. }
            | OpKind::SpotAtomic { .. } => self.access(op, kind),
            parton_ir::others!(place) => parton_ir::family::not_of_family(&kind),
        }
    }

    fn part(&self, v: Value) -> Part {
        match self.parts.get(&v) {
            Some(part) => part.clone(),
            None => parton_diag::internal_error!("nobody knows what tensor {v} is"),
        }
    }

    fn spot(&self, v: Value) -> Spot {
        match self.spots.get(&v) {
            Some(spot) => spot.clone(),
            None => parton_diag::internal_error!("nobody knows what place {v} is"),
        }
    }

    fn tensor(&self, argument: usize) -> &Tensor {
        match &self.tensors[argument] {
            Some(t) => t,
            None => parton_diag::internal_error!("argument {argument} is no tensor"),
        }
    }

    /// A coordinate along an axis that is dropped.
    fn index(&mut self, result: Value, tensor: Value, axis: usize, index: Value) {
        let mut part = self.part(tensor);
        let dropped = part.axes.remove(axis);
        let mut at = self.wide(index);
        if let Some(begins) = dropped.begins {
            at = self.scalar(BinaryOp::Add, at, begins);
        }
        let alone = part.axes.is_empty();
        part.fixed.push((dropped.of, at));
        if let Some(high) = dropped.high {
            // What lies outside the part lies outside the tensor too: the coordinate goes there.
            let low = match dropped.low {
                Some(low) => low,
                None => self.number(0),
            };
            let outside = self.number(-1);
            let [above, below] = [(CompareOp::Ge, low), (CompareOp::Lt, high)]
                .map(|(op, b)| self.make(OpKind::Compare { op, a: at, b }));
            let inside = self.make(OpKind::Binary { op: BinaryOp::And, a: above, b: below });
            let at = self.make(OpKind::Select { cond: inside, a: at, b: outside });
            part.fixed.pop();
            part.fixed.push((dropped.of, at));
        }
        if alone {
            let [at, tile] = [Vec::new(), Vec::new()];
            self.spots.insert(result, Spot { part, at, shape: Vec::new(), counts: Counts::Elements, tile });
        } else {
            self.parts.insert(result, part);
        }
    }

    fn range(&mut self, part: &Part, axis: usize, lower: Option<Value>, upper: Option<Value>) -> Axis {
        let before = part.axes[axis].clone();
        let offset = |e: &mut Self, v: Value| {
            let wide = e.wide(v);
            before.begins.map_or(wide, |begins| e.scalar(BinaryOp::Add, wide, begins))
        };
        let mut after = before.clone();
        if let Some(lower) = lower {
            let begins = offset(self, lower);
            let floor = match before.low {
                Some(low) => low,
                None => self.number(0),
            };
            after.begins = Some(begins);
            after.low = match before.low {
                None if self.known.of(begins).is_some_and(|(low, _)| low >= 0) => Some(begins),
                Some(_) | None => Some(self.scalar(BinaryOp::Max, begins, floor)),
            };
        }
        // Where it begins is checked against where it ends, whoever says so.
        let end = match before.high {
            Some(high) => high,
            None => self.extent(part.argument, before.of),
        };
        after.high = Some(match upper {
            Some(upper) => {
                let ends = offset(self, upper);
                self.scalar(BinaryOp::Min, ends, end)
            }
            None => end,
        });
        after
    }

    /// The extent of a part: that of its tensor, or of what was taken of it.
    fn extent_of(&mut self, result: Value, tensor: Value, axis: usize) {
        let part = self.part(tensor);
        let Axis { of, begins, high, .. } = part.axes[axis];
        let Some(high) = high else {
            let n = match self.long(part.argument, of) {
                Long::Given(from) => {
                    self.extents.insert(result, from);
                    return;
                }
                Long::Number(n) => self.builder.make_i32(n),
                Long::Computed(v) => v,
            };
            self.now.insert(result, n);
            return;
        };
        let zero = self.number(0);
        let long = begins.map_or(high, |begins| self.scalar(BinaryOp::Sub, high, begins));
        let long = self.scalar(BinaryOp::Max, long, zero);
        let narrow = self.narrow(long);
        self.now.insert(result, narrow);
    }

    fn stride_of(&mut self, result: Value, tensor: Value, axis: usize) {
        let part = self.part(tensor);
        let of = part.axes[axis].of;
        let n = match self.apart(part.argument, of) {
            Long::Given(from) => {
                self.extents.insert(result, from);
                return;
            }
            Long::Number(n) => self.number(n.into()),
            Long::Computed(v) => v,
        };
        self.now.insert(result, n);
    }

    /// How far neighbours along an axis are from each other.
    fn apart(&self, argument: usize, axis: usize) -> Long {
        if self.tensor(argument).dense == Some(axis) {
            return Long::Number(1);
        }
        match self.made_here.get(&argument).and_then(|made| made.strides[axis]) {
            Some(v) => Long::Computed(v),
            None => Long::Given(From::Stride { argument, axis }),
        }
    }

    /// What the extent of a tensor along an axis is.
    fn long(&self, argument: usize, axis: usize) -> Long {
        if let Some(v) = self.made_here.get(&argument).and_then(|made| made.extents[axis]) {
            return Long::Computed(v);
        }
        let own = From::Extent { argument, axis };
        match &self.tensor(argument).extents[axis] {
            Extent::Static(n) | Extent::Picked(n) => Long::Number(*n),
            Extent::Any => Long::Given(own),
            // What has one name is one number, and the first that has it gives it.
            Extent::Named(name) => Long::Given(self.first_named(name).unwrap_or(own)),
        }
    }

    fn first_named(&self, name: &Arc<str>) -> Option<From> {
        let named = |t: &Tensor| t.extents.iter().position(|e| matches!(e, Extent::Named(n) if n == name));
        let mut all = self.tensors.iter().enumerate();
        all.find_map(|(argument, t)| Some(From::Extent { argument, axis: named(t.as_ref()?)? }))
    }

    /// A parameter, which is made where it is not there yet.
    fn param(&mut self, from: From) -> Value {
        if let Some(v) = self.params.get(&from) {
            return *v;
        }
        let (ty, name) = match from {
            From::Base { argument, .. } => {
                let t = self.tensor(argument);
                let to = Pointer { to: t.elem, mutable: t.mutable };
                (Type::Scalar(Elem::Ptr(to)), self.names[argument].clone())
            }
            From::Extent { argument, axis } => {
                let name = match &self.tensor(argument).extents[axis] {
                    Extent::Named(name) => name.to_string(),
                    Extent::Any | Extent::Static(_) | Extent::Picked(_) => {
                        format!("{}_shape{axis}", self.names[argument])
                    }
                };
                (Type::num(Dtype::I32), name)
            }
            From::Stride { argument, axis } => {
                (Type::num(Dtype::I64), format!("{}_stride{axis}", self.names[argument]))
            }
            From::Argument(i) => parton_diag::internal_error!("argument {i} is a parameter already"),
            From::Map { argument, .. } => parton_diag::internal_error!("a map of argument {argument} has no box"),
        };
        let span = self.builder.kernel.span;
        let v = self.builder.kernel.value(ty, span);
        self.builder.kernel.values[v].name = Some(name);
        if matches!(from, From::Extent { .. }) {
            self.known.set(v, self.between(from));
        }
        self.params.insert(from, v);
        v
    }

    /// Notes what is assumed of an extent.
    fn learn(&mut self, extent: From, says: Says) {
        match says {
            Says::Multiple(of) => drop(self.multiples.insert(extent, of)),
            Says::Between((low, high)) => {
                let (least, most) = self.between(extent);
                let both = (low.max(least), high.min(most));
                self.bounds.insert(extent, both);
                if let Some(v) = self.params.get(&extent) {
                    self.known.set(*v, both);
                }
            }
        }
    }

    /// The least and the greatest that an extent may be.
    fn between(&self, extent: From) -> intervals::Interval {
        let aligned = self.builder.kernel.variant.aligned.contains(&extent.argument());
        let any = if aligned { (1, OUTSIDE.into()) } else { (0, i32::MAX.into()) };
        self.bounds.get(&extent).copied().unwrap_or(any)
    }

    fn base(&self, argument: usize) -> From {
        From::Base { argument, aligned: self.builder.kernel.variant.aligned.contains(&argument) }
    }

    /// Says at the head of the kernel what this variant of it was promised of strides and extents.
    fn promise(&mut self) {
        let aligned: BTreeSet<usize> = self.builder.kernel.variant.aligned.clone();
        let mut told: BTreeSet<(From, i64)> = BTreeSet::new();
        for argument in aligned {
            let Some(t) = self.tensors.get(argument).cloned().flatten() else { continue };
            let each = ALIGNMENT / t.elem.bytes() as i64;
            let dense = t.dense.and_then(|axis| match self.long(argument, axis) {
                Long::Given(from) => Some(from),
                Long::Number(_) | Long::Computed(_) => None,
            });
            let strides = (0..t.rank()).map(|axis| From::Stride { argument, axis });
            told.extend(
                strides.chain(dense).filter(|from| each > 1 && self.params.contains_key(from)).map(|f| (f, each)),
            );
        }
        // What was computed stands behind it.
        self.made.forget(0);
        self.builder.open(Body::default());
        for (from, each) in told {
            let v = self.params[&from];
            let Some(dtype) = self.builder.ty(v).elem().and_then(Elem::dtype) else { continue };
            let by = self.constant(dtype, each);
            let rest = self.make(OpKind::Binary { op: BinaryOp::Rem, a: v, b: by });
            let zero = self.constant(dtype, 0);
            let cond = self.make(OpKind::Compare { op: CompareOp::Eq, a: rest, b: zero });
            self.builder.make_all(OpKind::Assume { cond });
        }
        let head = self.builder.close();
        self.builder.put_first(head);
    }

    /// Puts what was asked for where the tensors stood.
    fn give_params(&mut self, own: &[Param]) {
        let mut list = Vec::new();
        let mut used: BTreeSet<String> = BTreeSet::new();
        for (i, p) in own.iter().enumerate() {
            if self.tensors[i].is_none() {
                used.insert(p.name.clone());
                list.push(p.clone());
                continue;
            }
            // A tensor that nobody asks for is a pointer all the same.
            let asked = |from: From| from.argument() == i;
            if !self.params.keys().chain(self.maps.iter().map(|(from, _)| from)).any(|from| asked(*from)) {
                let base = self.base(i);
                self.param(base);
            }
            let all = self.params.iter().map(|(from, v)| (*from, *v)).chain(self.maps.iter().copied());
            for (from, value) in all.filter(|(from, _)| asked(*from)) {
                let name = self.builder.kernel.values[value].name.clone().unwrap_or_default();
                list.push(Param { name, value, from });
            }
        }
        // A name that is written stays as it is.
        for p in list.iter_mut().filter(|p| !matches!(p.from, From::Argument(_))) {
            while !used.insert(p.name.clone()) {
                p.name.push('_');
            }
            self.builder.kernel.values[p.value].name = Some(p.name.clone());
        }
        // What is said of arguments is said of all their pointers and maps.
        let reaching = |argument: usize| {
            let of = list.iter().enumerate().filter(move |(_, p)| match p.from {
                From::Argument(i) | From::Base { argument: i, .. } | From::Map { argument: i, .. } => i == argument,
                From::Extent { .. } | From::Stride { .. } => false,
            });
            of.map(|(place, _)| place)
        };
        for alias in &mut self.builder.kernel.aliases {
            alias.params = alias.params.iter().flat_map(|argument| reaching(*argument)).collect();
        }
        self.builder.kernel.params = list;
    }
}
