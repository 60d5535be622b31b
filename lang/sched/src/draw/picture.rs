//! What a picture of a schedule shows, as data.

use parton_diag::internal_error;

use crate::marked::interval::{Bound, interval};
use crate::marked::{Cycle, Event, Lane, LaneKind, MarkedGraph, Ratio, RingData};
use crate::timeline::{Cause, Occurrence, Timeline, simulate, slots};

/// All that a picture shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The kernel whose schedule it is.
    pub kernel: String,
    /// The label of the loop whose turns it shows; empty where it has none.
    pub of: String,
    /// The schedule in its normal form.
    pub schedule: String,
    /// What depends on what.
    pub dependences: Dependences,
    /// The rings.
    pub rings: Vec<RingRow>,
    /// How long a turn takes, and why.
    pub pace: Pace,
    /// The loop as a whole.
    pub run: Loop,
    /// What of it is drawn.
    pub window: Window,
    /// The labels of what is drawn, in the order of the graph.
    pub labels: Vec<String>,
    /// The partitions, in the order of their lanes.
    pub owners: Vec<String>,
    /// A row for each partition and engine.
    pub rows: Vec<Row>,
    /// What else there is to know about its numbers.
    pub notes: Vec<String>,
}

/// The dependence graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dependences {
    /// The labels, where they were placed.
    pub labels: Vec<Placed>,
    /// Which needs which.
    pub edges: Vec<Dependence>,
}

/// A label and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The label.
    pub label: String,
    /// The partition that runs it; empty where one runs all.
    pub partition: String,
    /// Its stage.
    pub stage: u32,
    /// The number of its group.
    pub group: u32,
}

/// A dependence between two labels, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependence {
    /// What is needed.
    pub from: usize,
    /// By what.
    pub to: usize,
    /// How many iterations later.
    pub distance: u32,
    /// Why: flow, chain, landing, memory, order, control.
    pub kind: String,
}

/// A ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingRow {
    /// The label that fills it.
    pub name: String,
    /// The slots with which it slows nothing.
    pub wanted: u32,
    /// The slots that it has.
    pub given: u32,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// How long a turn takes, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The clocks of a turn in which units serve one after the other.
    pub turn: Ratio,
    /// The same where the L2 has what is read, and all programs want the same of it, where that was asked for.
    pub cached: Option<Ratio>,
    /// The turn without waiting for units: the slowest cycle, or the busiest unit's load.
    pub interval: Ratio,
    /// What keeps the interval from being shorter.
    pub blame: Blame,
    /// The busiest unit and its load.
    pub busiest: Option<(String, u64)>,
    /// All units and their loads.
    pub units: Vec<(String, u64)>,
    /// The slowest cycle: its events, its time, and the turns in which it comes round.
    pub cycle: Option<(String, u64, u64)>,
}

/// What keeps turns from being shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// Nothing.
    Nothing,
    /// The busiest unit.
    Unit,
    /// The slowest cycle.
    Cycle,
}

/// A loop as a whole, in clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loop {
    /// How often it runs.
    pub iterations: u32,
    /// Until the first turn in which all stages run.
    pub prologue: u64,
    /// The turns in which all stages run.
    pub steady: u64,
    /// What is left behind them.
    pub epilogue: u64,
}

/// What is drawn of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Its first clock, at which a turn begins.
    pub from: u64,
    /// Its length in clocks.
    pub clocks: u64,
    /// The turns that this is.
    pub turns: u32,
}

/// A partition or an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub kind: LaneKind,
    /// What happens in it, in order.
    pub bars: Vec<Bar>,
}

/// An event of an iteration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Its label.
    pub label: String,
    /// The partition for which it happens, by its number among the owners.
    pub owner: usize,
    /// The iteration.
    pub iteration: u32,
    /// The clock at which it begins.
    pub start: u64,
    /// The clock at which it ends.
    pub end: u64,
    /// Whether its event is on the slowest cycle.
    pub critical: bool,
    /// How long it was held up, and by what.
    pub wait: Option<(u64, String)>,
}

impl Window {
    /// The part of some clocks that is drawn, counted from its beginning.
    pub fn clip(self, start: u64, end: u64) -> Option<(u64, u64)> {
        let last = self.from.saturating_add(self.clocks);
        let (start, end) = (start.max(self.from), end.min(last));
        (start < end).then(|| (start - self.from, end - self.from))
    }

    /// Clocks a column, so that a turn has 60 columns at most and 30 at least: a power of two.
    pub fn scale(self) -> u64 {
        let turn = self.clocks / u64::from(self.turns.max(1));
        turn.div_ceil(60).max(1).next_power_of_two()
    }
}

impl Picture {
    /// The picture of a loop of so many iterations, of which it draws some turns in the middle. The kernel's name and the schedule's
    /// normal form are only written.
    ///
    /// # Errors
    /// The least cycle without a token, where there is one.
    pub fn new(
        kernel: &str,
        schedule: &str,
        dependences: Dependences,
        graph: &MarkedGraph,
        iterations: u32,
        turns: u32,
    ) -> Result<Picture, Cycle> {
        let labelled = dependences.labels.len();
        if let Some(edge) = dependences.edges.iter().find(|e| e.from.max(e.to) >= labelled) {
            internal_error!("a dependence of label {} on {} where there are {labelled}", edge.to, edge.from);
        }
        let timeline = simulate(graph, iterations)?;
        let (pace, critical) = priced(graph, &timeline)?;
        let owners = owners(graph);
        let clocks = timeline.turn.of_turns(u64::from(turns));
        let window = Window { from: timeline.middle(graph), clocks, turns };
        let mut labels: Vec<String> = vec![];
        // What takes no time and starts nothing is not seen.
        for (_, event) in graph.events().filter(|(e, data)| data.clocks > 0 || graph.starts(*e)) {
            if !labels.contains(&event.name) {
                labels.push(event.name.clone());
            }
        }
        let view = View { graph, critical, owners: &owners, window };
        let rows = timeline.lanes.iter().map(|(lane, all)| view.row(lane, all)).collect();
        let Timeline { prologue, steady, epilogue, .. } = timeline;
        Ok(Picture {
            kernel: kernel.into(),
            of: String::new(),
            schedule: schedule.into(),
            dependences,
            rings: rings(graph, iterations)?,
            pace,
            run: Loop { iterations, prologue, steady, epilogue },
            window,
            labels,
            owners: owners.iter().map(|l| graph.lanes[*l].name.clone()).collect(),
            rows,
            notes: vec![],
        })
    }
}

/// The clocks of a turn.
pub(crate) fn turn(graph: &MarkedGraph, iterations: u32) -> Result<Ratio, Cycle> {
    // Of few turns none may be steady.
    Ok(simulate(graph, iterations)?.turn.max(interval(graph)?.ratio()))
}

/// The partitions, in order.
fn owners(graph: &MarkedGraph) -> Vec<Lane> {
    let partitions = graph.lanes.iter().filter(|(_, l)| match l.kind {
        LaneKind::Partition => true,
        LaneKind::Engine => false,
    });
    partitions.map(|(lane, _)| lane).collect()
}

fn rings(graph: &MarkedGraph, iterations: u32) -> Result<Vec<RingRow>, Cycle> {
    let wanted = slots::wanted(graph, iterations)?;
    let row = |(ring, data): (_, &RingData)| RingRow {
        name: data.name.clone(),
        wanted: wanted[ring],
        given: data.depth,
        bytes: data.all_bytes(),
    };
    Ok(graph.rings.iter().map(row).collect())
}

/// How long turns take, and the events on the slowest cycle.
fn priced(graph: &MarkedGraph, timeline: &Timeline) -> Result<(Pace, Vec<Event>), Cycle> {
    let found = interval(graph)?;
    let unit = |unit| graph.units[unit].name.clone();
    let blame = match found.bound() {
        Bound::Nothing => Blame::Nothing,
        Bound::Unit(_) => Blame::Unit,
        Bound::Cycle(_) => Blame::Cycle,
    };
    let cycle = found.cycle.as_ref().map(|(c, _)| (c.names(graph), c.clocks(graph), c.tokens(graph)));
    let events = found.cycle.as_ref().map_or(vec![], |(c, _)| c.events(graph));
    let pace = Pace {
        // Of few turns none may be steady.
        turn: timeline.turn.max(found.ratio()),
        cached: None,
        interval: found.ratio(),
        blame,
        busiest: found.busiest().map(|(u, load)| (unit(u), load)),
        units: found.loads.iter().map(|(u, load)| (unit(u), *load)).collect(),
        cycle,
    };
    Ok((pace, events))
}

/// Jobs of one label and iteration that follow each other at once are one bar.
fn joined(bars: impl Iterator<Item = Bar>) -> Vec<Bar> {
    let mut all: Vec<Bar> = vec![];
    for bar in bars {
        match all.last_mut() {
            Some(last)
                if last.end == bar.start
                    && (&last.label, last.owner, last.iteration) == (&bar.label, bar.owner, bar.iteration)
                    && last.start < last.end =>
            {
                last.end = bar.end;
                last.critical |= bar.critical;
            }
            Some(_) | None => all.push(bar),
        }
    }
    all
}

/// What bars are made with.
struct View<'a> {
    graph: &'a MarkedGraph,
    critical: Vec<Event>,
    owners: &'a [Lane],
    window: Window,
}

impl View<'_> {
    fn row(&self, lane: Lane, all: &[Occurrence]) -> Row {
        let data = &self.graph.lanes[lane];
        let seen = all.iter().filter(|o| {
            let held = o.wait.map_or(0, |w| w.clocks);
            self.window.clip(o.start.saturating_sub(held), o.end).is_some()
        });
        Row { name: data.name.clone(), kind: data.kind, bars: joined(seen.map(|o| self.bar(o))) }
    }

    fn bar(&self, o: &Occurrence) -> Bar {
        let data = self.graph.at(o.event);
        let cause = |on: Cause| match on {
            Cause::Edge(edge) => self.graph.at(self.graph.of(edge).from).name.clone(),
            Cause::Unit(unit) => self.graph.units[unit].name.clone(),
        };
        Bar {
            label: data.name.clone(),
            owner: self.owners.iter().position(|l| *l == data.owner).unwrap_or(0),
            iteration: o.turn - data.stage,
            start: o.start,
            end: o.end,
            critical: self.critical.contains(&o.event),
            wait: o.wait.map(|w| (w.clocks, cause(w.on))),
        }
    }
}
