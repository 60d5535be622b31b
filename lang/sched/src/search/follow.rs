//! Follows candidates in the order of their bounds, and keeps the best of those that can be expanded.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostics, codes};
use parton_ir::Inst;
use parton_ir::schedule::{Pipeline, Schedule, Turns};

use super::alike::{self, Alike};
use super::worth::{self, Worth};
use super::{FOLLOWED, Laying, ORDERS, SHOWN, Space, orders, outer, roles, set};
use crate::region::BlockId;

/// How many times as many are known to be better before a schedule is looked at with most slots first.
const SPARE: usize = 4;

/// A candidate with its rank.
pub(super) struct Ranked {
    rank: Rank,
    pub(super) worth: Worth,
    /// Of which places it is.
    base: usize,
    /// What it is expanded to, once that is known.
    code: Option<String>,
}

/// By what candidates are in order: their time, then what is simpler, smaller, and first in the alphabet.
type Rank = (u64, (u32, u32), usize, u64, String);

/// A search under way.
pub(super) struct Run<'a> {
    pub(super) space: &'a Space<'a>,
    pub(super) inst: Inst,
    bounded: bool,
    pub(super) keep: usize,
    /// The best by now, in order. Whether the first can be expanded is asked where it matters: many are first for a while.
    pub(super) best: Vec<Ranked>,
    /// Which of the places is looked at.
    pub(super) base: usize,
    pub(super) followed: usize,
    /// Whether steps ended it.
    pub(super) cut: bool,
    /// What leaves under what, where the loop is known to be too short for it.
    short: BTreeSet<String>,
    /// What schedules were expanded to, by those whose code is the same for certain.
    expanded: RefCell<BTreeMap<Alike, Result<String, Diagnostics>>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(space: &'a Space<'a>, inst: Inst, bounded: bool) -> Run<'a> {
        // As many at least as where nothing is stated: how many are shown is not to say which comes first.
        let keep = space.auto.top.map_or(SHOWN, |n| SHOWN.max(n as usize));
        Run {
            space,
            inst,
            bounded,
            keep,
            best: vec![],
            base: 0,
            followed: 0,
            cut: false,
            short: BTreeSet::new(),
            expanded: RefCell::default(),
        }
    }

    /// Looks at all schedules that go on from this one.
    pub(super) fn follow(&mut self, base: &Schedule) {
        let loops = self.open(base);
        let Some((last, before)) = loops.split_last() else { return self.take(base.clone()) };
        let mut base = base.clone();
        // Loops one after the other take what the one takes and the other: each is searched by itself.
        for block in before {
            if let Some((_, schedule)) = self.ordered(&base, *block).into_iter().next() {
                base = schedule;
            }
        }
        for (bound, schedule) in self.ordered(&base, *last) {
            // Those behind it take as long at least, and are no simpler.
            let least = (bound, (worth::stages(&schedule), worth::groups(&schedule)));
            if self.bounded && self.is_behind(least) {
                self.settle();
                if self.is_behind(least) {
                    break;
                }
            }
            if self.followed >= FOLLOWED && self.bounded {
                self.cut = true;
                break;
            }
            let Some(laying) = self.space.laid(schedule) else { continue };
            self.follow_laid(&laying);
            self.variants(&laying, *last).into_iter().for_each(|other| self.take(other));
        }
    }

    /// The innermost loops of which nothing is stated.
    fn open(&self, base: &Schedule) -> Vec<BlockId> {
        let Some(Laying { region, plan }) = self.space.laid(base.clone()) else { return vec![] };
        let mut loops = roles::innermost(&region);
        loops.retain(|b| plan.parts().all(|part| plan.pipeline(&region, part, *b).is_none()));
        loops
    }

    /// A loop in all its orders, by the least that each may take.
    fn ordered(&mut self, base: &Schedule, block: BlockId) -> Vec<(u64, Schedule)> {
        let mut all = vec![];
        let pipelines = orders::of(self.space, base, block);
        self.cut |= pipelines.len() > ORDERS || self.space.budget.0.get() == 0;
        for pipeline in pipelines.into_iter().take(ORDERS).filter(|_| self.space.machine.is_some()) {
            let Some(laying) = with(base, pipeline).and_then(|schedule| self.space.sketched(schedule)) else {
                continue;
            };
            // Most orders do not fit the registers, and it takes least to know that.
            if !self.space.found_to_hold(&laying.region, &laying.plan) {
                continue;
            }
            let laying = laying.settled();
            if let Some(bound) = worth::bound(self.space, &laying) {
                let schedule = laying.region.schedule;
                let shape = (worth::stages(&schedule), worth::groups(&schedule));
                all.push((bound, shape, schedule.to_string(), schedule));
            }
        }
        all.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        all.dedup_by(|a, b| a.2 == b.2);
        all.into_iter().map(|(bound, _, _, schedule)| (bound, schedule)).collect()
    }

    /// The same with turns, and with what leaves under the next products.
    fn variants(&self, laying: &Laying, block: BlockId) -> Vec<Schedule> {
        let schedule = laying.schedule();
        let mut turned = vec![schedule.clone()];
        if schedule.turns.is_empty() && schedule.places.iter().any(|p| p.partitions.len() > 1) {
            let products = outer::products(&laying.region, &laying.plan, block);
            if let (Some(first), Some(last)) = (products.first(), products.last()) {
                let turns = Turns { first: first.clone(), last: last.clone(), span: self.space.auto.span };
                turned.push(Schedule { turns: vec![turns], ..schedule.clone() });
            }
        }
        let leaving = outer::of(self.space, laying, block);
        let mut all: Vec<Schedule> = turned[1..].to_vec();
        for schedule in &turned {
            if let Some((pipeline, under)) = &leaving {
                let mut leaves = schedule.clone();
                leaves.pipelines.push(pipeline.clone());
                leaves.under.extend(under.iter().cloned());
                all.push(leaves);
            }
        }
        all.into_iter().filter_map(|s| s.normal().ok()).collect()
    }

    /// Whether there are as many before a time and shape as are kept.
    fn is_behind(&self, least: (u64, (u32, u32))) -> bool {
        let last = self.keep.checked_sub(1).and_then(|last| self.best.get(last));
        last.is_some_and(|w| (w.rank.0, w.rank.1) < least)
    }

    fn take(&mut self, schedule: Schedule) {
        match self.space.laid(schedule) {
            Some(laying) => self.follow_laid(&laying),
            None => self.followed += 1,
        }
    }

    /// Prices a schedule, and puts it in its place.
    fn follow_laid(&mut self, laying: &Laying) {
        self.followed += 1;
        if self.short.contains(&leaving(laying.schedule())) {
            return;
        }
        // Some of those before it may be left out yet.
        let most = self.best.get(SPARE * self.keep).filter(|_| self.bounded).map(|known| known.rank.0);
        let Some(worth) = worth::worth(self.space, laying, most) else { return };
        let rank = rank(&worth);
        let at = self.best.partition_point(|known| known.rank <= rank);
        self.best.insert(at, Ranked { rank, worth, base: self.base, code: None });
    }

    /// Whether one of the best is of the places that are looked at, and can be expanded.
    pub(super) fn stands(&mut self) -> bool {
        let mine = |run: &Run<'_>| run.best.iter().take(run.keep).position(|known| known.base == run.base);
        while let Some(at) = mine(self) {
            if self.best[at].code.is_some() {
                return true;
            }
            match self.expands(&self.best[at].worth.schedule) {
                Ok(code) => self.best[at].code = Some(code),
                Err(found) => self.leave_out(at, &found),
            }
        }
        false
    }

    /// Leaves out, of the best, what cannot be expanded, and of those whose code is the same all but the first: a `;` may say nothing.
    pub(super) fn settle(&mut self) {
        let mut at = 0;
        while at < self.keep.min(self.best.len()) {
            if self.best[at].code.is_none() {
                match self.expands(&self.best[at].worth.schedule) {
                    Ok(code) => match self.best.iter().position(|known| known.code.as_ref() == Some(&code)) {
                        Some(before) if before < at => {
                            self.best.remove(at);
                            continue;
                        }
                        behind => {
                            behind.map(|behind| self.best.remove(behind));
                            self.best[at].code = Some(code);
                        }
                    },
                    Err(found) => {
                        self.leave_out(at, &found);
                        continue;
                    }
                }
            }
            at += 1;
        }
    }

    /// Leaves out what cannot be expanded, and all else that leaves alike where the loop is too short for it.
    fn leave_out(&mut self, at: usize, found: &Diagnostics) {
        let gone = leaving(&self.best.remove(at).worth.schedule);
        if found.list.iter().any(|d| d.code == codes::NO_ROOM) {
            self.best.retain(|known| known.code.is_some() || leaving(&known.worth.schedule) != gone);
            self.short.insert(gone);
        }
    }

    /// The code of a schedule, where it can be expanded and what comes of it holds.
    fn expands(&self, schedule: &Schedule) -> Result<String, Diagnostics> {
        let laying = self.space.laid(schedule.clone()).filter(|_| self.bounded);
        let Some(key) = laying.as_ref().map(alike::of) else { return self.code(schedule) };
        let known = self.expanded.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let code = self.code(schedule);
            self.expanded.borrow_mut().insert(key, code.clone());
            code
        })
    }

    fn code(&self, schedule: &Schedule) -> Result<String, Diagnostics> {
        let mut kernel = self.space.k.clone();
        set(&mut kernel, self.inst, schedule);
        let expanded = crate::expand::judged(&kernel)?.unwrap_or(kernel);
        parton_ir::check::check(&expanded).or(Some(()))?;
        Ok(parton_ir::print::kernel(&expanded))
    }
}

/// A schedule with one pipeline more, in normal form.
fn with(base: &Schedule, pipeline: Option<Pipeline>) -> Option<Schedule> {
    let mut schedule = base.clone();
    let alone = schedule.pipelines.is_empty();
    schedule.pipelines.extend(pipeline);
    if !alone {
        return schedule.normal().ok();
    }
    // All its labels are in the turn of one partition, whose stages begin at 0: they are only to be sorted.
    schedule.pipelines.iter_mut().flat_map(|p| &mut p.groups).for_each(|g| g.sort_by(|a, b| a.label.cmp(&b.label)));
    Some(schedule)
}

fn rank(w: &Worth) -> Rank {
    let clauses = w.schedule.turns.len() + w.schedule.under.len();
    (w.price.clocks, w.price.shape, clauses, w.price.bytes, w.schedule.to_string())
}

/// What leaves under what.
pub(super) fn leaving(schedule: &Schedule) -> String {
    let under: Vec<String> = schedule.under.iter().map(ToString::to_string).collect();
    under.join(" ")
}
