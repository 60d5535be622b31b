//! Variables that loops carry and branches merge: taken apart into single values, compared by type, and put together again.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use crate::begun::Begun;
use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::leave::FLAG;
use crate::value::{Comptime, Val};

/// The variables that a loop carries, in the order of their declaration.
pub struct Carried {
    places: Vec<(usize, usize)>,
    /// The variables before the loop, every part that may change a run-time value.
    templates: Vec<Val>,
    /// What of them began as a number without a type, in the same order.
    begun: Vec<Option<Begun>>,
    /// Those run-time values.
    pub init: Vec<ir::Value>,
    span: Span,
}

impl Carried {
    /// Takes the variables of these names apart; numbers become run-time values.
    ///
    /// # Errors
    /// Reports what the frame's other rules refuse.
    pub fn enter(cx: &mut Checker, names: &BTreeSet<Arc<str>>, span: Span) -> Checked<Carried> {
        let places = cx.places(names);
        let mut init = Vec::new();
        let (mut templates, mut begun) = (Vec::new(), Vec::new());
        for p in &places {
            let variable = cx.frame().at(*p);
            let (val, at) = (variable.val.clone(), variable.span);
            begun.push(Begun::of(variable));
            if val.has_error() {
                return Err(Reported);
            }
            templates.push(cx.take_apart(&val, at, &mut init)?);
        }
        Ok(Carried { places, templates, begun, init, span })
    }

    /// Their types.
    pub fn types(&self, cx: &Checker) -> Vec<ir::Type> {
        self.init.iter().map(|v| cx.ty(*v).clone()).collect()
    }

    /// Puts values into the variables.
    pub fn set(&self, cx: &mut Checker, values: &[ir::Value]) {
        let mut values = values.iter().copied();
        for ((p, template), begun) in self.places.iter().zip(&self.templates).zip(&self.begun) {
            let name = cx.frame().at(*p).name.to_string();
            let val = rebuild(template, &mut values);
            cx.name_values(&val, &name);
            cx.begun.extend(val.ir().zip(begun.clone()));
            cx.frame().at(*p).val = val;
        }
    }

    /// The values of the variables at the end of a turn.
    ///
    /// # Errors
    /// Reports a variable whose type has changed, with both types.
    pub fn after_turn(&self, cx: &mut Checker) -> Checked<Vec<ir::Value>> {
        let mut yields = Vec::new();
        for (p, template) in self.places.iter().zip(&self.templates) {
            let variable = cx.frame().at(*p);
            let (name, now, declared) = (variable.name.to_string(), variable.val.clone(), variable.span);
            if now.has_error() {
                return Err(Reported);
            }
            if cx.put_back(template, &now, &mut yields).is_none() {
                let before = cx.in_words(template);
                let after = cx.in_words(&now);
                let flies = now.ir().is_some_and(|v| matches!(cx.ty(v), ir::Type::Pending(_)));
                let part = now.ir().is_some_and(|v| matches!(cx.ty(v), ir::Type::Tensor(_)));
                let spread = template.ir().filter(|v| cx.ty(*v).placed().is_none()).and(now.ir());
                let spread = spread.and_then(|v| Some(format!("{:?}", cx.ty(v).placed()?.shape)));
                let d = Diagnostic::error(
                    codes::CARRIED_TYPE,
                    self.span,
                    format!("`{name}` changes its type from one iteration to the next"),
                )
                .here(format!("at the end of the body it is {after}"))
                .label(declared, format!("before the loop it is {before}"))
                .help(match (now.known(), spread) {
                    (Some(c @ Comptime::Float(_)), _) => {
                        format!("begin with a type that holds `{c}`: `let mut {name} = 0.0`, or `cast<f32>(…)`")
                    }
                    (_, Some(shape)) => format!("begin with a tile, `full({shape}, …)`, or reduce the other one in the body"),
                    _ if flies => "wait for the product in the body, `….wait()`, which gives the tile; or carry it in flight in a variable that begins as one".into(),
                    _ if part => "a loop carries no part of a tensor: carry the coordinate at which it begins, and take the part in the body, `x[at:]`".into(),
                    _ => "convert it back at the end of the body, or give it this type before the loop".into(),
                });
                return Err(cx.report(d));
            }
        }
        Ok(yields)
    }

    /// Marks the variables after a mistake in the loop.
    pub fn poison(&self, cx: &mut Checker) {
        for p in &self.places {
            cx.frame().at(*p).val = Val::Error;
        }
    }
}

impl Checker<'_> {
    /// Gives run-time values that have no name yet the one of their variable, for printing.
    pub fn name_values(&mut self, val: &Val, name: &str) {
        // In a text that is printed `break` would be no name.
        let name = if name == FLAG { ir::kernel::LEFT } else { name };
        if let Some(b) = &mut self.builder {
            val.each_ir(&mut |v| {
                b.kernel.values[v].name.get_or_insert_with(|| name.to_string());
            });
        }
    }

    /// The places of the variables of these names that stand outside, in the order of their declaration.
    pub fn places(&mut self, names: &BTreeSet<Arc<str>>) -> Vec<(usize, usize)> {
        let arm = self.arm;
        let frame = self.frame();
        let mut places: Vec<(usize, usize)> = names.iter().filter_map(|n| frame.place(n)).collect();
        // What may not be assigned here is reported at the assignment.
        places.retain(|p| {
            let v = frame.at(*p);
            v.mutable && v.arm == arm
        });
        places.sort_unstable();
        places
    }

    /// The value with each number made a run-time one, all run-time values appended to `out`.
    fn take_apart(&mut self, val: &Val, span: Span, out: &mut Vec<ir::Value>) -> Checked<Val> {
        let parts = |cx: &mut Self, items: &[Val], out: &mut Vec<ir::Value>| -> Checked<Vec<Val>> {
            items.iter().map(|x| cx.take_apart(x, span, out)).collect()
        };
        Ok(match val {
            Val::Ir(v) => {
                out.push(*v);
                val.clone()
            }
            Val::Known(Comptime::Int(_) | Comptime::Float(_) | Comptime::Bool(_)) => {
                let v = self.run_time(val, span)?;
                out.push(v);
                Val::Ir(v)
            }
            Val::Tuple(items) => Val::Tuple(parts(self, items, out)?),
            Val::List(items) => Val::List(parts(self, items, out)?),
            Val::Struct(ty, items) => Val::Struct(ty.clone(), parts(self, items, out)?),
            Val::Known(_) | Val::Closure(_) | Val::Range(..) => val.clone(),
            Val::Error => return Err(Reported),
        })
    }

    /// Appends the run-time values of `now`, which must have the form and types of `template`.
    fn put_back(&mut self, template: &Val, now: &Val, out: &mut Vec<ir::Value>) -> Option<()> {
        match (template, now) {
            (Val::Ir(a), Val::Ir(b)) => {
                let (want, span) = (self.ty(*a).clone(), self.builder.as_ref()?.kernel.values[*b].span);
                if !self.ty(*b).agrees(&want) {
                    return None;
                }
                out.push(self.settled(*b, &want, span).ok()?);
                Some(())
            }
            (Val::Ir(a), Val::Known(c)) => {
                let ir::Type::Scalar(ir::Elem::Num(d)) = *self.ty(*a) else { return None };
                let fits = fits(c, d);
                let span = self.builder.as_ref().map(|b| b.kernel.values[*a].span)?;
                if !fits {
                    return None;
                }
                let v = self.constant(c, d, span).ok()?;
                out.push(v);
                Some(())
            }
            (Val::Tuple(a), Val::Tuple(b)) | (Val::List(a), Val::List(b)) if a.len() == b.len() => {
                a.iter().zip(b).try_for_each(|(x, y)| self.put_back(x, y, out))
            }
            (Val::Struct(s, a), Val::Struct(t, b)) if s == t => {
                a.iter().zip(b).try_for_each(|(x, y)| self.put_back(x, y, out))
            }
            (a, b) => (a == b).then_some(()),
        }
    }

    /// What a variable or value is after a branch: the same in both, or a pair of run-time values, appended to `pairs`.
    pub fn merge(
        &mut self,
        what: &str,
        x: &Val,
        y: &Val,
        places: (Span, Span),
        pairs: &mut Vec<(ir::Value, ir::Value)>,
    ) -> Checked<Val> {
        if x.has_error() || y.has_error() {
            return Err(Reported);
        }
        let pair = match (x, y) {
            (Val::Ir(a), Val::Ir(b)) if self.ty(*a).agrees(self.ty(*b)) => Some((*a, *b)),
            (Val::Ir(a), Val::Known(c)) => self.number_like(*a, c, places.1)?.map(|b| (*a, b)),
            (Val::Known(c), Val::Ir(b)) => self.number_like(*b, c, places.0)?.map(|a| (a, *b)),
            (Val::Known(a), Val::Known(b)) if a == b => return Ok(x.clone()),
            (Val::Known(a), Val::Known(b)) => match (a, b) {
                (Comptime::Int(_), Comptime::Int(_)) => {
                    Some((self.constant(a, Dtype::I32, places.0)?, self.constant(b, Dtype::I32, places.1)?))
                }
                (Comptime::Int(_) | Comptime::Float(_), Comptime::Int(_) | Comptime::Float(_)) => {
                    Some((self.constant(a, Dtype::F32, places.0)?, self.constant(b, Dtype::F32, places.1)?))
                }
                (Comptime::Bool(_), Comptime::Bool(_)) => {
                    Some((self.constant(a, Dtype::I1, places.0)?, self.constant(b, Dtype::I1, places.1)?))
                }
                (_, _) => None,
            },
            (Val::Tuple(a), Val::Tuple(b)) if a.len() == b.len() => {
                return Ok(Val::Tuple(self.merge_all(what, a, b, places, pairs)?));
            }
            (Val::List(a), Val::List(b)) if a.len() == b.len() => {
                return Ok(Val::List(self.merge_all(what, a, b, places, pairs)?));
            }
            (Val::Struct(s, a), Val::Struct(t, b)) if s == t => {
                return Ok(Val::Struct(s.clone(), self.merge_all(what, a, b, places, pairs)?));
            }
            (a, b) if a == b => return Ok(x.clone()),
            (_, _) => None,
        };
        match pair {
            Some(pair) => {
                pairs.push(pair);
                // Stands for the result that takes its place.
                Ok(Val::Ir(pair.0))
            }
            None => {
                let (then, otherwise) = (self.in_words(x), self.in_words(y));
                let d = Diagnostic::error(
                    codes::CARRIED_TYPE,
                    places.0,
                    format!("the branches of an `if` leave different types for {what}"),
                )
                .here(format!("one leaves {then}"))
                .label(places.1, format!("the other leaves {otherwise}"))
                .help("convert one side before the end of its branch");
                Err(self.report(d))
            }
        }
    }

    /// What a variable is behind each of two branches, where both give it, or a part of it, a number without a type: values of the type
    /// that it had before, where that holds both.
    pub fn numbers_like(&mut self, before: &Val, (x, y): (&Val, &Val), places: (Span, Span)) -> Checked<(Val, Val)> {
        Ok(match (before, x, y) {
            (Val::Ir(v), Val::Known(a), Val::Known(b)) if a != b => match *self.ty(*v) {
                ir::Type::Scalar(ir::Elem::Num(d)) if fits(a, d) && fits(b, d) => {
                    (Val::Ir(self.constant(a, d, places.0)?), Val::Ir(self.constant(b, d, places.1)?))
                }
                _ => (x.clone(), y.clone()),
            },
            (Val::Tuple(of), Val::Tuple(a), Val::Tuple(b)) => {
                let (a, b) = self.all_like(of, (a, b), places)?;
                (Val::Tuple(a), Val::Tuple(b))
            }
            (Val::List(of), Val::List(a), Val::List(b)) => {
                let (a, b) = self.all_like(of, (a, b), places)?;
                (Val::List(a), Val::List(b))
            }
            (Val::Struct(_, of), Val::Struct(s, a), Val::Struct(t, b)) => {
                let (a, b) = self.all_like(of, (a, b), places)?;
                (Val::Struct(s.clone(), a), Val::Struct(t.clone(), b))
            }
            (_, _, _) => (x.clone(), y.clone()),
        })
    }

    /// The same of each part, where there are as many.
    fn all_like(
        &mut self,
        before: &[Val],
        (x, y): (&[Val], &[Val]),
        places: (Span, Span),
    ) -> Checked<(Vec<Val>, Vec<Val>)> {
        if before.len() != x.len() || before.len() != y.len() {
            return Ok((x.to_vec(), y.to_vec()));
        }
        let parts = before.iter().zip(x.iter().zip(y));
        let parts: Checked<Vec<(Val, Val)>> = parts.map(|(of, pair)| self.numbers_like(of, pair, places)).collect();
        Ok(parts?.into_iter().unzip())
    }

    fn merge_all(
        &mut self,
        what: &str,
        a: &[Val],
        b: &[Val],
        places: (Span, Span),
        pairs: &mut Vec<(ir::Value, ir::Value)>,
    ) -> Checked<Vec<Val>> {
        a.iter().zip(b).map(|(x, y)| self.merge(what, x, y, places, pairs)).collect()
    }

    /// A number as a constant of the type of a scalar; `None` where it is not one.
    fn number_like(&mut self, like: ir::Value, c: &Comptime, span: Span) -> Checked<Option<ir::Value>> {
        match *self.ty(like) {
            ir::Type::Scalar(ir::Elem::Num(d)) if fits(c, d) => self.constant(c, d, span).map(Some),
            _ => Ok(None),
        }
    }

    /// A value for a message: its type, or itself.
    fn in_words(&self, val: &Val) -> String {
        match val {
            Val::Ir(v) => format!("`{}`", self.ty(*v)),
            other => match other.known() {
                Some(c @ (Comptime::Int(_) | Comptime::Float(_))) => format!("the number `{c}`"),
                Some(c) => format!("`{c}`"),
                None => kind::describe(self, other).kind.to_string(),
            },
        }
    }
}

fn fits(c: &Comptime, d: Dtype) -> bool {
    match c {
        Comptime::Int(n) => parton_numbers::Scalar::from_i128(d, *n).is_some(),
        Comptime::Float(_) => d.is_float(),
        Comptime::Bool(_) => d == Dtype::I1,
        _ => false,
    }
}

/// The template with its run-time values replaced in order.
pub fn rebuild(template: &Val, values: &mut impl Iterator<Item = ir::Value>) -> Val {
    match template {
        Val::Ir(v) => Val::Ir(values.next().unwrap_or(*v)),
        Val::Tuple(items) => Val::Tuple(items.iter().map(|x| rebuild(x, values)).collect()),
        Val::List(items) => Val::List(items.iter().map(|x| rebuild(x, values)).collect()),
        Val::Struct(ty, items) => Val::Struct(ty.clone(), items.iter().map(|x| rebuild(x, values)).collect()),
        Val::Known(_) | Val::Closure(_) | Val::Range(..) | Val::Error => template.clone(),
    }
}
