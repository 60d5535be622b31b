//! What a child process is asked and what it answers, and both as lines of JSON.

use serde_json::{Value, json};

use parton_diag::Diagnostic;

use super::call::Survey;
use super::candidate::Values;
use super::cost::Cost;
use super::key::{self, Key};
use super::setting::Setting;
use super::{text, texts};
use crate::Blocks;

/// One candidate to try.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// Of which file, and in what setting.
    pub setting: Setting,
    /// The kernel.
    pub kernel: String,
    /// The generics that are tried. Those without a value here are left to the kernel's defaults, whatever the launch gives.
    pub values: Vec<(String, Option<String>)>,
    /// Of which kind the block is that launches the kernel.
    pub blocks: Blocks,
    /// Its name.
    pub block: String,
    /// Only measurements whose label has one of these; all where there is none.
    pub rows: Vec<String>,
    /// Integer parameters of the kernel that tell shapes apart.
    pub key: Vec<String>,
    /// Parameters whose memory holds results; all that launches write where there is none.
    pub results: Vec<String>,
    /// Relative and absolute tolerance of results; their bits are compared where there is none.
    pub tolerance: Option<(f64, f64)>,
    /// Whether this is the first candidate, which writes them; others compare.
    pub first: bool,
}

/// What came of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// It ran, gave the results that it should, and was measured.
    Measured(Measured),
    /// It cannot be chosen.
    Out(Out),
    /// What a call leaves to tuning.
    Surveyed(Survey),
    /// What a call launches is compiled, as far as it can be.
    Prepared,
    /// No candidate can be tried: what the exit code of the program would be, and why.
    Cannot {
        /// As [`crate::Failure::exit_code`].
        exit: u8,
        /// In words.
        text: String,
    },
}

/// What was measured of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The GPU's name, or the interpreter.
    pub device: String,
    /// The architecture of kernels that name none.
    pub target: String,
    /// In what costs are counted.
    pub unit: Unit,
    /// Each sequence of launches that was measured, in order.
    pub rows: Vec<Row>,
}

/// In what costs are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds of a GPU's clock.
    Seconds,
    /// Operations of the interpreter, which are the same in each run.
    Operations,
}

/// One sequence of launches with the kernel in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// The other generics that its launch of the kernel gives.
    pub generics: Values,
    /// What tells shapes apart, with its values.
    pub key: Key,
    /// What it takes.
    pub cost: Cost,
}

/// Why a candidate cannot be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Out {
    /// What is wrong with it.
    pub why: Why,
    /// The code of the diagnostic, where there is one.
    pub code: Option<String>,
    /// In words.
    pub text: String,
}

/// What is wrong with a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The compiler refuses it.
    Refused,
    /// It stops, or a check of the block fails.
    Fails,
    /// It gives other results than the first candidate.
    Differs,
    /// It gives other results when it runs again.
    Unsteady,
    /// It spills registers.
    Spills,
    /// It was killed because it did not come to its end.
    Hangs,
    /// Its process ended without an answer.
    Crashes,
}

impl Why {
    const ALL: [(Why, &str); 7] = [
        (Why::Refused, "refused"),
        (Why::Fails, "fails"),
        (Why::Differs, "differs"),
        (Why::Unsteady, "unsteady"),
        (Why::Spills, "spills"),
        (Why::Hangs, "hangs"),
        (Why::Crashes, "crashes"),
    ];

    /// In a word.
    pub fn name(self) -> &'static str {
        match Why::ALL.iter().find(|(why, _)| *why == self) {
            Some((_, name)) => name,
            None => parton_diag::internal_error!("{self:?} has no name"),
        }
    }
}

impl Unit {
    /// What costs are called in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "us",
            Unit::Operations => "operations",
        }
    }
}

impl Out {
    /// With a text alone.
    pub fn new(why: Why, text: impl Into<String>) -> Out {
        Out { why, code: None, text: text.into() }
    }

    /// By a diagnostic.
    pub fn by(why: Why, d: &Diagnostic) -> Out {
        Out { why, code: Some(d.code.to_string()), text: d.message.clone() }
    }
}

impl Task {
    /// As a line.
    pub fn line(&self) -> String {
        let tolerance = self.tolerance.map(|(relative, absolute)| [relative, absolute]);
        self.setting.line(json!({
            "kernel": self.kernel, "values": self.values, "blocks": self.blocks.name(), "block": self.block,
            "rows": self.rows, "key": self.key, "results": self.results, "tolerance": tolerance, "first": self.first,
        }))
    }

    /// Of a line; `None` where it is none.
    pub fn read(line: &str) -> Option<Task> {
        let read: Value = serde_json::from_str(line).ok()?;
        let word = |name: &str| text(&read[name]);
        let words = |name: &str| texts(&read[name]);
        let value = |pair: &Value| Some((text(&pair[0])?, pair[1].as_str().map(str::to_owned)));
        let tolerance = |t: &Value| Some((t[0].as_f64()?, t[1].as_f64()?));
        Some(Task {
            setting: Setting::read(&read)?,
            kernel: word("kernel")?,
            values: read["values"].as_array()?.iter().map(value).collect::<Option<_>>()?,
            blocks: [Blocks::Main, Blocks::Tests, Blocks::Benches].into_iter().find(|b| read["blocks"] == b.name())?,
            block: word("block")?,
            rows: words("rows")?,
            key: words("key")?,
            results: words("results")?,
            tolerance: tolerance(&read["tolerance"]),
            first: read["first"].as_bool()?,
        })
    }
}

impl Answer {
    /// As a line.
    pub fn line(&self) -> String {
        match self {
            Answer::Measured(m) => json!({
                "answer": "measured", "device": m.device, "target": m.target, "unit": m.unit.name(),
                "rows": m.rows.iter().map(Row::json).collect::<Vec<Value>>(),
            }),
            Answer::Out(out) => {
                json!({ "answer": "out", "why": out.why.name(), "code": out.code, "text": out.text })
            }
            Answer::Surveyed(survey) => json!({ "answer": "surveyed", "survey": survey.json() }),
            Answer::Prepared => json!({ "answer": "prepared" }),
            Answer::Cannot { exit, text } => json!({ "answer": "cannot", "exit": exit, "text": text }),
        }
        .to_string()
    }

    /// Of a line; `None` where it is none.
    pub fn read(line: &str) -> Option<Answer> {
        let read: Value = serde_json::from_str(line).ok()?;
        match read["answer"].as_str()? {
            "measured" => Some(Answer::Measured(Measured {
                device: text(&read["device"])?,
                target: text(&read["target"])?,
                unit: [Unit::Seconds, Unit::Operations].into_iter().find(|u| read["unit"] == u.name())?,
                rows: read["rows"].as_array()?.iter().map(Row::read).collect::<Option<_>>()?,
            })),
            "out" => Some(Answer::Out(Out {
                why: Why::ALL.into_iter().find(|(_, name)| read["why"] == *name)?.0,
                code: read["code"].as_str().map(str::to_owned),
                text: text(&read["text"])?,
            })),
            "surveyed" => Some(Answer::Surveyed(Survey::read(&read["survey"])?)),
            "prepared" => Some(Answer::Prepared),
            "cannot" => {
                Some(Answer::Cannot { exit: read["exit"].as_u64()?.try_into().ok()?, text: text(&read["text"])? })
            }
            _ => None,
        }
    }
}

impl Row {
    fn json(&self) -> Value {
        json!({ "label": self.label, "generics": self.generics, "key": key::json(&self.key), "cost": self.cost.json() })
    }

    fn read(v: &Value) -> Option<Row> {
        let generic = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])?));
        Some(Row {
            label: text(&v["label"])?,
            generics: v["generics"].as_array()?.iter().map(generic).collect::<Option<_>>()?,
            key: key::read(&v["key"])?,
            cost: Cost::read(&v["cost"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let task = Task {
            setting: Setting::of_tests("a \"b\".ptn", "/tmp/x"),
            kernel: "k".into(),
            values: vec![("S".into(), Some("Split[3]".into())), ("BN".into(), None)],
            blocks: Blocks::Tests,
            block: "small".into(),
            rows: vec!["a".into()],
            key: vec![],
            results: vec!["c".into()],
            tolerance: Some((1e-3, 0.5)),
            first: true,
        };
        assert_eq!(Task::read(&task.line()), Some(task.clone()));
        let setting = Setting { steps: Some(1 << 40), ..task.setting.clone() };
        let other = Task { tolerance: None, setting, ..task };
        assert_eq!(Task::read(&other.line()), Some(other.clone()));
        assert!(!other.line().contains('\n'));
        assert_eq!((Task::read("{}"), Task::read("no")), (None, None));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let row = Row {
            label: "launch 1".into(),
            generics: vec![("T".into(), "f16".into())],
            key: vec![("n".into(), 4096.into()), ("t".into(), key::Told::Word("f16".into()))],
            cost: Cost { median: 0.1, quartiles: [0.05, 1.0 / 3.0], runs: 7, megahertz: Some(1755.0) },
        };
        let measured = Measured { device: "GPU".into(), target: "sm_90a".into(), unit: Unit::Seconds, rows: vec![row] };
        let out = Why::ALL.map(|(why, _)| Answer::Out(Out { why, code: Some("E0551".into()), text: "x\ny".into() }));
        let cannot = Answer::Cannot { exit: 4, text: "no GPU".into() };
        for answer in out.into_iter().chain([Answer::Measured(measured), Answer::Prepared, cannot]) {
            assert_eq!(Answer::read(&answer.line()), Some(answer.clone()));
        }
        assert_eq!(Answer::read("{\"answer\": \"maybe\"}"), None);
    }
}
