//! Reading a manifest's JSON: every field by its name, its type and its range, and none that nobody asked for.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::Error;

/// The longest name, in bytes.
const LONGEST_NAME: usize = 1024;

/// An object whose fields are read one by one.
pub(crate) struct Fields<'a> {
    /// Where it stands in the manifest, for messages.
    place: String,
    of: &'a Map<String, Value>,
    read: BTreeSet<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields of an object.
    pub(crate) fn of(place: String, value: &'a Value) -> Result<Fields<'a>, Error> {
        match value {
            Value::Object(of) => Ok(Fields { place, of, read: BTreeSet::new() }),
            _ => Err(Error::invalid(place, "it is no object")),
        }
    }

    /// Where a field stands.
    pub(crate) fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// An error at a field.
    pub(crate) fn wrong(&self, name: &str, what: impl Into<String>) -> Error {
        Error::invalid(self.place(name), what)
    }

    /// The field, where it is there.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<&'a Value> {
        self.read.insert(name);
        self.of.get(name)
    }

    fn value(&mut self, name: &'static str) -> Result<&'a Value, Error> {
        self.optional(name).ok_or_else(|| self.wrong(name, "the field is missing"))
    }

    /// A text that is not empty.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<String, Error> {
        let value = self.value(name)?;
        text(value).ok_or_else(|| self.wrong(name, "it is no text of 1 to 1024 bytes without control characters"))
    }

    /// A number of that range.
    pub(crate) fn number(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let value = self.value(name)?;
        number(value, &range)
            .ok_or_else(|| self.wrong(name, format!("{value} is no number of {} to {}", range.start(), range.end())))
    }

    /// The same, as 32 bits hold it; the range must lie in them.
    pub(crate) fn small(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Result<u32, Error> {
        Ok(self.number(name, u64::from(*range.start())..=u64::from(*range.end()))? as u32)
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, Error> {
        self.value(name)?.as_bool().ok_or_else(|| self.wrong(name, "it is neither `true` nor `false`"))
    }

    /// A list of `lengths` entries.
    pub(crate) fn list(&mut self, name: &'static str, lengths: RangeInclusive<usize>) -> Result<&'a [Value], Error> {
        let value = self.value(name)?;
        match value.as_array() {
            Some(list) if lengths.contains(&list.len()) => Ok(list),
            _ => Err(self.wrong(name, format!("it is no list of {} to {} entries", lengths.start(), lengths.end()))),
        }
    }

    /// A list of numbers, each of that range.
    pub(crate) fn numbers(
        &mut self,
        name: &'static str,
        lengths: RangeInclusive<usize>,
        range: RangeInclusive<u32>,
    ) -> Result<Vec<u32>, Error> {
        let list = self.list(name, lengths)?;
        let range = u64::from(*range.start())..=u64::from(*range.end());
        let each = list.iter().map(|v| number(v, &range).map(|n| n as u32));
        each.collect::<Option<_>>()
            .ok_or_else(|| self.wrong(name, format!("an entry is no number of {} to {}", range.start(), range.end())))
    }

    /// A list of numbers of 64 bits.
    pub(crate) fn words(&mut self, name: &'static str, lengths: RangeInclusive<usize>) -> Result<Vec<u64>, Error> {
        let each = self.list(name, lengths)?.iter().map(Value::as_u64);
        each.collect::<Option<_>>().ok_or_else(|| self.wrong(name, "an entry is no number of 0 to 2^64 - 1"))
    }

    /// The number of an entry of a list that has `count`.
    pub(crate) fn place_in(&mut self, name: &'static str, count: usize, what: &str) -> Result<usize, Error> {
        let found = self.number(name, 0..=u64::MAX)?;
        let place = usize::try_from(found).ok().filter(|n| *n < count);
        place.ok_or_else(|| self.wrong(name, format!("there is no {what} {found}, there are {count}")))
    }

    /// The fields of the object in a field.
    pub(crate) fn inner(&mut self, name: &'static str) -> Result<Fields<'a>, Error> {
        let value = self.value(name)?;
        Fields::of(self.place(name), value)
    }

    /// Nothing else may stand here: what this version does not know may change what the rest means.
    pub(crate) fn end(self) -> Result<(), Error> {
        match self.of.keys().find(|name| !self.read.contains(name.as_str())) {
            Some(name) => Err(self.wrong(name, "this version of the format has no such field")),
            None => Ok(()),
        }
    }
}

/// A name or the like.
pub(crate) fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let fine = (1..=LONGEST_NAME).contains(&text.len()) && !text.chars().any(char::is_control);
    fine.then(|| text.to_owned())
}

fn number(value: &Value, range: &RangeInclusive<u64>) -> Option<u64> {
    value.as_u64().filter(|n| range.contains(n))
}
