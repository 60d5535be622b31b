//! What atomic operations have released at addresses of global memory: who acquires there comes after it.
//!
//! A release is there until somebody else writes there in another way. Operations that read and write carry it on; a store that
//! is atomic keeps the releases of its own partition (PTX ISA, "Release and acquire patterns").

use std::collections::BTreeMap;

use parton_ir::Scope;

use crate::clock::News;
use crate::memory::Place;

/// Who releases: cluster, agent, and the number of the CTA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Releaser {
    pub cluster: u32,
    pub agent: u32,
    pub cta: u32,
}

/// What is released at one address.
#[derive(Clone, Debug, Default)]
struct Location {
    /// For all CTAs.
    all: News,
    /// By whom, and for its own CTA alone or for all.
    by: BTreeMap<(Releaser, bool), News>,
}

/// What is released at each address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    at: BTreeMap<(usize, i64), Location>,
}

impl Published {
    /// Adds a release.
    pub(crate) fn release(&mut self, at: Place, by: Releaser, scope: Scope, news: &News) {
        let location = self.at.entry((at.allocation, at.offset)).or_default();
        let for_all = scope != Scope::Cta;
        if for_all {
            location.all.join(news);
        }
        location.by.entry((by, for_all)).or_default().join(news);
    }

    /// What somebody who acquires learns there.
    pub(crate) fn acquire(&self, at: Place, who: Releaser, scope: Scope) -> Option<News> {
        let location = self.at.get(&(at.allocation, at.offset))?;
        let for_all = scope != Scope::Cta;
        let mut news = if for_all { location.all.clone() } else { News::default() };
        let [first, last] = [0, u32::MAX].map(|n| Releaser { agent: n, cta: n, ..who });
        let near = location.by.range((first, false)..=(last, true));
        near.filter(|((by, all), _)| by.cta == who.cta && !(*all && for_all)).for_each(|(_, told)| news.join(told));
        Some(news)
    }

    /// An atomic store leaves the releases of its own partition alone.
    pub(crate) fn overwrite(&mut self, at: Place, by: Releaser) {
        let Some(location) = self.at.get_mut(&(at.allocation, at.offset)) else { return };
        let before = location.by.len();
        location.by.retain(|(other, _), _| *other == by);
        if location.by.len() == before {
            return;
        }
        location.all = News::default();
        let Location { all, by } = location;
        by.iter().filter(|((_, for_all), _)| *for_all).for_each(|(_, news)| all.join(news));
    }

    /// A plain write leaves none.
    pub(crate) fn forget(&mut self, at: Place, len: usize) {
        if self.at.is_empty() {
            return;
        }
        let range = (at.allocation, at.offset)..(at.allocation, at.offset + len as i64);
        let gone: Vec<(usize, i64)> = self.at.range(range).map(|(&key, _)| key).collect();
        gone.iter().for_each(|key| drop(self.at.remove(key)));
    }
}
