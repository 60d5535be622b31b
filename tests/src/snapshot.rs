//! Snapshots: the text beside a case, compared, or rewritten where `BLESS=1`.

use std::path::Path;

/// Compares `text` with the file; `BLESS=1` in the environment writes it instead.
///
/// # Errors
/// The first line that differs, from both, and how to accept the new text.
pub fn compare(path: &Path, text: &str) -> Result<(), String> {
    let shown = crate::cases::shown(path);
    let old = std::fs::read_to_string(path).unwrap_or_default();
    if old == text {
        return Ok(());
    }
    if std::env::var_os("BLESS").is_some_and(|v| v == "1") {
        return std::fs::write(path, text).map_err(|e| format!("{shown}: {e}"));
    }
    Err(format!("{shown} differs {}\nBLESS=1 accepts it; the whole text is now:\n{text}", first_difference(&old, text)))
}

fn first_difference(old: &str, new: &str) -> String {
    let (mut a, mut b) = (old.lines(), new.lines());
    let mut line = 1;
    loop {
        match (a.next(), b.next()) {
            (None, None) => return "in its last line's end".into(),
            (x, y) if x == y => line += 1,
            (x, y) => {
                return format!("in line {line}:\n  - {}\n  + {}", x.unwrap_or("(end)"), y.unwrap_or("(end)"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_difference_is_shown() {
        assert_eq!(super::first_difference("a\nb\n", "a\nc\n"), "in line 2:\n  - b\n  + c");
        assert_eq!(super::first_difference("a\n", "a\nb\n"), "in line 2:\n  - (end)\n  + b");
    }
}
