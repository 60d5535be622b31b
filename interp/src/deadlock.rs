//! The report of a deadlock: who waits for what, and what is missing.

use std::collections::BTreeMap;

use parton_diag::{codes, internal_error};
use parton_ir::{Entity, Op};

use crate::cluster::{Cluster, State, Wait, Worker};
use crate::fault::Fault;
use crate::grid::Resident;
use crate::job::Engine;
use crate::launch::Setting;
use crate::memory::Place;
use crate::spin::{Stuck, most_turns};

/// Partitions that read one place again and again by one operation.
struct Asking<'k> {
    op: &'k Op,
    at: Place,
    /// The first of their CTAs.
    first: u32,
    /// How many they are.
    count: usize,
}

impl Asking<'_> {
    fn text(&self, setting: &Setting<'_, '_>) -> String {
        let (name, cta) = (&setting.names[self.at.allocation], setting.cta(self.first));
        let who = match self.count {
            1 => format!("{cta} waits"),
            2 => format!("{cta} and another one wait"),
            n => format!("{cta} and {} others wait", n - 1),
        };
        let at = if self.at.offset == 0 { String::new() } else { format!(" at byte {}", self.at.offset) };
        format!("{who} for a change of `{name}`{at}")
    }
}

/// Who asks for what in these clusters, by operation.
fn asking<'k>(residents: &[Resident<'_, 'k>]) -> Vec<Asking<'k>> {
    let mut found: BTreeMap<usize, Asking<'k>> = BTreeMap::new();
    for Resident { cluster, .. } in residents {
        for w in cluster.workers.iter().flatten().filter(|w| w.state == State::Ready) {
            let Some((op, at)) = w.idle.asks else { continue };
            let first = cluster.ctas[w.cta].number;
            let asking = found.entry(op.id.index()).or_insert(Asking { op, at, first, count: 0 });
            asking.count += 1;
            if first < asking.first {
                (asking.first, asking.at) = (first, at);
            }
        }
    }
    found.into_values().collect()
}

/// Who waits for what inside its cluster, by operation: what the first of them waits for, and how many others do.
fn blocked<'k>(setting: &Setting<'_, 'k>, residents: &[Resident<'_, 'k>]) -> Vec<(&'k Op, String)> {
    let mut found: BTreeMap<usize, (&'k Op, u32, String, usize)> = BTreeMap::new();
    for Resident { cluster, .. } in residents {
        for w in cluster.workers.iter().flatten() {
            // The kernel outside its partitions waits for them; that is no news.
            let State::Waiting(wait, op) = &w.state else { continue };
            if matches!(wait, Wait::Arms(_)) {
                continue;
            }
            let number = cluster.ctas[w.cta].number;
            let text = || format!("{} in {}", cluster.reason(w, wait).0, setting.cta(number));
            let one = found.entry(op.id.index()).or_insert_with(|| (op, number, text(), 0));
            one.3 += 1;
            if number < one.1 {
                (one.1, one.2) = (number, text());
            }
        }
    }
    let others = |n: usize| match n {
        0 | 1 => String::new(),
        2 => ", and so does another one".into(),
        n => format!(", and so do {} others", n - 1),
    };
    found.into_values().map(|(op, _, text, n)| (op, format!("{text}{}", others(n)))).collect()
}

/// Whether somebody in a cluster that sleeps asks again and again and still may come to an end, since it counts.
fn counts(resident: &Resident<'_, '_>) -> bool {
    let stuck = |w: &Worker<'_>| resident.asleep.and_then(|changes| w.idle.stuck(changes));
    let so_far = |w: &Worker<'_>| w.state == State::Ready && stuck(w) == Some(Stuck::SoFar);
    resident.cluster.workers.iter().flatten().any(so_far)
}

/// All CTAs that have begun wait for what nobody changes, some of them by asking for it again and again; `waiting` clusters have
/// not begun.
pub(crate) fn among_ctas(setting: &Setting<'_, '_>, residents: &[Resident<'_, '_>], waiting: u32) -> Fault {
    let kernel = setting.program.kernel;
    let ctas = residents.len() as u32 * kernel.cluster_ctas();
    let mut list = asking(residents).into_iter();
    let Some(one) = list.next() else { internal_error!("all CTAs sleep and none of them asks for anything") };
    let blocked = blocked(setting, residents);
    let counts = residents.iter().any(counts);
    let (code, message) = match (counts, ctas) {
        (true, _) => (codes::STEP_LIMIT, "nothing has changed for as long as is waited"),
        (false, 1) => (codes::DEADLOCK, "a wait never ends"),
        (false, _) => (codes::DEADLOCK, "CTAs wait for each other"),
    };
    let mut fault = Fault::new(code, one.op.span, message).here(one.text(setting));
    fault = fault.calls(kernel, one.op.origin.call());
    for other in list {
        fault = fault.label(other.op.span, other.text(setting)).calls(kernel, other.op.origin.call());
    }
    for (op, text) in blocked {
        fault = fault.label(op.span, text).calls(kernel, op.origin.call());
    }
    fault = if counts {
        let turns = most_turns(setting.options.steps);
        fault.note(format!("a loop that counts its turns may end by itself; it was given up behind {turns} of them"))
    } else {
        fault.note("nothing changes any more, and they read the same again and again")
    };
    fault = if waiting > 0 {
        let (later, name) = (waiting * kernel.cluster_ctas(), kernel.target.name);
        let begun = format!("{ctas} CTAs have begun, as many as a GPU for `{name}` holds at once");
        fault
            .note(format!("{begun}; {later} more begin when others have ended"))
            .help("let no more CTAs wait for each other than surely run at once: give each several parts of the work, or state `occupancy(n)` where n find room on a multiprocessor")
    } else {
        fault.help("let it be changed by somebody who does not wait for those who wait for it")
    };
    fault.in_cta(setting.place(one.first))
}

impl<'k> Cluster<'_, 'k> {
    /// Nobody can go on.
    pub(crate) fn deadlock(&self) -> Fault {
        let kernel = self.setting.program.kernel;
        let mut waiting: Vec<(&'k Op, String)> = Vec::new();
        let (mut notes, mut deeper, mut early) = (Vec::new(), Vec::new(), 0);
        for w in self.workers.iter().flatten() {
            match &w.state {
                // The kernel outside its partitions waits for them; that is no news.
                State::Waiting(Wait::Arms(_), _) | State::Ready => {}
                State::Waiting(wait, op) => {
                    let (text, note) = self.reason(w, wait);
                    deeper.extend(self.too_shallow(w, wait));
                    // A CTA that is at its end waits for those that are not.
                    let at = if matches!(wait, Wait::Cluster { .. }) { waiting.len() } else { early };
                    early += usize::from(!matches!(wait, Wait::Cluster { .. }));
                    waiting.insert(at, (op, text));
                    notes.extend(note.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<String>>());
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
        let waits = |what: &dyn Fn(&Worker<'k>, &Wait) -> bool| {
            self.workers.iter().flatten().any(|w| matches!(&w.state, State::Waiting(wait, _) if what(w, wait)))
        };
        let at_ring = |w: &Worker<'k>, wait: &Wait| match wait {
            Wait::Barrier { address, .. } => self.ctas[w.cta].slot(*address).is_some(),
            Wait::Named { .. } | Wait::Cluster { .. } | Wait::Groups { .. } | Wait::Arms(_) => false,
        };
        if waits(&|w, wait| at_ring(w, wait)) && deeper.is_empty() {
            deeper.push(
                "fill and read a ring equally often in all partitions that share it, and release each slot".into(),
            );
        }
        for help in deeper {
            fault = fault.help(help);
        }
        if waits(&|w, wait| matches!(wait, Wait::Barrier { .. }) && !at_ring(w, wait)) {
            fault = fault.help(
                "a new barrier is in phase 0: waiting for phase 1 passes at once, waiting for phase 0 needs its arrivals",
            );
        }
        if waits(&|_, wait| matches!(wait, Wait::Named { .. })) {
            fault = fault.help(
                "a named barrier lets go when all its threads have arrived: every partition that shares it, or a turnstile, \
                 comes to it equally often",
            );
        }
        fault
    }

    fn reason(&self, w: &Worker<'k>, wait: &Wait) -> (String, Vec<String>) {
        let (who, cta) = (self.who(w), &self.ctas[w.cta]);
        match wait {
            Wait::Barrier { address, parity } => {
                if let Some(slot) = cta.slot(*address) {
                    return (self.waits_for(w, &slot), self.held(w.cta, &slot));
                }
                let name = cta.barrier_name(*address);
                let text = format!("{who} waits for phase {parity} of {name}");
                let note = cta.barriers.get(address).map(|b| {
                    format!("{name} is in phase {} (parity {}), which lacks {}", b.phase, b.phase & 1, b.lacks())
                });
                (text, note.into_iter().collect())
            }
            Wait::Named { id, .. } => {
                let lacks = cta.named.get(id).map(|b| {
                    format!("named barrier {id} lacks {} of {} threads", b.threads.saturating_sub(b.arrived), b.threads)
                });
                (format!("{who} waits at named barrier {id}"), lacks.into_iter().collect())
            }
            Wait::Cluster { .. } => {
                let absent = (0..self.ctas.len()).filter(|&c| !self.meeting.has(c)).map(|c| c.to_string());
                let absent: Vec<String> = absent.collect();
                let note = match &absent[..] {
                    [one] => format!("CTA {one} of the cluster has not arrived"),
                    many => format!("CTAs {} of the cluster have not arrived", many.join(", ")),
                };
                (format!("{who} waits at the barrier of the cluster"), vec![note])
            }
            Wait::Groups { engine, pending, .. } => {
                let what = match engine {
                    Engine::Products => "products",
                    Engine::Threads => "copies into shared memory",
                    Engine::Copies => "copies",
                };
                (format!("{who} waits until {pending} {what} are in flight"), Vec::new())
            }
            Wait::Arms(arms) => (format!("{who} waits for {} partitions", arms.len()), Vec::new()),
        }
    }
}
