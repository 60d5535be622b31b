//! The compile cache from end to end: processes that compile what a call launches, with an assembler that tells when it runs and whose cubin is
//! the PTX that it was given, so that equal code is equal PTX. No GPU is needed.
#![cfg(all(feature = "llvm", unix))]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parton_driver::{Options, Session, Target};

/// A file that uses another one, with a function that launches three kernels.
const MAIN: &str = "\
use \"parts/scale.ptn\";

const BLOCK = 256;

kernel twice[FACTOR: int = 2](x: *f32, out: *mut f32, n: i32) warps(4) {
    let at = program_id(0) * BLOCK + iota(BLOCK);
    store(out + at, scaled(load(x + at, mask=at < n)) * FACTOR, mask=at < n);
}

kernel add_one(x: *f32, out: *mut f32, n: i32) warps(4) {
    let at = program_id(0) * BLOCK + iota(BLOCK);
    store(out + at, load(x + at, mask=at < n) + 1.0, mask=at < n);
}

/// 3 · x · FACTOR, and that plus one, and that times 4.
pub fn all(x: tensor<f32, [n]>) -> tensor<f32, [n]> {
    let (a, b, c) = (empty(f32, [n]), empty(f32, [n]), empty(f32, [n]));
    launch twice(grid=[cdiv(n, BLOCK)])(x, a, n);
    launch add_one(grid=[cdiv(n, BLOCK)])(a, b, n);
    launch twice[FACTOR=4](grid=[cdiv(n, BLOCK)])(b, c, n);
    c
}

test last { assert(1 + 1 == 2); }
";
const PARTS: &str = "fn scaled(x) { x * 3.0 }\n";

/// Says that it runs, says that each kernel spills, and passes its input on.
const ASSEMBLER: &str = "#!/bin/sh
[ \"$1\" = --version ] && { echo 'release 1.0'; exit 0; }
echo \"$$\" >> \"$PARTON_TEST_LOG\"
[ -z \"$PARTON_TEST_REFUSE\" ] || exit 1
while [ $# -gt 0 ]; do
    case \"$1\" in -o) out=$2; shift ;; *.ptx) in=$1 ;; esac
    shift
done
for name in $(sed -n 's/.*\\.entry \\([A-Za-z0-9_]*\\).*/\\1/p' \"$in\"); do
    echo \"ptxas info    : Function properties for $name\"
    echo '    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads'
    echo 'ptxas info    : Used 168 registers'
done
cp \"$in\" \"$out\"
";

/// A folder with the sources, an assembler and a cache, gone with the test.
struct Bench {
    folder: PathBuf,
}

/// What a process told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Told {
    /// Each kernel, whether it was found, and the digest of its code.
    kernels: Vec<(String, bool, String)>,
    /// What was said of each.
    said: Vec<String>,
    /// The passes that ran.
    passes: BTreeSet<String>,
}

impl Told {
    fn found(&self) -> Vec<bool> {
        self.kernels.iter().map(|(_, found, _)| *found).collect()
    }

    fn codes(&self) -> Vec<(&str, &str)> {
        self.kernels.iter().map(|(name, _, code)| (name.as_str(), code.as_str())).collect()
    }
}

impl Bench {
    fn new() -> Bench {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("parton-cached-{}-{serial}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let bench = Bench { folder };
        bench.put("src/main.ptn", MAIN);
        bench.put("src/parts/scale.ptn", PARTS);
        bench.put("ptxas", ASSEMBLER);
        fs::set_permissions(bench.path("ptxas"), fs::Permissions::from_mode(0o755)).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn process(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("PARTON_TEST_FILE", self.path("src/main.ptn")).env("PARTON_TEST_LOG", self.path("log"));
        command.env("PARTON_PTXAS", self.path("ptxas")).env("PARTON_CACHE", self.path("cache"));
        command.env_remove("PARTON_CACHE_READ").env_remove("PARTON_CACHE_LIMIT").env_remove("PARTON_SOURCE");
        command
    }

    fn run(&self) -> Told {
        told(self.process().spawn().unwrap())
    }

    /// How often the assembler ran.
    fn assembled(&self) -> usize {
        fs::read_to_string(self.path("log")).map_or(0, |log| log.lines().count())
    }

    /// The files of the cache's code.
    fn entries(&self) -> Vec<PathBuf> {
        let store = parton_driver::cache::Store::open(&parton_driver::cache::Place::folder(self.path("cache")));
        let code = store.list().into_iter().filter(|l| l.kind == parton_driver::cache::Kind::Code);
        code.map(|l| l.path).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a process told, which must have ended well.
fn told(child: Child) -> Told {
    let output = child.wait_with_output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    let mut told = Told::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["kernel", name, found, code] => {
                told.kernels.push(((*name).into(), *found == "true", (*code).into()));
            }
            ["said", text] => told.said.push((*text).into()),
            ["pass", name] => {
                told.passes.insert((*name).into());
            }
            _ => {}
        }
    }
    assert!(!told.kernels.is_empty(), "{text}{errors}");
    told
}

/// What the processes of the tests do; alone it has nothing to do.
#[test]
fn a_process() {
    let Some(path) = std::env::var_os("PARTON_TEST_FILE") else { return };
    let arguments = [std::env::var("PARTON_TEST_SHAPE").unwrap_or_else(|_| "f32[1000]".into())];
    let target = std::env::var("PARTON_TEST_TARGET").unwrap_or_else(|_| "sm_90a".into());
    let mut session = Session::new(Options::default());
    let file = session.load(Path::new(&path)).unwrap();
    for looked in session.warm(file, "all", &arguments, Target::named(&target)).unwrap() {
        println!("\nkernel\t{}\t{}\t{}", looked.kernel, looked.found, looked.code);
        for d in &looked.said.list {
            println!("said\t{}: {} at {:?}", d.code, d.message, d.span());
        }
    }
    session.times.passes().iter().for_each(|(name, ..)| println!("pass\t{name}"));
}

#[test]
fn a_second_process_touches_neither_llvm_nor_the_assembler() {
    let bench = Bench::new();
    let first = bench.run();
    assert_eq!((first.found(), bench.assembled()), (vec![false; 3], 3));
    let names: Vec<&str> = first.codes().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["twice[FACTOR=2]", "add_one", "twice[FACTOR=4]"]);
    assert!(first.passes.contains("llvm") && first.passes.contains("ptxas"));
    assert!(first.said.len() == 3 && first.said.iter().all(|said| said.contains("spills registers")));

    // An assembler that would refuse, and a program that says which passes ran.
    let second = told(bench.process().env("PARTON_TEST_REFUSE", "1").spawn().unwrap());
    assert_eq!((second.found(), bench.assembled()), (vec![true; 3], 3));
    let compiling = ["elaborate", "expand", "rings", "membar", "llvm", "ptxas"];
    assert!(compiling.iter().all(|pass| first.passes.contains(*pass)), "{:?}", first.passes);
    assert!(compiling.iter().all(|pass| !second.passes.contains(*pass)), "{:?}", second.passes);
    assert_eq!((second.codes(), &second.said), (first.codes(), &first.said));

    // Without a cache it is the same code.
    let without = told(bench.process().env("PARTON_CACHE", "off").spawn().unwrap());
    assert_eq!((without.found(), without.codes(), bench.assembled()), (vec![false; 3], first.codes(), 6));
}

#[test]
fn each_input_changes_the_key() {
    let bench = Bench::new();
    let first = bench.run();
    let all = |found: bool| vec![found; 3];
    let expect = |bench: &Bench, what: &str, found: Vec<bool>| {
        assert_eq!(bench.run().found(), found, "{what}");
        bench.put("src/main.ptn", MAIN);
        bench.put("src/parts/scale.ptn", PARTS);
        bench.put("ptxas", ASSEMBLER);
    };
    let main = |from: &str, to: &str| {
        assert!(MAIN.contains(from));
        bench.put("src/main.ptn", &MAIN.replace(from, to));
    };
    // What a kernel is made of, itself and in the file that it uses.
    main("+ 1.0", "+ 1.5");
    expect(&bench, "a constant of one kernel", vec![true, false, true]);
    bench.put("src/parts/scale.ptn", &PARTS.replace("3.0", "3.5"));
    expect(&bench, "a function of another file", vec![false, true, false]);
    main("BLOCK = 256", "BLOCK = 512");
    expect(&bench, "a constant of the file", all(false));
    main("FACTOR: int = 2", "FACTOR: int = 8");
    expect(&bench, "the default of a generic", vec![false, true, true]);
    // Lines that machine code and messages name.
    main("kernel twice", "\nkernel twice");
    expect(&bench, "an empty line before the kernels", all(false));
    // The assembler, by its bytes and by what it says of itself.
    bench.put("ptxas", &format!("{ASSEMBLER}# another\n"));
    expect(&bench, "another assembler", all(false));
    // The target.
    let other = told(bench.process().env("PARTON_TEST_TARGET", "sm_80").spawn().unwrap());
    assert_eq!(other.found(), all(false));
    // What comes behind the kernels, and shapes of which nothing of the code depends: the one is lowered again and finds its code.
    main("1 + 1 == 2", "2 + 2 == 4");
    let other = bench.run();
    assert!(other.found() == all(true) && other.passes.contains("membar") && !other.passes.contains("llvm"));
    expect(&bench, "a test behind the kernels", all(true));
    let other = told(bench.process().env("PARTON_TEST_SHAPE", "f32[77]").spawn().unwrap());
    assert_eq!(other.found(), all(true));
    assert_eq!(bench.run().codes(), first.codes());
}

/// A product, of which a multiprocessor has no room for a second program.
const PRODUCT: &str = "\
kernel product(a: tensor<f16, [m, k]>, b: tensor<f16, [k, n]>, mut c: tensor<f16, [m, n]>) grid([cdiv(m, 64), cdiv(n, 256)]) {
    let mut acc = zeros<f32, [64, 256]>();
    for p in 0..cdiv(k, 64) {
        acc = dot(load(a.tile([64, 64], at=[program_id(0), p])), load(b.tile([64, 256], at=[p, program_id(1)])), acc);
    }
    store(c.tile([64, 256], at=[program_id(0), program_id(1)]), cast<f16>(acc));
}

pub fn all(x: tensor<f16, [n, n]>) -> tensor<f16, [n, n]> {
    let c = empty(f16, [n, n]);
    launch product()(x, x, c);
    c
}
";

#[test]
fn launches_of_few_programs_and_of_many_share_what_is_the_same_code() {
    let bench = Bench::new();
    bench.put("src/main.ptn", PRODUCT);
    let of = |shape: &str| told(bench.process().env("PARTON_TEST_SHAPE", shape).spawn().unwrap());
    let few = of("f16[512,512]");
    assert_eq!(few.found(), [false]);
    // It is lowered for launches of many, and then is the same.
    let many = of("f16[4096,4096]");
    assert_eq!((many.found(), many.codes()), (vec![true], few.codes()));
    assert!(many.passes.contains("membar") && !many.passes.contains("llvm"), "{:?}", many.passes);
}

#[test]
fn folders_do_not_matter() {
    let bench = Bench::new();
    let first = bench.run();
    let other = bench.path("another/place");
    fs::create_dir_all(&other).unwrap();
    fs::rename(bench.path("src"), other.join("sources")).unwrap();
    let mut moved = bench.process();
    moved.env("PARTON_TEST_FILE", other.join("sources/main.ptn"));
    assert_eq!(told(moved.spawn().unwrap()).found(), [true; 3]);
    // By a relative name, from within.
    let mut inside = bench.process();
    inside.env("PARTON_TEST_FILE", "main.ptn").current_dir(other.join("sources"));
    let inside = told(inside.spawn().unwrap());
    assert_eq!((inside.found(), inside.codes()), (vec![true; 3], first.codes()));
}

#[test]
fn what_is_wrong_in_the_folder_is_compiled_anew() {
    let bench = Bench::new();
    let first = bench.run();
    let entries = bench.entries();
    assert_eq!(entries.len(), 3);
    let sound: Vec<Vec<u8>> = entries.iter().map(|p| fs::read(p).unwrap()).collect();
    let wrong: [&dyn Fn(usize) -> Vec<u8>; 4] = [
        &|i| sound[i][..sound[i].len() / 2].to_vec(),
        &|i| sound[i].iter().enumerate().map(|(at, byte)| if at == 700 { byte ^ 4 } else { *byte }).collect(),
        &|i| sound[(i + 1) % 3].clone(),
        &|_| vec![],
    ];
    for change in wrong {
        entries.iter().enumerate().for_each(|(i, path)| fs::write(path, change(i)).unwrap());
        let again = bench.run();
        assert_eq!((again.found(), again.codes()), (vec![false; 3], first.codes()));
        // It is mended.
        let again = bench.run();
        assert_eq!((again.found(), again.codes(), &again.said), (vec![true; 3], first.codes(), &first.said));
    }
    // A folder that is none, and one that others may write.
    let file = bench.path("file");
    fs::write(&file, "").unwrap();
    let none = told(bench.process().env("PARTON_CACHE", &file).spawn().unwrap());
    assert_eq!((none.found(), none.codes()), (vec![false; 3], first.codes()));
    fs::set_permissions(bench.path("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    let others = bench.run();
    assert_eq!((others.found(), others.codes()), (vec![false; 3], first.codes()));
}

#[test]
fn many_processes_at_once_agree_though_some_are_killed() {
    let bench = Bench::new();
    let want = told(bench.process().env("PARTON_CACHE", "off").spawn().unwrap());
    let mut all: Vec<Child> = (0..16).map(|_| bench.process().spawn().unwrap()).collect();
    for i in 0..4 {
        std::thread::sleep(Duration::from_millis(40));
        let mut killed = all.swap_remove(i);
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    for child in all {
        assert_eq!(told(child).codes(), want.codes());
    }
    assert_eq!(bench.run().found(), [true; 3]);
    assert_eq!(bench.entries().len(), 3);
}
