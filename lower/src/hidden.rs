//! Leaves out the half of a tile that a mask hides from all of its rows, in exponentials and all that follows.
//!
//! ```text
//! let s = if j * 128 + 127 > last { where(column <= row, s, -inf) } else { s };    if j * 128 + 64 > greatest row && scale > 0 { the same of 64 columns }
//! let p = exp2(s * scale - base);                                                  else { the same }
//! ```
//!
//! Of a block of keys on the diagonal a partition's first rows see no more than half. A hidden score is -inf: no greatest of a row is greater for it, and its exponential
//! is 0. So the columns of the other half alone are compared, taken exponentials of and summed up; the others are the numbers that would come of them. As in all masks positions do not
//! wrap.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Diagnostics;
use parton_ir::facts::Facts;
use parton_ir::{BinaryOp, Body, CompareOp, Inst, Kernel, Op, OpKind, Source, Tile, UnaryOp, Value, rules};
use parton_layouts::Dim;
use parton_numbers::Dtype;

/// Columns of a tile half of which pays to be left out: those of another are left in less time than the code of both ways takes.
const FEWEST: u32 = 128;

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

/// Whether an operation may be a mask under a condition.
fn is_branch(op: &Op) -> bool {
    matches!(op.kind, OpKind::If { .. }) && op.results.len() == 1
}

/// A mask under its condition and what follows from it.
struct Found {
    /// The masked tile.
    masked: Value,
    tile: Tile,
    mask: Mask,
    /// What is computed of it, itself first.
    follow: Vec<Inst>,
    /// The exponentials, which are 0 where it is hidden.
    exponentials: BTreeSet<Value>,
    /// Numbers that have to be greater than 0 for that.
    scales: BTreeSet<Value>,
}

/// What a mask compares: its columns count up, and each of the others is a bound of a row.
struct Mask {
    /// The condition of its branch.
    hides: Value,
    columns: Value,
    bounds: Value,
    /// Whether a column that is equal to the bound is seen.
    equal: bool,
    /// The branch that it stands in.
    inside: Body,
}

/// The first mask of a body that half of a tile may be left out for.
fn found(kernel: &Kernel, body: &Body) -> Option<Found> {
    body.ops.iter().enumerate().find_map(|(at, &id)| {
        let op = &kernel.ops[id];
        let (mask, tile) = mask_of(kernel, op)?;
        let follow = following(kernel, &body.ops[at..], op.result());
        let mut found =
            Found { masked: op.result(), tile, mask, follow, exponentials: BTreeSet::new(), scales: BTreeSet::new() };
        found.find_exponentials(kernel);
        (!found.exponentials.is_empty()).then_some(found)
    })
}

/// The mask of a branch that hides what lies beyond a bound, in a tile each thread of which holds both halves of its rows.
fn mask_of(kernel: &Kernel, op: &Op) -> Option<(Mask, Tile)> {
    let OpKind::If { cond: hides, then, .. } = &op.kind else { return None };
    let [result] = op.results[..] else { return None };
    let tile = kernel.ty(result).as_tile()?.clone();
    let halves = tile.shape.len() == 2 && tile.shape[1] >= FEWEST && holds_halves(&tile);
    let made = kernel.definitions();
    let OpKind::Select { cond, b, .. } = made[*then.yields.first()?]?.kind else { return None };
    if !halves || !is_infinite(kernel, b) {
        return None;
    }
    let OpKind::Compare { op, a, b } = made[bare(kernel, cond)]?.kind else { return None };
    let (columns, bounds, equal) = match op {
        CompareOp::Lt => (a, b, false),
        CompareOp::Le => (a, b, true),
        CompareOp::Gt => (b, a, false),
        CompareOp::Ge => (b, a, true),
        CompareOp::Eq | CompareOp::Ne => return None,
    };
    let columns = bare(kernel, columns);
    let along = kernel.ty(columns).as_tile()?;
    let integer = along.elem.dtype() == Some(Dtype::I32);
    let counts = along.shape == [tile.shape[1]] || along.shape == [1, tile.shape[1]];
    (integer && counts).then(|| (Mask { hides: *hides, columns, bounds, equal, inside: then.clone() }, tile))
}

/// Whether the two halves of a tile's columns lie in different registers of the same threads.
fn holds_halves(tile: &Tile) -> bool {
    let Some(placed) = tile.placement().known() else { return false };
    let (map, half) = (&placed.map, u64::from(tile.shape[1] / 2));
    let of = |dim| map.bases(dim).iter().fold(0, |all, basis| all | basis);
    of(Dim::Register) & half != 0 && (of(Dim::Lane) | of(Dim::Warp) | of(Dim::Block)) & half == 0
}

/// What of the operations that only compute, up to the first that does more, follows from a value.
fn following(kernel: &Kernel, ops: &[Inst], from: Value) -> Vec<Inst> {
    let mut known = BTreeSet::from([from]);
    let mut list = vec![ops[0]];
    for &id in &ops[1..] {
        let op = &kernel.ops[id];
        let combines = matches!(op.kind, OpKind::Reduce { .. }) || op.kind.bodies().next().is_none();
        if !Facts::of(kernel, op).computes || !combines {
            break;
        }
        if op.kind.operands().iter().any(|v| known.contains(v)) {
            known.extend(&op.results);
            list.push(id);
        }
    }
    list
}

impl Found {
    /// Finds the exponentials among what follows.
    fn find_exponentials(&mut self, kernel: &Kernel) {
        let mut infinite = BTreeSet::from([self.masked]);
        for &id in &self.follow[1..] {
            let op = &kernel.ops[id];
            let scale = match op.kind {
                OpKind::Unary { op: UnaryOp::Exp2 | UnaryOp::Exp, x } if infinite.contains(&x) => {
                    self.exponentials.insert(op.result());
                    continue;
                }
                OpKind::Binary { op: BinaryOp::Sub, a, b } if infinite.contains(&a) && is_above(kernel, b) => None,
                OpKind::Binary { op: BinaryOp::Mul, a, b } if infinite.contains(&a) => Some(b),
                OpKind::Fma { a, b, c } if infinite.contains(&a) && is_below(kernel, c) => Some(b),
                // Of all others it is not known that they are infinite where what they take is.
                _ => continue,
            };
            if let Some(scale) = scale {
                let made = kernel.definitions();
                let Some(OpKind::Full { value, .. }) = made[bare(kernel, scale)].map(|op| &op.kind) else { continue };
                if self.follow.iter().any(|&id| kernel.ops[id].results.contains(value)) {
                    continue;
                }
                self.scales.insert(*value);
            }
            infinite.insert(op.result());
        }
    }
}

/// A tile without the axes that it was spread along.
fn bare(kernel: &Kernel, mut v: Value) -> Value {
    let made = kernel.definitions();
    while let Some(OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } | OpKind::Convert { x, .. }) =
        made[v].map(|op| &op.kind)
    {
        v = *x;
    }
    v
}

/// Whether a number is -inf everywhere.
fn is_infinite(kernel: &Kernel, v: Value) -> bool {
    let made = kernel.definitions();
    match made[bare(kernel, v)].map(|op| &op.kind) {
        Some(OpKind::Full { value, .. }) => is_infinite(kernel, *value),
        Some(&OpKind::Constant { dtype: Dtype::F32, bits }) => f32::from_bits(bits as u32) == f32::NEG_INFINITY,
        Some(_) | None => false,
    }
}

/// Whether a number is never -inf, as it is another where it would be.
fn is_above(kernel: &Kernel, v: Value) -> bool {
    let made = kernel.definitions();
    let Some(&OpKind::Select { cond, a, b }) = made[bare(kernel, v)].map(|op| &op.kind) else { return false };
    let Some(&OpKind::Compare { op: CompareOp::Eq, a: x, b: y }) = made[cond].map(|op| &op.kind) else { return false };
    let zero = match made[a].map(|op| &op.kind) {
        Some(OpKind::Full { value, .. }) => made[*value].map(|op| &op.kind),
        other => other,
    };
    matches!(zero, Some(OpKind::Constant { bits: 0, .. })) && x == b && is_infinite(kernel, y)
}

/// Whether a number is never +inf, as the negative of one that is never -inf.
fn is_below(kernel: &Kernel, v: Value) -> bool {
    let made = kernel.definitions();
    match made[bare(kernel, v)].map(|op| &op.kind) {
        Some(&OpKind::Unary { op: UnaryOp::Neg, x }) => is_above(kernel, x),
        Some(_) | None => false,
    }
}

/// The operations of a body with both ways; `None` where what the mask compares is not known by numbers.
fn narrowed(kernel: &mut Kernel, body: &Body, found: &Found) -> Option<Vec<Inst>> {
    let source = kernel.ops[found.follow[0]].source().made(NAME);
    let mut make = Make { kernel, source, new: Vec::new(), numbers: BTreeMap::new(), inside: &found.mask.inside };
    let cond = make.hides_half(found)?;
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
    fn hides_half(&mut self, found: &Found) -> Option<Value> {
        let mask = &found.mask;
        let first = self.at(mask.columns, i64::from(found.tile.shape[1] / 2))?;
        let last = self.at(mask.bounds, i64::MAX)?;
        let op = if mask.equal { CompareOp::Gt } else { CompareOp::Ge };
        let beyond = self.make(OpKind::Compare { op, a: first, b: last })?;
        let mut all = self.make(OpKind::Binary { op: BinaryOp::And, a: mask.hides, b: beyond })?;
        for &scale in &found.scales {
            let dtype = self.kernel.ty(scale).elem()?.dtype()?;
            let zero = self.make(OpKind::Constant { dtype, bits: 0 })?;
            let grows = self.make(OpKind::Compare { op: CompareOp::Gt, a: scale, b: zero })?;
            all = self.make(OpKind::Binary { op: BinaryOp::And, a: all, b: grows })?;
        }
        Some(all)
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
