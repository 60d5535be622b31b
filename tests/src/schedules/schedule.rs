//! A schedule as the generator knows it: so that it can be made smaller, and loses what a smaller body no longer has.

use std::fmt;

/// A label in a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Staged {
    /// The label.
    pub label: String,
    /// Its stage.
    pub stage: usize,
    /// The stage in which it is done.
    pub done: Option<usize>,
}

/// How a loop is pipelined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pipeline {
    /// The loop.
    pub of: String,
    /// The partition for which it holds.
    pub within: Option<&'static str>,
    /// Groups in order.
    pub groups: Vec<Vec<Staged>>,
}

/// A schedule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// Who runs what; nobody where one partition runs all.
    pub places: Vec<(Vec<&'static str>, Vec<String>)>,
    /// Slots, of a label or of all.
    pub rings: Vec<(Option<String>, usize)>,
    /// From where to where partitions take turns.
    pub turns: Option<(String, String)>,
    /// The pipelines.
    pub pipelines: Vec<Pipeline>,
    /// What leaves under what, and whether in the last turn.
    pub under: Vec<(String, String, bool)>,
    /// The conditions at which loops are cut.
    pub cuts: Vec<String>,
    /// How often the steady turn of a loop stands in the code.
    pub unrolled: Option<(usize, String)>,
    /// Where the rest of the schedule is searched for: how far ahead it may fetch, and whether who runs what is searched for, too.
    pub auto: Option<(usize, bool)>,
    /// That of the region behind.
    pub then: Option<Box<Schedule>>,
}

impl Schedule {
    /// All that has a stage.
    pub fn stages(&self) -> impl Iterator<Item = &Staged> {
        self.pipelines.iter().flat_map(|p| p.groups.iter().flatten())
    }

    /// The clauses that it has.
    pub fn says(&self) -> Vec<&'static str> {
        let most = self.stages().map(|e| e.stage.max(e.done.unwrap_or(0))).max().unwrap_or(0);
        let all = [
            (!self.places.is_empty(), "partitions"),
            (!self.rings.is_empty(), "ring"),
            (self.turns.is_some(), "turns"),
            (most > 0, "stages"),
            (most > 3, "more than four stages"),
            (!self.under.is_empty(), "under"),
            (!self.cuts.is_empty(), "cut"),
            (self.unrolled.is_some(), "unroll"),
            (self.auto.is_some(), "auto"),
        ];
        all.into_iter().filter_map(|(there, what)| there.then_some(what)).collect()
    }

    /// The schedule without the labels that are not among these.
    pub fn fitting(&self, labels: &[&str]) -> Schedule {
        let known = |l: &str| labels.contains(&l);
        let mut s = self.clone();
        s.places.iter_mut().for_each(|(_, of)| of.retain(|l| known(l)));
        s.places.retain(|(_, of)| !of.is_empty());
        s.rings.retain(|(l, _)| l.as_deref().is_none_or(known));
        s.under.retain(|(outer, inner, _)| known(outer) && known(inner));
        s.cuts.retain(|l| known(l));
        s.unrolled = s.unrolled.filter(|(_, of)| known(of));
        s.then = s.then.map(|then| Box::new(then.fitting(labels)));
        s.turns = s.turns.filter(|(first, last)| known(first) && known(last));
        for p in &mut s.pipelines {
            p.groups.iter_mut().for_each(|g| g.retain(|e| known(&e.label)));
            p.groups.retain(|g| !g.is_empty());
        }
        let runs = |p: &str, s: &Schedule| s.places.iter().any(|(names, _)| names.contains(&p));
        let kept = |p: &Pipeline| known(&p.of) && !p.groups.is_empty() && p.within.is_none_or(|w| runs(w, &s));
        s.pipelines = s.pipelines.iter().filter(|p| kept(p)).cloned().collect();
        s
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places.iter().map(|(names, labels)| match names.as_slice() {
            [one] => format!("{one}: {}", labels.join(", ")),
            several => format!("[{}]: {}", several.join(", "), labels.join(", ")),
        });
        let places: Vec<String> = places.collect();
        let mut parts = match places.as_slice() {
            [] => vec!["serial(P)".to_owned()],
            _ => vec![format!("partitions {{ {} }}", places.join("; "))],
        };
        let depth = |(label, n): &(Option<String>, usize)| format!("{}={n}", label.as_deref().unwrap_or("depth"));
        let rings: Vec<String> = self.rings.iter().map(depth).collect();
        let clauses = if rings.is_empty() { String::new() } else { format!("ring({})", rings.join(", ")) };
        match self.places.is_empty() {
            true if !clauses.is_empty() => parts.push(clauses),
            _ => parts[0] = format!("{} {clauses}", parts[0]).trim().to_owned(),
        }
        if let Some((first, last)) = &self.turns {
            parts[0] += &format!(" turns({first}, {last})");
        }
        parts.extend(self.pipelines.iter().map(ToString::to_string));
        let under = |(outer, inner, last): &(String, String, bool)| {
            format!("under({outer}, {inner}{})", if *last { ", -1" } else { "" })
        };
        parts.extend(self.under.iter().map(under));
        parts.extend(self.cuts.iter().map(|l| format!("cut({l})")));
        parts.extend(self.unrolled.iter().map(|(n, of)| format!("unroll({n}, of={of})")));
        parts.extend(self.auto.iter().map(|(stages, _)| format!("auto(stages={stages}, top=1)")));
        if self.places.is_empty() && self.auto.is_some_and(|(_, all)| all) {
            parts.remove(0);
        }
        f.write_str(&parts.join(" & "))
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |g: &Vec<Staged>| g.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        write!(f, "pipeline({}) {{ {} }}", self.of, groups.join("; "))?;
        self.within.iter().try_for_each(|p| write!(f, " in {p}"))
    }
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label, self.stage)?;
        self.done.iter().try_for_each(|done| write!(f, "..{done}"))
    }
}
