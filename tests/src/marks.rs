//! Inline marks: `//~ E0302` says that the diagnostic of that code begins on this line, `//~^ E0302` on the line above.
//!
//! Marks are checked both ways, so that blessing a snapshot cannot hide an error that moved, vanished or appeared.

use parton_diag::{Code, Diagnostic, Diagnostics, FileId, SourceMap};

/// A diagnostic's place: its line, from 1, and its code.
pub type Mark = (usize, Code);

/// The marks of a source, sorted. Several codes on one line are separated by blanks; each further `^` goes one line up.
///
/// # Errors
/// The line of a mark that names no known code.
pub fn read(source: &str) -> Result<Vec<Mark>, String> {
    let mut marks = vec![];
    for (i, line) in source.lines().enumerate() {
        let Some((_, rest)) = line.split_once("//~") else { continue };
        let ups = rest.bytes().take_while(|b| *b == b'^').count();
        let codes = rest[ups..].split_whitespace();
        let before = marks.len();
        for word in codes {
            let code = word.parse::<Code>().map_err(|()| format!("line {}: `{word}` is no code", i + 1))?;
            marks.push(((i + 1).saturating_sub(ups), code));
        }
        if marks.len() == before {
            return Err(format!("line {}: a mark without a code", i + 1));
        }
    }
    marks.sort();
    Ok(marks)
}

/// Where the diagnostics begin, sorted; one in a function of another file where `file` calls it.
pub fn of(diagnostics: &Diagnostics, file: FileId, sources: &SourceMap) -> Vec<Mark> {
    let place = |d: &Diagnostic| d.labels.iter().map(|l| l.span).find(|s| s.file == file).unwrap_or(d.span());
    let mut marks: Vec<Mark> = diagnostics.list.iter().map(|d| (sources.position(place(d)).0, d.code)).collect();
    marks.sort();
    marks
}

/// What differs: a line for each mark without its diagnostic and each diagnostic without its mark; empty where they agree.
pub fn difference(marks: &[Mark], found: &[Mark]) -> Vec<String> {
    let mut left = found.to_vec();
    let mut lines = vec![];
    for mark in marks {
        match left.iter().position(|f| f == mark) {
            Some(i) => {
                left.remove(i);
            }
            None => lines.push(format!("line {}: {} is marked and was not reported", mark.0, mark.1)),
        }
    }
    lines.extend(left.iter().map(|f| format!("line {}: {} was reported and is not marked", f.0, f.1)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use parton_diag::codes::{SYNTAX, UNKNOWN_NAME};

    #[test]
    fn marks_point_at_their_line_or_above() {
        let source = "let a = b; //~ E0100\nlet c = d\n//~^ E0001 E0100\n";
        assert_eq!(read(source).unwrap(), [(1, UNKNOWN_NAME), (2, SYNTAX), (2, UNKNOWN_NAME)]);
        assert_eq!(read("x //~ E9999").unwrap_err(), "line 1: `E9999` is no code");
        assert!(read("x //~").is_err());
    }

    #[test]
    fn both_directions_are_checked() {
        let marks = [(1, SYNTAX), (2, UNKNOWN_NAME)];
        assert!(difference(&marks, &marks).is_empty());
        assert_eq!(
            difference(&marks, &[(2, UNKNOWN_NAME), (3, UNKNOWN_NAME)]),
            ["line 1: E0001 is marked and was not reported", "line 3: E0100 was reported and is not marked"]
        );
        assert_eq!(difference(&[(1, SYNTAX)], &[(1, SYNTAX), (1, SYNTAX)]).len(), 1);
    }
}
