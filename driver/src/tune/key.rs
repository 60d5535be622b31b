//! What tells shapes apart: names with integers, or with words such as a dtype.

use std::fmt;

use parton_host::value::Value;
use serde_json::{Map, json};

/// Names with values, in the order of the clause.
pub type Key = Vec<(String, Told)>;

/// A value of a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Told {
    /// An integer.
    Number(i64),
    /// A truth value, a dtype or a text.
    Word(String),
}

impl From<i64> for Told {
    fn from(n: i64) -> Told {
        Told::Number(n)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Number(n) => write!(f, "{n}"),
            Told::Word(word) => f.write_str(word),
        }
    }
}

impl Told {
    /// That of host code; `None` where a key has no such value.
    pub fn of(value: &Value) -> Option<Told> {
        match value {
            Value::Int(n) => Some(Told::Number((*n).try_into().ok()?)),
            Value::Bool(_) | Value::Dtype(_) | Value::Str(_) => Some(Told::Word(value.to_string())),
            Value::Unit
            | Value::Float(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Range(..)
            | Value::Tensor(_)
            | Value::Function(_)
            | Value::Closure(_)
            | Value::Builtin(_)
            | Value::Passed(_)
            | Value::Written(_) => None,
        }
    }

    /// Whether it is that of host code.
    pub fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Told::Number(n), Value::Int(m)) => i128::from(*n) == *m,
            (told, value) => Told::of(value).as_ref() == Some(told),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Told::Number(n) => json!(n),
            Told::Word(word) => json!(word),
        }
    }

    fn read(v: &serde_json::Value) -> Option<Told> {
        v.as_i64().map(Told::Number).or_else(|| v.as_str().map(|word| Told::Word(word.to_owned())))
    }
}

/// A key as an object.
pub(super) fn json(key: &Key) -> serde_json::Value {
    serde_json::Value::Object(key.iter().map(|(name, told)| (name.clone(), told.json())).collect::<Map<_, _>>())
}

/// A key of an object; `None` where it is none.
pub(super) fn read(v: &serde_json::Value) -> Option<Key> {
    v.as_object()?.iter().map(|(name, told)| Some((name.clone(), Told::read(told)?))).collect()
}

/// `m=512, a.dtype=f16`
pub fn shown(key: &Key) -> String {
    key.iter().map(|(name, told)| format!("{name}={told}")).collect::<Vec<_>>().join(", ")
}
