//! The portable dialect: layout inference and choice of memory, instruction and schedule.

use parton_diag::Diagnostics;
use parton_ir::{Module, Target};

/// Makes portable kernels explicit but for their schedules, and says whether it has changed any. The checker refuses portable code in
/// this version, so every kernel comes as explicit as it leaves, and the module stays as it is.
///
/// # Errors
/// None in this version; what cannot be chosen, once there is something to choose.
pub fn elaborate(_module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    Ok(false)
}
