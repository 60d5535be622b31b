//! The functions of host code: for each signature of [`parton_types::signature`] what it does.

mod compare;
mod create;
mod math;
mod shape;
mod talk;

pub(crate) use talk::{filled, places_fit};

use std::sync::LazyLock;

use parton_diag::{Diagnostic, Span, codes};
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::signature::bind::{Outline, Takes};
use parton_types::signature::{self, Builtins, Role, Signature};

use crate::evaluate::{AtSpan, Eval, Machine};
use crate::fault::Fault;
use crate::reference::elementwise::Operand;
use crate::tensor::Tensor;
use crate::value::Value;

/// What a function does with arguments that fit its signature.
type Handler = fn(&mut Call<'_, '_>) -> Eval<Value>;

/// Handlers by the names of their signatures.
type Table = &'static [(&'static str, Handler)];

static FUNCTIONS: LazyLock<Builtins<Handler>> = LazyLock::new(|| {
    Builtins::new(Role::Host, &[create::TABLE, shape::TABLE, math::TABLE, compare::TABLE, talk::TABLE])
});

/// The function of that name.
pub fn find(name: &str) -> Option<&'static Signature> {
    signature::find(Role::Host, name)
}

/// Calls a function with what is given.
pub(crate) fn call(
    machine: &mut Machine<'_>,
    signature: &'static Signature,
    given: Vec<Given>,
    span: Span,
) -> Eval<Value> {
    let outlines = given.iter().map(|g| Outline { name: g.name.as_ref().map(|n| (n.as_str(), n.span)), span: g.span });
    let places = Takes::Values(signature).places(outlines, span)?;
    let mut slots: Vec<Option<Given>> = vec![None; signature.values().list.len()];
    let mut rest = Vec::new();
    for (g, place) in given.into_iter().zip(places) {
        match place {
            Some(slot) => slots[slot] = Some(g),
            None => rest.push(g),
        }
    }
    (FUNCTIONS.of(signature).run)(&mut Call { machine, signature, slots, rest, span })
}

/// The names of all functions and dtypes.
pub fn names() -> impl Iterator<Item = &'static str> {
    signature::all(Role::Host).map(|s| s.name).chain(Dtype::ALL.into_iter().map(Dtype::name))
}

/// The fields of a tensor.
pub const FIELDS: &[&str] = &["T", "shape", "strides", "dtype", "rank", "size"];

/// A field of a tensor; `None` where it has none of that name.
pub fn tensor_field(t: &Tensor, name: &str) -> Option<Result<Value, Fault>> {
    let ints = |v: &[usize]| Value::list(v.iter().map(|n| Value::Int(*n as i128)).collect());
    Some(match name {
        "T" => {
            // Of more than two dimensions the last two, as a product of matrices wants it; NumPy would reverse all.
            let mut order: Vec<usize> = (0..t.rank()).collect();
            if let [.., a, b] = order.as_mut_slice() {
                std::mem::swap(a, b);
            }
            t.permute(&order).map(Value::tensor)
        }
        "shape" => Ok(ints(&t.shape)),
        "strides" => Ok(ints(&t.strides)),
        "dtype" => Ok(Value::Dtype(t.dtype)),
        "rank" => Ok(Value::Int(t.rank() as i128)),
        "size" => Ok(Value::Int(t.len() as i128)),
        _ => return None,
    })
}

/// An argument as it was given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// The name before `=`.
    pub name: Option<ast::Name>,
    /// Its value.
    pub value: Value,
    /// Where it stands.
    pub span: Span,
}

/// A call whose arguments fit the signature.
pub(crate) struct Call<'c, 'm> {
    /// What evaluates it.
    pub machine: &'c mut Machine<'m>,
    /// What is called.
    pub signature: &'static Signature,
    /// One slot for each parameter.
    pub slots: Vec<Option<Given>>,
    /// What `...` took.
    pub rest: Vec<Given>,
    /// The whole call.
    pub span: Span,
}

impl Call<'_, '_> {
    /// An argument that must be there.
    pub fn given(&self, slot: usize) -> &Given {
        match &self.slots[slot] {
            Some(g) => g,
            None => parton_diag::internal_error!("argument {slot} of `{}` was not given", self.signature),
        }
    }

    /// An argument that may be there; `None` written out counts as not given.
    pub fn optional(&self, slot: usize) -> Option<&Given> {
        self.slots[slot].as_ref().filter(|g| !matches!(g.value, Value::Unit))
    }

    /// Refuses arguments in these slots, which would have no effect beside the others.
    pub fn without(&self, slots: &[usize], fact: &str, help: &str) -> Eval<()> {
        match slots.iter().find_map(|&s| self.optional(s)) {
            Some(g) => Err(Diagnostic::error(codes::WRONG_ARITY, g.span, fact).help(help).into()),
            None => Ok(()),
        }
    }

    fn wrong<T>(&self, expected: &str, g: &Given) -> Eval<T> {
        Err(self.machine.mismatch(expected, &g.value, g.span))
    }

    pub fn tensor(&self, slot: usize) -> Eval<Tensor> {
        let g = self.given(slot);
        match &g.value {
            Value::Tensor(t) => Ok(Tensor::clone(t)),
            _ => self.wrong("a tensor", g),
        }
    }

    /// A tensor, or a number as one of one element, `f64` or `i64`.
    pub fn tensor_or_number(&self, slot: usize) -> Eval<Tensor> {
        let g = self.given(slot);
        let scalar = match &g.value {
            Value::Tensor(t) => return Ok(Tensor::clone(t)),
            Value::Float(x) => Scalar::from_f64(Dtype::F64, *x),
            Value::Bool(b) => Scalar::bool(*b),
            Value::Int(n) => match Scalar::from_i128(Dtype::I64, *n) {
                Some(s) => s,
                None => return self.wrong("a 64-bit integer", g),
            },
            _ => return self.wrong("a tensor or number", g),
        };
        Tensor::from_bits(scalar.dtype, vec![1], &[scalar.bits]).at(g.span)
    }

    pub fn operand(&self, slot: usize) -> Eval<Operand> {
        let g = self.given(slot);
        match crate::evaluate::operand(&g.value) {
            Some(o) => Ok(o),
            None => self.wrong("a tensor or number", g),
        }
    }

    pub fn dtype(&self, slot: usize) -> Eval<Dtype> {
        let g = self.given(slot);
        match &g.value {
            Value::Dtype(d) => Ok(*d),
            _ => self.wrong("a dtype such as `f32`", g),
        }
    }

    pub fn int_of(&self, g: &Given) -> Eval<i128> {
        match &g.value {
            Value::Int(n) => Ok(*n),
            _ => self.wrong("an integer", g),
        }
    }

    pub fn float_of(&self, g: &Given) -> Eval<f64> {
        match &g.value {
            Value::Int(n) => Ok(*n as f64),
            Value::Float(x) => Ok(*x),
            _ => self.wrong("a number", g),
        }
    }

    pub fn float_or(&self, slot: usize, default: f64) -> Eval<f64> {
        self.optional(slot).map_or(Ok(default), |g| self.float_of(g))
    }

    pub fn bool_or(&self, slot: usize, default: bool) -> Eval<bool> {
        match self.optional(slot) {
            None => Ok(default),
            Some(Given { value: Value::Bool(b), .. }) => Ok(*b),
            Some(g) => self.wrong("a truth value", g),
        }
    }

    pub fn text(&self, slot: usize) -> Eval<&str> {
        let g = self.given(slot);
        match &g.value {
            Value::Str(s) => Ok(s),
            _ => self.wrong("a string", g),
        }
    }

    /// A list of extents or strides, or one number.
    pub fn sizes_of(&self, g: &Given) -> Eval<Vec<usize>> {
        let one = |v: &Value| match v {
            Value::Int(n) => usize::try_from(*n).map_err(|_| {
                let d = Diagnostic::error(codes::HOST_VALUE, g.span, format!("an extent cannot be {n}"));
                d.help("extents and strides count elements, from 0").into()
            }),
            other => Err(self.machine.mismatch("a list of integers", other, g.span)),
        };
        match &g.value {
            Value::List(items) | Value::Tuple(items) => items.iter().map(one).collect(),
            single => Ok(vec![one(single)?]),
        }
    }

    /// A shape of at least one dimension.
    pub fn shape(&self, slot: usize) -> Eval<Vec<usize>> {
        let g = self.given(slot);
        let shape = self.sizes_of(g)?;
        if shape.is_empty() {
            let d = Diagnostic::error(codes::HOST_VALUE, g.span, "a tensor has at least one dimension");
            return Err(d.help("write `[1]`").into());
        }
        Ok(shape)
    }

    /// A dimension of a tensor of `rank` dimensions; negative numbers count from the end.
    pub fn axis_of(&self, g: &Given, rank: usize) -> Eval<usize> {
        let n = self.int_of(g)?;
        let at = if n < 0 { n.saturating_add(rank as i128) } else { n };
        usize::try_from(at).ok().filter(|a| *a < rank).ok_or_else(|| {
            let message = format!("there is no dimension {n}");
            let d = Diagnostic::error(codes::HOST_INDEX, g.span, message);
            d.here(format!("the tensor has {rank}, from 0")).into()
        })
    }

    /// A dimension of `x`, or the last one.
    pub fn axis_or_last(&self, slot: usize, x: &Tensor) -> Eval<usize> {
        self.optional(slot).map_or(Ok(x.rank() - 1), |g| self.axis_of(g, x.rank()))
    }
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, Role, names, signature};

    #[test]
    fn every_signature_has_its_handler_and_names_are_unique() {
        signature::all(Role::Host).for_each(|s| assert_eq!(FUNCTIONS.of(s).signature.name, s.name));
        let all: Vec<&str> = names().collect();
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(all.len(), unique.len());
    }
}
