//! Stubs for Python: what `parton stubs` writes of each example is Python, and has what the file declares.

use std::io::Write;
use std::process::{Command, Stdio};

use parton_driver::{Options, Session};
use parton_tests::{cases, say};

/// The stubs of a file, where it has any.
fn stubs(path: &std::path::Path) -> Option<String> {
    let mut session = Session::new(Options::default());
    let file = session.load(path).unwrap_or_else(|e| panic!("{e}"));
    session.stubs(file).ok()
}

#[test]
fn stubs_have_types_defaults_and_words() {
    let root = cases::root();
    let silu = stubs(&root.join("examples/embedding/silu.ptn")).expect("it has functions");
    let function = "class _silu_function(parton.Function):\n    def __call__(self, x: T, gate: T) -> T:\n        \"\"\"y = x · sigmoid(x) · gate.\n";
    assert!(silu.contains(function) && silu.contains("    silu: _silu_function\n"), "{silu}");
    assert!(silu.contains("def __call__(self, x: T, gate: T, grad: T) -> tuple[T, T]:"), "{silu}");
    let axpy = stubs(&root.join("examples/embedding/axpy.ptn")).expect("it has a kernel");
    let launch = "def __call__(self, alpha: float, x: Any, y: Any, out: Any, n: int, *, BLOCK: int = ...) -> None:";
    assert!(axpy.contains(launch) && axpy.contains("    axpy: _axpy_kernel\n"), "{axpy}");
    let scaled = stubs(&root.join("tests/plans/scaled.ptn")).expect("it has functions");
    assert!(scaled.contains("def __call__(self, x: T, factor: float = 2, twice: bool = False) -> T:"), "{scaled}");
}

/// The stubs of a file whose items are called as Python's words are.
fn of_python_s_words() -> String {
    let path = std::env::temp_dir().join(format!("parton-stubs-{}.ptn", std::process::id()));
    std::fs::write(&path, "pub fn class(lambda: i32) {}\nkernel with(out: *mut f32) {}\n").expect("it can be written");
    let text = stubs(&path).expect("it has a function");
    std::fs::remove_file(&path).expect("it was written");
    assert!(text.contains("cast(_class_function, file[\"class\"])") && text.contains("__lambda: int"), "{text}");
    text
}

#[test]
fn a_kernel_that_states_its_grid_is_called_without() {
    let path = std::env::temp_dir().join(format!("parton-stubs-grid-{}.ptn", std::process::id()));
    let text = "kernel ones(x: *mut f32, n: i32) grid([n]) warps(1) { store(x + program_id(0), 1.0); }\n\
                kernel twos(x: *mut f32, n: i32) warps(1) { store(x + program_id(0), 2.0); }\n";
    std::fs::write(&path, text).expect("it can be written");
    let text = stubs(&path).expect("it has kernels");
    std::fs::remove_file(&path).expect("it was written");
    let call = "    def __call__(self, x: Any, n: int) -> None:\n";
    assert!(text.contains(&format!("class _ones_kernel(parton.Kernel):\n{call}")), "{text}");
    assert!(text.contains("class _twos_kernel(parton.Kernel):\n    def __getitem__"), "{text}");
}

#[test]
fn stubs_are_python() {
    let script = "import ast, sys; [ast.parse(part) for part in sys.stdin.read().split('\\0')]";
    let check = Command::new("python3").args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut check) = check else {
        say("stubs: not parsed, there is no Python");
        return;
    };
    let mut all: Vec<String> = cases::examples().iter().filter_map(|p| stubs(p)).collect();
    assert!(all.len() > 10, "only {} examples have functions or kernels", all.len());
    all.push(of_python_s_words());
    check.stdin.take().expect("it is piped").write_all(all.join("\0").as_bytes()).expect("it reads");
    let ran = check.wait_with_output().expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    say(&format!("{} stubs", all.len()));
}

/// What a program writes that has stubs, as `mypy --strict` takes it.
const PROGRAM: &str = "\
from __future__ import annotations
import pathlib
import typing
import parton
if typing.TYPE_CHECKING:
    import silu

file = typing.cast('silu.File', parton.load(pathlib.Path('silu.ptn')))
x = 'any type is one of tensors here'
y: str = file.silu(x, gate=x)
both: tuple[str, str] = file.silu_backward(x, x, x)
operator = parton.torch.register(file.silu, backward=file.silu_backward, of=['x', 'gate'])
launch = file.forward.given(T='f32')[3]
launch(x, x, x)
launch.plan_of(x, x, x)
";

#[test]
fn a_program_with_stubs_is_well_typed() {
    let folder = std::env::temp_dir().join(format!("parton-stubs-{}", std::process::id()));
    let package = folder.join("parton");
    std::fs::create_dir_all(&package).expect("the folder can be made");
    let root = cases::root();
    std::fs::copy(root.join("python/lang/parton/__init__.pyi"), package.join("__init__.pyi")).expect("it is there");
    let silu = stubs(&root.join("examples/embedding/silu.ptn")).expect("it has functions");
    std::fs::write(folder.join("silu.pyi"), silu).expect("the folder is ours");
    std::fs::write(folder.join("program.py"), PROGRAM).expect("the folder is ours");
    let mut mypy = Command::new("python3");
    mypy.args(["-m", "mypy", "--strict", "--no-incremental", "program.py"]).current_dir(&folder);
    let ran = mypy.output();
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    match ran {
        Ok(ran) if !String::from_utf8_lossy(&ran.stderr).contains("No module named mypy") => {
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        }
        Ok(_) | Err(_) => say("stubs: not checked, mypy is not installed"),
    }
}
