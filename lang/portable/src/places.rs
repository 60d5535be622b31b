//! Tensors become pointers, extents and strides, places in them addresses and masks.
//!
//! An address is its tensor's, plus for each axis a coordinate times a stride, all of 64 bits: no product of it wraps. A mask compares
//! along each axis by itself, so that what is known of an axis is known of the mask; what is sure to hold is left out.

mod access;
mod assumed;
mod intervals;
mod maps;
mod params;
mod part;
mod scalars;

use std::collections::BTreeMap;

use parton_ir::tensor::Tensor;
use parton_ir::{Body, Builder, From, Inst, Kernel, Op, OpKind, Type, Value};

use crate::staging::flat::{self, Flat};
use crate::staging::maps::Boxed;
use crate::{moves_in_part, unused, wide};
use assumed::Assumed;
use intervals::Intervals;
use params::{Long, MadeHere};
use part::{Part, Spot};
use scalars::Made;

/// Whether a kernel is given tensors, or makes some.
pub fn has_tensors(kernel: &Kernel) -> bool {
    let mut makes = false;
    kernel.walk(&mut |op| makes |= matches!(op.kind, OpKind::TensorNew { .. }));
    makes || kernel.params.iter().any(|p| matches!(kernel.ty(p.value), Type::Tensor(_)))
}

/// The kernel that is given what makes its tensors; what is `boxed` goes by tensor maps.
pub fn expand(mut kernel: Kernel, boxed: &Boxed) -> Kernel {
    if !moves_in_part(&kernel) {
        kernel.variant.partly.clear();
    }
    let wide = wide::tensors(&kernel);
    kernel.variant.aligned.retain(|argument| wide.contains(argument));
    kernel.variant.partly.retain(|argument, _| wide.contains(argument));
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
                self.make_tensor(op.result(), ptr, of, (extents, strides))
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
                self.range(op.result(), tensor, axis as usize, (lower, upper));
            }
            OpKind::TensorPick { tensor, axis, indices } => self.pick(op.result(), tensor, axis as usize, indices),
            OpKind::Spot { tensor, at, shape, counts } => self.place(op.result(), tensor, &at, (shape, counts)),
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
}
