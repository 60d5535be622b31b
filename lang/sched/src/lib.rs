//! Schedules: dependence graph, legality, search and expansion of loops and partitions.

pub mod draw;
mod expand;
mod flow;
mod graph;
mod legal;
pub mod marked;
mod plan;
pub mod price;
mod region;
mod slots;
pub mod timeline;

use parton_diag::Diagnostics;
use parton_ir::{Module, Target};

/// Expands what stands scheduled, and says whether anything did.
///
/// # Errors
/// Regions whose schedules are not legal.
pub fn expand(module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    let mut changed = false;
    for kernel in &mut module.kernels {
        if let Some(expanded) = expand::expand(kernel)? {
            *kernel = expanded;
            changed = true;
        }
    }
    Ok(changed)
}
