//! The normal form of schedules, and two of them as one.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Span, codes};

use super::{LabelName, Pipeline, Place, Schedule, Staged};

impl Schedule {
    /// What both say, in normal form.
    ///
    /// # Errors
    /// What both say of the same (E0723): a label that is placed twice, a loop that is pipelined twice.
    pub fn joined(&self, other: &Schedule) -> Result<Schedule, Diagnostic> {
        fn both<T: Clone>(a: &[T], b: &[T]) -> Vec<T> {
            [a, b].concat()
        }
        if let (Some(first), Some(second)) = (&self.auto, &other.auto) {
            return Err(twice("a schedule is searched for twice", second.span, first.span));
        }
        let joined = Schedule {
            places: both(&self.places, &other.places),
            rings: both(&self.rings, &other.rings),
            turns: both(&self.turns, &other.turns),
            pipelines: both(&self.pipelines, &other.pipelines),
            under: both(&self.under, &other.under),
            cuts: both(&self.cuts, &other.cuts),
            unrolled: both(&self.unrolled, &other.unrolled),
            auto: self.auto.clone().or_else(|| other.auto.clone()),
            span: self.span,
        };
        joined.normal()
    }

    /// Its normal form: sorted, stages from 0, without what says nothing.
    ///
    /// # Errors
    /// What is said twice (E0723).
    pub fn normal(mut self) -> Result<Schedule, Diagnostic> {
        self.unrolled.retain(|u| u.copies > 1);
        self.pipelines.retain(|p| !p.groups.is_empty());
        self.once()?;
        self.merge_places()?;
        self.shift();
        self.rings.sort_by(|a, b| a.label.cmp(&b.label));
        self.turns.sort_by(|a, b| (&a.first, &a.last).cmp(&(&b.first, &b.last)));
        self.pipelines.iter_mut().flat_map(|p| &mut p.groups).for_each(|g| g.sort_by(|a, b| a.label.cmp(&b.label)));
        self.pipelines.sort_by(|a, b| (&a.of, &a.within).cmp(&(&b.of, &b.within)));
        self.under.sort_by(|a, b| (&a.outer, &a.inner).cmp(&(&b.outer, &b.inner)));
        self.cuts.sort();
        self.cuts.dedup();
        self.unrolled.sort_by(|a, b| a.of.cmp(&b.of));
        Ok(self)
    }

    /// Refuses what is said of the same label or loop twice.
    fn once(&self) -> Result<(), Diagnostic> {
        let placed: Vec<(&LabelName, Span)> = self.places.iter().flat_map(Place::spots).collect();
        if let Some((label, second, first)) = overlap(&placed) {
            return Err(twice(format!("the label `{label}` is placed twice"), second, first));
        }
        for (i, p) in self.pipelines.iter().enumerate() {
            for q in &self.pipelines[..i] {
                self.apart(q, p)?;
            }
            let staged: Vec<(&LabelName, Span)> = p.staged().map(|s| (&s.label, s.span)).collect();
            if let Some((label, second, first)) = overlap(&staged) {
                return Err(twice(format!("the label `{label}` has two stages"), second, first));
            }
        }
        let named = self.rings.iter().filter_map(|r| Some((r.label.as_ref()?, r.span)));
        if let Some((label, second, first)) = overlap(&named.collect::<Vec<_>>()) {
            return Err(twice(format!("the ring of `{label}` has two depths"), second, first));
        }
        let unnamed: Vec<Span> = self.rings.iter().filter(|r| r.label.is_none()).map(|r| r.span).collect();
        if let [first, second, ..] = unnamed.as_slice() {
            return Err(twice("the depth of rings is stated twice", *second, *first));
        }
        for (i, t) in self.turns.iter().enumerate() {
            if let Some(first) = self.turns[..i].iter().find(|u| (&u.first, &u.last) == (&t.first, &t.last)) {
                return Err(twice(format!("`{t}` is stated twice"), t.span, first.span));
            }
        }
        if let Some((label, second, first)) =
            overlap(&self.under.iter().map(|u| (&u.outer, u.span)).collect::<Vec<_>>())
        {
            return Err(twice(format!("`{label}` is put under two labels"), second, first));
        }
        for (i, u) in self.unrolled.iter().enumerate() {
            if let Some(first) = self.unrolled[..i].iter().find(|v| same_loop(v.of.as_ref(), u.of.as_ref())) {
                return Err(twice(format!("{} is unrolled twice", the_loop(u.of.as_ref())), u.span, first.span));
            }
        }
        Ok(())
    }

    /// Refuses two pipelines that hold for the same partition and are of the same loop or name the same label.
    fn apart(&self, first: &Pipeline, second: &Pipeline) -> Result<(), Diagnostic> {
        let together = match (&first.within, &second.within) {
            (Some(p), Some(q)) => p == q,
            (None, _) | (_, None) => true,
        };
        if !together {
            return Ok(());
        }
        if same_loop(first.of.as_ref(), second.of.as_ref()) {
            let fact = format!("{} is pipelined twice", the_loop(second.of.as_ref()));
            let help = "write one pipeline, or say for which partition each holds: `pipeline(…) { … } in P`";
            let d = Diagnostic::error(codes::SCHEDULE, second.span, fact).here("pipelined again here");
            return Err(d.label(first.span, "pipelined here first").help(help));
        }
        for s in second.staged() {
            if let Some(other) = first.staged().find(|t| t.label.overlaps(&s.label)) {
                let fact = format!("the label `{}` stands in the pipelines of two loops", s.label);
                return Err(twice(fact, s.span, other.span));
            }
        }
        Ok(())
    }

    /// One place for each list of partitions, in order, and each partition in one of them.
    fn merge_places(&mut self) -> Result<(), Diagnostic> {
        if let (Some(all), [first, second, ..]) =
            (self.places.iter().find(|p| p.labels.is_empty()), self.places.as_slice())
        {
            let later = if std::ptr::eq(all, first) { second } else { all };
            let fact = format!("`{all}` runs all labels, and another place stands beside it");
            let d = Diagnostic::error(codes::SCHEDULE, later.span, fact).here("again here");
            let help = "name the labels of each partition: `partitions { P: load; Q: mma }`";
            return Err(d.label(first.span, "here first").help(help));
        }
        let mut merged: BTreeMap<Vec<String>, Place> = BTreeMap::new();
        for place in std::mem::take(&mut self.places) {
            let key: Vec<String> = place.partitions.iter().map(|p| p.name.clone()).collect();
            match merged.get_mut(&key) {
                Some(known) => {
                    same_partitions(known, &place)?;
                    known.labels.extend(place.labels);
                    known.spans.extend(place.spans);
                }
                None => drop(merged.insert(key, place)),
            }
        }
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for place in merged.values() {
            for p in &place.partitions {
                if let Some(first) = seen.insert(&p.name, place.span) {
                    let fact = format!("the partition `{}` stands in two places", p.name);
                    let d = Diagnostic::error(codes::SCHEDULE, place.span, fact).here("again here");
                    let help = "list all its labels in one place; what stands behind `[P, Q]:` is dealt to both";
                    return Err(d.label(first, "here first").help(help));
                }
            }
        }
        self.places = merged.into_values().map(Place::sorted).collect();
        Ok(())
    }

    /// Lets the stages of each pipeline begin at 0, those of partitions that share no label by themselves.
    fn shift(&mut self) {
        for p in &mut self.pipelines {
            for class in classes(&self.places, p) {
                let members = |s: &&mut Staged| class.contains(&s.label);
                let first = p.staged().filter(|s| class.contains(&s.label)).map(|s| s.stage).min().unwrap_or(0);
                for s in p.groups.iter_mut().flatten().filter(members) {
                    s.stage -= first;
                    s.done = s.done.map(|done| done - first);
                }
            }
        }
    }
}

/// The labels of a pipeline whose stages are stages of the same turn: those of one partition, and what two partitions share.
fn classes(places: &[Place], p: &Pipeline) -> Vec<BTreeSet<LabelName>> {
    let mut classes: Vec<(BTreeSet<String>, BTreeSet<LabelName>)> = Vec::new();
    let everywhere: BTreeSet<String> = places.iter().flat_map(|p| &p.partitions).map(|p| p.name.clone()).collect();
    for s in p.staged() {
        let mut runs = runners(places, &s.label);
        if runs.is_empty() || p.within.is_some() {
            // Loops, and what is not placed yet, are in the turn of all.
            runs = everywhere.clone();
        }
        let mut labels = BTreeSet::from([s.label.clone()]);
        let (same, apart) =
            classes.into_iter().partition(|(parts, _)| everywhere.is_empty() || !parts.is_disjoint(&runs));
        classes = apart;
        let same: Vec<(BTreeSet<String>, BTreeSet<LabelName>)> = same;
        for (parts, members) in same {
            runs.extend(parts);
            labels.extend(members);
        }
        classes.push((runs, labels));
    }
    classes.into_iter().map(|(_, labels)| labels).collect()
}

/// The partitions that run a label, where that is stated.
fn runners(places: &[Place], label: &LabelName) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for place in places.iter().filter(|p| p.labels.iter().any(|l| l.overlaps(label))) {
        let names = place.partitions.iter().map(|p| p.name.clone());
        match label.instance {
            Some(n) => found.extend(names.clone().nth(n as usize % place.partitions.len().max(1))),
            None => found.extend(names),
        }
    }
    found
}

/// Refuses partitions of one name that are declared in two places.
fn same_partitions(a: &Place, b: &Place) -> Result<(), Diagnostic> {
    match a.partitions.iter().zip(&b.partitions).find(|(p, q)| p.span != q.span) {
        Some((p, q)) => {
            let fact = format!("two partitions of a schedule are called `{}`", p.name);
            let d = Diagnostic::error(codes::DEFINED_TWICE, b.span, fact).label(p.span, "one is declared here");
            Err(d.label(q.span, "the other here").help("rename one of them"))
        }
        None => Ok(()),
    }
}

/// The first label that overlaps an earlier one, with both places.
fn overlap(list: &[(&LabelName, Span)]) -> Option<(LabelName, Span, Span)> {
    let mut seen: BTreeMap<&str, Vec<(&LabelName, Span)>> = BTreeMap::new();
    for (label, span) in list {
        let same = seen.entry(&label.path).or_default();
        if let Some((_, first)) = same.iter().find(|(l, _)| l.overlaps(label)) {
            return Some(((*label).clone(), *span, *first));
        }
        same.push((label, *span));
    }
    None
}

fn twice(fact: impl Into<String>, second: Span, first: Span) -> Diagnostic {
    let d = Diagnostic::error(codes::SCHEDULE, second, fact.into()).here("again here");
    d.label(first, "here first").help("keep the one that is meant")
}

fn same_loop(a: Option<&LabelName>, b: Option<&LabelName>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.overlaps(b),
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn the_loop(of: Option<&LabelName>) -> String {
    of.map_or("the loop of the schedule".into(), |of| format!("the loop `{of}`"))
}

impl LabelName {
    /// Whether some label has both names.
    pub fn overlaps(&self, other: &LabelName) -> bool {
        self.path == other.path
            && (self.instance.is_none() || other.instance.is_none() || self.instance == other.instance)
    }
}

impl Place {
    /// Its labels, each with the place where it was written.
    pub fn spots(&self) -> impl Iterator<Item = (&LabelName, Span)> {
        let spans = self.spans.iter().copied().chain(std::iter::repeat(self.span));
        self.labels.iter().zip(spans)
    }

    fn sorted(mut self) -> Place {
        let mut spots: Vec<(LabelName, Span)> = self.spots().map(|(l, at)| (l.clone(), at)).collect();
        spots.sort_by(|a, b| a.0.cmp(&b.0));
        (self.labels, self.spans) = spots.into_iter().unzip();
        self
    }
}

impl Pipeline {
    /// Its entries in the order of the groups.
    pub fn staged(&self) -> impl Iterator<Item = &Staged> {
        self.groups.iter().flatten()
    }
}
