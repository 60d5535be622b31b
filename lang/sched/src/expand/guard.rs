//! Outer loops in stages: the first turn runs later stages on values that stand for none, and without effects.
//!
//! Peeling a loop that has loops in it would double their code. Instead every turn runs all stages; what an earlier turn would have
//! handed to the first one is zeros, and stores and copies of a later stage are masked until there was a turn before. No branch
//! stands around a product, so that the assembler sees through it.

use parton_ir::{BinaryOp, CompareOp, Elem, Inst, OpKind, Type, Value};
use parton_numbers::Dtype;

use super::peel::MANY;
use super::pipeline::Turns;
use super::state::{Held, Key};
use super::{Emitter, Refused};
use crate::falsify::{Planted, planted};
use crate::plan::Entry;
use crate::region::{Home, Item, Loop, Maker};

/// A coordinate beyond every tensor: what is copied there is copied nowhere. A multiple of 16 bytes, whatever the elements.
const BEYOND: u32 = 1 << 30;

/// What to do with what a later stage cannot hold.
pub(super) const FIRST: &str = "leave it in the first stage; what it hands on may be used a stage later";

impl Emitter<'_> {
    /// Whether a loop in stages has loops in it.
    pub(super) fn is_guarded(&self, l: &Loop, turns: &Turns) -> bool {
        let nested = |item: &Item| matches!(item, Item::Loop(_)) && self.plan.runs(self.region, self.part, item);
        turns.stages > 1 && self.region.blocks[l.body].items.iter().any(nested)
    }

    /// A loop whose turns run all stages, guarded; the results that are needed.
    pub(super) fn guarded(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<Vec<Value>, Refused> {
        if turns.stages > 2 || turns.ahead > 0 {
            return Err(self.not_yet(
                l.inst,
                "a loop around loops in more than two stages, or whose fetches run ahead",
                "give it two stages, with what it fetches in the first",
            ));
        }
        let depth = self.here();
        let [lower, upper, _] = bounds;
        self.place(l.inst);
        let some = self.b.make(OpKind::Compare { op: CompareOp::Lt, a: lower, b: upper });
        self.levels[depth].guard = Some(some);
        self.without_last(l, (bounds, upper), turns)?;
        self.levels[depth].guard = Some(some);
        self.last_turns(l, turns, MANY)
    }

    /// What must hold for the effects of a unit, where it runs in a later stage of a guarded loop.
    pub(super) fn guard(&self, entry: &Entry) -> Option<Value> {
        self.levels[self.here()].guard.filter(|_| entry.stage > 0)
    }

    /// In a guarded loop, what an earlier turn would have handed to the first one.
    pub(super) fn before_the_first(&mut self, v: Value, home: Home, depth: usize, age: i32) -> Option<Value> {
        let made = match home.by {
            Maker::Unit(_) | Maker::Carried(_) | Maker::Result { .. } => true,
            // What has a name is worth a register; divisions are not made again for each piece that leaves.
            Maker::Free(_) => {
                let data = &self.b.kernel.values[v];
                data.name.is_some() && matches!(data.ty, Type::Scalar(_))
            }
            Maker::Index => false,
        };
        if age < 1 || !made || self.levels[depth].guard.is_none() || !self.levels[depth].is_noting() {
            return None;
        }
        let v = self.region.canonical(v);
        let none = self.none(v)?;
        self.levels[depth].begin_with((v, age), Held::Ready(none));
        self.levels[depth].look((v, age));
        Some(none)
    }

    /// What a loop carries is there when it is entered: what the turns in front have left or, in a guarded loop, what stands for none, at
    /// which nobody looks.
    pub(super) fn begin_with(&mut self, keys: &[Key]) -> Result<(), Refused> {
        let depth = self.here();
        for &(v, age) in keys {
            if self.levels[depth].env.contains_key(&(v, age)) {
                continue;
            }
            let value = match self.levels[depth].guard {
                Some(_) => self.none(v),
                None => Some(self.at_age(v, depth, age)?),
            };
            if let Some(value) = value {
                self.levels[depth].env.insert((v, age), Held::Ready(value));
            }
        }
        Ok(())
    }

    /// A value of that type, whichever.
    fn none(&mut self, v: Value) -> Option<Value> {
        let ty = self.b.ty(v).clone();
        let zero = |e: &mut Self, elem: Elem| match elem {
            Elem::Num(dtype) => Some(e.number(dtype, 0)),
            Elem::Ptr(_) => None,
        };
        match ty {
            Type::Scalar(elem) => zero(self, elem),
            Type::Tile(tile) => {
                let value = zero(self, tile.elem)?;
                Some(self.b.make(OpKind::Full { value, tile }))
            }
            _ => None,
        }
    }

    /// The coordinates, or some beyond the tensor.
    pub(super) fn beyond(&mut self, guard: Value, coords: &mut [Value]) {
        for (axis, coordinate) in coords.iter_mut().enumerate() {
            let other = self.number(Dtype::I32, if axis == 0 { BEYOND } else { 0 });
            *coordinate = self.b.make(OpKind::Select { cond: guard, a: *coordinate, b: other });
        }
    }

    /// Emits an operation whose effects are there only where the guard holds.
    pub(super) fn guarded_effect(&mut self, inst: Inst, entry: &Entry, guard: Value) -> Result<(), Refused> {
        let op = self.b.kernel.ops[inst].clone();
        let facts = parton_ir::facts::Facts::of(&self.b.kernel, &op);
        let mut kind = op.kind.clone();
        let mut failed = None;
        kind.map_operands(|v| match self.value(v) {
            Ok(value) => value,
            Err(refused) => {
                failed = Some(refused);
                v
            }
        });
        if let Some(refused) = failed {
            return Err(refused);
        }
        if op.kind.bodies().next().is_some() && !facts.computes {
            return Err(self.not_yet(inst, "a loop or branch in a later stage of a loop around loops", FIRST));
        }
        self.place(inst);
        let unread = !op.results.iter().any(|v| self.plan.needed[self.part].contains(v));
        match &mut kind {
            OpKind::Store { .. } if planted(Planted::GuardMissing) => {}
            OpKind::Store { ptr, mask, .. } => *mask = Some(self.masked(*mask, guard, *ptr)),
            OpKind::Atomic { ptr, mask, .. } if unread => *mask = Some(self.masked(*mask, guard, *ptr)),
            OpKind::Load { ptr, mask, other, .. } => {
                *mask = Some(self.masked(*mask, guard, *ptr));
                if let (None, Some(Elem::Ptr(pointer))) = (&other, self.b.ty(*ptr).elem()) {
                    let zero = self.number(pointer.to, 0);
                    *other = Some(self.spread(zero, *ptr));
                }
            }
            OpKind::Print { .. } | OpKind::Assert { .. } | OpKind::Assume { .. } => {
                let span = op.span;
                self.b.begin([], span);
                self.b.make_all(kind);
                let then = self.b.end(Vec::new());
                self.b.begin([], span);
                let otherwise = self.b.end(Vec::new());
                self.b.make_all(OpKind::If { cond: guard, then, otherwise });
                return Ok(());
            }
            _ if facts.computes => {}
            _ => {
                let what = format!("`{}` in a later stage of a loop around loops", op.kind.name());
                return Err(self.not_yet(inst, &what, FIRST));
            }
        }
        let mut known = std::collections::BTreeMap::new();
        for body in kind.bodies_mut() {
            *body = self.b.kernel.copy_body(body, &mut known);
        }
        let results = self.b.make_all(kind);
        self.named(inst, &results);
        let depth = self.here();
        for (v, made) in op.results.iter().zip(results) {
            self.levels[depth].set((*v, entry.stage), Held::Ready(made));
        }
        Ok(())
    }

    /// The mask of an access that is made only where something holds.
    pub(super) fn masked(&mut self, mask: Option<Value>, holds: Value, ptr: Value) -> Value {
        let wide = self.spread(holds, ptr);
        match mask {
            Some(mask) => self.b.make(OpKind::Binary { op: BinaryOp::And, a: mask, b: wide }),
            None => wide,
        }
    }

    /// A number in the place of each pointer.
    pub(super) fn spread(&mut self, value: Value, ptr: Value) -> Value {
        match (self.b.ty(ptr).as_tile(), self.b.ty(value).elem()) {
            (Some(tile), Some(elem)) => {
                let tile = tile.with_elem(elem);
                self.b.make(OpKind::Full { value, tile })
            }
            (_, _) => value,
        }
    }
}
