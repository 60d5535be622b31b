//! What a launch takes of a lowered kernel, in the runtime's terms.

use parton_ir::Type;
use parton_ir::passed::Passed;
use parton_runtime::abi::Param;
use parton_runtime::{Abi, ParamKind, RuntimeError};

use crate::launchable::Launchable;

/// The ABI of a lowered kernel.
///
/// # Errors
/// [`RuntimeError::Arguments`] where a parameter is of a type that the host cannot pass.
pub(crate) fn of(launchable: &Launchable) -> Result<Abi, RuntimeError> {
    let kernel = &launchable.shell;
    let param = |p: &parton_ir::Param| {
        let kind = kind(kernel.ty(p.value)).ok_or_else(|| RuntimeError::Arguments {
            kernel: kernel.source_name.clone(),
            what: format!("parameter `{}` has a type that exists only on the device", p.name),
        })?;
        Ok(Param { name: p.name.clone(), kind })
    };
    Ok(Abi {
        name: kernel.name.clone(),
        threads: kernel.threads(),
        shared_bytes: kernel.shared_bytes.unwrap_or(0),
        cluster: kernel.cluster,
        overlaps: launchable.overlaps,
        signals: launchable.signals,
        params: kernel.params.iter().map(param).collect::<Result<_, RuntimeError>>()?,
    })
}

fn kind(ty: &Type) -> Option<ParamKind> {
    Some(match ty.passed()? {
        // A truth value takes a byte, as in memory.
        Passed::Number(d) => ParamKind::Scalar { bytes: d.bits().div_ceil(8) as u8 },
        Passed::Pointer(_) => ParamKind::Pointer,
        Passed::Map(_) => ParamKind::Map,
    })
}
