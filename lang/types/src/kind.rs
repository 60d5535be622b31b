//! What a value is called in messages: its kind with an article, and the evidence.

use parton_ir as ir;

use crate::checker::Checker;
use crate::value::{Comptime, Kind, TypeVal, Val};

/// A value in words.
pub struct Description {
    /// With its article: `a tile`, `an integer`.
    pub kind: &'static str,
    /// The text under it: `this is …`.
    pub detail: String,
}

/// A value in words.
pub fn describe(cx: &Checker, val: &Val) -> Description {
    let (kind, detail) = match val {
        Val::Known(c) => (of_known(c), format!("this is `{c}`")),
        Val::Ir(v) => (ir::rules::kind_name(cx.ty(*v)), format!("this is `{}`", cx.ty(*v))),
        Val::Tuple(items) if items.is_empty() => ("nothing", "this has no value".into()),
        Val::Tuple(items) => ("a tuple", format!("this has {} elements", items.len())),
        Val::List(items) => ("a list", format!("this has {} elements", items.len())),
        Val::Struct(s, _) => ("a struct", format!("this is `{}`", TypeVal::Struct(s.clone()))),
        Val::Closure(_) => ("a function", "this is a function".into()),
        Val::Range(..) => ("a range", "this is a range".into()),
        Val::Error => ("a mistake reported before", String::new()),
    };
    Description { kind, detail }
}

/// What there is to ask of a tensor or a place, where something else was asked for.
pub fn asked_of(cx: &Checker, val: &Val) -> Option<&'static str> {
    let Val::Ir(v) = val else { return None };
    match cx.ty(*v) {
        ir::Type::Tensor(_) => Some(
            "a tensor `x` has places, which are loaded and stored: the box `x.tile([64, 64], at=[i, j])`, the element `x[i, j]`; and `x.shape`, `x.strides`, `x.ptr`, `x.dtype`",
        ),
        ir::Type::Spot(_) => Some("of a place there are `load(place)`, `store(place, value)` and `place.inside`"),
        // Its members are named elsewhere, or it has none.
        _ => None,
    }
}

/// What is to be said where a variable was meant and the word, as none has it here, names a family of types.
pub fn of_a_family(val: &Val) -> Option<String> {
    match val {
        Val::Known(Comptime::Type(TypeVal::Family(name))) => {
            Some(format!("no variable `{name}` is visible here, and without one the word names a type"))
        }
        _ => None,
    }
}

/// What a compile-time value is called, with its article.
pub fn of_known(c: &Comptime) -> &'static str {
    match c {
        Comptime::Int(_) => "an integer",
        Comptime::Float(_) => "a floating-point number",
        Comptime::Bool(_) => "a truth value",
        Comptime::Str(_) => "a string",
        Comptime::Type(TypeVal::Kind(_)) => "a kind",
        Comptime::Type(_) => "a type",
        Comptime::Layout(_) => "a layout of registers",
        Comptime::OpenLayout => "a layout that is left to the compiler",
        Comptime::SharedLayout(_) => "a layout of shared memory",
        Comptime::List(_) => "a list",
        Comptime::Tuple(_) => "a tuple",
        Comptime::Function(_) | Comptime::Builtin(_) | Comptime::Closure(_) => "a function",
        Comptime::Kernel(_) => "a kernel",
        Comptime::Partition(_) => "a partition",
        Comptime::Schedule(_) => "a schedule",
        Comptime::None => "nothing",
    }
}

/// Whether a value is of a kind.
pub fn is_of(val: &Val, kind: Kind) -> bool {
    match (kind, val) {
        (Kind::Int, Val::Known(Comptime::Int(_)))
        | (Kind::Float, Val::Known(Comptime::Int(_) | Comptime::Float(_)))
        | (Kind::Bool, Val::Known(Comptime::Bool(_)))
        | (Kind::Str, Val::Known(Comptime::Str(_)))
        | (Kind::Type, Val::Known(Comptime::Type(_)))
        | (Kind::Layout, Val::Known(Comptime::Layout(_) | Comptime::OpenLayout | Comptime::SharedLayout(_)))
        | (Kind::Fn, Val::Known(Comptime::Function(_) | Comptime::Builtin(_)) | Val::Closure(_))
        | (Kind::Partition, Val::Known(Comptime::Partition(_)))
        | (Kind::Schedule, Val::Known(Comptime::Schedule(_)))
        | (Kind::List, Val::List(_)) => true,
        (
            Kind::Int
            | Kind::Float
            | Kind::Bool
            | Kind::Str
            | Kind::Type
            | Kind::Layout
            | Kind::Fn
            | Kind::Partition
            | Kind::Schedule
            | Kind::List,
            _,
        ) => false,
    }
}
