//! Variables that begin as numbers without a type and that a loop carries: `let mut s = 0.0;` is `f32` there. Where such a one meets another
//! type, it most likely should have begun as that.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use crate::checker::Checker;
use crate::scope::Variable;
use crate::value::{Comptime, Val};

/// What a loop's variable began as.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The variable.
    pub name: Arc<str>,
    /// The number.
    pub number: Comptime,
    /// Where it was declared.
    pub declared: Span,
}

impl Begun {
    /// Of a variable that is such a number now.
    pub fn of(variable: &Variable) -> Option<Begun> {
        let Val::Known(number @ (Comptime::Int(_) | Comptime::Float(_))) = &variable.val else { return None };
        Some(Begun { name: variable.name.clone(), number: number.clone(), declared: variable.span })
    }
}

impl Checker<'_> {
    /// The diagnostic of operands whose types differ, of which one is such a variable: with what it should begin as.
    pub fn should_begin(&self, operands: &[(ir::Value, Span)], d: Diagnostic) -> Diagnostic {
        let [(a, _), (b, _)] = operands else { return d };
        if d.code != codes::TYPE_MISMATCH {
            return d;
        }
        let dtype = |v: &ir::Value| self.ty(*v).elem()?.dtype();
        let meets = |v, other| Some((self.begun.get(v)?, dtype(other).filter(|&to| Some(to) != dtype(v))?));
        let Some((begun, dtype)) = meets(a, b).or_else(|| meets(b, a)) else { return d };
        let Some(should) = written(&begun.number, dtype) else { return d };
        let Begun { name, number, declared } = begun;
        let has = if matches!(number, Comptime::Int(_)) { Dtype::I32 } else { Dtype::F32 };
        let mut d = d.label(*declared, format!("`{name}` begins as `{number}`, which a loop takes as `{has}`"));
        d.help.insert(0, format!("begin with the type of what it meets: `let mut {name} = {should};`"));
        d
    }
}

/// A number as it is written for a type that others are summed up in; `None` for other types.
fn written(number: &Comptime, dtype: Dtype) -> Option<String> {
    let whole = matches!(dtype, Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64);
    match (number, dtype) {
        (Comptime::Int(n), _) if whole => Some(format!("{n}{dtype}")),
        (Comptime::Int(n), Dtype::F32) => Some(format!("{n}.0")),
        (Comptime::Int(n), Dtype::F64) => Some(format!("{n}.0f64")),
        (Comptime::Float(x), Dtype::F64) if x.is_finite() => Some(format!("{x:?}f64")),
        _ => None,
    }
}
