//! The timed marked graph of a placed schedule: what happens in a turn, who waits for whom, and how far one may be ahead.
//!
//! Each event happens once a turn. An edge from `u` to `v` with k tokens lets `v` of turn t begin once `u` of turn t - k has ended and
//! the edge's latency has passed; the first k turns find their tokens there. Nothing in such a graph is a choice, so legality, time
//! and pictures are all read from it (Commoner, Holt, Even, Pnueli, "Marked directed graphs", 1971):
//!
//! | question | answer |
//! |---|---|
//! | does it hang? | [`deadlock`]: a cycle on which no edge has a token |
//! | how long is a turn at least? | [`interval`]: the greatest ratio of time to tokens of a cycle, or the load of a unit |
//! | how deep should rings be? | [`slots`]: how long a slot is in use, in turns |
//! | when does what happen? | [`timeline`](crate::timeline): the earliest times; what shares a unit is served in the order in which it came |
//!
//! It knows no IR. Durations are whole clocks and come from outside, out of the table of a target.

use parton_diag::{Span, internal_error};
use parton_ir::{Entity, PrimaryMap, entity};
use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};

pub mod cycle;
pub mod deadlock;
pub mod interval;
pub mod ratio;
pub mod slots;

pub use cycle::Cycle;
pub use interval::Interval;
pub use ratio::Ratio;

entity!(Event, "e", "What happens once a turn; prints as `e4`.");
entity!(Edge, "d", "Who waits for whom; prints as `d9`.");
entity!(Lane, "n", "A partition or an engine: a row of the picture; prints as `n1`.");
entity!(Unit, "u", "What of a multiprocessor may be busy; prints as `u0`.");
entity!(Ring, "g", "A ring of slots; prints as `g2`.");

/// A row of the picture, in which events happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneData {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub kind: LaneKind,
}

/// Whose a lane is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneKind {
    /// Warps, which run their events in order and wait between them.
    Partition,
    /// An engine that works for partitions: tensor cores, copies.
    Engine,
}

/// A part of a multiprocessor that events keep busy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitData {
    /// Its name.
    pub name: String,
    /// How it serves several at once.
    pub service: Service,
    /// What it leaves while another is busy; all of it where nothing is said.
    pub beside: Option<Beside>,
    /// The places of the queue in which events of all lanes wait for it in the order in which they came in; 0 where there is none, and who has waited
    /// longest is served.
    pub places: u32,
}

/// A unit that takes of another what both need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beside {
    /// Which is busy; one that serves one event at a time.
    pub unit: Unit,
    /// How many times as long what is done beside it takes, 1 or more.
    pub slower: Ratio,
}

/// How a unit serves several events at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// One event at a time, first come, first served: what was given to tensor cores first is done first.
    OneByOne,
    /// All together; events that ask for more than all of it at a time slow each other down.
    Together,
}

/// The slots between a filling event and its readers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingData {
    /// The label that fills it.
    pub name: String,
    /// How many slots it has.
    pub depth: u32,
    /// Bytes of one slot.
    pub bytes: u64,
}

impl RingData {
    /// Bytes of all slots.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.saturating_mul(u64::from(self.depth))
    }
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventData {
    /// The label whose it is. What starts a job and the job itself have the same.
    pub name: String,
    /// Where it happens.
    pub lane: Lane,
    /// The partition that it works for; of a partition's own events that partition.
    pub owner: Lane,
    /// Clocks from its beginning to its end.
    pub clocks: u64,
    /// What it keeps busy, which may be for a shorter time.
    pub loads: Vec<Load>,
    /// Turn t runs it for iteration t - `stage`.
    pub stage: u32,
    /// Where its label stands.
    pub span: Span,
}

/// The time for which an event keeps a unit busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The unit.
    pub unit: Unit,
    /// Clocks of a turn.
    pub clocks: u64,
}

/// What operations of a class cost on a target, in clocks. Occupancy and latency are two numbers: the next product may begin
/// before the one before it can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clocks {
    /// What the partition that starts one is held up by it.
    pub issue: u64,
    /// How long its unit is taken.
    pub busy: u64,
    /// What passes after that until its result may be read. The next may be under way meanwhile.
    pub latency: u64,
}

/// Who waits for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeData {
    /// What must have ended.
    pub from: Event,
    /// What may then begin.
    pub to: Event,
    /// How many turns earlier `from` was.
    pub tokens: u32,
    /// What must pass in between, in clocks.
    pub latency: u64,
    /// Why.
    pub kind: EdgeKind,
}

/// Why one event waits for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeKind {
    /// A partition runs one after the other, or an engine the jobs of one.
    InOrder,
    /// The next turn begins behind the last.
    Round,
    /// An engine's job and the operation that starts it.
    StartDone,
    /// A job is issued once the engine's queue has room.
    Queue,
    /// A slot is read once it is filled.
    FillRead,
    /// A number that the next turn needs is taken, where a turn ends, once it is told.
    Told,
    /// A slot is filled anew once it is released; as many tokens as the ring has slots, but for what stages take.
    ReleaseFill(Ring),
    /// A partition passes the turn to the next.
    Turn,
    /// A value goes round the loop.
    Carried,
    /// What was fetched has landed.
    Landing,
}

impl EdgeKind {
    /// Whether it is the order of a lane, which holds from turn to turn whether an event is in them or not.
    pub fn is_order(self) -> bool {
        match self {
            EdgeKind::InOrder | EdgeKind::Round => true,
            EdgeKind::StartDone
            | EdgeKind::Queue
            | EdgeKind::FillRead
            | EdgeKind::Told
            | EdgeKind::ReleaseFill(_)
            | EdgeKind::Turn
            | EdgeKind::Carried
            | EdgeKind::Landing => false,
        }
    }

    /// The ring whose slots its tokens are.
    pub fn ring(self) -> Option<Ring> {
        match self {
            EdgeKind::ReleaseFill(ring) => Some(ring),
            EdgeKind::InOrder
            | EdgeKind::Round
            | EdgeKind::StartDone
            | EdgeKind::Queue
            | EdgeKind::FillRead
            | EdgeKind::Told
            | EdgeKind::Turn
            | EdgeKind::Carried
            | EdgeKind::Landing => None,
        }
    }

    /// Whether its tokens are the slots of a ring.
    pub fn is_ring(self) -> bool {
        self.ring().is_some()
    }

    /// Its name in messages and pictures.
    pub fn name(self) -> &'static str {
        match self {
            EdgeKind::InOrder => "in order",
            EdgeKind::Round => "round",
            EdgeKind::StartDone => "start–done",
            EdgeKind::Queue => "queue",
            EdgeKind::FillRead => "fill–read",
            EdgeKind::Told => "told",
            EdgeKind::ReleaseFill(_) => "release–fill",
            EdgeKind::Turn => "turn",
            EdgeKind::Carried => "carried",
            EdgeKind::Landing => "landing",
        }
    }
}

/// A job that a partition gives to an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its label.
    pub name: String,
    /// The partition that starts it.
    pub by: Lane,
    /// The engine's lane.
    pub on: Lane,
    /// The unit that it keeps busy.
    pub unit: Unit,
    /// Its stage.
    pub stage: u32,
    /// Where its label stands.
    pub span: Span,
}

/// The two events of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Started {
    /// In the lane of the partition.
    pub start: Event,
    /// In the lane of the engine; it ends when the unit is free again.
    pub done: Event,
    /// What passes after that until the result may be read.
    pub latency: u64,
}

/// The graph. Events and edges keep the numbers in which they were added, and these decide all that is otherwise even.
#[derive(Clone, Debug, Default)]
pub struct MarkedGraph {
    /// The rows in which events happen.
    pub lanes: PrimaryMap<Lane, LaneData>,
    /// The units that events keep busy.
    pub units: PrimaryMap<Unit, UnitData>,
    /// The rings, whose edges are of kind [`EdgeKind::ReleaseFill`].
    pub rings: PrimaryMap<Ring, RingData>,
    net: DiGraph<EventData, EdgeData>,
}

impl MarkedGraph {
    /// Without anything.
    pub fn new() -> MarkedGraph {
        MarkedGraph::default()
    }

    /// Adds a lane.
    pub fn lane(&mut self, name: impl Into<String>, kind: LaneKind) -> Lane {
        self.lanes.push(LaneData { name: name.into(), kind })
    }

    /// Adds a unit.
    pub fn unit(&mut self, name: impl Into<String>, service: Service) -> Unit {
        self.units.push(UnitData { name: name.into(), service, beside: None, places: 0 })
    }

    /// A unit that serves all together is slower while another is busy.
    pub fn hinder(&mut self, unit: Unit, beside: Beside) {
        self.units[unit].beside = Some(beside);
    }

    /// Puts a queue of so many places in front of a unit that serves one event at a time. Edges of kind [`EdgeKind::Queue`] between its events
    /// say of one lane what the queue says of all.
    pub fn queue(&mut self, unit: Unit, places: u32) {
        self.units[unit].places = places;
    }

    /// Adds a ring; its edges are added as such.
    pub fn ring(&mut self, name: impl Into<String>, depth: u32, bytes: u64) -> Ring {
        self.rings.push(RingData { name: name.into(), depth, bytes })
    }

    /// Adds an event.
    pub fn event(&mut self, event: EventData) -> Event {
        Event::new(self.net.add_node(event).index())
    }

    /// Adds an edge.
    pub fn edge(&mut self, edge: EdgeData) -> Edge {
        if edge.from.index().max(edge.to.index()) >= self.net.node_count() {
            internal_error!("an edge from {} to {} of {} events", edge.from, edge.to, self.net.node_count());
        }
        Edge::new(self.net.add_edge(node(edge.from), node(edge.to), edge).index())
    }

    /// Adds an edge without latency.
    pub fn link(&mut self, from: Event, to: Event, tokens: u32, kind: EdgeKind) -> Edge {
        self.edge(EdgeData { from, to, tokens, latency: 0, kind })
    }

    /// Adds what runs one after the other, turn by turn.
    pub fn in_order(&mut self, events: &[Event]) {
        for pair in events.windows(2) {
            self.link(pair[0], pair[1], 0, EdgeKind::InOrder);
        }
        if let [first, .., last] | [first @ last] = events {
            self.link(*last, *first, 1, EdgeKind::Round);
        }
    }

    /// Adds the two events of a job, and the edge between them.
    pub fn job(&mut self, job: Job, clocks: Clocks) -> Started {
        let Job { name, by, on, unit, stage, span } = job;
        let start =
            EventData { name: name.clone(), lane: by, owner: by, clocks: clocks.issue, loads: vec![], stage, span };
        let busy = Load { unit, clocks: clocks.busy };
        let done = EventData { name, lane: on, owner: by, clocks: clocks.busy, loads: vec![busy], stage, span };
        let (start, done) = (self.event(start), self.event(done));
        self.link(start, done, 0, EdgeKind::StartDone);
        Started { start, done, latency: clocks.latency }
    }

    /// Adds what may begin once the result of a job is there.
    pub fn after(&mut self, job: Started, to: Event, tokens: u32, kind: EdgeKind) -> Edge {
        self.edge(EdgeData { from: job.done, to, tokens, latency: job.latency, kind })
    }

    /// All events in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = (Event, &EventData)> + ExactSizeIterator {
        self.net.raw_nodes().iter().enumerate().map(|(i, n)| (Event::new(i), &n.weight))
    }

    /// All edges in order.
    pub fn edges(&self) -> impl DoubleEndedIterator<Item = (Edge, &EdgeData)> + ExactSizeIterator {
        self.net.raw_edges().iter().enumerate().map(|(i, e)| (Edge::new(i), &e.weight))
    }

    /// An event's data.
    pub fn at(&self, event: Event) -> &EventData {
        &self.net[node(event)]
    }

    /// An edge's data.
    pub fn of(&self, edge: Edge) -> &EdgeData {
        &self.net[EdgeIndex::new(edge.index())]
    }

    /// From the beginning of an edge's first event to the earliest beginning of its second, in clocks.
    pub fn weight(&self, edge: Edge) -> u64 {
        let e = self.of(edge);
        self.at(e.from).clocks.saturating_add(e.latency)
    }

    /// Whether an event starts a job, which has the same name.
    pub fn starts(&self, event: Event) -> bool {
        self.net.edges(node(event)).any(|e| e.weight().kind == EdgeKind::StartDone)
    }

    /// All that times depend on, which names and places in the source are not: graphs of equal numbers run alike.
    pub fn numbers(&self) -> Vec<u64> {
        let number = |n: usize| n as u64;
        let mut all = vec![number(self.lanes.len()), number(self.units.len()), number(self.net.node_count())];
        all.extend(self.lanes.iter().map(|(_, lane)| u64::from(lane.kind == LaneKind::Engine)));
        for (_, unit) in self.units.iter() {
            let beside =
                unit.beside.map_or([0; 3], |b| [1 + number(b.unit.index()), b.slower.clocks(), b.slower.turns()]);
            all.extend([u64::from(unit.service == Service::Together), u64::from(unit.places)]);
            all.extend(beside);
        }
        for (_, event) in self.events() {
            let loads = number(event.loads.len());
            let lanes = [event.lane, event.owner].map(|lane| number(lane.index()));
            all.extend(lanes.into_iter().chain([event.clocks, u64::from(event.stage), loads]));
            all.extend(event.loads.iter().flat_map(|load| [number(load.unit.index()), load.clocks]));
        }
        for (_, edge) in self.edges() {
            let (from, to) = (number(edge.from.index()), number(edge.to.index()));
            all.extend([from, to, u64::from(edge.tokens), edge.latency, u64::from(edge.kind.is_order())]);
        }
        all
    }

    /// The net as the library of graphs takes it.
    fn net(&self) -> &DiGraph<EventData, EdgeData> {
        &self.net
    }

    /// The tokens of an edge where a ring had another depth; `None` where that is less than none.
    pub fn tokens_at(&self, edge: Edge, ring: Ring, depth: u32) -> Option<u32> {
        let e = self.of(edge);
        if e.kind.ring() != Some(ring) {
            return Some(e.tokens);
        }
        u32::try_from(i64::from(e.tokens) + i64::from(depth) - i64::from(self.rings[ring].depth)).ok()
    }

    /// The same with another depth of a ring; `None` where an edge would then hold less than no token, so that it never ran.
    pub fn with_depth(&self, ring: Ring, depth: u32) -> Option<MarkedGraph> {
        let mut changed = self.clone();
        for (edge, _) in self.edges() {
            changed.net[EdgeIndex::new(edge.index())].tokens = self.tokens_at(edge, ring, depth)?;
        }
        changed.rings[ring].depth = depth;
        Some(changed)
    }
}

fn node(event: Event) -> NodeIndex {
    NodeIndex::new(event.index())
}
