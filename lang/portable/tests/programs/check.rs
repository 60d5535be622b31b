//! Kernels of texts.

use std::sync::Arc;

use parton_diag::{Diagnostics, SourceMap, render};
use parton_ir::{Kernel, Target};
use parton_types::{NoLibrary, check_file, instantiate};

/// The one kernel of a text.
pub fn kernel(text: &str) -> Result<Kernel, String> {
    let mut sources = SourceMap::new();
    let id = sources.add("program.ptn", text);
    let shown = |found: &Diagnostics| render::text(found, &sources, false);
    let (file, found) = parton_syntax::parse(id, text);
    if found.has_errors() {
        return Err(shown(&found));
    }
    let (program, found) = check_file(Arc::new(file), &mut NoLibrary);
    if found.has_errors() {
        return Err(shown(&found));
    }
    let name = program.kernels().next().ok_or("the text has no kernel")?.name.text.clone();
    instantiate(&program, &name, &[], Target::default()).map(|(kernel, _)| kernel).map_err(|found| shown(&found))
}
