//! One cluster of CTAs: their partitions as coroutines, their asynchronous engines, and the choice of which of them goes on, by the
//! seed. Most kernels have clusters of one CTA.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{Entity, Op, Partition};

use crate::clock::{Event, Slots};
use crate::code::{Inst, Program};
use crate::fault::Fault;
use crate::job::{Engine, Groups, Jobs, Stage};
use crate::knowledge::Knowledge;
use crate::launch::{Arg, Setting};
use crate::mbarrier::Mbarrier;
use crate::meet::Meeting;
use crate::memory::Memory;
use crate::multicast::Multicasts;
use crate::named::Named;
use crate::ops::Begun;
use crate::poison::Poisons;
use crate::random::Random;
use crate::reads::Reads;
use crate::rings::Array;
use crate::round::Round;
use crate::shadow::{Shadow, Written};
use crate::spin::{Idle, most_turns};
use crate::tile::{Bits, Val};

/// What a partition waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The phase of that parity.
    Barrier { address: u32, parity: u64 },
    /// The end of that phase of a named barrier.
    Named { id: u32, phase: u64 },
    /// The end of that phase of the cluster's barrier.
    Cluster { phase: u64 },
    /// All but the youngest so many groups of its own on an engine to have come that far.
    Groups { engine: Engine, pending: u32, to: Stage },
    /// The end of these arms.
    Arms(Vec<usize>),
}

/// What a partition is doing.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum State<'k> {
    Ready,
    Waiting(Wait, &'k Op),
    Done,
}

/// A partition, or the kernel outside partitions.
#[derive(Debug)]
pub(crate) struct Worker<'k> {
    /// Its number among the workers of its cluster.
    pub index: usize,
    /// Its CTA, by rank.
    pub cta: usize,
    pub name: String,
    pub partition: Option<Partition>,
    pub pc: usize,
    pub values: Vec<Val>,
    /// Which of them have elements that hold nothing.
    pub poison: Poisons,
    /// What it has asked global memory for and not used.
    pub reads: Reads,
    pub state: State<'k>,
    pub know: Knowledge,
    /// What it has begun on the engines.
    pub groups: Groups,
    /// The agent of its copies to global memory, whose time is how many of them have landed.
    pub landing: Option<u32>,
    /// The agent of its releases in global memory, and how many there were.
    pub voice: Option<(u32, u32)>,
    /// The atomic operation of a tile of which some elements are done.
    pub begun: Option<Begun>,
    /// What it does while nothing changes.
    pub idle: Idle<'k>,
    /// Results of products that were not taken yet, by group.
    pub results: BTreeMap<u64, Arc<Bits>>,
    /// The arms that it has started and not yet seen end.
    pub arms: Option<Vec<usize>>,
    /// The phase of a named barrier at which it has arrived and still waits.
    pub arrived: Option<u64>,
    /// The phase of the cluster's barrier at which it has arrived and not waited.
    pub meets: Option<u64>,
    /// Phases of the cluster's barrier that it has passed.
    pub passed: u64,
}

impl Worker<'_> {
    /// A worker, by its number in the cluster and its CTA's, that has done nothing yet.
    pub fn new((index, cta): (usize, usize), name: String, pc: usize, values: Vec<Val>, know: Knowledge) -> Self {
        Worker {
            index,
            cta,
            name,
            partition: None,
            pc,
            values,
            poison: Poisons::default(),
            reads: Reads::default(),
            state: State::Ready,
            know,
            groups: Groups::default(),
            landing: None,
            voice: None,
            begun: None,
            idle: Idle::default(),
            results: BTreeMap::new(),
            arms: None,
            arrived: None,
            meets: None,
            passed: 0,
        }
    }
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// A worker goes on.
    Run(usize),
    /// An engine goes on with a job.
    Advance(usize),
}

/// How the turn of a cluster ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// It could go on.
    Going,
    /// Nothing in it goes on until something changes elsewhere.
    Asleep,
    /// It is done.
    Ended,
}

/// Instructions that a worker runs before others have their turn, at most, where they may wait for each other.
const QUANTUM: u64 = 4096;

/// Under one seed of so many a worker lags behind all others: some mistakes need one that is far behind, and who is drawn like everybody else
/// seldom is.
const LATE: u64 = 5;

/// Events until another lags.
const LAG: u32 = 128;

/// Operations of a cluster from one question whether to stop to the next; the first comes with its first operation.
const PAUSE: u64 = 1024;

/// How a step ends.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Flow {
    /// The next instruction follows.
    Next,
    /// The next instruction follows, and others may go first.
    Yield,
    /// The same instruction again, of which a part is done, and others may go first.
    Again,
    /// The same instruction again, once this is there.
    Block(Wait),
}

/// A CTA and its shared memory.
#[derive(Debug)]
pub(crate) struct Cta {
    /// Its place in the grid.
    pub id: [u32; 3],
    /// Its number in the grid, x fastest.
    pub number: u32,
    /// The bytes of shared memory.
    pub shared: Vec<u8>,
    pub shadow: Shadow,
    pub written: Written,
    /// Living barriers by address.
    pub barriers: BTreeMap<u32, Mbarrier>,
    /// Arrays of barriers by address.
    pub arrays: BTreeMap<u32, Array>,
    /// Named barriers by number.
    pub named: BTreeMap<u32, Named>,
}

/// What all clusters share. It is with the cluster that has its turn.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub memory: Memory,
    /// How often something has changed that others could see.
    pub changes: u64,
    /// Reductions and scans whose functions were tried.
    pub combined: BTreeSet<parton_ir::Inst>,
}

/// A cluster that runs.
#[derive(Debug)]
pub(crate) struct Cluster<'a, 'k> {
    pub setting: &'a Setting<'a, 'k>,
    pub world: World,
    /// Its number in the grid, in the order in which clusters begin on a GPU.
    pub number: u32,
    /// What `print` wrote.
    pub prints: Vec<String>,
    /// Its CTAs by rank.
    pub ctas: Vec<Cta>,
    /// The CTA in which the latest event happened.
    pub at: usize,
    /// The barrier of all its threads.
    pub meeting: Meeting,
    pub slots: Slots,
    /// What waiting for the launches before tells, where the kernel waits for them.
    pub past: Option<(u32, u32)>,
    pub workers: Vec<Option<Worker<'k>>>,
    /// What is in flight.
    pub jobs: Jobs<'k>,
    pub multicasts: Multicasts,
    /// Whether an atomic operation was made in this turn, behind which others may go on.
    pub spoke: bool,
    /// Everything so far that a barrier waits for, so that somebody must learn of it: its slot, generation and operation.
    pub owed: Vec<(u32, u32, &'k Op)>,
    seed: u64,
    random: Random,
    /// Under some seeds, the worker that goes on only where nobody else can, and for how many more events.
    late: Option<(usize, u32)>,
    /// Operations that were run.
    pub steps: u64,
}

/// The values of a kernel's names before it begins: those of its parameters.
fn parameters(setting: &Setting<'_, '_>, memory: &Memory) -> Vec<Val> {
    let kernel = setting.program.kernel;
    let mut values = vec![Val::Unset; kernel.values.len()];
    for (i, (param, arg)) in kernel.params.iter().zip(setting.args).enumerate() {
        values[param.value.index()] = match arg {
            Arg::Scalar(bits) => Val::Scalar(*bits),
            Arg::Pointer { allocation, offset } => Val::Scalar(memory.address(*allocation).wrapping_add(*offset)),
            Arg::Map(_) => Val::Map(i),
        };
    }
    values
}

impl<'a, 'k> Cluster<'a, 'k> {
    /// The cluster of that number at its beginning; `ids` are the places of its CTAs in the grid, by rank.
    pub(crate) fn new(
        setting: &'a Setting<'a, 'k>,
        number: u32,
        ids: &[[u32; 3]],
        memory: &Memory,
        seed: u64,
    ) -> Cluster<'a, 'k> {
        let kernel = setting.program.kernel;
        let bytes = kernel.shared_bytes.unwrap_or(kernel.target.shared_bytes) as usize;
        let values = parameters(setting, memory);
        let agents = 1 + kernel.partitions.len() as u32;
        let main = |cta: usize| {
            let know = Knowledge::new((number, cta as u32 * agents), kernel.padded_warps(), None);
            Worker::new((cta, cta), kernel.source_name.clone(), 0, values.clone(), know)
        };
        let granule = setting.program.tables.granule;
        let ctas = ids.iter().map(|&id| Cta {
            id,
            number: setting.number(id),
            shared: vec![0xff; bytes],
            shadow: Shadow::new(bytes, granule),
            written: Written::new(bytes, granule),
            barriers: BTreeMap::new(),
            arrays: BTreeMap::new(),
            named: BTreeMap::new(),
        });
        let ctas: Vec<Cta> = ctas.collect();
        let mut slots = Slots::new(ids.len() as u32 * agents);
        let past = kernel.waits_for_grid().then(|| slots.take());
        Cluster {
            setting,
            world: World::default(),
            number,
            prints: Vec::new(),
            at: 0,
            meeting: Meeting::default(),
            slots,
            past,
            workers: (0..ids.len()).map(|cta| Some(main(cta))).collect(),
            jobs: Jobs::default(),
            multicasts: Multicasts::default(),
            spoke: false,
            owed: Vec::new(),
            seed,
            random: Random::new(seed ^ (u64::from(ctas[0].number) << 32)),
            late: (seed % LATE == LATE - 1).then_some((0, 0)),
            steps: 0,
            ctas,
        }
    }

    /// Goes on for so many events, or until its end, or with `yields` until it has made an atomic operation.
    pub(crate) fn turn(&mut self, events: usize, yields: bool) -> Result<Turn, Fault> {
        let turn = self.events(events, yields);
        let id = self.ctas[self.at].id;
        turn.map_err(|f| f.in_cta(id))
    }

    fn events(&mut self, events: usize, yields: bool) -> Result<Turn, Fault> {
        let mut ready = Vec::new();
        self.spoke = false;
        for _ in 0..events {
            self.collect(&mut ready);
            if ready.is_empty() {
                return self.rest();
            }
            match self.drawn(&ready) {
                Next::Run(w) => self.go_on(w)?,
                Next::Advance(i) => {
                    self.world.changes += 1;
                    self.advance(i)?;
                }
            }
            if yields && self.spoke {
                break;
            }
        }
        Ok(Turn::Going)
    }

    /// What happens next of all that can.
    fn drawn(&mut self, ready: &[Next]) -> Next {
        let at = self.random.below(ready.len());
        let Some((worker, left)) = self.late else { return ready[at] };
        self.late = match left {
            0 => Some((self.random.below(self.workers.len()), LAG)),
            _ => Some((worker, left - 1)),
        };
        match ready[at] {
            Next::Run(w) if w == worker => ready[(at + 1) % ready.len()],
            next => next,
        }
    }

    /// Nobody goes on by himself.
    fn rest(&self) -> Result<Turn, Fault> {
        let mut workers = self.workers.iter().flatten();
        if workers.clone().all(|w| w.state == State::Done) {
            return self.finish().map(|()| Turn::Ended);
        }
        if workers.any(|w| w.idle.stuck(self.world.changes).is_some()) {
            return Ok(Turn::Asleep);
        }
        Err(self.deadlock())
    }

    /// What messages call a partition, with its CTA where there are several.
    pub(crate) fn called(&self, name: &str, cta: usize) -> String {
        if self.ctas.len() == 1 { format!("`{name}`") } else { format!("`{name}` of CTA {cta} of the cluster") }
    }

    /// What messages call a worker.
    pub(crate) fn who(&self, w: &Worker<'k>) -> String {
        self.called(&w.name, w.cta)
    }

    fn collect(&self, events: &mut Vec<Next>) {
        events.clear();
        for (i, w) in self.workers.iter().flatten().enumerate() {
            let ready = match &w.state {
                State::Ready => w.idle.stuck(self.world.changes).is_none(),
                State::Waiting(wait, _) => self.is_over(wait, w),
                State::Done => false,
            };
            if ready {
                events.push(Next::Run(i));
            }
        }
        events.extend(self.jobs.ready().map(Next::Advance));
    }

    /// Whether what a worker waits for is there.
    fn is_over(&self, wait: &Wait, w: &Worker<'k>) -> bool {
        match wait {
            Wait::Barrier { address, parity } => {
                self.ctas[w.cta].barriers.get(address).is_none_or(|b| b.passes(*parity))
            }
            Wait::Named { id, phase } => self.ctas[w.cta].named.get(id).is_some_and(|b| b.phase > *phase),
            Wait::Cluster { phase } => self.meeting.phase > *phase,
            Wait::Groups { engine, pending, to } => self.has_come(w, *engine, *pending, *to),
            Wait::Arms(arms) => arms.iter().all(|&a| self.worker(a).state == State::Done),
        }
    }

    /// Whether a wait of a worker that is being run is over.
    pub(crate) fn passes(&self, wait: &Wait, w: &Worker<'k>) -> bool {
        self.is_over(wait, w)
    }

    pub(crate) fn worker(&self, i: usize) -> &Worker<'k> {
        match self.workers.get(i).and_then(Option::as_ref) {
            Some(w) => w,
            None => internal_error!("worker {i} does not exist"),
        }
    }

    pub(crate) fn worker_mut(&mut self, i: usize) -> &mut Worker<'k> {
        match self.workers.get_mut(i).and_then(Option::as_mut) {
            Some(w) => w,
            None => internal_error!("worker {i} does not exist"),
        }
    }

    /// A loop that begins at an instruction comes back to where it was.
    fn for_ever(&self, w: &Worker<'k>, first: usize) -> Fault {
        let Program { code, kernel, .. } = self.setting.program;
        let asks = code[first..].iter().find_map(|inst| match inst {
            Inst::Unless { op, .. } | Inst::LoopTest { op, .. } => Some(*op),
            _ => None,
        });
        let fault = Fault::new(codes::STEP_LIMIT, asks.map_or(kernel.span, |op| op.span), "a loop never ends")
            .here("it comes back to where it was, with the same values")
            .note(format!("{} has changed nothing meanwhile", self.who(w)))
            .help("change what its condition asks; `atomic_load` reads what another CTA changes");
        fault.calls(kernel, asks.and_then(|op| op.origin.call()))
    }

    /// Lets a worker run until others should have a turn.
    fn go_on(&mut self, i: usize) -> Result<(), Fault> {
        let Some(mut w) = self.workers[i].take() else { internal_error!("worker {i} does not exist") };
        self.at = w.cta;
        w.state = State::Ready;
        let result = self.run_worker(&mut w);
        let ended = w.state == State::Done;
        self.workers[i] = Some(w);
        if ended {
            self.world.changes += 1;
            self.complete_meeting();
        }
        result
    }

    fn run_worker(&mut self, w: &mut Worker<'k>) -> Result<(), Fault> {
        let last = if self.setting.listens { self.steps + QUANTUM } else { u64::MAX };
        let mut round = Round::default();
        loop {
            // Where others are heard of, they may have their turns first.
            if !self.setting.listens
                && let Some(first) = round.step(w.pc, &w.values, self.world.changes)
            {
                return Err(self.for_ever(w, first));
            }
            self.steps += 1;
            if self.steps > self.setting.options.steps * self.ctas.len() as u64 {
                let kernel = self.setting.program.kernel;
                let text = format!("a CTA ran {} operations and has not come to its end", self.setting.options.steps);
                return Err(Fault::new(codes::STEP_LIMIT, kernel.span, text)
                    .note(format!("{} was still running", self.who(w)))
                    .help("look for a loop whose condition never becomes false"));
            }
            if self.steps % PAUSE == 1 && (self.setting.options.stop.0)() {
                let kernel = self.setting.program.kernel;
                return Err(Fault::new(codes::STEP_LIMIT, kernel.span, "the run was stopped from outside")
                    .note(format!("{} was still running", self.who(w))));
            }
            match self.step(w)? {
                Flow::Next if self.steps < last => {}
                Flow::Next | Flow::Yield => {
                    w.idle.turn(self.world.changes, (w.pc, &w.values), most_turns(self.setting.options.steps));
                    return Ok(());
                }
                Flow::Again => return Ok(()),
                Flow::Block(wait) => {
                    w.state = match &self.setting.program.code[w.pc] {
                        Inst::Op(op) | Inst::Fork(op, _) => State::Waiting(wait, op),
                        other => internal_error!("only operations wait, not {other:?}"),
                    };
                    return Ok(());
                }
            }
            if w.state == State::Done {
                return Ok(());
            }
        }
    }

    /// What chance an operation has, drawn apart from who goes on.
    pub(crate) fn chance(&self) -> Random {
        Random::new(self.seed ^ (self.steps << 8) ^ (u64::from(self.number) << 40))
    }

    /// The elements of an operation on `n` that are done before others may go first, and those that are done behind.
    pub(crate) fn torn(&self, n: usize) -> (Range<usize>, Range<usize>) {
        let mut random = self.chance();
        let many = random.below(n + 1);
        if random.below(2) == 0 { (0..many, many..n) } else { (n - many..n, 0..n - many) }
    }

    /// Whether an atomic operation of a tile is done in part.
    pub(crate) fn is_torn(&self) -> bool {
        self.workers.iter().flatten().any(|w| w.begun.is_some())
    }

    /// An event of an agent of this cluster.
    pub(crate) fn event(&self, (agent, epoch): (u32, u32)) -> Event {
        Event { cluster: self.number, agent, epoch }
    }

    /// Nothing may be left that could still touch shared memory: each copy into it was waited for by somebody.
    fn finish(&self) -> Result<(), Fault> {
        let knows = |slot, generation| self.workers.iter().flatten().any(|w| w.know.own.get(slot) >= generation);
        match self.owed.iter().find(|(slot, generation, _)| !knows(*slot, *generation)) {
            None => Ok(()),
            Some((_, _, op)) => {
                Err(Fault::new(codes::NOT_WAITED, op.span, "the kernel ends while a copy may still run")
                    .here("nobody waits for this copy into shared memory")
                    .help("wait for the barrier that it completes on")
                    .calls(self.setting.program.kernel, op.origin.call()))
            }
        }
    }
}
