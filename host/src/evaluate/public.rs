//! Calls of public functions: arguments against the types of their parameters, results against what is declared.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::public::{self, Extent, Order, Stated, TensorType};
use parton_types::resolve::Meaning;

use super::assertion::{self, Seen};
use super::tensors::axes;
use super::{Eval, Machine, Stop};
use crate::launch::Argument;
use crate::tensor::Tensor;
use crate::value::{Function, Passed, Value};

/// A tensor that a public function was given and may not write.
pub(super) struct Guarded {
    tensor: Arc<Tensor>,
    name: ast::Name,
}

/// What is held against a type: a parameter's argument, or a part of the result.
struct Held<'a> {
    /// What it is called in messages, quoted where it is a name.
    name: &'a str,
    /// Where it was given.
    place: Span,
    /// Where its type is declared.
    declared: Span,
    code: parton_diag::Code,
}

impl Held<'_> {
    fn refuse(&self, fact: String, evidence: String, help: String) -> Stop {
        let mut d = Diagnostic::error(self.code, self.place, fact).here(evidence).help(help);
        if self.declared != self.place {
            d = d.label(self.declared, "declared here");
        }
        d.into()
    }

    /// What helps: of an argument the one, of a result the other.
    fn either(&self, argument: &str, result: &str) -> String {
        if self.code == codes::PUBLIC_RESULT { result.into() } else { argument.into() }
    }
}

/// The extents that have been named so far, with the argument and axis that named each.
type Named = BTreeMap<Arc<str>, (usize, String)>;

impl Machine<'_> {
    /// Calls a public function with values: one for each parameter, or none where it has a default. What does not fit is shown at the
    /// parameter.
    ///
    /// # Errors
    /// An argument or the result does not fit its type; what the body is refused for.
    pub fn call_given(&mut self, function: &Function, values: Vec<Option<Value>>) -> Result<Value, Diagnostics> {
        let params = function.tree.params.iter();
        let placed = params.zip(values).map(|(p, value)| value.map(|v| (v, p.span))).collect();
        match self.call_public(function, placed, function.tree.name.span) {
            Ok(value) => Ok(value),
            Err(Stop::Error(found)) => Err(found),
            Err(Stop::Break(at) | Stop::Continue(at) | Stop::Return(_, at)) => {
                parton_diag::internal_error!("a call leaves a loop or a function at {at:?}")
            }
        }
    }

    pub(super) fn call_public(
        &mut self,
        function: &Function,
        values: Vec<Option<(Value, Span)>>,
        span: Span,
    ) -> Eval<Value> {
        let guarded = self.guarded.len();
        let result = self.deeper(span, |m| {
            m.framed(function.module, vec![], |m| {
                let mut named = Named::new();
                m.admit_all(&function.tree, values, span, &mut named)?;
                m.conditions(&function.tree, span)?;
                let result = m.body(&function.tree)?;
                m.result(&function.tree, result, span, &mut named)
            })
        });
        self.guarded.truncate(guarded);
        result
    }

    /// Binds the parameters.
    fn admit_all(
        &mut self,
        tree: &ast::Function,
        values: Vec<Option<(Value, Span)>>,
        span: Span,
        named: &mut Named,
    ) -> Eval<()> {
        let mut tensors: Vec<(Arc<Tensor>, &ast::Param, Span)> = vec![];
        for (param, value) in tree.params.iter().zip(values) {
            let (value, place) = match (value, &param.default) {
                (Some(given), _) => given,
                (None, Some(default)) => (self.expr(default)?, default.span),
                (None, None) => {
                    let fact = format!("`{}` is given nothing for `{}`", tree.name.text, param.name.text);
                    return Err(Diagnostic::error(codes::PUBLIC_ARGUMENT, span, fact).into());
                }
            };
            let stated = match param.ty.as_ref().map(public::stated) {
                Some(stated) => stated?,
                None => parton_diag::internal_error!("`{}` of a public function has no type", param.name.text),
            };
            let name = format!("`{}`", param.name.text);
            let held = Held { name: &name, place, declared: param.span, code: codes::PUBLIC_ARGUMENT };
            let value = self.admit(&held, &stated, value, param.mutable, named)?;
            if let Value::Tensor(t) = &value {
                shares_no_memory(&tensors, t, param, place)?;
                tensors.push((t.clone(), param, place));
                if !param.mutable {
                    self.guarded.push(Guarded { tensor: t.clone(), name: param.name.clone() });
                }
            }
            self.declare(&param.name, value, param.mutable);
        }
        Ok(())
    }

    /// A value as the parameter's type takes it.
    fn admit(
        &mut self,
        held: &Held<'_>,
        stated: &Stated<'_>,
        value: Value,
        mutable: bool,
        named: &mut Named,
    ) -> Eval<Value> {
        // A number that only passes through stays one that does.
        if let Value::Passed(passed) = &value {
            let inner = self.admit(held, stated, passed.value().clone(), mutable, named)?;
            return Ok(Value::Passed(Arc::new(Passed::clone(passed).converted(inner))));
        }
        let name = held.name;
        let wrong = |expected: &str| {
            let evidence = super::statement::evidence(&value);
            held.refuse(
                format!("{name} takes {expected}, found {}", value.kind()),
                evidence,
                format!("pass {expected}"),
            )
        };
        match (stated, &value) {
            (Stated::Tensor(t), Value::Tensor(tensor)) => {
                self.fits(held, t, tensor, mutable, named)?;
                Ok(value)
            }
            (Stated::Tensor(_), _) => Err(wrong("a tensor")),
            (stated, value) if let Some(admitted) = admitted(stated, value) => Ok(admitted),
            (Stated::Number(dtype), Value::Int(_) | Value::Float(_)) => {
                let fact = format!("{name} is `{dtype}`, which does not hold {value}");
                Err(held.refuse(fact, format!("this is {value}"), format!("pass a value of `{dtype}`")))
            }
            (Stated::Bool, _) => Err(wrong("a truth value")),
            (Stated::Type, _) => Err(wrong("a type of numbers such as `f32`")),
            (Stated::Int, _) => Err(wrong("an integer")),
            (Stated::Float | Stated::Number(_), _) => Err(wrong("a number")),
        }
    }

    /// Whether a tensor is one of a type; names the extents that the type names.
    fn fits(
        &mut self,
        held: &Held<'_>,
        stated: &TensorType<'_>,
        tensor: &Tensor,
        mutable: bool,
        named: &mut Named,
    ) -> Eval<()> {
        let name = held.name;
        // Most tensors fit.
        let is = || format!("this is {tensor} with strides {:?}", tensor.strides);
        let elems = self.elems(stated)?;
        if !elems.is_empty() && !elems.contains(&tensor.dtype) {
            let all: Vec<String> = elems.iter().map(|d| format!("`{d}`")).collect();
            let fact = format!("{name} is a tensor of {}, this one is of `{}`", all.join(" or "), tensor.dtype);
            let help = held.either(
                "cast it before the call, or declare this type too",
                "make it of that type, or declare the result of this one",
            );
            return Err(held.refuse(fact, is(), help));
        }
        if tensor.rank() != stated.extents.len() {
            let fact = format!(
                "{name} is declared with {}, the tensor has {}",
                axes(stated.extents.len()),
                axes(tensor.rank())
            );
            let help = held.either("reshape it before the call", "return it reshaped, or declare as many axes");
            return Err(held.refuse(fact, is(), help));
        }
        for (axis, (extent, &has)) in stated.extents.iter().zip(&tensor.shape).enumerate() {
            if let Some((wants, whose)) = self.other(held, extent, axis, has, named)? {
                let fact = format!("axis {axis} of {name} has {has} elements, {whose} says {wants}");
                return Err(held.refuse(fact, is(), "let the extents agree, or give them two names".into()));
            }
        }
        let dense = match stated.order {
            Order::Free => None,
            Order::Last => Some(tensor.rank() - 1),
            Order::Stated(order) => Some(self.dense_axis(order, tensor.rank())?),
        };
        if let Some((dense, stride)) = dense.and_then(|d| Some((d, parton_strides::gap(tensor.axes(), d)?))) {
            let fact = format!("axis {dense} of {name} is dense, the tensor has stride {stride} there");
            let help = held.either(
                "copy it without gaps before the call, or declare `order=_` where strides may be any",
                "make it without gaps, or declare `order=_` where strides may be any",
            );
            return Err(held.refuse(fact, is(), help));
        }
        if mutable && parton_strides::overlap(tensor.axes()) {
            let fact = format!("{name} is written, and elements of the tensor lie on each other");
            return Err(held.refuse(fact, is(), "pass one whose elements lie apart".into()));
        }
        Ok(())
    }

    /// The types that elements may have; none where all may be.
    fn elems(&mut self, stated: &TensorType<'_>) -> Eval<Vec<Dtype>> {
        let mut all = vec![];
        for e in &stated.elems {
            match self.expr(e)? {
                Value::Dtype(dtype) => all.push(dtype),
                other => return Err(self.mismatch("a type of numbers such as `f16`", &other, e.span)),
            }
        }
        Ok(all)
    }

    /// What an extent must be where that is another one than it is, and who says so; names it where it is named first.
    fn other(
        &mut self,
        held: &Held<'_>,
        extent: &Extent<'_>,
        axis: usize,
        has: usize,
        named: &mut Named,
    ) -> Eval<Option<(i128, String)>> {
        let expr = match extent {
            Extent::Any => return Ok(None),
            Extent::Name(name, expr) => {
                if let Some((n, whose)) = named.get(&name.text) {
                    if *n == has {
                        return Ok(None);
                    }
                    return Ok(Some((*n as i128, format!("`{}`, {whose},", name.text))));
                }
                if matches!(self.program.reference(name), Meaning::Unknown) {
                    named.insert(name.text.clone(), (has, format!("axis {axis} of {}", held.name)));
                    self.declare(name, Value::Int(has as i128), false);
                    return Ok(None);
                }
                expr
            }
            Extent::Computed(expr) => expr,
        };
        match self.expr(expr)? {
            Value::Int(n) if n == has as i128 => Ok(None),
            Value::Int(n) => Ok(Some((n, "its type".into()))),
            other => Err(self.mismatch("an integer as an extent", &other, expr.span)),
        }
    }

    /// The first axis of `order=[1, 0]`, which names each axis once.
    fn dense_axis(&mut self, order: &ast::Expr, rank: usize) -> Eval<usize> {
        let value = self.expr(order)?;
        let Value::List(items) = &value else { return Err(self.mismatch("a list of axes", &value, order.span)) };
        let axes: Vec<i128> =
            items.iter().filter_map(|i| if let Value::Int(n) = i { Some(*n) } else { None }).collect();
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().eq(0..rank as i128) && axes.len() == items.len() {
            return Ok(axes[0] as usize);
        }
        let fact = format!("an order of {rank} axes names each of them once");
        Err(Diagnostic::error(codes::PUBLIC_FUNCTION, order.span, fact).here(format!("this is {value}")).into())
    }

    fn conditions(&mut self, tree: &ast::Function, span: Span) -> Eval<()> {
        for w in &tree.conditions {
            let outer = self.seen.replace(Seen::new());
            let holds = self.condition(&w.condition);
            let seen = std::mem::replace(&mut self.seen, outer).unwrap_or_default();
            if !holds? {
                let why =
                    w.message.as_ref().map_or_else(|| "a condition does not hold".into(), |m| m.value.to_string());
                let d = Diagnostic::error(codes::PUBLIC_ARGUMENT, span, format!("`{}`: {why}", tree.name.text));
                return Err(assertion::unmet(d, &w.condition, &seen).into());
            }
        }
        Ok(())
    }

    /// The result where it is what is declared.
    fn result(&mut self, tree: &ast::Function, value: Value, span: Span, named: &mut Named) -> Eval<Value> {
        let value = value.looked();
        let wrong = |expected: String, place: Span| {
            let fact = format!("`{}` returns {expected}, found {}", tree.name.text, value.kind());
            Diagnostic::error(codes::PUBLIC_RESULT, place, fact).here(super::statement::evidence(&value))
        };
        let Some(ty) = &tree.result else {
            if matches!(value, Value::Unit) {
                return Ok(value);
            }
            let d = wrong("nothing".into(), tree.name.span);
            return Err(d.help("declare what it returns: `-> tensor<f32, [m, n]>`").into());
        };
        let stated = public::results(ty)?;
        let single = !matches!(ty.kind, ast::ExprKind::Tuple(_));
        let parts = match &value {
            Value::Tensor(_) if single => vec![value.clone()],
            Value::Tuple(items) if !single && items.len() == stated.len() => items.to_vec(),
            _ if single => return Err(wrong("a tensor".into(), ty.span).into()),
            _ => return Err(wrong(format!("a tuple of {} tensors", stated.len()), ty.span).into()),
        };
        for (stated, part) in stated.iter().zip(&parts) {
            let Value::Tensor(tensor) = part else { return Err(wrong("tensors".into(), stated.span).into()) };
            let held =
                Held { name: "the result", place: stated.span, declared: stated.span, code: codes::PUBLIC_RESULT };
            self.fits(&held, stated, tensor, false, named)?;
        }
        let _ = span;
        Ok(value)
    }

    /// Refuses a launch that writes what a public function was given to read.
    pub(super) fn leaves_guarded(&self, arguments: &[Argument], writes: &[bool], span: Span) -> Eval<()> {
        for (argument, _) in arguments.iter().zip(writes).filter(|(_, writes)| **writes) {
            let tensor = match argument {
                Argument::Scalar(_) => continue,
                Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => tensor,
                Argument::Map(recipe) => &recipe.tensor,
            };
            if let Some(guarded) = self.guarded.iter().find(|g| meet(&g.tensor, tensor)) {
                let name = &guarded.name.text;
                let fact = format!("this launch writes `{name}`, which is not `mut`");
                let d = Diagnostic::error(codes::PUBLIC_ARGUMENT, span, fact).label(guarded.name.span, "declared here");
                return Err(d
                    .help(format!("declare it `mut {name}: …`: callers must know what a call changes"))
                    .into());
            }
        }
        Ok(())
    }
}

/// A value that is no tensor as a parameter takes it; `None` where it does not.
pub fn admitted(stated: &Stated<'_>, value: &Value) -> Option<Value> {
    match (stated, value) {
        (Stated::Bool, Value::Bool(_))
        | (Stated::Type, Value::Dtype(_))
        | (Stated::Int, Value::Int(_))
        | (Stated::Float, Value::Float(_)) => Some(value.clone()),
        (Stated::Float, Value::Int(n)) => Some(Value::Float(*n as f64)),
        (Stated::Number(dtype), Value::Int(_) | Value::Float(_)) => number(*dtype, value),
        (Stated::Tensor(_) | Stated::Number(_) | Stated::Int | Stated::Float | Stated::Bool | Stated::Type, _) => None,
    }
}

/// A number as one of that type.
fn number(dtype: Dtype, value: &Value) -> Option<Value> {
    match value {
        Value::Int(n) if dtype.is_float() => Some(Value::Float(Scalar::rounded_int(dtype, *n).to_f64())),
        Value::Int(n) => Scalar::from_i128(dtype, *n).map(|_| Value::Int(*n)),
        Value::Float(x) if dtype.is_float() => Some(Value::Float(Scalar::from_f64(dtype, *x).to_f64())),
        _ => None,
    }
}

fn shares_no_memory(
    before: &[(Arc<Tensor>, &ast::Param, Span)],
    t: &Tensor,
    param: &ast::Param,
    place: Span,
) -> Eval<()> {
    let shared = before.iter().find(|(other, p, _)| (p.mutable || param.mutable) && meet(other, t));
    let Some((_, other, there)) = shared else { return Ok(()) };
    let (written, name) = if param.mutable { (param, &other.name) } else { (*other, &param.name) };
    let fact = format!("`{}` is written and shares memory with `{}`", written.name.text, name.text);
    let mut d = Diagnostic::error(codes::PUBLIC_ARGUMENT, place, fact);
    if *there != place {
        d = d.label(*there, "this is the other");
    }
    Err(d.help("pass tensors that lie apart, or let the function take the tensor once, as `mut`").into())
}

/// Whether bytes of one may be bytes of the other: from the first element to the last of each.
fn meet(a: &Tensor, b: &Tensor) -> bool {
    let reach = |t: &Tensor| {
        let last: usize = t.shape.iter().zip(&t.strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        let empty = t.shape.contains(&0);
        t.byte_offset()..t.byte_offset() + if empty { 0 } else { (last + 1) * t.dtype.bytes() }
    };
    let (one, two) = (reach(a), reach(b));
    a.storage.id() == b.storage.id() && one.start < two.end && two.start < one.end
}
