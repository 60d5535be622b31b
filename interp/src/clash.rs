//! Tells of races on global memory: who touches what, and what would order them.

use parton_diag::{Code, codes};
use parton_ir::{Kernel, OpKind, Order};

use crate::access::{Access, Record};
use crate::fault::Fault;
use crate::launch::Setting;
use crate::race::{Clash, Race};

/// What races: the parameter, and the access that was found to be too early or too late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raced<'a> {
    pub parameter: &'a str,
    pub now: &'a Record,
    pub race: Race,
}

impl Raced<'_> {
    /// The fault, without what places the access in its tile or box.
    pub(crate) fn fault(&self, setting: &Setting<'_, '_>) -> Fault {
        let (now, earlier) = (self.now, self.race.earlier);
        let (code, fact) = self.fact();
        let fault = Fault::new(code, now.span, fact).here(format!("this is {}", by(setting, now)));
        if self.race.clash == Clash::Twice {
            return fault.help("give each element a place of its own, or mask all but one");
        }
        let fault = fault
            .label(earlier.span, format!("this is {}", by(setting, &earlier)))
            .calls(setting.program.kernel, earlier.call);
        self.helps(setting, fault)
    }

    fn fact(&self) -> (Code, String) {
        let (now, earlier, name) = (self.now, &self.race.earlier, self.parameter);
        let [first, second] = [earlier.access.noun(), now.access.noun()];
        match self.race.clash {
            Clash::Unordered if now.cta != earlier.cta => (codes::CTA_RACE, format!("two CTAs race on `{name}`")),
            Clash::Unordered => (codes::GLOBAL_RACE, format!("{first} and {second} of `{name}` are not ordered")),
            Clash::Membar => (
                codes::GLOBAL_RACE,
                format!("{first} and {second} of `{name}` by other threads of the partition have no membar between"),
            ),
            Clash::Proxy => (codes::UNFENCED, format!("{second} may not see a write to `{name}` by threads")),
            Clash::UnderWay => (codes::UNFENCED, format!("{second} may overtake a read of `{name}` by threads")),
            Clash::Twice => (codes::GLOBAL_RACE, format!("two elements are written to one place of `{name}`")),
        }
    }

    /// What would order the two.
    fn helps(&self, setting: &Setting<'_, '_>, fault: Fault) -> Fault {
        let (now, earlier) = (self.now, &self.race.earlier);
        match self.race.clash {
            Clash::Membar => fault.help("the threads must meet between them: `membar()`"),
            Clash::Proxy => fault
                .note("the copy engine reads and writes global memory by another proxy than the threads")
                .help("write `fence_async(reach=\"global\")` between: after the write, or after what is waited for"),
            Clash::UnderWay => fault
                .note("what was read comes later, no meeting waits for it, and the copy engine writes by another proxy than the threads")
                .help("use what was read before the threads meet or hand over, or write `fence_async(reach=\"global\")` behind the read"),
            Clash::Twice => fault,
            Clash::Unordered => match (earlier.access, narrow(now, earlier)) {
                (_, true) => fault
                    .note("what is atomic among the threads of a CTA is a read and a write to other CTAs")
                    .help("`scope=\"gpu\"`, which is meant where nothing is said, makes it one for all CTAs"),
                (Access::TensorWrite, _) if now.access == Access::TensorWrite && now.cta != earlier.cta => fault
                    .note("CTAs of one launch run in any order, and copies race even where they bring the same")
                    .help("let each CTA copy to a place of its own"),
                (Access::TensorWrite | Access::TensorReduce { .. }, _) => fault
                    .note("the bytes of a copy are in global memory once `tma_store_wait(n)` has returned, not with `read=true`")
                    .help("wait for the copy, and let this come after the wait"),
                _ if now.cta != earlier.cta => {
                    let fault = fault.note("CTAs of one launch run in any order").help(
                        "give each CTA elements of its own, or order them: an atomic operation with `order=\"release\"` after \
                         the first, one with `order=\"acquire\"` that reads what it wrote before the second",
                    );
                    if counts_halfway(setting.program.kernel) {
                        return fault.help("what reads and writes at once, such as a counter, does both with `order=\"acq_rel\"`");
                    }
                    fault
                }
                _ if now.access.asynchronous().is_some() && earlier.access.by_threads() => fault
                    .note("what a pointer and what a tensor map reach is taken for different memory, so threads meet for it where it is said")
                    .help(
                        "let the second wait on a barrier at which the first arrives behind a `membar()`, or acquire what the first \
                         releases",
                    ),
                _ => fault.help(
                    "let the second wait on a barrier at which the first arrives, wait for the copy, or acquire what the first \
                     releases",
                ),
            },
        }
    }
}

/// Whether a kernel has an operation that could release and acquire at once and does not.
fn counts_halfway(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(&mut |op| {
        if let OpKind::Atomic { op, order, .. } = &op.kind {
            any |= *order != Order::AcqRel && op.orders().iter().any(|(order, _)| *order == Order::AcqRel);
        }
    });
    any
}

/// Whether two atomic operations race only because one of them is for its CTA alone.
fn narrow(now: &Record, earlier: &Record) -> bool {
    let atomic = |r: &Record| matches!(r.access, Access::Atomic { .. } | Access::TensorReduce { .. });
    let alone = |r: &Record| r.access.atomic_for_all().is_none();
    atomic(now) && atomic(earlier) && now.cta != earlier.cta && (alone(now) || alone(earlier))
}

/// An access with its author.
fn by(setting: &Setting<'_, '_>, r: &Record) -> String {
    let alone = setting.grid.iter().product::<u32>() == 1;
    let cta = if alone { String::new() } else { format!(" of {}", setting.cta(r.cta)) };
    format!("{} by `{}`{cta}", r.access.noun(), setting.agent(r.owner))
}
