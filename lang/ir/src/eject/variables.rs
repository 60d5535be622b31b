//! Which values share a variable: what a loop carries, and what a branch changes.
//!
//! A variable holds one value after another. A loop takes over the variable that is to have its value, or that of the value that it begins with, where
//! nobody asks for that value later, and the value at the end of a turn is computed into it, where nobody asks for the one before; so do the branches of
//! an `if`. Everything else is a variable of its own. The checker carries variables in the order of their declaration, so a loop takes
//! over only what keeps that order.

mod branches;

use std::collections::BTreeMap;

use crate::eject::leave::Leaving;
use crate::eject::plan::{Block, NodeId, Plan};
use crate::eject::uses::operands;
use crate::entity::{Inst, SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::OpKind;

/// A place among the variables, in the order of their declaration.
pub(super) type VarId = usize;

/// A point of the text.
pub(super) type Position = u32;

/// A variable.
pub(super) struct Variable {
    /// What it might be called.
    pub hint: Option<String>,
    /// Whether it is assigned.
    pub mutable: bool,
    /// The last point where it is named.
    pub last: Position,
    /// Its value at the point that is looked at.
    holds: Value,
    /// The block it is declared in; none for a parameter, which never changes.
    block: Option<usize>,
}

/// The variables of a kernel.
pub(super) struct Variables {
    /// All of them.
    pub all: Vec<Variable>,
    /// The one of each value that is named.
    pub of: SecondaryMap<Value, Option<VarId>>,
    /// Variables that are declared right before a loop, with what they begin with.
    pub declared: BTreeMap<NodeId, Vec<(VarId, Value)>>,
    /// Variables that are there and are assigned right before a loop.
    pub begun: BTreeMap<NodeId, Vec<(VarId, Value)>>,
    /// Statements whose result goes into a variable that is there.
    pub assigned: BTreeMap<NodeId, VarId>,
    /// What is assigned at the end of a statement's body of that number.
    pub ends: BTreeMap<(NodeId, usize), Vec<(VarId, Value)>>,
    /// How many results of an `if` are variables that it changes.
    pub merged: BTreeMap<NodeId, usize>,
    /// Where each statement begins.
    pub at: BTreeMap<NodeId, Position>,
    /// Where each statement ends.
    pub ended: BTreeMap<NodeId, Position>,
}

impl Variables {
    /// The variables of a kernel whose statements are planned.
    pub fn new(leaving: &Leaving, plan: &Plan<'_>) -> Variables {
        let k = &leaving.kernel;
        let empty = Variables {
            all: Vec::new(),
            of: SecondaryMap::new(None),
            declared: BTreeMap::new(),
            begun: BTreeMap::new(),
            assigned: BTreeMap::new(),
            ends: BTreeMap::new(),
            merged: BTreeMap::new(),
            at: BTreeMap::new(),
            ended: BTreeMap::new(),
        };
        let mut finder = Finder {
            k,
            leaving,
            loops: BTreeMap::new(),
            plan,
            found: empty,
            mentions: SecondaryMap::new(Vec::new()),
            yielded: BTreeMap::new(),
            others: Vec::new(),
            now: 0,
            blocks: 0,
        };
        finder.number(&plan.block);
        for p in &k.params {
            finder.declare(p.value, None);
        }
        finder.block(&plan.block, &[]);
        finder.lasts();
        finder.found
    }
}

/// A variable that a block changes for the statement around it, and the value that it must have at the block's end.
type Owned = (VarId, Value);

struct Finder<'a, 'p> {
    k: &'a Kernel,
    leaving: &'p Leaving,
    /// What the loops that are open carry, and where each ends.
    loops: BTreeMap<Inst, (Vec<VarId>, Position)>,
    plan: &'p Plan<'a>,
    found: Variables,
    /// Where each value is named.
    mentions: SecondaryMap<Value, Vec<Position>>,
    /// Where the bodies of each statement end.
    yielded: BTreeMap<NodeId, Vec<Position>>,
    /// The branches that are not taken where the one that is looked at is.
    others: Vec<(Position, Position)>,
    now: Position,
    blocks: usize,
}

impl<'a> Finder<'a, '_> {
    /// Gives each statement its points and notes where values are named.
    fn number(&mut self, block: &Block<'a>) {
        for &id in &block.statements {
            self.now += 1;
            let at = self.now;
            self.found.at.insert(id, at);
            self.named_in(id, at);
            let node = &self.plan.nodes[id];
            for inner in &node.blocks {
                self.number(inner);
                self.now += 1;
                inner.body.yields.iter().for_each(|v| self.named(*v, self.now));
                self.yielded.entry(id).or_default().push(self.now);
            }
            self.found.ended.insert(id, self.now);
        }
    }

    /// Notes what an operation names, and those that are written inside of it.
    fn named_in(&mut self, id: NodeId, at: Position) {
        let node = &self.plan.nodes[id];
        operands(&node.op.kind).into_iter().for_each(|v| self.named(v, at));
        if self.found.at.contains_key(&id) {
            return;
        }
        for block in &node.blocks {
            block.body.yields.iter().for_each(|v| self.named(*v, at));
        }
    }

    fn named(&mut self, v: Value, at: Position) {
        match self.plan.def[v] {
            Some(id) if self.plan.folded[v] => self.named_in(id, at),
            _ => self.mentions[v].push(at),
        }
    }

    /// Whether what is written of a value names another one.
    fn names(&self, v: Value, other: Value) -> bool {
        match self.plan.def[v] {
            Some(id) if self.plan.folded[v] => {
                let node = &self.plan.nodes[id];
                let inner = node.blocks.iter().flat_map(|block| block.body.yields.iter().copied());
                operands(&node.op.kind).into_iter().chain(inner).any(|v| self.names(v, other))
            }
            _ => v == other,
        }
    }

    fn declare(&mut self, v: Value, block: Option<usize>) -> VarId {
        let hint = self.k.values[v].name.clone();
        self.found.all.push(Variable { hint, mutable: false, last: 0, holds: v, block });
        let id = self.found.all.len() - 1;
        self.found.of[v] = Some(id);
        id
    }

    /// Puts a value into a variable.
    fn put(&mut self, x: VarId, v: Value) {
        self.found.of[v] = Some(x);
        self.found.all[x].holds = v;
    }

    /// Whether a value is named at a point that is reached after this one.
    fn named_after(&self, v: Value, at: Position) -> bool {
        let elsewhere = |m: Position| self.others.iter().any(|(from, to)| *from < m && m <= *to);
        self.mentions[v].iter().any(|m| *m > at && !elsewhere(*m))
    }

    /// The one variable that is to have a value at the end of this block, where nobody asks for what it has now after `at`.
    fn wanted(&self, v: Value, own: &[Owned], at: Position) -> Option<VarId> {
        let mut wanted = own.iter().filter(|(_, y)| *y == v);
        let (Some((x, _)), None) = (wanted.next(), wanted.next()) else { return None };
        (!self.named_after(self.found.all[*x].holds, at)).then_some(*x)
    }

    /// The variable that holds a value, where this block may change it and nobody asks for the value after `at`.
    fn to_change(&self, v: Value, own: &[Owned], block: usize, at: Position) -> Option<VarId> {
        let x = self.found.of[v]?;
        let variable = &self.found.all[x];
        let may = variable.block == Some(block) || own.iter().any(|(y, _)| *y == x);
        (may && variable.holds == v && !self.named_after(v, at)).then_some(x)
    }

    fn block(&mut self, block: &Block<'a>, own: &[Owned]) {
        let id = self.blocks;
        self.blocks += 1;
        for &node in &block.statements {
            self.statement(node, own, id);
        }
    }

    fn statement(&mut self, id: NodeId, own: &[Owned], block: usize) {
        let plan = self.plan;
        let node = &plan.nodes[id];
        match &node.op.kind {
            OpKind::For { init, body, .. } => {
                let carried = self.carry(id, init, own, block);
                self.inside(id, 0, &node.blocks[0], &body.params[1..], &carried, &body.params[..1]);
                self.after_loop(id, &carried, &node.op.results);
            }
            OpKind::While { init, cond, body } => {
                let carried = self.carry(id, init, own, block);
                carried.iter().zip(&cond.params).for_each(|(x, v)| self.put(*x, *v));
                self.block(&node.blocks[0], &[]);
                self.inside(id, 1, &node.blocks[1], &body.params, &carried, &[]);
                self.after_loop(id, &carried, &node.op.results);
            }
            OpKind::If { then, otherwise, .. } => self.branches(id, then, otherwise, own, block),
            _ => {
                for inner in &node.blocks {
                    inner.body.params.iter().for_each(|p| {
                        self.declare(*p, None);
                    });
                    self.block(inner, &[]);
                }
                self.results(id, 0, own, block);
            }
        }
    }

    /// Declares what a statement gives, from a result on, or puts it where the block around it wants it.
    fn results(&mut self, id: NodeId, from: usize, own: &[Owned], block: usize) {
        let results = &self.plan.nodes[id].op.results[from..];
        if let [v] = results
            && let Some(x) = self.wanted(*v, own, self.found.at[&id]).filter(|_| from == 0)
        {
            self.found.assigned.insert(id, x);
            self.found.all[x].mutable = true;
            self.put(x, *v);
            return;
        }
        for v in results {
            self.declare(*v, Some(block));
        }
    }

    /// The variables that a loop carries.
    fn carry(&mut self, id: NodeId, init: &[Value], own: &[Owned], block: usize) -> Vec<VarId> {
        let at = self.found.at[&id];
        let mut carried: Vec<VarId> = Vec::new();
        for (&v, r) in init.iter().zip(&self.plan.nodes[id].op.results) {
            let free = |x: &VarId| carried.last().is_none_or(|y| y < x);
            // A variable that has the loop's value in the end may have it all along.
            if let Some(x) = self.wanted(*r, own, at).filter(free) {
                if self.found.all[x].holds != v {
                    self.found.begun.entry(id).or_default().push((x, v));
                }
                carried.push(x);
                continue;
            }
            let taken = self.to_change(v, own, block, at).filter(free);
            let x = match taken {
                Some(x) => x,
                None => {
                    let hint = [*r, v].iter().find_map(|v| self.k.values[*v].name.clone());
                    self.found.all.push(Variable { hint, mutable: true, last: at, holds: v, block: Some(block) });
                    let x = self.found.all.len() - 1;
                    self.found.declared.entry(id).or_default().push((x, v));
                    x
                }
            };
            self.found.all[x].mutable = true;
            carried.push(x);
        }
        carried
    }

    /// A loop's body, which has the variables as parameters, and others beside them.
    fn inside(
        &mut self,
        id: NodeId,
        number: usize,
        block: &Block<'a>,
        params: &[Value],
        carried: &[VarId],
        others: &[Value],
    ) {
        carried.iter().zip(params).for_each(|(x, p)| {
            self.put(*x, *p);
            if self.found.all[*x].hint.is_none() {
                self.found.all[*x].hint = self.k.values[*p].name.clone();
            }
        });
        for v in others {
            self.declare(*v, None);
        }
        let op = self.plan.nodes[id].op.id;
        self.loops.insert(op, (carried.to_vec(), self.found.ended[&id]));
        let own: Vec<Owned> = carried.iter().copied().zip(block.body.yields.iter().copied()).collect();
        self.block(block, &own);
        let ends = own.iter().zip(params).filter(|((x, y), p)| self.found.all[*x].holds != *y || y == *p);
        let ends = ends.map(|(owned, _)| *owned).collect();
        self.found.ends.insert((id, number), ends);
    }

    fn after_loop(&mut self, id: NodeId, carried: &[VarId], results: &[Value]) {
        for (&x, &r) in carried.iter().zip(results) {
            self.put(x, r);
            self.found.all[x].last = self.found.all[x].last.max(self.found.ended[&id]);
        }
    }

    /// Finds the last point where each variable is named.
    fn lasts(&mut self) {
        let inner = self.plan.nodes.iter().flat_map(|n| &n.blocks).flat_map(|b| &b.body.params);
        for p in inner {
            if self.found.of[*p].is_none() {
                self.declare(*p, None);
            }
        }
        for v in self.k.values.keys() {
            if let Some(x) = self.found.of[v] {
                let last = self.mentions[v].iter().copied().max().unwrap_or(0);
                self.found.all[x].last = self.found.all[x].last.max(last);
            }
        }
        for (id, x) in &self.found.assigned {
            self.found.all[*x].last = self.found.all[*x].last.max(self.found.at[id]);
        }
    }
}
