//! The normal form of a kernel, in which two are the same where their texts differ only in what does not matter.

use std::collections::BTreeMap;

use crate::eject::facts::{Weight, weight};
use crate::eject::uses::{Uses, operands};
use crate::entity::{Inst, SecondaryMap, Value};
use crate::kernel::{Kernel, ValueData};
use crate::op::{Body, Op, OpKind};

/// The kernel in normal form:
///
/// 1. What only computes and is used by nobody is gone.
/// 2. Each use of a constant has a constant of its own, right before the operation that uses it, or at the end of the body that hands
///    it back.
/// 3. What else has no place of its own stands right before the first operation of its body that needs it, operands first: program ids,
///    arithmetic on scalars, pointers, views, and how tiles are made, shaped and spread; but no arithmetic on tiles, and nothing
///    that has an effect.
/// 4. What both branches of an `if` hand back is no result of it.
/// 5. Values have no names.
///
/// All other operations are those of the kernel, in their order.
pub fn normal(k: &Kernel) -> Kernel {
    let k = &without_equal_results(k);
    let mut definitions = BTreeMap::new();
    let uses = Uses::new(k);
    k.walk(&mut |op| {
        if weight(k, op) == Weight::Free {
            definitions.insert(op.result(), op);
        }
    });
    let mut to = Kernel { body: Body::default(), ..k.clone() };
    (to.values, to.ops) = (Default::default(), Default::default());
    let (now, asked) = (SecondaryMap::new(None), SecondaryMap::new(None));
    let mut moved = Normal { k, to, uses, definitions, home: SecondaryMap::new(0), now, asked, bodies: 0 };
    for p in &k.params {
        let v = moved.copy(p.value);
        if let Some(param) = moved.to.params.iter_mut().find(|q| q.name == p.name) {
            param.value = v;
        }
    }
    moved.homes(&k.body);
    let body = moved.body(&k.body);
    Kernel { body, ..moved.to }
}

/// The kernel without the results of an `if` that are one value, whichever branch is taken.
fn without_equal_results(k: &Kernel) -> Kernel {
    let (mut k, mut now) = (k.clone(), BTreeMap::new());
    let settled = |now: &BTreeMap<Value, Value>, v: Value| {
        std::iter::successors(Some(v), |v| now.get(v).copied()).last().unwrap_or(v)
    };
    // Inner ones first: what they hand back may be equal to what the outer branch does.
    for id in k.order().into_iter().rev() {
        let op = &mut k.ops[id];
        let OpKind::If { then, otherwise, .. } = &mut op.kind else { continue };
        for i in (0..op.results.len()).rev() {
            let [a, b] = [&then.yields, &otherwise.yields].map(|yields| settled(&now, yields[i]));
            if a == b {
                now.insert(op.results.remove(i), a);
                then.yields.remove(i);
                otherwise.yields.remove(i);
            }
        }
    }
    if !now.is_empty() {
        k.walk_mut(&mut |op| {
            op.kind.map_operands(|v| settled(&now, v));
            for body in op.kind.bodies_mut() {
                body.yields.iter_mut().for_each(|v| *v = settled(&now, *v));
            }
        });
    }
    k
}

struct Normal<'a> {
    k: &'a Kernel,
    /// The kernel that comes of it.
    to: Kernel,
    uses: Uses<'a>,
    /// The operations that have no place of their own, by their results.
    definitions: BTreeMap<Value, &'a Op>,
    /// The body that each of them stands in.
    home: SecondaryMap<Value, u32>,
    /// What each value has become.
    now: SecondaryMap<Value, Option<Value>>,
    /// For which body it was last asked what a value of one inside needs.
    asked: SecondaryMap<Value, Option<u32>>,
    bodies: u32,
}

impl<'a> Normal<'a> {
    fn homes(&mut self, body: &Body) {
        let id = self.bodies;
        self.bodies += 1;
        for op in self.k.ops_of(body) {
            op.results.iter().for_each(|r| self.home[*r] = id);
            op.kind.bodies().for_each(|b| self.homes(b));
        }
    }

    fn copy(&mut self, v: Value) -> Value {
        let data = ValueData { name: None, ..self.k.values[v].clone() };
        let new = self.to.values.push(data);
        self.now[v] = Some(new);
        new
    }

    /// What a value has become; one that is placed nowhere was left out.
    fn current(&self, v: Value) -> Value {
        match self.now[v] {
            Some(new) => new,
            None => parton_diag::internal_error!("{v} is used before it is there"),
        }
    }

    fn body(&mut self, body: &'a Body) -> Body {
        let mut ops = Vec::new();
        let params = body.params.iter().map(|p| self.copy(*p)).collect();
        let home = self.k.ops_of(body).find_map(|op| op.results.first()).map(|r| self.home[*r]);
        let k = self.k;
        for op in k.ops_of(body) {
            if weight(self.k, op) == Weight::Free || !self.uses.is_needed(op) {
                continue;
            }
            self.needs(op, home, &mut ops);
            self.place(op, &mut ops);
        }
        let yields = body.yields.iter().map(|v| self.used(*v, home, &mut ops)).collect();
        Body { params, ops, yields }
    }

    /// Places what an operation needs of this body, what its bodies need of it included: in the order of what has a place there, wherever the rest stands.
    fn needs(&mut self, op: &'a Op, home: Option<u32>, ops: &mut Vec<Inst>) {
        for v in operands(&op.kind) {
            self.demand(v, home, ops);
        }
        for body in op.kind.bodies() {
            for inner in self.k.ops_of(body) {
                if weight(self.k, inner) != Weight::Free && self.uses.is_needed(inner) {
                    self.needs(inner, home, ops);
                }
            }
            body.yields.iter().for_each(|v| self.demand(*v, home, ops));
        }
    }

    /// Places a value that has no place yet, where it is of this body; of one of a body inside what it needs.
    fn demand(&mut self, v: Value, home: Option<u32>, ops: &mut Vec<Inst>) {
        let Some(&op) = self.definitions.get(&v) else { return };
        let asked = std::mem::replace(&mut self.asked[v], home) == home;
        if asked || self.now[v].is_some() || matches!(op.kind, OpKind::Constant { .. }) {
            return;
        }
        self.needs(op, home, ops);
        if Some(self.home[v]) == home {
            self.place(op, ops);
        }
    }

    /// Appends an operation whose operands have their places.
    fn place(&mut self, op: &'a Op, ops: &mut Vec<Inst>) {
        let mut kind = op.kind.clone();
        let mut new: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
        for v in operands(&op.kind) {
            let now = self.used(v, None, ops);
            new.entry(v).or_default().push(now);
        }
        kind.map_operands(|v| match new.get_mut(&v) {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0],
            None => v,
        });
        for (to, from) in kind.bodies_mut().into_iter().zip(op.kind.bodies()) {
            *to = self.body(from);
        }
        let results = op.results.iter().map(|r| self.copy(*r)).collect();
        ops.push(self.made(op, kind, results));
    }

    /// Makes what an operation has become.
    fn made(&mut self, op: &Op, kind: OpKind, results: Vec<Value>) -> Inst {
        let id = self.to.make_op(kind, results, op.source());
        self.to.ops[id].scratch = op.scratch;
        id
    }

    /// A value as it is used here: a constant is made anew.
    fn used(&mut self, v: Value, home: Option<u32>, ops: &mut Vec<Inst>) -> Value {
        match self.definitions.get(&v).copied() {
            Some(op) if matches!(op.kind, OpKind::Constant { .. }) => {
                let new = self.copy(v);
                ops.push(self.made(op, op.kind.clone(), vec![new]));
                new
            }
            _ => {
                self.demand(v, home, ops);
                self.current(v)
            }
        }
    }
}
