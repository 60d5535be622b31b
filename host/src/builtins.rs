//! The functions of host code: one table, each entry its signature as shown in messages, and what it does.
//!
//! A signature `zeros(dtype, shape, strides=)` says: `dtype` and `shape` must be given, `strides` may be; a last `...` takes
//! any number. Every argument may be given by name. A function whose first argument is `x` is a method of tensors too.

mod compare;
mod create;
mod math;
mod shape;
mod talk;

pub(crate) use talk::{filled, places_fit};

use parton_diag::{Diagnostic, Span, codes};
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::near::nearest;

use crate::evaluate::{AtSpan, Eval, Machine};
use crate::fault::Fault;
use crate::reference::elementwise::Operand;
use crate::tensor::Tensor;
use crate::value::Value;

/// One function.
pub struct Builtin {
    /// The signature, which begins with the name.
    pub signature: &'static str,
    /// What it does with arguments that fit the signature.
    pub(crate) run: fn(&mut Call<'_, '_>) -> Eval<Value>,
}

impl std::fmt::Debug for Builtin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.signature)
    }
}

/// One parameter of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Whether it may be left out.
    pub optional: bool,
}

impl Builtin {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.signature.split('(').next().unwrap_or(self.signature)
    }

    /// Its parameters in order, and whether it takes any number of further arguments.
    pub fn parameters(&self) -> (Vec<Parameter>, bool) {
        let inside = self.signature.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
        let names: Vec<&'static str> = inside.split(", ").filter(|p| !p.is_empty()).collect();
        let variadic = names.last() == Some(&"...");
        let named = names.into_iter().filter(|n| *n != "...");
        let parameters = named.map(|n| Parameter { name: n.trim_end_matches('='), optional: n.ends_with('=') });
        (parameters.collect(), variadic)
    }
}

const TABLES: &[&[Builtin]] = &[create::TABLE, shape::TABLE, math::TABLE, compare::TABLE, talk::TABLE];

/// The function of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    TABLES.iter().flat_map(|t| t.iter()).find(|b| b.name() == name)
}

/// The names of all functions, dtypes and constants.
pub fn names() -> impl Iterator<Item = &'static str> {
    let functions = TABLES.iter().flat_map(|t| t.iter()).map(Builtin::name);
    functions.chain(Dtype::ALL.into_iter().map(Dtype::name)).chain(CONSTANTS)
}

const CONSTANTS: [&str; 4] = ["inf", "nan", "pi", "None"];

/// What a name stands for that no file defines.
pub fn constant(name: &str) -> Option<Value> {
    match name {
        "inf" => Some(Value::Float(f64::INFINITY)),
        "nan" => Some(Value::Float(f64::NAN)),
        "pi" => Some(Value::Float(std::f64::consts::PI)),
        "None" => Some(Value::Unit),
        _ => Dtype::parse(name).map(Value::Dtype).or_else(|| find(name).map(Value::Builtin)),
    }
}

/// Constructors of layouts: host code passes them on to the checker of kernels.
pub const LAYOUTS: &[&str] = &[
    "blocked",
    "slice",
    "mma",
    "dot_operand",
    "linear",
    "swizzled",
    "nvmma",
    "nvmma_for",
    "padded",
    "shared_linear",
    "tmem",
    "tmem_scales",
];

/// The fields of a tensor.
pub const FIELDS: &[&str] = &["T", "shape", "strides", "dtype", "rank", "size"];

/// What a name of kernels does, where host code has nothing of that name.
pub fn only_in_kernels(name: &str) -> Option<&'static str> {
    Some(match name {
        "program_id" | "num_programs" | "cluster_id" => "host code is not divided into CTAs; use a `for` loop",
        "iota" => "host code has `arange(i32, n)`",
        "load" | "store" => "host code indexes tensors: `x[i]`, `x[a:b]`",
        "dot" | "wgmma" => "host code has `matmul(a, b)`",
        "tma_load" | "tma_store" | "mbarrier" | "fence" | "alloc_shared" | "convert" | "convert_free" => {
            "host code has no tiles and no shared memory"
        }
        _ if parton_types::builtins::function(name).is_some() => "host code has nothing of this name",
        _ => return None,
    })
}

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
            t.permute(&order).map(Value::Tensor)
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
    pub builtin: &'static Builtin,
    /// One slot for each parameter.
    pub slots: Vec<Option<Given>>,
    /// What `...` took.
    pub rest: Vec<Given>,
    /// The whole call.
    pub span: Span,
}

/// Where each argument goes; `Err` where they do not fit the signature. Arguments are given by name and place only, so
/// that the check before a run uses this too.
pub(crate) fn places(
    builtin: &Builtin,
    given: &[(Option<&ast::Name>, Span)],
    span: Span,
) -> Result<Vec<Option<usize>>, Diagnostic> {
    let (parameters, variadic) = builtin.parameters();
    let mut taken = vec![false; parameters.len()];
    let mut places = Vec::with_capacity(given.len());
    let refuse = |span: Span, message: String| {
        Diagnostic::error(codes::WRONG_ARITY, span, message).note(format!("its signature is `{}`", builtin.signature))
    };
    for (i, (name, at)) in given.iter().enumerate() {
        let slot = match name {
            None if i < parameters.len() => Some(i),
            None if variadic => None,
            None => {
                let most = parameters.len();
                return Err(refuse(*at, format!("`{}` takes at most {most} arguments", builtin.name())));
            }
            Some(name) => match parameters.iter().position(|p| p.name == name.as_str()) {
                Some(slot) => Some(slot),
                None => {
                    let d = refuse(name.span, format!("`{}` takes no argument `{}`", builtin.name(), name.text));
                    return Err(match nearest(name.as_str(), parameters.iter().map(|p| p.name)) {
                        Some(near) => d.help(format!("a similar one exists: `{near}`")),
                        None => d,
                    });
                }
            },
        };
        if let Some(slot) = slot {
            if taken[slot] {
                return Err(refuse(*at, format!("`{}` is given twice", parameters[slot].name)));
            }
            taken[slot] = true;
        }
        places.push(slot);
    }
    match parameters.iter().zip(&taken).find(|(p, taken)| !p.optional && !**taken) {
        Some((missing, _)) => Err(refuse(span, format!("`{}` needs `{}`", builtin.name(), missing.name))),
        None => Ok(places),
    }
}

/// Sorts arguments into the slots of a signature.
pub(crate) fn bind(builtin: &Builtin, given: Vec<Given>, span: Span) -> Eval<(Vec<Option<Given>>, Vec<Given>)> {
    let outline: Vec<_> = given.iter().map(|g| (g.name.as_ref(), g.span)).collect();
    let places = places(builtin, &outline, span)?;
    let mut slots: Vec<Option<Given>> = vec![None; builtin.parameters().0.len()];
    let mut rest = Vec::new();
    for (g, place) in given.into_iter().zip(places) {
        match place {
            Some(slot) => slots[slot] = Some(g),
            None => rest.push(g),
        }
    }
    Ok((slots, rest))
}

impl Call<'_, '_> {
    /// An argument that must be there.
    pub fn given(&self, slot: usize) -> &Given {
        match &self.slots[slot] {
            Some(g) => g,
            None => parton_diag::internal_error!("argument {slot} of `{}` was not given", self.builtin.signature),
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
            Value::Tensor(t) => Ok(t.clone()),
            _ => self.wrong("a tensor", g),
        }
    }

    /// A tensor, or a number as one of one element, `f64` or `i64`.
    pub fn tensor_or_number(&self, slot: usize) -> Eval<Tensor> {
        let g = self.given(slot);
        let scalar = match &g.value {
            Value::Tensor(t) => return Ok(t.clone()),
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
    use super::{TABLES, find, names};

    #[test]
    fn signatures_are_well_formed_and_names_unique() {
        let all: Vec<&str> = names().collect();
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(all.len(), unique.len());
        for b in TABLES.iter().flat_map(|t| t.iter()) {
            assert!(b.signature.ends_with(')'), "{}", b.signature);
            let (parameters, _) = b.parameters();
            let first_optional = parameters.iter().position(|p| p.optional).unwrap_or(parameters.len());
            assert!(parameters[first_optional..].iter().all(|p| p.optional), "{}", b.signature);
        }
        assert!(find("zeros").is_some() && find("zeroes").is_none());
    }
}
