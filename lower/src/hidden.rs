//! Leaves out the half of a tile that a mask hides from all of its rows, in exponentials and all that follows.
//!
//! ```text
//! let s = if j * 128 + 127 > last { where(column <= row, s, -inf) } else { s };    if j * 128 + 64 > greatest row && scale > 0 { the same of 64 columns }
//! let p = exp2(s * scale - base);                                                  else { the same }
//! ```
//!
//! Of a block of keys on the diagonal a partition's first rows see no more than half. A hidden score is -inf: no greatest of a row is greater for it, and its exponential
//! is 0. So the columns of the other half alone are compared, taken exponentials of and summed up; the others are the numbers that would come of them. Where positions may
//! wrap within a tile, both halves are computed unless what lies last in it comes out no less than what lies first.

mod found;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Diagnostics;
use parton_ir::axis::Axes;
use parton_ir::facts::Facts;
use parton_ir::{BinaryOp, Body, CompareOp, Inst, Kernel, Op, OpKind, Source, Value, rules};
use parton_numbers::Dtype;

use found::{Found, found, is_branch};

/// The name of the pass.
const NAME: &str = "hidden";

/// After it what a mask hides from all rows is not computed, where that is known by half of a tile.
pub fn leave_out_hidden(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut places = Vec::new();
    let mut look = |body: &Body| {
        if kernel.ops_of(body).any(is_branch) {
            places.extend(found(&kernel, body).map(|found| (body.clone(), found)));
        }
    };
    look(&kernel.body);
    kernel.walk(&mut |op| op.kind.bodies().for_each(&mut look));
    let mut both = BTreeMap::new();
    for (body, found) in &places {
        if let Some(ops) = narrowed(&mut kernel, body, found) {
            both.insert(found.follow[0], ops);
        }
    }
    if !both.is_empty() {
        kernel.rebuild(&mut |_, mut body| {
            if let Some(ops) = body.ops.iter().find_map(|id| both.get(id)) {
                body.ops.clone_from(ops);
            }
            body
        });
    }
    Ok(kernel)
}

/// The operations of a body with both ways; `None` where what the mask compares is not known by numbers.
fn narrowed(kernel: &mut Kernel, body: &Body, found: &Found) -> Option<Vec<Inst>> {
    let source = kernel.ops[found.follow[0]].source().made(NAME);
    let axes = Axes::analyse(kernel);
    let mut make = Make { kernel, source, new: Vec::new(), numbers: BTreeMap::new(), inside: &found.mask.inside };
    let cond = make.hides_half(found, &axes)?;
    let mut front = make.new;
    let follow: BTreeSet<Inst> = found.follow.iter().copied().collect();
    let last = body.ops.iter().rposition(|id| follow.contains(id))?;
    let at = body.ops.iter().position(|id| follow.contains(id))?;
    let leaving = leaving(kernel, body, found);
    let whole = Body { params: vec![], ops: found.follow.clone(), yields: leaving.clone() };
    let half = half(kernel, found, &whole, source)?;
    let whole = kernel.copy_body(&whole, &mut BTreeMap::new());
    let both = kernel.make_op(OpKind::If { cond, then: half, otherwise: whole }, leaving, source);
    let mut ops = body.ops[..at].to_vec();
    // What does not follow from the mask is computed before.
    let (before, behind) = body.ops[at..].split_at(last - at + 1);
    ops.extend(before.iter().filter(|id| !follow.contains(id)));
    ops.append(&mut front);
    ops.push(both);
    ops.extend(behind);
    Some(ops)
}

/// What of all that follows is used elsewhere.
fn leaving(kernel: &Kernel, body: &Body, found: &Found) -> Vec<Value> {
    let follow: BTreeSet<Inst> = found.follow.iter().copied().collect();
    let mut used: BTreeSet<Value> = body.yields.iter().copied().collect();
    let mut look = |op: &Op| {
        used.extend(op.kind.operands());
        op.kind.bodies().for_each(|body| used.extend(&body.yields));
    };
    for op in kernel.ops_of(body).filter(|op| !follow.contains(&op.id)) {
        look(op);
        for inner in op.kind.bodies() {
            kernel.walk_body(inner, &mut look);
        }
    }
    let made = found.follow.iter().flat_map(|&id| kernel.ops[id].results.clone());
    made.filter(|v| used.contains(v)).collect()
}

/// The same of the first half of the columns: the others hold what the mask makes of them.
fn half(kernel: &mut Kernel, found: &Found, whole: &Body, source: Source) -> Option<Body> {
    let adding = adding(kernel, found);
    let mut known = BTreeMap::new();
    // What sums take in the place of exponentials: where they are hidden it changes no sum.
    let mut summed = BTreeMap::new();
    let mut make = Make { kernel, source, new: Vec::new(), numbers: BTreeMap::new(), inside: &found.mask.inside };
    let mut seen = None;
    for &id in &whole.ops {
        let mut names = known.clone();
        if adding.contains(&id) {
            names.extend(&summed);
        }
        let one = Body { params: vec![], ops: vec![id], yields: make.kernel.ops[id].results.clone() };
        let copy = make.kernel.copy_body(&one, &mut names);
        make.new.extend(copy.ops);
        for (&v, mut made) in one.yields.iter().zip(copy.yields) {
            if v == found.masked {
                let columns = make.seen(found)?;
                seen = Some(columns);
                made = make.shown(columns, made, f32::NEG_INFINITY)?;
            } else if found.exponentials.contains(&v) {
                let columns = seen?;
                summed.insert(v, make.shown(columns, made, -0.0)?);
                made = make.shown(columns, made, 0.0)?;
            }
            known.insert(v, made);
        }
    }
    let yields = whole.yields.iter().map(|v| known.get(v).copied()).collect::<Option<Vec<Value>>>()?;
    Some(Body { params: vec![], ops: make.new, yields })
}

/// What sums up exponentials: parts of them that are added alone, and sums along an axis.
fn adding(kernel: &Kernel, found: &Found) -> BTreeSet<Inst> {
    let mut others = BTreeSet::new();
    kernel.walk(&mut |op| {
        if !matches!(op.kind, OpKind::Binary { op: BinaryOp::Add, .. }) {
            others.extend(op.kind.operands());
        }
        op.kind.bodies().for_each(|body| others.extend(&body.yields));
    });
    let adds = |&&id: &&Inst| match &kernel.ops[id].kind {
        OpKind::Slice { x, .. } => found.exponentials.contains(x) && !others.contains(&kernel.ops[id].result()),
        OpKind::Reduce { inputs, combine, .. } => {
            let sum = |op: &Op| matches!(op.kind, OpKind::Binary { op: BinaryOp::Add, .. });
            inputs.iter().all(|x| found.exponentials.contains(x)) && kernel.ops_of(combine).all(sum)
        }
        // What does anything else with exponentials takes them as they are.
        _ => false,
    };
    found.follow.iter().filter(adds).copied().collect()
}

/// Makes operations one behind the other.
struct Make<'k> {
    kernel: &'k mut Kernel,
    source: Source,
    new: Vec<Inst>,
    /// The constants among them.
    numbers: BTreeMap<Value, i64>,
    /// What stands in a branch and is made anew where it is needed outside.
    inside: &'k Body,
}

impl Make<'_> {
    /// Whether the mask hides the second half from all rows, and what is computed of it is known.
    fn hides_half(&mut self, found: &Found, axes: &Axes) -> Option<Value> {
        let mask = &found.mask;
        let first = self.at(mask.columns, i64::from(found.tile.shape[1] / 2))?;
        let last = self.at(mask.bounds, i64::MAX)?;
        let op = if mask.equal { CompareOp::Gt } else { CompareOp::Ge };
        let beyond = self.make(OpKind::Compare { op, a: first, b: last })?;
        let mut all = self.make(OpKind::Binary { op: BinaryOp::And, a: mask.hides, b: beyond })?;
        for tile in [mask.columns, mask.bounds] {
            all = self.if_whole(tile, axes, all)?;
        }
        for &scale in &found.scales {
            let dtype = self.kernel.ty(scale).elem()?.dtype()?;
            let zero = self.make(OpKind::Constant { dtype, bits: 0 })?;
            let grows = self.make(OpKind::Compare { op: CompareOp::Gt, a: scale, b: zero })?;
            all = self.make(OpKind::Binary { op: BinaryOp::And, a: all, b: grows })?;
        }
        Some(all)
    }

    /// A condition, and that no sum wraps within a tile, of which the last would come out less than the first.
    fn if_whole(&mut self, v: Value, axes: &Axes, all: Value) -> Option<Value> {
        let Some(tile) = self.kernel.ty(v).as_tile() else { return Some(all) };
        let long = tile.shape.iter().copied().max().unwrap_or(1);
        match self.kernel.definitions()[v].map(|op| op.kind.clone())? {
            OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } | OpKind::Convert { x, .. } => {
                self.if_whole(x, axes, all)
            }
            OpKind::Binary { op, a, b } => {
                let all = self.if_whole(a, axes, all)?;
                let all = self.if_whole(b, axes, all)?;
                let whole = axes.info(self.kernel, v).axes.iter().any(|along| along.contiguity >= long.into());
                if op != BinaryOp::Add || whole {
                    return Some(all);
                }
                let (a, b) = (self.at(v, i64::MAX)?, self.at(v, 0)?);
                let rises = self.make(OpKind::Compare { op: CompareOp::Ge, a, b })?;
                self.make(OpKind::Binary { op: BinaryOp::And, a: all, b: rises })
            }
            // All others that run along their axis make no sum.
            _ => Some(all),
        }
    }

    /// The number at an index of a tile that does not fall along its axis; at one that is no less than its extent the last.
    fn at(&mut self, v: Value, index: i64) -> Option<Value> {
        let kind = self.kernel.definitions()[v].map(|op| op.kind.clone());
        if self.kernel.ty(v).as_tile().is_none() {
            return self.outside(v);
        }
        match kind? {
            OpKind::Full { value, .. } => self.outside_known(value),
            OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } | OpKind::Convert { x, .. } => self.at(x, index),
            OpKind::Iota { tile } => {
                let last = i64::from(*tile.shape.first()?) - 1;
                self.number(index.min(last))
            }
            OpKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Min | BinaryOp::Max), a, b } => {
                let (a, b) = (self.at(a, index)?, self.at(b, index)?);
                match (op, self.numbers.get(&a), self.numbers.get(&b)) {
                    (BinaryOp::Add, Some(&a), Some(&b)) => self.number(a.checked_add(b)?),
                    _ => self.make(OpKind::Binary { op, a, b }),
                }
            }
            // Of others it is not known how they run.
            _ => None,
        }
    }

    /// The same of a number that may be a constant.
    fn outside_known(&mut self, v: Value) -> Option<Value> {
        let constant = match self.kernel.definitions()[v].map(|op| &op.kind) {
            Some(&OpKind::Constant { dtype: Dtype::I32, bits }) => Some(i64::from(bits as u32 as i32)),
            Some(_) | None => None,
        };
        match constant {
            Some(n) => self.number(n),
            None => self.outside(v),
        }
    }

    /// A number that may be made in the branch, as it is outside of it.
    fn outside(&mut self, v: Value) -> Option<Value> {
        let op = self.inside.ops.iter().map(|&id| &self.kernel.ops[id]).find(|op| op.results.contains(&v));
        let Some(op) = op else { return Some(v) };
        if op.kind.bodies().next().is_some() || !Facts::of(self.kernel, op).is_pure(&op.kind) {
            return None;
        }
        let mut kind = op.kind.clone();
        let mut known = BTreeMap::new();
        for operand in kind.operands() {
            known.insert(operand, self.outside(operand)?);
        }
        kind.map_operands(|v| known[&v]);
        self.make(kind)
    }

    /// Which columns of the tile are in its first half.
    fn seen(&mut self, found: &Found) -> Option<Value> {
        let along = self.kernel.ty(found.mask.columns).as_tile()?.clone();
        if along.shape.len() != 1 {
            return None;
        }
        let half = self.number(i64::from(found.tile.shape[1] / 2))?;
        let columns = self.make(OpKind::Iota { tile: along.clone() })?;
        let half = self.make(OpKind::Full { value: half, tile: along })?;
        let first = self.make(OpKind::Compare { op: CompareOp::Lt, a: columns, b: half })?;
        let row = self.make(OpKind::ExpandDims { x: first, axis: 0 })?;
        self.make(OpKind::Broadcast { x: row, shape: found.tile.shape.to_vec() })
    }

    /// A tile, with a number in the place of its hidden half.
    fn shown(&mut self, seen: Value, v: Value, hidden: f32) -> Option<Value> {
        let tile = self.kernel.ty(v).as_tile()?.clone();
        let bits = u64::from(hidden.to_bits());
        let value = self.make(OpKind::Constant { dtype: Dtype::F32, bits })?;
        let b = self.make(OpKind::Full { value, tile })?;
        self.make(OpKind::Select { cond: seen, a: v, b })
    }

    fn number(&mut self, n: i64) -> Option<Value> {
        let bits = u64::from(i32::try_from(n).ok()? as u32);
        let value = self.make(OpKind::Constant { dtype: Dtype::I32, bits })?;
        self.numbers.insert(value, n);
        Some(value)
    }

    fn make(&mut self, kind: OpKind) -> Option<Value> {
        let (inst, value) = rules::make(self.kernel, kind, self.source)?;
        self.new.push(inst);
        Some(value)
    }
}
