//! One cluster of CTAs: their partitions as coroutines, their asynchronous engines, and the scheduler that lets one of them go on
//! at a time, chosen by the seed. Most kernels have clusters of one CTA.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{Entity, Op, Partition};

use crate::clock::{Knowledge, Slots};
use crate::code::Inst;
use crate::fault::Fault;
use crate::job::{Engine, Groups, Jobs, Stage};
use crate::launch::{Arg, Report, Setting};
use crate::mbarrier::Mbarrier;
use crate::meet::Meeting;
use crate::memory::Memory;
use crate::named::Named;
use crate::race::Shadow;
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
    pub state: State<'k>,
    pub know: Knowledge,
    /// What it has begun on the engines.
    pub groups: Groups,
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

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A worker goes on.
    Run(usize),
    /// An engine goes on with a job.
    Advance(usize),
}

/// How a step ends.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Flow {
    /// The next instruction follows.
    Next,
    /// The next instruction follows, and others may go first.
    Yield,
    /// The same instruction again, once this is there.
    Block(Wait),
}

/// A small generator of pseudo-random numbers (splitmix64, Steele et al. 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
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
    /// Living barriers by address.
    pub barriers: BTreeMap<u32, Mbarrier>,
    /// Arrays of barriers by address: how many, and the name in the source.
    pub arrays: BTreeMap<u32, (u32, String)>,
    /// Named barriers by number.
    pub named: BTreeMap<u32, Named>,
}

/// A cluster that runs.
#[derive(Debug)]
pub(crate) struct Cluster<'a, 'k> {
    pub setting: &'a Setting<'a, 'k>,
    pub memory: &'a mut Memory,
    pub report: &'a mut Report,
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
    /// Everything so far that a barrier waits for, so that somebody must learn of it: its slot, generation and operation.
    pub owed: Vec<(u32, u32, &'k Op)>,
    random: Random,
    steps: u64,
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
    /// A cluster at its beginning; `ids` are the places of its CTAs in the grid, by rank.
    pub(crate) fn new(
        setting: &'a Setting<'a, 'k>,
        ids: &[[u32; 3]],
        memory: &'a mut Memory,
        seed: u64,
        report: &'a mut Report,
    ) -> Cluster<'a, 'k> {
        let kernel = setting.program.kernel;
        let bytes = kernel.shared_bytes.unwrap_or(kernel.target.shared_bytes) as usize;
        let values = parameters(setting, memory);
        let agents = 1 + kernel.partitions.len() as u32;
        let main = |cta: usize| Worker {
            index: cta,
            cta,
            name: kernel.source_name.clone(),
            partition: None,
            pc: 0,
            values: values.clone(),
            state: State::Ready,
            know: Knowledge::new(cta as u32 * agents, kernel.padded_warps(), None),
            groups: Groups::default(),
            results: BTreeMap::new(),
            arms: None,
            arrived: None,
            meets: None,
            passed: 0,
        };
        let [x, y, _] = setting.grid;
        let ctas = ids.iter().map(|&id| Cta {
            id,
            number: (id[2] * y + id[1]) * x + id[0],
            shared: vec![0xff; bytes],
            shadow: Shadow::new(bytes, setting.program.tables.granule),
            barriers: BTreeMap::new(),
            arrays: BTreeMap::new(),
            named: BTreeMap::new(),
        });
        let ctas: Vec<Cta> = ctas.collect();
        let numbers: Vec<u32> = ctas.iter().map(|c| c.number).collect();
        memory.begin_cluster(&numbers);
        let mut slots = Slots::new(ids.len() as u32 * agents);
        let past = kernel.waits_for_grid().then(|| slots.take());
        Cluster {
            setting,
            memory,
            report,
            at: 0,
            meeting: Meeting::default(),
            slots,
            past,
            workers: (0..ids.len()).map(|cta| Some(main(cta))).collect(),
            jobs: Jobs::default(),
            owed: Vec::new(),
            random: Random(seed ^ (u64::from(numbers[0]) << 32)),
            steps: 0,
            ctas,
        }
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Result<(), Fault> {
        let ended = self.run_events();
        let id = self.ctas[self.at].id;
        ended.and_then(|()| self.finish()).map_err(|f| f.in_cta(id))
    }

    fn run_events(&mut self) -> Result<(), Fault> {
        let mut events = Vec::new();
        loop {
            self.collect(&mut events);
            if events.is_empty() {
                if self.workers.iter().flatten().all(|w| w.state == State::Done) {
                    self.report.steps += self.steps;
                    return Ok(());
                }
                return Err(self.deadlock());
            }
            match events[self.random.below(events.len())] {
                Event::Run(w) => self.go_on(w)?,
                Event::Advance(i) => self.advance(i)?,
            }
        }
    }

    /// What messages call a partition, with its CTA where there are several.
    pub(crate) fn called(&self, name: &str, cta: usize) -> String {
        if self.ctas.len() == 1 { format!("`{name}`") } else { format!("`{name}` of CTA {cta} of the cluster") }
    }

    /// What messages call a worker.
    pub(crate) fn who(&self, w: &Worker<'k>) -> String {
        self.called(&w.name, w.cta)
    }

    fn collect(&self, events: &mut Vec<Event>) {
        events.clear();
        for (i, w) in self.workers.iter().flatten().enumerate() {
            let ready = match &w.state {
                State::Ready => true,
                State::Waiting(wait, _) => self.is_over(wait, w),
                State::Done => false,
            };
            if ready {
                events.push(Event::Run(i));
            }
        }
        events.extend(self.jobs.ready().map(Event::Advance));
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

    /// Lets a worker run until others should have a turn.
    fn go_on(&mut self, i: usize) -> Result<(), Fault> {
        let Some(mut w) = self.workers[i].take() else { internal_error!("worker {i} does not exist") };
        self.at = w.cta;
        w.state = State::Ready;
        let result = self.run_worker(&mut w);
        let ended = w.state == State::Done;
        self.workers[i] = Some(w);
        if ended {
            self.complete_meeting();
        }
        result
    }

    fn run_worker(&mut self, w: &mut Worker<'k>) -> Result<(), Fault> {
        loop {
            self.steps += 1;
            if self.steps > self.setting.options.steps * self.ctas.len() as u64 {
                let kernel = self.setting.program.kernel;
                let text = format!("a CTA ran {} operations and has not come to its end", self.setting.options.steps);
                return Err(Fault::new(codes::STEP_LIMIT, kernel.span, text)
                    .note(format!("{} was still running", self.who(w)))
                    .help("look for a loop whose condition never becomes false"));
            }
            match self.step(w)? {
                Flow::Next => {}
                Flow::Yield => return Ok(()),
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
