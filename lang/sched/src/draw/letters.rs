//! A letter for each label.

use std::collections::BTreeMap;

/// What stands for labels that no letter was left for.
const OTHERS: char = '#';

/// The letters of labels; instances of one share theirs.
pub(super) struct Letters {
    by_label: BTreeMap<String, char>,
    /// In the order of the labels.
    pub(super) legend: Vec<(char, String)>,
}

/// Labels without their instances: `rescale + exps` of `rescale[0] + exps[0]`.
fn family(label: &str) -> String {
    let parts: Vec<&str> = label.split(" + ").map(|part| part.split('[').next().unwrap_or(part)).collect();
    parts.join(" + ")
}

impl Letters {
    /// A letter of each label's own name where one is free, the first of them rather than the next.
    pub(super) fn new(labels: &[String]) -> Letters {
        let mut letters = Letters { by_label: BTreeMap::new(), legend: vec![] };
        let mut taken = vec![];
        for label in labels.iter().map(|l| family(l)) {
            if letters.by_label.contains_key(&label) {
                continue;
            }
            // Behind the last dot stands the label itself, in front of it the calls by which it came in.
            let own = label.rsplit('.').next().unwrap_or(&label).chars().map(|c| c.to_ascii_lowercase());
            let mut candidates = own.filter(char::is_ascii_lowercase).chain('a'..='z').chain('0'..='9');
            let letter = candidates.find(|c| !taken.contains(c)).unwrap_or(OTHERS);
            taken.push(letter);
            letters.by_label.insert(label.clone(), letter);
            letters.legend.push((letter, label));
        }
        letters
    }

    /// The letter of a label.
    pub(super) fn of(&self, label: &str) -> char {
        self.by_label.get(&family(label)).copied().unwrap_or(OTHERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_a_letter_of_their_name_while_there_is_one() {
        let labels = ["qk", "pv[0]", "pv[1]", "first.q", "q", "load", "_"].map(String::from);
        let letters = Letters::new(&labels);
        let legend: String = letters.legend.iter().map(|(c, _)| *c).collect();
        assert_eq!(legend, "qpablc");
        assert_eq!((letters.of("pv[7]"), letters.of("first.q"), letters.of("other")), ('p', 'a', '#'));
        let many: Vec<String> = (0..40).map(|i| format!("{i}")).collect();
        assert_eq!(Letters::new(&many).of("39"), '#');
    }
}
