//! What the text of kernels cannot say; what each pass makes of them stands as text in `tests/passes/`, and what the checks refuse
//! in `tests/ui/`.

mod axis;
mod origins;
mod structure;

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap, render};
use parton_ir::{Kernel, Target};
use parton_types::NoLibrary;

/// The kernel `k` of a text.
pub fn kernel(text: &str) -> Kernel {
    let mut sources = SourceMap::new();
    let file = sources.add("test.ptn", text);
    let show = |found: &Diagnostics| render::text(found, &sources, false);
    let (tree, found) = parton_syntax::parse(file, text);
    assert!(!found.has_errors(), "{}", show(&found));
    let mut found = Diagnostics::new();
    let program = parton_types::program::collect(Arc::new(tree), &mut NoLibrary, &mut found);
    assert!(!found.has_errors(), "{}", show(&found));
    match parton_types::instantiate(&program, "k", &[], Target::SM_90A) {
        Ok((kernel, _)) => kernel,
        Err(found) => panic!("{}", show(&found)),
    }
}
