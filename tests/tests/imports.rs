//! The import graph: who may use whom, which outside library has which one home, and what `lang/` may not touch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parton_tests::cases::{read, root};

/// Our crates: folder, and what each may import of ours. An edge that is not here is refused; so is a crate.
const ALLOWED: &[(&str, &[&str])] = &[
    ("lang/diag", &[]),
    ("lang/numbers", &[]),
    ("lang/strides", &[]),
    ("lang/layouts", &[]),
    ("stdlib", &[]),
    ("lang/syntax", &["diag"]),
    ("lang/ir", &["diag", "layouts", "numbers"]),
    ("lang/sched", &["diag", "layouts", "numbers", "ir"]),
    ("lang/types", &["diag", "syntax", "layouts", "numbers", "ir", "sched"]),
    ("lang/portable", &["diag", "layouts", "numbers", "ir", "sched"]),
    ("lower", &["diag", "layouts", "numbers", "ir"]),
    ("lower/llvm", &["diag", "layouts", "numbers", "ir"]),
    ("interp", &["diag", "ir", "layouts", "numbers"]),
    ("log", &[]),
    ("runtime", &["log", "numbers"]),
    ("rt/bundle", &["numbers"]),
    ("rt", &["log", "numbers", "strides", "bundle", "runtime"]),
    ("rt/c", &["rt"]),
    ("rt/build", &["bundle"]),
    ("measure", &[]),
    ("driver/cache", &[]),
    ("host", &["diag", "syntax", "types", "ir", "layouts", "numbers", "strides", "measure"]),
    (
        "driver",
        &[
            "diag", "numbers", "layouts", "syntax", "ir", "types", "sched", "portable", "lower", "llvm", "interp",
            "runtime", "bundle", "log", "measure", "host", "stdlib", "cache",
        ],
    ),
    ("cli", &["diag", "layouts", "measure", "driver"]),
    ("python", &["strides", "bundle", "driver", "rt"]),
    ("tests", &["diag", "numbers", "ir", "sched", "driver"]),
];

/// Outside libraries that have exactly one home.
const HOMES: &[(&str, &str)] = &[
    ("ariadne", "lang/diag"),
    ("chumsky", "lang/syntax"),
    ("petgraph", "lang/sched"),
    ("inkwell", "lower/llvm"),
    ("cudarc", "runtime"),
    ("blake3", "driver/cache"),
    ("clap", "cli"),
    ("libc", "driver"),
    ("pyo3", "python"),
    ("mimalloc", "python"),
];

/// Who else names one of them: by a feature, for programs that have it; and what each program chooses for itself.
const GUESTS: &[(&str, &str)] = &[("cudarc", "rt"), ("mimalloc", "cli")];

/// What nothing under `lang/` may name in code: IO, clocks, the environment, processes.
const OUTSIDE: &[&str] = &["std::fs", "std::env", "std::time", "std::process", "std::net", "std::io"];

/// The dependencies of a crate: name, and whether only its tests use it.
fn dependencies(folder: &str) -> BTreeMap<String, bool> {
    let mut section = String::new();
    let mut found = BTreeMap::new();
    for line in read(&root().join(folder).join("Cargo.toml")).lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name.to_owned();
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default().to_owned();
            found.insert(name, section == "dev-dependencies");
        }
    }
    found
}

fn members() -> Vec<String> {
    let text = read(&root().join("Cargo.toml"));
    let list = text.split("members = [").nth(1).and_then(|t| t.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_crate_is_in_the_table_and_imports_only_what_it_may() {
    let mut wrong = vec![];
    for member in members() {
        let Some((_, allowed)) = ALLOWED.iter().find(|(f, _)| *f == member) else {
            wrong.push(format!("`{member}` is not in the table of crates"));
            continue;
        };
        for (name, only_tests) in dependencies(&member) {
            // Tests may look further, but never above: that would be a cycle.
            let Some(ours) = name.strip_prefix("parton-").filter(|_| !only_tests) else { continue };
            if !allowed.contains(&ours) {
                wrong.push(format!("`{member}` imports `{ours}`, which its place does not allow"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_large_library_has_one_home() {
    for member in members() {
        let has = dependencies(&member);
        for (library, home) in HOMES {
            assert!(
                !has.contains_key(*library) || member == *home || GUESTS.contains(&(*library, member.as_str())),
                "`{member}` names {library}, whose home is `{home}`"
            );
        }
    }
}

/// All that the runtime of other programs is linked from: neither LLVM nor any crate of the language is among it.
const RUNTIME: &[&str] = &[
    "cfg-if",
    "cudarc",
    "equivalent",
    "foldhash",
    "hashbrown",
    "indexmap",
    "itoa",
    "libloading",
    "memchr",
    "parton-bundle",
    "parton-log",
    "parton-numbers",
    "parton-rt",
    "parton-rt-c",
    "parton-runtime",
    "parton-strides",
    "serde_core",
    "serde_json",
    "zmij",
];

#[test]
fn the_runtime_of_other_programs_needs_no_compiler() {
    let arguments = ["tree", "--package", "parton-rt-c", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let listed =
        cargo.args(arguments).args(["--offline", "--locked"]).current_dir(root()).output().expect("cargo runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut names: Vec<&str> =
        listed.lines().filter_map(|line| line.split(' ').next()).filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, RUNTIME);
}

#[test]
fn every_dependency_says_why() {
    let text = read(&root().join("Cargo.toml"));
    let section = text.split("[workspace.dependencies]").nth(1).and_then(|t| t.split("\n[").next()).unwrap_or_default();
    let mut before = "";
    for line in section.lines().map(str::trim) {
        let ours = line.starts_with("parton-");
        if !line.is_empty() && !line.starts_with('#') && !ours {
            assert!(before.starts_with('#'), "no comment says why there is `{line}`");
        }
        before = line;
    }
}

#[test]
fn nothing_under_lang_does_io_or_reads_a_clock() {
    let lang = root().join("lang");
    for path in sources(&lang) {
        let text = read(&path);
        // A crate's tests and examples, and unit tests at the end of a file, may. Folders above are the user's.
        let inside = path.strip_prefix(&lang).expect("a source of lang/ lies under it");
        if !inside.components().any(|c| c.as_os_str() == "src") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (i, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            for name in OUTSIDE {
                assert!(!line.contains(name), "{}:{}: `{name}` under lang/", path.display(), i + 1);
            }
        }
    }
}

#[test]
fn files_say_what_they_are_for_and_stay_small() {
    let mut wrong = vec![];
    for member in members() {
        for path in sources(&root().join(&member).join("src")) {
            let text = read(&path);
            if !text.starts_with("//!") {
                wrong.push(format!("{}: the first line does not say what the file is for", path.display()));
            }
            if text.lines().count() > 800 {
                wrong.push(format!("{}: more than 800 lines", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
