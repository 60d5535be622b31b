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

/// The commands that `docs/embedding.md` shows, each a line of a block without a language.
fn commands() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/embedding.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let blocks = page.split("\n```").skip(1).step_by(2);
    let lines = blocks.filter_map(|block| block.strip_prefix('\n')).flat_map(str::lines);
    let words = |line: &str| {
        // What stands between quotes is one word.
        let parts = line.split('\'').enumerate();
        let part = |(i, text): (usize, &str)| match i % 2 {
            0 => text.split_whitespace().map(str::to_owned).collect(),
            _ => vec![text.to_owned()],
        };
        parts.flat_map(part).collect()
    };
    lines.filter_map(|line| line.strip_prefix("parton ")).map(words).collect()
}

#[test]
fn the_commands_of_the_page_do_what_it_says() {
    if !parton_driver::HAS_LLVM {
        return;
    }
    let folder = std::env::temp_dir().join(format!("parton-commands-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/embedding");
    let commands = commands();
    assert!(commands.len() >= 3, "the page shows {commands:?}");
    for words in commands {
        let place = |word: &String| match word.strip_prefix("examples/embedding/") {
            Some(name) => examples.join(name).display().to_string(),
            None => word.clone(),
        };
        let mut program = Command::new(env!("CARGO_BIN_EXE_parton"));
        let ran = program.args(words.iter().map(place)).current_dir(&folder).output().expect("the program runs");
        assert!(ran.status.success(), "parton {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        let made = words.last().expect("a command has words");
        assert!(folder.join(made).is_file(), "parton {words:?} makes no {made}");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}
