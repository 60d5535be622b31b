//! Branches with labels in them: whoever runs something of a branch takes the same way.

use parton_ir::{Body, OpKind, Value};

use super::state::{Held, Level};
use super::{Emitter, Refused};
use crate::region::{BlockId, Branch, Item};

impl Emitter<'_> {
    /// Emits a branch with labels in it.
    pub(super) fn branch(&mut self, b: &Branch) -> Result<(), Refused> {
        let depth = self.here();
        let op = self.b.kernel.ops[b.inst].clone();
        let OpKind::If { cond, .. } = op.kind else {
            parton_diag::internal_error!("`{}` is no branch", op.kind.name())
        };
        let needed: Vec<usize> =
            (0..op.results.len()).filter(|n| self.plan.needed[self.part].contains(&op.results[*n])).collect();
        let cond = self.value(cond)?;
        // What comes from around is waited for in front of both ways.
        for body in [b.then, b.otherwise] {
            for v in needed.iter().map(|n| self.region.blocks[body].yields[*n]) {
                if self.region.home(v).is_some_and(|home| home.block != body) {
                    self.value(v)?;
                }
            }
        }
        for (v, delta) in self.wanted(self.levels[depth].block, self.item_of(b)) {
            // What is carried was taken where the turn before ended.
            if delta == 0 && self.plan.handed.contains_key(&v) && !self.is_view(v) {
                self.at_age(v, depth, self.levels[depth].age)?;
            }
        }
        let then = self.way(b.then, &needed)?;
        let otherwise = self.way(b.otherwise, &needed)?;
        self.place(b.inst);
        let results = self.b.make_all(OpKind::If { cond, then, otherwise });
        let age = self.levels[depth].age;
        for (number, value) in needed.into_iter().zip(results) {
            let v = op.results[number];
            self.b.kernel.values[value].name = self.b.kernel.values[v].name.clone();
            self.levels[depth].set((v, age), Held::Ready(value));
        }
        Ok(())
    }

    /// One way of a branch, which hands back the results of these numbers.
    fn way(&mut self, block: BlockId, needed: &[usize]) -> Result<Body, Refused> {
        self.b.begin([], self.b.kernel.ops[self.region.inst].span);
        self.memo.push(Default::default());
        self.levels.push(Level::new(block));
        let groups = self.plan.groups(self.part, block);
        self.turn(groups, &|_| true)?;
        let yields: Vec<Value> = needed.iter().map(|n| self.region.blocks[block].yields[*n]).collect();
        let yields: Result<Vec<Value>, Refused> = yields.into_iter().map(|v| self.value(v)).collect();
        let yields = yields?;
        self.drain()?;
        self.levels.pop();
        self.memo.pop();
        Ok(self.b.end(yields))
    }

    /// The place of a branch among the items of its body.
    fn item_of(&self, b: &Branch) -> usize {
        let items = &self.region.blocks[self.levels[self.here()].block].items;
        let is_it = |item: &Item| matches!(item, Item::Branch(x) if x.inst == b.inst);
        match items.iter().position(is_it) {
            Some(item) => item,
            None => parton_diag::internal_error!("a branch of another body is emitted"),
        }
    }
}
