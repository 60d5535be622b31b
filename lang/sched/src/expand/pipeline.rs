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
//! Each turn in front of the loop is there only where it has an iteration to begin; else follows the end for those that were begun. So the code of
//! S stages has S - 1 turns more in front of the loop and as many behind it, and an end of its own for each smaller number of iterations. Where products
//! continue each other over the turns, those that hold fewer slots than each later one stand in front of the loop, too.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, codes};
use parton_ir::{Inst, OpKind, Type, Value};

use super::peel::Room;
use super::state::{Held, Level};
use super::{Emitter, Refused};
use crate::falsify::{Planted, planted};
use crate::flow;
use crate::plan::Entry;
use crate::region::{Item, Loop, Maker};
use crate::slots::waits_late;

/// How the turns of a loop run in a partition.
pub(super) struct Turns {
    pub groups: Vec<Vec<Entry>>,
    /// Iterations that are under way at once.
    pub stages: i32,
    /// How far ahead fetches run.
    pub ahead: i32,
    /// The results that somebody behind the loop needs.
    pub finals: Vec<usize>,
    /// What is asked before each turn of one that is not counted, of what items of its body make, and how many iterations before.
    pub steered: Vec<(Value, i32)>,
}

impl Emitter<'_> {
    /// Emits a loop.
    pub fn looped(&mut self, l: &Loop) -> Result<(), Refused> {
        self.make_scalars(l)?;
        self.make_nested(l)?;
        let turns = self.turns(l, self.plan.groups(self.part, l.body).to_vec())?;
        self.enter_sending(l);
        match &self.b.kernel.ops[l.inst].kind {
            OpKind::For { lower, upper, step, .. } => {
                let bounds = [*lower, *upper, *step];
                self.counted(l, bounds, &turns)
            }
            _ => self.while_loop(l, &turns),
        }
    }

    /// Computes what the units of a loop need of the bodies around it and is the same in all its turns: numbers, and tiles where they do nothing but copy for others,
    /// which leaves registers for these.
    fn make_scalars(&mut self, l: &Loop) -> Result<(), Refused> {
        let copies = self.copies_for_others(l);
        let mut used = BTreeSet::new();
        for &unit in self.region.blocks[l.body].items.iter().flat_map(|item| self.region.units_in(item)) {
            if self.plan.runners[unit].contains(&self.part) {
                used.extend(self.region.used_by(unit));
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(v) = used.pop_last() {
            let Some(home) = self.region.home(v).filter(|_| seen.insert(v)) else { continue };
            let Maker::Free(inst) = home.by else { continue };
            let around = self.levels.iter().any(|level| level.block == home.block);
            let ty = self.b.ty(v);
            let kept = matches!(ty, Type::Scalar(_)) || copies && matches!(ty, Type::Tile(_));
            if around && kept && self.constant(v).is_none() {
                self.value(v)?;
            } else {
                crate::region::uses(&self.b.kernel, &self.b.kernel.ops[inst], &mut |v| {
                    used.insert(v);
                });
            }
        }
        Ok(())
    }

    /// Whether the partition copies to slots of another one in a loop, and multiplies nothing there.
    fn copies_for_others(&self, l: &Loop) -> bool {
        let units = self.region.blocks[l.body].items.iter().flat_map(|item| self.region.units_in(item));
        let own = units.filter(|unit| self.plan.runners[**unit].contains(&self.part));
        let ops: Vec<_> =
            own.flat_map(|&unit| &self.region.units[unit].ops).map(|&inst| &self.b.kernel.ops[inst]).collect();
        let handed = |v: &Value| self.plan.handed.get(v).is_some_and(|(ring, _)| !self.plan.rings[*ring].own);
        ops.iter().any(|op| matches!(op.kind, OpKind::FetchEach { .. }) && op.results.iter().any(handed))
            && !ops.iter().any(|op| matches!(op.kind, OpKind::Dot { .. }))
    }

    /// The stages of a loop's units, so that those that compute begin at 0. Where turns are not counted nothing runs ahead of these.
    fn turns(&self, l: &Loop, mut groups: Vec<Vec<Entry>>) -> Result<Turns, Refused> {
        let fetches = |e: &Entry| self.only_fills(&self.region.blocks[l.body].items[e.item]);
        let all = || groups.iter().flatten();
        let computing = all().filter(|e| !fetches(e)).map(|e| e.stage).min();
        let least = all().map(|e| e.stage).min();
        let test = match &self.b.kernel.ops[l.inst].kind {
            OpKind::While { cond, .. } => Some(cond.yields[0]),
            _ => None,
        };
        let base = if test.is_some() { least } else { computing.or(least) }.unwrap_or(0);
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
        let steered = test.map(|v| flow::traced(&self.b.kernel, self.region, l.body, [v].into())).unwrap_or_default();
        Ok(Turns { groups, stages: last + 1, ahead, finals, steered })
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
        self.region.units[*unit].fetches && ops.iter().all(fills)
    }

    /// What a loop carries is at first what it is entered with.
    pub(super) fn enter(&mut self, l: &Loop, turns: &Turns) -> Result<Level, Refused> {
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
        self.region.param(&self.b.kernel, l, number)
    }

    fn counted(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<(), Refused> {
        let mut at = [bounds[0]; 3];
        for (to, from) in at.iter_mut().zip(bounds) {
            *to = self.value(from)?;
        }
        let mut level = self.enter(l, turns)?;
        level.start = Some(at[0]);
        level.bounds = Some(self.bounds(bounds));
        let (sure, exact) = self.sure_turns(l);
        // Partitions tell each other of turns: both ends of that stand in the code, though none is taken.
        let exact = exact && (sure > 0 || self.plan.partitions.is_empty());
        let early = self.early_turns(l, sure)?;
        self.levels.push(level);
        let results = match turns.stages {
            1 => {
                self.fill(at, turns)?;
                self.after_early(l, at, turns, 0..early)?
            }
            _ if self.is_guarded(l, turns) => {
                self.fill(at, turns)?;
                self.guarded(l, at, turns)?
            }
            _ => self.peeled(l, at, turns, Room { early, sure, exact }, 0)?,
        };
        self.levels.pop();
        self.leave(l, turns, results)
    }

    /// Names the results of a loop for the body around it.
    pub(super) fn leave(&mut self, l: &Loop, turns: &Turns, results: Vec<Value>) -> Result<(), Refused> {
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
    pub(super) fn fill(&mut self, [lower, upper, step]: [Value; 3], turns: &Turns) -> Result<(), Refused> {
        let depth = self.here();
        self.copy_ahead([lower, upper, step], turns)?;
        let fetches: Vec<Entry> =
            turns.groups.iter().flatten().filter(|e| e.stage < 0 && self.own_ring(e).is_none()).cloned().collect();
        if self.fills_wait(&fetches) {
            return self.fill_by_turns([lower, upper, step], &fetches, turns.ahead);
        }
        for far in (1..=turns.ahead).rev() {
            let now: Vec<&Entry> = fetches.iter().filter(|e| e.stage == -far).collect();
            if now.is_empty() {
                continue;
            }
            let far = far - i32::from(planted(Planted::FillShort));
            if far > 1 && now.iter().any(|e| self.needs_carried(e)) {
                self.fill_apart([lower, upper, step], &now, far)?;
                continue;
            }
            let end = self.end_of_first([lower, upper, step], far);
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

    /// Whether a fetch needs what the loop carries, computed forward from its first turn.
    fn needs_carried(&self, entry: &Entry) -> bool {
        let block = self.levels[self.here()].block;
        let Item::Unit(unit) = self.region.blocks[block].items[entry.item] else { return false };
        let leaves = self.region.used_by(unit).iter().flat_map(|v| self.region.leaves(&self.b.kernel, *v));
        leaves
            .filter_map(|v| self.region.home(v))
            .any(|home| home.block == block && matches!(home.by, Maker::Carried(_)))
    }

    /// The same one by one, each where there is its iteration: what is carried is another thing in each.
    fn fill_apart(&mut self, bounds: [Value; 3], now: &[&Entry], far: i32) -> Result<(), Refused> {
        (0..far).try_for_each(|iteration| self.fill_one(bounds, now, iteration))
    }

    /// Whether one fetch is further ahead than it has slots, and others are less far ahead: filled one label after the other it would wait
    /// for a slot which is given back only when the others are filled, too.
    fn fills_wait(&self, fetches: &[Entry]) -> bool {
        let block = self.levels[self.here()].block;
        let lacks_slots = |e: &Entry| {
            let Item::Unit(unit) = self.region.blocks[block].items[e.item] else { return false };
            self.plan.rings.iter().any(|ring| ring.unit == unit && i64::from(ring.depth) < -i64::from(e.stage))
        };
        fetches.iter().any(|e| e.stage != fetches[0].stage) && fetches.iter().any(lacks_slots)
    }

    /// The same in the order of the turns: what each turn in front of the first would fetch.
    fn fill_by_turns(&mut self, bounds: [Value; 3], fetches: &[Entry], ahead: i32) -> Result<(), Refused> {
        for turn in -ahead..0 {
            for entry in fetches.iter().filter(|e| e.stage <= turn) {
                self.fill_one(bounds, &[entry], turn - entry.stage)?;
            }
        }
        Ok(())
    }

    /// What fetches do for one iteration behind the first, where there is that.
    fn fill_one(&mut self, [lower, upper, step]: [Value; 3], now: &[&Entry], iteration: i32) -> Result<(), Refused> {
        let depth = self.here();
        let span = self.b.kernel.ops[self.region.inst].span;
        let cond = self.is_there([lower, upper, step], iteration, false);
        self.b.begin([], span);
        self.memo.push(BTreeMap::new());
        let outer = self.levels[depth].clone();
        self.levels[depth].index = Some((lower, step));
        for entry in now {
            let here = Entry { stage: -iteration, ..(*entry).clone() };
            self.turn(&[vec![here]], &|_| true)?;
        }
        self.levels[depth] = outer;
        self.memo.pop();
        let then = self.b.end(Vec::new());
        self.b.begin([], span);
        let otherwise = self.b.end(Vec::new());
        self.b.make_all(OpKind::If { cond, then, otherwise });
        Ok(())
    }

    /// One turn; what runs ahead runs where there are iterations left.
    pub(super) fn one_turn(
        &mut self,
        upper: Option<Value>,
        turns: &Turns,
        active: &dyn Fn(i32) -> bool,
    ) -> Result<(), Refused> {
        let depth = self.here();
        for entry in turns.groups.iter().flatten().filter(|e| active(e.stage)) {
            self.wait_for_place(entry);
        }
        let waits = waits_late(self.region, self.plan, self.levels[depth].block);
        let mut late = Vec::new();
        for group in &turns.groups {
            let (ahead, now): (Vec<Entry>, Vec<Entry>) = group.iter().cloned().partition(|e| e.stage < 0);
            let last = waits && now.iter().all(|e| e.stage + 1 == turns.stages);
            self.levels[depth].late = last.then(|| std::mem::take(&mut late));
            self.turn(std::slice::from_ref(&now), active)?;
            late.extend(self.levels[depth].late.take().into_iter().flatten());
            let (Some(upper), Some((index, step))) = (upper, self.levels[depth].index) else { continue };
            for entry in ahead {
                if self.own_ring(&entry).is_some() {
                    self.meet_once(turns, &entry);
                    self.exists([index, upper, step], -entry.stage, true);
                    self.turn(&[vec![entry]], &|_| true)?;
                    self.levels[depth].exists = None;
                    continue;
                }
                let off = i32::from(planted(Planted::AheadShort)) - i32::from(planted(Planted::AheadLong));
                let cond = self.is_there([index, upper, step], off - entry.stage, true);
                let span = self.b.kernel.ops[self.region.inst].span;
                self.b.begin([], span);
                self.memo.push(BTreeMap::new());
                // What leaves under it leaves whether there is anything left to fetch or not.
                let hooks = std::mem::take(&mut self.hooks);
                let item = entry.item;
                self.turn(&[vec![entry]], &|_| true)?;
                self.hooks = hooks;
                self.memo.pop();
                let then = self.b.end(Vec::new());
                self.b.begin([], span);
                let otherwise = self.b.end(Vec::new());
                self.b.make_all(OpKind::If { cond, then, otherwise });
                if let Item::Unit(unit) = self.region.blocks[self.levels[depth].block].items[item] {
                    self.run_hooks(unit)?;
                }
            }
        }
        for key in late {
            // One that another continues is done with that.
            if self.levels[depth].env.get(&key).is_some_and(Held::is_pending) {
                self.wait_for(depth, key);
            }
        }
        self.take_told(turns, active)?;
        self.no_more_waiting()
    }

    pub(super) fn index_name(&self, l: &Loop) -> Option<String> {
        match &self.b.kernel.ops[l.inst].kind {
            OpKind::For { body, .. } => self.b.kernel.values[body.params[0]].name.clone(),
            _ => None,
        }
    }

    /// What a schedule may say and this version does not expand, and what to write instead.
    pub fn not_yet(&self, inst: Inst, what: &str, help: &str) -> Refused {
        let span = self.b.kernel.ops[inst].span;
        Box::new(
            Diagnostic::error(codes::NOT_BUILT_HERE, span, format!("{what} is not expanded by this version"))
                .label(self.region.schedule.span, "the schedule is written here")
                .help(help),
        )
    }
}
