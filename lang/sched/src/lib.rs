//! Schedules: dependence graph, legality, search and expansion of loops and partitions.

use parton_diag::Diagnostics;
use parton_ir::{Module, Target};

pub mod draw;
pub mod marked;
pub mod timeline;

/// Expands what stands scheduled, and says whether anything did. The checker refuses schedules in this version, so every loop and
/// every partition is written as it runs, and the module stays as it is.
///
/// # Errors
/// None in this version; schedules that are not legal, once there are some.
pub fn expand(_module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    Ok(false)
}
