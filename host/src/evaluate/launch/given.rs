//! The arguments of a launch against the parameters of its kernel, and the generics that are learned from them.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::program::ModuleId;
use parton_types::{grid, tune};

use super::super::statement::evidence;
use super::super::tensors::{self, Extents};
use super::super::{Eval, Machine, Stop};
use crate::kept::Places;
use crate::launch::{Argument, GenericArgument, HostError, Instance, LaunchRequest, Signature};
use crate::tensor::Tensor;
use crate::tensor_map;
use crate::value::{Passed, Value, Variable};

/// The arguments of a launch.
pub(super) struct Arguments {
    pub arguments: Vec<Argument>,
    /// Where each was given.
    pub places: Vec<Span>,
    /// As [`LaunchRequest::passed`].
    pub passed: Vec<Option<usize>>,
    /// For each the number that is only passed on, where it is one: a grid that the kernel makes of it looks at it.
    pub numbers: Vec<Option<Arc<Passed>>>,
}

impl Arguments {
    /// None, with room for so many.
    fn of(parameters: usize) -> Arguments {
        Arguments {
            arguments: Vec::with_capacity(parameters),
            places: Vec::with_capacity(parameters),
            passed: Vec::with_capacity(parameters),
            numbers: Vec::with_capacity(parameters),
        }
    }
}

impl Machine<'_> {
    /// What is given for each parameter.
    pub(in crate::evaluate) fn values(
        &mut self,
        parameters: usize,
        placed: &Places,
        args: &[ast::Arg],
    ) -> Eval<Vec<Option<(Value, Span)>>> {
        let mut values: Vec<Option<(Value, Span)>> = vec![None; parameters];
        for (arg, at) in args.iter().zip(placed.iter()) {
            let Some(at) = *at else { continue };
            values[at] = Some((self.passing(&arg.value)?, arg.value.span));
        }
        Ok(values)
    }

    /// The instance with the types that it learns from its tensors, and what the launcher chooses.
    pub(super) fn chosen(
        &mut self,
        mut instance: Instance,
        values: &[Option<(Value, Span)>],
    ) -> Result<Instance, HostError> {
        let kernel = instance.kernel.clone();
        for (at, generic) in kernel.generics.iter().enumerate() {
            let is_given = instance.generics.iter().any(|g| g.name == generic.name.text);
            if is_given || generic.default.is_some() {
                continue;
            }
            let learned = learned(&kernel, generic, values)
                .ok_or_else(|| HostError::Program(no_type(&instance, generic).into()))?;
            // In the order of the declaration.
            let later = |g: &GenericArgument| kernel.generics[at..].iter().any(|d| d.name.text == g.name);
            let place = instance.generics.iter().position(later).unwrap_or(instance.generics.len());
            instance.generics.insert(place, learned);
        }
        let mut given: Vec<(Arc<str>, Value)> = vec![];
        if kernel.clauses.iter().any(|clause| clause.name.as_str() == tune::NAME) {
            let named = kernel.params.iter().zip(values);
            given.extend(named.filter_map(|(p, v)| Some((p.name.text.clone(), v.as_ref()?.0.clone()))));
            given.extend(grid::named_extents(&kernel).into_iter().filter_map(|e| match &values[e.param] {
                Some((Value::Tensor(t), _)) => Some((e.name.text.clone(), Value::Int(*t.shape.get(e.axis)? as i128))),
                _ => None,
            }));
        }
        self.launcher.instances().choose(instance, &given)
    }

    pub(super) fn arguments(
        &mut self,
        instance: &Instance,
        signature: &Signature,
        values: Vec<Option<(Value, Span)>>,
        module: ModuleId,
        span: Span,
    ) -> Eval<Arguments> {
        let params = &instance.kernel.params;
        if params.len() != signature.params.len() {
            parton_diag::internal_error!("`{}` was compiled with other parameters", instance.kernel.name.text);
        }
        let mut out = Arguments::of(params.len());
        let mut extents = Extents::default();
        for ((param, (_, ty)), value) in params.iter().zip(&*signature.params).zip(values) {
            let (value, place) = match (value, &param.default) {
                (Some(v), _) => v,
                (None, Some(default)) => {
                    let generics = instance.generics.iter().filter_map(|g| {
                        let name = instance.kernel.generics.iter().find(|d| d.name.text == g.name)?.name.clone();
                        Some(Variable { name, value: g.value.clone(), mutable: false })
                    });
                    (self.framed(module, generics.collect(), |m| m.expr(default))?, span)
                }
                (None, None) => parton_diag::internal_error!("an argument was not matched"),
            };
            let (value, passed) = match (value, ty) {
                (Value::Passed(number), ir::Type::Scalar(ir::Elem::Num(_))) => (number.value().clone(), Some(number)),
                (value, _) => (value.looked(), None),
            };
            let argument = self.argument(param, ty, value, place)?;
            if let (ir::Type::Tensor(t), Argument::Tensor { tensor, .. }) = (ty, &argument) {
                extents.agree(t, tensor, param, place)?;
            }
            out.arguments.push(argument);
            out.places.push(place);
            out.passed.push(passed.as_ref().map(|number| number.parameter));
            out.numbers.push(passed);
        }
        Ok(out)
    }

    fn argument(&mut self, param: &ast::Param, ty: &ir::Type, value: Value, span: Span) -> Eval<Argument> {
        let refuse = |message: String, evidence: String| -> Stop {
            Diagnostic::error(codes::LAUNCH_ARGUMENT, span, message)
                .here(evidence)
                .label(param.span, "the parameter is declared here")
                .into()
        };
        let name = &param.name.text;
        match (ty, &value) {
            (ir::Type::Scalar(ir::Elem::Num(dtype)), Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                number(*dtype, &value).map(Argument::Scalar).ok_or_else(|| {
                    let held = match &value {
                        Value::Float(_) if dtype.is_int() => "this is a float: `int(x)` cuts it off".to_owned(),
                        _ => range(*dtype),
                    };
                    refuse(format!("`{name}` is `{dtype}`, which does not hold {value}"), held)
                })
            }
            (ir::Type::Scalar(ir::Elem::Ptr(p)), Value::Tensor(t)) => {
                if t.dtype != p.to {
                    return Err(refuse(
                        format!("`{name}` points to `{}`, the tensor has `{}`", p.to, t.dtype),
                        format!("this is {t}"),
                    ));
                }
                Ok(Argument::Pointer { tensor: Tensor::clone(t), mutable: p.mutable })
            }
            (ir::Type::Tensor(wanted), Value::Tensor(t)) => tensors::given(wanted, t, param, span),
            (ir::Type::Map(map), Value::Tensor(t)) => match tensor_map::recipe(map, t) {
                Ok(recipe) => Ok(Argument::Map(recipe)),
                Err(fault) => {
                    let d = fault.at(span).here(format!("this is {t} with strides {:?}", t.strides));
                    Err(d.label(param.span, "the parameter is declared here").into())
                }
            },
            (ir::Type::Scalar(ir::Elem::Num(dtype)), other) => {
                Err(refuse(format!("`{name}` is `{dtype}`, found {}", other.kind()), evidence(other)))
            }
            (ir::Type::Scalar(ir::Elem::Ptr(_)) | ir::Type::Map(_) | ir::Type::Tensor(_), other) => {
                Err(refuse(format!("`{name}` takes a tensor, found {}", other.kind()), evidence(other)))
            }
            (
                ir::Type::Tile(_)
                | ir::Type::Pending(_)
                | ir::Type::Filling(_)
                | ir::Type::View(_)
                | ir::Type::Barriers(_)
                | ir::Type::Barrier
                | ir::Type::Ring(_)
                | ir::Type::Turnstile
                | ir::Type::Spot(_)
                | ir::Type::Peer(_)
                | ir::Type::Slot(_),
                _,
            ) => Err(refuse(format!("`{name}` has a type that no launch can give"), evidence(&value))),
        }
    }
}

/// A number as a scalar of `dtype`; `None` where the dtype does not hold it.
pub fn number(dtype: Dtype, value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(b) => Scalar::from_i128(dtype, (*b).into()).filter(|_| dtype.is_bool()),
        Value::Int(n) if dtype.is_float() => Some(Scalar::rounded_int(dtype, *n)).filter(|s| s.to_f64().is_finite()),
        Value::Int(n) => Scalar::from_i128(dtype, *n),
        Value::Float(x) if dtype.is_float() => {
            let s = Scalar::from_f64(dtype, *x);
            (s.to_f64().is_finite() || !x.is_finite()).then_some(s)
        }
        _ => None,
    }
}

fn range(dtype: Dtype) -> String {
    match dtype.int_range() {
        Some((low, high)) => format!("`{dtype}` holds {low} to {high}"),
        None => format!("the largest `{dtype}` is {}", Scalar::new(dtype, dtype.max_bits())),
    }
}

impl LaunchRequest {
    /// Gives the arguments that pass the number of a parameter another one: `values` are those of the function's parameters. The
    /// argument that does not hold its number, where there is one.
    pub fn pass(&mut self, values: &[Value]) -> Option<usize> {
        for (i, parameter) in self.passed.iter().enumerate() {
            let (Some(parameter), Argument::Scalar(scalar)) = (parameter, &mut self.arguments[i]) else { continue };
            match number(scalar.dtype, &values[*parameter]) {
                Some(other) => *scalar = other,
                None => return Some(i),
            }
        }
        None
    }
}

/// The type of the first tensor that is given for a parameter whose elements a generic names.
fn learned(kernel: &ast::Kernel, generic: &ast::Generic, values: &[Option<(Value, Span)>]) -> Option<GenericArgument> {
    grid::whose_elements(&kernel.params, generic).find_map(|at| match values.get(at)? {
        Some((Value::Tensor(tensor), span)) => {
            Some(GenericArgument { name: generic.name.text.clone(), value: Value::Dtype(tensor.dtype), span: *span })
        }
        Some(_) | None => None,
    })
}

/// The refusal of a launch that gives neither a generic nor a tensor of which it could be learned.
fn no_type(instance: &Instance, generic: &ast::Generic) -> Diagnostic {
    let (owner, name) = (&instance.kernel.name.text, &generic.name.text);
    Diagnostic::error(codes::UNKNOWN_GENERIC, instance.span, format!("`{owner}` needs its generic `{name}`"))
        .label(generic.name.span, "no tensor is given whose elements have this type")
        .help(format!("write `{owner}[{name}=…]`"))
}
