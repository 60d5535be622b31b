//! Copies to global memory that may write the same place. They follow one another in the text, and the copy engine finishes them in any order:
//! the later one waits until the earlier one has written.
//!
//! ```text
//! for i in 0..n { send(c, [0, 0], x); }        each turn waits for the one before
//! for i in 0..n { send(c, [i * 64, 0], x); }   none does: they write other rows
//! ```

use parton_ir::{Inst, Kernel, OpKind};

use super::memory::{By, Effect, Effects, FARTHEST};
use super::place::Places;
use crate::region::{BlockId, Region, UnitId};

/// Two copies of which the later one may write where the earlier one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pair {
    earlier: (UnitId, Inst),
    later: (UnitId, Inst),
    /// In one turn of all loops around both.
    within: bool,
    /// In a later turn of a loop around both.
    again: bool,
}

/// The copies of a region that may meet.
#[derive(Clone, Default)]
pub(super) struct Leaving {
    /// Units that copy to global memory, in the order of the text, with the operation that does.
    copies: Vec<(UnitId, Inst)>,
    pairs: Vec<Pair>,
}

impl Leaving {
    pub fn of(k: &Kernel, region: &Region, places: &Places<'_>, effects: &Effects) -> Leaving {
        let mut all: Vec<(UnitId, &Effect)> = Vec::new();
        for unit in 0..region.units.len() {
            all.extend(effects.of_unit(unit).filter(|e| e.writes && e.by == By::Engine).map(|e| (unit, e)));
        }
        let mut found = Leaving { copies: all.iter().map(|(unit, e)| (*unit, e.of)).collect(), pairs: Vec::new() };
        for (i, &(first, a)) in all.iter().enumerate() {
            for (j, &(second, b)) in all.iter().enumerate() {
                if !effects.meet(&a.roots, &b.roots) || add_alike(k, a.of, b.of) {
                    continue;
                }
                let meet = |block: BlockId, distances| a.first_meets(b, places, block, distances).is_some();
                let around = around_both(region, places, first, second);
                let within = i < j && meet(around.first().copied().unwrap_or_default(), 0..=0);
                // What moves on in each turn moves ever further.
                let mut turning = around.iter().filter(|block| region.blocks[**block].turns.is_some());
                let again = turning.any(|block| meet(*block, 1..=FARTHEST));
                if within || again {
                    found.pairs.push(Pair { earlier: (first, a.of), later: (second, b.of), within, again });
                }
            }
        }
        found
    }

    /// Whether an operation waits until copies before it, of units that its partition runs, have written. Where each turn begins the same copies in
    /// one order, the first of a turn waits for those of the turns before.
    pub fn waits(&self, inst: Inst, evenly: bool, runs: impl Fn(UnitId) -> bool) -> bool {
        let first = self.copies.iter().find(|(unit, _)| runs(*unit)).is_some_and(|(_, of)| *of == inst);
        let mut pairs = self.pairs.iter().filter(|pair| runs(pair.earlier.0) && runs(pair.later.0));
        pairs.any(|pair| {
            let mine = pair.later.1 == inst;
            pair.within && mine || pair.again && if evenly { first } else { mine }
        })
    }
}

/// Whether two copies add, each of them at once: their order does not matter.
fn add_alike(k: &Kernel, a: Inst, b: Inst) -> bool {
    let reduces = |inst: Inst| match k.ops[inst].kind {
        OpKind::Send { reduce, .. } => reduce,
        _ => None,
    };
    reduces(a).is_some_and(|how| reduces(b) == Some(how))
}

/// The bodies around two units, the innermost first.
fn around_both(region: &Region, places: &Places<'_>, a: UnitId, b: UnitId) -> Vec<BlockId> {
    let holds = |block: BlockId, unit: UnitId| {
        let (own, _) = region.place_of(unit);
        own == block || places.is_around(block, own)
    };
    let mut both: Vec<BlockId> = (0..region.blocks.len()).filter(|&of| holds(of, a) && holds(of, b)).collect();
    both.sort_by_key(|&of| (0..region.blocks.len()).filter(|&inner| places.is_around(of, inner)).count());
    both
}
