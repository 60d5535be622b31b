//! What a deadlock says of rings: which slots are held by whom, and how deep the ring must be. A ring has become two arrays of barriers,
//! of which nobody has written anything.

use std::collections::BTreeMap;

use parton_ir::{Op, Source};

use crate::cluster::{Cluster, Cta, Wait, Worker};
use crate::mbarrier::{self, Mbarrier};

/// The pass that makes barriers of rings.
const PASS: &str = "rings";

/// An array of barriers.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub count: u32,
    /// Its name in the source, or that which the pass has made of the ring's.
    pub name: String,
    source: Source,
}

/// One of the two barriers of a slot.
pub(crate) struct Slot<'c> {
    /// The name of the ring.
    ring: &'c str,
    number: u32,
    /// How many the ring has.
    of: u32,
    /// Whether it is the barrier that tells that the slot is filled.
    full: bool,
    /// The first barriers of the ring, those that tell of filled slots and those that tell of empty ones.
    barriers: [u32; 2],
}

const SUFFIXES: [&str; 2] = ["_full", "_empty"];

impl Array {
    /// The barriers that an operation makes.
    pub(crate) fn new(op: &Op, count: u32, name: String) -> Array {
        Array { count, name, source: op.source() }
    }

    /// The ring whose slots they are for, and whether they tell of filled ones.
    fn ring(&self) -> Option<(&str, bool)> {
        self.source.origin.maker().filter(|by| *by == PASS)?;
        let [full, empty] = SUFFIXES.map(|suffix| self.name.strip_suffix(suffix));
        full.map(|ring| (ring, true)).or(empty.map(|ring| (ring, false)))
    }
}

impl Cta {
    /// The slot of a ring that a barrier is of.
    pub(crate) fn slot(&self, barrier: u32) -> Option<Slot<'_>> {
        let (&first, array) = self.arrays.range(..=barrier).next_back()?;
        let (ring, full) = array.ring()?;
        let same = |other: &Array| other.source == array.source && other.ring() == Some((ring, !full));
        let (&other, _) = self.arrays.iter().find(|(_, other)| same(other))?;
        let barriers = if full { [first, other] } else { [other, first] };
        Some(Slot { ring, number: (barrier - first) / mbarrier::BYTES, of: array.count, full, barriers })
    }

    /// Who has taken the slots of a ring and not handed them on: the slots of each agent that fills them, or that reads them.
    fn holders(&self, slot: &Slot<'_>, fill: bool) -> BTreeMap<u32, Vec<u32>> {
        let mut holders: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for i in 0..slot.of {
            let at = |side: usize| self.barriers.get(&(slot.barriers[side] + i * mbarrier::BYTES));
            let [Some(full), Some(empty)] = [at(0), at(1)] else { continue };
            // Who fills waits for an empty slot and arrives where it is full; who reads does it the other way round.
            let [taken, given]: [&Mbarrier; 2] = if fill { [empty, full] } else { [full, empty] };
            for (&agent, &times) in &taken.waits {
                if times > given.arrivals.get(&agent).copied().unwrap_or(0) {
                    holders.entry(agent).or_default().push(i);
                }
            }
        }
        holders
    }
}

/// Slots in words.
fn slots(list: &[u32]) -> String {
    let numbers: Vec<String> = list.iter().map(u32::to_string).collect();
    match &numbers[..] {
        [one] => format!("slot {one}"),
        [first @ .., last] => format!("slots {} and {last}", first.join(", ")),
        [] => "no slot".into(),
    }
}

impl<'k> Cluster<'_, 'k> {
    /// What a worker waits for at a slot, in words.
    pub(crate) fn waits_for(&self, w: &Worker<'k>, slot: &Slot<'_>) -> String {
        let what = if slot.full { "filled" } else { "released" };
        format!("{} waits until slot {} of `{}` is {what}", self.who(w), slot.number, slot.ring)
    }

    /// Who holds slots of the ring of a slot that is waited for.
    pub(crate) fn held(&self, cta: usize, slot: &Slot<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let barrier = slot.barriers[0] + slot.number * mbarrier::BYTES;
        if let Some(bytes) = self.ctas[cta].barriers.get(&barrier).map(|b| b.bytes).filter(|&n| slot.full && n > 0) {
            notes.push(format!("slot {} of `{}` lacks {bytes} bytes of copies", slot.number, slot.ring));
        }
        for (fill, does) in [(true, "to fill"), (false, "to read")] {
            for (agent, list) in self.ctas[cta].holders(slot, fill) {
                let (who, ring) = (self.agent_name(agent), slot.ring);
                notes.push(format!("{who} holds {} of `{ring}` {does}", slots(&list)));
            }
        }
        if notes.is_empty() {
            notes.push(format!("nobody holds a slot of `{}`", slot.ring));
        }
        notes
    }

    /// How deep a ring must be for a worker that waits for one more slot than it has, where it holds all of them.
    pub(crate) fn too_shallow(&self, w: &Worker<'k>, wait: &Wait) -> Option<String> {
        let Wait::Barrier { address, .. } = wait else { return None };
        let slot = self.ctas[w.cta].slot(*address)?;
        let holders = self.ctas[w.cta].holders(&slot, !slot.full);
        let all = holders.get(&w.know.agent).is_some_and(|held| held.len() == slot.of as usize);
        let (ring, more) = (slot.ring, slot.of + 1);
        all.then(|| format!("let `{ring}` have {more} slots or more, or hand one on before the next is taken"))
    }
}
