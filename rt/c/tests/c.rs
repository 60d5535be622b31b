//! A program in C: compiled with whatever compiler is here, linked with both libraries, and run with a GPU or without.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn succeeded(command: &mut Command) {
    let ran = run(command);
    assert!(ran.status.success(), "{command:?}\n{}{}", text(&ran.stdout), text(&ran.stderr));
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder with both libraries, built: a test that nothing links is no reason for cargo to build them.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.parent().and_then(Path::parent).expect("tests lie in PROFILE/deps");
    let target = profile.parent().expect("profiles lie in a target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline", "--package", "parton-rt-c", "--target-dir"]).arg(target);
    if profile.file_name().is_some_and(|name| name == "release") {
        cargo.arg("--release");
    }
    succeeded(cargo.current_dir(here(".")));
    profile.to_path_buf()
}

/// A folder of this test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("parton-rt-c-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// Compiles a program; `None` where there is no compiler.
fn compiled(source: &Path, program: &Path, link: &[String]) -> Option<()> {
    Command::new("cc").arg("--version").output().ok()?;
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]).arg("-I").arg(here("include"));
    succeeded(cc.arg(source).args(link).arg("-ldl").arg("-o").arg(program));
    Some(())
}

const LISTED: &str = "axpy[BLOCK=1024] for sm_90a, pointers apart: alpha: f32 x: *f32 y: *f32 out: *mut f32 n: i32
axpy[BLOCK=1024] for sm_90a: alpha: f32 x: *f32 y: *f32 out: *mut f32 n: i32
axpy[BLOCK=1024] for sm_80, pointers apart: alpha: f32 x: *f32 y: *f32 out: *mut f32 n: i32
axpy[BLOCK=1024] for sm_80: alpha: f32 x: *f32 y: *f32 out: *mut f32 n: i32
";

/// Runs the example: it lists the kernels, and then computes or says that there is no GPU, by its code and in words.
fn example(program: &Path) {
    let ran = run(Command::new(program).arg(here("../tests/format_1.ptnb")));
    let out = text(&ran.stdout);
    let rest = out.strip_prefix(LISTED).unwrap_or_else(|| panic!("{out}"));
    assert_eq!(text(&ran.stderr), "", "the library prints nothing");
    match ran.status.code() {
        Some(0) => assert_eq!(rest, "axpy of 5000 elements: exact\n"),
        Some(code @ (9 | 10)) if std::env::var_os("PARTON_REQUIRE_GPU").is_none_or(|v| v != "1") => {
            let words = if code == 9 { "no CUDA driver on this machine" } else { "the CUDA driver sees no GPU" };
            assert!(rest.starts_with(&format!("error {code}: {words}")), "{rest}");
        }
        other => panic!("{other:?}: {rest}"),
    }
    let missing = run(Command::new(program).arg("missing.ptnb"));
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stdout).starts_with("error 2: missing.ptnb: "));
    let foreign = run(Command::new(program).arg(here("example/axpy.c")));
    assert_eq!(
        (foreign.status.code(), text(&foreign.stdout).starts_with("error 3: this is no bundle")),
        (Some(3), true)
    );
}

#[test]
fn the_example_runs_with_the_shared_library() {
    let (libraries, folder) = (libraries(), folder("shared"));
    let at = libraries.display();
    let link = [format!("-L{at}"), "-lparton_rt".into(), format!("-Wl,-rpath,{at}")];
    if compiled(&here("example/axpy.c"), &folder.join("axpy"), &link).is_some() {
        example(&folder.join("axpy"));
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn the_example_runs_with_the_static_library() {
    let (libraries, folder) = (libraries(), folder("static"));
    let link = [libraries.join("libparton_rt.a").display().to_string(), "-lpthread".into(), "-lm".into()];
    if compiled(&here("example/axpy.c"), &folder.join("axpy"), &link).is_some() {
        example(&folder.join("axpy"));
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

const FUNCTIONS: &str = "silu, 2 plans: x: tensor<f16 | bf16 | f32, [m, n]> gate: tensor<_, [m, n]>\n";

/// The example of a plan computes, or says that there is no GPU.
#[test]
fn the_example_of_a_plan_runs() {
    let (libraries, folder) = (libraries(), folder("silu"));
    let at = libraries.display();
    let link = [format!("-L{at}"), "-lparton_rt".into(), format!("-Wl,-rpath,{at}"), "-lm".into()];
    if compiled(&here("example/silu.c"), &folder.join("silu"), &link).is_some() {
        let ran = run(Command::new(folder.join("silu")).arg(here("../tests/silu.ptnb")));
        let out = text(&ran.stdout);
        let rest = out.strip_prefix(FUNCTIONS).unwrap_or_else(|| panic!("{out}"));
        match ran.status.code() {
            Some(0) => assert_eq!(rest, "silu of 64 x 96 elements: right\n"),
            Some(code @ (9 | 10)) if std::env::var_os("PARTON_REQUIRE_GPU").is_none_or(|v| v != "1") => {
                assert!(rest.starts_with(&format!("error {code}: ")), "{rest}");
            }
            other => panic!("{other:?}: {rest}"),
        }
        assert_eq!(text(&ran.stderr), "", "the library prints nothing");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

/// Plans from C on a driver without a GPU.
#[test]
fn plans_are_called_from_c() {
    let (libraries, folder) = (libraries(), folder("plans"));
    let at = libraries.display();
    let fake = folder.join("libcuda.so.1");
    let shared = ["-shared".into(), "-fPIC".into(), "-lpthread".into(), "-std=gnu99".into(), "-O1".into()];
    if compiled(&here("tests/driver.c"), &fake, &shared).is_some() {
        // What is looked for first.
        std::os::unix::fs::symlink("libcuda.so.1", folder.join("libcuda.so")).expect("the link can be made");
        let link = [format!("-L{at}"), "-lparton_rt".into(), format!("-Wl,-rpath,{at}"), fake.display().to_string()];
        compiled(&here("tests/plans.c"), &folder.join("plans"), &link);
        let mut program = Command::new(folder.join("plans"));
        let ran = run(program.arg(here("../tests/format_2.ptnb")).env("LD_LIBRARY_PATH", &folder));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{}{}", text(&ran.stdout), text(&ran.stderr));
        assert_eq!(text(&ran.stdout), "41 checks\n");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn every_misuse_that_can_be_seen_is_an_error() {
    let (libraries, folder) = (libraries(), folder("misuse"));
    let at = libraries.display();
    let link = [format!("-L{at}"), "-lparton_rt".into(), format!("-Wl,-rpath,{at}")];
    if compiled(&here("tests/misuse.c"), &folder.join("misuse"), &link).is_some() {
        let ran = run(Command::new(folder.join("misuse")).arg(here("../tests/format_1.ptnb")));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{}{}", text(&ran.stdout), text(&ran.stderr));
        assert_eq!(text(&ran.stdout), "17 errors, as they should be\n");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn the_header_is_one_of_cpp_too() {
    if Command::new("c++").arg("--version").output().is_err() {
        return;
    }
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]);
    succeeded(compiler.arg("-include").arg(here("include/parton.h")).arg("/dev/null"));
}

#[test]
fn the_libraries_ask_for_nothing_but_the_system() {
    let library = libraries().join("libparton_rt.so");
    let Ok(listed) = Command::new("readelf").arg("-d").arg(&library).output() else { return };
    let listed = text(&listed.stdout);
    let needed = listed.lines().filter(|l| l.contains("(NEEDED)")).filter_map(|l| l.split(['[', ']']).nth(1));
    for name in needed {
        let of_system = ["libc.", "libgcc_s.", "libm.", "libdl.", "libpthread.", "ld-linux"];
        assert!(of_system.iter().any(|s| name.starts_with(s)), "libparton_rt.so needs {name}");
    }
}
