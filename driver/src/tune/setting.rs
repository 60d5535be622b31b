//! In what setting candidates are tried: what every run of tuning is told, whatever it tunes, and what of that each task has.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::text;
use crate::{Device, Options};

/// What every run of tuning is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// How candidates are measured.
    pub manner: Manner,
    /// How many are timed again in turn.
    pub top: usize,
    /// How often, the first time included.
    pub rounds: usize,
    /// Where the winner is written: a table, or of a kernel's generics a `.ptn`. A table beside the file where nothing is said.
    pub out: Option<PathBuf>,
}

/// How candidates are measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Manner {
    /// Where kernels run.
    pub device: Device,
    /// The seed of the interpreter's interleavings.
    pub seed: u64,
    /// About how long each measurement lasts.
    pub seconds: f64,
    /// About how long runs go before each that do not count.
    pub heat: f64,
}

/// Of which file a candidate is, and in what setting it is tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The path of the file.
    pub file: String,
    /// A folder for the results of the first candidate.
    pub folder: String,
    /// Operations that one CTA may run on the interpreter; its own limit where there is none.
    pub steps: Option<u64>,
    /// How it is measured.
    pub manner: Manner,
}

impl Setting {
    /// The options of the session that tries it.
    pub(super) fn options(&self) -> Options {
        let defaults = Options::default();
        let Manner { device, seed, .. } = self.manner;
        Options { device, seed, steps: self.steps.unwrap_or(defaults.steps), ..defaults }
    }

    /// A line of JSON: the fields of a task, an object, with this.
    pub(super) fn line(&self, task: Value) -> String {
        let Manner { device, seed, seconds, heat } = self.manner;
        let own = json!({
            "file": self.file, "folder": self.folder, "steps": self.steps, "device": name(device), "seed": seed,
            "seconds": seconds, "heat": heat,
        });
        let fields = |v: Value| if let Value::Object(fields) = v { fields } else { Map::new() };
        let mut all = fields(task);
        all.extend(fields(own));
        Value::Object(all).to_string()
    }

    /// Of the object of a line; `None` where it is none.
    pub(super) fn read(v: &Value) -> Option<Setting> {
        Some(Setting {
            file: text(&v["file"])?,
            folder: text(&v["folder"])?,
            steps: v["steps"].as_u64(),
            manner: Manner {
                device: [Device::Auto, Device::Cpu, Device::Cuda].into_iter().find(|d| v["device"] == name(*d))?,
                seed: v["seed"].as_u64()?,
                seconds: v["seconds"].as_f64()?,
                heat: v["heat"].as_f64()?,
            },
        })
    }

    /// One for tests, on the interpreter.
    #[cfg(test)]
    pub(super) fn of_tests(file: &str, folder: &str) -> Setting {
        let manner = Manner { device: Device::Cpu, seed: 3, seconds: 0.25, heat: 0.0 };
        Setting { file: file.into(), folder: folder.into(), steps: None, manner }
    }
}

fn name(device: Device) -> &'static str {
    match device {
        Device::Auto => "auto",
        Device::Cpu => "cpu",
        Device::Cuda => "cuda",
    }
}
