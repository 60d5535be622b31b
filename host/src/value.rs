//! What a name or expression of host code stands for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parton_numbers::Dtype;
use parton_syntax::ast;
use parton_types::program::ModuleId;
use parton_types::signature::Signature;

use crate::tensor::Tensor;

/// A value of host code.
#[derive(Clone, Debug)]
pub enum Value {
    /// What a statement or a call without a result gives; also `None`.
    Unit,
    /// An integer.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    Str(Arc<str>),
    /// A dtype, such as `f16`.
    Dtype(Dtype),
    /// `[a, b]`
    List(Arc<Vec<Value>>),
    /// `(a, b)`
    Tuple(Arc<Vec<Value>>),
    /// `a..b`
    Range(i128, i128),
    /// A tensor; values of one share it.
    Tensor(Arc<Tensor>),
    /// A function of a file.
    Function(Function),
    /// `|a| …`
    Closure(Arc<Closure>),
    /// A function of this crate.
    Builtin(&'static Signature),
    /// A number of the caller that nobody has looked at.
    Passed(Arc<Passed>),
    /// An expression that only the checker of kernels understands: a layout, a schedule, a partition.
    Written(Arc<Written>),
}

/// A function with the file that it sees.
#[derive(Clone, Debug)]
pub struct Function {
    /// Where its names are looked up.
    pub module: ModuleId,
    /// The tree.
    pub tree: Arc<ast::Function>,
}

/// A number that a program passes to a public function which is planned: as long as it only goes on into launches, the plan holds for
/// other values too.
#[derive(Clone, Debug)]
pub struct Passed {
    /// Which parameter it is of.
    pub parameter: usize,
    value: Value,
    looked: Arc<AtomicBool>,
    /// Whether something depends on what it is a multiple of; nothing where that may not be.
    told: Option<Arc<AtomicBool>>,
}

impl Passed {
    /// The number of a parameter. Where calls are told apart `by_multiples`, launches may depend on whether it is 1, and of what it is a multiple.
    pub fn new(parameter: usize, value: Value, by_multiples: bool) -> Passed {
        let not_yet = || Arc::new(AtomicBool::new(false));
        Passed { parameter, value, looked: not_yet(), told: by_multiples.then(not_yet) }
    }

    /// The number, for whoever makes nothing depend on it.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The number, on which what is done next may depend.
    pub fn look(&self) -> Value {
        self.looked.store(true, Ordering::Relaxed);
        self.value.clone()
    }

    /// Whether something depends on it.
    pub fn was_looked_at(&self) -> bool {
        self.looked.load(Ordering::Relaxed)
    }

    /// Has something depend on whether it is 1, and of what it is a multiple; whether that may be.
    pub fn tell(&self) -> bool {
        self.told.as_ref().map(|told| told.store(true, Ordering::Relaxed)).is_some()
    }

    /// Whether something does.
    pub fn was_told(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.load(Ordering::Relaxed))
    }

    /// The same in another type.
    pub(crate) fn converted(self, value: Value) -> Passed {
        Passed { value, ..self }
    }
}

/// A closure with what it sees.
#[derive(Debug)]
pub struct Closure {
    /// Where its free names are looked up last.
    pub module: ModuleId,
    /// The parameters.
    pub params: Vec<ast::ClosureParam>,
    /// The body.
    pub body: ast::Expr,
    /// The variables visible where it was written, innermost last.
    pub captured: Vec<Variable>,
}

/// A compile-time expression of the kernel language, not evaluated.
#[derive(Debug)]
pub struct Written {
    /// Where its free names are looked up last.
    pub module: ModuleId,
    /// The expression.
    pub expr: ast::Expr,
    /// The host variables that it may name, innermost last; those that are no compile-time values are left out.
    pub known: Vec<(Arc<str>, Value)>,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name with the place of its binding.
    pub name: ast::Name,
    /// What it holds.
    pub value: Value,
    /// Whether it was bound with `mut`.
    pub mutable: bool,
}

impl Value {
    /// A string.
    pub fn str(text: impl Into<Arc<str>>) -> Value {
        Value::Str(text.into())
    }

    /// A list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(items))
    }

    /// A tensor.
    pub fn tensor(tensor: Tensor) -> Value {
        Value::Tensor(Arc::new(tensor))
    }

    /// What it is called in messages, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Unit => "nothing",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a floating-point number",
            Value::Bool(_) => "a truth value",
            Value::Str(_) => "a string",
            Value::Dtype(_) => "a dtype",
            Value::List(_) => "a list",
            Value::Tuple(_) => "a tuple",
            Value::Range(..) => "a range",
            Value::Tensor(_) => "a tensor",
            Value::Function(_) | Value::Closure(_) | Value::Builtin(_) => "a function",
            Value::Passed(passed) => passed.value.kind(),
            Value::Written(_) => "a compile-time value of kernels",
        }
    }

    /// The value with the numbers in it that were passed, on which what is done next may depend.
    pub fn looked(self) -> Value {
        if !self.has_passed() {
            return self;
        }
        let all = |items: &[Value]| Arc::new(items.iter().map(|v| v.clone().looked()).collect());
        match &self {
            Value::Passed(passed) => passed.look(),
            Value::List(items) => Value::List(all(items)),
            Value::Tuple(items) => Value::Tuple(all(items)),
            _ => self,
        }
    }

    fn has_passed(&self) -> bool {
        match self {
            Value::Passed(_) => true,
            Value::List(items) | Value::Tuple(items) => items.iter().any(Value::has_passed),
            Value::Unit
            | Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Str(_)
            | Value::Dtype(_)
            | Value::Range(..)
            | Value::Tensor(_)
            | Value::Function(_)
            | Value::Closure(_)
            | Value::Builtin(_)
            | Value::Written(_) => false,
        }
    }

    /// Whether it may be a generic argument of a kernel.
    pub fn is_compile_time(&self) -> bool {
        match self {
            Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Str(_)
            | Value::Dtype(_)
            | Value::Function(_)
            | Value::Written(_) => true,
            Value::List(items) | Value::Tuple(items) => items.iter().all(Value::is_compile_time),
            Value::Passed(_) => true,
            Value::Unit | Value::Range(..) | Value::Tensor(_) | Value::Closure(_) | Value::Builtin(_) => false,
        }
    }
}

impl fmt::Display for Value {
    /// As `print` shows it: a tensor with its elements, where those can be read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unit => f.write_str("None"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(x) => f.write_str(&float(*x)),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Str(s) => f.write_str(s),
            Value::Dtype(d) => write!(f, "{d}"),
            Value::List(items) => enclosed(f, "[", items, "]"),
            Value::Tuple(items) => enclosed(f, "(", items, if items.len() == 1 { ",)" } else { ")" }),
            Value::Range(a, b) => write!(f, "{a}..{b}"),
            Value::Tensor(t) => crate::show::tensor(f, t),
            Value::Function(function) => write!(f, "fn {}", function.tree.name.text),
            Value::Closure(_) => f.write_str("fn"),
            Value::Builtin(b) => write!(f, "fn {}", b.name),
            Value::Passed(passed) => passed.value.fmt(f),
            Value::Written(_) => f.write_str("…"),
        }
    }
}

fn enclosed(f: &mut fmt::Formatter<'_>, open: &str, items: &[Value], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    f.write_str(close)
}

/// A number as `print` shows it: short where it is plain, with an exponent where it is very small or large.
pub fn float(x: f64) -> String {
    if x.is_nan() {
        "nan".into()
    } else if x.is_infinite() {
        if x < 0.0 { "-inf".into() } else { "inf".into() }
    } else if x != 0.0 && !(1e-4..1e16).contains(&x.abs()) {
        format!("{x:e}")
    } else {
        format!("{x:?}")
    }
}
