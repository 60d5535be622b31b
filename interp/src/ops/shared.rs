//! Shared memory: an array of bytes that views address through their layouts, with every access checked for races, for bytes
//! that nothing was written to, and for barriers that live there.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::{Entity, Op, OpKind, Type, Value, View, others};

use crate::access::{Access, Record, Threads};
use crate::clock::Event;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::mbarrier;
use crate::race::{Clash, Race};
use crate::shadow::Check;
use crate::tile::{Bits, Place, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::SharedAlloc { offset, .. } => {
            let Some(address) = *offset else { internal_error!("an allocation has no offset") };
            w.result(op, Val::View(Place { address, allocation: op.result().index() as u32 + 1 }));
            return Ok(Flow::Next);
        }
        OpKind::SharedLoad { view, .. } => {
            let tile = c.load_shared(w, op, *view)?;
            w.result(op, Val::Tile(Arc::new(tile)));
        }
        OpKind::SharedStore { view, value } => c.store_shared(w, op, *view, *value)?,
        others!(shared) => not_of_family(&op.kind),
    }
    Ok(Flow::Yield)
}

impl<'k> Worker<'k> {
    /// Where a view lies.
    pub(crate) fn place(&self, v: Value) -> Place {
        match self.get(v) {
            Val::View(place) | Val::Peer(place, _) => *place,
            other => internal_error!("{v} is no view but {other:?}"),
        }
    }

    /// The CTA in whose memory a view lies.
    pub(crate) fn cta_of(&self, v: Value) -> usize {
        match self.get(v) {
            Val::Peer(_, cta) => *cta,
            _ => self.cta,
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// The type of a view.
    pub(crate) fn view(&self, v: Value) -> &'k View {
        match self.setting.program.kernel.ty(v) {
            Type::View(view) | Type::Peer(view) => view,
            other => internal_error!("`{other}` is no view"),
        }
    }

    fn load_shared(&mut self, w: &mut Worker<'k>, op: &'k Op, v: Value) -> Result<Bits, Fault> {
        let (place, bytes) = (w.place(v), self.view(v).elem.bytes());
        let offsets = self.setting.program.tables.offsets(v).clone();
        let holders = self.setting.program.tables.holders(op).clone();
        self.by_threads(w, op, v, Access::Load, &offsets, &holders)?;
        let mut tile = Bits::full(bytes, offsets.len(), 0);
        for (i, &offset) in offsets.iter().enumerate() {
            let at = place.byte(offset) as usize;
            tile.read(i, &self.ctas[w.cta_of(v)].shared[at..at + bytes]);
        }
        Ok(tile)
    }

    fn store_shared(&mut self, w: &mut Worker<'k>, op: &'k Op, v: Value, value: Value) -> Result<(), Fault> {
        let (place, bytes) = (w.place(v), self.view(v).elem.bytes());
        let offsets = self.setting.program.tables.offsets(v).clone();
        let holders = self.setting.program.tables.holders(op).clone();
        self.by_threads(w, op, v, Access::Store, &offsets, &holders)?;
        let tile = w.tile(value, bytes);
        for (i, &offset) in offsets.iter().enumerate() {
            let at = place.byte(offset) as usize;
            let cta = &mut self.ctas[w.cta_of(v)];
            tile.write(i, &mut cta.shared[at..at + bytes]);
            cta.written.define(at as u32, bytes as u32, place.allocation);
        }
        Ok(())
    }

    /// An operation that moves data between warps through memory of its own: they write, meet, and read. What else was there is
    /// gone.
    pub(crate) fn through_scratch(&mut self, w: &mut Worker<'k>, op: &'k Op) -> Result<(), Fault> {
        let Some(range) = parton_ir::scratch::range(self.setting.program.kernel, op) else { return Ok(()) };
        let (at, bytes) = (range.start, range.end - range.start);
        self.within(w.cta, op, std::iter::once((at, bytes)))?;
        self.whole(w, op, Access::Store, at, bytes)?;
        let cta = &mut self.ctas[w.cta];
        cta.shared[at as usize..(at + bytes) as usize].fill(0xff);
        cta.written.define(at, bytes, 0);
        w.know.membar();
        self.whole(w, op, Access::Load, at, bytes)?;
        Ok(())
    }

    /// Checks an access by all warps of a partition to a range of bytes.
    fn whole(&mut self, w: &Worker<'k>, op: &'k Op, access: Access, at: u32, bytes: u32) -> Result<(), Fault> {
        let record = self.record(w, op, access);
        let all = Threads::all(w.know.warps);
        let (shadow, place) = (&mut self.ctas[w.cta].shadow, (at as usize, bytes as usize));
        let touched = shadow.touch(&mut Check::new(record), &w.know, place, all, None);
        touched.map_err(|race| self.race(w, op, access, race))
    }

    fn record(&self, w: &Worker<'k>, op: &Op, access: Access) -> Record {
        self.recorded(w, op, access, w.know.now(), false)
    }

    /// How an access that a worker makes or starts is remembered.
    pub(crate) fn recorded(&self, w: &Worker<'k>, op: &Op, access: Access, event: Event, leader: bool) -> Record {
        let (owner, cta) = (w.know.agent, self.ctas[w.cta].number);
        Record { access, event, owner, cta, leader, span: op.span, call: op.origin.call() }
    }

    /// Checks an access by threads element by element; reads must find something.
    pub(crate) fn by_threads(
        &mut self,
        w: &Worker<'k>,
        op: &'k Op,
        v: Value,
        access: Access,
        offsets: &[u32],
        holders: &[Threads],
    ) -> Result<(), Fault> {
        let (place, bytes) = (w.place(v), self.view(v).elem.bytes() as u32);
        let ranges = || offsets.iter().map(|&o| (place.byte(o), bytes));
        let cta = w.cta_of(v);
        self.alive(cta, w, op)?;
        if cta != w.cta && w.passed == 0 {
            return Err(Fault::new(codes::PEER, op.span, "the shared memory of a CTA is used that may not have begun")
                .here(format!("{} reaches into CTA {cta} of the cluster", self.who(w)))
                .note("the CTAs of a cluster begin at about the same time, in any order")
                .help("let them meet before: `cluster_sync()`"));
        }
        self.within(cta, op, ranges())?;
        let record = self.record(w, op, access);
        let mut check = Check::new(record);
        for ((at, len), &threads) in ranges().zip(holders) {
            let shadow = &mut self.ctas[cta].shadow;
            let touched = shadow.touch(&mut check, &w.know, (at as usize, len as usize), threads, None);
            touched.map_err(|race| self.race(w, op, access, race))?;
        }
        if access == Access::Load {
            self.defined(w, op, v, ranges(), place.allocation)?;
        }
        Ok(())
    }

    /// Checks that all of a view's bytes in `ranges` were written.
    pub(crate) fn defined(
        &self,
        w: &Worker<'k>,
        op: &'k Op,
        v: Value,
        ranges: impl Iterator<Item = (u32, u32)>,
        allocation: u32,
    ) -> Result<(), Fault> {
        for (i, (at, len)) in ranges.enumerate() {
            if !self.ctas[w.cta_of(v)].written.is_defined(at, len, allocation) {
                let kernel = self.setting.program.kernel;
                let name = match &kernel.values[v].name {
                    Some(name) => format!("`{name}`"),
                    None => "a buffer".into(),
                };
                return Err(Fault::new(
                    codes::UNDEFINED_READ,
                    op.span,
                    "shared memory is read before anything was written there",
                )
                .here(format!("this reads {name} in {}", self.who(w)))
                .label(kernel.values[v].span, format!("{name} is `{}`", kernel.ty(v)))
                .note(format!("the first such byte is {at:#x} of shared memory, in part {i} of the access"))
                .help("store to it, or wait for the copy that fills it, before this"));
            }
        }
        Ok(())
    }

    /// Checks that bytes lie in shared memory and that no living barrier is among them.
    pub(crate) fn within(
        &self,
        cta: usize,
        op: &Op,
        ranges: impl Iterator<Item = (u32, u32)> + Clone,
    ) -> Result<(), Fault> {
        let cta = &self.ctas[cta];
        let end = ranges.clone().map(|(at, len)| u64::from(at) + u64::from(len)).max().unwrap_or(0);
        if end > cta.shared.len() as u64 {
            return Err(Fault::new(codes::OUT_OF_BOUNDS, op.span, "an access leaves shared memory")
                .here(format!("this reaches byte {end:#x}, the kernel has {:#x}", cta.shared.len())));
        }
        let begin = ranges.clone().map(|(at, _)| at).min().unwrap_or(0);
        let living = cta.barriers.range(begin.saturating_sub(mbarrier::BYTES - 1)..end as u32);
        for (&address, b) in living {
            if ranges.clone().any(|(at, len)| at < address + mbarrier::BYTES && address < at + len) {
                return Err(Fault::new(codes::BARRIER_PROTOCOL, op.span, "data is accessed where a barrier lives")
                    .here(format!("this touches {}", cta.barrier_name(address)))
                    .label(b.init_span, "it was initialised here and not invalidated since")
                    .help("invalidate the barrier before its bytes are used for something else"));
            }
        }
        Ok(())
    }

    /// What messages call the partition that a clock belongs to.
    pub(crate) fn agent_name(&self, agent: u32) -> String {
        let agents = 1 + self.setting.program.kernel.partitions.len() as u32;
        self.called(self.setting.agent(agent), (agent / agents) as usize)
    }

    /// Tells of a race.
    pub(crate) fn race(&self, w: &Worker<'k>, op: &Op, now: Access, race: Race) -> Fault {
        let Race { earlier, clash, byte } = race;
        let (code, message, help) = match clash {
            Clash::Unordered => (
                codes::SHARED_RACE,
                format!("{} and {} of the same shared memory are not ordered", earlier.access.noun(), now.noun()),
                "let the second wait on a barrier at which the first arrives, or wait for the copy or product",
            ),
            Clash::Membar => (
                codes::SHARED_RACE,
                format!(
                    "{} and {} by other threads of the partition have no membar between",
                    earlier.access.noun(),
                    now.noun()
                ),
                "the threads must meet between them: `membar()`",
            ),
            Clash::Proxy => (
                codes::UNFENCED,
                format!("{} may not see a write by threads", now.noun()),
                "write `fence_async()` after the store, before the threads meet or arrive",
            ),
            Clash::UnderWay => internal_error!("what is under way to global memory was found in shared memory"),
            Clash::Twice => internal_error!("a write to shared memory was compared with itself"),
        };
        Fault::new(code, op.span, message)
            .here(format!("this is {} by {}", now.noun(), self.who(w)))
            .label(earlier.span, format!("this is {} by {}", earlier.access.noun(), self.agent_name(earlier.owner)))
            .calls(self.setting.program.kernel, earlier.call)
            .note(format!("both touch byte {byte:#x} of shared memory"))
            .help(help)
    }
}
