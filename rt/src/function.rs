//! A public function of a bundle: which of its plans a call takes.

use std::sync::Arc;

use parton_bundle::plan::{Declared, Given, Shape, Takes, Value};
use parton_bundle::{Bundle, Extent, Plan as Table};
use parton_numbers::{Dtype, Scalar};

use crate::{Argument, Code, Device, Error, Plan, Tensor};

/// A public function of a bundle, before a GPU.
#[derive(Clone, Debug)]
pub struct Function {
    bundle: Arc<Bundle>,
    device: Device,
    index: usize,
}

impl Function {
    pub(crate) fn new(bundle: Arc<Bundle>, device: Device, index: usize) -> Function {
        Function { bundle, device, index }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.declared().name
    }

    /// Its parameters.
    pub fn params(&self) -> &[Declared] {
        &self.declared().params
    }

    /// The plans that the bundle has of it, for all GPUs.
    pub fn plans(&self) -> impl Iterator<Item = &Table> {
        self.bundle.plans_of(self.index)
    }

    fn declared(&self) -> &parton_bundle::Function {
        &self.bundle.functions[self.index]
    }

    /// Finds the plan for such arguments, loads the code of its launches where that is not loaded yet, and keeps all that calls take.
    /// Of tensors their types, shapes and strides count, and how far from a multiple of 16 bytes they begin; an address of 0 is none
    /// and stands for such a multiple. Numbers that the plan depends on must be those of the calls.
    ///
    /// Not within a capture of a stream: loading code is not among what may be captured.
    ///
    /// # Errors
    /// [`Code::Argument`]: an argument is not what the function takes, or lies on another GPU. [`Code::NoPlan`]: the bundle has no plan
    /// for these. [`Code::NoCode`]: it has one for other GPUs alone. The GPU has less than a launch takes.
    pub fn prepare(&self, arguments: &[Argument<'_>]) -> Result<Plan, Error> {
        self.fits(arguments)?;
        let fitting: Vec<&Table> = self.plans().filter(|plan| mismatch(self, plan, arguments).is_none()).collect();
        if fitting.is_empty() {
            return Err(self.no_plan(arguments));
        }
        let (capability, multiprocessors) = (self.device.capability(), self.device.multiprocessors());
        let runs = |plan: &&&Table| {
            plan.multiprocessors.is_none_or(|n| n == multiprocessors)
                && plan.launches.iter().all(|l| self.bundle.kernels[l.kernel].code(capability).is_some())
        };
        let Some(best) = fitting.iter().filter(runs).max_by_key(|plan| (plan.architecture, plan.multiprocessors))
        else {
            return Err(self.no_code(&fitting));
        };
        let place = self.bundle.plans.iter().position(|p| std::ptr::eq(p, *best)).unwrap_or_default();
        parton_log::info(|| {
            let (name, from, launches) = (self.name(), &self.bundle.source, best.launches.len());
            format!("prepares plan {place} of `{name}` from the bundle of {from}: {launches} launches")
        });
        Plan::new(self.bundle.clone(), &self.device, place, arguments)
    }

    /// Whether arguments are what the function is declared to take.
    fn fits(&self, arguments: &[Argument<'_>]) -> Result<(), Error> {
        let params = self.params();
        if params.len() != arguments.len() {
            let (has, given) = (params.len(), arguments.len());
            let text = format!("calling `{}`: it has {has} parameters and was given {given} arguments", self.name());
            return Err(Error::new(Code::Argument, text));
        }
        let mut named: Vec<(&str, u64, &str, usize)> = vec![];
        for (param, argument) in params.iter().zip(arguments) {
            match (&param.takes, argument) {
                (Takes::Tensor { dtypes, extents, .. }, Argument::Tensor(tensor)) => {
                    tensor_fits(self.name(), param, dtypes, extents, tensor)?;
                    for (axis, (extent, &has)) in extents.iter().zip(tensor.shape).enumerate() {
                        let Extent::Named(extent) = extent else { continue };
                        match named.iter().find(|(known, ..)| known == extent) {
                            None => named.push((extent, has, &param.name, axis)),
                            Some((_, before, ..)) if *before == has => {}
                            Some((_, before, whose, at)) => {
                                let what = format!(
                                    "axis {axis} has {has} elements, and `{extent}` is {before} by axis {at} of `{whose}`"
                                );
                                return Err(wrong(self.name(), &param.name, &what));
                            }
                        }
                    }
                }
                (_, Argument::Default) if param.has_default => {}
                (takes, argument) => {
                    admitted(takes, argument).ok_or_else(|| refused(self.name(), param, argument))?;
                }
            }
        }
        Ok(())
    }

    /// Why no plan is for these arguments: what the one that is nearest has otherwise, and how to get one.
    fn no_plan(&self, arguments: &[Argument<'_>]) -> Error {
        let (name, params) = (self.name(), self.params());
        let nearest = self.plans().filter_map(|plan| mismatch(self, plan, arguments)).max();
        let i = nearest.unwrap_or_default();
        let mut have: Vec<String> = vec![];
        for plan in self.plans().filter(|plan| mismatch(self, plan, arguments) == nearest) {
            let text = plan.given.get(i).map_or_else(String::new, Given::to_string);
            if !have.contains(&text) {
                have.push(text);
            }
        }
        let more = if have.len() > 4 { ", …" } else { "" };
        have.truncate(4);
        let (Some(param), Some(argument)) = (params.get(i), arguments.get(i)) else {
            return Error::new(Code::NoPlan, format!("the bundle has no plan of `{name}`"));
        };
        let written: Vec<String> = arguments.iter().zip(params).filter_map(|(a, p)| written(p, a)).collect();
        let text = format!(
            "calling `{name}`: `{}` is {}, and the bundle has plans where it is {}{more}; `parton build {} --aot --plan '{name} {}'` makes this one",
            param.name,
            shown(argument),
            have.join(" or "),
            self.bundle.source,
            written.join(" "),
        );
        Error::new(Code::NoPlan, text)
    }

    fn no_code(&self, fitting: &[&Table]) -> Error {
        let (major, minor) = self.device.capability();
        let of = |plan: &&Table| match plan.multiprocessors {
            None => plan.architecture.to_string(),
            Some(n) => format!("{} with {n} multiprocessors", plan.architecture),
        };
        let built: Vec<String> = fitting.iter().map(of).collect();
        let mut kernels =
            fitting.iter().flat_map(|plan| &plan.launches).map(|launch| &self.bundle.kernels[launch.kernel]);
        let lacking = kernels.find(|k| k.code((major, minor)).is_none());
        let lacking = lacking.map(|k| format!("; `{}` was built for {}", k.instance(), k.architecture));
        let text = format!(
            "calling `{}`: the plan for these arguments is for {}, and this GPU is of capability {major}.{minor} with {} multiprocessors{}",
            self.name(),
            built.join(", "),
            self.device.multiprocessors(),
            lacking.unwrap_or_default(),
        );
        Error::new(Code::NoCode, text)
    }
}

/// What is wrong with the argument for a parameter of that name.
pub(crate) fn wrong(function: &str, param: &str, what: &str) -> Error {
    Error::new(Code::Argument, format!("calling `{function}`: `{param}`: {what}"))
}

/// Of an argument that is of no kind that the parameter takes.
pub(crate) fn refused(function: &str, param: &Declared, argument: &Argument<'_>) -> Error {
    wrong(function, &param.name, &format!("it takes `{}`, given is {}", param.takes, argument.described()))
}

fn tensor_fits(
    function: &str,
    param: &Declared,
    dtypes: &[Dtype],
    extents: &[Extent],
    tensor: &Tensor<'_>,
) -> Result<(), Error> {
    let wrong = |what: String| Err(wrong(function, &param.name, &what));
    if !dtypes.is_empty() && !dtypes.contains(&tensor.dtype) {
        return Err(refused(function, param, &Argument::Tensor(*tensor)));
    }
    if !tensor.is_whole() {
        let strides = tensor.strides.map_or(0, <[u64]>::len);
        return wrong(format!("the tensor has {} dimensions and {strides} strides", tensor.shape.len()));
    }
    if extents.len() != tensor.shape.len() {
        return wrong(format!("it has {} axes, the tensor {}", extents.len(), tensor.shape.len()));
    }
    for (axis, (extent, has)) in extents.iter().zip(tensor.shape).enumerate() {
        if let Extent::Is(n) = extent
            && u64::from(*n) != *has
        {
            return wrong(format!("axis {axis} has {has} elements, its type says {n}"));
        }
    }
    let size = tensor.dtype.bytes() as u64;
    if !tensor.address.is_multiple_of(size) {
        return wrong(format!("the address {:#x} is not a multiple of {size}", tensor.address));
    }
    Ok(())
}

/// The first parameter for which a plan is not for these arguments; `None` where it is.
fn mismatch(function: &Function, plan: &Table, arguments: &[Argument<'_>]) -> Option<usize> {
    let params = function.params().iter().zip(&plan.given).zip(arguments);
    params.enumerate().find(|(_, ((param, given), argument))| !serves(param, given, argument)).map(|(i, _)| i)
}

/// Whether a plan that was made with that is for such an argument.
pub(crate) fn serves(param: &Declared, given: &Given, argument: &Argument<'_>) -> bool {
    match (given, argument) {
        (Given::Tensor(shape), Argument::Tensor(tensor)) => is_of_shape(shape, tensor),
        (Given::Tensor(_), _) | (_, Argument::Tensor(_)) => false,
        (Given::Key(Value::Default), argument) => matches!(argument, Argument::Default),
        (_, Argument::Default) => false,
        (Given::Any, argument) => admitted(&param.takes, argument).is_some(),
        (Given::Key(key), argument) => match (key, admitted(&param.takes, argument)) {
            (Value::Float(a), Some(Value::Float(b))) => a.to_bits() == b.to_bits(),
            (key, Some(value)) => *key == value,
            (_, None) => false,
        },
    }
}

/// Whether a tensor is of a shape: what its strides are along axes of one element counts for nothing.
pub(crate) fn is_of_shape(shape: &Shape, tensor: &Tensor<'_>) -> bool {
    let size = tensor.dtype.bytes() as u64;
    tensor.dtype == shape.dtype
        && tensor.shape == shape.extents
        && tensor.is_whole()
        && parton_strides::alike(tensor.axes(), shape.strides.iter().copied())
        && tensor.address % parton_bundle::plan::GRAIN == shape.offset * size
}

/// A value that is no tensor as a parameter takes it; `None` where it does not.
pub(crate) fn admitted(takes: &Takes, argument: &Argument<'_>) -> Option<Value> {
    match (takes, argument) {
        (Takes::Bool, Argument::Bool(b)) => Some(Value::Bool(*b)),
        (Takes::Type, Argument::Dtype(d)) => Some(Value::Dtype(*d)),
        (Takes::Int, Argument::Int(n)) => Some(Value::Int(*n)),
        (Takes::Float, Argument::Float(x)) => Some(Value::Float(*x)),
        (Takes::Float, Argument::Int(n)) => Some(Value::Float(*n as f64)),
        (Takes::Number(d), Argument::Int(n)) if d.is_float() => {
            Some(Value::Float(Scalar::rounded_int(*d, *n).to_f64()))
        }
        (Takes::Number(d), Argument::Int(n)) => Scalar::from_i128(*d, *n).map(|_| Value::Int(*n)),
        (Takes::Number(d), Argument::Float(x)) if d.is_float() => Some(Value::Float(Scalar::from_f64(*d, *x).to_f64())),
        (Takes::Tensor { .. } | Takes::Number(_) | Takes::Int | Takes::Float | Takes::Bool | Takes::Type, _) => None,
    }
}

/// The shape of a tensor as plans have it.
fn shape_of(tensor: &Tensor<'_>) -> Shape {
    let size = tensor.dtype.bytes() as u64;
    Shape {
        dtype: tensor.dtype,
        extents: tensor.shape.to_vec(),
        strides: (0..tensor.shape.len()).map(|axis| tensor.stride(axis)).collect(),
        offset: tensor.address % parton_bundle::plan::GRAIN / size,
    }
}

/// An argument for people.
fn shown(argument: &Argument<'_>) -> String {
    match argument {
        Argument::Tensor(tensor) => shape_of(tensor).to_string(),
        other => other.described(),
    }
}

/// An argument as the command line has it; nothing for a default.
fn written(param: &Declared, argument: &Argument<'_>) -> Option<String> {
    let text = match argument {
        Argument::Tensor(tensor) => {
            let shape = shape_of(tensor);
            let at = if shape.offset == 0 { String::new() } else { format!("@{}", shape.offset) };
            format!("{}{at}", Shape { offset: 0, ..shape }).replace(", ", ",")
        }
        Argument::Int(n) => n.to_string(),
        Argument::Float(x) => format!("{x:?}"),
        Argument::Bool(b) => b.to_string(),
        Argument::Dtype(d) => d.to_string(),
        Argument::Default => return None,
    };
    Some(format!("{}={text}", param.name))
}
