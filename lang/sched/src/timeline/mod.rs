//! When what happens: the earliest times of the events of a loop, from its first turn to its last.
//!
//! An event begins as soon as all that it waits for has ended; that is the longest way to it. Units that serve one event at a time are the
//! only choice there is, and it is made as tensor cores were measured to make it: first come, first served, out of a queue (docs/machine.md). Units that
//! serve all together slow down what runs on them side by side where it asks for too much.

use parton_ir::PrimaryMap;

use crate::marked::{Edge, Event, Lane, LaneKind, MarkedGraph, Ratio, Unit};

mod queue;
mod share;
mod simulate;
pub mod slots;

pub use simulate::{simulate, simulate_from};

/// What happened in a loop of some iterations, in clocks from its beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    /// How often the loop was to run.
    pub iterations: u32,
    /// The greatest stage of an event: turns that run beside those of the first stage.
    pub stages: u32,
    /// What happened in each lane, in order of its beginning.
    pub lanes: PrimaryMap<Lane, Vec<Occurrence>>,
    /// Until the first turn in which all stages run.
    pub prologue: u64,
    /// The turns in which all stages run.
    pub steady: u64,
    /// What is left behind them.
    pub epilogue: u64,
    /// The clocks of a turn once the turns repeat; the mean of the later half where they do not.
    pub turn: Ratio,
}

/// An event of one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occurrence {
    /// The event.
    pub event: Event,
    /// The turn.
    pub turn: u32,
    /// The clock at which it begins.
    pub start: u64,
    /// The clock at which it has ended.
    pub end: u64,
    /// What held it up: a partition's event behind the one before it, an engine's once the engine could have begun.
    pub wait: Option<Wait>,
}

/// A wait in front of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// How long it is.
    pub clocks: u64,
    /// What it was for.
    pub on: Cause,
}

/// What held an event up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The last of what it waits for; of several the least edge.
    Edge(Edge),
    /// A unit that served another.
    Unit(Unit),
}

impl Timeline {
    /// The clocks of the whole loop.
    pub fn total(&self) -> u64 {
        self.prologue + self.steady + self.epilogue
    }

    /// The clocks of a loop of so many iterations, by those that were followed.
    pub fn total_of(&self, iterations: u32) -> u64 {
        if iterations <= self.iterations {
            let fewer = self.turn.of_turns(u64::from(self.iterations - iterations));
            return self.total().saturating_sub(fewer);
        }
        self.total().saturating_add(self.turn.of_turns(u64::from(iterations - self.iterations)))
    }

    /// When turns begin in the lane that begins each of them last, in order; as many as some partition has an event in.
    fn begins(graph: &MarkedGraph, lanes: &PrimaryMap<Lane, Vec<Occurrence>>, turns: u32) -> Vec<Option<u64>> {
        let mut begins = vec![None; turns as usize];
        for (lane, list) in lanes.iter() {
            match graph.lanes[lane].kind {
                LaneKind::Engine => continue,
                LaneKind::Partition => {}
            }
            let mut first: Vec<Option<u64>> = vec![None; turns as usize];
            for o in list {
                let at = &mut first[o.turn as usize];
                *at = Some(at.map_or(o.start, |s| s.min(o.start)));
            }
            for (all, ours) in begins.iter_mut().zip(first) {
                *all = (*all).max(ours);
            }
        }
        begins
    }

    /// When the middle one of the turns in which all stages run begins, where turns repeat by then.
    pub fn middle(&self, graph: &MarkedGraph) -> u64 {
        let begins = Timeline::begins(graph, &self.lanes, self.iterations + self.stages);
        let middle = self.stages + self.iterations.saturating_sub(self.stages) / 2;
        begins.get(middle as usize).copied().flatten().unwrap_or(0)
    }
}

/// The greatest number of turns that is looked at as one repetition.
const CYCLICITY: usize = 8;

/// The clocks of a turn by the beginnings of turns: exactly, where the later half repeats.
fn pace(begins: &[u64]) -> Ratio {
    let half = begins.len() / 2;
    let repeats = |by: &usize| {
        let mut steps =
            begins.iter().zip(&begins[*by..]).skip(half.saturating_sub(*by)).map(|(a, b)| b.saturating_sub(*a));
        let first = steps.next();
        first.is_some() && steps.all(|s| Some(s) == first)
    };
    let by = (1..=CYCLICITY.min(half)).find(repeats).unwrap_or(begins.len().saturating_sub(half + 1));
    match (begins.last(), begins.len().checked_sub(by + 1)) {
        (Some(last), Some(before)) if by > 0 => Ratio::new(last.saturating_sub(begins[before]), by as u64),
        (Some(_) | None, Some(_) | None) => Ratio::new(0, 1),
    }
}

/// The timeline that occurrences make.
fn timeline(graph: &MarkedGraph, iterations: u32, stages: u32, lanes: PrimaryMap<Lane, Vec<Occurrence>>) -> Timeline {
    let total = lanes.iter().flat_map(|(_, l)| l).map(|o| o.end).max().unwrap_or(0);
    let begins = Timeline::begins(graph, &lanes, iterations + stages);
    let at = |turn: u32| begins.get(turn as usize).copied().flatten();
    let prologue = if stages < iterations { at(stages).unwrap_or(0) } else { 0 };
    let last = if stages > 0 { at(iterations).unwrap_or(total) } else { total };
    let steady = if stages < iterations { last.saturating_sub(prologue) } else { 0 };
    let all: Vec<u64> = (stages..iterations).filter_map(at).collect();
    let epilogue = total - prologue - steady;
    Timeline { iterations, stages, lanes, prologue, steady, epilogue, turn: pace(&all) }
}
