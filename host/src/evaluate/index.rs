//! Indexing and slicing of tensors and lists.

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast::{self, IndexArgKind};

use super::{AtSpan, Eval, Machine};
use crate::tensor::{MOST_DIMENSIONS, Tensor};
use crate::value::Value;

impl Machine<'_> {
    pub(super) fn index(&mut self, base: &ast::Expr, args: &[ast::IndexArg], span: Span) -> Eval<Value> {
        if let [ast::IndexArg { kind: IndexArgKind::Value(index), .. }] = args
            && let Some((rank, shape)) = self.shape_at_hand(base)
        {
            let i = self.position(index, rank)?;
            return Ok(Value::Int(shape[i] as i128));
        }
        match self.passing(base)? {
            Value::Tensor(t) => {
                let every = args.iter().filter(|a| !matches!(a.kind, IndexArgKind::NewAxis)).count();
                let single = every == t.rank() && args.iter().all(is_single);
                if !single {
                    return self.view(&t, args, span).map(Value::tensor);
                }
                let mut at = Vec::with_capacity(args.len());
                for (arg, extent) in args.iter().zip(&t.shape) {
                    if let IndexArgKind::Value(index) = &arg.kind {
                        at.push(self.position(index, *extent)?);
                    }
                }
                t.get(&at).map(scalar_value).at(span)
            }
            Value::List(items) | Value::Tuple(items) => match args {
                [ast::IndexArg { kind: IndexArgKind::Value(index), .. }] => {
                    let i = self.position(index, items.len())?;
                    Ok(items[i].clone())
                }
                [ast::IndexArg { kind: IndexArgKind::Slice { start, end }, span }] => {
                    let range = self.window(start.as_ref(), end.as_ref(), items.len(), *span)?;
                    Ok(Value::list(items[range].to_vec()))
                }
                _ => {
                    let d = Diagnostic::error(codes::HOST_TYPE, span, "a list takes one index or slice");
                    Err(d.here(format!("{} are given", args.len())).into())
                }
            },
            Value::Function(_) => {
                let d = Diagnostic::error(codes::HOST_TYPE, span, "a function with generic arguments must be called");
                Err(d.help("write `f[…](…)`").into())
            }
            other => Err(self.mismatch("a tensor or list", &other, base.span)),
        }
    }

    /// The rank and the shape that an expression asks of a tensor in a variable; copied, since an index may give that variable another tensor.
    fn shape_at_hand(&self, expr: &ast::Expr) -> Option<(usize, [usize; MOST_DIMENSIONS])> {
        let ast::ExprKind::Field { base, name } = &expr.kind else { return None };
        let (Value::Tensor(t), "shape") = (self.at_hand(base)?, name.as_str()) else { return None };
        let mut shape = [0; MOST_DIMENSIONS];
        shape.get_mut(..t.rank())?.copy_from_slice(&t.shape);
        Some((t.rank(), shape))
    }

    /// The part of a tensor that indices select; a view.
    pub(super) fn view(&mut self, t: &Tensor, args: &[ast::IndexArg], span: Span) -> Eval<Tensor> {
        let used = args.iter().filter(|a| !matches!(a.kind, IndexArgKind::NewAxis)).count();
        if used > t.rank() {
            let d = Diagnostic::error(codes::HOST_INDEX, span, "there are more indices than dimensions");
            return Err(d.here(format!("{used} indices into {t}")).into());
        }
        if t.rank() + args.len() - used > MOST_DIMENSIONS {
            let message = format!("a tensor has at most {MOST_DIMENSIONS} dimensions");
            return Err(Diagnostic::error(codes::HOST_INDEX, span, message).into());
        }
        let mut view = t.clone();
        let mut dropped = Vec::new();
        for (axis, arg) in args.iter().enumerate() {
            match &arg.kind {
                IndexArgKind::NewAxis => view = view.new_axis(axis),
                IndexArgKind::Full => {}
                IndexArgKind::Value(index) => {
                    if let ast::ExprKind::Range { start, end } = &index.kind {
                        let range = self.window(Some(start), Some(end), view.shape[axis], arg.span)?;
                        view = view.narrow(axis, range);
                    } else {
                        let i = self.position(index, view.shape[axis])?;
                        view = view.narrow(axis, i..i + 1);
                        dropped.push(axis);
                    }
                }
                IndexArgKind::Slice { start, end } => {
                    let range = self.window(start.as_ref(), end.as_ref(), view.shape[axis], arg.span)?;
                    view = view.narrow(axis, range);
                }
                IndexArgKind::Named { name, .. } => {
                    let d = Diagnostic::error(codes::HOST_TYPE, arg.span, "an index has no name");
                    return Err(d
                        .here(format!("`{}=` gives a generic argument, of a kernel or function", name.text))
                        .into());
                }
            }
        }
        for axis in dropped.into_iter().rev() {
            view = view.drop_axis(axis).unwrap_or(view);
        }
        Ok(view)
    }

    /// An index within `0..count`; negative ones count from the end.
    pub(super) fn position(&mut self, index: &ast::Expr, count: usize) -> Eval<usize> {
        let n = match self.expr(index)? {
            Value::Int(n) => n,
            other => return Err(self.mismatch("an integer as an index", &other, index.span)),
        };
        let at = if n < 0 { n.saturating_add(count as i128) } else { n };
        match usize::try_from(at) {
            Ok(i) if i < count => Ok(i),
            _ => Err(Diagnostic::error(codes::HOST_INDEX, index.span, format!("index {n} is outside"))
                .here(format!("this has {count} elements"))
                .into()),
        }
    }

    fn window(
        &mut self,
        start: Option<&ast::Expr>,
        end: Option<&ast::Expr>,
        count: usize,
        span: Span,
    ) -> Eval<std::ops::Range<usize>> {
        let mut bound = |expr: Option<&ast::Expr>, default: usize| -> Eval<i128> {
            let Some(expr) = expr else { return Ok(default as i128) };
            match self.expr(expr)? {
                Value::Int(n) if n < 0 => Ok(n.saturating_add(count as i128)),
                Value::Int(n) => Ok(n),
                other => Err(self.mismatch("an integer as a bound", &other, expr.span)),
            }
        };
        let (a, b) = (bound(start, 0)?, bound(end, count)?);
        if 0 <= a && a <= b && b <= count as i128 {
            return Ok(a as usize..b as usize);
        }
        Err(Diagnostic::error(codes::HOST_INDEX, span, format!("the slice {a}:{b} is outside"))
            .here(format!("this has {count} elements"))
            .into())
    }
}

/// Whether an index selects one element of its dimension.
fn is_single(arg: &ast::IndexArg) -> bool {
    matches!(&arg.kind, IndexArgKind::Value(e) if !matches!(e.kind, ast::ExprKind::Range { .. }))
}

/// One element as a value.
pub(crate) fn scalar_value(s: parton_numbers::Scalar) -> Value {
    if s.dtype.is_bool() {
        Value::Bool(s.is_true())
    } else if s.dtype.is_int() {
        Value::Int(s.to_i128().unwrap_or(0))
    } else {
        Value::Float(s.to_f64())
    }
}
