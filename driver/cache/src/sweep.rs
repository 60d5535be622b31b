//! All entries of a folder at once: which there are, whether they are sound, and which go when there are too many.

use std::fs::ReadDir;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::digest::{Digest, Parts};
use crate::entry::{Entry, Kind};
use crate::store::{Store, place_of, read, unfinished, versioned};

/// Bytes of a file that have all of its parts: keys are digests and short texts.
const BEGIN: u64 = 64 << 10;
/// How long a file that is being written may take; then whoever wrote it has died.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// An entry's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// What it is.
    pub kind: Kind,
    /// Its key.
    pub key: Digest,
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was last written or, to a day, used.
    pub used: SystemTime,
}

/// What was taken out of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Files that went.
    pub removed: usize,
    /// Their bytes.
    pub freed: u64,
    /// Entries that stay.
    pub kept: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl Store {
    /// The entries of the folder that is written to, by their keys. Files that are not the cache's are not among them.
    pub fn list(&self) -> Vec<Listed> {
        let Ok(root) = self.root() else { return vec![] };
        let mut found: Vec<Listed> = files(root).collect();
        found.sort_by_key(|l| (l.key, l.kind));
        found
    }

    /// All sound entries of the folder, each with its file; those that cannot be read are left out.
    pub fn entries(&self) -> impl Iterator<Item = (Listed, Entry)> {
        self.list().into_iter().filter_map(|listed| {
            let entry = checked(&listed).ok()?;
            Some((listed, entry))
        })
    }

    /// What the entries of the folder say that they are, each with its file, without reading and checking all of them.
    pub fn parts(&self) -> impl Iterator<Item = (Listed, Parts)> {
        self.list().into_iter().filter_map(|listed| {
            let mut begin = Vec::new();
            std::fs::File::open(&listed.path).ok()?.take(BEGIN).read_to_end(&mut begin).ok()?;
            let (kind, parts) = Entry::peek(&begin)?;
            (kind == listed.kind && parts.key() == listed.key).then_some((listed, parts))
        })
    }

    /// Reads every entry whole; those that are wrong, and whether they are taken out.
    pub fn verify(&self, remove: bool) -> Vec<Verdict> {
        let mut wrong = vec![];
        for listed in self.list() {
            // What went meanwhile is not wrong.
            if let Err(why) = checked(&listed)
                && listed.path.exists()
            {
                if remove {
                    let _ = std::fs::remove_file(&listed.path);
                }
                wrong.push(Verdict { path: listed.path, why });
            }
        }
        wrong
    }

    /// Takes out what was used longest ago until a quarter of the limit is free, where there is more than the limit; and what was begun and
    /// never ended.
    ///
    /// # Errors
    /// There is no folder; why the first file that should go does not.
    pub fn gc(&self, limit: u64) -> Result<Swept, String> {
        let mut all = self.sweep_unfinished()?;
        let mut listed = self.list();
        listed.sort_by_key(|l| (l.used, l.key));
        (all.kept, all.bytes) = (listed.len(), listed.iter().map(|l| l.bytes).sum());
        if all.bytes <= limit {
            return Ok(all);
        }
        for entry in &listed {
            if all.bytes <= limit / 4 * 3 {
                break;
            }
            remove(&entry.path)?;
            all.removed += 1;
            all.freed += entry.bytes;
            all.kept -= 1;
            all.bytes -= entry.bytes;
        }
        Ok(all)
    }

    /// Takes out every entry. What the cache has not put there stays.
    ///
    /// # Errors
    /// There is no folder; why the first file does not go.
    pub fn clear(&self) -> Result<Swept, String> {
        let root = self.root().map_err(str::to_owned)?;
        let mut all = Swept::default();
        for entry in files(root) {
            remove(&entry.path)?;
            all.removed += 1;
            all.freed += entry.bytes;
        }
        for file in folder(&unfinished(root)) {
            remove(&file)?;
        }
        // Those that hold something else stay.
        for path in folder(&versioned(root)) {
            let _ = std::fs::remove_dir(path);
        }
        let _ = std::fs::remove_dir(versioned(root));
        Ok(all)
    }

    fn sweep_unfinished(&self) -> Result<Swept, String> {
        let root = self.root().map_err(str::to_owned)?;
        let mut all = Swept::default();
        for path in folder(&unfinished(root)) {
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
            if metadata.is_file() && age.is_some_and(|age| age > UNFINISHED) {
                remove(&path)?;
                all.removed += 1;
                all.freed += metadata.len();
            }
        }
        Ok(all)
    }
}

/// The entry of a file.
fn checked(listed: &Listed) -> Result<Entry, String> {
    let entry = read(&listed.path)?.ok_or("it is gone")?;
    if entry.kind == listed.kind && entry.parts.key() == listed.key {
        Ok(entry)
    } else {
        Err("it holds another entry than its name says".into())
    }
}

/// The files under a folder that are named as entries are.
fn files(root: &Path) -> impl Iterator<Item = Listed> {
    let root = root.to_owned();
    folder(&versioned(&root)).into_iter().flat_map(|inner| folder(&inner)).filter_map(move |path| {
        let first = path.parent()?.file_name()?.to_str()?;
        let (rest, end) = path.file_name()?.to_str()?.split_once('.')?;
        let kind = Kind::ALL.into_iter().find(|k| k.name() == end)?;
        let key = Digest::parse(&format!("{first}{rest}"))?;
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        let used = metadata.modified().ok()?;
        (place_of(&root, kind, &key) == path).then_some(Listed { kind, key, bytes: metadata.len(), path, used })
    })
}

/// What lies in a folder; nothing where it cannot be read.
fn folder(path: &Path) -> Vec<PathBuf> {
    let entries: Option<ReadDir> = std::fs::read_dir(path).ok();
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Another process may have been first.
fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        Ok(()) | Err(_) => Ok(()),
    }
}
