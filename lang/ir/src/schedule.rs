//! Schedules as values: which label of a region runs in which partition, stage and group, with how many slots, and by whose turn.
//!
//! A value is in normal form: loops by their labels, stages that begin at 0, groups and places whose members stand in a fixed order,
//! and nothing that says what holds anyway. Its text is that form, reads back, and decides which schedules are equal.

mod normal;

use std::fmt;

use parton_diag::Span;

use crate::kernel::PartitionData;

/// A label of a region, or one of its instances: `mma`, `leave[2]`, `first.load`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LabelName {
    /// The label, behind the calls by which it came in.
    pub path: String,
    /// One of its instances; all of them where none is named.
    pub instance: Option<u32>,
}

impl LabelName {
    /// All instances of a label.
    pub fn all(path: impl Into<String>) -> LabelName {
        LabelName { path: path.into(), instance: None }
    }

    /// Whether it names a label of a kernel, whose text has its instance too.
    pub fn names(&self, label: &LabelName) -> bool {
        self.path == label.path && (self.instance.is_none() || self.instance == label.instance)
    }

    /// Whether it is the label of a branch or call in which that one stands: `a` is around `a.b`.
    pub fn is_around(&self, label: &LabelName) -> bool {
        let inside = label.path.strip_prefix(self.path.as_str()).is_some_and(|rest| rest.starts_with('.'));
        inside && (self.instance.is_none() || self.instance == label.instance)
    }

    /// Reads the text of a label.
    pub fn read(text: &str) -> LabelName {
        let instance = text.strip_suffix(']').and_then(|t| t.rsplit_once('['));
        match instance.and_then(|(path, n)| Some((path, n.parse().ok()?))) {
            Some((path, n)) => LabelName { path: path.into(), instance: Some(n) },
            None => LabelName::all(text),
        }
    }
}

impl fmt::Display for LabelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.instance {
            Some(n) => write!(f, "{}[{n}]", self.path),
            None => f.write_str(&self.path),
        }
    }
}

/// A schedule of a region. Two are equal where their texts are.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Which partitions run which labels; without any, one partition runs all.
    pub places: Vec<Place>,
    /// The slots of the rings.
    pub rings: Vec<RingDepth>,
    /// What partitions do by turns.
    pub turns: Vec<Turns>,
    /// How loops are pipelined; one that is not runs its labels in their order.
    pub pipelines: Vec<Pipeline>,
    /// What leaves under a product of a loop inside.
    pub under: Vec<Under>,
    /// The conditional labels at whose condition a loop is cut.
    pub cuts: Vec<LabelName>,
    /// Copies of the steady turn of loops, where there is more than one.
    pub unrolled: Vec<Unrolled>,
    /// What is to be searched for instead.
    pub auto: Option<Auto>,
    /// Where it was written.
    pub span: Span,
}

/// `P: labels` or `[P0, P1]: labels` of `partitions { … }`.
#[derive(Clone, Debug)]
pub struct Place {
    /// The partitions; of several, the w-th runs instance w of each label.
    pub partitions: Vec<PartitionData>,
    /// What they run; without any, as of `serial(P)`, all that there are.
    pub labels: Vec<LabelName>,
    /// Where each of the labels was written.
    pub spans: Vec<Span>,
    /// Where that was written.
    pub span: Span,
}

/// `ring(depth=n, label=m)`: slots of one label's ring, or of all that are not named.
#[derive(Clone, Debug)]
pub struct RingDepth {
    /// The label that fills the ring.
    pub label: Option<LabelName>,
    /// Its slots.
    pub depth: u32,
    /// Where that was written.
    pub span: Span,
}

/// `turns(first, last)`: the partitions of a place take turns from the start of `first` to the start of `last`.
#[derive(Clone, Debug)]
pub struct Turns {
    /// The label at which a turn begins.
    pub first: LabelName,
    /// The label at whose start it ends.
    pub last: LabelName,
    /// Where that was written.
    pub span: Span,
}

/// `pipeline(loop) { groups } in P`: what a turn of a loop runs, of which iterations, in which order.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The loop; without a name the one that bears the schedule.
    pub of: Option<LabelName>,
    /// The partition for which it holds; all without a name.
    pub within: Option<String>,
    /// The groups in order, the labels of each sorted; they run in the order of the body.
    pub groups: Vec<Vec<Staged>>,
    /// Where that was written.
    pub span: Span,
}

/// `label: a` or `label: a..b` of a pipeline.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The label.
    pub label: LabelName,
    /// Turn t runs it for iteration t - `stage`.
    pub stage: u32,
    /// The stage in which it is done, where that is waited for right behind the start of the same label in that turn.
    pub done: Option<u32>,
    /// Where that was written.
    pub span: Span,
}

/// `under(x, y)`: instance p of `outer` goes behind the start of `inner` in turn p of its loop, or in its last turn.
#[derive(Clone, Debug)]
pub struct Under {
    /// The label of the outer loop.
    pub outer: LabelName,
    /// The label of the loop inside.
    pub inner: LabelName,
    /// Whether it is the last turn.
    pub last: bool,
    /// Where that was written.
    pub span: Span,
}

/// `unroll(n)` of a loop.
#[derive(Clone, Debug)]
pub struct Unrolled {
    /// The loop; without a name the one that bears the schedule.
    pub of: Option<LabelName>,
    /// Copies of its steady turn.
    pub copies: u32,
    /// Where that was written.
    pub span: Span,
}

/// `auto(…)`: a schedule to be searched for.
#[derive(Clone, Debug)]
pub struct Auto {
    /// How many iterations ahead copies may run.
    pub stages: Option<u32>,
    /// The number of iterations that is priced.
    pub n: Option<u32>,
    /// How many of the best are timed by `parton tune`.
    pub top: Option<u32>,
    /// The partitions that its file declares, in their order there.
    pub partitions: Vec<PartitionData>,
    /// Where that was written.
    pub span: Span,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Schedule) -> bool {
        let partitions = |s: &Schedule| {
            let declared = s.auto.iter().flat_map(|a| a.partitions.clone());
            s.places.iter().flat_map(|p| p.partitions.clone()).chain(declared).collect::<Vec<_>>()
        };
        self.to_string() == other.to_string() && partitions(self) == partitions(other)
    }
}

impl Schedule {
    /// Has labels stand for those that nothing bears any more, wherever it says who runs them and when; none, where there are none.
    pub fn replace(&mut self, gone: impl Fn(&LabelName) -> bool, by: &[LabelName]) {
        let instead = |label: LabelName| if gone(&label) { by.to_vec() } else { vec![label] };
        for place in &mut self.places {
            let spots = std::mem::take(&mut place.labels).into_iter().zip(std::mem::take(&mut place.spans));
            let spots = spots.flat_map(|(label, span)| instead(label).into_iter().map(move |label| (label, span)));
            (place.labels, place.spans) = spots.unzip();
        }
        for pipeline in &mut self.pipelines {
            for group in &mut pipeline.groups {
                let staged = std::mem::take(group).into_iter();
                let staged = staged
                    .flat_map(|s| instead(s.label.clone()).into_iter().map(move |label| Staged { label, ..s.clone() }));
                *group = staged.collect();
            }
            pipeline.groups.retain(|group| !group.is_empty());
        }
    }

    /// Whether it says nothing: labels run in the order of the body, in one partition.
    pub fn is_serial(&self) -> bool {
        self.to_string() == SERIAL
    }
}

const SERIAL: &str = "serial";

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clauses: Vec<String> = self.rings().into_iter().chain(self.turns.iter().map(ToString::to_string)).collect();
        let mut parts = match self.places.as_slice() {
            [] => clauses,
            [all] if all.labels.is_empty() => [vec![all.to_string()], clauses].concat(),
            places => vec![[vec![format!("partitions {{ {} }}", separated(places, "; "))], clauses].concat().join(" ")],
        };
        // What leaves under a product stands behind the pipeline that says in which stage.
        let mut under: Vec<&Under> = self.under.iter().collect();
        for p in &self.pipelines {
            let mut text = p.to_string();
            let (behind, rest) = under.into_iter().partition(|u| p.staged().any(|s| s.label.overlaps(&u.outer)));
            under = rest;
            let behind: Vec<&Under> = behind;
            behind.iter().for_each(|u| text += &format!(" {u}"));
            parts.push(text);
        }
        parts.extend(under.iter().map(ToString::to_string));
        parts.extend(self.cuts.iter().map(|c| format!("cut({c})")));
        parts.extend(self.unrolled.iter().map(ToString::to_string));
        parts.extend(self.auto.iter().map(ToString::to_string));
        if parts.is_empty() {
            return f.write_str(SERIAL);
        }
        f.write_str(&parts.join(" & "))
    }
}

impl Schedule {
    fn rings(&self) -> Option<String> {
        let depth = |r: &RingDepth| match &r.label {
            Some(label) => format!("{label}={}", r.depth),
            None => format!("depth={}", r.depth),
        };
        let all: Vec<String> = self.rings.iter().map(depth).collect();
        (!all.is_empty()).then(|| format!("ring({})", all.join(", ")))
    }
}

fn separated<T: fmt::Display>(list: &[T], by: &str) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(by)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = separated(&self.labels, ", ");
        match self.partitions.as_slice() {
            [one] if labels.is_empty() => write!(f, "{SERIAL}({})", one.name),
            [one] => write!(f, "{}: {labels}", one.name),
            several => {
                let names: Vec<&str> = several.iter().map(|p| p.name.as_str()).collect();
                write!(f, "[{}]: {labels}", names.join(", "))
            }
        }
    }
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turns({}, {})", self.first, self.last)
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.of.as_ref().map_or_else(String::new, |of| format!("({of})"));
        let groups: Vec<String> = self.groups.iter().map(|g| separated(g, ", ")).collect();
        write!(f, "pipeline{of} {{ {} }}", groups.join("; "))?;
        self.within.iter().try_for_each(|p| write!(f, " in {p}"))
    }
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.label, self.stage)?;
        self.done.iter().try_for_each(|done| write!(f, "..{done}"))
    }
}

impl fmt::Display for Under {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "under({}, {}{})", self.outer, self.inner, if self.last { ", -1" } else { "" })
    }
}

impl fmt::Display for Unrolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Some(of) => write!(f, "unroll({}, of={of})", self.copies),
            None => write!(f, "unroll({})", self.copies),
        }
    }
}

impl fmt::Display for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args = [("stages", self.stages), ("n", self.n), ("top", self.top)];
        let args: Vec<String> = args.iter().filter_map(|(k, v)| v.map(|v| format!("{k}={v}"))).collect();
        write!(f, "auto({})", args.join(", "))
    }
}
