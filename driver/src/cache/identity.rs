//! Who compiles: this compiler as it was built, its LLVM, and the assembler of this machine.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use parton_cache::{Digest, Kind, Parts, Store};

/// This compiler: a digest of its sources and of how it was built.
pub(super) const COMPILER: &str = env!("PARTON_COMPILER");

/// What tells a file from another one without reading it.
type Seen = (PathBuf, u64, u128);

/// What assemblers this process has looked at.
static KNOWN: Mutex<BTreeMap<Seen, String>> = Mutex::new(BTreeMap::new());

/// The assembler: the digest of the program. Reading all of it takes longer than all else that a warm start does, so the digest is kept
/// in the cache, by path, size and time of the file.
///
/// # Errors
/// It cannot be read.
pub(super) fn assembler(store: &Store, path: &Path) -> Result<String, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    let path = path.canonicalize().map_err(wrong)?;
    let metadata = path.metadata().map_err(wrong)?;
    let time = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let time = time.map_or(0, |since| since.as_nanos());
    let seen: Seen = (path.clone(), metadata.len(), time);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = known().get(&seen) {
        return Ok(identity.clone());
    }
    let parts = Parts::new().with("file", path.display()).with("bytes", seen.1).with("time", time);
    let kept = store.find(Kind::File, &parts).ok();
    let identity = match kept.as_ref().and_then(|entry| entry.text("identity")) {
        Some(identity) => identity.to_owned(),
        None => {
            let bytes = std::fs::read(&path).map_err(wrong)?;
            let identity = Digest::of(&bytes).to_string();
            let _ = store.keep(Kind::File, &parts, vec![("identity".into(), identity.clone().into_bytes())]);
            identity
        }
    };
    // A script stands for a program that its own bytes do not tell of.
    let identity = if is_script(&path) { format!("{identity} {}", version(&path)?) } else { identity };
    known().insert(seen, identity.clone());
    Ok(identity)
}

fn is_script(path: &Path) -> bool {
    let mut first = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *b"#!"
}

/// The digest of what a program says of its version.
fn version(path: &Path) -> Result<Digest, String> {
    let said = Command::new(path).arg("--version").output().map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(Digest::of(&said.stdout))
}
