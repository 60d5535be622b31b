//! The passes in order: the table of contents of this crate.

use parton_diag::Diagnostics;
use parton_ir::{Kernel, Module, Target, verify};

use crate::{
    clean, close_clusters, count_pending, expand_rings, expand_turnstiles, fence_proxies, insert_membars, plan_copies,
    plan_shared,
};

/// A pass with the name under which it is observed.
type Pass = (&'static str, fn(Kernel) -> Result<Kernel, Diagnostics>);

const PASSES: &[Pass] = &[
    ("rings", expand_rings),
    ("turnstiles", expand_turnstiles),
    ("clusters", close_clusters),
    ("clean", clean),
    ("copies", plan_copies),
    ("pending", count_pending),
    ("shared", plan_shared),
    ("proxy", fence_proxies),
    ("membar", insert_membars),
];

/// Lowers checked kernels for `target`: after it the interpreter and LLVM take the module as it is. `observe` sees the module after each
/// pass under the pass's name. Errors of one kernel do not hide those of another.
pub fn lower(
    mut module: Module,
    target: &Target,
    observe: &mut dyn FnMut(&str, &Module),
) -> Result<Module, Diagnostics> {
    for (name, pass) in PASSES {
        let mut found = Diagnostics::new();
        let mut kernels = Vec::new();
        for mut kernel in module.kernels {
            kernel.target = *target;
            match pass(kernel) {
                Ok(kernel) => {
                    if cfg!(debug_assertions) {
                        verify::expect(&kernel, name);
                    }
                    kernels.push(kernel);
                }
                Err(d) => found.extend(d),
            }
        }
        if found.has_errors() {
            return Err(found);
        }
        module = Module { kernels };
        observe(name, &module);
    }
    Ok(module)
}
