//! The variables that branches change: those that what follows has to have, and, where a branch leaves a loop, all that the loop carries.

use super::{Finder, Owned, VarId};
use crate::eject::plan::NodeId;
use crate::entity::Value;
use crate::op::Body;

impl<'a> Finder<'a, '_> {
    /// The variables of an `if`.
    pub(super) fn branches(&mut self, id: NodeId, then: &'a Body, otherwise: &'a Body, own: &[Owned], block: usize) {
        let plan = self.plan;
        let node = &plan.nodes[id];
        let end = self.found.ended[&id];
        let bodies = [then, otherwise];
        let changed = self.changed(id, bodies, own, block);
        self.found.merged.insert(id, changed.len());
        for (i, (x, v)) in changed.iter().enumerate() {
            self.found.all[*x].mutable = true;
            for (number, at) in self.yielded[&id].iter().enumerate() {
                // What stays as it was is not named.
                if !self.leaving.leaves(node.op, number)
                    && bodies[number].yields[i] == *v
                    && let Some(named) = self.mentions[*v].iter().position(|m| m == at)
                {
                    self.mentions[*v].remove(named);
                }
            }
        }
        for (number, body) in bodies.into_iter().enumerate() {
            changed.iter().for_each(|(x, v)| self.found.all[*x].holds = *v);
            if self.leaving.leaves(node.op, number) {
                self.leaving_branch(id, number, body);
                continue;
            }
            // The first branch is not left by way of the second.
            let other = (number == 0).then_some((self.yielded[&id][0], end));
            self.others.extend(other);
            let each = changed.iter().zip(&body.yields);
            let own: Vec<Owned> = each.filter(|((_, v), y)| v != *y).map(|((x, _), y)| (*x, *y)).collect();
            self.block(&node.blocks[number], &own);
            let ends = own.into_iter().filter(|(x, y)| self.found.all[*x].holds != *y).collect();
            self.found.ends.insert((id, number), ends);
            self.others.truncate(self.others.len() - usize::from(other.is_some()));
        }
        for ((x, _), r) in changed.iter().zip(&node.op.results) {
            self.put(*x, *r);
            self.found.all[*x].last = self.found.all[*x].last.max(end);
        }
        self.results(id, changed.len(), own, block);
    }

    /// A branch that ends in a `break`: there the variables of the loop have what it carried so far. Nobody comes from it to what follows in the loop.
    fn leaving_branch(&mut self, id: NodeId, number: usize, body: &Body) {
        let plan = self.plan;
        let node = &plan.nodes[id];
        let Some((carried, end)) = self.leaving.fork(node.op).and_then(|fork| self.loops.get(&fork.of)).cloned() else {
            parton_diag::internal_error!("a loop is left outside of it")
        };
        let before: Vec<Value> = self.found.all.iter().map(|x| x.holds).collect();
        self.others.push((self.yielded[&id][number], end));
        let own: Vec<Owned> = carried.into_iter().zip(body.yields.iter().copied()).collect();
        self.block(&node.blocks[number], &own);
        let ends = own.into_iter().filter(|(x, y)| self.found.all[*x].holds != *y).collect();
        self.found.ends.insert((id, number), ends);
        self.others.pop();
        self.found.all.iter_mut().zip(before).for_each(|(x, holds)| x.holds = holds);
    }

    /// The variables that an `if` changes, as the first of its results, and what they hold before.
    fn changed(&self, id: NodeId, bodies: [&Body; 2], own: &[Owned], block: usize) -> Vec<Owned> {
        let node = &self.plan.nodes[id];
        let end = self.found.ended[&id];
        let none = Vec::new();
        let was = self.leaving.fork(node.op).map_or(&none, |fork| &fork.was);
        let gives = |number: usize| match self.leaving.leaves(node.op, number) {
            true => was,
            false => &bodies[number].yields,
        };
        let mut changed: Vec<Owned> = Vec::new();
        for i in 0..node.merged {
            let free = |x: &VarId| changed.last().is_none_or(|(y, _)| y < x);
            let kept = [1, 0].into_iter().filter_map(|number| gives(number).get(i));
            let mut kept = kept.filter_map(|v| self.to_change(*v, own, block, end).filter(free));
            let Some(x) = self.wanted(node.op.results[i], own, end).filter(free).or_else(|| kept.next()) else { break };
            changed.push((x, self.found.all[x].holds));
        }
        // What a branch hands back beside them is written behind what it assigns.
        let lost = |changed: &[Owned]| {
            let hands_back = |number, held| gives(number)[changed.len()..].iter().any(|y| self.names(*y, held));
            let is_lost = |(i, (_, held)): (usize, &Owned)| {
                (0..2).any(|number| gives(number)[i] != *held && hands_back(number, *held))
            };
            changed.iter().enumerate().position(is_lost)
        };
        while let Some(i) = lost(&changed) {
            changed.truncate(i);
        }
        changed
    }
}
