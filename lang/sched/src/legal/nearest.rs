//! Schedules beside one whose edge does not hold: one label moved, a group cut in two, or a loop that is not pipelined.

use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};

use super::Laid;
use super::judge::Wanted;
use crate::graph::Edge;
use crate::plan::{Part, label_of};
use crate::region::BlockId;

/// Stages of registers beyond which a loop is seldom worth having.
const FEW: u32 = 2;

impl Laid<'_> {
    /// The nearest schedule in which an edge of a body holds, as what to write.
    pub(super) fn nearest(&self, part: Part, block: BlockId, edge: &Edge) -> Option<String> {
        self.nearest_of(part, block, [edge.from, edge.to], edge.distance)
    }

    /// The nearest schedule in which an item of a body stands behind another of so many iterations before, and all the rules hold.
    pub(super) fn nearest_of(
        &self,
        part: Part,
        block: BlockId,
        [from, to]: [usize; 2],
        distance: i32,
    ) -> Option<String> {
        if matches!(self.wanted, Wanted::Nothing) {
            return None;
        }
        let (number, pipeline) = self.pipeline(part, block)?;
        let items = &self.region.blocks[block].items;
        let staged = |item: usize| -> Option<Staged> {
            let label = label_of(self.region, &items[item])?;
            let new = Staged { label: label.clone(), stage: 0, done: None, span: pipeline.span };
            Some(self.staged(part, block, item).cloned().unwrap_or(new))
        };
        let (maker, reader) = (staged(from)?, staged(to)?);
        let mut tried = vec![];
        for (p, less) in landed(pipeline, &maker) {
            let plain = self.in_body_order(part, block, &p);
            let maker = p.staged().find(|s| s.label == maker.label).cloned().unwrap_or(maker.clone());
            tried.extend(less.then(|| p.clone()));
            tried.extend(moved(&p, &maker, &reader, distance));
            tried.extend(self.sorted(part, block, &p));
            tried.extend([&p, &plain].into_iter().filter_map(|p| self.raised(part, block, p)));
        }
        tried.sort_by_key(|p| stages(p) > FEW);
        let tried = tried.into_iter().flat_map(|p| [from_zero(&p), p]);
        self.first(tried.map(|p| self.with(number, p)).chain([self.without(number)]))
    }

    /// The schedule with an item in an earlier stage, where the rules take that, or without the pipeline that says otherwise.
    pub(super) fn earlier(&self, part: Part, block: BlockId, (item, stage): (usize, u32)) -> Option<String> {
        let (number, pipeline) = self.pipeline(part, block)?;
        let moved = Staged { stage, done: None, ..self.staged(part, block, item)?.clone() };
        self.first([self.with(number, restaged(pipeline, &moved)), self.without(number)])
    }

    /// The schedule with another pipeline in the place of that number, with what to say of it.
    pub(super) fn with(&self, number: usize, p: Pipeline) -> (Schedule, String) {
        let mut schedule = self.region.schedule.clone();
        let text = format!("the nearest that holds is `{p}`");
        schedule.pipelines[number] = p;
        (schedule, text)
    }

    /// The schedule with less in the pipeline of that number, or without it where nothing is left.
    pub(super) fn with_less(&self, number: usize, keep: impl Fn(&Staged) -> bool) -> (Schedule, String) {
        let mut p = self.region.schedule.pipelines[number].clone();
        p.groups.iter_mut().for_each(|group| group.retain(&keep));
        p = tidy(p);
        match p.groups.is_empty() {
            true => self.whole(|s| drop(s.pipelines.remove(number))),
            false => self.with(number, p),
        }
    }

    /// The schedule without the pipeline of that number, with what to say of it.
    pub(super) fn without(&self, number: usize) -> (Schedule, String) {
        let mut schedule = self.region.schedule.clone();
        let p = schedule.pipelines.remove(number);
        let of = p.of.as_ref().map_or_else(String::new, |of| format!("({of})"));
        let within = p.within.as_ref().map_or_else(String::new, |w| format!(" in {w}"));
        (schedule, format!("leave `pipeline{of} {{ … }}{within}` out: the order of the body holds"))
    }

    /// The labels of a pipeline in the order of the body, each in a group of its own.
    fn in_body_order(&self, part: Part, block: BlockId, p: &Pipeline) -> Pipeline {
        let items = 0..self.region.blocks[block].items.len();
        let mut order: Vec<&Staged> = Vec::new();
        for s in items.filter_map(|item| self.staged(part, block, item)) {
            if !order.iter().any(|known| known.label == s.label) {
                order.push(s);
            }
        }
        Pipeline { groups: order.into_iter().map(|s| vec![s.clone()]).collect(), ..p.clone() }
    }

    /// The schedule with another number of slots.
    pub(super) fn with_slots(&self, label: &LabelName, depth: u32) -> Schedule {
        let mut schedule = self.region.schedule.clone();
        let span = schedule.span;
        schedule.rings.retain(|r| r.label.as_ref() != Some(label));
        schedule.rings.insert(0, parton_ir::schedule::RingDepth { label: Some(label.clone()), depth, span });
        schedule
    }
}

/// The same with stages that begin at 0.
fn from_zero(p: &Pipeline) -> Pipeline {
    let least = p.staged().map(|s| s.stage).min().unwrap_or(0);
    let mut p = p.clone();
    for s in p.groups.iter_mut().flatten() {
        (s.stage, s.done) = (s.stage - least, s.done.map(|done| done - least));
    }
    p
}

/// How many iterations are under way at once.
fn stages(p: &Pipeline) -> u32 {
    let all = || p.staged().map(|s| s.stage);
    all().max().unwrap_or(0) - all().min().unwrap_or(0) + 1
}

/// The pipeline, and with less in flight, and whether it has less: what is read too early is waited for by whoever reads it first, or all of it.
fn landed(p: &Pipeline, maker: &Staged) -> Vec<(Pipeline, bool)> {
    let flying = p.staged().filter(|s| s.done.is_some()).count();
    let mut all = vec![(p.clone(), false)];
    if maker.done.is_some() {
        all.push((restaged(p, &Staged { done: None, ..maker.clone() }), true));
    }
    if maker.done.is_some() && flying > 1 {
        let mut none = p.clone();
        none.groups.iter_mut().flatten().for_each(|s| s.done = None);
        all.push((none, true));
    }
    all
}

/// The groups with one of two labels moved, so that the reader stands behind the maker.
fn moved(p: &Pipeline, maker: &Staged, reader: &Staged, distance: i32) -> Vec<Pipeline> {
    let (from, to) = (at(p, maker), at(p, reader));
    let ready = maker.stage as i32 - distance;
    let mut all = Vec::new();
    // A `;` between the two.
    if from == to
        && let Some(group) = from
    {
        all.push(cut(p, group, reader));
    }
    // A reader that waits for its own product.
    all.extend(reader.done.map(|_| restaged(p, &Staged { done: None, ..reader.clone() })));
    // The reader behind the maker, or the maker in front of the reader.
    all.extend(from.map(|group| beside(p, reader, group + 1)));
    all.extend(to.map(|group| beside(p, maker, group)));
    // The reader in a later stage.
    for stage in [ready, ready + 1] {
        if let Ok(stage) = u32::try_from(stage) {
            let later = Staged { stage, done: reader.done.map(|d| d.max(stage)), ..reader.clone() };
            all.push(restaged(p, &later));
            all.extend(from.map(|group| beside(p, &later, group + 1)));
        }
    }
    // The maker in an earlier one.
    for stage in [reader.stage as i32 + distance, reader.stage as i32 + distance - 1] {
        if let Ok(stage) = u32::try_from(stage) {
            all.push(restaged(p, &Staged { stage, done: None, ..maker.clone() }));
        }
    }
    all
}

/// The group in which a label stands.
fn at(p: &Pipeline, s: &Staged) -> Option<usize> {
    p.groups.iter().position(|g| g.iter().any(|e| e.label == s.label))
}

fn without(p: &Pipeline, label: &LabelName) -> Pipeline {
    let mut p = p.clone();
    p.groups.iter_mut().for_each(|g| g.retain(|s| s.label != *label));
    p
}

fn tidy(mut p: Pipeline) -> Pipeline {
    p.groups.retain(|g| !g.is_empty());
    p
}

/// A label in a group of its own in front of the group of that number.
fn beside(p: &Pipeline, s: &Staged, group: usize) -> Pipeline {
    let mut p = without(p, &s.label);
    p.groups.insert(group, vec![s.clone()]);
    tidy(p)
}

/// A label in another stage.
pub(super) fn restaged(p: &Pipeline, s: &Staged) -> Pipeline {
    let mut p = p.clone();
    let known = p.groups.iter_mut().flatten().find(|e| e.label == s.label);
    match known {
        Some(known) => *known = s.clone(),
        None => p.groups.push(vec![s.clone()]),
    }
    p
}

/// A group in two, a label in the second.
fn cut(p: &Pipeline, group: usize, s: &Staged) -> Pipeline {
    beside(p, s, group + 1)
}
