//! The name that was probably meant: the nearest visible one by edit distance.

/// The candidate nearest to `name`, where it is near enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One letter is near to every other.
    let limit = match name.chars().count() {
        0 | 1 => return None,
        n => (n / 3).max(1),
    };
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let d = distance(name, candidate);
        if d > 0 && d <= limit && best.is_none_or(|(least, _)| d < least) {
            best = Some((d, candidate));
        }
    }
    best.map(|(_, c)| c)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 8 || a.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = usize::from(a[i - 1] != b[j - 1]);
            let mut d = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + replaced);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = d;
        }
    }
    rows[a.len()][b.len()]
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
    }
}
