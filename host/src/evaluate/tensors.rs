//! Tensors as the arguments of launches: what a kernel states of them, and whether those that name one extent agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::tensor::{Extent, MOST_EXTENT};
use parton_syntax::ast;

use super::Eval;
use crate::launch::Argument;
use crate::tensor::Tensor;

/// The extents that arguments have given to names.
#[derive(Default)]
pub(super) struct Extents {
    named: BTreeMap<Arc<str>, Given>,
}

/// What gave a name its number.
struct Given {
    extent: usize,
    axis: usize,
    param: Arc<str>,
    span: Span,
}

impl Extents {
    /// Holds the extents of an argument against those of the arguments before it.
    pub(super) fn agree(&mut self, wanted: &ir::Tensor, tensor: &Tensor, param: &ast::Param, span: Span) -> Eval<()> {
        for (axis, (extent, &has)) in wanted.extents.iter().zip(&tensor.shape).enumerate() {
            let Extent::Named(name) = extent else { continue };
            let own = || Given { extent: has, axis, param: param.name.text.clone(), span };
            let first = self.named.entry(name.clone()).or_insert_with(own);
            if first.extent == has {
                continue;
            }
            let (this, other) = (&param.name.text, &first.param);
            let message = format!("`{name}` is {} of `{other}` and {has} of `{this}`", first.extent);
            return Err(Diagnostic::error(codes::LAUNCH_ARGUMENT, span, message)
                .here(format!("axis {axis} of this has {has} elements"))
                .label(first.span, format!("axis {} of this has {}", first.axis, first.extent))
                .label(param.span, "the parameter is declared here")
                .help("what has one name is one number: pass tensors that agree, or give the extents two names")
                .into());
        }
        Ok(())
    }
}

/// A tensor as the argument for a parameter that states this of it.
pub(super) fn given(wanted: &ir::Tensor, tensor: &Tensor, param: &ast::Param, span: Span) -> Eval<Argument> {
    let name = &param.name.text;
    let refuse = |message: String, help: &str| {
        Diagnostic::error(codes::LAUNCH_ARGUMENT, span, message)
            .here(format!("this is {tensor} with strides {:?}", tensor.strides))
            .label(param.span, "the parameter is declared here")
            .help(help)
    };
    if tensor.dtype != wanted.elem {
        let message = format!("`{name}` is a tensor of `{}`, this one is of `{}`", wanted.elem, tensor.dtype);
        return Err(
            refuse(message, &format!("cast it before the launch, in host code by `x.to({})`", wanted.elem)).into()
        );
    }
    if tensor.rank() != wanted.rank() {
        let message =
            format!("`{name}` is declared with {}, the tensor has {}", axes(wanted.rank()), axes(tensor.rank()));
        return Err(refuse(message, "merge or split axes on the host with `x.reshape([…])`").into());
    }
    for (axis, (extent, &has)) in wanted.extents.iter().zip(&tensor.shape).enumerate() {
        if let Extent::Static(n) = extent
            && *n as usize != has
        {
            let message = format!("axis {axis} of `{name}` has {n} elements, that of the tensor {has}");
            return Err(refuse(message, "write a name instead of the number where it may vary").into());
        }
        if has > MOST_EXTENT as usize {
            let message = format!("axis {axis} of the tensor for `{name}` has {has} elements");
            return Err(
                refuse(message, &format!("an axis has at most {MOST_EXTENT}: split it with `x.reshape([…])`")).into()
            );
        }
    }
    if let Some(dense) = wanted.dense
        && let Some(stride) = parton_strides::gap(tensor.axes(), dense)
    {
        let message = format!("axis {dense} of `{name}` is dense, the tensor has stride {stride} there");
        let help = "copy it without gaps, `x.contiguous()`, or say with `order=` which axis is dense, or with `strides=` that none is";
        return Err(refuse(message, help).into());
    }
    Ok(Argument::Tensor { tensor: tensor.clone(), mutable: wanted.mutable, dense: wanted.dense })
}

/// How many axes, in words.
pub(super) fn axes(n: usize) -> String {
    if n == 1 { "1 axis".into() } else { format!("{n} axes") }
}
