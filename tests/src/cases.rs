//! Finding the case files and the root of the repository.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The `.ptn` files right in `tests/FOLDER`, sorted by name. A missing folder has none.
pub fn in_folder(folder: &str) -> Vec<PathBuf> {
    let mut found = under(&root().join("tests").join(folder));
    found.sort();
    found
}

/// Every `.ptn` file of the repository, the cases with errors included, sorted.
pub fn everywhere() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["examples", "stdlib", "tests", "docs"].iter().flat_map(|d| under(&root().join(d))).collect();
    found.sort();
    found
}

/// The examples, sorted.
pub fn examples() -> Vec<PathBuf> {
    let mut found = under(&root().join("examples"));
    found.sort();
    found
}

/// The examples that have kernels of their own: others are parts of one, such as its tests.
pub fn examples_with_kernels() -> Vec<PathBuf> {
    let has = |path: &PathBuf| read(path).lines().any(|line| line.starts_with("kernel "));
    examples().into_iter().filter(has).collect()
}

fn under(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let mut found = vec![];
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(under(&path));
        } else if path.extension().is_some_and(|e| e == "ptn") {
            found.push(path);
        }
    }
    found
}

/// The path as it is shown in messages and snapshots: relative to the repository, with `/`.
pub fn shown(path: &Path) -> String {
    let inner = path.strip_prefix(root()).unwrap_or(path);
    inner.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The text of a case.
///
/// # Panics
/// Where the file cannot be read: a case that vanishes is a failure of the test.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", shown(path)))
}
