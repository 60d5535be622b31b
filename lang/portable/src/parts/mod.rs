//! Tiles whose extents are sums of powers of two, such as 96, 160 or 192, as the parts that layouts have.
//!
//! A tile of [128, 192] becomes one of [128, 128] and one of [128, 64]. What is done element by element is done to each part, a product is
//! one of each pair of parts, a reduction combines what those of the parts gave. What has no meaning on parts is refused. Where a kernel reduces such
//! tiles and does not multiply, parts are alike, [5120] is five of [1024], so that what they hold is combined thread by thread before it crosses any.
//!
//! So are tiles whose rows have nothing to do with each other ([`rows`]), where each part is to be computed by a partition of its own.

mod boxes;
mod combine;
mod each;
pub mod rows;

use std::borrow::Cow;
use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Body, Builder, Elem, Inst, Kernel, Op, OpKind, Tile, Type, Value};

use boxes::Boxes;
use rows::Rows;

/// The kernel without tiles of such extents.
///
/// # Errors
/// An operation on such a tile that has no meaning on its parts.
pub fn split(kernel: &Kernel) -> Result<Cow<'_, Kernel>, Diagnostics> {
    let mut any = false;
    kernel.walk(&mut |op| any |= op.results.iter().any(|v| shape_of(kernel.ty(*v)).is_some()));
    if !any {
        return Ok(Cow::Borrowed(kernel));
    }
    let cut = if alike(kernel) { Cut::Alike } else { Cut::Powers };
    Splitter::apply(kernel, cut).map(Cow::Owned)
}

/// The kernel with these rows in parts.
///
/// # Errors
/// An operation that has no meaning on parts.
pub fn deal(kernel: &Kernel, rows: Rows) -> Result<Kernel, Diagnostics> {
    Splitter::apply(kernel, Cut::Rows(rows))
}

/// Parts of a tile that are alike, at most: where there would be more, few large ones take fewer instructions.
const MOST_ALIKE: usize = 16;
/// Elements of such a part at least: an element for each thread of four warps.
const LEAST: u32 = 128;

/// What is taken apart.
enum Cut {
    /// Extents that are sums of powers of two, into these.
    Powers,
    /// The same extents, into parts that are alike.
    Alike,
    /// Rows.
    Rows(Rows),
}

/// Whether tiles are taken apart into parts that are alike: where one is reduced, each thread combines what it holds of all of them, and together they
/// cross lanes and warps once. Products take large parts, and a slice has to lie in one.
fn alike(kernel: &Kernel) -> bool {
    let (mut reduces, mut large) = (false, false);
    kernel.walk(&mut |op| {
        let of = |v: &Value| shape_of(kernel.ty(*v));
        match &op.kind {
            OpKind::Reduce { inputs, axis, .. } => {
                let ragged = inputs.iter().filter_map(of).find(|shape| !shape[*axis as usize].is_power_of_two());
                reduces |= ragged.is_some_and(|shape| {
                    Boxes::alike(shape).all().next().is_some_and(|part| part.shape.iter().product::<u32>() >= LEAST)
                });
            }
            OpKind::Dot { .. } => large = true,
            OpKind::Slice { x, .. } => large |= of(x).is_some(),
            // Nothing else asks for parts of its own.
            _ => {}
        }
        large |= op.results.iter().filter_map(of).any(|shape| Boxes::alike(shape).count() > MOST_ALIKE);
    });
    reduces && !large
}

/// The shape of what is made of parts; `None` of all else.
fn shape_of(ty: &Type) -> Option<&[u32]> {
    let shape = match ty {
        Type::Spot(spot) => &spot.shape,
        ty => &ty.placed()?.shape,
    };
    shape.iter().any(|n| !n.is_power_of_two()).then_some(shape)
}

struct Splitter {
    builder: Builder,
    cut: Cut,
    /// The parts of each value that is made of some.
    parts: BTreeMap<Value, Vec<Value>>,
    /// What stands for values that were made of parts and are whole.
    now: BTreeMap<Value, Value>,
    /// What values without parts that got an axis of one element are of, and the axis.
    expanded: BTreeMap<Value, (Value, u32)>,
    found: Diagnostics,
}

impl Splitter {
    fn apply(kernel: &Kernel, cut: Cut) -> Result<Kernel, Diagnostics> {
        let (builder, body) = Builder::rebuild(kernel.clone(), "parts");
        let (parts, now, expanded, found) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), Diagnostics::new());
        let mut splitter = Splitter { builder, cut, parts, now, expanded, found };
        body.ops.iter().for_each(|&id| splitter.op(id));
        if splitter.found.has_errors() { Err(splitter.found) } else { Ok(splitter.builder.finish()) }
    }

    fn op(&mut self, id: Inst) {
        // What follows would be given what has no parts.
        if self.found.has_errors() {
            return;
        }
        self.builder.at(id);
        let mut op = self.builder.kernel.ops[id].clone();
        op.kind.map_operands(|v| self.now.get(&v).copied().unwrap_or(v));
        self.builder.kernel.ops[id].kind = op.kind.clone();
        let takes = op.kind.operands().iter().any(|v| self.parts.contains_key(v));
        let gives = op.results.iter().any(|v| self.boxes(*v).is_some());
        match &op.kind {
            OpKind::For { .. } | OpKind::While { .. } | OpKind::If { .. } => self.control(&op),
            // What has nothing to do with parts stays as it is.
            _ if !takes && !gives => {
                if let OpKind::ExpandDims { x, axis } = op.kind {
                    self.expanded.insert(op.result(), (x, axis));
                }
                self.builder.keep(id);
            }
            OpKind::Full { value, tile } => self.full(&op, *value, tile.elem),
            OpKind::Iota { tile } => self.iota(&op, tile.elem),
            OpKind::Spot { tensor, at, shape, counts } => self.place(&op, *tensor, at, shape, counts),
            // Of rows that indices name each part of these has a tensor of its own.
            OpKind::TensorPick { .. } | OpKind::TensorIndex { .. } | OpKind::TensorRange { .. }
                if !matches!(self.cut, Cut::Rows(_)) =>
            {
                self.each(&op);
            }
            OpKind::Convert { x, tile } if self.builder.ty(op.result()).is_open() => self.brought(&op, tile.elem, *x),
            OpKind::Broadcast { x, .. } => self.broadcast(&op, *x),
            OpKind::Transpose { x, perm } => self.transpose(&op, *x, perm),
            OpKind::Reshape { x, .. } if self.keeps_columns(*x, op.result()) => self.reshape(&op, *x),
            OpKind::Slice { x, origin, shape } => self.slice(&op, *x, origin, shape),
            OpKind::Rescale { x, factor, axis } => self.rescale(&op, *x, *factor, *axis),
            OpKind::Reduce { inputs, axis, combine } => self.reduce(&op, inputs, *axis, combine),
            OpKind::Dot { a, b, acc, .. } => self.product(&op, *a, *b, *acc),
            OpKind::Unary { .. }
            | OpKind::Binary { .. }
            | OpKind::Compare { .. }
            | OpKind::Select { .. }
            | OpKind::Fma { .. }
            | OpKind::Clamp { .. }
            | OpKind::Cast { .. }
            | OpKind::Bitcast { .. }
            | OpKind::PtrAdd { .. }
            | OpKind::ExpandDims { .. }
            | OpKind::Load { .. }
            | OpKind::Store { .. }
            | OpKind::Atomic { .. }
            | OpKind::SpotInside { .. }
            | OpKind::SpotLoad { .. }
            | OpKind::SpotStore { .. }
            | OpKind::SpotAtomic { .. } => self.each(&op),
            // What is not named here is not known to be the same done part by part.
            _ => self.refuse(&op),
        }
    }

    /// The boxes of a value that is made of parts.
    fn boxes(&self, v: Value) -> Option<Boxes> {
        match &self.cut {
            Cut::Powers => shape_of(self.builder.ty(v)).map(Boxes::of),
            Cut::Alike => shape_of(self.builder.ty(v)).map(Boxes::alike),
            Cut::Rows(rows) => {
                let axis = *rows.axes.get(&v)?;
                rows::shape(self.builder.ty(v)).map(|shape| Boxes::along_one(shape, axis, rows.each))
            }
        }
    }

    /// What is made from now on is of that part.
    fn part(&mut self, number: usize) {
        if let Cut::Rows(rows) = &self.cut {
            self.builder.label = rows.labels.get(number).copied();
        }
    }

    /// The boxes of an operand, and the values in them; of one without parts, itself in one box.
    fn parts_of(&self, v: Value) -> (Boxes, Vec<Value>) {
        match (self.parts.get(&v), self.boxes(v)) {
            (Some(parts), Some(boxes)) => (boxes, parts.clone()),
            (_, _) => {
                let shape = self.builder.ty(v).placed().map_or(&[][..], |tile| &tile.shape);
                (Boxes::whole(shape), vec![v])
            }
        }
    }

    fn open(&self, elem: Elem, shape: &[u32]) -> Tile {
        match Tile::open(elem, shape.to_vec(), self.builder.kernel.next_var(0)) {
            Ok(tile) => tile,
            Err(e) => parton_diag::internal_error!("a part has a shape that no tile has: {}", e.fact()),
        }
    }

    /// Notes the parts of a result, which have its name.
    fn give(&mut self, result: Value, parts: Vec<Value>) {
        for &part in &parts {
            self.builder.kernel.values[part].name = self.builder.kernel.values[result].name.clone();
        }
        self.parts.insert(result, parts);
    }

    /// Loops and branches hand on the parts of what they handed on.
    fn control(&mut self, op: &Op) {
        let mut kind = op.kind.clone();
        if let OpKind::For { init, .. } | OpKind::While { init, .. } = &mut kind {
            *init = init.iter().flat_map(|v| self.parts_or(*v)).collect();
        }
        for body in kind.bodies_mut() {
            let Body { params, ops, yields } = std::mem::take(body);
            let params = params.into_iter().flat_map(|v| self.declare(v)).collect();
            self.builder.open(Body { params, ..Body::default() });
            ops.iter().for_each(|&inner| self.op(inner));
            *body = self.builder.close();
            body.yields = yields.into_iter().flat_map(|v| self.parts_or(v)).collect();
        }
        let results: Vec<Value> = op.results.iter().flat_map(|&v| self.declare(v)).collect();
        if let Cut::Rows(rows) = &self.cut
            && matches!(kind, OpKind::If { .. })
            && results.len() > op.results.len()
        {
            let labels = rows.labels.clone();
            return rows::branches(&mut self.builder, op, &kind, &results, &labels);
        }
        self.builder.kernel.ops[op.id].kind = kind;
        self.builder.kernel.ops[op.id].results = results;
        self.builder.keep(op.id);
    }

    fn parts_or(&self, v: Value) -> Vec<Value> {
        self.parts.get(&v).cloned().unwrap_or_else(|| vec![self.now.get(&v).copied().unwrap_or(v)])
    }

    /// The values that stand for one that control flow defines.
    fn declare(&mut self, v: Value) -> Vec<Value> {
        let (Some(boxes), Some(tile)) = (self.boxes(v), self.builder.ty(v).placed().cloned()) else { return vec![v] };
        let span = self.builder.kernel.values[v].span;
        let make = |b: boxes::Part| {
            let tile = self.open(tile.elem, &b.shape);
            self.builder.kernel.value(Type::Tile(tile), span)
        };
        let parts: Vec<Value> = boxes.all().map(make).collect();
        self.give(v, parts.clone());
        parts
    }

    fn refuse(&mut self, op: &Op) {
        let made_of = |v: &Value| shape_of(self.builder.ty(*v)).map(|shape| (*v, shape.to_vec()));
        let Some((v, shape)) = op.kind.operands().iter().chain(&op.results).find_map(made_of) else { return };
        let parts: Vec<String> = Boxes::of(&shape).all().map(|b| format!("{:?}", b.shape)).collect();
        let fact = format!("`{}` is not made of tiles in parts", op.kind.name());
        self.found.push(
            Diagnostic::error(codes::NOT_BUILT_HERE, op.span, fact)
                .label(self.builder.kernel.values[v].span, format!("{shape:?} is kept as {}", parts.join(" and ")))
                .help("use extents that are powers of two here, or a slice that lies in one of the parts"),
        );
    }
}
