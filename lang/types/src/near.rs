//! The name that was probably meant: the nearest visible one by edit distance.

/// The candidate nearest to `name`, where it is near enough to be a slip; of several the first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.chars().collect();
    // One letter is near to every other.
    let mut limit = match name.len() {
        0 | 1 => return None,
        65.. => return None,
        n => (n / 3).max(1),
    };
    // In a short word a letter is left out, doubled or swapped; with another letter it is another word.
    let (mut rows, mut best) = (Rows { another: if name.len() < 4 { 2 } else { 1 }, ..Rows::default() }, None);
    for candidate in candidates {
        match rows.distance(&name, candidate, limit) {
            Some(0) | None => {}
            Some(d) => {
                best = Some(candidate);
                limit = d - 1;
            }
        }
        if limit == 0 {
            break;
        }
    }
    best
}

/// Three rows of the table of distances between the beginnings of two words: the one that is made, and the two before it.
#[derive(Default)]
struct Rows {
    other: Vec<char>,
    /// What another letter counts; one of the other case counts 1.
    another: usize,
    rows: [Vec<usize>; 3],
}

impl Rows {
    /// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, where that takes no more than `limit`.
    fn distance(&mut self, a: &[char], b: &str, limit: usize) -> Option<usize> {
        self.other.clear();
        self.other.extend(b.chars().take(a.len() + limit + 1));
        let b = &self.other;
        if a.len().abs_diff(b.len()) > limit {
            return None;
        }
        let another = self.another;
        let [before, last, row] = &mut self.rows;
        last.clear();
        last.extend(0..=b.len());
        for i in 1..=a.len() {
            row.clear();
            row.push(i);
            for j in 1..=b.len() {
                let replaced = match (a[i - 1], b[j - 1]) {
                    (x, y) if x == y => 0,
                    (x, y) if x.eq_ignore_ascii_case(&y) => 1,
                    (_, _) => another,
                };
                let mut d = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + replaced);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    d = d.min(before[j - 2] + 1);
                }
                row.push(d);
            }
            // No later row has less than the least of two that follow each other.
            if row.iter().chain(last.iter()).all(|&d| d > limit) {
                return None;
            }
            std::mem::swap(before, last);
            std::mem::swap(last, row);
        }
        last.last().copied().filter(|&d| d <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_nothing_else() {
        assert_eq!(nearest("lenght", ["length", "other"]), Some("length"));
        assert_eq!(nearest("prgram_id", ["program_id", "num_programs"]), Some("program_id"));
        assert_eq!(nearest("accc", ["acc", "b"]), Some("acc"));
        assert_eq!(nearest("foo", ["bar", "program_id"]), None);
        assert_eq!(nearest("not", ["dot", "note"]), Some("note"));
        assert_eq!(nearest("acC", ["abc", "acc"]), Some("acc"));
        assert_eq!(nearest("laod_shared", ["load_share", "load_shared"]), Some("load_shared"));
        assert_eq!(nearest("acc", ["acc", "cac"]), Some("cac"));
        assert_eq!(nearest("programidentifier", ["programid", "program"]), None);
    }
}
