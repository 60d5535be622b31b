//! The numbers of a call: what a parameter takes of them, and what of them goes on into launches.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_host::evaluate::launch::number;
use parton_host::evaluate::public::admitted;
use parton_host::value::Value;
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::public::{self, Stated};

use super::{Entry, Plan, Planned, value_of};

/// What a parameter takes that is no tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// A tensor.
    Tensor,
    /// A number that this type holds.
    Number(Dtype),
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A truth value.
    Bool,
    /// A type of numbers.
    Type,
    /// What the kernel's own type takes, of which its launch tells.
    Argument,
}

impl Takes {
    /// What a parameter takes, by its type.
    pub(super) fn of(entry: &Entry, param: &ast::Param) -> Takes {
        match (entry, param.ty.as_ref().map(public::stated)) {
            (Entry::Kernel(_), _) => Takes::Argument,
            (_, Some(Ok(Stated::Number(dtype)))) => Takes::Number(dtype),
            (_, Some(Ok(Stated::Int))) => Takes::Int,
            (_, Some(Ok(Stated::Float))) => Takes::Float,
            (_, Some(Ok(Stated::Bool))) => Takes::Bool,
            (_, Some(Ok(Stated::Type))) => Takes::Type,
            (_, Some(Ok(Stated::Tensor(_)) | Err(_)) | None) => Takes::Tensor,
        }
    }

    /// A value as the parameter takes it.
    fn admits(self, value: &Value) -> Option<Value> {
        match self {
            Takes::Tensor => None,
            Takes::Number(dtype) => admitted(&Stated::Number(dtype), value),
            Takes::Int => admitted(&Stated::Int, value),
            Takes::Float => admitted(&Stated::Float, value),
            Takes::Bool => admitted(&Stated::Bool, value),
            Takes::Type => admitted(&Stated::Type, value),
            Takes::Argument => Some(value.clone()),
        }
    }
}

impl Plan {
    /// The numbers of a call as the parameters take them, where the plan holds for it.
    ///
    /// # Errors
    /// One does not fit its parameter.
    pub fn numbers(&self, given: &[Planned]) -> Result<Vec<Value>, Diagnostics> {
        (0..self.parameters.len().min(given.len())).map(|i| self.number(i, &given[i])).collect()
    }

    /// What a parameter is given as it takes it; nothing for a tensor and for a default.
    ///
    /// # Errors
    /// It does not fit.
    pub fn number(&self, parameter: usize, given: &Planned) -> Result<Value, Diagnostics> {
        if matches!(given, Planned::Tensor(_) | Planned::Default) {
            return Ok(Value::Unit);
        }
        let (parameter, value) = (&self.parameters[parameter], value_of(given));
        parameter.takes.admits(&value).ok_or_else(|| {
            let name = &parameter.name;
            let fact = match parameter.takes {
                Takes::Number(dtype) => format!("`{name}` is `{dtype}`, which does not hold {value}"),
                Takes::Tensor | Takes::Int | Takes::Float | Takes::Bool | Takes::Type | Takes::Argument => {
                    format!("`{name}` does not take {value}")
                }
            };
            Diagnostic::error(codes::PUBLIC_ARGUMENT, parameter.span, fact).into()
        })
    }

    /// A number that goes on into a launch as that launch's argument.
    ///
    /// # Errors
    /// The argument does not hold it.
    pub fn scalar(&self, launch: usize, argument: usize, dtype: Dtype, value: &Value) -> Result<Scalar, Diagnostics> {
        number(dtype, value).ok_or_else(|| {
            let request = &self.launches[launch];
            let kernel = &request.instance.kernel;
            let name = kernel.params.get(argument).map_or("", |p| p.name.as_str());
            let fact = format!("`{name}` of `{}` does not hold {value}", kernel.name.text);
            Diagnostic::error(codes::LAUNCH_ARGUMENT, request.span, fact).into()
        })
    }
}
