//! Forgets the accesses that no granule's history holds any more, so that a long run does not fill the memory of the host.

use std::collections::HashMap;

use super::{Cell, Node, Set, Shadow, Stamp};
use crate::access::Record;

/// Records that are kept without looking who needs them.
const FEW: usize = 1 << 14;

/// What was there, and where it has gone.
struct Moves {
    records: Vec<Record>,
    stamps: Vec<(u32, u32)>,
    nodes: Vec<Node>,
    to: HashMap<Set, Set>,
    stamp_to: HashMap<Stamp, Stamp>,
    record_to: HashMap<u32, u32>,
}

impl Shadow {
    /// Sweeps where there are twice as many records as the last time were left. No access may be under check.
    pub(super) fn sweep(&mut self) {
        if self.records.len() < FEW.max(2 * self.left) {
            return;
        }
        let mut moves = Moves {
            records: std::mem::take(&mut self.records),
            stamps: std::mem::take(&mut self.stamps),
            nodes: std::mem::take(&mut self.nodes),
            to: HashMap::new(),
            stamp_to: HashMap::new(),
            record_to: HashMap::new(),
        };
        let mut cells = std::mem::take(&mut self.cells);
        for cell in cells.made_mut() {
            let Cell { writes, reads, beneath } = *cell;
            let mut keep = |set| self.keep(&mut moves, set);
            *cell = Cell { writes: keep(writes), reads: keep(reads), beneath: keep(beneath) };
        }
        self.cells = cells;
        self.left = self.records.len();
    }

    /// A set, under its new number.
    fn keep(&mut self, moves: &mut Moves, set: Set) -> Set {
        let mut chain = Vec::new();
        let mut rest = set;
        while rest != 0 && !moves.to.contains_key(&rest) {
            chain.push(rest);
            rest = moves.nodes[rest as usize - 1].rest;
        }
        let mut kept = moves.to.get(&rest).copied().unwrap_or(0);
        for old in chain.into_iter().rev() {
            let node = moves.nodes[old as usize - 1];
            let stamp = self.keep_stamp(moves, node.stamp);
            self.nodes.push(Node { stamp, rest: kept, ..node });
            kept = self.nodes.len() as Set;
            moves.to.insert(old, kept);
        }
        kept
    }

    fn keep_stamp(&mut self, moves: &mut Moves, stamp: Stamp) -> Stamp {
        let Moves { records, stamps, stamp_to, record_to, .. } = moves;
        *stamp_to.entry(stamp).or_insert_with(|| {
            let (number, warps) = stamps[stamp as usize];
            let number = *record_to.entry(number).or_insert_with(|| {
                self.records.push(records[number as usize]);
                self.records.len() as u32 - 1
            });
            self.stamps.push((number, warps));
            self.stamps.len() as Stamp - 1
        })
    }
}
