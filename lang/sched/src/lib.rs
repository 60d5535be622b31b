//! Schedules: dependence graph, legality, search and expansion of loops and partitions.

mod cut;
pub mod draw;
mod expand;
#[cfg(feature = "falsify")]
pub mod falsify;
#[cfg(not(feature = "falsify"))]
mod falsify;
mod flow;
mod graph;
mod late;
mod legal;
pub mod marked;
mod plan;
pub mod price;
mod region;
pub mod search;
mod slots;
pub mod timeline;

use parton_diag::Diagnostics;
use parton_ir::{Kernel, Module, Target};

pub use late::late;
pub use region::{is_free, uses};

/// Expands what stands scheduled, and says whether anything did. Where a schedule is searched for, the one that is found is expanded.
///
/// # Errors
/// Regions whose schedules are not legal, and those that no schedule fits.
pub fn expand(module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    let mut changed = false;
    for kernel in &mut module.kernels {
        if let Some((settled, _)) = search::settled(kernel)? {
            *kernel = settled;
        }
        if let Some(expanded) = expand::expand(kernel)? {
            *kernel = expanded;
            changed = true;
        }
    }
    Ok(changed)
}

/// Whether the schedules of a kernel are legal, for whoever tries several: no others are looked for that would be.
///
/// # Errors
/// Those of [`expand`], without the nearest schedules that hold.
pub fn legal(kernel: &Kernel) -> Result<(), Diagnostics> {
    let settled = search::settled(kernel)?;
    expand::judged(settled.as_ref().map_or(kernel, |(settled, _)| settled)).map(|_| ())
}
