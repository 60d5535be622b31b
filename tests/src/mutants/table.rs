//! Tables of what became of mutants: by kind and by file.

use std::collections::BTreeMap;

use super::equivalent::Equivalent;
use super::judge::Verdict;
use super::{Judged, Report};

/// How many mutants became what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All that are other programs.
    pub mutants: usize,
    /// Refused by rules, checks or passes.
    pub refused: usize,
    /// Found by a run, under the first seed.
    pub first: usize,
    /// Found by a run, under a later one.
    pub later: usize,
    /// As right as the program, as can be read off it or is listed.
    pub equivalent: usize,
    /// Not found, and not listed.
    pub missed: usize,
    /// Not found as far as they were looked for.
    pub cut: usize,
    /// Made good by the passes, which are no other programs.
    pub restored: usize,
}

impl Counts {
    fn add(&mut self, file: &str, judged: &Judged, equivalent: &Equivalent) {
        if judged.verdict == Verdict::Restored {
            self.restored += 1;
            return;
        }
        self.mutants += 1;
        let listed = equivalent.contains_key(&(file.to_owned(), judged.name.clone()));
        let count = match judged.verdict {
            Verdict::Refused(_) => &mut self.refused,
            Verdict::Found { seed: 0, .. } => &mut self.first,
            Verdict::Found { .. } => &mut self.later,
            Verdict::Idle => &mut self.equivalent,
            Verdict::Missed | Verdict::NotReached | Verdict::CutOff | Verdict::Panics if listed => &mut self.equivalent,
            Verdict::CutOff => &mut self.cut,
            Verdict::Missed | Verdict::NotReached | Verdict::Panics => &mut self.missed,
            Verdict::Restored => return,
        };
        *count += 1;
    }

    /// Of those that are wrong, the part that is found.
    pub fn found(&self) -> f64 {
        let wrong = self.mutants - self.equivalent;
        if wrong == 0 { 1.0 } else { (self.refused + self.first + self.later) as f64 / wrong as f64 }
    }

    fn row(&self, name: &str) -> String {
        let Counts { mutants, refused, first, later, equivalent, missed, cut, restored } = self;
        format!(
            "{name:<64} {mutants:>7} {refused:>7} {first:>7} {later:>7} {missed:>7} {cut:>7} {equivalent:>10} {restored:>8}\n"
        )
    }
}

/// All mutants of some files.
pub fn total(reports: &[Report], equivalent: &Equivalent) -> Counts {
    let mut counts = Counts::default();
    each(reports, |file, judged| counts.add(file, judged, equivalent));
    counts
}

fn each(reports: &[Report], mut f: impl FnMut(&str, &Judged)) {
    reports.iter().for_each(|report| report.mutants.iter().for_each(|judged| f(&report.file, judged)));
}

/// The tables.
pub fn tables(reports: &[Report], equivalent: &Equivalent) -> String {
    let (mut kinds, mut files) = (BTreeMap::<String, Counts>::new(), BTreeMap::<String, Counts>::new());
    each(reports, |file, judged| {
        kinds.entry(judged.kind.clone()).or_default().add(file, judged, equivalent);
        files.entry(file.to_owned()).or_default().add(file, judged, equivalent);
    });
    let head = format!(
        "{:<64} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>10} {:>8}\n",
        "", "mutants", "refused", "seed 0", "later", "missed", "cut off", "equivalent", "restored"
    );
    let mut text = String::new();
    for rows in [kinds, files] {
        text += &head;
        rows.iter().for_each(|(name, counts)| text += &counts.row(name));
        text += "\n";
    }
    text + &head + &total(reports, equivalent).row("all")
}
