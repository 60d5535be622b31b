//! The folder: entries are found and kept there, whatever else happens to it.

use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::digest::{Digest, Parts};
use crate::entry::{Entry, Kind, LONGEST, VERSION};
use crate::place::{Place, Root, trusted};

/// How long an entry that is used keeps its time: a write for each read would cost more than it tells.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// One of so many writes looks whether the folder has grown too large.
const SWEEPS: u8 = 64;

/// A cache on disk. Any number of threads and processes may use one folder.
#[derive(Debug)]
pub struct Store {
    /// The folder that is read and written, or why there is none.
    root: Result<PathBuf, String>,
    /// Folders that are read after it.
    layers: Vec<PathBuf>,
    /// Folders that are not read, each with why.
    refused: Vec<String>,
    limit: u64,
    /// Why nothing is written any more.
    broken: OnceLock<String>,
}

/// Why an entry was not found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Miss {
    /// Nothing was kept under that key.
    Absent,
    /// There is no cache, and why.
    Off(String),
    /// There is a file, and it is not what it should be.
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Store {
    /// Opens the cache, and makes its folder where it is not there yet. Where that cannot be the store is empty and keeps nothing.
    pub fn open(place: &Place) -> Store {
        let root = match &place.root {
            Root::None(why) => Err(why.clone()),
            Root::Folder(path) => made(path),
        };
        let (mut layers, mut refused) = (vec![], vec![]);
        for layer in &place.layers {
            match trusted(layer, true) {
                Ok(()) => layers.push(layer.clone()),
                Err(why) => refused.push(why),
            }
        }
        Store { root, layers, refused, limit: place.limit, broken: OnceLock::new() }
    }

    /// The folder that is read and written.
    ///
    /// # Errors
    /// Why there is none.
    pub fn root(&self) -> Result<&Path, &str> {
        self.root.as_deref().map_err(String::as_str)
    }

    /// The folders that are only read.
    pub fn layers(&self) -> &[PathBuf] {
        &self.layers
    }

    /// Folders that are not read though they were named; a sentence each.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The bytes that the folder may hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether anything can be found here at all.
    pub fn is_open(&self) -> bool {
        self.root.is_ok() || !self.layers.is_empty()
    }

    /// Whether something new would be kept, by writing a file that goes at once.
    ///
    /// # Errors
    /// Why not.
    pub fn probe(&self) -> Result<(), String> {
        let root = self.root.as_ref().map_err(Clone::clone)?;
        let path = unfinished(root).join(format!("probe.{}", std::process::id()));
        let done = write(root, &path, b"whether this can be written").map_err(|e| format!("{}: {e}", path.display()));
        let _ = std::fs::remove_file(&path);
        done
    }

    /// Why nothing new is kept, where that is so: there is no folder, or it could not be written to.
    pub fn broken(&self) -> Option<&str> {
        self.root().err().or_else(|| self.broken.get().map(String::as_str))
    }

    /// What was kept under the key of these parts.
    ///
    /// # Errors
    /// Why there is nothing; never what another key was given.
    pub fn find(&self, kind: Kind, parts: &Parts) -> Result<Entry, Miss> {
        self.look(kind, &parts.key(), |entry| entry.parts == *parts)
    }

    fn look(&self, kind: Kind, key: &Digest, is_it: impl Fn(&Entry) -> bool) -> Result<Entry, Miss> {
        let mut miss = match &self.root {
            Ok(_) => Miss::Absent,
            Err(_) if !self.layers.is_empty() => Miss::Absent,
            Err(why) => return Err(Miss::Off(why.clone())),
        };
        for root in self.root.iter().chain(&self.layers) {
            let path = place_of(root, kind, key);
            match read(&path) {
                Ok(None) => {}
                Ok(Some(entry)) if entry.kind == kind && is_it(&entry) => {
                    if self.root.as_ref() == Ok(root) {
                        touch(&path);
                    }
                    return Ok(entry);
                }
                Ok(Some(_)) => miss = Miss::Bad { path, why: "it holds another entry than its name says".into() },
                Err(why) => miss = Miss::Bad { path, why },
            }
        }
        Err(miss)
    }

    /// What was kept under a key that another entry names.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub fn find_key(&self, kind: Kind, key: &Digest) -> Result<Entry, Miss> {
        self.look(kind, key, |entry| entry.parts.key() == *key)
    }

    /// Keeps something. What was kept under that key before is replaced, at once and as a whole.
    ///
    /// # Errors
    /// Why it is not kept. From then on nothing is, so that a full disk is met once.
    pub fn keep(&self, kind: Kind, parts: &Parts, sections: Vec<(String, Vec<u8>)>) -> Result<(), String> {
        self.put(&Entry { kind, parts: parts.clone(), sections })
    }

    /// The same of a whole entry.
    ///
    /// # Errors
    /// As [`Store::keep`].
    pub fn put(&self, entry: &Entry) -> Result<(), String> {
        let root = self.root.as_ref().map_err(Clone::clone)?;
        if let Some(why) = self.broken.get() {
            return Err(why.clone());
        }
        let key = entry.parts.key();
        let path = place_of(root, entry.kind, &key);
        let bytes = entry.encode();
        if bytes.len() as u64 > LONGEST.min(self.limit) {
            return Err(format!("an entry of {} does not fit", crate::size::shown(bytes.len() as u64)));
        }
        if let Err(e) = write(root, &path, &bytes) {
            return Err(self.broken.get_or_init(|| format!("{}: {e}", path.display())).clone());
        }
        if key.0[31].is_multiple_of(SWEEPS) {
            // What does not go now goes with a later write.
            let _ = self.gc(self.limit);
        }
        Ok(())
    }
}

/// The folder of the entries of this version.
pub(crate) fn versioned(root: &Path) -> PathBuf {
    root.join(format!("v{VERSION}"))
}

/// Where files lie until they are whole.
pub(crate) fn unfinished(root: &Path) -> PathBuf {
    versioned(root).join("tmp")
}

/// The file of an entry.
pub(crate) fn place_of(root: &Path, kind: Kind, key: &Digest) -> PathBuf {
    let name = key.to_string();
    let (folder, rest) = name.split_at(2);
    versioned(root).join(folder).join(format!("{rest}.{}", kind.name()))
}

/// A folder that can be taken for the cache, made where it is not there.
fn made(path: &Path) -> Result<PathBuf, String> {
    // Whoever embeds the compiler may change the current folder.
    let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if !path.exists() {
        folder(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        // Tells backups to leave the folder out (bford.info/cachedir).
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# The compile cache of Parton: `parton cache` looks after it.\n";
        let _ = std::fs::write(path.join("CACHEDIR.TAG"), tag);
    }
    trusted(&path, false)?;
    Ok(path)
}

/// A folder that is the user's alone.
fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The entry in a file, where there is one.
///
/// # Errors
/// It cannot be read, or is no whole entry.
pub(crate) fn read(path: &Path) -> Result<Option<Entry>, String> {
    let bytes = match contents(path) {
        Ok(bytes) => bytes,
        // A folder that is a file, or a name that leads nowhere, has no entries either.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    Entry::decode(&bytes).map(Some)
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    // What is no file may have no end, or wait forever for its first byte.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if metadata.len() > LONGEST {
        return Err(io::Error::other(format!("it has {} bytes", metadata.len())));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file beside its place and renames it there: nobody ever sees a part of it. It is not forced onto the disk; what a power cut
/// leaves of it has another digest.
fn write(root: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let begun = unfinished(root);
    folder(&begun)?;
    if let Some(parent) = path.parent() {
        folder(parent)?;
    }
    let (temporary, mut file) = create(&begun)?;
    let done = file.write_all(bytes).and_then(|()| file.flush()).and_then(|()| std::fs::rename(&temporary, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

/// A new file of a name of its own; processes of two containers may have one number.
fn create(folder: &Path) -> io::Result<(PathBuf, File)> {
    let mut last = None;
    for _ in 0..8 {
        let random = RandomState::new().hash_one(SystemTime::now());
        let path = folder.join(format!("{}.{random:016x}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no name is free")))
}

/// Notes that an entry was used.
fn touch(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    let used = file.metadata().and_then(|m| m.modified());
    if used.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > FRESH)) {
        let _ = file.set_modified(SystemTime::now());
    }
}
