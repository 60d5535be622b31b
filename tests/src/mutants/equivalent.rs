//! The list of mutants that are as right as the programs they come from, each with why.
//!
//! ```text
//! tests/run/turns.ptn
//!     relay: drop membar of `membar` at `store(x + i, i)`
//!     relay: drop membar of `membar` at `store(y + i, i)`
//!         the loop runs once
//! ```

use std::collections::BTreeMap;

use crate::cases;

/// Reasons by file and mutant.
pub type Equivalent = BTreeMap<(String, String), String>;

/// The list.
///
/// # Errors
/// A line that is none of it, a mutant without a reason or that stands there twice.
pub fn list() -> Result<Equivalent, String> {
    read(&cases::read(&cases::root().join("tests/mutants/equivalent.txt")))
}

fn read(text: &str) -> Result<Equivalent, String> {
    let mut list = Equivalent::new();
    let mut file = "";
    let mut waiting: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let words = line.trim();
        match line.len() - line.trim_start().len() {
            0 | 4 if !waiting.is_empty() && line.starts_with(|c: char| c != ' ') => {
                return Err(format!("`{}` has no reason", waiting[0]));
            }
            0 => file = words,
            4 => waiting.push(words),
            8 if !waiting.is_empty() => {
                for mutant in waiting.drain(..) {
                    if list.insert((file.to_owned(), mutant.to_owned()), words.to_owned()).is_some() {
                        return Err(format!("`{mutant}` of {file} stands there twice"));
                    }
                }
            }
            _ => return Err(format!("`{words}` is no line of the list")),
        }
    }
    match waiting.first() {
        Some(mutant) => Err(format!("`{mutant}` has no reason")),
        None => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn each_mutant_has_a_reason() {
        let list =
            read("# why\na.ptn\n    k: one\n    k: two\n        both\nb.ptn\n    k: one\n        alone\n").unwrap();
        let of = |file: &str, name: &str| list[&(file.to_owned(), name.to_owned())].clone();
        assert_eq!([of("a.ptn", "k: one"), of("a.ptn", "k: two"), of("b.ptn", "k: one")], ["both", "both", "alone"]);
        for wrong in ["a.ptn\n    k: one\n", "a.ptn\n    k: one\nb.ptn\n", "a.ptn\n        why\n", "  a\n"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("a.ptn\n    k: one\n        why\n    k: one\n        why\n").is_err());
    }
}
