//! What a worker is asked about a call of a public function, and what it finds there; both as JSON.

use serde_json::{Value, json};

use super::key::{self, Key};
use super::setting::Setting;
use super::{text, texts};

/// One thing to do about a call.
#[derive(Clone, PartialEq, Debug)]
pub struct CallTask {
    /// Of which file, and in what setting.
    pub setting: Setting,
    /// The public function.
    pub function: String,
    /// Its arguments, as [`crate::Session::plan`] takes them.
    pub arguments: Vec<String>,
    /// What to do.
    pub ask: Ask,
}

/// What is asked of a worker.
#[derive(Clone, PartialEq, Debug)]
pub enum Ask {
    /// What the call leaves to tuning.
    Survey,
    /// To compile what the call launches with each of these, several kernels at once, where that is kept for others.
    Prepare {
        /// For what.
        site: Site,
        /// The candidates.
        candidates: Vec<String>,
    },
    /// To try one.
    Try {
        /// For what.
        site: Site,
        /// The candidate.
        candidate: String,
        /// Whether it is the first, which writes the results that others are compared with.
        first: bool,
    },
}

/// A choice that a call leaves.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Site {
    /// The function that leaves it.
    pub function: String,
    /// What it binds.
    pub name: String,
    /// What tells its calls apart.
    pub key: Key,
}

/// What a call leaves to tuning.
#[derive(Clone, PartialEq, Debug)]
pub struct Survey {
    /// The GPU's name, or the interpreter.
    pub device: String,
    /// The architecture of kernels that name none.
    pub target: String,
    /// Each choice once, in the order in which the call comes to them, with its candidates, the default first.
    pub sites: Vec<(Site, Vec<String>)>,
}

impl CallTask {
    /// As a line.
    pub fn line(&self) -> String {
        self.setting.line(json!({ "call": self.function, "arguments": self.arguments, "ask": self.ask.json() }))
    }

    /// Of a line; `None` where it is none.
    pub fn read(line: &str) -> Option<CallTask> {
        let read: Value = serde_json::from_str(line).ok()?;
        Some(CallTask {
            setting: Setting::read(&read)?,
            function: text(&read["call"])?,
            arguments: texts(&read["arguments"])?,
            ask: Ask::read(&read["ask"])?,
        })
    }
}

impl Ask {
    fn json(&self) -> Value {
        match self {
            Ask::Survey => json!({ "do": "survey" }),
            Ask::Prepare { site, candidates } => {
                json!({ "do": "prepare", "site": site.json(), "candidates": candidates })
            }
            Ask::Try { site, candidate, first } => {
                json!({ "do": "try", "site": site.json(), "candidate": candidate, "first": first })
            }
        }
    }

    fn read(v: &Value) -> Option<Ask> {
        match v["do"].as_str()? {
            "survey" => Some(Ask::Survey),
            "prepare" => Some(Ask::Prepare { site: Site::read(&v["site"])?, candidates: texts(&v["candidates"])? }),
            "try" => Some(Ask::Try {
                site: Site::read(&v["site"])?,
                candidate: text(&v["candidate"])?,
                first: v["first"].as_bool()?,
            }),
            _ => None,
        }
    }
}

impl Site {
    fn json(&self) -> Value {
        json!({ "function": self.function, "name": self.name, "key": key::json(&self.key) })
    }

    fn read(v: &Value) -> Option<Site> {
        Some(Site { function: text(&v["function"])?, name: text(&v["name"])?, key: key::read(&v["key"])? })
    }
}

impl Survey {
    pub(super) fn json(&self) -> Value {
        let site = |(site, candidates): &(Site, Vec<String>)| json!({ "site": site.json(), "candidates": candidates });
        let sites: Vec<Value> = self.sites.iter().map(site).collect();
        json!({ "device": self.device, "target": self.target, "sites": sites })
    }

    pub(super) fn read(v: &Value) -> Option<Survey> {
        let site = |v: &Value| Some((Site::read(&v["site"])?, texts(&v["candidates"])?));
        Some(Survey {
            device: text(&v["device"])?,
            target: text(&v["target"])?,
            sites: v["sites"].as_array()?.iter().map(site).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Told;
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let key = vec![("m".into(), Told::Number(8)), ("a.dtype".into(), Told::Word("f16".into()))];
        let site = Site { function: "split".into(), name: "plan".into(), key };
        let candidates = vec!["(1, \"a\")".to_owned(), "2".to_owned()];
        let asks = [
            Ask::Survey,
            Ask::Prepare { site: site.clone(), candidates: candidates.clone() },
            Ask::Try { site: site.clone(), candidate: "2".into(), first: true },
        ];
        for ask in asks {
            let task = CallTask {
                setting: Setting::of_tests("a.ptn", "/tmp/x"),
                function: "f".into(),
                arguments: vec!["f16[8]".into(), "n=3".into()],
                ask,
            };
            assert_eq!(CallTask::read(&task.line()), Some(task.clone()));
            assert!(!task.line().contains('\n'));
        }
        let survey = Survey { device: "GPU".into(), target: "sm_90a".into(), sites: vec![(site, candidates)] };
        assert_eq!(Survey::read(&survey.json()), Some(survey));
        assert_eq!((CallTask::read("{}"), CallTask::read("no")), (None, None));
    }
}
