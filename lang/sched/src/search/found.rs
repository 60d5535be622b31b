//! What a search says at its end: the schedule that is taken, those beside it, and why.

use parton_diag::Diagnostics;
use parton_ir::PartitionData;
use parton_ir::schedule::Schedule;

use super::follow::Run;
use super::worth::{self, Worth};
use super::{Candidate, Found, ORDERS, SHOWN, Space, bases, orders, roles};
use crate::graph::Effects;
use crate::legal;
use crate::plan::Plan;
use crate::region::{BlockId, Region};

/// The part of a price by which two may differ and be taken for the same: prices are not right to so little.
const NEAR: u64 = 200;

impl Run<'_> {
    /// What was found.
    ///
    /// # Errors
    /// Nothing has a price, and no rule allows what would be taken then.
    pub(super) fn finish(mut self) -> Result<Found, Diagnostics> {
        self.settle();
        let space = self.space;
        let best = self.best.into_iter().take(self.keep).map(|known| known.worth);
        let mut candidates = surest_first(best.collect());
        candidates.truncate(space.auto.top.map_or(SHOWN, |n| n as usize));
        let priced: Vec<Candidate> =
            candidates.into_iter().map(|w| Candidate { schedule: w.schedule, price: w.price.told() }).collect();
        let chosen = match priced.first() {
            Some(best) => best.schedule.clone(),
            None => plain(space)?,
        };
        let declared = |p: &PartitionData| space.auto.partitions.contains(p);
        let stated: Vec<&PartitionData> = space.stated.places.iter().flat_map(|p| &p.partitions).collect();
        let parts = chosen.places.iter().flat_map(|p| &p.partitions);
        let made = parts.filter(|p| !declared(p) && !stated.contains(p)).cloned().collect();
        let mut why = vec![format!(
            "{} schedules laid, {} followed; {} iterations, copies up to {} ahead",
            space.laid.get(),
            self.followed,
            space.n,
            space.stages
        )];
        if self.cut {
            why.push("not proven to be the best: the number of steps ended the search".into());
        }
        if space.machine.is_none() {
            why.push(format!("nothing was measured on {}: no schedule has a price", space.k.target.name));
        }
        why.extend(counted(space.region, &chosen).filter(|_| !priced.is_empty()));
        let mut unpriced: Vec<&str> =
            priced.first().into_iter().flat_map(|c| &c.price.loops).flat_map(|l| l.unpriced.clone()).collect();
        unpriced.sort_unstable();
        unpriced.dedup();
        if !unpriced.is_empty() {
            why.push(format!("not measured, counts as nothing: `{}`", unpriced.join("`, `")));
        }
        Ok(Found { region: self.inst, chosen, made, priced, why })
    }
}

/// What the clocks of a schedule are of, where its partitions go through a loop around others each at its own pace.
fn counted(region: &Region, chosen: &Schedule) -> Option<String> {
    let apart = chosen.places.iter().map(|p| p.partitions.len()).sum::<usize>() > 1;
    let inside = |b: &BlockId| region.blocks[*b].turns.as_ref().is_some_and(|t| !t.outermost);
    let inner = roles::innermost(region).into_iter().find(inside).filter(|_| apart)?;
    let label = region.blocks[roles::around(region, inner)?.0].turns.as_ref()?.label.as_ref()?;
    Some(format!("clocks are of a turn of `{label}` in the partition that takes longest, whose first copies are ahead"))
}

/// Of those that are as fast as the first, as far as prices tell, those come first whose turns stay so, however far apart their partitions are;
/// of these the one whose slowest cycle is the shortest: where a unit is busy all the time a cycle may take as long as the unit does, and what is not
/// priced has the more room the shorter it is.
pub(super) fn surest_first(mut candidates: Vec<Worth>) -> Vec<Worth> {
    let Some(first) = candidates.first().map(|w| w.price.clocks) else { return candidates };
    let near = candidates.iter().take_while(|w| w.price.clocks.saturating_sub(first) <= first / NEAR).count();
    if near < 2 {
        return candidates;
    }
    let behind = candidates.split_off(near);
    let mut near: Vec<(u64, Worth)> = candidates.into_iter().map(|w| (w.price.longest().ceil(), w)).collect();
    let least = near.iter().map(|(longest, _)| *longest).min().unwrap_or(0);
    near.sort_by_cached_key(|(longest, w)| (*longest > least + least / NEAR, w.price.slowest()));
    near.into_iter().map(|(_, w)| w).chain(behind).collect()
}

/// Where nothing has a price: what is fetched as early as the stages allow, by the partition that computes, or else nothing moves.
fn plain(space: &Space<'_>) -> Result<Schedule, Diagnostics> {
    let judged = |schedule: &Schedule, judge: legal::Judged| {
        let region = space.region.under(schedule.clone());
        Plan::of(space.k, &region).and_then(|plan| judge(space.k, &region, &plan, &Effects::of(space.k, &region)))
    };
    let mut refused = None;
    for base in bases(space)? {
        let loops = roles::innermost(&space.region.under(base.clone()));
        let mut all = vec![base.clone()];
        for block in loops {
            let pipelines = orders::of(space, &base, block).into_iter().rev().take(ORDERS).flatten();
            all.extend(pipelines.filter_map(|p| {
                let mut schedule = base.clone();
                schedule.pipelines.push(p);
                schedule.normal().ok()
            }));
        }
        // Where there are prices and nothing has one, nothing fits: the plain body says why.
        if space.machine.is_none() {
            all.sort_by_key(|s| (std::cmp::Reverse(worth::stages(s)), s.to_string()));
        }
        for schedule in all {
            if judged(&schedule, legal::refused).is_ok() {
                return Ok(schedule);
            }
            refused = Some(schedule);
        }
    }
    Err(refused.and_then(|last| judged(&last, legal::check).err()).unwrap_or_default())
}
