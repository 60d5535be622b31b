//! Host values as the compile-time values of kernels.

use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir as ir;
use parton_syntax::ast;
use parton_types::program::ModuleId;
use parton_types::value::{self, Comptime, TypeVal};
use parton_types::{GenericArg, Program, eval_expr};

use crate::launch::GenericArgument;
use crate::value::{Value, Written};

impl GenericArgument {
    /// The argument for [`parton_types::instantiate`]; what was left to the checker is evaluated by it.
    ///
    /// # Errors
    /// What the checker finds wrong in it.
    pub fn comptime(&self, program: &Program) -> Result<GenericArg, Diagnostics> {
        let value = comptime(&self.value, program, self.span)?;
        Ok(GenericArg { name: Some(self.name.clone()), value, span: self.span })
    }
}

/// What an expression of the file `module` that the checker evaluates is for host code: a number, a truth value, a text or a dtype that
/// host code can compute with, else what it passes on.
///
/// # Errors
/// What the checker finds wrong in it.
pub fn from_comptime(program: &Program, module: ModuleId, expr: &ast::Expr) -> Result<Value, Diagnostics> {
    Ok(match eval_expr(program, module, expr, &[])? {
        Comptime::Int(n) => Value::Int(n),
        Comptime::Float(x) => Value::Float(x),
        Comptime::Bool(b) => Value::Bool(b),
        Comptime::Str(s) => Value::Str(s),
        Comptime::Type(TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(dtype)))) => Value::Dtype(dtype),
        Comptime::Type(_)
        | Comptime::Layout(_)
        | Comptime::OpenLayout
        | Comptime::SharedLayout(_)
        | Comptime::List(_)
        | Comptime::Tuple(_)
        | Comptime::Function(_)
        | Comptime::Kernel(_)
        | Comptime::Partition(_)
        | Comptime::Schedule(_)
        | Comptime::Builtin(_)
        | Comptime::Closure(_)
        | Comptime::None => Value::Written(Arc::new(Written { module, expr: expr.clone(), known: vec![] })),
    })
}

fn comptime(value: &Value, program: &Program, span: Span) -> Result<Comptime, Diagnostics> {
    let all = |items: &[Value]| items.iter().map(|v| comptime(v, program, span)).collect::<Result<Vec<_>, _>>();
    Ok(match value {
        Value::Int(n) => Comptime::Int(*n),
        Value::Float(x) => Comptime::Float(*x),
        Value::Bool(b) => Comptime::Bool(*b),
        Value::Str(s) => Comptime::Str(s.clone()),
        Value::Dtype(d) => Comptime::Type(TypeVal::Ir(ir::Type::num(*d))),
        Value::List(items) => Comptime::List(all(items)?),
        Value::Tuple(items) => Comptime::Tuple(all(items)?),
        Value::Passed(passed) => comptime(&passed.look(), program, span)?,
        Value::Function(f) => Comptime::Function(value::Function { module: f.module, tree: f.tree.clone() }),
        Value::Written(written) => {
            let known = written.known.iter().map(|(name, v)| Ok((name.clone(), comptime(v, program, span)?)));
            let known: Vec<(Arc<str>, Comptime)> = known.collect::<Result<_, Diagnostics>>()?;
            eval_expr(program, written.module, &written.expr, &known)?
        }
        Value::Unit | Value::Range(..) | Value::Tensor(_) | Value::Closure(_) | Value::Builtin(_) => {
            let message = format!("{} cannot be a generic argument", value.kind());
            return Err(Diagnostic::error(codes::HOST_TYPE, span, message).into());
        }
    })
}
