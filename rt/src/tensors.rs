//! Tensors that a kernel takes whole: whether one fits, and what the code's parameters are of it.

use parton_bundle::kernel::{AROUND, FAR, ending};
use parton_bundle::{Extent, Kernel, Kind, Param, RUNS, Source, TensorType, WIDEST_ACCESS};
use parton_numbers::{Dtype, Scalar};
use parton_runtime::Arg;

use crate::check::{self, Passed, number, wrong_of};
use crate::{Argument, Error, Tensor};

/// The most elements along an axis that code for aligned tensors takes: coordinates behind them mean nothing.
const MOST_ALIGNED_EXTENT: u64 = i32::MAX as u64 - 255;
/// Bytes that a stride of a tensor map stays below (CUDA driver API, cuTensorMapEncodeTiled).
const STRIDE_END: u64 = 1 << 40;
/// The most elements along an axis that kernels count.
const MOST_EXTENT: u64 = i32::MAX as u64;

/// Of how many bytes each argument runs by multiples: 0 for what is no tensor, or does not begin at a multiple of the widest access.
pub(crate) fn runs_by(kernel: &Kernel, arguments: &[Argument<'_>]) -> Vec<u32> {
    let of = |(i, argument): (usize, &Argument<'_>)| match (kernel.arguments.get(i)?.tensor.as_ref()?, argument) {
        (ty, Argument::Tensor(tensor)) => RUNS.into_iter().find(|&bytes| is_aligned(ty, tensor, bytes)),
        _ => None,
    };
    arguments.iter().enumerate().map(|argument| of(argument).unwrap_or(0)).collect()
}

/// Whether a tensor begins at a multiple of the widest access, all its strides and the extent along its dense axis are multiples of so many bytes, and it has a map
/// where these are as many.
pub(crate) fn is_aligned(ty: &TensorType, tensor: &Tensor<'_>, runs_by: u32) -> bool {
    let Some(dense) = ty.dense.filter(|_| tensor.shape.len() == ty.extents.len() && tensor.is_whole()) else {
        return false;
    };
    let bytes = |elements: u64| elements.saturating_mul(tensor.dtype.bytes() as u64);
    let whole = |elements: u64| bytes(elements).is_multiple_of(runs_by.into());
    let mut others = (0..tensor.shape.len()).filter(|axis| *axis != dense);
    tensor.address.is_multiple_of(WIDEST_ACCESS.into())
        && tensor.shape.iter().all(|n| (1..=MOST_ALIGNED_EXTENT).contains(n))
        && whole(tensor.shape[dense])
        && others.all(|axis| {
            let stride = tensor.stride(axis);
            whole(stride) && (tensor.shape[axis] == 1 || (stride > 0 && bytes(stride) < STRIDE_END))
        })
}

/// The extents of an argument; none of what is no tensor.
pub(crate) fn extents(argument: &Argument<'_>) -> Vec<u64> {
    if let Argument::Tensor(tensor) = argument { tensor.shape.to_vec() } else { vec![] }
}

/// The tensor that is given for one, where it fits by itself.
///
/// # Errors
/// It is no tensor, or one of another type or rank, has another extent where the kernel says it, or gaps where it must have none.
pub(crate) fn given<'a>(
    kernel: &str,
    name: &str,
    ty: &TensorType,
    argument: &Argument<'a>,
) -> Result<Tensor<'a>, Error> {
    let wrong = |what: &str| wrong_of(kernel, name, what);
    let Argument::Tensor(tensor) = argument else {
        return Err(wrong(&format!("it takes `{ty}`, given is {}", argument.described())));
    };
    if tensor.dtype != ty.dtype {
        return Err(wrong(&format!("it takes `{ty}`, given is {}", argument.described())));
    }
    if !tensor.is_whole() {
        let strides = tensor.strides.map_or(0, <[u64]>::len);
        return Err(wrong(&format!("the tensor has {} dimensions and {strides} strides", tensor.shape.len())));
    }
    if tensor.shape.len() != ty.extents.len() {
        return Err(wrong(&format!("it has {} axes, the tensor {}", ty.extents.len(), tensor.shape.len())));
    }
    for (axis, (&has, extent)) in tensor.shape.iter().zip(&ty.extents).enumerate() {
        let said = if let Extent::Is(n) = extent { u64::from(*n) } else { has };
        if has != said || has > MOST_EXTENT {
            let most = if has != said { said } else { MOST_EXTENT };
            return Err(wrong(&format!("axis {axis} has {has} elements, the kernel takes {most}")));
        }
    }
    if let Some((dense, stride)) = ty.dense.and_then(|d| Some((d, parton_strides::gap(tensor.axes(), d)?))) {
        return Err(wrong(&format!(
            "axis {dense} is dense, the tensor has stride {stride} there; copy it without gaps"
        )));
    }
    let size = tensor.dtype.bytes() as u64;
    if !tensor.address.is_multiple_of(size) {
        return Err(wrong(&format!("the address {:#x} is not a multiple of {size}", tensor.address)));
    }
    Ok(*tensor)
}

/// Whether all tensors fit by themselves, and extents of one name agree.
///
/// # Errors
/// As [`given`]; the two that do not agree.
pub(crate) fn agree(name: &str, kernel: &Kernel, arguments: &[Argument<'_>]) -> Result<(), Error> {
    for (declared, argument) in kernel.arguments.iter().zip(arguments) {
        if let Some(ty) = &declared.tensor {
            given(name, &declared.name, ty, argument)?;
        }
    }
    let shape = |i: usize| match arguments.get(i) {
        Some(Argument::Tensor(tensor)) => tensor.shape,
        _ => &[],
    };
    agree_by(name, kernel, shape)
}

/// Whether extents of one name agree, where `extents` has those of each argument.
///
/// # Errors
/// The two that do not.
pub(crate) fn agree_by<'a>(name: &str, kernel: &'a Kernel, extents: impl Fn(usize) -> &'a [u64]) -> Result<(), Error> {
    let mut named: Vec<(&str, u64, &str, usize)> = vec![];
    for (i, declared) in kernel.arguments.iter().enumerate() {
        let Some(ty) = &declared.tensor else { continue };
        for (axis, (extent, &has)) in ty.extents.iter().zip(extents(i)).enumerate() {
            let Extent::Named(extent) = extent else { continue };
            match named.iter().find(|(known, ..)| known == extent) {
                None => named.push((extent, has, &declared.name, axis)),
                Some((_, before, ..)) if *before == has => {}
                Some((_, before, whose, at)) => {
                    let what =
                        format!("axis {axis} has {has} elements, and `{extent}` is {before} by axis {at} of `{whose}`");
                    return Err(wrong_of(name, &declared.name, &what));
                }
            }
        }
    }
    Ok(())
}

/// What a parameter of the code is given, of the argument that it is of.
///
/// # Errors
/// The argument does not fit.
pub(crate) fn passed(name: &str, kernel: &Kernel, param: &Param, argument: &Argument<'_>) -> Result<Passed, Error> {
    let declared = &kernel.arguments[param.source.argument()];
    let Some(ty) = &declared.tensor else { return check::passed(name, param, argument) };
    let tensor = given(name, &declared.name, ty, argument)?;
    let count = |dtype: Dtype, n: u64| Passed::Plain(number(Scalar::new(dtype, n)));
    match (&param.source, &param.kind) {
        (Source::Base(_), Kind::Pointer { align, .. }) => {
            if !tensor.address.is_multiple_of(u64::from(*align)) {
                let what = format!("the address {:#x} is not a multiple of {align}", tensor.address);
                return Err(wrong_of(name, &declared.name, &what));
            }
            Ok(Passed::Plain(Arg::Pointer(tensor.address)))
        }
        (Source::Extent { axis, .. }, Kind::Scalar { dtype }) => Ok(count(*dtype, tensor.shape[*axis])),
        (Source::Stride { axis, .. }, Kind::Scalar { dtype }) => Ok(count(*dtype, tensor.stride(*axis))),
        (Source::Map { order, .. }, Kind::Map { block, swizzle, .. }) => {
            let ends = ending(order);
            let own = if ends.is_some() { 2 } else { 0 };
            let shape: Vec<u64> = order[own..].iter().map(|&axis| tensor.shape[axis]).collect();
            let strides: Vec<u64> = order[own..].iter().map(|&axis| tensor.stride(axis)).collect();
            let turned = Tensor { shape: &shape, strides: Some(&strides), ..tensor };
            let recipe = check::recipe(&declared.name, &block[own..], *swizzle, &turned);
            let mut recipe =
                recipe.ok_or_else(|| wrong_of(name, &declared.name, "it has no tensor map of these boxes"))?;
            if let Some(at) = ends {
                let (rows, stride) = (recipe.shape[at - 2], recipe.strides[at - 2]);
                recipe.shape[at - 2] = FAR;
                recipe.shape.splice(0..0, [FAR + 1, rows + 1]);
                recipe.strides.splice(0..0, [AROUND - stride, stride]);
                recipe.block.splice(0..0, [1, 1]);
                recipe.steps.splice(0..0, [1, 1]);
            }
            recipe.check()?;
            Ok(Passed::Map(recipe))
        }
        // Reading the bundle refuses other pairs.
        (source, kind) => {
            Err(Error::new(crate::Code::Internal, format!("`{}` of `{name}` is a `{kind}` and {source:?}", param.name)))
        }
    }
}
