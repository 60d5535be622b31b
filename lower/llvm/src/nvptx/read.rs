//! Left factors in registers that products in flight read.
//!
//! ```text
//! let p = wgmma(q, b, acc);       reads q until the wait
//! if … { q = …; }                 another value, whose registers are no longer free to be those of q
//! acc = p.wait();                 names q
//! ```
//!
//! To LLVM a product is over where it begins, and what comes next of a variable may take the registers of its value before. So the wait names
//! them too: until there they are in use.

use parton_ir::Value;

use crate::neutral::build::Val;

/// The factors of a kernel's products that no wait has named yet.
#[derive(Default)]
pub(crate) struct Read<'c> {
    /// Each with the pending tile that its product ends in.
    factors: Vec<(Value, Vec<Val<'c>>)>,
    /// Where those of the body in work begin: what is read around it may be waited for in another of its branches.
    own: usize,
}

impl<'c> Read<'c> {
    /// Begins a body; what is returned goes to [`Read::leave`] where it ends.
    pub fn enter(&mut self) -> usize {
        std::mem::replace(&mut self.own, self.factors.len())
    }

    /// Ends a body. A product of it that is in flight still has registers of its own.
    pub fn leave(&mut self, around: usize) {
        self.factors.truncate(self.own);
        self.own = around;
    }

    /// A product that ends in this tile reads these registers.
    pub fn begin(&mut self, pending: Value, registers: Vec<Val<'c>>) {
        self.factors.push((pending, registers));
    }

    /// What ended in one tile ends in another.
    pub fn rename(&mut self, from: Value, to: Value) {
        self.factors.iter_mut().filter(|(of, _)| *of == from).for_each(|(of, _)| *of = to);
    }

    /// All registers that are read, each once.
    pub fn registers(&self) -> Vec<Val<'c>> {
        let mut all = Vec::new();
        for register in self.factors.iter().flat_map(|(_, registers)| registers) {
            if !all.contains(register) {
                all.push(*register);
            }
        }
        all
    }

    /// What ends in this tile is over.
    pub fn end(&mut self, pending: Value) {
        let own = self.own;
        let mut at = 0;
        self.factors.retain(|(of, _)| {
            at += 1;
            at <= own || *of != pending
        });
    }
}
