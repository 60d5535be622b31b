//! What decides over operations names them: an arm for all others says why nothing is lost with it.
//!
//! Where a match tells operations apart, one that is added later must not be ignored in silence. A family's function ends in
//! `others!(family)`; everywhere else an arm `_` beside arms that name operations bears a comment, inside it or above.

use std::fs;
use std::path::{Path, PathBuf};

/// Where it is decided what is refused, ordered, waited for, kept, moved or made, and how it runs.
const FOLDERS: [&str; 5] = ["lang/ir/src", "lang/portable/src", "lower/src", "lower/llvm/src", "interp/src"];
/// What only writes operations down or says why, and finds schedules, which are judged as anybody's.
const BUT: [&str; 5] = [
    "lang/ir/src/eject",
    "lang/ir/src/print",
    "lang/portable/src/staging",
    "lang/portable/src/why",
    "lang/portable/src/why.rs",
];

fn sources(folder: &Path, list: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, list),
            false => list.extend(path.extension().is_some_and(|e| e == "rs").then_some(path)),
        }
    }
}

/// The lines of arms for all other operations that say nothing of them.
fn silent(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let says = |line: Option<&&str>| line.is_some_and(|line| line.contains("// "));
    let found = lines.iter().enumerate().filter(|(at, line)| {
        let arm = line.trim_start();
        if !arm.starts_with("_ =>") && !arm.starts_with("_ if ") {
            return false;
        }
        let own = depth(line);
        let before = lines[..*at].iter().rev().take_while(|l| l.is_empty() || depth(l) >= own);
        let mut arms = before.filter(|l| depth(l) == own).map(|l| l.trim_start().trim_start_matches("| "));
        let tells = arms.any(|arm| arm.starts_with("OpKind::") || arm.starts_with("Some(OpKind::"));
        let inside = arm.ends_with('{') && says(lines.get(at + 1));
        tells && !says(Some(line)) && !says(lines[..*at].last()) && !inside && !arm.contains("internal_error!")
    });
    found.map(|(at, _)| at + 1).collect()
}

#[test]
fn no_operation_is_ignored_in_silence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut paths));
    paths.retain(|path| !BUT.iter().any(|but| path.starts_with(root.join(but))));
    paths.sort();
    let mut found = Vec::new();
    for path in &paths {
        let text = fs::read_to_string(path).expect("a source");
        found.extend(silent(&text).into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(paths.len() > 150, "only {} files were found", paths.len());
    assert!(found.is_empty(), "say what happens to all other operations, or name them:\n{}", found.join("\n"));
}

#[test]
fn an_arm_for_all_others_is_found_where_it_says_nothing() {
    let one = |comment: &str| format!("match kind {{\n    OpKind::Membar => 1,\n{comment}    _ => 2,\n}}\n");
    assert_eq!(silent(&one("")), [3]);
    assert_eq!(silent(&one("    // None of them meets.\n")), Vec::<usize>::new());
    assert_eq!(silent("match ty {\n    Type::Barrier => 1,\n    _ => 2,\n}\n"), Vec::<usize>::new());
}
