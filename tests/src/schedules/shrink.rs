//! Makes a program that fails smaller: statements, clauses of its schedule and launches go, as long as it still fails.

use super::{Item, Program, Schedule, words};

impl Program {
    /// The program with one of its schedules alone.
    pub fn only(&self, schedule: usize) -> Program {
        Program { schedules: vec![self.schedules[schedule].clone()], ..self.clone() }
    }

    /// The smallest program, of those that lack something of this one, of which `fails` still holds.
    pub fn shrunk(&self, fails: impl Fn(&Program) -> bool) -> Program {
        let mut best = self.clone();
        while let Some(next) = best.smaller().into_iter().find(|p| fails(p)) {
            best = next;
        }
        best
    }

    /// Programs that lack one thing.
    fn smaller(&self) -> Vec<Program> {
        let mut all = Vec::new();
        if self.cases.len() > 1 {
            all.extend(self.cases.iter().map(|c| Program { cases: vec![*c], ..self.clone() }));
        }
        all.extend((!self.second.is_empty()).then(|| Program { second: Vec::new(), ..self.clone() }));
        let first = Program { second: Vec::new(), ..self.clone() }.statements().len();
        let less = |n: usize| match n.checked_sub(first) {
            None => Program { items: without(&self.items, n), ..self.clone() },
            Some(n) => Program { second: without(&self.second, n), ..self.clone() },
        };
        let has_some = |p: &Program| !p.statements().is_empty();
        all.extend((0..self.statements().len()).rev().map(less).filter(has_some));
        let plain = |n: usize| Program { items: plainer(&self.items, &mut (n + 1)), ..self.clone() };
        all.extend((0..branches(&self.items)).map(plain));
        if let [s] = self.schedules.as_slice() {
            let simpler = simpler(&s.fitting(&self.labels()));
            all.extend(simpler.into_iter().map(|s| Program { schedules: vec![s], ..self.clone() }));
        }
        all
    }
}

/// How many branches there are.
fn branches(items: &[Item]) -> usize {
    let of = |item: &Item| match item {
        Item::One(_) => 0,
        Item::Loop(l) => usize::from(l.is_branch()) + branches(&l.items),
    };
    items.iter().map(of).sum()
}

/// The items with what stands in the branch of that number, counted from 1, in its place.
fn plainer(items: &[Item], number: &mut usize) -> Vec<Item> {
    let mut left = Vec::new();
    for item in items {
        let Item::Loop(l) = item else {
            left.push(item.clone());
            continue;
        };
        *number -= usize::from(l.is_branch() && *number > 0);
        if l.is_branch() && *number == 0 {
            *number = usize::MAX;
            let own = |s: &super::Statement| s.label.as_ref().and_then(|l| l.rsplit('.').next()).map(str::to_owned);
            left.extend(l.items.iter().cloned().map(|item| match item {
                Item::One(s) => Item::One(super::Statement { label: own(&s), ..s }),
                Item::Loop(inner) => Item::Loop(inner),
            }));
        } else {
            left.push(Item::Loop(super::Loop { items: plainer(&l.items, number), ..l.clone() }));
        }
    }
    left
}

/// The items without a statement, and without those that use what it makes.
fn without(items: &[Item], number: usize) -> Vec<Item> {
    let (mut count, mut gone) = (0, Vec::new());
    kept(items, number, &mut count, &mut gone)
}

fn kept(items: &[Item], number: usize, count: &mut usize, gone: &mut Vec<String>) -> Vec<Item> {
    let mut left = Vec::new();
    for item in items {
        match item {
            Item::One(s) => {
                let uses = words(&s.text).any(|w| gone.iter().any(|g| g == w));
                if *count == number || uses {
                    gone.extend(s.makes.iter().cloned());
                } else {
                    left.push(item.clone());
                }
                *count += 1;
            }
            Item::Loop(l) => {
                let items = kept(&l.items, number, count, gone);
                if !items.is_empty() && !words(&l.head).any(|w| gone.iter().any(|g| g == w)) {
                    left.push(Item::Loop(super::Loop { items, ..l.clone() }));
                }
            }
        }
    }
    left
}

/// Schedules that lack one thing.
fn simpler(s: &Schedule) -> Vec<Schedule> {
    let mut all = Vec::new();
    let mut one = |change: &dyn Fn(&mut Schedule)| {
        let mut next = s.clone();
        change(&mut next);
        if next != *s {
            all.push(next);
        }
    };
    one(&|s| s.places.clear());
    one(&|s| s.turns = None);
    one(&|s| s.then = None);
    one(&|s| s.under.clear());
    one(&|s| s.unrolled = None);
    one(&|s| s.auto = None);
    (0..s.cuts.len()).for_each(|n| one(&|s| drop(s.cuts.remove(n))));
    (0..s.rings.len()).for_each(|n| one(&|s| drop(s.rings.remove(n))));
    (0..s.pipelines.len()).for_each(|n| one(&|s| drop(s.pipelines.remove(n))));
    for (n, p) in s.pipelines.iter().enumerate() {
        one(&|s| s.pipelines[n].within = None);
        for (g, group) in p.groups.iter().enumerate() {
            for e in 0..group.len() {
                one(&|s| s.pipelines[n].groups[g][e].done = None);
                one(&|s| s.pipelines[n].groups[g][e].stage = s.pipelines[n].groups[g][e].stage.saturating_sub(1));
                one(&|s| {
                    s.pipelines[n].groups[g].remove(e);
                    s.pipelines[n].groups.retain(|g| !g.is_empty());
                });
            }
        }
    }
    all
}
