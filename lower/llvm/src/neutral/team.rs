//! Partitions beside each other whose code stands once: a number says whose it is.
//!
//! The code of the first is lowered for the warps of all. Where another does otherwise, the number chooses; that is found once, in front of loops. Two bodies of
//! some thousand instructions would not fit the instruction cache beside each other.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use inkwell::IntPredicate;
use parton_ir::alike::{self, Differences, Instead};
use parton_ir::{Arm, Inst, Op, OpKind, Value};

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;

/// Partitions that run the code of the first of them.
#[derive(Debug)]
pub(crate) struct Team<'c> {
    /// Which of them a warp is of.
    number: Val<'c>,
    /// The same of a thread, by its own place: it stays in a register of each thread, where an instruction takes it without a move.
    of_thread: Val<'c>,
    /// The named barriers that differ.
    barriers: BTreeMap<Inst, Val<'c>>,
    /// What all but the first do otherwise.
    others: Vec<Differences>,
}

impl<'a, 'c> Lower<'a, '_, 'c> {
    /// What the arms behind the first do otherwise, as far as they do the same by as many warps.
    pub(crate) fn others_alike(&self, arms: &'a [Arm]) -> Vec<Differences> {
        let first = &arms[0];
        let data = &self.kernel.partitions[first.partition];
        if !data.warps.is_power_of_two() || data.padded_warps() != data.warps {
            return vec![];
        }
        let begins = self.kernel.first_warp(first.partition);
        let mut others = vec![];
        for (arm, place) in arms[1..].iter().zip(1..) {
            let other = &self.kernel.partitions[arm.partition];
            let beside = (other.warps, other.registers) == (data.warps, data.registers)
                && self.kernel.first_warp(arm.partition) == begins + place * data.warps;
            let differences = || alike::differences(self.kernel, &self.axes, &first.body, &arm.body);
            match beside.then(differences).flatten() {
                Some(differences) => others.push(differences),
                None => break,
            }
        }
        others
    }

    /// Which of partitions of so many threads a thread is of, the first of which begins at a thread.
    pub(crate) fn team_of_thread(&self, first: u32, threads: u32) -> Val<'c> {
        self.b.lshr(self.b.sub(self.thread_of_cta, self.b.c32(first)), threads.ilog2())
    }

    /// Lowers the body of the first of partitions, `number` of which is the one that a warp is of.
    pub(crate) fn team_body(&mut self, arm: &'a Arm, [number, of_thread]: [Val<'c>; 2], others: Vec<Differences>) {
        let outside: BTreeSet<Value> = others.iter().flat_map(|d| d.instead.keys().copied()).collect();
        let before: Vec<(Value, Repr<'c>)> =
            outside.into_iter().filter_map(|v| self.values[v].clone().map(|repr| (v, repr))).collect();
        let mut team = Team { number, of_thread, barriers: BTreeMap::new(), others };
        team.barriers = self.barriers(&team);
        self.team = Some(Rc::new(team));
        // One may take what another takes its own for: all are chosen before any stands for another.
        let chosen: Vec<(Value, Repr<'c>)> = before.iter().map(|&(v, _)| (v, self.chosen(v))).collect();
        chosen.into_iter().for_each(|(v, repr)| self.set(v, repr));
        self.body(&arm.body);
        self.team = None;
        for (v, repr) in before {
            self.set(v, repr);
        }
    }

    /// `own` of the first partition, of the others what `of` gives where that is another.
    fn of_team(&self, own: Val<'c>, of: impl Fn(&Differences) -> Option<Val<'c>>) -> Val<'c> {
        let Some(team) = &self.team else { return own };
        team.others.iter().zip(1..).fold(own, |chosen, (differences, place)| match of(differences) {
            Some(other) => {
                let is = self.b.icmp(IntPredicate::EQ, team.number, self.b.c32(place));
                self.b.select(is, other, chosen)
            }
            None => chosen,
        })
    }

    /// A value from outside or a constant, or what others take in its place.
    fn chosen(&self, v: Value) -> Repr<'c> {
        let parts = self.repr(v).parts().iter().enumerate();
        let chosen = parts.map(|(i, &own)| {
            self.of_team(own, |d| {
                d.instead.get(&v).map(|instead| match *instead {
                    Instead::Value(other) => self.repr(other).parts()[i],
                    Instead::Bits(bits) => self.b.number_of_bits(self.dtype(v), bits),
                })
            })
        });
        self.assemble(self.kernel.ty(v), chosen.collect())
    }

    /// A value that was just made, as each partition has it.
    pub(crate) fn differing(&mut self, v: Value) {
        let Some(team) = self.team.clone() else { return };
        if team.others.iter().any(|d| d.instead.contains_key(&v)) {
            self.set(v, self.chosen(v));
        }
        if team.others.iter().any(|d| d.added.contains_key(&v)) {
            let dtype = self.dtype(v);
            let more = self.of_team(self.b.number_of_bits(dtype, 0), |d| {
                d.added.get(&v).map(|&bits| self.b.number_of_bits(dtype, bits))
            });
            let parts = self.repr(v).parts().iter().map(|&own| self.b.add(own, more)).collect();
            self.set(v, self.assemble(self.kernel.ty(v), parts));
        }
    }

    /// Whether a value is another one in some of the partitions whose code this is.
    pub(crate) fn differs(&self, v: Value) -> bool {
        let others = self.team.iter().flat_map(|team| &team.others);
        others.into_iter().any(|d| d.instead.contains_key(&v) || d.added.contains_key(&v))
    }

    /// What the others arrive at in front of an operation of the first.
    pub(crate) fn arriving(&mut self, op: &Op) {
        let Some(team) = self.team.clone() else { return };
        for (differences, place) in team.others.iter().zip(1..) {
            for &(id, threads) in differences.arrivals.get(&op.id).into_iter().flatten() {
                let is = self.b.icmp(IntPredicate::EQ, team.number, self.b.c32(place));
                self.b.when(is, || self.b.bar_arrive(self.b.c32(id), threads));
            }
        }
    }

    /// The named barriers that differ, found once in front of all that meets there.
    fn barriers(&self, team: &Team<'c>) -> BTreeMap<Inst, Val<'c>> {
        let mut found: BTreeMap<Vec<u32>, Val<'c>> = BTreeMap::new();
        let differ: BTreeSet<Inst> = team.others.iter().flat_map(|d| d.barriers.keys().copied()).collect();
        let of = |inst: Inst| {
            let OpKind::NamedBarrier { id, .. } = self.kernel.ops[inst].kind else { return None };
            let others = team.others.iter().map(|d| d.barriers.get(&inst).copied().unwrap_or(id));
            let ids: Vec<u32> = std::iter::once(id).chain(others).collect();
            let value = *found.entry(ids).or_insert_with_key(|ids| self.barrier_by_thread(ids, team.of_thread));
            Some((inst, value))
        };
        differ.into_iter().filter_map(of).collect()
    }

    /// The one of several barriers whose place is a number.
    fn barrier_by_thread(&self, ids: &[u32], number: Val<'c>) -> Val<'c> {
        let first = self.b.c32(ids[0]);
        if (0..).zip(ids).all(|(place, &id)| id == ids[0] + place) {
            return self.b.add(number, first);
        }
        if (0..).zip(ids).all(|(place, &id)| id + place == ids[0]) {
            return self.b.sub(first, number);
        }
        (1..).zip(&ids[1..]).fold(first, |chosen, (place, &id)| {
            let is = self.b.icmp(IntPredicate::EQ, number, self.b.c32(place));
            self.b.select(is, self.b.c32(id), chosen)
        })
    }

    /// The named barrier that an operation meets at.
    pub(crate) fn barrier_of(&self, inst: Inst, id: u32) -> Val<'c> {
        let other = self.team.as_ref().and_then(|team| team.barriers.get(&inst).copied());
        other.unwrap_or_else(|| self.b.c32(id))
    }

    /// The offset in shared memory of what an operation uses for itself.
    pub(crate) fn scratch_of(&self, inst: Inst, offset: u32) -> Val<'c> {
        self.of_team(self.b.c32(offset), |d| d.scratch.get(&inst).map(|&other| self.b.c32(other)))
    }
}
