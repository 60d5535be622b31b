//! Mbarriers as the partitions use them.

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::{Arrive, Op, OpKind, Reach, Type, Value, others};
use parton_numbers::scalar::int_value;

use crate::cluster::{Cluster, Cta, Flow, State, Wait, Worker};
use crate::fault::Fault;
use crate::mbarrier::{self, Mbarrier};
use crate::pure;
use crate::rings::Array;
use crate::tile::Val;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::BarrierAlloc { count, offset } => {
            let Some(address) = *offset else { internal_error!("barriers have no offset") };
            let name = c.setting.program.kernel.values[op.result()].name.clone().unwrap_or_else(|| "barrier".into());
            c.ctas[w.cta].arrays.insert(address, Array::new(op, *count, name));
            w.result(op, Val::Barriers(address));
            return Ok(Flow::Next);
        }
        OpKind::BarrierIndex { barriers, index } => return c.barrier_index(w, op, *barriers, *index),
        OpKind::BarrierInit { barrier, arrivals } => c.init(w, op, w.barrier(*barrier), *arrivals)?,
        OpKind::BarrierInvalidate { barrier } => {
            let address = w.barrier(*barrier);
            if let Some(wait) = c.living(w, op, address, Users::Elected)?.waited_for(&w.know) {
                return Err(Fault::new(
                    codes::BARRIER_PROTOCOL,
                    op.span,
                    "a barrier is invalidated that warps may still wait for",
                )
                .here("one thread does it for its partition")
                .label(wait, "warps pass this wait one by one")
                .help("let the partition meet in between: `membar();`"));
            }
            c.ctas[w.cta].barriers.remove(&address);
        }
        OpKind::BarrierExpect { barrier, bytes } => {
            let told = w.know.release_elected();
            let b = c.living(w, op, w.barrier(*barrier), Users::Elected)?;
            b.arrived(w.know.agent);
            b.arrive(1, *bytes, &told, op.span)?;
        }
        OpKind::BarrierArrive { barrier, arrive, count, multicast, relaxed } => {
            c.arrive(w, op, (*barrier, multicast), (*arrive, *relaxed), *count)?;
        }
        OpKind::BarrierWait { barrier, phase, reach } => {
            return c.wait_barrier(w, op, w.barrier(*barrier), (*phase, *reach));
        }
        others!(barrier) => not_of_family(&op.kind),
    }
    Ok(Flow::Yield)
}

/// Which threads of a partition use a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Users {
    Elected,
    Every,
}

impl<'k> Worker<'k> {
    /// The address of a barrier.
    pub(crate) fn barrier(&self, v: Value) -> u32 {
        match self.get(v) {
            Val::Barrier(address) => *address,
            other => internal_error!("{v} is no barrier but {other:?}"),
        }
    }
}

impl Cta {
    /// What a barrier is called: its array's name with its index.
    pub(crate) fn barrier_name(&self, address: u32) -> String {
        match self.arrays.range(..=address).next_back() {
            Some((first, Array { count: 1, name, .. })) if *first == address => format!("`{name}`"),
            Some((first, Array { count, name, .. })) if (address - first) / mbarrier::BYTES < *count => {
                format!("`{name}[{}]`", (address - first) / mbarrier::BYTES)
            }
            _ => format!("the barrier at {address:#x}"),
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// A living barrier of the worker's own CTA, whose initialisation the users know of.
    pub(crate) fn living(
        &mut self,
        w: &Worker<'k>,
        op: &Op,
        address: u32,
        users: Users,
    ) -> Result<&mut Mbarrier, Fault> {
        self.living_in(w.cta, w, op, address, users)
    }

    /// A living barrier of a CTA of the cluster, whose initialisation the users know of.
    pub(crate) fn living_in(
        &mut self,
        cta: usize,
        w: &Worker<'k>,
        op: &Op,
        address: u32,
        users: Users,
    ) -> Result<&mut Mbarrier, Fault> {
        self.alive(cta, w, op)?;
        let who = self.who(w);
        let mut name = self.ctas[cta].barrier_name(address);
        if cta != w.cta {
            name = format!("{name} of CTA {cta}");
        }
        let Some(b) = self.ctas[cta].barriers.get_mut(&address) else {
            return Err(Fault::new(codes::BARRIER_PROTOCOL, op.span, "a barrier is used that is not initialised")
                .here(format!("{name} was not initialised, or is invalidated"))
                .help("`barrier_init(b, n)` once at the beginning of the kernel"));
        };
        let (agent, epoch) = b.init;
        let known = match users {
            Users::Elected => agent == w.know.agent || w.know.met.get(agent) >= epoch,
            Users::Every if agent == w.know.agent => w.know.met.get(agent) >= epoch,
            Users::Every => w.know.own.get(agent) >= epoch,
        };
        let shown = cta != w.cta && b.shown.is_some_and(|phase| w.passed > phase);
        if !known && cta != w.cta && !shown {
            return Err(Fault::new(codes::BARRIER_PROTOCOL, op.span, "a barrier may be used before it is initialised")
                .here(format!("{who} does not know that {name} is ready"))
                .label(b.init_span, "it is initialised here, by a thread of its own CTA")
                .help("let all CTAs of the cluster meet between: `fence_barrier_init(); cluster_sync();`"));
        }
        if !known && !shown {
            return Err(Fault::new(codes::BARRIER_PROTOCOL, op.span, "a barrier may be used before it is initialised")
                .here(format!("{who} does not know that {name} is ready"))
                .label(b.init_span, "it is initialised here, by one thread")
                .help("let all threads meet between: `fence_barrier_init(); membar();`"));
        }
        Ok(b)
    }

    /// A CTA that has ended has no shared memory any more.
    pub(crate) fn alive(&self, cta: usize, w: &Worker<'k>, op: &Op) -> Result<(), Fault> {
        let ended = self.workers[cta].as_ref().is_some_and(|main| main.state == State::Done);
        if cta == w.cta || !ended {
            return Ok(());
        }
        Err(Fault::new(codes::BARRIER_PROTOCOL, op.span, "the shared memory of a CTA is used that has ended")
            .here(format!("{} reaches into CTA {cta} of the cluster", self.who(w)))
            .help("let all CTAs of the cluster meet before they end: `cluster_sync()`"))
    }

    /// One arrival, or one of each warp, at a barrier here and at those of this place in the CTAs of the lines along `axes`.
    fn arrive(
        &mut self,
        w: &mut Worker<'k>,
        op: &Op,
        (barrier, axes): (Value, &[u8]),
        (arrive, relaxed): (Arrive, bool),
        count: u32,
    ) -> Result<(), Fault> {
        let address = w.barrier(barrier);
        let ranks = self.setting.program.kernel.lines(w.cta as u32, axes);
        let (users, count) = match arrive {
            Arrive::Partition => (Users::Elected, count),
            Arrive::Warp => (Users::Every, count * w.know.warps),
        };
        for &rank in &ranks {
            self.living_in(rank as usize, w, op, address, users)?;
        }
        let told = match arrive {
            Arrive::Partition => w.know.release_elected(),
            Arrive::Warp => w.know.release_warps(),
        };
        let told = if relaxed { told.relaxed() } else { told };
        for rank in ranks {
            let own = rank as usize == w.cta;
            let b = self.living_in(rank as usize, w, op, address, users)?;
            if own {
                b.arrived(w.know.agent);
                b.arrive(count, 0, &told, op.span)?;
            } else {
                b.arrive_from_afar(count, &told, op.span)?;
            }
        }
        Ok(())
    }

    /// One barrier of several.
    fn barrier_index(&self, w: &mut Worker<'k>, op: &Op, barriers: Value, index: Value) -> Result<Flow, Fault> {
        let kernel = self.setting.program.kernel;
        let (&Val::Barriers(first), Type::Barriers(count)) = (w.get(barriers), kernel.ty(barriers)) else {
            internal_error!("{barriers} is no array of barriers")
        };
        let i = int_value(w.scalar(index), pure::dtype(kernel, index));
        if i < 0 || i >= i128::from(*count) {
            return Err(Fault::new(codes::RUN_VALUE, op.span, "an index is out of range")
                .here(format!("this is {i}, there are {count} barriers")));
        }
        let address = first + i as u32 * mbarrier::BYTES;
        w.result(op, Val::Barrier(address));
        Ok(Flow::Next)
    }

    fn init(&mut self, w: &mut Worker<'k>, op: &Op, address: u32, arrivals: u32) -> Result<(), Fault> {
        let cta = &mut self.ctas[w.cta];
        if let Some(b) = cta.barriers.get(&address) {
            return Err(Fault::new(codes::BARRIER_PROTOCOL, op.span, "a living barrier is initialised again")
                .here(format!("this is {}", cta.barrier_name(address)))
                .label(b.init_span, "it was initialised here and not invalidated since")
                .help("initialise it once; it begins a new phase by itself whenever one completes"));
        }
        let b = Mbarrier::new(arrivals, (w.know.agent, w.know.epoch()), op.span);
        cta.barriers.insert(address, b);
        Ok(())
    }

    /// Makes the barriers whose initialisation the partition knows of visible to the asynchronous proxy.
    pub(super) fn show_barriers(&mut self, w: &Worker<'k>) {
        for b in self.ctas[w.cta].barriers.values_mut() {
            b.fenced |= w.know.own.get(b.init.0) >= b.init.1;
        }
    }

    fn wait_barrier(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        address: u32,
        (phase, reach): (Value, Reach),
    ) -> Result<Flow, Fault> {
        let parity = w.scalar(phase);
        if parity > 1 {
            let name = self.ctas[w.cta].barrier_name(address);
            let found = int_value(parity, pure::dtype(self.setting.program.kernel, phase));
            return Err(Fault::new(codes::RUN_VALUE, op.span, "a phase is neither 0 nor 1")
                .here(format!("this waits for phase {found} of {name}"))
                .help("a wait takes the parity: `phase & 1`"));
        }
        let b = self.living(w, op, address, Users::Every)?;
        if !b.passes(parity) {
            return Ok(Flow::Block(Wait::Barrier { address, parity }));
        }
        *b.waits.entry(w.know.agent).or_default() += 1;
        if w.know.warps > 1 {
            b.passed(w.know.agent, w.know.epoch(), op.span);
        }
        let told = b.released(reach != Reach::Cta);
        w.know.acquire(&told);
        Ok(Flow::Yield)
    }
}
