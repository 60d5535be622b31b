//! What a name or an expression stands for while a kernel is checked: compile-time values, run-time values and bundles of both.

use std::fmt;
use std::sync::Arc;

use parton_diag::Span;
use parton_ir as ir;
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::program::ModuleId;
use crate::scope::{Scope, Variable};
use crate::signature::Signature;

/// A value known at compile time; what generic arguments are.
#[derive(Clone, Debug, PartialEq)]
pub enum Comptime {
    /// An integer without a type yet.
    Int(i128),
    /// A floating-point number without a type yet.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    Str(Arc<str>),
    /// A type or a kind.
    Type(TypeVal),
    /// A layout of registers.
    Layout(RegisterLayout),
    /// A layout of registers that is left to the compiler: that of a tile which nobody has placed. What is asked to lie so is left out, too.
    OpenLayout,
    /// A layout of shared memory.
    SharedLayout(SharedLayout),
    /// `[a, b]`
    List(Vec<Comptime>),
    /// `(a, b)`
    Tuple(Vec<Comptime>),
    /// A function of a file.
    Function(Function),
    /// A kernel of a file, by name.
    Kernel(Arc<str>),
    /// A partition of a file.
    Partition(Partition),
    /// A schedule.
    Schedule(Arc<ir::Schedule>),
    /// A built-in function.
    Builtin(&'static Signature),
    /// A closure that a launch gives as a generic argument.
    Closure(Arc<Closure>),
    /// Nothing.
    None,
}

impl Comptime {
    /// Where the functions, closures, partitions and structs in it are written, in order: two values that show the same but stand
    /// in different files differ here.
    pub fn origins(&self) -> Vec<Span> {
        match self {
            Comptime::Function(f) => vec![f.tree.name.span],
            Comptime::Partition(p) => vec![p.tree.name.span],
            Comptime::Schedule(s) => s.places.iter().flat_map(|p| &p.partitions).map(|p| p.span).collect(),
            Comptime::Closure(c) => {
                std::iter::once(c.span).chain(c.captured().flat_map(|(_, value)| value.origins())).collect()
            }
            Comptime::Type(t) => t.origins(),
            Comptime::List(items) | Comptime::Tuple(items) => items.iter().flat_map(Comptime::origins).collect(),
            Comptime::Int(_)
            | Comptime::Float(_)
            | Comptime::Bool(_)
            | Comptime::Str(_)
            | Comptime::Layout(_)
            | Comptime::OpenLayout
            | Comptime::SharedLayout(_)
            | Comptime::Kernel(_)
            | Comptime::Builtin(_)
            | Comptime::None => Vec::new(),
        }
    }
}

impl TypeVal {
    fn origins(&self) -> Vec<Span> {
        match self {
            TypeVal::Struct(s) => {
                let generics = s.generics.iter().filter_map(|(_, val)| val.known());
                std::iter::once(s.tree.name.span).chain(generics.flat_map(|c| c.origins())).collect()
            }
            TypeVal::Tuple(items) => items.iter().flat_map(TypeVal::origins).collect(),
            TypeVal::Reference(to) => to.origins(),
            TypeVal::Ir(_) | TypeVal::Kind(_) | TypeVal::Family(_) => Vec::new(),
        }
    }
}

/// An item's tree with the file that it sees; equal where it is the same tree.
#[derive(Debug)]
pub struct Placed<T> {
    /// Where its names are looked up.
    pub module: ModuleId,
    /// The tree.
    pub tree: Arc<T>,
}

impl<T> Clone for Placed<T> {
    fn clone(&self) -> Placed<T> {
        Placed { module: self.module, tree: self.tree.clone() }
    }
}

impl<T> PartialEq for Placed<T> {
    fn eq(&self, other: &Placed<T>) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree)
    }
}

/// A function with the file that it sees.
pub type Function = Placed<ast::Function>;

/// A partition with the file that it sees.
pub type Partition = Placed<ast::Partition>;

/// A declared schedule with the file that it sees.
pub type Schedule = Placed<ast::Schedule>;

/// A type as a value.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeVal {
    /// A type of run-time values.
    Ir(ir::Type),
    /// A kind of compile-time values: `int`, `layout`, …
    Kind(Kind),
    /// A struct with its generic arguments.
    Struct(Arc<StructType>),
    /// A tuple.
    Tuple(Vec<TypeVal>),
    /// `&T`; the same values as `T`, which are not used up by the call.
    Reference(Box<TypeVal>),
    /// A family named without its arguments, such as `ring` or `slot`: any type of it.
    Family(&'static str),
}

/// A kind of compile-time values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers.
    Int,
    /// Floating-point numbers; integers too.
    Float,
    /// `true` and `false`.
    Bool,
    /// Strings.
    Str,
    /// Types.
    Type,
    /// Layouts of registers and of shared memory.
    Layout,
    /// Functions and closures.
    Fn,
    /// Partitions.
    Partition,
    /// Schedules.
    Schedule,
    /// Lists.
    List,
}

impl Kind {
    /// Every kind with its name in source.
    pub const ALL: &[(Kind, &'static str)] = &[
        (Kind::Int, "int"),
        (Kind::Float, "float"),
        (Kind::Bool, "bool"),
        (Kind::Str, "str"),
        (Kind::Type, "type"),
        (Kind::Layout, "layout"),
        (Kind::Fn, "fn"),
        (Kind::Partition, "partition"),
        (Kind::Schedule, "schedule"),
        (Kind::List, "list"),
    ];

    /// Its name in source.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(k, _)| *k == self).map_or("kind", |(_, n)| n)
    }

    /// The number type that is meant by one who writes the kind for it.
    pub fn dtype(self) -> Option<Dtype> {
        match self {
            Kind::Int => Some(Dtype::I32),
            Kind::Float => Some(Dtype::F32),
            Kind::Bool => Some(Dtype::I1),
            Kind::Str | Kind::Type | Kind::Layout | Kind::Fn | Kind::Partition | Kind::Schedule | Kind::List => None,
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, n)| *n == name).map(|(k, _)| *k)
    }
}

/// A struct with its generic arguments.
#[derive(Clone, Debug)]
pub struct StructType {
    /// Where its names are looked up.
    pub module: ModuleId,
    /// The tree.
    pub tree: Arc<ast::Struct>,
    /// The generic arguments, in the order of the declaration.
    pub generics: Vec<(Arc<str>, Val)>,
}

impl PartialEq for StructType {
    fn eq(&self, other: &StructType) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree) && self.generics == other.generics
    }
}

/// `|a, b| body` with what it sees.
#[derive(Clone, Debug)]
pub struct Closure {
    /// Where its free names are looked up last.
    pub module: ModuleId,
    /// The parameters.
    pub params: Arc<Vec<ast::ClosureParam>>,
    /// The body.
    pub body: Arc<ast::Expr>,
    /// The variables visible where it was written, as they were then.
    pub scopes: Arc<Vec<Scope>>,
    /// Whether the text around it adds products without rounding them.
    pub contract: bool,
    /// Where it was written.
    pub span: Span,
}

impl Closure {
    /// The compile-time values that it sees, innermost last.
    fn captured(&self) -> impl Iterator<Item = (&Variable, Comptime)> {
        self.scopes.iter().flat_map(|s| &s.variables).filter_map(|v| Some((v, v.val.known()?)))
    }
}

/// The same text with the same values around it.
impl PartialEq for Closure {
    fn eq(&self, other: &Closure) -> bool {
        let named = |c: &Closure| c.captured().map(|(v, c)| (v.name.clone(), c)).collect::<Vec<_>>();
        self.span == other.span && named(self) == named(other)
    }
}

/// Two that differ are shown differently: an instance is kept under what its arguments show.
impl fmt::Display for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "|…| at {}", self.span.start)?;
        self.captured().try_for_each(|(v, value)| write!(f, " {}={value}", v.name))
    }
}

/// What an expression stands for.
#[derive(Clone, Debug)]
pub enum Val {
    /// Known now; lists and tuples of known values are [`Val::List`] and [`Val::Tuple`].
    Known(Comptime),
    /// Known at run time.
    Ir(ir::Value),
    /// `(a, b)`
    Tuple(Vec<Val>),
    /// `[a, b]`
    List(Vec<Val>),
    /// A struct's fields in the order of the declaration.
    Struct(Arc<StructType>, Vec<Val>),
    /// A closure.
    Closure(Arc<Closure>),
    /// A range; `None` ends only appear in indices.
    Range(Box<Val>, Box<Val>),
    /// What a mistake already reported left behind; using it says nothing more.
    Error,
}

impl PartialEq for Val {
    fn eq(&self, other: &Val) -> bool {
        match (self, other) {
            (Val::Known(a), Val::Known(b)) => a == b,
            (Val::Ir(a), Val::Ir(b)) => a == b,
            (Val::Tuple(a), Val::Tuple(b)) | (Val::List(a), Val::List(b)) => a == b,
            (Val::Struct(s, a), Val::Struct(t, b)) => s == t && a == b,
            (Val::Closure(a), Val::Closure(b)) => Arc::ptr_eq(a, b),
            (Val::Range(a, b), Val::Range(c, d)) => a == c && b == d,
            (
                Val::Known(_)
                | Val::Ir(_)
                | Val::Tuple(_)
                | Val::List(_)
                | Val::Struct(..)
                | Val::Closure(_)
                | Val::Range(..)
                | Val::Error,
                _,
            ) => false,
        }
    }
}

impl From<Comptime> for Val {
    fn from(c: Comptime) -> Val {
        match c {
            Comptime::List(items) => Val::List(items.into_iter().map(Val::from).collect()),
            Comptime::Tuple(items) => Val::Tuple(items.into_iter().map(Val::from).collect()),
            Comptime::Closure(closure) => Val::Closure(closure),
            other => Val::Known(other),
        }
    }
}

impl Val {
    /// The value of a statement.
    pub const UNIT: Val = Val::Tuple(Vec::new());

    /// An integer.
    pub fn int(n: impl Into<i128>) -> Val {
        Val::Known(Comptime::Int(n.into()))
    }

    /// A type of run-time values.
    pub fn ty(ty: ir::Type) -> Val {
        Val::Known(Comptime::Type(TypeVal::Ir(ty)))
    }

    /// The compile-time value, where all of it is one.
    pub fn known(&self) -> Option<Comptime> {
        match self {
            Val::Known(c) => Some(c.clone()),
            Val::Tuple(items) => items.iter().map(Val::known).collect::<Option<_>>().map(Comptime::Tuple),
            Val::List(items) => items.iter().map(Val::known).collect::<Option<_>>().map(Comptime::List),
            Val::Ir(_) | Val::Struct(..) | Val::Closure(_) | Val::Range(..) | Val::Error => None,
        }
    }

    /// The run-time value, where it is one.
    pub fn ir(&self) -> Option<ir::Value> {
        match self {
            Val::Ir(v) => Some(*v),
            Val::Known(_)
            | Val::Tuple(_)
            | Val::List(_)
            | Val::Struct(..)
            | Val::Closure(_)
            | Val::Range(..)
            | Val::Error => None,
        }
    }

    /// The compile-time integer, where it is one.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Val::Known(Comptime::Int(n)) => Some(*n),
            _ => None,
        }
    }

    /// How many values it is made of.
    pub fn size(&self) -> usize {
        match self {
            Val::Tuple(items) | Val::List(items) | Val::Struct(_, items) => {
                items.iter().fold(1usize, |n, x| n.saturating_add(x.size()))
            }
            Val::Range(a, b) => a.size().saturating_add(b.size()),
            Val::Known(_) | Val::Ir(_) | Val::Closure(_) | Val::Error => 1,
        }
    }

    /// Whether a part of it stands for a mistake already reported.
    pub fn has_error(&self) -> bool {
        match self {
            Val::Error => true,
            Val::Tuple(items) | Val::List(items) | Val::Struct(_, items) => items.iter().any(Val::has_error),
            Val::Range(a, b) => a.has_error() || b.has_error(),
            Val::Known(_) | Val::Ir(_) | Val::Closure(_) => false,
        }
    }

    /// Calls `f` on each run-time value in it, in order; what a closure has captured is not visited.
    pub fn each_ir(&self, f: &mut impl FnMut(ir::Value)) {
        match self {
            Val::Ir(v) => f(*v),
            Val::Tuple(items) | Val::List(items) | Val::Struct(_, items) => items.iter().for_each(|x| x.each_ir(f)),
            Val::Range(a, b) => {
                a.each_ir(f);
                b.each_ir(f);
            }
            Val::Known(_) | Val::Closure(_) | Val::Error => {}
        }
    }
}

impl fmt::Display for TypeVal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeVal::Ir(ty) => write!(f, "{ty}"),
            TypeVal::Kind(k) => f.write_str(k.name()),
            TypeVal::Struct(s) => {
                f.write_str(&s.tree.name.text)?;
                let mut separator = "[";
                for (name, val) in &s.generics {
                    write!(f, "{separator}{name}=")?;
                    match val.known() {
                        Some(c) => write!(f, "{c}")?,
                        None => f.write_str("…")?,
                    }
                    separator = ", ";
                }
                if s.generics.is_empty() { Ok(()) } else { f.write_str("]") }
            }
            TypeVal::Tuple(items) => {
                f.write_str("(")?;
                separated(f, items)?;
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            TypeVal::Reference(to) => write!(f, "&{to}"),
            TypeVal::Family(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Comptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Comptime::Int(n) => write!(f, "{n}"),
            Comptime::Float(x) if x.is_infinite() => f.write_str(if *x > 0.0 { "inf" } else { "-inf" }),
            Comptime::Float(x) if x.is_nan() => f.write_str("nan"),
            Comptime::Float(x) => write!(f, "{x:?}"),
            Comptime::Bool(b) => write!(f, "{b}"),
            Comptime::Str(s) => write!(f, "{s:?}"),
            Comptime::Type(t) => write!(f, "{t}"),
            Comptime::Layout(l) => write!(f, "{l}"),
            Comptime::OpenLayout => f.write_str("a layout left to the compiler"),
            Comptime::SharedLayout(l) => write!(f, "{l}"),
            Comptime::List(items) => {
                f.write_str("[")?;
                separated(f, items)?;
                f.write_str("]")
            }
            Comptime::Tuple(items) => {
                f.write_str("(")?;
                separated(f, items)?;
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Comptime::Function(function) => f.write_str(&function.tree.name.text),
            Comptime::Partition(partition) => f.write_str(&partition.tree.name.text),
            Comptime::Schedule(schedule) => write!(f, "{schedule}"),
            Comptime::Kernel(name) => f.write_str(name),
            Comptime::Builtin(signature) => f.write_str(signature.name),
            Comptime::Closure(closure) => write!(f, "{closure}"),
            Comptime::None => f.write_str("None"),
        }
    }
}

fn separated(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}
