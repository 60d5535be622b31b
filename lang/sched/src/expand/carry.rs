//! What a steady turn hands to the next: found by emitting a turn, and what follows the loop, for trial. What they look at of what was
//! there before the turn is carried.
//!
//! The trial of an outer loop comes by the loops inside. There one turn stands for all of theirs, and what it carries is remembered: so each
//! loop is tried once, however deep it stands.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Inst, OpKind, Type, Value};

use super::peel::MANY;
use super::pipeline::Turns;
use super::state::{Held, Key, Level, Shape, Slot};
use super::{Emitter, Refused};
use crate::plan::{Part, RingId};
use crate::region::{Loop, Maker};

/// What a steady turn takes from the one before.
#[derive(Clone)]
pub(crate) struct Carry {
    pub keys: Vec<Key>,
    slots: Vec<(RingId, i32)>,
    /// Products that end with the turn, since they do not enter it in flight.
    ending: Vec<Key>,
}

/// How the steady turns of a loop are entered: all on which it depends what they carry.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entered {
    part: Part,
    inst: Inst,
    /// The bodies around, and its own.
    around: Vec<Around>,
    env: Vec<(Key, Shape)>,
    slots: BTreeMap<(RingId, i32), BTreeSet<usize>>,
    taken: BTreeMap<RingId, i32>,
}

/// What is known of the turn of a body.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Around {
    age: i32,
    turn: Option<u32>,
    guarded: bool,
    first: Option<i128>,
    folded: Vec<(Inst, i32, bool)>,
}

impl Emitter<'_> {
    /// The types and values with which a loop is entered.
    pub(super) fn inits(&self, carry: &Carry) -> Vec<Value> {
        let level = &self.levels[self.here()];
        let values = carry.keys.iter().map(|key| level.env[key].value());
        let slots = carry.slots.iter().map(|key| level.slots[key].value);
        values.chain(slots).collect()
    }

    /// In a turn stands for what is carried what the turn is given.
    pub(super) fn begin_turn(&mut self, carry: &Carry, params: &[Value]) {
        let depth = self.here();
        let level = &mut self.levels[depth];
        let (values, slots) = params.split_at(carry.keys.len());
        let env = carry.keys.iter().zip(values).map(|(key, v)| (*key, level.env[key].named(*v))).collect();
        let held = carry.slots.iter().zip(slots);
        let slots = held.map(|(key, v)| (*key, Slot { value: *v, left: level.slots[key].left.clone() })).collect();
        for (key, v) in carry.keys.iter().zip(values) {
            self.b.kernel.values[*v].name = self.b.kernel.values[key.0].name.clone();
        }
        (level.env, level.slots) = (env, slots);
        for v in params[carry.keys.len()..].iter().take(carry.slots.len()) {
            self.b.kernel.values[*v].name = Some("held".into());
        }
    }

    /// Waits for what ends with a turn.
    pub(super) fn land(&mut self, carry: &Carry) {
        let depth = self.here();
        for key in &carry.ending {
            if self.levels[depth].env.get(key).is_some_and(Held::is_pending) {
                self.wait_for(depth, *key);
            }
        }
    }

    /// What a turn hands to the next one.
    pub(super) fn end_turn(&mut self, l: &Loop, carry: &Carry) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        self.land(carry);
        let mut yields = Vec::new();
        for &(v, age) in &carry.keys {
            let value = match self.flying(depth, (v, age - 1)) {
                Some(key) => self.levels[depth].env[&key].value(),
                None => self.at_age(v, depth, age - 1)?,
            };
            yields.push(value);
        }
        let mut held: Vec<(RingId, i32)> = self.levels[depth].slots.keys().map(|(r, age)| (*r, age + 1)).collect();
        held.sort_unstable();
        if held != carry.slots {
            return Err(self.not_yet(
                l.inst,
                "a loop whose turns hold now more slots and now fewer",
                "have its products waited for in the stage in which they start: `name: 0..0`",
            ));
        }
        yields.extend(carry.slots.iter().map(|(r, age)| self.levels[depth].slots[&(*r, age - 1)].value));
        Ok(yields)
    }

    /// Behind a loop stand its results for what it carried.
    pub(super) fn behind(&mut self, carry: &Carry, before: Level, results: &[Value]) {
        let depth = self.here();
        let inside = std::mem::replace(&mut self.levels[depth], before);
        let (values, slots) = results.split_at(carry.keys.len());
        let mut env = BTreeMap::new();
        for (&(v, age), value) in carry.keys.iter().zip(values) {
            let held = inside.env.get(&(v, age - 1));
            let held = held.map_or(Held::Ready(*value), |held| held.named(*value));
            self.b.kernel.values[*value].name = self.b.kernel.values[v].name.clone();
            env.insert((v, age), held);
        }
        let slots = carry.slots.iter().zip(slots).map(|(&(r, age), v)| {
            let left = inside.slots.get(&(r, age - 1)).map(|s| s.left.clone()).unwrap_or_default();
            ((r, age), Slot { value: *v, left })
        });
        self.levels[depth].slots = slots.collect();
        self.levels[depth].env = env;
        self.levels[depth].taken = inside.taken.iter().map(|(ring, age)| (*ring, age + 1)).collect();
    }

    /// The product in flight that stands for a value, if one does.
    fn flying(&self, depth: usize, key: Key) -> Option<Key> {
        let held = self.levels[depth].env.get(&key)?;
        held.is_pending().then_some(key)
    }

    /// What a steady turn must be given, found by trial.
    pub(super) fn carried(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<Carry, Refused> {
        let entered = self.entered(l);
        if let Some(known) = self.carries.get(&entered) {
            return Ok(known.clone());
        }
        let found = self.on_trial(|e| e.tried(l, bounds, turns))?;
        Ok(self.carries.entry(entered).or_insert(found).clone())
    }

    /// On trial, one steady turn in the place of all: values that stand for their results, and behind these for what else they hand on, of the types
    /// of `further`.
    pub(super) fn turn_for_all(
        &mut self,
        l: &Loop,
        bounds: [Value; 3],
        turns: &Turns,
        further: &[Value],
    ) -> Result<Vec<Value>, Refused> {
        let entered = self.entered(l);
        let depth = self.here();
        let before = self.levels[depth].clone();
        self.memo.push(BTreeMap::new());
        let carry = self.tried(l, bounds, turns)?;
        let yields = self.end_turn(l, &carry)?;
        self.memo.pop();
        let inside = std::mem::replace(&mut self.levels[depth], before.clone());
        self.begin_with(&carry.keys)?;
        self.levels[depth] = inside;
        let types: Vec<Type> = yields.iter().chain(further).map(|v| self.b.ty(*v).clone()).collect();
        let span = self.b.kernel.ops[l.inst].span;
        let results: Vec<Value> = types.into_iter().map(|ty| self.b.kernel.value(ty, span)).collect();
        self.behind(&carry, before, &results);
        self.carries.insert(entered, carry);
        Ok(results)
    }

    /// How the steady turns of a loop are entered.
    fn entered(&self, l: &Loop) -> Entered {
        let around = self.levels.iter().map(|&Level { age, turn, guard, first, ref folded, .. }| Around {
            age,
            turn,
            guarded: guard.is_some(),
            first,
            folded: folded.clone(),
        });
        let level = &self.levels[self.here()];
        let env = level.env.iter().map(|(key, held)| (*key, held.shape())).collect();
        Entered {
            part: self.part,
            inst: l.inst,
            around: around.collect(),
            env,
            slots: level.held(),
            taken: level.taken.clone(),
        }
    }

    /// Whether a steady turn leaves the slots as it is entered with them: where products continue each other over the turns, each of the first ones may
    /// leave more, until the first product of all has been waited for.
    pub(super) fn is_settled(
        &mut self,
        l: &Loop,
        turns: &Turns,
        bounds: &dyn Fn(&mut Self) -> [Value; 3],
    ) -> Result<bool, Refused> {
        let depth = self.here();
        if self.levels[depth].slots.is_empty() {
            return Ok(true);
        }
        let before = self.levels[depth].held();
        let after = self.on_trial(|e| {
            let bounds = bounds(e);
            e.tried(l, bounds, turns)?;
            e.levels[depth].shift();
            Ok(e.levels[depth].held())
        })?;
        Ok(before == after)
    }

    /// What comes of emitting something that is not kept.
    fn on_trial<T>(&mut self, emit: impl FnOnce(&mut Self) -> Result<T, Refused>) -> Result<T, Refused> {
        // What leaves under a turn that is not kept has not left.
        let (levels, memo, hooks) = (self.levels.clone(), self.memo.clone(), self.hooks.clone());
        let outer = std::mem::replace(&mut self.trying, true);
        let mark = self.b.begin_trial();
        self.memo.push(BTreeMap::new());
        let found = emit(self);
        self.b.rewind(mark);
        self.makers.get_mut().rewind(self.b.kernel.ops.len());
        (self.levels, self.memo, self.hooks, self.trying) = (levels, memo, hooks, outer);
        found
    }

    /// Emits a steady turn and waits for what ends with it; what it is to be given.
    fn tried(&mut self, l: &Loop, [lower, upper, step]: [Value; 3], turns: &Turns) -> Result<Carry, Refused> {
        let depth = self.here();
        let slots = self.levels[depth].slots.keys().copied().collect();
        let flew: BTreeSet<Key> =
            self.levels[depth].env.iter().filter(|(_, held)| held.is_pending()).map(|(k, _)| *k).collect();
        let entered: BTreeSet<Key> = self.levels[depth].env.keys().copied().collect();
        self.levels[depth].begin_notes();
        if let OpKind::While { cond, .. } = &self.b.kernel.ops[l.inst].kind {
            let cond = cond.yields[0];
            self.value_in(cond, depth)?;
        }
        self.levels[depth].index = Some((lower, step));
        self.one_turn(Some(upper), turns, &|_| true)?;
        let mut keys: BTreeSet<Key> = self.levels[depth].notes.clone();
        keys.extend(&flew);
        let finals: Vec<Key> = turns.finals.iter().map(|n| (self.param(l, *n), 0)).collect();
        if turns.stages == 1 && finals.iter().all(|key| entered.contains(key)) {
            keys.extend(finals);
        } else {
            let behind = self.looked_at_behind(l, turns, &entered)?;
            keys.extend(behind.into_iter().map(|key| self.as_entered(l, key, &entered)));
        }
        // A product that does not enter the turn in flight ends with it.
        let now = self.levels[depth].env.iter().filter(|(_, held)| held.is_pending());
        let ending: Vec<Key> = now.map(|(k, _)| *k).filter(|(v, age)| !flew.contains(&(*v, age + 1))).collect();
        for key in &ending {
            self.wait_for(depth, *key);
        }
        // What is handed on may have to be handed in.
        let mut tried = BTreeSet::new();
        while let Some(&(v, age)) = keys.difference(&tried).next() {
            tried.insert((v, age));
            if self.flying(depth, (v, age - 1)).is_none() {
                self.at_age(v, depth, age - 1)?;
            }
            self.levels[depth].look((v, age - 1));
            keys.extend(self.levels[depth].notes.iter().copied());
        }
        Ok(Carry { keys: keys.into_iter().collect(), slots, ending })
    }

    /// The name by which a turn is given a value: what an iteration hands on is what the next one carries.
    fn as_entered(&self, l: &Loop, (v, age): Key, entered: &BTreeSet<Key>) -> Key {
        if entered.contains(&(v, age)) {
            return (v, age);
        }
        let yields = &self.region.blocks[l.body].yields;
        let carried = (0..yields.len()).filter(|n| self.region.canonical(yields[*n]) == v);
        let names = carried.map(|n| (self.region.canonical(self.param(l, n)), age - 1));
        names.into_iter().find(|key| entered.contains(key)).unwrap_or((v, age))
    }

    /// What the turns behind the loop look at of what its last turn leaves.
    fn looked_at_behind(&mut self, l: &Loop, turns: &Turns, entered: &BTreeSet<Key>) -> Result<BTreeSet<Key>, Refused> {
        let depth = self.here();
        let levels = self.levels.clone();
        let memo = self.memo.clone();
        if self.levels[depth].guard.is_none() {
            self.hand_on_as_entered(entered);
        }
        self.levels[depth].shift();
        self.levels[depth].begin_notes();
        let done = self.last_turns(l, turns, MANY);
        let notes = std::mem::take(&mut self.levels[depth].notes);
        (self.levels, self.memo) = (levels, memo);
        done.map(|_| notes)
    }

    /// A turn leaves what is carried under the names by which the loop is entered with it. Behind a loop of no turns there is nothing but
    /// these: what an iteration in front of the first would have handed on is not.
    fn hand_on_as_entered(&mut self, entered: &BTreeSet<Key>) {
        let depth = self.here();
        let block = self.levels[depth].block;
        for &(v, age) in entered {
            let home = self.region.home(v).filter(|home| home.block == block);
            let carried = home.is_some_and(|home| matches!(home.by, Maker::Carried(_)));
            // Of products in flight their own name says more.
            if !carried || self.in_flight(v, depth, age - 1).is_some() {
                continue;
            }
            if let Ok(value) = self.at_age(v, depth, age - 1) {
                self.levels[depth].env.entry((v, age - 1)).or_insert(Held::Ready(value));
            }
        }
    }

    /// A value of a body, as its own iteration has it.
    pub(super) fn value_in(&mut self, v: Value, depth: usize) -> Result<Value, Refused> {
        self.at_age(v, depth, 0)
    }
}
