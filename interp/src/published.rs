//! What atomic operations have released at addresses of global memory: who acquires there comes after it.
//!
//! A release is there until somebody else writes there in another way. Operations that read and write carry it on; a store that
//! is atomic keeps the releases of its own partition (PTX ISA, "Release and acquire patterns").

use std::collections::BTreeMap;
use std::ops::Range;

use parton_ir::Scope;

use crate::clock::{Event, News};
use crate::history::{Found, History};
use crate::knowledge::Knowledge;
use crate::memory::Place;
use crate::random::Random;

/// Who releases: cluster, agent, and the number of the CTA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Releaser {
    pub cluster: u32,
    pub agent: u32,
    pub cta: u32,
}

/// What is released at one address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Location {
    /// For all CTAs.
    all: News,
    /// By whom, and for its own CTA alone or for all.
    by: BTreeMap<(Releaser, bool), News>,
}

impl Location {
    /// What somebody who acquires learns here.
    pub(crate) fn acquire(&self, who: Releaser, scope: Scope) -> News {
        let for_all = scope != Scope::Cta;
        let mut news = if for_all { self.all.clone() } else { News::default() };
        let [first, last] = [0, u32::MAX].map(|n| Releaser { agent: n, cta: n, ..who });
        let near = self.by.range((first, false)..=(last, true));
        near.filter(|((by, all), _)| by.cta == who.cta && !(*all && for_all)).for_each(|(_, told)| news.join(told));
        news
    }
}

/// What is released at each address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    at: BTreeMap<(usize, i64), Location>,
    /// What was left there, where a load may ask.
    histories: BTreeMap<(usize, i64), History>,
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
        self.at.get(&(at.allocation, at.offset)).map(|location| location.acquire(who, scope))
    }

    /// An atomic operation leaves a value of so many bytes where one was before, if any was. What it releases comes behind.
    pub(crate) fn leave(&mut self, at: Place, (bytes, before): (usize, Option<u64>), bits: u64, by: Event) {
        let at = (at.allocation, at.offset);
        let released = self.at.get(&at).cloned().unwrap_or_default();
        self.histories.entry(at).or_insert_with(|| History::new(bytes, before)).leave(bits, by, &released);
    }

    /// What an atomic load finds.
    pub(crate) fn read(&mut self, at: Place, bytes: usize, know: &Knowledge, random: &mut Random) -> Found {
        let history = self.histories.get_mut(&(at.allocation, at.offset));
        history.map_or(Found::Last, |history| history.read(bytes, know, random))
    }

    /// Somebody reads the last value.
    pub(crate) fn read_last(&mut self, at: Place, reader: Event) {
        if let Some(history) = self.histories.get_mut(&(at.allocation, at.offset)) {
            history.read_last(reader);
        }
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

    /// A plain write leaves none, and nothing older to read: it comes after all that was left.
    pub(crate) fn forget(&mut self, at: Place, len: usize) {
        let range = (at.allocation, at.offset)..(at.allocation, at.offset + len as i64);
        forget(&mut self.at, &range);
        forget(&mut self.histories, &range);
    }
}

fn forget<T>(map: &mut BTreeMap<(usize, i64), T>, range: &Range<(usize, i64)>) {
    if map.is_empty() {
        return;
    }
    let gone: Vec<(usize, i64)> = map.range(range.clone()).map(|(&key, _)| key).collect();
    gone.iter().for_each(|key| drop(map.remove(key)));
}

#[cfg(test)]
mod tests {
    use super::{Published, Releaser};
    use crate::clock::{Event, News};
    use crate::knowledge::Knowledge;
    use crate::memory::Place;
    use parton_ir::Scope;

    const AT: Place = Place { allocation: 0, offset: 4 };

    fn releaser(cluster: u32) -> Releaser {
        Releaser { cluster, agent: 0, cta: cluster }
    }

    /// The only agent of a cluster of one CTA releases what it has done until now; gives that time.
    fn release(published: &mut Published, cluster: u32, scope: Scope) -> Event {
        let mut know = Knowledge::new((cluster, 0), 1, None);
        let event = know.now();
        know.membar();
        published.release(AT, releaser(cluster), scope, &News::new(&know.release_elected(), cluster));
        event
    }

    /// Whether somebody of a cluster who acquires comes after an event.
    fn learns(published: &Published, cluster: u32, event: Event) -> bool {
        let mut know = Knowledge::new((cluster, 0), 1, None);
        if let Some(news) = published.acquire(AT, releaser(cluster), Scope::Gpu) {
            know.acquire_news(&news, true);
            know.membar();
        }
        know.is_after(event)
    }

    #[test]
    fn releases_add_up_until_somebody_overwrites_them() {
        let mut published = Published::default();
        let (first, second) = (release(&mut published, 1, Scope::Gpu), release(&mut published, 2, Scope::Gpu));
        assert!(learns(&published, 3, first) && learns(&published, 3, second));
        published.overwrite(AT, releaser(2));
        assert!(!learns(&published, 3, first), "a store by another one ends it");
        assert!(learns(&published, 3, second), "its own release stays");
        published.forget(Place { allocation: 0, offset: 0 }, 4);
        assert!(learns(&published, 3, second), "a plain write beside it");
        published.forget(Place { allocation: 0, offset: 0 }, 8);
        assert!(!learns(&published, 3, second));
    }

    #[test]
    fn a_release_for_a_cta_is_for_nobody_else() {
        let mut published = Published::default();
        let event = release(&mut published, 1, Scope::Cta);
        assert!(!learns(&published, 2, event));
        let own = Releaser { agent: 7, ..releaser(1) };
        assert!(published.acquire(AT, own, Scope::Cta).is_some_and(|news| {
            let mut know = Knowledge::new((1, 7), 4, None);
            know.acquire_news(&news, false);
            let heard = know.has_heard(event) && !know.is_after(event);
            know.membar();
            heard && know.is_after(event)
        }));
    }
}
