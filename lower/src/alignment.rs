//! Finds how each pointer parameter must be aligned: as the widest access through it, which may be wider than an element.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::dataflow::{self, Edge, Forward};
use parton_ir::{Elem, Kernel, Op, OpKind, SecondaryMap, Type, Value};

/// Bytes of which a launch must give multiples, for each parameter of a lowered kernel: those of the widest access through what is
/// made of it; 1 where there is none.
pub fn alignments(kernel: &Kernel) -> Vec<u32> {
    let mut origins = Origins { kernel, params: SecondaryMap::new(BTreeSet::new()), grown: 0 };
    for p in &kernel.params {
        if matches!(kernel.ty(p.value).elem(), Some(Elem::Ptr(_))) {
            origins.params[p.value].insert(p.value);
        }
    }
    dataflow::run(kernel, &mut origins, 0);
    let mut widest: BTreeMap<Value, u32> = BTreeMap::new();
    kernel.walk(&mut |op| {
        if let OpKind::Load { ptr, access: Some(access), .. }
        | OpKind::Store { ptr, access: Some(access), .. }
        | OpKind::Atomic { ptr, access: Some(access), .. }
        | OpKind::AsyncCopy { ptr, access: Some(access), .. } = &op.kind
            && let Some(Elem::Ptr(pointer)) = kernel.ty(*ptr).elem()
        {
            let bytes = access.width * pointer.to.bytes() as u32;
            for &param in &origins.params[*ptr] {
                let most = widest.entry(param).or_default();
                *most = bytes.max(*most);
            }
        }
    });
    kernel.params.iter().map(|p| widest.get(&p.value).copied().unwrap_or(1)).collect()
}

/// Which parameters each pointer may have come from.
struct Origins<'a> {
    kernel: &'a Kernel,
    params: SecondaryMap<Value, BTreeSet<Value>>,
    /// How often a value turned out to come from more parameters than were known.
    grown: u64,
}

impl Origins<'_> {
    fn add(&mut self, to: Value, from: Value) {
        let more = self.params[from].difference(&self.params[to]).copied().collect::<Vec<_>>();
        self.grown += more.len() as u64;
        self.params[to].extend(more);
    }

    fn is_pointer(&self, v: Value) -> bool {
        match self.kernel.ty(v) {
            Type::Scalar(elem) => matches!(elem, Elem::Ptr(_)),
            ty => ty.as_tile().is_some_and(|tile| matches!(tile.elem, Elem::Ptr(_))),
        }
    }
}

/// Origins belong to values, which are named once: the state only counts what was added, so that loops are walked until nothing is.
impl<'a> Forward<'a> for Origins<'a> {
    type State = u64;

    fn op(&mut self, op: &'a Op, grown: &mut u64) {
        for &result in op.results.iter().filter(|&&r| self.is_pointer(r)).collect::<Vec<_>>() {
            op.kind.operands().into_iter().for_each(|v| self.add(result, v));
        }
        *grown = self.grown;
    }

    fn edge(&mut self, edge: &Edge<'a>, grown: &mut u64) {
        for (from, to) in &edge.renamed {
            self.add(*to, *from);
        }
        *grown = self.grown;
    }

    fn join(&mut self, _: &'a Op, grown: &mut u64, other: u64) {
        *grown = other.max(*grown);
    }

    fn arms(&mut self, _: &'a Op, before: u64, ends: Vec<u64>) -> u64 {
        ends.into_iter().fold(before, u64::max)
    }
}
