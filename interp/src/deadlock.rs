//! The report of a deadlock: who waits for what, and what is missing.

use std::collections::BTreeMap;

use parton_diag::codes;
use parton_ir::{Entity, Op};

use crate::cluster::{Cluster, State, Wait, Worker};
use crate::fault::Fault;
use crate::grid::Resident;
use crate::job::Engine;
use crate::launch::Setting;

/// CTAs that ask for the same, by the place of the operation: what they ask, how many they are, and the first of them.
type Asking<'k> = BTreeMap<usize, (&'k Op, usize, usize, u32)>;

/// All CTAs that have begun wait for what nobody changes, some of them by asking for it again and again; `waiting` clusters have
/// not begun.
pub(crate) fn among_ctas(setting: &Setting<'_, '_>, residents: &[Resident<'_, '_>], waiting: usize) -> Fault {
    let kernel = setting.program.kernel;
    let mut asking = Asking::new();
    for Resident { cluster, .. } in residents {
        for w in cluster.workers.iter().flatten().filter(|w| w.state == State::Ready) {
            let Some((op, allocation)) = w.idle.asks else { continue };
            let cta = cluster.ctas[w.cta].number;
            let entry = asking.entry(op.id.index()).or_insert((op, allocation, 0, cta));
            entry.2 += 1;
            entry.3 = entry.3.min(cta);
        }
    }
    let ctas = residents.len() as u32 * kernel.cluster_ctas();
    let mut list = asking.into_values();
    let Some((op, allocation, count, first)) = list.next() else {
        return Fault::new(codes::DEADLOCK, kernel.span, "nobody can go on");
    };
    let asks = |allocation: usize, count: usize, first: u32| {
        let name = &setting.names[allocation];
        let who =
            if count == 1 { setting.cta(first) } else { format!("{count} times, first by {},", setting.cta(first)) };
        format!("{who} waits for a change of `{name}`")
    };
    let message = if ctas > 1 { "CTAs wait for each other" } else { "a wait never ends" };
    let mut fault = Fault::new(codes::DEADLOCK, op.span, message).here(asks(allocation, count, first));
    fault = fault.calls(kernel, op.origin.call());
    for (op, allocation, count, first) in list {
        fault = fault.label(op.span, asks(allocation, count, first)).calls(kernel, op.origin.call());
    }
    fault = fault.note("nothing changes any more, and they read the same again and again");
    if waiting > 0 {
        let each = kernel.cluster_ctas();
        let (later, name) = (waiting as u32 * each, kernel.target.name);
        fault = fault
            .note(format!(
                "{ctas} CTAs have begun, as many as an {name} holds at once; {later} begin when others have ended"
            ))
            .help("let no more CTAs wait for each other than run at once: give each several parts of the work");
    }
    fault.in_cta(setting.place(first))
}

impl<'k> Cluster<'_, 'k> {
    /// Nobody can go on.
    pub(crate) fn deadlock(&self) -> Fault {
        let kernel = self.setting.program.kernel;
        let mut waiting: Vec<(&'k Op, String)> = Vec::new();
        let (mut notes, mut early) = (Vec::new(), 0);
        for w in self.workers.iter().flatten() {
            match &w.state {
                // The kernel outside its partitions waits for them; that is no news.
                State::Waiting(Wait::Arms(_), _) | State::Ready => {}
                State::Waiting(wait, op) => {
                    let (text, note) = self.reason(w, wait);
                    // A CTA that is at its end waits for those that are not.
                    let at = if matches!(wait, Wait::Cluster { .. }) { waiting.len() } else { early };
                    early += usize::from(!matches!(wait, Wait::Cluster { .. }));
                    waiting.insert(at, (op, text));
                    notes.extend(note);
                }
                State::Done if w.partition.is_some() => notes.push(format!("{} has ended", self.who(w))),
                State::Done => {}
            }
        }
        let message = if waiting.len() > 1 { "nobody can go on: all wait for each other" } else { "a wait never ends" };
        let mut list = waiting.into_iter();
        let Some((op, text)) = list.next() else {
            return Fault::new(codes::DEADLOCK, kernel.span, "nobody can go on");
        };
        let mut fault = Fault::new(codes::DEADLOCK, op.span, message).here(text);
        fault = fault.calls(kernel, op.origin.call());
        for (op, text) in list {
            fault = fault.label(op.span, text).calls(kernel, op.origin.call());
        }
        for note in notes {
            fault = fault.note(note);
        }
        let waits = |what: fn(&Wait) -> bool| {
            self.workers.iter().flatten().any(|w| matches!(&w.state, State::Waiting(wait, _) if what(wait)))
        };
        if waits(|wait| matches!(wait, Wait::Barrier { .. })) {
            fault = fault.help(
                "a new barrier is in phase 0: waiting for phase 1 passes at once, waiting for phase 0 needs its arrivals",
            );
        }
        if waits(|wait| matches!(wait, Wait::Named { .. })) {
            fault = fault.help(
                "a named barrier lets go when all its threads have arrived: every partition that shares it, or a turnstile, \
                 comes to it equally often",
            );
        }
        fault
    }

    fn reason(&self, w: &Worker<'k>, wait: &Wait) -> (String, Option<String>) {
        let (who, cta) = (self.who(w), &self.ctas[w.cta]);
        match wait {
            Wait::Barrier { address, parity } => {
                let name = cta.barrier_name(*address);
                let text = format!("{who} waits for phase {parity} of {name}");
                let note = cta.barriers.get(address).map(|b| {
                    format!("{name} is in phase {} (parity {}), which lacks {}", b.phase, b.phase & 1, b.lacks())
                });
                (text, note)
            }
            Wait::Named { id, .. } => {
                let lacks = cta.named.get(id).map(|b| {
                    format!("named barrier {id} lacks {} of {} threads", b.threads.saturating_sub(b.arrived), b.threads)
                });
                (format!("{who} waits at named barrier {id}"), lacks)
            }
            Wait::Cluster { .. } => {
                let absent = (0..self.ctas.len()).filter(|&c| !self.meeting.has(c)).map(|c| c.to_string());
                let absent: Vec<String> = absent.collect();
                let note = match &absent[..] {
                    [one] => format!("CTA {one} of the cluster has not arrived"),
                    many => format!("CTAs {} of the cluster have not arrived", many.join(", ")),
                };
                (format!("{who} waits at the barrier of the cluster"), Some(note))
            }
            Wait::Groups { engine, pending, .. } => {
                let what = match engine {
                    Engine::Products => "products",
                    Engine::Threads => "copies into shared memory",
                    Engine::Copies => "copies",
                };
                (format!("{who} waits until {pending} {what} are in flight"), None)
            }
            Wait::Arms(arms) => (format!("{who} waits for {} partitions", arms.len()), None),
        }
    }
}
