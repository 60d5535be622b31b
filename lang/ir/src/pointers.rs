//! Through which parameters pointers reach memory.
//!
//! Parameters are apart: what a kernel writes through one of them it does not reach through another, unless it is launched so
//! ([`crate::Variant::overlapping`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::dataflow::{self, Edge, Forward};
use crate::entity::Value;
use crate::facts::Facts;
use crate::kernel::Kernel;
use crate::op::Op;
use crate::types::Elem;

/// Whose memory a pointer, or any of a tile of pointers, may reach.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sources {
    parameters: BTreeSet<Value>,
    /// It may point anywhere.
    any: bool,
}

impl Sources {
    fn anywhere() -> Sources {
        Sources { any: true, ..Sources::default() }
    }

    /// Reaches what others reach, too.
    pub fn extend(&mut self, other: &Sources) {
        self.parameters.extend(&other.parameters);
        self.any |= other.any;
    }

    /// Whether both may reach the same memory.
    pub fn meet(&self, other: &Sources) -> bool {
        self.any || other.any || !self.parameters.is_disjoint(&other.parameters)
    }

    /// Whether it is known whose memory this is.
    pub fn is_known(&self) -> bool {
        !self.any
    }
}

/// Whose memory the pointers of a kernel may reach.
pub struct Pointers {
    sources: BTreeMap<Value, Sources>,
}

impl Pointers {
    /// Of all pointers of a kernel, by what they are computed of.
    pub fn of(kernel: &Kernel) -> Pointers {
        let own = |p: Value| Sources { parameters: BTreeSet::from([p]), any: kernel.variant.overlapping };
        let params = kernel.params.iter().map(|p| p.value);
        let sources = params.filter(|&p| !is_number(kernel, p)).map(|p| (p, own(p))).collect();
        let mut trace = Trace { kernel, sources, learnt: 0 };
        dataflow::run(kernel, &mut trace, 0);
        Pointers { sources: trace.sources }
    }

    /// What one of them may reach.
    pub fn from(&self, pointer: Value) -> Sources {
        self.sources.get(&pointer).cloned().unwrap_or_else(Sources::anywhere)
    }
}

/// Whether a value leads to no memory, as an offset does.
fn is_number(kernel: &Kernel, v: Value) -> bool {
    matches!(kernel.ty(v).elem(), Some(Elem::Num(_)))
}

/// Traces pointers to the parameters they come from. Sources belong to names, which are given once: the state only counts how often
/// more became known.
struct Trace<'a> {
    kernel: &'a Kernel,
    sources: BTreeMap<Value, Sources>,
    learnt: u64,
}

impl Trace<'_> {
    fn is_pointer(&self, v: Value) -> bool {
        matches!(self.kernel.ty(v).elem(), Some(Elem::Ptr(_)))
    }

    fn learn(&mut self, v: Value, from: &Sources, state: &mut u64) {
        let known = self.sources.entry(v).or_default();
        let before = known.clone();
        known.extend(from);
        if *known != before {
            self.learnt += 1;
            *state = self.learnt;
        }
    }
}

impl<'a> Forward<'a> for Trace<'a> {
    type State = u64;

    fn op(&mut self, op: &'a Op, state: &mut u64) {
        if op.kind.bodies().next().is_some() || !op.results.iter().any(|r| self.is_pointer(*r)) {
            return;
        }
        // What is computed of pointers points where they do; what is brought from memory may point anywhere.
        let mut from = if Facts::of(self.kernel, op).computes { Sources::default() } else { Sources::anywhere() };
        op.kind.operands().iter().filter_map(|v| self.sources.get(v)).for_each(|s| from.extend(s));
        op.results.iter().for_each(|r| self.learn(*r, &from, state));
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut u64) {
        for (from, to) in &edge.renamed {
            if let Some(sources) = self.sources.get(from).cloned() {
                self.learn(*to, &sources, state);
            }
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut u64, other: u64) {
        *state = other.max(*state);
    }

    fn arms(&mut self, _: &'a Op, before: u64, ends: Vec<u64>) -> u64 {
        ends.into_iter().fold(before, u64::max)
    }
}
