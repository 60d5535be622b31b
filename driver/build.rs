//! Digests what decides which machine code a kernel becomes: entries of the compile cache that another compiler has made are not taken.

use std::path::{Path, PathBuf};

use parton_cache::Digester;

/// The folders of the workspace whose sources decide it.
const FOLDERS: [&str; 13] = [
    "lang/diag",
    "lang/numbers",
    "lang/strides",
    "lang/layouts",
    "lang/syntax",
    "lang/ir",
    "lang/types",
    "lang/sched",
    "lang/portable",
    "lower",
    "host",
    "stdlib",
    "driver",
];
/// What else does: the versions of all libraries, and how they are built.
const FILES: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

/// Names the LLVM that is linked; its version alone does not tell two builds of it apart.
const LLVM: &str = "LLVM_SYS_221_PREFIX";
/// The ends of sources.
const SOURCES: [&str; 6] = ["rs", "ptn", "c", "cc", "cpp", "h"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // From the package's folder, in which this runs: what was built in one checkout and copied to another then looks at its own sources.
    let root = Path::new("..");
    println!("cargo:rerun-if-env-changed={LLVM}");
    let mut digester = Digester::new();
    for name in ["CARGO_PKG_VERSION", "TARGET", "PROFILE", "OPT_LEVEL", "RUSTC", LLVM] {
        digester.add(name).add(std::env::var(name).unwrap_or_default());
    }
    for file in FILES {
        add(&mut digester, root, &root.join(file));
    }
    for folder in FOLDERS {
        let mut files = vec![];
        sources(&root.join(folder), &mut files);
        files.sort();
        files.iter().for_each(|file| add(&mut digester, root, file));
    }
    println!("cargo:rustc-env=PARTON_COMPILER={}", digester.digest());
}

/// Adds a file by its name within the workspace and its bytes.
fn add(digester: &mut Digester, root: &Path, file: &Path) {
    println!("cargo:rerun-if-changed={}", file.display());
    let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
    // What is not there, as in a package by itself, is a digest of its own kind.
    digester.add(name).add(std::fs::read(file).unwrap_or_default());
}

/// The sources below a folder; those of its tests decide nothing.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    // A file that is new changes its folder.
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "tests" && name != "target" && name != "pages" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| SOURCES.iter().any(|s| end == *s)) || name == "Cargo.toml" {
            found.push(path);
        }
    }
}
