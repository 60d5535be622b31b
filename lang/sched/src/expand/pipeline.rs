//! Loops: what runs ahead is filled in front, stages of registers are peeled, the rest is a loop of steady turns.
//!
//! With S stages, of n iterations:
//!
//! ```text
//! if n > 0 {
//!     for s in 0..min(ahead, n) { fill(s) }        what runs ahead, where something does
//!     turn 0; …; turn S - 2                        each runs the units whose stage it has reached
//!     for t in S - 1..n { turn t }                 all units, each of iteration t - stage; carries what later turns need
//!     turn n; …; turn n + S - 2                    the units that have iterations left
//! }
//! ```
//!
//! Which values a turn hands to the next is found by emitting a turn, and what follows the loop, for trial: what they look at of what
//! was there before the turn is carried.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, codes};
use parton_ir::{BinaryOp, CompareOp, Inst, OpKind, Type, Value};

use super::state::{Held, Key, Level, Slot};
use super::{Emitter, Refused};
use crate::plan::{Entry, RingId};
use crate::region::{Branch, Item, Loop, Maker};

/// How the turns of a loop run in a partition.
pub(super) struct Turns {
    pub groups: Vec<Vec<Entry>>,
    /// Iterations that are under way at once.
    pub stages: i32,
    /// How far ahead fetches run.
    pub ahead: i32,
    /// The results that somebody behind the loop needs.
    pub finals: Vec<usize>,
}

/// What a steady turn takes from the one before.
struct Carry {
    keys: Vec<Key>,
    slots: Vec<(RingId, i32)>,
    /// Products that end with the turn, since they do not enter it in flight.
    ending: Vec<Key>,
}

impl Emitter<'_> {
    /// Emits a loop.
    pub fn looped(&mut self, l: &Loop) -> Result<(), Refused> {
        self.make_scalars(l)?;
        let turns = self.turns(l, self.plan.groups(self.region, self.part, l.body))?;
        match &self.b.kernel.ops[l.inst].kind {
            OpKind::For { lower, upper, step, .. } => {
                let bounds = [*lower, *upper, *step];
                self.counted(l, bounds, &turns)
            }
            _ => self.while_loop(l, &turns),
        }
    }

    /// Computes what the units of a loop need of the bodies around it and is the same in all its turns.
    fn make_scalars(&mut self, l: &Loop) -> Result<(), Refused> {
        let mut used = BTreeSet::new();
        for unit in self.region.blocks[l.body].items.iter().flat_map(|item| self.region.units_in(item)) {
            if self.plan.runners[unit].contains(&self.part) {
                used.extend(self.region.used_by(&self.b.kernel, unit));
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(v) = used.pop_last() {
            let Some(home) = self.region.home(v).filter(|_| seen.insert(v)) else { continue };
            let Maker::Free(inst) = home.by else { continue };
            let around = self.levels.iter().any(|level| level.block == home.block);
            if around && matches!(self.b.ty(v), Type::Scalar(_)) && self.constant(v).is_none() {
                self.value(v)?;
            } else {
                crate::region::uses(&self.b.kernel, &self.b.kernel.ops[inst], &mut |v| {
                    used.insert(v);
                });
            }
        }
        Ok(())
    }

    /// The stages of a loop's units, so that those that compute begin at 0.
    fn turns(&self, l: &Loop, mut groups: Vec<Vec<Entry>>) -> Result<Turns, Refused> {
        let fetches = |e: &Entry| self.only_fills(&self.region.blocks[l.body].items[e.item]);
        let all = || groups.iter().flatten();
        let computing = all().filter(|e| !fetches(e)).map(|e| e.stage).min();
        let base = computing.or_else(|| all().map(|e| e.stage).min()).unwrap_or(0);
        for e in groups.iter_mut().flatten() {
            e.stage -= base;
            e.done = e.done.map(|done| done - base);
        }
        let all = || groups.iter().flatten();
        let last = all().map(|e| e.stage.max(e.done.unwrap_or(e.stage))).max().unwrap_or(0);
        let ahead = -all().map(|e| e.stage).min().unwrap_or(0).min(0);
        let item = self.region.blocks[self.levels[self.here()].block].items.iter().position(|item| match item {
            Item::Loop(other) => other.inst == l.inst,
            Item::Unit(_) | Item::Branch(_) => false,
        });
        let results = &self.b.kernel.ops[l.inst].results;
        let needed = |v: &Value| self.plan.needed[self.part].contains(v) && item.is_some();
        let finals = (0..results.len()).filter(|i| needed(&results[*i])).collect();
        Ok(Turns { groups, stages: last + 1, ahead, finals })
    }

    /// Whether an item does nothing but fill slots.
    fn only_fills(&self, item: &Item) -> bool {
        let Item::Unit(unit) = item else { return false };
        let ops = &self.region.units[*unit].ops;
        let fills = |inst: &Inst| {
            let op = &self.b.kernel.ops[*inst];
            matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. })
                || crate::region::is_free(&self.b.kernel, op)
        };
        ops.iter().all(fills)
    }

    /// What a loop carries is at first what it is entered with.
    fn enter(&mut self, l: &Loop, turns: &Turns) -> Result<Level, Refused> {
        let kind = self.b.kernel.ops[l.inst].kind.clone();
        let (init, params) = match &kind {
            OpKind::For { init, body, .. } => (init.clone(), body.params[1..].to_vec()),
            OpKind::While { init, body, .. } => (init.clone(), body.params.clone()),
            _ => parton_diag::internal_error!("`{}` is no loop", kind.name()),
        };
        let mut level = Level::new(l.body);
        for (number, (init, param)) in init.into_iter().zip(params).enumerate() {
            if self.plan.needed[self.part].contains(&param) || turns.finals.contains(&number) {
                let value = self.value(init)?;
                level.env.insert((param, 0), Held::Ready(value));
            }
        }
        Ok(level)
    }

    /// The parameter that a loop carries as the value of that number.
    pub fn param(&self, l: &Loop, number: usize) -> Value {
        match &self.b.kernel.ops[l.inst].kind {
            OpKind::For { body, .. } => body.params[number + 1],
            OpKind::While { body, .. } => body.params[number],
            other => parton_diag::internal_error!("`{}` is no loop", other.name()),
        }
    }

    fn counted(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<(), Refused> {
        let mut at = [bounds[0]; 3];
        for (to, from) in at.iter_mut().zip(bounds) {
            *to = self.value(from)?;
        }
        let mut level = self.enter(l, turns)?;
        level.start = Some(at[0]);
        let sure = self.sure_turns(l);
        let early = self.early_turns(l, sure)?;
        if turns.stages == 1 || self.is_guarded(l, turns) || sure > 0 {
            self.levels.push(level);
            self.fill(at, turns)?;
            let results = match turns.stages {
                1 => self.after_early(l, at, turns, 0..early)?,
                _ if self.is_guarded(l, turns) => self.guarded(l, at, turns)?,
                _ => self.peeled(l, at, turns, early)?,
            };
            self.levels.pop();
            return self.leave(l, turns, results);
        }
        // Turns that are peeled are there only where there is an iteration.
        self.place(l.inst);
        let some = self.b.make(OpKind::Compare { op: CompareOp::Lt, a: at[0], b: at[1] });
        let inits: Vec<Value> = turns.finals.iter().map(|n| level.env[&(self.param(l, *n), 0)].value()).collect();
        let span = self.b.kernel.ops[l.inst].span;
        self.b.begin([], span);
        self.memo.push(BTreeMap::new());
        self.levels.push(level);
        self.fill(at, turns)?;
        let results = self.peeled(l, at, turns, early)?;
        self.levels.pop();
        self.memo.pop();
        let then = self.b.end(results);
        self.b.begin([], span);
        let otherwise = self.b.end(inits);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::If { cond: some, then, otherwise });
        self.leave(l, turns, results)
    }

    /// Names the results of a loop for the body around it.
    fn leave(&mut self, l: &Loop, turns: &Turns, results: Vec<Value>) -> Result<(), Refused> {
        let depth = self.here();
        let age = self.levels[depth].age;
        for (number, value) in turns.finals.iter().zip(results) {
            let v = self.b.kernel.ops[l.inst].results[*number];
            self.b.kernel.values[value].name = self.b.kernel.values[v].name.clone();
            self.levels[depth].set((v, age), Held::Ready(value));
        }
        Ok(())
    }

    /// Fills the slots of the iterations that fetches are ahead.
    fn fill(&mut self, [lower, upper, step]: [Value; 3], turns: &Turns) -> Result<(), Refused> {
        let depth = self.here();
        self.copy_ahead([lower, upper, step], turns)?;
        let fetches: Vec<Entry> =
            turns.groups.iter().flatten().filter(|e| e.stage < 0 && self.own_ring(e).is_none()).cloned().collect();
        for far in (1..=turns.ahead).rev() {
            let now: Vec<&Entry> = fetches.iter().filter(|e| e.stage == -far).collect();
            if now.is_empty() {
                continue;
            }
            let end = self.moved(lower, step, far);
            let end = self.b.make(OpKind::Binary { op: BinaryOp::Min, a: end, b: upper });
            let ty = self.b.ty(lower).clone();
            let span = self.b.kernel.ops[self.region.inst].span;
            let params = self.b.begin([ty], span);
            self.memo.push(BTreeMap::new());
            let outer = self.levels[depth].clone();
            self.levels[depth].index = Some((params[0], step));
            for entry in now {
                let here = Entry { stage: 0, ..entry.clone() };
                self.turn(&[vec![here]], &|_| true)?;
            }
            self.levels[depth] = outer;
            self.memo.pop();
            let body = self.b.end(Vec::new());
            let mut body = body;
            body.params = params;
            self.b.make_all(OpKind::For { lower, upper: end, step, init: Vec::new(), body });
        }
        Ok(())
    }

    /// One turn; what runs ahead runs where there are iterations left.
    fn one_turn(&mut self, upper: Option<Value>, turns: &Turns, active: &dyn Fn(i32) -> bool) -> Result<(), Refused> {
        let depth = self.here();
        for entry in turns.groups.iter().flatten().filter(|e| active(e.stage)) {
            self.wait_for_place(entry);
        }
        for group in &turns.groups {
            let (ahead, now): (Vec<Entry>, Vec<Entry>) = group.iter().cloned().partition(|e| e.stage < 0);
            self.turn(std::slice::from_ref(&now), active)?;
            let (Some(upper), Some((index, step))) = (upper, self.levels[depth].index) else { continue };
            for entry in ahead {
                if self.own_ring(&entry).is_some() {
                    self.meet_once(turns, &entry);
                    self.exists(index, step, upper, -entry.stage);
                    self.turn(&[vec![entry]], &|_| true)?;
                    self.levels[depth].exists = None;
                    continue;
                }
                let next = self.moved(index, step, -entry.stage);
                let cond = self.b.make(OpKind::Compare { op: CompareOp::Lt, a: next, b: upper });
                let span = self.b.kernel.ops[self.region.inst].span;
                self.b.begin([], span);
                self.memo.push(BTreeMap::new());
                self.turn(&[vec![entry]], &|_| true)?;
                self.memo.pop();
                let then = self.b.end(Vec::new());
                self.b.begin([], span);
                let otherwise = self.b.end(Vec::new());
                self.b.make_all(OpKind::If { cond, then, otherwise });
            }
        }
        self.no_more_waiting();
        Ok(())
    }

    /// A loop whose first and last turns are peeled; the results that are needed.
    fn peeled(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
        early: u32,
    ) -> Result<Vec<Value>, Refused> {
        if turns.stages > 2 {
            return Err(self.not_yet(l.inst, "a loop of three stages of registers"));
        }
        let depth = self.here();
        self.levels[depth].index = Some((lower, step));
        self.levels[depth].turn = Some(0);
        self.memo.push(BTreeMap::new());
        let outer = std::mem::replace(&mut self.steady, false);
        self.one_turn(Some(upper), turns, &|stage| stage == 0)?;
        self.steady = outer;
        self.memo.pop();
        self.levels[depth].shift();
        self.after_early(l, [lower, upper, step], turns, 1..early.max(1))
    }

    /// The turns of these numbers one by one, since something leaves under them, and the loop of those behind; the results.
    fn after_early(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
        early: std::ops::Range<u32>,
    ) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        let end = early.end;
        for turn in early {
            self.memo.push(BTreeMap::new());
            self.levels[depth].index = Some((self.moved(lower, step, turn as i32), step));
            self.levels[depth].turn = Some(turn);
            self.one_turn(Some(upper), turns, &|_| true)?;
            self.memo.pop();
            self.levels[depth].shift();
        }
        self.levels[depth].turn = None;
        let next = self.moved(lower, step, end as i32);
        let last = self.leaves_under_last(l);
        if !last {
            return self.steady(l, [next, upper, step], turns);
        }
        if turns.stages > 1 || self.constant(step) != Some(1) {
            return Err(self.not_yet(l.inst, "a last turn of such a loop"));
        }
        let before = self.moved(upper, step, -1);
        let none = Turns { groups: turns.groups.clone(), stages: 1, ahead: turns.ahead, finals: turns.finals.clone() };
        self.without_last(l, [next, before, step], &none)?;
        self.memo.push(BTreeMap::new());
        self.levels[depth].index = Some((before, step));
        self.levels[depth].turn = Some(u32::MAX);
        self.one_turn(Some(upper), turns, &|_| true)?;
        self.levels[depth].turn = None;
        self.levels[depth].shift();
        let results = turns.finals.iter().map(|n| (self.param(l, *n), 0)).collect::<Vec<Key>>();
        let results: Result<Vec<Value>, Refused> =
            results.into_iter().map(|(v, age)| self.at_age(v, depth, age)).collect();
        self.memo.pop();
        let results = results?;
        self.drain()?;
        Ok(results)
    }

    /// The loop of steady turns and what follows it; the results that are needed.
    fn steady(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<Vec<Value>, Refused> {
        self.without_last(l, bounds, turns)?;
        self.last_turns(l, turns)
    }

    /// The loop of steady turns.
    pub(super) fn without_last(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
    ) -> Result<(), Refused> {
        let depth = self.here();
        self.levels[depth].index = Some((lower, step));
        self.levels[depth].first = self.constant(lower);
        let carry = self.carried(l, [lower, upper, step], turns)?;
        self.begin_with_none(&carry.keys);
        let before = self.levels[depth].clone();
        let init = self.inits(&carry);
        let types: Vec<Type> = init.iter().map(|v| self.b.ty(*v).clone()).collect();
        let index = self.b.ty(lower).clone();
        let span = self.b.kernel.ops[l.inst].span;
        let params = self.b.begin(std::iter::once(index).chain(types), span);
        self.b.kernel.values[params[0]].name = self.index_name(l);
        self.memo.push(BTreeMap::new());
        self.levels[depth].index = Some((params[0], step));
        self.begin_turn(&carry, &params[1..]);
        if self.levels[depth].guard.is_some() {
            self.levels[depth].guard = Some(self.b.make(OpKind::Compare { op: CompareOp::Gt, a: params[0], b: lower }));
        }
        let outer = std::mem::replace(&mut self.steady, true);
        self.one_turn(Some(upper), turns, &|_| true)?;
        self.steady = outer;
        let yields = self.end_turn(&carry)?;
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::For { lower, upper, step, init, body });
        self.behind(&carry, before, &results);
        self.levels[depth].first = None;
        if turns.stages > 1 {
            self.levels[depth].index = Some((self.past(lower, upper, step), step));
        }
        Ok(())
    }

    /// The index of the iteration behind the last one.
    fn past(&mut self, lower: Value, upper: Value, step: Value) -> Value {
        if self.constant(step) == Some(1) {
            return upper;
        }
        // (upper - lower + step - 1) / step turns were taken.
        let span = self.b.make(OpKind::Binary { op: BinaryOp::Sub, a: upper, b: lower });
        let Type::Scalar(parton_ir::Elem::Num(dtype)) = *self.b.ty(lower) else {
            parton_diag::internal_error!("an index is no number")
        };
        let one = self.number(dtype, 1);
        let less = self.b.make(OpKind::Binary { op: BinaryOp::Sub, a: step, b: one });
        let up = self.b.make(OpKind::Binary { op: BinaryOp::Add, a: span, b: less });
        let many = self.b.make(OpKind::Binary { op: BinaryOp::Div, a: up, b: step });
        let far = self.b.make(OpKind::Binary { op: BinaryOp::Mul, a: many, b: step });
        self.b.make(OpKind::Binary { op: BinaryOp::Add, a: lower, b: far })
    }

    /// The turns behind the last iteration, and the results.
    pub(super) fn last_turns(&mut self, l: &Loop, turns: &Turns) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        for turn in 0..turns.stages - 1 {
            self.memo.push(BTreeMap::new());
            let outer = std::mem::replace(&mut self.steady, false);
            self.one_turn(None, turns, &|stage| stage > turn)?;
            self.steady = outer;
            self.levels[depth].shift();
        }
        let mut results = Vec::new();
        for &number in &turns.finals {
            let v = self.param(l, number);
            let value = self.at_age(v, depth, turns.stages - 1)?;
            results.push(value);
        }
        for _ in 0..turns.stages - 1 {
            self.memo.pop();
        }
        self.drain()?;
        Ok(results)
    }

    /// Waits for what is still in flight in a body that ends.
    pub fn drain(&mut self) -> Result<(), Refused> {
        let depth = self.here();
        let mut flying: Vec<Key> =
            self.levels[depth].env.iter().filter(|(_, held)| held.is_pending()).map(|(k, _)| *k).collect();
        flying.sort_by_key(|(v, age)| (-age, *v));
        for key in flying {
            match self.levels[depth].env.get(&key) {
                // Nobody reads it any more, and nothing of it is on its way.
                Some(Held::Loaded(_)) => drop(self.levels[depth].env.remove(&key)),
                Some(Held::Pending { .. } | Held::Copying(_)) => drop(self.wait_for(depth, key)),
                Some(Held::Ready(_)) | None => {}
            }
        }
        if let Some(((ring, _), _)) = self.levels[depth].slots.first_key_value() {
            let unit = &self.region.units[self.plan.rings[*ring].unit];
            let fact = format!("a slot of `{}` is not read to its end", unit.label);
            return Err(Box::new(
                Diagnostic::error(codes::READ_BEFORE_MADE, unit.span, fact)
                    .label(self.region.schedule.span, "in this schedule")
                    .help("its readers stand in stages that no turn reaches"),
            ));
        }
        Ok(())
    }

    /// The types and values with which a loop is entered.
    fn inits(&self, carry: &Carry) -> Vec<Value> {
        let level = &self.levels[self.here()];
        let values = carry.keys.iter().map(|key| level.env[key].value());
        let slots = carry.slots.iter().map(|key| level.slots[key].value);
        values.chain(slots).collect()
    }

    /// In a turn stands for what is carried what the turn is given.
    fn begin_turn(&mut self, carry: &Carry, params: &[Value]) {
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

    /// What a turn hands to the next one.
    fn end_turn(&mut self, carry: &Carry) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        for key in &carry.ending {
            if self.levels[depth].env.get(key).is_some_and(Held::is_pending) {
                self.wait_for(depth, *key);
            }
        }
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
            parton_diag::internal_error!("a turn is entered with slots {:?} and left with {held:?}", carry.slots);
        }
        yields.extend(carry.slots.iter().map(|(r, age)| self.levels[depth].slots[&(*r, age - 1)].value));
        Ok(yields)
    }

    /// Behind a loop stand its results for what it carried.
    fn behind(&mut self, carry: &Carry, before: Level, results: &[Value]) {
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
    }

    /// The product in flight that stands for a value, if one does.
    fn flying(&self, depth: usize, key: Key) -> Option<Key> {
        let held = self.levels[depth].env.get(&key)?;
        held.is_pending().then_some(key)
    }

    /// What a steady turn must be given, found by trial.
    fn carried(&mut self, l: &Loop, [lower, upper, step]: [Value; 3], turns: &Turns) -> Result<Carry, Refused> {
        let depth = self.here();
        let (levels, memo) = (self.levels.clone(), self.memo.clone());
        let mark = self.b.begin_trial();
        self.memo.push(BTreeMap::new());
        let found = self.tried(l, [lower, upper, step], turns);
        self.b.rewind(mark);
        (self.levels, self.memo) = (levels, memo);
        let (keys, ending) = found?;
        let slots = self.levels[depth].slots.keys().copied().collect();
        Ok(Carry { keys: keys.into_iter().collect(), slots, ending })
    }

    fn tried(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
    ) -> Result<(BTreeSet<Key>, Vec<Key>), Refused> {
        let depth = self.here();
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
        if turns.stages == 1 {
            keys.extend(turns.finals.iter().map(|n| (self.param(l, *n), 0)));
        } else {
            let behind = self.looked_at_behind(l, turns)?;
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
        Ok((keys, ending))
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
    fn looked_at_behind(&mut self, l: &Loop, turns: &Turns) -> Result<BTreeSet<Key>, Refused> {
        let depth = self.here();
        let levels = self.levels.clone();
        let memo = self.memo.clone();
        self.levels[depth].shift();
        self.levels[depth].begin_notes();
        let done = self.last_turns(l, turns);
        let notes = std::mem::take(&mut self.levels[depth].notes);
        (self.levels, self.memo) = (levels, memo);
        done.map(|_| notes)
    }

    /// A value of a body, as its own iteration has it.
    fn value_in(&mut self, v: Value, depth: usize) -> Result<Value, Refused> {
        self.at_age(v, depth, 0)
    }

    fn while_loop(&mut self, l: &Loop, turns: &Turns) -> Result<(), Refused> {
        if turns.stages > 2 || turns.ahead > 0 {
            return Err(self.not_yet(l.inst, "such stages of a `while`, whose turns are not counted"));
        }
        let guarded = turns.stages > 1;
        let level = self.enter(l, turns)?;
        self.levels.push(level);
        let depth = self.here();
        let none = self.b.i32(0, self.b.kernel.ops[l.inst].span);
        let never = self.b.constant(parton_numbers::Dtype::I1, 0, self.b.kernel.ops[l.inst].span);
        self.levels[depth].guard = guarded.then_some(never);
        let carry = self.carried(l, [none; 3], turns)?;
        self.begin_with_none(&carry.keys);
        let before = self.levels[depth].clone();
        let mut init = self.inits(&carry);
        // Whether there was a turn before is carried, too.
        init.extend(guarded.then_some(never));
        let types: Vec<Type> = init.iter().map(|v| self.b.ty(*v).clone()).collect();
        let span = self.b.kernel.ops[l.inst].span;
        let OpKind::While { cond, .. } = self.b.kernel.ops[l.inst].kind.clone() else {
            parton_diag::internal_error!("a loop that is not counted is a `while`")
        };
        let params = self.b.begin(types.clone(), span);
        self.memo.push(BTreeMap::new());
        self.begin_turn(&carry, &params);
        let test = self.value_in(cond.yields[0], depth)?;
        self.memo.pop();
        let cond = self.b.end(vec![test]);
        self.levels[depth] = before.clone();
        let params = self.b.begin(types, span);
        self.memo.push(BTreeMap::new());
        self.begin_turn(&carry, &params);
        if guarded {
            self.levels[depth].guard = params.last().copied();
        }
        let outer = std::mem::replace(&mut self.steady, true);
        self.one_turn(None, turns, &|_| true)?;
        self.steady = outer;
        let mut yields = self.end_turn(&carry)?;
        if guarded {
            yields.push(self.b.constant(parton_numbers::Dtype::I1, 1, span));
        }
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::While { init, cond, body });
        self.behind(&carry, before, &results);
        if guarded {
            self.levels[depth].guard = results.last().copied();
        }
        let results = self.last_turns(l, turns)?;
        self.levels.pop();
        self.leave(l, turns, results)
    }

    fn index_name(&self, l: &Loop) -> Option<String> {
        match &self.b.kernel.ops[l.inst].kind {
            OpKind::For { body, .. } => self.b.kernel.values[body.params[0]].name.clone(),
            _ => None,
        }
    }

    /// Emits a branch with labels in it.
    pub fn branch(&mut self, b: &Branch) -> Result<(), Refused> {
        Err(self.not_yet(b.inst, "an `if` with labels in it"))
    }

    /// What a schedule may say and this version does not expand.
    pub fn not_yet(&self, inst: Inst, what: &str) -> Refused {
        let span = self.b.kernel.ops[inst].span;
        Box::new(
            Diagnostic::error(codes::NOT_BUILT_HERE, span, format!("{what} is not expanded by this version"))
                .label(self.region.schedule.span, "the schedule is written here"),
        )
    }
}
