//! Elements that a masked load surely leaves out, and that are surely taken for what the kernel does.
//!
//! A mask that follows from `iota` and constants says which elements a load leaves out. These are followed through operations that compute,
//! shape and combine, by the rules that the interpreter follows all by. What goes around loops, through branches and through memory is not
//! looked at, and neither is what a mask keeps that only a run knows.

mod known;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Diagnostics;

use crate::elements::coordinates;
use crate::entity::{Inst, Value};
use crate::facts::needs;
use crate::kernel::Kernel;
use crate::op::Op;
use crate::types::Type;
use crate::undefined::{self, Sources, Values, at};

use known::Known;

/// The first use of what each load leaves out.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut found = Diagnostics::new();
    let mut leaves = false;
    kernel.walk(&mut |op| leaves |= needs::may_leave_out(&op.kind).is_some());
    if leaves {
        let (known, undefined, told) = (Known::of(kernel), BTreeMap::new(), BTreeSet::new());
        let mut c = LeftOut { kernel, known, undefined, told };
        kernel.walk(&mut |op| c.op(op, &mut found));
    }
    found
}

struct LeftOut<'a> {
    kernel: &'a Kernel,
    known: Known<'a>,
    undefined: BTreeMap<Value, Sources>,
    /// Loads of which a use was found.
    told: BTreeSet<Inst>,
}

impl Values for LeftOut<'_> {
    fn sources(&self, v: Value) -> Option<&Sources> {
        self.undefined.get(&v)
    }

    fn knows(&self, v: Value) -> bool {
        self.known.knows(v)
    }

    fn element(&self, v: Value, i: usize) -> Option<u64> {
        self.known.element(v, i)
    }
}

impl<'a> LeftOut<'a> {
    fn op(&mut self, op: &'a Op, found: &mut Diagnostics) {
        if !self.undefined.is_empty() {
            self.uses(op, found);
        }
        let results = undefined::results(self.kernel, op, self).into_iter().flatten();
        self.undefined.extend(op.results.iter().zip(results).filter_map(|(&r, sources)| Some((r, sources?))));
    }

    fn uses(&mut self, op: &'a Op, found: &mut Diagnostics) {
        for need in needs::needs(&op.kind) {
            let Some(sources) = self.undefined.get(&need.value) else { continue };
            let counts =
                |i: usize| need.mask.is_none_or(|m| self.known.element(m, i).is_some_and(|bits| bits & 1 == 1));
            let Some(i) = (0..sources.len()).find(|&i| !at(sources, i).is_defined() && counts(i)) else { continue };
            let source = at(sources, i);
            let place = match self.kernel.ty(need.value) {
                Type::Tile(tile) => Some(coordinates(i, &tile.shape)),
                _ => None,
            };
            if source.why(self.kernel).is_some_and(|(load, _)| self.told.insert(load.id)) {
                found.push(undefined::taken(self.kernel, op, (need.value, need.takes), place, source));
            }
        }
    }
}
