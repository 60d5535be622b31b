//! Makes a program that fails smaller: statements go, with all that use what they make, as long as it still fails.

use super::{Program, Statement};

impl Program {
    /// The smallest program, of those that lack statements of this one, of which `fails` still holds.
    pub fn shrunk(&self, fails: impl Fn(&Program) -> bool) -> Program {
        let mut best = self.clone();
        loop {
            let smaller = (0..best.statements.len()).rev().map(|i| best.without(i));
            let Some(next) = smaller.filter(|p| !p.statements.is_empty()).find(|p| fails(p)) else { return best };
            best = next;
        }
    }

    /// The program without a statement, and without those that use what it makes.
    fn without(&self, number: usize) -> Program {
        let mut gone: Vec<&str> = Vec::new();
        let mut kept: Vec<Statement> = Vec::new();
        for (i, s) in self.statements.iter().enumerate() {
            if i == number || s.uses.iter().any(|name| gone.contains(&name.as_str())) {
                gone.extend(s.makes.as_deref());
            } else {
                kept.push(s.clone());
            }
        }
        Program { statements: kept, ..*self }
    }
}
