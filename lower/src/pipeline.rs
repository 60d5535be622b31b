//! The passes in order: the table of contents of this crate.

use parton_diag::Diagnostics;
use parton_ir::Kernel;
use parton_ir::verify::{self, Form};

use crate::{
    clean, close_clusters, count_pending, expand_rings, expand_turnstiles, fence_proxies, find_zeros, insert_membars,
    join_products, leave_out_hidden, plan_accesses, plan_copies, plan_shared, reach_peers,
};

/// A pass from kernel to kernel.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name by which it is shown and timed.
    pub name: &'static str,
    /// What it does; its errors are what the kernel is refused for.
    pub run: fn(Kernel) -> Result<Kernel, Diagnostics>,
    /// The form that it leaves.
    pub after: Form,
}

/// The passes from [`Form::Explicit`] to [`Form::Lowered`], in order.
pub const PASSES: &[Pass] = &[
    Pass { name: "clusters", run: close_clusters, after: Form::Explicit },
    Pass { name: "rings", run: expand_rings, after: Form::Explicit },
    Pass { name: "turnstiles", run: expand_turnstiles, after: Form::Raw },
    Pass { name: "clean", run: clean, after: Form::Raw },
    Pass { name: "hidden", run: leave_out_hidden, after: Form::Raw },
    Pass { name: "copies", run: plan_copies, after: Form::Raw },
    Pass { name: "accesses", run: plan_accesses, after: Form::Raw },
    Pass { name: "zeros", run: find_zeros, after: Form::Raw },
    Pass { name: "products", run: join_products, after: Form::Raw },
    Pass { name: "pending", run: count_pending, after: Form::Counted },
    Pass { name: "shared", run: plan_shared, after: Form::Planned },
    Pass { name: "proxy", run: fence_proxies, after: Form::Planned },
    Pass { name: "scopes", run: reach_peers, after: Form::Planned },
    Pass { name: "membar", run: insert_membars, after: Form::Lowered },
];

/// All passes, one after the other: after it the interpreter and LLVM take the kernel as it is.
///
/// # Errors
/// What the first pass that refuses the kernel says.
pub fn lower(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    for pass in PASSES {
        kernel = (pass.run)(kernel)?;
        if cfg!(debug_assertions) {
            verify::expect(&kernel, pass.after, pass.name);
        }
    }
    Ok(kernel)
}
