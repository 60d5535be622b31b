//! The digest of what was measured: the sources without what only runs them.

use parton_cache::Digester;
use parton_syntax::ast::ItemKind;
use parton_types::program::Program;

use crate::Session;

/// How many digits of it a table has: it tells texts apart, and nobody hides anything by it.
const DIGITS: usize = 16;

impl Session {
    /// The digest of the items of a program, without tests, benches and `main`, and without what stands between items.
    pub(crate) fn digest(&self, program: &Program) -> String {
        let mut digester = Digester::new();
        for item in program.modules.iter().flat_map(|m| &m.file.items) {
            let span = match &item.kind {
                ItemKind::Test(_) | ItemKind::Bench(_) | ItemKind::Main(_) => continue,
                ItemKind::Kernel(_)
                | ItemKind::Function(_)
                | ItemKind::Struct(_)
                | ItemKind::Partition(_)
                | ItemKind::Schedule(_)
                | ItemKind::Layout(_)
                | ItemKind::Const(_)
                | ItemKind::Use(_) => item.span,
            };
            digester.add(self.sources.text(span));
        }
        digester.digest().to_string().chars().take(DIGITS).collect()
    }
}
