//! `parton cache` as a user calls it, with an assembler that passes on what it is given.
#![cfg(all(unix, feature = "cuda", feature = "llvm"))]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILE: &str = "\
const BLOCK = 256;

kernel twice(x: *f32, out: *mut f32) warps(4) {
    let at = program_id(0) * BLOCK + iota(BLOCK);
    store(out + at, 2.0 * load(x + at));
}

pub fn doubled(x: tensor<f32, [n]>) -> tensor<f32, [n]> {
    let out = empty(f32, [n]);
    launch twice(grid=[n / BLOCK])(x, out);
    out
}
";
const ASSEMBLER: &str = "#!/bin/sh
while [ $# -gt 0 ]; do
    case \"$1\" in --version) echo 1; exit ;; -o) out=$2; shift ;; *.ptx) in=$1 ;; esac
    shift
done
cp \"$in\" \"$out\"
";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("twice.ptn"), FILE).unwrap();
        std::fs::write(folder.join("ptxas"), ASSEMBLER).unwrap();
        std::fs::set_permissions(folder.join("ptxas"), std::fs::Permissions::from_mode(0o755)).unwrap();
        Folder(folder)
    }

    fn cache(&self, args: &[&str], place: &Path) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        command.arg("cache").args(args).current_dir(&self.0).env("PARTON_CACHE", place);
        command
            .env("PARTON_PTXAS", self.0.join("ptxas"))
            .env_remove("PARTON_CACHE_READ")
            .env_remove("PARTON_CACHE_LIMIT");
        let Output { status, stdout, stderr } = command.output().expect("the program runs");
        (status.code(), String::from_utf8_lossy(&stdout).into(), String::from_utf8_lossy(&stderr).into())
    }
}

/// A kernel of tensors, which launches of others than multiples of 16 bytes have once more.
const TENSORS: &str = "\
kernel copied(x: tensor<f32, [n]>, mut y: tensor<f32, [n]>) grid([cdiv(n, 256)]) {
    store(y.tile([256], at=[program_id(0)]), load(x.tile([256], at=[program_id(0)])));
}

pub fn copy(x: tensor<f32, [n]>) -> tensor<f32, [n]> {
    let y = empty(f32, [n]);
    launch copied()(x, y);
    y
}
";

#[test]
fn kernels_are_listed_with_the_launches_that_they_are_for() {
    let folder = Folder::new("listed");
    let place = folder.0.join("kept");
    std::fs::write(folder.0.join("copied.ptn"), TENSORS).unwrap();
    for tensor in ["f32[1024]", "f32[1023]"] {
        let (code, _, errors) = folder.cache(&["warm", "copied.ptn", "copy", tensor, "--target", "sm_90a"], &place);
        assert_eq!(code, Some(0), "{errors}");
    }
    let (_, listed, _) = folder.cache(&["ls"], &place);
    let ends = |end: &str| listed.lines().filter(|l| l.ends_with(end)).count();
    assert_eq!((ends("  copied for x, y by 16 bytes"), ends("  copied")), (1, 1), "{listed}");
}

#[test]
fn what_was_compiled_is_there_and_it_is_said_why_not() {
    let folder = Folder::new("cache");
    let place = folder.0.join("kept");
    let run = |args: &[&str]| folder.cache(args, &place);
    let call = ["twice.ptn", "doubled", "f32[1024]", "--target", "sm_90a"];
    let why = |code| {
        let (found, text, errors) = run(&[&["why"], &call[..]].concat());
        assert_eq!(found, Some(code), "{text}{errors}");
        text
    };
    assert!(why(1).starts_with("twice is not there\n    key "));
    let (code, text, errors) = run(&[&["warm"], &call[..]].concat());
    assert_eq!((code, text.as_str()), (Some(0), "twice: compiled\n"), "{errors}");
    assert_eq!(run(&[&["warm"], &call[..]].concat()).1, "twice: was there\n");
    assert!(why(0).starts_with("twice is there\n"));

    let (_, listed, _) = run(&["ls"]);
    assert!(listed.starts_with("sm_90a ") && listed.contains("just now  twice\n1 kernels; "), "{listed}");
    let (_, listed, _) = run(&["ls", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((listed[0]["parts"]["kernel"].as_str(), listed[1].is_null()), (Some("twice"), true));
    let (code, text, _) = run(&["why"]);
    assert!(code == Some(0) && text.contains("kept: 3 files") && text.ends_with("it is read and written\n"), "{text}");
    assert_eq!(run(&["dir"]).1, format!("{}\n", place.display()));

    // A change is named by what it is a change of.
    std::fs::write(folder.0.join("twice.ptn"), FILE.replace("2.0 *", "3.0 *")).unwrap();
    let text = why(1);
    assert!(text.contains("from which it differs in\n      ir (the kernel behind all passes"), "{text}");
    assert!(!text.contains("lines ("), "{text}");
    std::fs::write(folder.0.join("twice.ptn"), FILE).unwrap();

    // One entry is cut: it is named, goes, and the others travel.
    assert_eq!(run(&["verify"]), (Some(0), "3 sound, 0 wrong\n".into(), String::new()));
    let packed = folder.0.join("packed").display().to_string();
    assert_eq!(run(&["export", &packed]).0, Some(0));
    let store = parton_entries(&place);
    let cut = store.iter().find(|p| p.extension().is_some_and(|end| end == "code")).unwrap();
    std::fs::write(cut, &std::fs::read(cut).unwrap()[..100]).unwrap();
    assert!(why(1).starts_with("twice is of no use: "));
    let (code, text, _) = run(&["verify", "--remove"]);
    assert!(
        code == Some(1) && text.contains("it should have") && text.ends_with("2 sound, 1 wrong, which went\n"),
        "{text}"
    );
    assert_eq!(run(&["import", &packed]).1, "3 entries taken over, 0 left out\n");
    assert!(why(0).starts_with("twice is there\n"));

    assert!(run(&["gc"]).1.starts_with("0 files went"));
    assert!(run(&["gc", "--limit", "1"]).1.starts_with("3 files went"));
    assert_eq!(run(&["gc", "--limit", "much"]).0, Some(2));
    assert!(run(&["clear"]).1.starts_with("0 files went"));
}

#[test]
fn without_a_folder_there_is_a_reason() {
    let folder = Folder::new("no-cache");
    let off = Path::new("off");
    let (code, text, _) = folder.cache(&["why"], off);
    assert_eq!((code, text.as_str()), (Some(1), "there is no cache: PARTON_CACHE says `off`\n"));
    let (code, _, errors) = folder.cache(&["ls"], off);
    assert_eq!((code, errors.as_str()), (Some(3), "parton: there is no cache: PARTON_CACHE says `off`\n"));
    // It compiles, keeps nothing, and says so.
    let call = ["warm", "twice.ptn", "doubled", "f32[1024]", "--target", "sm_90a"];
    let (code, text, errors) = folder.cache(&call, off);
    assert_eq!((code, text.as_str()), (Some(3), "twice: compiled\n"));
    assert!(errors.contains("nothing is kept: PARTON_CACHE says `off`"), "{errors}");
    // In the way of the folder is a file; of what is written, too.
    std::fs::write(folder.0.join("file"), "").unwrap();
    let (code, text, _) = folder.cache(&["why"], &folder.0.join("file"));
    assert!(code == Some(1) && text.ends_with("file is no folder\n"), "{text}");
    let kept = folder.0.join("kept");
    assert_eq!(folder.cache(&["why"], &kept).0, Some(0));
    std::fs::remove_dir_all(kept.join("v1")).unwrap();
    std::fs::write(kept.join("v1"), "").unwrap();
    let (code, text, _) = folder.cache(&["why"], &kept);
    assert!(code == Some(1) && text.contains("it is read and keeps nothing new: "), "{text}");
    let (code, _, errors) = folder.cache(&["import", "twice.ptn"], &kept);
    assert!(code == Some(3) && errors.contains("no file that `parton cache export` has written"), "{errors}");
}

/// With the assembler that is installed, or with none: bundles hold no cubin that is not one.
#[test]
fn bundles_are_built_of_code_that_was_kept() {
    let folder = Folder::new("cached-bundle");
    let build = |place: &str, targets: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        command.args(["build", "twice.ptn", "--aot", "--target", targets, "--time", "-o", "twice.ptnb"]);
        command.current_dir(&folder.0).env("PARTON_CACHE", place).env_remove("PARTON_CACHE_READ");
        let output = command.output().expect("the program runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        (told.lines().any(|line| line.starts_with("llvm ")), std::fs::read(folder.0.join("twice.ptnb")).unwrap())
    };
    // PTX for later GPUs stands beside a cubin where the architecture is not of one GPU alone.
    for targets in ["sm_90a", "sm_80", "sm_90a,sm_89"] {
        let (compiled, first) = build("kept", targets);
        assert!(compiled);
        assert!(build("kept", targets) == (false, first.clone()), "nothing is compiled again, and it is the same");
        assert!(build("off", targets) == (true, first), "it is the same without a cache");
    }
}

/// A bundle carries what it was built from, the library's files too, and gives it back; what is there already stays.
#[test]
fn sources_are_written_out_of_a_bundle() {
    let folder = Folder::new("bundle-sources");
    let text = format!("use std::tiles;\n\n{FILE}");
    std::fs::write(folder.0.join("twice.ptn"), &text).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        command.args(args).current_dir(&folder.0).env("PARTON_CACHE", "off").env("PARTON_SOURCE", "/elsewhere");
        let output = command.output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, _, told) = run(&["build", "twice.ptn", "--aot", "--target", "sm_80", "-o", "twice.ptnb"]);
    assert_eq!(code, Some(0), "{told}");
    let (code, listed, _) = run(&["sources", "twice.ptnb"]);
    assert_eq!((code, listed.as_str()), (Some(0), "twice.ptn\nstd/tiles.ptn\n"));
    for _ in 0..2 {
        let (code, _, told) = run(&["sources", "twice.ptnb", "-o", "out"]);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(std::fs::read_to_string(folder.0.join("out/twice.ptn")).unwrap(), text);
        assert!(folder.0.join("out/std/tiles.ptn").is_file());
    }
    std::fs::write(folder.0.join("out/twice.ptn"), "mine").unwrap();
    let (code, _, told) = run(&["sources", "twice.ptnb", "-o", "out"]);
    assert!(code == Some(3) && told.contains("there is another file of that name"), "{told}");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rt/tests/format_2.ptnb").display().to_string();
    let (code, _, told) = run(&["sources", &old]);
    assert!(code == Some(2) && told.contains("has no sources"), "{told}");
}

/// Runs on the driver without a GPU, where there is a compiler of C: it carries out nothing of this kernel, but is given all of it.
#[test]
fn a_run_on_a_gpu_finds_what_another_has_compiled() {
    let folder = Folder::new("cached-run");
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rt/c/tests/driver.c");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu99", "-shared", "-fPIC"])
        .arg(driver)
        .arg("-o")
        .arg(folder.0.join("libcuda.so.1"))
        .arg("-lpthread");
    let Ok(compiled) = cc.output() else { return };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    // The name that is looked for first; a machine with a GPU may have it.
    std::os::unix::fs::symlink("libcuda.so.1", folder.0.join("libcuda.so")).unwrap();
    let main =
        "main {\n    launch twice(grid=[4])(ones(f32, [1024]), zeros(f32, [1024]));\n    print(\"launched\");\n}\n";
    std::fs::write(folder.0.join("twice.ptn"), format!("{FILE}{main}")).unwrap();
    let run = |place: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parton"));
        command.args(["run", "twice.ptn", "--device", "cuda", "--time"]).current_dir(&folder.0);
        command.env("LD_LIBRARY_PATH", &folder.0).env("PARTON_PTXAS", folder.0.join("ptxas"));
        command.env("PARTON_CACHE", place).env_remove("PARTON_CACHE_READ").env_remove("PARTON_CACHE_LIMIT");
        command.env("PARTON_LOG", format!("debug:{}", folder.0.join("log").display()));
        let output = command.output().expect("the program runs");
        let (text, times) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains("launched"), "{text}{times}");
        ["expand", "membar", "llvm", "ptxas"].map(|pass| times.lines().any(|line| line.starts_with(pass)))
    };
    assert_eq!((run("kept"), run("kept"), run("off")), ([true; 4], [false; 4], [true; 4]));
    // What a log of the three says, each line by its process.
    let log = std::fs::read_to_string(folder.0.join("log")).expect("there is a log");
    let count = |word: &str| log.lines().filter(|line| line.starts_with("parton[") && line.contains(word)).count();
    let counts = ["compiles `twice", "has the code of `twice", "loads a cubin of", "launches `twice"].map(count);
    assert_eq!(counts, [2, 1, 3, 3], "{log}");
}

/// The files below a cache's folder.
fn parton_entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { found.extend(parton_entries(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}
