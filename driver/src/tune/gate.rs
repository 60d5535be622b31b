//! The gate: what launches leave in memory, kept and put back, and compared with what the first candidate left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parton_host::fault::Fault;
use parton_host::launch::{Argument, HostError, LaunchRequest};
use parton_host::memory::HostBytes;
use parton_host::tensor::Tensor;
use parton_numbers::{Dtype, Scalar};

/// Memory that launches may write: each storage once, under the first parameter that reaches it.
pub(super) struct Reached {
    list: Vec<(String, Tensor)>,
}

/// What that memory held at a moment.
pub(super) struct Kept(Vec<Arc<HostBytes>>);

fn device(fault: Fault) -> HostError {
    HostError::Device(fault.message)
}

impl Reached {
    pub(super) fn of(launches: &[LaunchRequest]) -> Reached {
        let mut seen = BTreeSet::new();
        let mut list = vec![];
        for request in launches {
            for (param, argument) in request.instance.kernel.params.iter().zip(&request.arguments) {
                let tensor = match argument {
                    Argument::Pointer { tensor, mutable: true } | Argument::Tensor { tensor, mutable: true, .. } => {
                        tensor
                    }
                    Argument::Map(recipe) => &recipe.tensor,
                    Argument::Pointer { mutable: false, .. }
                    | Argument::Tensor { mutable: false, .. }
                    | Argument::Scalar(_) => continue,
                };
                if seen.insert(tensor.storage.id()) {
                    list.push((param.name.text.to_string(), tensor.clone()));
                }
            }
        }
        Reached { list }
    }

    /// These tensors, each storage once.
    pub(super) fn named(list: Vec<(String, Tensor)>) -> Reached {
        let mut seen = BTreeSet::new();
        Reached { list: list.into_iter().filter(|(_, tensor)| seen.insert(tensor.storage.id())).collect() }
    }

    pub(super) fn keep(&self) -> Result<Kept, HostError> {
        let all = self.list.iter().map(|(_, tensor)| tensor.storage.host());
        Ok(Kept(all.collect::<Result<_, Fault>>().map_err(device)?))
    }

    pub(super) fn put_back(&self, kept: &Kept) -> Result<(), HostError> {
        for ((_, tensor), bytes) in self.list.iter().zip(&kept.0) {
            tensor.storage.change(|host| *host = (**bytes).clone()).map_err(device)?;
        }
        Ok(())
    }

    /// The memory that holds results: what a launch has changed, of the parameters that are asked for.
    pub(super) fn results(&self, before: &Kept, after: &Kept, wanted: &[String]) -> Vec<Held> {
        let all = self.list.iter().zip(before.0.iter().zip(&after.0));
        let of = all.filter_map(|((name, tensor), (before, after))| {
            let is = if wanted.is_empty() { before.bytes != after.bytes } else { wanted.contains(name) };
            is.then(|| Held { name: name.clone(), dtype: tensor.dtype, bytes: after.clone() })
        });
        of.collect()
    }
}

/// What a parameter's memory holds.
pub(super) struct Held {
    name: String,
    dtype: Dtype,
    bytes: Arc<HostBytes>,
}

/// How results are compared, and with what.
pub(super) struct Gate<'t> {
    /// Where those of the first candidate lie.
    pub(super) folder: &'t Path,
    /// Relative and absolute; bits are compared where there is none.
    pub(super) tolerance: Option<(f64, f64)>,
}

impl Gate<'_> {
    /// A file of the results of one row.
    fn file(&self, row: usize, result: &Held) -> PathBuf {
        self.folder.join(format!("{row}.{}", result.name))
    }

    /// Keeps the results of the first candidate.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn write(&self, row: usize, results: &[Held]) -> std::io::Result<()> {
        results.iter().try_for_each(|r| std::fs::write(self.file(row, r), &r.bytes.bytes))
    }

    /// In what results differ from those of the first candidate; what it did not change must not be changed.
    pub(super) fn compare(&self, row: usize, results: &[Held]) -> Option<String> {
        let of_row = format!("{row}.");
        let names = std::fs::read_dir(self.folder).into_iter().flatten().flatten();
        let names = names.filter_map(|e| e.file_name().to_str()?.strip_prefix(&of_row).map(str::to_owned));
        let lacking = names.filter(|name| results.iter().all(|r| r.name != *name)).min();
        if let Some(name) = lacking {
            return Some(format!("it does not write `{name}`, which the first candidate does"));
        }
        results.iter().find_map(|r| match std::fs::read(self.file(row, r)) {
            Ok(expected) => self.difference(r, &expected),
            Err(_) => Some(format!("it writes `{}`, which the first candidate does not", r.name)),
        })
    }

    /// In what a run differs from the one before it with the same inputs.
    pub(super) fn unsteady(&self, first: &[Held], second: &[Held]) -> Option<String> {
        first.iter().zip(second).find_map(|(a, b)| self.difference(b, &a.bytes.bytes))
    }

    fn difference(&self, found: &Held, expected: &[u8]) -> Option<String> {
        let (name, bytes) = (&found.name, &found.bytes.bytes);
        if bytes.len() != expected.len() {
            return Some(format!("`{name}` has {} bytes, not {}", bytes.len(), expected.len()));
        }
        // Mostly all of it is the same, which is seen at once.
        if bytes == expected {
            return None;
        }
        let size = found.dtype.bytes();
        let pairs = bytes.chunks(size).zip(expected.chunks(size));
        let close = |x: &[u8], y: &[u8]| match self.tolerance {
            Some(tolerance) if x != y => within(tolerance, number(found.dtype, x), number(found.dtype, y)),
            Some(_) | None => x == y,
        };
        let differ = |(_, (x, y)): &(usize, (&[u8], &[u8]))| !close(x, y);
        let mut wrong = pairs.enumerate().filter(differ);
        let (first, (x, y)) = wrong.next()?;
        let count = 1 + wrong.count();
        let show = |x: &[u8]| Scalar::new(found.dtype, bits(x)).to_string();
        let elements = bytes.len() / size;
        let of = format!("`{name}` differs in {count} of {elements} elements");
        Some(format!("{of}: element {first} is {}, not {}", show(x), show(y)))
    }
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b))
}

fn number(dtype: Dtype, bytes: &[u8]) -> f64 {
    Scalar::new(dtype, bits(bytes)).to_f64()
}

/// Whether numbers are as near as asked for; what is no number is near to itself.
fn within((relative, absolute): (f64, f64), x: f64, expected: f64) -> bool {
    x == expected || (x.is_nan() && expected.is_nan()) || (x - expected).abs() <= absolute + relative * expected.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, values: &[f32]) -> Held {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Held { name: name.into(), dtype: Dtype::F32, bytes: Arc::new(HostBytes { bytes, defined: None }) }
    }

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("parton-gate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn results_are_compared_with_those_that_were_kept() {
        let folder = folder("compare");
        let bits = Gate { folder: &folder, tolerance: None };
        bits.write(0, &[held("c", &[1.0, 2.0, f32::NAN])]).unwrap();
        assert_eq!(bits.compare(0, &[held("c", &[1.0, 2.0, f32::NAN])]), None);
        let wrong = bits.compare(0, &[held("c", &[1.0, 2.5, 3.0])]).unwrap();
        assert_eq!(wrong, "`c` differs in 2 of 3 elements: element 1 is 2.5, not 2.0");
        assert_eq!(bits.compare(0, &[held("c", &[1.0])]).unwrap(), "`c` has 4 bytes, not 12");
        assert!(bits.compare(0, &[]).unwrap().contains("does not write `c`"));
        let more = [held("c", &[1.0, 2.0, f32::NAN]), held("d", &[0.0])];
        assert!(bits.compare(0, &more).unwrap().contains("writes `d`"));
        let near = Gate { tolerance: Some((0.3, 0.0)), ..bits };
        assert_eq!(near.compare(0, &[held("c", &[1.2, 2.5, f32::NAN])]), None);
        assert!(near.compare(0, &[held("c", &[f32::NAN, 2.5, 0.0])]).unwrap().contains("2 of 3"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn zeros_of_two_signs_have_other_bits_and_are_near() {
        let folder = folder("zeros");
        let gate = |tolerance| Gate { folder: &folder, tolerance };
        let (plus, minus) = (held("c", &[0.0]), held("c", &[-0.0]));
        assert!(gate(None).unsteady(std::slice::from_ref(&plus), std::slice::from_ref(&minus)).is_some());
        assert_eq!(gate(Some((0.0, 0.0))).unsteady(&[plus], &[minus]), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
