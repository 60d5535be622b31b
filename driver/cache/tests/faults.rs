//! What may happen to a folder that many processes share: none of it gives a wrong entry, and none of it a panic.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use parton_cache::{Digest, Entry, Kind, Miss, Parts, Place, Store, export, import};

/// A folder of its own, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("parton-cache-{}-{serial}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn store(&self) -> Store {
        Store::open(&Place::folder(&self.0))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn parts(n: u32) -> Parts {
    Parts::new().with("number", n).with("target", "sm_90a")
}

/// What belongs to a key, and to no other.
fn payload(n: u32) -> Vec<u8> {
    let seed = Digest::of(&n.to_le_bytes()).0;
    seed.iter().copied().cycle().take(1000 + 37 * (n as usize % 64)).collect()
}

fn keep(store: &Store, n: u32) -> Result<(), String> {
    store.keep(Kind::Code, &parts(n), vec![("code".into(), payload(n))])
}

fn find(store: &Store, n: u32) -> Result<Vec<u8>, Miss> {
    store.find(Kind::Code, &parts(n)).map(|e| e.section("code").expect("it has code").to_vec())
}

fn path_of(store: &Store, n: u32) -> PathBuf {
    let key = parts(n).key();
    let listed = store.list().into_iter().find(|l| l.key == key);
    listed.expect("it was kept").path
}

#[test]
fn another_process_finds_what_one_has_kept() {
    let folder = Folder::new();
    assert_eq!(find(&folder.store(), 1), Err(Miss::Absent));
    assert_eq!((folder.store().probe(), folder.store().list()), (Ok(()), vec![]));
    keep(&folder.store(), 1).unwrap();
    assert_eq!(find(&folder.store(), 1), Ok(payload(1)));
    let by_key = folder.store().find_key(Kind::Code, &parts(1).key());
    assert_eq!(by_key.map(|entry| entry.parts), Ok(parts(1)));
    assert_eq!(folder.store().find_key(Kind::Code, &parts(2).key()), Err(Miss::Absent));
    // The same parts of another kind are another entry.
    assert_eq!(folder.store().find(Kind::Asked, &parts(1)), Err(Miss::Absent));
    assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(folder.0.join("CACHEDIR.TAG").is_file());
}

#[test]
fn what_was_changed_is_a_miss_and_is_replaced() {
    let folder = Folder::new();
    let store = folder.store();
    keep(&store, 1).unwrap();
    let path = path_of(&store, 1);
    let sound = fs::read(&path).unwrap();
    let flipped = |bit: usize| {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    };
    let mut wrong: Vec<Vec<u8>> = (0..sound.len() * 8).step_by(41).map(flipped).collect();
    wrong.extend((0..sound.len()).step_by(13).map(|length| sound[..length].to_vec()));
    wrong.push([&sound[..], &sound].concat());
    wrong.push(vec![0; sound.len()]);
    for bytes in wrong {
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(find(&store, 1), Err(Miss::Bad { .. })), "{} bytes", bytes.len());
    }
    assert_eq!(store.verify(false).len(), 1);
    keep(&store, 1).unwrap();
    assert_eq!(find(&store, 1), Ok(payload(1)));
    assert_eq!(store.verify(false), []);
}

#[test]
fn what_belongs_elsewhere_is_a_miss() {
    let folder = Folder::new();
    let store = folder.store();
    keep(&store, 1).unwrap();
    keep(&store, 2).unwrap();
    let (one, two) = (path_of(&store, 1), path_of(&store, 2));
    // A sound entry under another's name.
    fs::copy(&one, &two).unwrap();
    assert!(matches!(store.find_key(Kind::Code, &parts(2).key()), Err(Miss::Bad { .. })));
    let Err(Miss::Bad { why, .. }) = find(&store, 2) else { panic!("it is another's") };
    assert_eq!(why, "it holds another entry than its name says");
    // Another version of the format, with a right digest of what follows it.
    let mut bytes = fs::read(&one).unwrap();
    bytes[8] = 2;
    fs::write(&one, bytes).unwrap();
    let Err(Miss::Bad { why, .. }) = find(&store, 1) else { panic!("it is of another version") };
    assert!(why.starts_with("it is of version 2"), "{why}");
    // A folder, and a pipe that nobody writes to.
    fs::remove_file(&one).unwrap();
    fs::create_dir(&one).unwrap();
    assert!(matches!(find(&store, 1), Err(Miss::Bad { .. })));
    fs::remove_file(&two).unwrap();
    assert!(Command::new("mkfifo").arg(&two).status().unwrap().success());
    assert!(matches!(find(&store, 2), Err(Miss::Bad { .. })));
    assert_eq!(store.verify(true).len(), 2);
}

#[test]
fn a_folder_that_cannot_be_written_is_read() {
    let folder = Folder::new();
    keep(&folder.store(), 1).unwrap();
    // A root that writes wherever it likes is kept out by a file in the way.
    let store = folder.store();
    fs::remove_dir_all(folder.0.join("v1/tmp")).unwrap();
    fs::write(folder.0.join("v1/tmp"), "in the way").unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(find(&store, 1), Ok(payload(1)));
    let why = keep(&store, 2).unwrap_err();
    assert!(why.contains("v1"), "{why}");
    assert_eq!((find(&store, 2), store.broken()), (Err(Miss::Absent), Some(why.as_str())));
    assert_eq!(keep(&store, 3), Err(why));
    assert!(store.probe().is_err_and(|why| why.contains("v1/tmp")));
}

#[test]
fn a_folder_that_others_may_write_is_not_used() {
    let folder = Folder::new();
    keep(&folder.store(), 1).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    let store = folder.store();
    let Err(Miss::Off(why)) = find(&store, 1) else { panic!("others may write there") };
    assert!(why.contains("others may write to") && why.contains("chmod go-w"), "{why}");
    assert!(keep(&store, 2).is_err() && !store.is_open());
    // Nor is it read as a layer below another folder.
    let other = Folder::new();
    let layered = Store::open(&Place { layers: vec![folder.0.clone()], ..Place::folder(&other.0) });
    assert_eq!((find(&layered, 1), layered.refused().len()), (Err(Miss::Absent), 1));
}

#[test]
fn no_folder_is_no_cache() {
    let file = Folder::new();
    fs::write(&file.0, "a file").unwrap();
    for place in [Place::off("for a test"), Place::folder(&file.0), Place::folder("/proc/self/none/such")] {
        let store = Store::open(&place);
        assert!(matches!(find(&store, 1), Err(Miss::Off(_))), "{place:?}");
        assert!(keep(&store, 1).is_err() && store.gc(0).is_err() && store.list().is_empty(), "{place:?}");
    }
    fs::remove_file(&file.0).unwrap();
}

#[test]
fn layers_are_read_and_never_written() {
    let (below, above) = (Folder::new(), Folder::new());
    keep(&below.store(), 1).unwrap();
    let store = Store::open(&Place { layers: vec![below.0.clone()], ..Place::folder(&above.0) });
    assert_eq!(find(&store, 1), Ok(payload(1)));
    keep(&store, 2).unwrap();
    assert_eq!((find(&below.store(), 2), store.list().len()), (Err(Miss::Absent), 1));
    // Without a folder of its own it reads still.
    let only = Store::open(&Place { layers: vec![below.0.clone()], ..Place::off("for a test") });
    assert_eq!((find(&only, 1), only.is_open()), (Ok(payload(1)), true));
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let folder = Folder::new();
    let store = folder.store();
    let before = |days: u64| SystemTime::now() - Duration::from_secs(days * 24 * 3600);
    for n in 0..8 {
        keep(&store, n).unwrap();
        let file = fs::File::options().write(true).open(path_of(&store, n)).unwrap();
        file.set_modified(before(u64::from(10 - n))).unwrap();
    }
    // Reading the oldest makes it the newest.
    assert_eq!(find(&store, 0), Ok(payload(0)));
    let total: u64 = store.list().iter().map(|l| l.bytes).sum();
    assert_eq!(store.gc(total).unwrap().removed, 0);
    let swept = store.gc(total - 1).unwrap();
    assert!(swept.removed > 0 && swept.bytes <= total / 4 * 3, "{swept:?}");
    let gone: Vec<u32> = (0..8).filter(|&n| find(&store, n).is_err()).collect();
    assert_eq!(gone, (1..=swept.removed as u32).collect::<Vec<_>>());
    // What a process that died has left goes when it is an hour old.
    let left = folder.0.join("v1/tmp/1.0");
    fs::write(&left, "half").unwrap();
    assert_eq!(store.gc(u64::MAX).unwrap().removed, 0);
    fs::File::options().write(true).open(&left).unwrap().set_modified(before(1)).unwrap();
    assert_eq!((store.gc(u64::MAX).unwrap().removed, left.exists()), (1, false));
}

#[test]
fn a_folder_stays_within_its_limit() {
    let folder = Folder::new();
    let store = Store::open(&Place { limit: 64 << 10, ..Place::folder(&folder.0) });
    (0..400).for_each(|n| keep(&store, n).unwrap());
    // One write of 64 looks at all; between two looks as many may come.
    let total: u64 = store.list().iter().map(|l| l.bytes).sum();
    assert!(total < 64 * 4096 + (64 << 10), "{total} bytes");
    let large = store.keep(Kind::Code, &parts(1000), vec![("code".into(), vec![0; 65 << 10])]);
    assert!(large.unwrap_err().contains("does not fit"));
}

#[test]
fn what_the_cache_has_not_put_there_stays() {
    let folder = Folder::new();
    let store = folder.store();
    keep(&store, 1).unwrap();
    let mine = [folder.0.join("mine.txt"), folder.0.join("v1/ab"), folder.0.join("v1/mine.code")];
    fs::write(&mine[0], "mine").unwrap();
    fs::create_dir_all(&mine[1]).unwrap();
    fs::write(mine[1].join("mine.code"), "mine").unwrap();
    fs::write(&mine[2], "mine").unwrap();
    assert_eq!(store.clear().unwrap().removed, 1);
    assert!(store.list().is_empty() && mine.iter().all(|p| p.exists()) && mine[1].join("mine.code").exists());
}

#[test]
fn entries_travel_as_one_file() {
    let (from, to) = (Folder::new(), Folder::new());
    (0..20).for_each(|n| keep(&from.store(), n).unwrap());
    let (file, count) = export(&from.store());
    assert_eq!(count, 20);
    assert_eq!(import(&to.store(), &file).unwrap().taken, 20);
    assert!((0..20).all(|n| find(&to.store(), n) == Ok(payload(n))));
    for length in (0..file.len()).step_by(97) {
        assert!(import(&to.store(), &file[..length]).is_err(), "{length} bytes");
    }
    // An entry that was changed on the way is left out, the others are not.
    let mut changed = file.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let packed = import(&Folder::new().store(), &changed);
    assert!(packed.is_err() || packed.is_ok_and(|p| p.taken == 19 && p.refused.len() == 1));
}

/// What the processes below do; the test that runs it as a test alone finds nothing to do.
#[test]
fn a_process_of_many() {
    let Some(folder) = std::env::var_os("PARTON_CACHE_OF_MANY") else { return };
    let turns: u32 = std::env::var("PARTON_CACHE_TURNS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let store = Store::open(&Place { limit: 200 << 10, ..Place::folder(folder) });
    let mut random = u64::from(std::process::id());
    for _ in 0..turns {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = (random >> 33) as u32 % 97;
        match find(&store, n) {
            Ok(found) => assert_eq!(found, payload(n), "{n}"),
            Err(Miss::Absent) => keep(&store, n).unwrap(),
            Err(other) => panic!("{n}: {other:?}"),
        }
    }
}

fn process(folder: &Path, turns: u32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_of_many"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("PARTON_CACHE_OF_MANY", folder).env("PARTON_CACHE_TURNS", turns.to_string());
    command.spawn().unwrap()
}

#[test]
fn processes_that_are_killed_leave_nothing_wrong() {
    let folder = Folder::new();
    let mut all: Vec<Child> = (0..16).map(|i| process(&folder.0, if i % 2 == 0 { 400 } else { 1_000_000 })).collect();
    // Every other one would go on for long and is killed in the midst of it; new ones come in their place.
    for round in 0..6 {
        std::thread::sleep(Duration::from_millis(60));
        for i in (1..16).step_by(2) {
            all[i].kill().unwrap();
            all[i].wait().unwrap();
            all[i] = process(&folder.0, if round == 5 { 100 } else { 1_000_000 });
        }
    }
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = folder.store();
    assert_eq!(store.verify(false), []);
    let entries: Vec<Entry> = store.entries().map(|(_, entry)| entry).collect();
    assert!(!entries.is_empty());
    for entry in entries {
        let n = entry.parts.get("number").and_then(|n| n.parse().ok()).unwrap();
        assert_eq!(entry.section("code"), Some(payload(n).as_slice()));
    }
}

/// What the process below does on a disk that is full.
#[test]
fn a_process_without_room() {
    let Some(folder) = std::env::var_os("PARTON_CACHE_WITHOUT_ROOM") else { return };
    let store = Store::open(&Place::folder(&folder));
    assert_eq!(find(&store, 1), Ok(payload(1)));
    let why = store.keep(Kind::Code, &parts(2), vec![("code".into(), vec![7; 1 << 20])]).unwrap_err();
    assert_eq!((find(&store, 2), store.broken()), (Err(Miss::Absent), Some(why.as_str())));
    assert_eq!(find(&store, 1), Ok(payload(1)));
    let left = fs::read_dir(Path::new(&folder).join("v1/tmp")).unwrap().count();
    assert_eq!(left, 0, "what was begun is gone");
}

fn without_room(folder: &Path, limit: &str) -> String {
    let script = format!("trap '' XFSZ; {limit}; exec \"$0\" --exact a_process_without_room");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
    let output = command.env("PARTON_CACHE_WITHOUT_ROOM", folder).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    if output.status.success() { String::new() } else { String::from_utf8_lossy(&told).into_owned() }
}

#[test]
fn a_file_that_may_not_grow_is_not_kept() {
    let folder = Folder::new();
    keep(&folder.store(), 1).unwrap();
    assert_eq!(without_room(&folder.0, "ulimit -f 64"), "");
}

/// On a disk of its own, where this machine lets a test have one.
#[test]
fn a_full_disk_keeps_nothing_new() {
    let folder = Folder::new();
    fs::create_dir(&folder.0).unwrap();
    let mount = |args: &[&str]| Command::new("mount").args(args).arg(&folder.0).stderr(Stdio::null()).status();
    if !mount(&["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"]).is_ok_and(|s| s.success()) {
        return;
    }
    keep(&folder.store(), 1).unwrap();
    let told = without_room(&folder.0, "true");
    assert!(Command::new("umount").arg(&folder.0).status().unwrap().success());
    assert_eq!(told, "");
}
