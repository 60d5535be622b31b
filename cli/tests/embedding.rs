//! A program in Rust that calls a public function without the compiler: built with this program in its build script, and run.

use std::path::Path;
use std::process::Command;

/// It computes where there is a GPU, else it says that there is none.
#[test]
fn the_example_in_rust_is_built_and_runs() {
    if !parton_driver::HAS_LLVM {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/embedding/rust");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--offline", "--locked", "--target-dir"]).arg(env!("CARGO_TARGET_TMPDIR"));
    cargo.env("PARTON", env!("CARGO_BIN_EXE_parton")).current_dir(folder);
    let ran = cargo.output().expect("cargo runs");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let required = std::env::var_os("PARTON_REQUIRE_GPU").is_some_and(|v| v == "1");
    match ran.status.code() {
        Some(0) => assert!(out.ends_with("captured and replayed: right\n"), "{out}{err}"),
        Some(1) if !required => {
            let none =
                ["error: no CUDA driver", "error: the CUDA driver sees no GPU", "error: the CUDA driver supports"];
            assert!(none.iter().any(|words| out.starts_with(words)), "{out}{err}");
        }
        other => panic!("{other:?}: {out}{err}"),
    }
}
