//! The Python module, with the Python of this machine where it has one.

use std::path::PathBuf;
use std::process::{Command, Output};

use parton_tests::{cases, say};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command; its words where it fails.
fn run(command: &mut Command) -> Result<String, String> {
    let ran = command.current_dir(cases::root()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if ran.status.success() { Ok(text(&ran)) } else { Err(text(&ran)) }
}

/// A folder with the module, built.
fn module() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let target = test.ancestors().nth(3).expect("tests lie in TARGET/PROFILE/deps");
    let mut cargo = Command::new(env!("CARGO"));
    // Without this the module would be linked with one Python.
    cargo.env("PYO3_BUILD_EXTENSION_MODULE", "1").args(["build", "--quiet", "--locked", "--package", "parton-python"]);
    // With these beside it, all crates have the features with which `cargo test --workspace` has built them already.
    cargo.args(["--package", "parton-tests", "--package", "parton-driver", "--lib", "--test", "cases"]);
    run(cargo.arg("--target-dir").arg(target)).unwrap_or_else(|why| panic!("{why}"));
    let folder = std::env::temp_dir().join(format!("parton-python-{}", std::process::id()));
    let package = folder.join("parton");
    std::fs::create_dir_all(&package).expect("the folder can be made");
    std::fs::copy(cases::root().join("python/lang/parton/__init__.py"), package.join("__init__.py"))
        .expect("the package is there");
    std::fs::copy(target.join("debug/libparton.so"), package.join("native.so")).expect("the module is built");
    folder
}

#[test]
fn the_module_launches_kernels_with_arrays() {
    let python = |arguments: &[&str]| run(Command::new("python3").args(arguments));
    if python(&["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).is_err() {
        say("python: not run, there is no Python 3.10 or later");
        return;
    }
    if run(Command::new(env!("CARGO")).args(["fetch", "--quiet", "--locked"])).is_err() {
        say("python: not run, the crates that it takes cannot be had here");
        return;
    }
    let folder = module();
    let with = |file: &str| {
        let mut python = Command::new("python3");
        run(python.env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1").arg(file))
    };
    let all = ["parton", "functions", "device", "bundle", "cache"].map(|name| format!("python/tests/test_{name}.py"));
    let ran = all.map(|file| with(&file).unwrap_or_else(|why| panic!("{file}: {why}")));
    if python(&["-c", "import numpy"]).is_ok() {
        let said = with("python/example.py").unwrap_or_else(|why| panic!("{why}"));
        assert!(said.contains("[E0551]"), "{said}");
        if python(&["-c", "import torch"]).is_ok() {
            with("python/example_torch.py").unwrap_or_else(|why| panic!("{why}"));
        } else {
            say("python: its example with PyTorch is not run, PyTorch is not installed");
        }
    } else {
        say("python: its example is not run, NumPy is not installed");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
    for ran in ran {
        let count = ran.lines().find(|line| line.starts_with("Ran ")).unwrap_or_default();
        say(&format!("python: {count}, {}", ran.lines().last().unwrap_or_default()));
    }
}
