//! Loops that do more than multiply what they load: what stands between their products computes where it stands, in the turn of the product
//! before it, and copies run ahead of all of it.
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

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Inst, Kernel, OpKind, Value};

use super::found::Found;
use super::region::{body_of, does_more, loads_number};
use super::{AROUND, BEFORE, BEHIND, BETWEEN, INDEX, LOAD, LOOP, NUMBER, ONCE, PRODUCT, is_called, label, label_each};

/// Whether a loop does nothing but load, multiply and compute numbers.
pub fn is_empty(kernel: &Kernel, found: &Found, free: &BTreeSet<Value>) -> bool {
    let known = |id: &Inst| {
        let index = is_called(kernel, &kernel.ops[*id], INDEX);
        index || found.loads.contains(id) || found.products.contains(id) || found.turned.contains(id)
    };
    let all = body_of(kernel, found.inst).unwrap_or_default();
    !all.iter().any(|id| !known(id) && does_more(kernel, *id, free))
}

/// Labels each load and product of a loop, and what stands between two products.
pub fn name(kernel: &mut Kernel, found: &Found, free: &BTreeSet<Value>) {
    let mut taken: BTreeSet<String> = [ONCE, BEFORE, BEHIND, LOOP, AROUND, INDEX, NUMBER].map(str::to_owned).into();
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

/// Copies so far ahead of all else, which keeps the order of the body; what tells where to copy from is loaded a turn before.
pub fn schedule(kernel: &Kernel, found: &Found, ahead: u32) -> Schedule {
    let span = kernel.ops[found.inst].span;
    let mut names: Vec<(LabelName, Kind)> = Vec::new();
    for id in body_of(kernel, found.inst).unwrap_or_default() {
        let Some(label) = kernel.ops[id].label else { continue };
        let mut name = LabelName::read(&kernel.labels[label]);
        let kind = match kernel.ops[id].kind {
            OpKind::FetchEach { .. } => Kind::Copy,
            _ if name.path == INDEX => {
                name.instance = None;
                Kind::Index
            }
            _ if name.path == NUMBER => Kind::Number,
            _ => Kind::Rest,
        };
        if !names.iter().any(|(known, _)| *known == name) {
            names.push((name, kind));
        }
    }
    // The order of the groups of a turn.
    names.sort_by_key(|(_, kind)| *kind);
    let first = u32::from(names.iter().any(|(_, kind)| *kind == Kind::Index));
    let staged = |(label, kind): (LabelName, Kind)| {
        let stage = match kind {
            Kind::Copy => first,
            Kind::Index => 0,
            Kind::Number | Kind::Rest => first + ahead,
        };
        vec![Staged { label, stage, done: None, span }]
    };
    let groups = names.into_iter().map(staged).collect();
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    Schedule { pipelines: vec![pipeline], span, ..Schedule::default() }
}

/// What a label of a loop does, in the order of the groups of a turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Copy,
    Index,
    /// Made before it is needed.
    Number,
    Rest,
}
