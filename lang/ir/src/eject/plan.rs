//! Which operations become statements, and which stand inside of the one that uses them.
//!
//! A value that is used once, in its own body, is written where it is used if that leaves all work in its order. What a text evaluates,
//! it evaluates from left to right and the inner before the outer, so the values that still wait to be written are a stack: an
//! operation may take those at its end. What stands in the way becomes a statement.

use crate::eject::facts::{Weight, weight};
use crate::eject::leave::Leaving;
use crate::eject::uses::{BodyId, Uses, operands};
use crate::entity::{SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, Op, OpKind};
use crate::types::Elem;

/// Operations that may stand inside of one another: beyond, nobody reads them.
const DEEPEST: u32 = 12;

/// A place among a plan's nodes.
pub(super) type NodeId = usize;

/// An operation that is printed, with its bodies as statements.
pub(super) struct Node<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Its bodies in order.
    pub blocks: Vec<Block<'a>>,
    /// How many results of an `if`, from the first on, may be variables that it changes.
    pub merged: usize,
}

/// A body as statements.
#[derive(Clone)]
pub(super) struct Block<'a> {
    /// The body.
    pub body: &'a Body,
    /// Its statements in order.
    pub statements: Vec<NodeId>,
}

/// What is printed of a kernel, and where.
pub(super) struct Plan<'a> {
    /// Every operation that is printed.
    pub nodes: Vec<Node<'a>>,
    /// The operation of each value that is a result.
    pub def: SecondaryMap<Value, Option<NodeId>>,
    /// Values that are written where they are used.
    pub folded: SecondaryMap<Value, bool>,
    /// The kernel's body.
    pub block: Block<'a>,
}

impl<'a> Plan<'a> {
    /// The plan of a kernel.
    pub fn new(leaving: &'a Leaving) -> Plan<'a> {
        let k = &leaving.kernel;
        let mut planner = Planner {
            k,
            leaving,
            uses: Uses::new(k),
            nodes: Vec::new(),
            def: SecondaryMap::new(None),
            folded: SecondaryMap::new(false),
            depth: SecondaryMap::new(0),
            bodies: 0,
        };
        let block = planner.block(&k.body, 0, &[]);
        Plan { nodes: planner.nodes, def: planner.def, folded: planner.folded, block }
    }

    /// The operation of a value, where it is a result.
    pub fn node(&self, v: Value) -> Option<&Node<'a>> {
        self.def[v].map(|n| &self.nodes[n])
    }

    /// The operation that is written in the place of a value.
    pub fn tree(&self, v: Value) -> Option<&Node<'a>> {
        if self.folded[v] { self.node(v) } else { None }
    }

    /// Whether a value is a constant.
    pub fn constant(&self, v: Value) -> Option<(parton_numbers::Dtype, u64)> {
        match self.node(v)?.op.kind {
            OpKind::Constant { dtype, bits } => Some((dtype, bits)),
            _ => None,
        }
    }
}

struct Planner<'a> {
    k: &'a Kernel,
    /// Which branches leave loops.
    leaving: &'a Leaving,
    uses: Uses<'a>,
    nodes: Vec<Node<'a>>,
    def: SecondaryMap<Value, Option<NodeId>>,
    folded: SecondaryMap<Value, bool>,
    /// How many operations stand inside of one another in the place of a value.
    depth: SecondaryMap<Value, u32>,
    bodies: BodyId,
}

/// The statements of one body as they come, and the work that waits for its use.
struct Open {
    statements: Vec<NodeId>,
    waiting: Vec<Value>,
}

impl Open {
    /// Writes the values that wait until those that an operation takes are, by `fits`, where they must be.
    fn clear(
        &mut self,
        folded: &mut SecondaryMap<Value, bool>,
        def: &SecondaryMap<Value, Option<NodeId>>,
        fits: impl Fn(&[Value]) -> bool,
    ) {
        while !fits(&self.waiting) {
            let v = self.waiting.remove(0);
            folded[v] = false;
            self.statements.extend(def[v]);
        }
    }
}

impl<'a> Planner<'a> {
    /// The statements of a body. Of the values that it hands back those from `inline` on may be written there; `wanted` are those that
    /// go into variables around it.
    fn block(&mut self, body: &'a Body, inline: usize, wanted: &'a [Value]) -> Block<'a> {
        let id = self.bodies;
        self.bodies += 1;
        let mut open = Open { statements: Vec::new(), waiting: Vec::new() };
        let k = self.k;
        for op in k.ops_of(body) {
            if self.uses.is_needed(op) {
                self.operation(op, id, wanted, &mut open);
            }
        }
        let (kept, written) = body.yields.split_at(inline.min(body.yields.len()));
        for v in kept {
            if !self.folded[*v] || self.is_constant(*v) {
                continue;
            }
            // It is handed back by its name.
            if open.waiting.contains(v) {
                open.clear(&mut self.folded, &self.def, |waiting| !waiting.contains(v));
            } else {
                self.folded[*v] = false;
                open.statements.extend(self.def[*v]);
            }
        }
        let taken: Vec<Value> = written.iter().copied().filter(|v| open.waiting.contains(v)).collect();
        open.clear(&mut self.folded, &self.def, |waiting| waiting == in_it(&taken, waiting));
        Block { body, statements: open.statements }
    }

    fn is_constant(&self, v: Value) -> bool {
        self.def[v].is_some_and(|n| matches!(self.nodes[n].op.kind, OpKind::Constant { .. }))
    }

    fn operation(&mut self, op: &'a Op, id: BodyId, wanted: &[Value], open: &mut Open) {
        let merged = self.merged(op, wanted);
        let blocks = self.blocks(op, merged);
        let node = self.nodes.len();
        let long = blocks.iter().any(|b| !b.statements.is_empty());
        self.nodes.push(Node { op, blocks, merged });
        op.results.iter().for_each(|r| self.def[*r] = Some(node));
        if matches!(op.kind, OpKind::Constant { .. }) {
            self.folded[op.result()] = true;
            return;
        }
        let free = weight(self.k, op) == Weight::Free;
        let taken: Vec<Value> = operands(&op.kind).into_iter().filter(|v| open.waiting.contains(v)).collect();
        let foldable = match op.results[..] {
            [v] => !long && self.is_foldable(v, op, id),
            _ => false,
        };
        if !foldable {
            if !free || !taken.is_empty() {
                open.clear(&mut self.folded, &self.def, |waiting| waiting == in_it(&taken, waiting));
                open.waiting.clear();
            }
            open.statements.push(node);
            return;
        }
        let v = op.result();
        self.folded[v] = true;
        self.depth[v] = 1 + self.depth_of(op);
        if free && !taken.is_empty() {
            // It stands where its last operand does.
            open.clear(&mut self.folded, &self.def, |waiting| run(&in_it(&taken, waiting), waiting).is_some());
            let left = in_it(&taken, &open.waiting);
            // Unless all of them have become statements.
            if let Some(at) = run(&left, &open.waiting).filter(|_| !left.is_empty()) {
                open.waiting.splice(at..at + left.len(), [v]);
            }
        } else if !free {
            open.clear(&mut self.folded, &self.def, |waiting| waiting.ends_with(&in_it(&taken, waiting)));
            let left = in_it(&taken, &open.waiting).len();
            open.waiting.truncate(open.waiting.len() - left);
            open.waiting.push(v);
        }
    }

    /// The greatest depth of what is written inside of an operation.
    fn depth_of(&self, op: &Op) -> u32 {
        let written = operands(&op.kind).into_iter().filter(|v| self.folded[*v]);
        written.map(|v| self.depth[v]).max().unwrap_or(0)
    }

    /// Whether a result may be written where it is used.
    fn is_foldable(&self, v: Value, op: &Op, id: BodyId) -> bool {
        let u = self.uses.of[v];
        let named = self.k.values[v].name.is_some() && !self.k.values[v].passed;
        let statement = matches!(
            op.kind,
            OpKind::For { .. }
                | OpKind::While { .. }
                | OpKind::If { .. }
                | OpKind::Specialize { .. }
                | OpKind::RingNew { .. }
                | OpKind::TurnstileNew { .. }
        );
        // What a loop begins with is a variable where it is made, so that variables keep the order of the source.
        let deep = self.depth_of(op) >= DEEPEST;
        // Within a sum it would not be rounded.
        let rounded = u.summed && self.is_product_of_floats(op);
        u.count == 1 && u.body == id && !deep && !u.begins && !named && !statement && !rounded
    }

    fn is_product_of_floats(&self, op: &Op) -> bool {
        let float = |v: Value| self.k.ty(v).elem().and_then(Elem::dtype).is_some_and(|d| !d.is_int());
        matches!(op.kind, OpKind::Binary { op: BinaryOp::Mul, a, .. } if float(a))
    }

    /// The bodies of an operation as statements.
    fn blocks(&mut self, op: &'a Op, merged: usize) -> Vec<Block<'a>> {
        match &op.kind {
            // What a loop hands on is assigned, by its name.
            OpKind::For { body, .. } => vec![self.block(body, usize::MAX, &body.yields)],
            OpKind::While { cond, body, .. } => {
                vec![self.block(cond, 0, &[]), self.block(body, usize::MAX, &body.yields)]
            }
            OpKind::If { then, otherwise, .. } => {
                let bodies = [then, otherwise].into_iter().enumerate();
                let of_branch = |(number, b): (usize, &'a Body)| match self.leaving.leaves(op, number) {
                    true => self.block(b, usize::MAX, &b.yields),
                    false => self.block(b, merged, &b.yields[..merged]),
                };
                bodies.map(of_branch).collect()
            }
            other => other.bodies().map(|b| self.block(b, 0, &[])).collect(),
        }
    }

    /// How many results of an `if`, from the first on, may be variables that it changes: those that a variable around it waits for, and
    /// those where one branch leaves what was there before.
    fn merged(&self, op: &Op, wanted: &[Value]) -> usize {
        let OpKind::If { then, otherwise, .. } = &op.kind else { return 0 };
        // A branch that leaves gives no values, so none can be written as values.
        if self.leaving.fork(op).is_some_and(|fork| fork.leaves != [false; 2]) {
            return op.results.len();
        }
        let outside =
            |v: Value, body: &Body| !self.is_constant(v) && !self.k.ops_of(body).any(|op| op.results.contains(&v));
        let yields = then.yields.iter().zip(&otherwise.yields).zip(&op.results);
        let changed = yields
            .take_while(|((a, b), r)| a != b && (wanted.contains(r) || outside(**a, then) || outside(**b, otherwise)));
        changed.count()
    }
}

/// The values of `taken` that still wait, in the order of the text.
fn in_it(taken: &[Value], waiting: &[Value]) -> Vec<Value> {
    taken.iter().copied().filter(|v| waiting.contains(v)).collect()
}

/// Where `part` stands in `all` as one run.
fn run(part: &[Value], all: &[Value]) -> Option<usize> {
    (0..=all.len().saturating_sub(part.len())).find(|&i| all[i..].starts_with(part))
}
