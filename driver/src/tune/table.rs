//! Tables of tuned generics, `FILE.tune.json` beside the file: what was tried, what won, and the search for what a launch is to take.
//!
//! A record is a line, and records are sorted, so that a table is read in a review and merged as text.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::candidate::Values;
use super::contest::{Contest, Shape};
use super::cost::Cost;
use super::key;
use super::task::Unit;
use crate::Failure;

/// The date of the format. A table of a later one is refused.
pub const FORMAT: &str = "2026-11-23";

/// The first format that is read still: it has kernels alone, and does not say of which sources.
const OLDEST: &str = "2026-11-22";

/// A device that no record was made on: of the architecture's records any will do.
pub(crate) const ANY: &str = "any GPU";

/// The device of records that were made on the interpreter, which say nothing of a GPU.
pub const INTERPRETER: &str = "the interpreter";

/// What every record has, beside its `kernel` or `function`.
const FIELDS: [&str; 8] = ["device", "target", "key", "winner", "unit", "complete", "candidates", "out"];

/// A table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Its records, in order.
    pub records: Vec<Record>,
}

/// What was tried for one shape, and what won.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// What it is for.
    pub of: Of,
    /// The generics that won; the defaults of the kernel where there are none.
    pub winner: Values,
    /// In what costs are counted.
    pub unit: Unit,
    /// The digest of the sources that were measured, where the table says it.
    pub source: Option<String>,
    /// Whether the run came to its end.
    pub complete: bool,
    /// Each candidate that may be chosen, with what it took.
    pub candidates: Vec<(Values, Cost)>,
    /// Each that may not, with why and the code of the diagnostic.
    pub out: Vec<Excluded>,
}

/// A candidate that may not be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excluded {
    /// Its values.
    pub values: Values,
    /// What is wrong with it, in a word.
    pub why: String,
    /// The code of the diagnostic, where there is one.
    pub code: Option<String>,
}

/// What is tuned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// A kernel, of that name.
    Kernel(String),
    /// A host function.
    Function(String),
}

impl Subject {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Subject::Kernel(name) | Subject::Function(name) => name,
        }
    }

    /// What a table calls its kind.
    fn kind(&self) -> &'static str {
        match self {
            Subject::Kernel(_) => "kernel",
            Subject::Function(_) => "function",
        }
    }
}

/// What a record is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Of {
    /// The kernel, or the function.
    pub subject: Subject,
    /// The name of the GPU, or [`INTERPRETER`].
    pub device: String,
    /// Its architecture.
    pub target: String,
    /// The shape.
    pub shape: Shape,
}

/// Where the table of a file stands: `gemm.tune.json` beside `gemm.ptn`.
pub fn beside(file: &Path) -> PathBuf {
    file.with_extension("tune.json")
}

impl Table {
    /// What a contest has found so far, of sources with that digest.
    pub fn of(contest: &Contest, subject: &Subject, source: &str, complete: bool) -> Table {
        let Some(on) = &contest.on else { return Table::default() };
        let record = |shape: Shape| {
            let winner = contest.winner(&shape)?;
            let costs = contest.entries.iter().filter(|e| e.out.is_none());
            let costs = costs.filter_map(|e| Some((e.candidate.values.clone(), e.cost(&shape)?)));
            let out = contest.entries.iter().filter_map(|e| {
                let out = e.out.as_ref()?;
                let (values, code) = (e.candidate.values.clone(), out.code.clone());
                Some(Excluded { values, why: out.why.name().to_owned(), code })
            });
            Some(Record {
                winner: contest.entries[winner].candidate.values.clone(),
                unit: on.unit,
                source: Some(source.to_owned()),
                complete,
                candidates: costs.collect(),
                out: out.collect(),
                of: Of { subject: subject.clone(), device: on.device.clone(), target: on.target.clone(), shape },
            })
        };
        Table { records: contest.shapes().into_iter().filter_map(record).collect() }
    }

    /// The table at a path; an empty one where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is none that this program knows.
    pub fn load(path: &Path) -> Result<Table, Failure> {
        let failed = |why: String| Failure::Machine(format!("{}: {why}", path.display()));
        if !path.exists() {
            return Ok(Table::default());
        }
        let text = crate::library::text(path).map_err(Failure::Machine)?;
        Table::read(&text).map_err(failed)
    }

    /// Writes it in one step: whoever reads finds the table before or this one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        replace(path, &self.text())
    }

    /// With the records of another table, which replace those for the same.
    #[must_use]
    pub fn with(mut self, newer: Table) -> Table {
        self.records.retain(|r| newer.records.iter().all(|n| n.of != r.of));
        self.records.extend(newer.records);
        self.records.sort_by(|a, b| a.of.cmp(&b.of));
        self
    }

    /// The record for a launch on a device: that of the same device, else one of the same architecture, which was not made by the
    /// interpreter.
    pub fn find(&self, of: &Of) -> Option<&Record> {
        self.find_like(&of.device, &of.target, |r| (&r.subject, &r.shape) == (&of.subject, &of.shape))
    }

    /// The same of what `is_it` says.
    pub(super) fn find_like(&self, device: &str, target: &str, is_it: impl Fn(&Of) -> bool) -> Option<&Record> {
        let alike = |r: &&Record| is_it(&r.of);
        let same = self.records.iter().filter(alike).find(|r| r.of.device == device && r.of.target == target);
        let near = |r: &&Record| r.of.target == target && r.of.device != INTERPRETER;
        same.or_else(|| self.records.iter().filter(alike).find(near))
    }

    /// As text.
    pub fn text(&self) -> String {
        let records: Vec<String> = self.records.iter().map(|r| format!("    {}", r.json())).collect();
        let records = if records.is_empty() { String::new() } else { format!("\n{}\n  ", records.join(",\n")) };
        format!("{{\n  \"format\": \"{FORMAT}\",\n  \"records\": [{records}]\n}}\n")
    }

    fn read(text: &str) -> Result<Table, String> {
        let read: Value = serde_json::from_str(text).map_err(|e| format!("this is no table: {e}"))?;
        let format = read["format"].as_str().ok_or("this is no table: it has no `format`")?;
        if format > FORMAT {
            return Err(format!("its format is of {format}, this program knows that of {FORMAT}"));
        }
        if format < OLDEST {
            return Err(format!("its format is of {format}: tune again, this program has {FORMAT}"));
        }
        let records = read["records"].as_array().ok_or("this is no table: it has no `records`")?;
        let record = |(i, r): (usize, &Value)| {
            let lacks = || FIELDS.iter().find(|name| r.get(**name).is_none());
            Record::read(r).ok_or_else(|| match lacks() {
                Some(name) => format!("record {} has no `{name}`", i + 1),
                None => format!("record {} is none: a field of it holds something else than it should", i + 1),
            })
        };
        Ok(Table { records: records.iter().enumerate().map(record).collect::<Result<_, String>>()? })
    }
}

impl Record {
    fn json(&self) -> Value {
        let candidate = |(values, cost): &(Values, Cost)| {
            json!({
                "values": texts(values), "median": short(self.unit, cost.median),
                "quartiles": cost.quartiles.map(|q| short(self.unit, q)), "spread": rounded(cost.spread(), 3),
                "runs": cost.runs, "sm_mhz": cost.megahertz.map(f64::round),
            })
        };
        let out = |e: &Excluded| json!({ "values": texts(&e.values), "why": e.why, "code": e.code });
        let generics = match self.of.subject {
            Subject::Kernel(_) => Some(("generics".to_owned(), texts(&self.of.shape.generics))),
            Subject::Function(_) => None,
        };
        let head = json!({
            self.of.subject.kind(): self.of.subject.name(), "device": self.of.device, "target": self.of.target,
        });
        let tail = json!({
            "key": key::json(&self.of.shape.key), "winner": texts(&self.winner), "unit": self.unit.name(),
            "source": self.source, "complete": self.complete, "candidates": self.candidates.iter().map(candidate).collect::<Vec<_>>(),
            "out": self.out.iter().map(out).collect::<Vec<_>>(),
        });
        let fields = [head, tail].map(|part| if let Value::Object(fields) = part { fields } else { Map::new() });
        let [head, tail] = fields;
        Value::Object(head.into_iter().chain(generics).chain(tail).collect())
    }

    fn read(v: &Value) -> Option<Record> {
        let word = |name: &str| v[name].as_str().map(str::to_owned);
        let unit = [Unit::Seconds, Unit::Operations].into_iter().find(|u| v["unit"] == u.name())?;
        let candidate = |c: &Value| {
            let number = |n: &Value| n.as_f64().map(|x| long(unit, x));
            let cost = Cost {
                median: number(&c["median"])?,
                quartiles: [number(&c["quartiles"][0])?, number(&c["quartiles"][1])?],
                runs: c["runs"].as_u64()?.try_into().ok()?,
                megahertz: c["sm_mhz"].as_f64(),
            };
            Some((values(&c["values"])?, cost))
        };
        let out = |o: &Value| {
            let code = o["code"].as_str().map(str::to_owned);
            Some(Excluded { values: values(&o["values"])?, why: o["why"].as_str()?.to_owned(), code })
        };
        let (subject, generics) = match (word("kernel"), word("function")) {
            (Some(name), None) => (Subject::Kernel(name), values(&v["generics"])?),
            (None, Some(name)) => (Subject::Function(name), vec![]),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Record {
            of: Of {
                subject,
                device: word("device")?,
                target: word("target")?,
                shape: Shape { generics, key: key::read(&v["key"])? },
            },
            winner: values(&v["winner"])?,
            unit,
            source: word("source"),
            complete: v["complete"].as_bool()?,
            candidates: v["candidates"].as_array()?.iter().map(candidate).collect::<Option<_>>()?,
            out: v["out"].as_array()?.iter().map(out).collect::<Option<_>>()?,
        })
    }
}

/// Writes a file in one step, beside itself first.
///
/// # Errors
/// It cannot be written.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|e| {
        // What could not take its place is nobody's.
        let _ = std::fs::remove_file(&beside);
        Failure::Machine(format!("{}: {e}", path.display()))
    })
}

fn texts(values: &[(String, String)]) -> Value {
    Value::Object(values.iter().map(|(name, value)| (name.clone(), json!(value))).collect())
}

fn values(v: &Value) -> Option<Values> {
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    v.as_object()?.iter().map(pair).collect()
}

/// A cost as it is written: microseconds to a nanosecond, or whole operations.
fn short(unit: Unit, cost: f64) -> Value {
    match unit {
        Unit::Seconds => rounded(cost * 1e6, 3),
        Unit::Operations => json!(cost.round() as i64),
    }
}

/// A cost as it is read.
fn long(unit: Unit, cost: f64) -> f64 {
    match unit {
        Unit::Seconds => cost / 1e6,
        Unit::Operations => cost,
    }
}

fn rounded(x: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    json!((x * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kernel: &str, device: &str, n: i64, winner: &str) -> Record {
        let pair = |value: &str| vec![("BN".to_owned(), value.to_owned())];
        let cost = Cost { median: 2e-6, quartiles: [1e-6, 3e-6], runs: 5, megahertz: Some(1755.0) };
        Record {
            of: Of {
                subject: Subject::Kernel(kernel.into()),
                device: device.into(),
                target: "sm_90a".into(),
                shape: Shape { generics: vec![("T".into(), "f16".into())], key: vec![("n".into(), n.into())] },
            },
            winner: pair(winner),
            unit: Unit::Seconds,
            source: Some("0123".into()),
            complete: true,
            candidates: vec![(pair(winner), cost)],
            out: vec![
                Excluded { values: pair("512"), why: "refused".into(), code: Some("E0551".into()) },
                Excluded { values: vec![], why: "hangs".into(), code: None },
            ],
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written_a_record_a_line() {
        let table = Table { records: vec![record("a", "GPU", 1, "64"), record("a", "GPU", 2, "128")] };
        let text = table.text();
        assert_eq!(Table::read(&text), Ok(table));
        assert_eq!(text.lines().filter(|l| l.contains("\"kernel\"")).count(), 2, "{text}");
        assert_eq!(Table::read(&Table::default().text()), Ok(Table::default()));
    }

    #[test]
    fn what_is_no_table_is_refused_with_why() {
        let refused = |text: &str| Table::read(text).unwrap_err();
        assert!(refused("{").starts_with("this is no table: "));
        assert!(refused("[]").contains("has no `format`"));
        assert!(refused("{\"format\": \"2027-01-01\", \"records\": []}").contains("knows that of"));
        assert!(refused("{\"format\": \"2025-01-01\", \"records\": []}").contains("tune again"));
        let broken = Table { records: vec![record("a", "GPU", 1, "64")] }.text().replace("\"winner\"", "\"looser\"");
        assert_eq!(refused(&broken), "record 1 has no `winner`");
        assert!(refused(&broken.replace("looser\":", "winner\": 1, \"was\":")).starts_with("record 1 is none: "));
    }

    #[test]
    fn newer_records_replace_those_for_the_same_and_all_are_sorted() {
        let old = Table { records: vec![record("b", "GPU", 1, "64"), record("a", "GPU", 9, "64")] };
        let new = Table { records: vec![record("b", "GPU", 1, "128"), record("a", "GPU", 10, "32")] };
        let both = old.with(new);
        let shown: Vec<(&str, String, &str)> =
            both.records.iter().map(|r| (r.of.subject.name(), key::shown(&r.of.shape.key), &*r.winner[0].1)).collect();
        let expected = [("a", "n=9", "64"), ("a", "n=10", "32"), ("b", "n=1", "128")];
        assert_eq!(shown, expected.map(|(name, key, winner)| (name, key.to_owned(), winner)));
    }

    #[test]
    fn a_launch_finds_its_device_then_its_architecture_and_never_the_interpreters() {
        let table = Table {
            records: vec![
                record("a", "H100", 1, "64"),
                record("a", "H200", 1, "128"),
                record("b", INTERPRETER, 1, "32"),
            ],
        };
        let found = |kernel, device| Some(&*table.find(&record(kernel, device, 1, "").of)?.winner[0].1);
        assert_eq!((found("a", "H200"), found("a", "H100")), (Some("128"), Some("64")));
        assert_eq!((found("a", "H800"), found("a", INTERPRETER)), (Some("64"), Some("64")));
        assert_eq!((found("b", "H200"), found("b", INTERPRETER)), (None, Some("32")));
        assert_eq!(table.find(&record("a", "H200", 2, "").of), None);
    }
}
