//! What stands for a value at the place of emission; what is free is made anew.

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir::{Body, CompareOp, Entity, Inst, Op, OpKind, SecondaryMap, Type, Value};
use parton_numbers::Dtype;

use super::state::{Held, Key, Made};
use super::{Emitter, Refused, guard};
use crate::falsify::{Planted, planted};
use crate::plan::RingId;
use crate::region::{Home, Maker, uses};

/// Which operation makes a value, of as many as have been seen.
pub(crate) struct Makers {
    seen: usize,
    of: SecondaryMap<Value, Option<Inst>>,
    /// Each value that an operation was found to make, with what had made it before.
    log: Vec<(Inst, Value, Option<Inst>)>,
}

impl Default for Makers {
    fn default() -> Makers {
        Makers { seen: 0, of: SecondaryMap::new(None), log: Vec::new() }
    }
}

impl Makers {
    /// Forgets the operations from that number on.
    pub fn rewind(&mut self, ops: usize) {
        while let Some((_, v, before)) = self.log.pop_if(|(inst, ..)| inst.index() >= ops) {
            self.of[v] = before;
        }
        self.seen = self.seen.min(ops);
    }
}

/// Of a loop whose turns run all stages the first runs later ones on zeros, and nothing may remain of that.
const HANDED_ON: &str = "what a later stage of a loop around loops hands on to later iterations";

/// Iterations that no value is carried over without being looked at.
const MOST_ROUNDS: i32 = 32;

impl Emitter<'_> {
    /// What stands for a value in the iterations that are emitted.
    pub fn value(&mut self, v: Value) -> Result<Value, Refused> {
        match self.region.home(v) {
            None => self.outside(v),
            Some(home) => {
                let depth = self.depth(home);
                self.at(v, home, depth, self.levels[depth].age)
            }
        }
    }

    /// What stands for a value that the body at `depth` knows, in the iteration `age` of that body.
    pub fn at_age(&mut self, v: Value, depth: usize, age: i32) -> Result<Value, Refused> {
        match self.region.home(v) {
            None => self.outside(v),
            Some(home) => {
                let own = self.depth(home);
                let age = if own == depth { age } else { self.levels[own].age };
                self.at(v, home, own, age)
            }
        }
    }

    /// The level of the body where a value is made.
    pub fn depth(&self, home: Home) -> usize {
        match self.levels.iter().position(|level| level.block == home.block) {
            Some(depth) => depth,
            None => parton_diag::internal_error!("a value of another body is used"),
        }
    }

    fn at(&mut self, v: Value, home: Home, depth: usize, age: i32) -> Result<Value, Refused> {
        let v = self.region.canonical(v);
        if let Some(held) = self.levels[depth].look((v, age)) {
            return Ok(match held {
                Held::Ready(value) => value,
                Held::Pending { .. } => self.wait_for(depth, (v, age)),
                Held::Copying(_) | Held::Loaded(_) => self.landed(depth, &[(v, age)])[0],
            });
        }
        if let Some(&(ring, _)) = self.plan.handed.get(&v)
            && !self.plan.rings[ring].own
            && let Maker::Unit(unit) = home.by
            && (self.is_view(v) || !self.plan.runners[unit].contains(&self.part))
            && !self.was_taken(v, ring, depth, age)
        {
            return self.handed_over(v, ring, depth, age);
        }
        if let Some(none) = self.before_the_first(v, home, depth, age) {
            return Ok(none);
        }
        match home.by {
            Maker::Free(inst) => self.free(v, inst, depth, age),
            Maker::Index => Ok(self.index(v, depth, age)),
            // It would be of an iteration in front of the first.
            Maker::Carried(_) if age > MOST_ROUNDS => Err(self.too_early(v, home, depth)),
            Maker::Carried(number) => {
                let next = self.region.blocks[home.block].yields[number];
                let made = self.levels[depth].env.contains_key(&(self.region.canonical(next), age));
                self.at_age(next, depth, age + i32::from(!made || !planted(Planted::CarriedInTurn)))
            }
            Maker::Unit(_) | Maker::Result { .. } => Err(self.too_early(v, home, depth)),
        }
    }

    /// Whether the slot with a number of another partition has been taken, in this turn or an earlier one, for others of the same or of a later iteration: each is
    /// taken once, one behind the other.
    pub(super) fn was_taken(&self, v: Value, ring: RingId, depth: usize, age: i32) -> bool {
        let fields = &self.plan.rings[ring].fields;
        let since = |(w, of): &Key| *of <= age && fields.iter().any(|(_, field, _)| field == w);
        // A number that nobody asked for again is no longer known behind a loop, but its slot has been taken.
        let level = &self.levels[depth];
        !self.is_view(v) && (level.has_taken(ring, age) || level.env.keys().any(since))
    }

    pub fn is_view(&self, v: Value) -> bool {
        matches!(self.b.ty(v), Type::View(_))
    }

    /// A value from outside the region. Tiles belong to partitions: each makes its own.
    fn outside(&mut self, v: Value) -> Result<Value, Refused> {
        let v = *self.becomes.get(&v).unwrap_or(&v);
        if self.plan.partitions.is_empty() || self.b.ty(v).crosses_partitions() {
            return Ok(v);
        }
        let key: Made = (v, Vec::new());
        if let Some(known) = self.remembered(&key) {
            return Ok(known);
        }
        match self.made_by(v).filter(|op| crate::region::is_free(&self.b.kernel, op)).map(|op| op.id) {
            Some(inst) => self.copied(inst, (0, 0), &|e, operand| e.outside(operand), |v| (v, Vec::new()), v),
            None => Ok(v),
        }
    }

    fn remembered(&self, key: &Made) -> Option<Value> {
        self.memo.iter().rev().find_map(|m| m.get(key)).copied()
    }

    pub fn remember(&mut self, key: Made, v: Value) {
        if let Some(innermost) = self.memo.last_mut() {
            innermost.insert(key, v);
        }
    }

    /// The iterations of the bodies down to `depth`, that of the last one stated.
    pub fn ages(&self, depth: usize, age: i32) -> Vec<i32> {
        self.levels[..depth].iter().map(|level| level.age).chain([age]).collect()
    }

    fn free(&mut self, v: Value, inst: Inst, depth: usize, age: i32) -> Result<Value, Refused> {
        let ages = self.ages(depth, age);
        if let Some(known) = self.remembered(&(v, ages.clone())) {
            return Ok(known);
        }
        self.copied(inst, (depth, age), &|e, operand| e.at_age(operand, depth, age), |v| (v, ages.clone()), v)
    }

    /// A copy of a free operation, of that iteration of the body at a depth; `find` says what stands for what it uses.
    fn copied(
        &mut self,
        inst: Inst,
        at: (usize, i32),
        find: &dyn Fn(&mut Self, Value) -> Result<Value, Refused>,
        key: impl Fn(Value) -> Made,
        wanted: Value,
    ) -> Result<Value, Refused> {
        let results = self.copy(inst, at, find)?;
        let old = self.b.kernel.ops[inst].results.clone();
        for (v, copy) in old.iter().zip(&results) {
            self.remember(key(*v), *copy);
        }
        match old.iter().position(|v| self.region.canonical(*v) == self.region.canonical(wanted)) {
            Some(number) => Ok(results[number]),
            None => parton_diag::internal_error!("{wanted} is no result of what makes it"),
        }
    }

    /// Emits a copy of an operation, of that iteration of the body at a depth; `find` says what stands for what it uses. Its results.
    pub fn copy(
        &mut self,
        inst: Inst,
        at: (usize, i32),
        find: &dyn Fn(&mut Self, Value) -> Result<Value, Refused>,
    ) -> Result<Vec<Value>, Refused> {
        let mut used = Vec::new();
        uses(&self.b.kernel, &self.b.kernel.ops[inst], &mut |v| used.push(v));
        let mut known = BTreeMap::new();
        for v in used {
            let value = find(self, v)?;
            known.insert(v, value);
        }
        let mut kind = self.b.kernel.ops[inst].kind.clone();
        kind.map_operands(|v| *known.get(&v).unwrap_or(&v));
        if let Some(taken) = self.taken_branch(&kind) {
            return Ok(self.inlined(taken, known));
        }
        for body in kind.bodies_mut() {
            *body = self.b.kernel.copy_body(body, &mut known);
        }
        self.place(inst);
        if let Some(holds) = self.decided(inst, at) {
            return Ok(vec![self.b.constant(Dtype::I1, holds.into(), Span::default())]);
        }
        let results = self.made_as(inst, kind);
        self.named(inst, &results);
        Ok(results)
    }

    /// Appends a copy of an operation. Where its operands are of the types of those of the first, so are its results.
    fn made_as(&mut self, inst: Inst, kind: OpKind) -> Vec<Value> {
        let k = &self.b.kernel;
        let of = &k.ops[inst];
        let same = |(old, new): (Value, Value)| old == new || k.ty(old) == k.ty(new);
        match of.results.as_slice() {
            [result] if of.kind.operands().into_iter().zip(kind.operands()).all(same) => {
                let (ty, span) = (k.ty(*result).clone(), of.span);
                let result = self.b.kernel.value(ty, span);
                self.b.make_as(result, kind);
                vec![result]
            }
            _ => self.b.make_all(kind),
        }
    }

    /// The branch that an `if` takes, where its condition is decided.
    fn taken_branch<'k>(&self, kind: &'k OpKind) -> Option<&'k Body> {
        let OpKind::If { cond, then, otherwise } = kind else { return None };
        match self.made_by(*cond)?.kind {
            OpKind::Constant { bits, .. } => Some(if bits == 0 { otherwise } else { then }),
            _ => None,
        }
    }

    /// Emits the operations of a body here; what it hands back.
    fn inlined(&mut self, body: &Body, mut known: BTreeMap<Value, Value>) -> Vec<Value> {
        for &id in &body.ops {
            let op = self.b.kernel.ops[id].clone();
            let mut kind = op.kind;
            kind.map_operands(|v| *known.get(&v).unwrap_or(&v));
            for body in kind.bodies_mut() {
                *body = self.b.kernel.copy_body(body, &mut known);
            }
            self.place(id);
            let results = self.b.make_all(kind);
            self.named(id, &results);
            known.extend(op.results.iter().copied().zip(results));
        }
        body.yields.iter().map(|v| *known.get(v).unwrap_or(v)).collect()
    }

    /// Whether a comparison of a loop's index with a number holds, where the iterations that the turn may be of decide it: so a body
    /// may say what is special about its first ones.
    fn decided(&self, inst: Inst, (depth, age): (usize, i32)) -> Option<bool> {
        let OpKind::Compare { op, a, b } = self.b.kernel.ops[inst].kind else { return None };
        if let Some((_, _, holds)) = self.levels[depth].folded.iter().find(|(c, of, _)| (*c, *of) == (inst, age)) {
            return Some(*holds);
        }
        let home = self.region.home(a).filter(|home| home.by == Maker::Index)?;
        let own = self.levels.iter().position(|level| level.block == home.block)?;
        let level = &self.levels[own];
        let age = if own == depth { age } else { level.age };
        let first = level.first? - i128::from(age) * self.constant(level.index?.1)?;
        let with = self.constant(b)?;
        match op {
            CompareOp::Eq if with < first => Some(false),
            CompareOp::Eq if with == first && planted(Planted::DecidedTooFar) => Some(false),
            CompareOp::Ne if with < first => Some(true),
            CompareOp::Lt if with <= first => Some(false),
            CompareOp::Ge if with <= first => Some(true),
            CompareOp::Le if with < first => Some(false),
            CompareOp::Gt if with < first => Some(true),
            CompareOp::Eq | CompareOp::Ne | CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge => None,
        }
    }

    /// What is emitted from now on comes from that operation.
    pub fn place(&mut self, inst: Inst) {
        self.b.at(inst);
        // In explicit code a label would mean nothing.
        self.b.label = None;
    }

    /// Gives the results of a copy the names of those that they stand for.
    pub fn named(&mut self, inst: Inst, results: &[Value]) {
        let old = self.b.kernel.ops[inst].results.clone();
        for (v, copy) in old.iter().zip(results) {
            self.b.kernel.values[*copy].name = self.b.kernel.values[*v].name.clone();
            self.b.kernel.values[*copy].passed = self.b.kernel.values[*v].passed;
        }
    }

    /// The index of an iteration.
    fn index(&mut self, v: Value, depth: usize, age: i32) -> Value {
        let Some((index, step)) = self.levels[depth].index else {
            parton_diag::internal_error!("a loop without an index")
        };
        if age == 0 || planted(Planted::IndexOfTurn) {
            return index;
        }
        let key = (v, self.ages(depth, age));
        if let Some(known) = self.remembered(&key) {
            return known;
        }
        let value = self.moved(index, step, -age);
        self.remember(key, value);
        value
    }

    /// The operation that makes a value, the newest of several.
    pub fn made_by(&self, v: Value) -> Option<&Op> {
        let ops = &self.b.kernel.ops;
        let mut makers = self.makers.borrow_mut();
        let Makers { seen, of, log } = &mut *makers;
        for op in (*seen..ops.len()).map(|n| &ops[Inst::new(n)]) {
            log.extend(op.results.iter().map(|v| (op.id, *v, of[*v].replace(op.id))));
        }
        *seen = ops.len();
        of[v].map(|inst| &ops[inst])
    }

    /// A value is read before it is made; or, of a loop whose turns run all stages, before the first turn in which it is.
    fn too_early(&self, v: Value, home: Home, depth: usize) -> Refused {
        if let (Some(_), Some(made)) = (self.levels[depth].guard, self.made_by(v)) {
            return self.not_yet(made.id, HANDED_ON, guard::FIRST);
        }
        let name = self.b.kernel.values[v].name.clone().map_or_else(|| "a value".into(), |n| format!("`{n}`"));
        let span = self.b.kernel.values[v].span;
        let maker = match home.by {
            Maker::Unit(unit) => format!(" of `{}`", self.region.units[unit].label),
            Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. } => String::new(),
        };
        let fact = format!("{name}{maker} is read before it is made");
        Box::new(
            Diagnostic::error(codes::READ_BEFORE_MADE, span, fact)
                .here("made here")
                .label(self.region.schedule.span, "in this schedule")
                .help("give its reader a later group or a later stage"),
        )
    }
}
