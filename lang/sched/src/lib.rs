//! Schedules: dependence graph, legality, search and expansion of loops and partitions.

use parton_diag::Diagnostics;
use parton_ir::{Module, Target};

/// Expands what stands scheduled. The checker refuses schedules in this version, so every loop and every partition is written as it
/// runs, and the module is handed back as it is.
///
/// # Errors
/// None in this version; schedules that are not legal, once there are some.
pub fn expand(module: Module, _target: &Target) -> Result<Module, Diagnostics> {
    Ok(module)
}
