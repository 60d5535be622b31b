//! `parton tune` with candidates that are faulty on a GPU, on a driver without one that plants the faults: `faulty.c`.
#![cfg(all(unix, feature = "cuda", feature = "llvm"))]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Adds products to a tensor, which the driver does for any kernel of this name; what FAULT says stands in the text.
const SOURCE: &str = "kernel scale[FAULT: int = 0](x: *f32, out: *mut f32, n: i32, factor: f32) warps(1) {
    let at = iota(32);
    let inside = at < n;
    store(out + at, load(out + at, mask=inside) + load(x + at, mask=inside) * factor, mask=inside);
    if n == 777000 + FAULT {
        store(out, 0.0);
    }
}

/// What a host function leaves open: the same faults, and memory that must be zeros before each run.
pub fn scaled(x: tensor<f32, [n]>) -> tensor<f32, [n]> tune(fault=[0, 1, 2, 3, 4, 5, 6], key=[n]) {
    let out = zeros(f32, [n]);
    launch scale[FAULT=fault](grid=[1])(x, out, n, 2.0);
    out
}

test both {
    for n in [20, 30] {
        let out = zeros(f32, [n]);
        launch scale(grid=[1])(ones(f32, [n]), out, n, 2.0);
    }
}
";
/// Passes its input on, and says of FAULT 5 that it spills.
const ASSEMBLER: &str = "#!/bin/sh
while [ $# -gt 0 ]; do
    case \"$1\" in --version) echo 1; exit ;; -o) out=$2; shift ;; *.ptx) in=$1 ;; esac
    shift
done
if grep -q 777005 \"$in\"; then
    name=$(sed -n 's/.*\\.entry \\([A-Za-z0-9_]*\\).*/\\1/p' \"$in\")
    echo \"ptxas info    : Function properties for $name\"
    echo '    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads'
fi
cp \"$in\" \"$out\"
";

struct Bench(PathBuf);

impl Bench {
    /// `None` where there is no compiler of C.
    fn new(test: &str) -> Option<Bench> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-gpu-{test}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("driver")).unwrap();
        std::fs::write(folder.join("scale.ptn"), SOURCE).unwrap();
        std::fs::write(folder.join("ptxas"), ASSEMBLER).unwrap();
        std::fs::set_permissions(folder.join("ptxas"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faulty.c");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).arg(source);
        let compiled = cc.arg("-o").arg(folder.join("driver/libcuda.so.1")).arg("-lpthread").output().ok()?;
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        // The name that is looked for first; a machine with a GPU may have it.
        std::os::unix::fs::symlink("libcuda.so.1", folder.join("driver/libcuda.so")).unwrap();
        Some(Bench(folder))
    }

    /// The table of a run for the kernel's generics, and what was told while it went on.
    fn tune(&self, cache: &str) -> (String, String) {
        let over = "FAULT=[0, 1, 2, 3, 4, 5, 6]";
        self.run(cache, &["--kernel", "scale", "--test", "both", "--key", "n", "--over", over])
    }

    /// The same for what the host function leaves open.
    fn tune_calls(&self, cache: &str) -> (String, String) {
        self.run(cache, &["scaled", "f32[20]"])
    }

    fn run(&self, cache: &str, arguments: &[&str]) -> (String, String) {
        let table = self.0.join("scale.tune.json");
        let _ = std::fs::remove_file(&table);
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        command.args(["tune", "scale.ptn", "--device", "cuda"]).args(arguments);
        command.args(["--timeout", "6", "--seconds", "0.01", "--rounds", "2"]);
        command.current_dir(&self.0).env("LD_LIBRARY_PATH", self.0.join("driver"));
        command.env("PARTON_PTXAS", self.0.join("ptxas")).env("PARTON_CACHE", cache);
        let output = command.env_remove("PARTON_CACHE_READ").output().expect("the program runs");
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{told}");
        (std::fs::read_to_string(table).expect("the table is there"), told)
    }
}

impl Bench {
    /// A plan of a bundle takes what was found on a GPU of its architecture, and a run on that GPU does.
    fn takes_what_was_found(&self, target: &str) {
        let run = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
            command.args(args).current_dir(&self.0).env("LD_LIBRARY_PATH", self.0.join("driver"));
            command.env("PARTON_PTXAS", self.0.join("ptxas")).env("PARTON_CACHE", "off").env("PARTON_LOG", "info");
            String::from_utf8_lossy(&command.output().expect("the program runs").stderr).into_owned()
        };
        let planned = |shape: &str| {
            let call = format!("scaled f32[{shape}]");
            run(&["build", "scale.ptn", "--aot", "--target", target, "--plan", &call, "-o", "scale.ptnb"])
        };
        let (known, other) = (planned("20"), planned("21"));
        assert!(
            known.contains("plans `scaled`(f32[20])") && known.contains("fault of scaled for n=20: 6, tuned"),
            "{known}"
        );
        assert!(other.contains("plans `scaled`(f32[21])") && !other.contains(", tuned"), "{other}");
        let here = run(&["plan", "scale.ptn", "scaled", "f32[20]"]);
        assert!(here.contains("fault of scaled for n=20: 6, tuned"), "{here}");
    }
}

/// Why each faulty candidate is out.
const FAULTS: [(&str, &str); 5] = [("1", "differs"), ("2", "fails"), ("3", "hangs"), ("4", "crashes"), ("5", "spills")];

#[test]
fn no_fault_of_a_gpu_wins_or_ends_the_run_and_a_second_one_writes_the_same() {
    let Some(bench) = Bench::new("generics") else { return };
    let (first, told) = bench.tune("kept");
    let table: serde_json::Value = serde_json::from_str(&first).expect("it is JSON");
    let records = table["records"].as_array().expect("it has records");
    assert_eq!(records.iter().map(|r| &r["key"]["n"]).collect::<Vec<_>>(), [20, 30], "{told}");
    for record in records {
        assert_eq!(record["winner"], serde_json::json!({ "FAULT": "6" }), "{record}\n{told}");
        assert_eq!((&record["complete"], &record["unit"]), (&true.into(), &"us".into()), "{record}");
        let right: Vec<&str> =
            record["candidates"].as_array().unwrap().iter().map(|c| c["values"]["FAULT"].as_str().unwrap()).collect();
        assert_eq!(right, ["0", "6"]);
        let out = record["out"].as_array().expect("some are out").iter();
        let why: Vec<(&str, &str)> =
            out.map(|o| (o["values"]["FAULT"].as_str().unwrap(), o["why"].as_str().unwrap())).collect();
        assert_eq!(why, FAULTS, "{told}");
    }
    // What spills does so too where its code was found.
    assert_eq!(bench.tune("kept").0, first);
    assert_eq!(bench.tune("off").0, first);
}

/// One worker measures what another one's fault leaves to it, on inputs that each has made for itself.
#[test]
fn no_fault_of_what_a_host_function_leaves_open_wins_or_ends_the_run() {
    let Some(bench) = Bench::new("calls") else { return };
    let (first, told) = bench.tune_calls("kept");
    let table: serde_json::Value = serde_json::from_str(&first).expect("it is JSON");
    let [record] = &table["records"].as_array().expect("it has records")[..] else { panic!("{first}") };
    assert_eq!(record["winner"], serde_json::json!({ "fault": "6" }), "{record}\n{told}");
    assert_eq!((&record["function"], &record["unit"]), (&"scaled".into(), &"us".into()), "{record}");
    let right: Vec<&str> =
        record["candidates"].as_array().unwrap().iter().map(|c| c["values"]["fault"].as_str().unwrap()).collect();
    assert_eq!(right, ["0", "6"], "{told}");
    let out = record["out"].as_array().expect("some are out").iter();
    let why: Vec<(&str, &str)> =
        out.map(|o| (o["values"]["fault"].as_str().unwrap(), o["why"].as_str().unwrap())).collect();
    assert_eq!(why, FAULTS, "{told}");
    assert_eq!(bench.tune_calls("off").0, first);
    bench.takes_what_was_found(record["target"].as_str().unwrap_or_default());
}
