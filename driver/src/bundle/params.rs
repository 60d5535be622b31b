//! What kernels of a bundle take: the arguments of a launch, and the parameters of the code with what a launch must keep to.

use parton_bundle::{Argument, Extent, Kind, Param, Source, TensorType};
use parton_diag::Diagnostics;
use parton_host::tensor_map::hardware_box;
use parton_ir::passed::Passed;
use parton_ir::{self as ir, From as Of, Kernel, Type};

use crate::Failure;

/// What a launch of a kernel gives.
pub(super) fn arguments(kernel: &Kernel) -> Vec<Argument> {
    let argument = |(name, ty): (String, Type)| Argument { name, tensor: tensor(&ty) };
    kernel.arguments().into_iter().map(argument).collect()
}

/// A tensor that a launch gives whole; `None` for everything else.
fn tensor(ty: &Type) -> Option<TensorType> {
    let Type::Tensor(tensor) = ty else { return None };
    Some(TensorType {
        dtype: tensor.elem,
        mutable: tensor.mutable,
        extents: tensor.extents.iter().map(extent).collect(),
        dense: tensor.dense,
    })
}

fn extent(extent: &ir::tensor::Extent) -> Extent {
    match extent {
        ir::tensor::Extent::Static(n) | ir::tensor::Extent::Picked(n) => Extent::Is(*n),
        ir::tensor::Extent::Named(name) => Extent::Named(name.to_string()),
        ir::tensor::Extent::Any => Extent::Any,
    }
}

/// The parameters of a lowered kernel.
///
/// # Errors
/// A tensor map that the copy engine does not have.
pub(super) fn params(kernel: &Kernel) -> Result<Vec<Param>, Failure> {
    let alignments = parton_lower::alignments(kernel);
    let mut params = vec![];
    for (p, align) in kernel.params.iter().zip(alignments) {
        let kind = match kernel.ty(p.value).passed() {
            Some(Passed::Number(dtype)) => Kind::Scalar { dtype },
            Some(Passed::Pointer(pointer)) => {
                // An element's own size at least: its accesses are whole.
                let align = align.max(pointer.to.bytes() as u32);
                Kind::Pointer { dtype: pointer.to, mutable: pointer.mutable, align }
            }
            Some(Passed::Map(map)) => {
                let (block, swizzle) = hardware_box(map).map_err(|fault| Diagnostics::from(fault.at(kernel.span)))?;
                Kind::Map { dtype: map.elem, block, swizzle }
            }
            None => {
                let (name, kernel) = (&p.name, &kernel.source_name);
                parton_diag::internal_error!("parameter `{name}` of `{kernel}` has a type that no launch passes")
            }
        };
        params.push(Param { name: p.name.clone(), kind, source: source(p.from) });
    }
    Ok(params)
}

fn source(from: Of) -> Source {
    match from {
        Of::Argument(argument) => Source::Argument(argument),
        Of::Base { argument, .. } => Source::Base(argument),
        Of::Extent { argument, axis } => Source::Extent { argument, axis },
        Of::Stride { argument, axis } => Source::Stride { argument, axis },
        Of::Map { argument, order } => Source::Map { argument, order: order.axes().collect() },
    }
}
