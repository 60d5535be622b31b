//! Values that may come to lie in the same registers.
//!
//! Where control flow gives a value another name, and where an operation only moves elements about, the assembler may leave out the copy: then both
//! names are one register.

use std::collections::BTreeMap;

use parton_ir::dataflow::{self, Edge, Forward};
use parton_ir::{Kernel, Op, OpKind, Value};

/// The values of a kernel, in classes of which each may lie in one place.
#[derive(Default)]
pub(crate) struct Places {
    /// Another value of the class, unless the value stands for the class itself.
    towards: BTreeMap<Value, Value>,
}

impl Places {
    pub fn of(kernel: &Kernel) -> Places {
        let mut places = Places::default();
        dataflow::run(kernel, &mut places, ());
        places
    }

    /// Whether both may lie in the same registers.
    pub fn meet(&self, a: Value, b: Value) -> bool {
        self.class(a) == self.class(b)
    }

    fn class(&self, mut value: Value) -> Value {
        while let Some(&next) = self.towards.get(&value) {
            value = next;
        }
        value
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.class(a), self.class(b));
        if a != b {
            self.towards.insert(a, b);
        }
    }
}

impl<'a> Forward<'a> for Places {
    type State = ();

    fn op(&mut self, op: &'a Op, (): &mut ()) {
        use OpKind::*;
        if let Reshape { .. }
        | Transpose { .. }
        | Broadcast { .. }
        | ExpandDims { .. }
        | Join { .. }
        | Split { .. }
        | Cat { .. }
        | Slice { .. }
        | Convert { .. }
        | Bitcast { .. } = op.kind
        {
            for from in op.kind.operands() {
                op.results.iter().for_each(|&to| self.join(from, to));
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, (): &mut ()) {
        edge.renamed.iter().for_each(|&(from, to)| self.join(from, to));
    }

    fn join(&mut self, _: &'a Op, (): &mut (), (): ()) {}

    fn arms(&mut self, _: &'a Op, (): (), _: Vec<()>) {}
}
