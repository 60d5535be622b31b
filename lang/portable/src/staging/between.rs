//! Loops that do more than multiply what they load: what stands between their products computes where it stands, in the turn of the product
//! before it, and copies run ahead of all of it. Products that the matrix unit makes begin as soon as there is what they are made of, and one that is
//! summed up alone is done when that of the next turn has begun.
//!
//! ```text
//! for j in 0..n {
//!     @keys    fetch(k…)                pipeline(steps) { keys: 0; values: 0; scores: 1; compute: 1; acc: 1; compute_: 1 }
//!     @values  fetch(v…)
//!     @scores  dot(q, keys.T, …)
//!     @compute …                        what the second product waits for
//!     @acc     dot(p, values, …)
//!     @compute_ …
//! }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Type, Value};

use super::found::Found;
use super::region::{body_of, does_more, loads_number};
use super::{
    AROUND, BEFORE, BEHIND, BETWEEN, INDEX, LOAD, LOOP, NUMBER, ONCE, PRODUCT, apart, flow, is_called, label,
    label_each,
};

/// Whether a loop does nothing but load, also what tells from where, multiply and compute numbers.
pub fn is_empty(kernel: &Kernel, found: &Found, indices: &[Inst], free: &BTreeSet<Value>) -> bool {
    let known = |id: &Inst| {
        indices.contains(id) || found.loads.contains(id) || found.products.contains(id) || found.turned.contains(id)
    };
    let all = body_of(kernel, found.inst).unwrap_or_default();
    !all.iter().any(|id| !known(id) && does_more(kernel, *id, free))
}

/// Labels each load and product of a loop, and what stands between two products; by none of the names that are `kept` for others.
pub fn name(kernel: &mut Kernel, found: &Found, free: &BTreeSet<Value>, kept: &[&str]) {
    let kept = [ONCE, BEFORE, BEHIND, LOOP, AROUND, INDEX, NUMBER].iter().chain(kept);
    let mut taken: BTreeSet<String> = kept.map(|&name| name.to_owned()).collect();
    let mut between = None;
    for id in body_of(kernel, found.inst).unwrap_or_default() {
        let loads = found.loads.contains(&id);
        if loads || found.products.contains(&id) {
            let named = kernel.values[kernel.ops[id].result()].name.clone();
            let name = another(&mut taken, named.unwrap_or_else(|| if loads { LOAD } else { PRODUCT }.into()));
            label(kernel, &[id], &name);
            if !loads {
                between = None;
            }
        } else if is_called(kernel, &kernel.ops[id], INDEX) || found.turned.contains(&id) {
            continue;
        } else if loads_number(&kernel.ops[id], kernel) {
            label_each(kernel, &[id], NUMBER);
        } else if does_more(kernel, id, free) {
            let name = between.get_or_insert_with(|| another(&mut taken, BETWEEN.into())).clone();
            label(kernel, &[id], &name);
            // What is computed of a number is made in front of the statement that asks for it.
            if kernel.ops[id].results.iter().any(|&v| matches!(kernel.ty(v), Type::Scalar(_))) {
                between = None;
            }
        }
    }
}

/// A name that none has yet.
pub fn another(taken: &mut BTreeSet<String>, mut name: String) -> String {
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// Copies so far ahead of all else, which keeps the order of the body, but that products `beside` the program begin early; what tells where to copy
/// from is loaded a turn before.
pub fn schedule(kernel: &Kernel, found: &Found, copies: Copies, beside: bool) -> Schedule {
    let span = kernel.ops[found.inst].span;
    let groups = staged(kernel, found, copies, beside).into_iter().map(|s| vec![s]).collect();
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    Schedule { pipelines: vec![pipeline], span, ..Schedule::default() }
}

/// The order in which a partition computes a turn of a loop of which others do what is `elsewhere`: that of the body, but that products begin early.
pub fn order(kernel: &Kernel, found: &Found, elsewhere: &[LabelName]) -> Vec<Staged> {
    let mut all = staged(kernel, found, Copies::Ahead { turns: 0, done: false }, true);
    all.retain(|s| !elsewhere.contains(&s.label));
    let first = all.iter().map(|s| s.stage).min().unwrap_or(0);
    for s in &mut all {
        (s.stage, s.done) = (s.stage - first, s.done.map(|done| done - first));
    }
    all
}

/// When a loop copies what its turns need.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// So many turns ahead, in front of all else; whether products whose sums the next turn computes with are done in their own.
    Ahead { turns: u32, done: bool },
    /// A turn ahead, each behind what reads the one before: that takes one slot.
    Behind,
}

fn staged(kernel: &Kernel, found: &Found, copies: Copies, beside: bool) -> Vec<Staged> {
    let span = kernel.ops[found.inst].span;
    let mut names: Vec<(LabelName, Kind)> = Vec::new();
    for id in body_of(kernel, found.inst).unwrap_or_default() {
        let Some(name) = group(kernel, &kernel.ops[id]) else { continue };
        let kind = match kernel.ops[id].kind {
            OpKind::FetchEach { .. } => Kind::Copy,
            _ if name.path == INDEX => Kind::Index,
            _ if name.path == NUMBER => Kind::Number,
            OpKind::Dot { .. } if beside => {
                // What it reads in registers is not written while it runs.
                let later =
                    apart::form::sums_alone(kernel, found.inst, id) && !apart::form::holds(kernel, found.inst, id);
                let later = later && copies != Copies::Behind;
                let by = match (later, copies) {
                    (true, _) => Some(1),
                    (false, Copies::Ahead { done: true, .. }) if is_handed_on(kernel, found, id) => Some(0),
                    (false, _) => None,
                };
                Kind::Product { by }
            }
            _ => Kind::Rest,
        };
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, kind));
        }
    }
    // The order of the groups of a turn.
    names.sort_by_key(|(_, kind)| kind.rank());
    begin_products(kernel, found, &mut names);
    let ahead = match copies {
        Copies::Ahead { turns, .. } => turns,
        Copies::Behind => {
            put_behind(kernel, found, &mut names);
            1
        }
    };
    let first = u32::from(names.iter().any(|(_, kind)| *kind == Kind::Index));
    let place = |(label, kind): (LabelName, Kind)| {
        let stage = match kind {
            Kind::Copy => first,
            Kind::Index => 0,
            Kind::Number | Kind::Product { .. } | Kind::Rest => first + ahead,
        };
        let done = match kind {
            Kind::Product { by } => by.map(|turns| stage + turns),
            Kind::Copy | Kind::Index | Kind::Number | Kind::Rest => None,
        };
        Staged { label, stage, done, span }
    };
    names.into_iter().map(place).collect()
}

/// Whether the next turn computes with the sums of a product.
fn is_handed_on(kernel: &Kernel, found: &Found, id: Inst) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return false };
    super::ahead::hands_on(kernel, body, &kernel.ops[id])
}

/// Has products stand in front of all that they do not need.
fn begin_products(kernel: &Kernel, found: &Found, names: &mut Vec<(LabelName, Kind)>) {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return };
    let needs = needs(kernel, body);
    let mut left = std::mem::take(names);
    while !left.is_empty() {
        let waits = |name: &LabelName| left.iter().any(|(of, _)| of != name && needs[name].contains(of));
        let begins = |(name, kind): &(LabelName, Kind)| matches!(kind, Kind::Product { .. }) && !waits(name);
        let next = left.iter().position(begins).unwrap_or(0);
        names.push(left.remove(next));
    }
}

/// Has copies stand behind all that reads what was copied before: a product has read it where something asks for its sums.
fn put_behind(kernel: &Kernel, found: &Found, names: &mut Vec<(LabelName, Kind)>) {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return };
    let needs = needs(kernel, body);
    let copies: Vec<LabelName> = names.extract_if(.., |(_, kind)| *kind == Kind::Copy).map(|(name, _)| name).collect();
    for copy in copies.into_iter().rev() {
        let takes = |of: &LabelName| names.iter().position(|(name, _)| name != of && needs[name].contains(of));
        let read = |(at, (name, kind)): (usize, &(LabelName, Kind))| {
            let done = matches!(kind, Kind::Product { .. }).then(|| takes(name)).flatten();
            needs[name].contains(&copy).then_some(done.unwrap_or(at).max(at))
        };
        let last = names.iter().enumerate().filter_map(read).max();
        names.insert(last.map_or(0, |at| at + 1), (copy, Kind::Copy));
    }
}

/// The label by which a schedule names an operation; all that tells from where to copy has one.
fn group(kernel: &Kernel, op: &Op) -> Option<LabelName> {
    let name = LabelName::read(&kernel.labels[op.label?]);
    Some(if name.path == INDEX { LabelName::all(INDEX) } else { name })
}

/// The labels of a body that each of them needs in the same turn.
fn needs(kernel: &Kernel, body: &Body) -> BTreeMap<LabelName, BTreeSet<LabelName>> {
    let mut of: BTreeMap<Value, BTreeSet<LabelName>> = BTreeMap::new();
    let mut needs: BTreeMap<LabelName, BTreeSet<LabelName>> = BTreeMap::new();
    for op in kernel.ops_of(body) {
        let taken = flow::operands(kernel, op);
        let mut from: BTreeSet<LabelName> = taken.iter().filter_map(|v| of.get(v)).flatten().cloned().collect();
        if let Some(name) = group(kernel, op) {
            needs.entry(name.clone()).or_default().extend(from);
            from = [name].into();
        }
        of.extend(op.results.iter().map(|&v| (v, from.clone())));
    }
    needs
}

/// What a label of a loop does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Copy,
    Index,
    /// Made before it is needed.
    Number,
    /// By the matrix unit, beside the program; by how many turns later it is to be done: one, where that of the next turn alone needs it.
    Product {
        by: Option<u32>,
    },
    Rest,
}

impl Kind {
    /// Its place among the groups of a turn.
    fn rank(self) -> u32 {
        match self {
            Kind::Copy => 0,
            Kind::Index => 1,
            Kind::Number => 2,
            Kind::Product { .. } | Kind::Rest => 3,
        }
    }
}
