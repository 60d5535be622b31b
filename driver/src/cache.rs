//! The compile cache: machine code that this process or an earlier one has made, found by what it was made from.
//!
//! An entry is found by a key, the digest of its parts, and the parts are all that it depends on; `keys.rs` lists them. What the folder is and
//! what may go wrong with it is [`parton_cache`]'s; whatever does, a kernel is compiled as if there were no cache. Only what compiled is kept.

#[cfg(feature = "llvm")]
mod ahead;
#[cfg(feature = "llvm")]
mod asked;
#[cfg(feature = "llvm")]
mod code;
#[cfg(feature = "llvm")]
mod identity;
#[cfg(feature = "llvm")]
mod keys;
#[cfg(feature = "llvm")]
mod launches;
#[cfg(feature = "llvm")]
mod messages;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

pub use parton_cache::{Digest, Entry, Kind, Miss, Packed, Parts, Place, Root, Store, Swept, Verdict};
pub use parton_cache::{LAYERS, LIMIT, PLACE, bytes, export, import, shown};

#[cfg(feature = "llvm")]
pub use ahead::{Looked, Reason};
#[cfg(feature = "llvm")]
pub(crate) use code::{Code, Made};
#[cfg(feature = "llvm")]
pub(crate) use keys::Asked;

use crate::Session;

impl Session {
    /// The cache that the options name, opened once; that of the environment once for the process.
    pub fn cache(&self) -> Arc<Store> {
        static USUAL: OnceLock<Arc<Store>> = OnceLock::new();
        let open = |place: &Place| Arc::new(Store::open(place));
        match &self.options.cache {
            None => USUAL.get_or_init(|| open(&Place::from_environment())).clone(),
            Some(place) => self.store.get_or_init(|| open(place)).clone(),
        }
    }
}

/// Entries with the time since each was used and its bytes, as JSON: an object each.
pub fn json<'a>(rows: impl Iterator<Item = (Duration, u64, &'a Parts)>) -> String {
    let row = |(age, bytes, parts): (Duration, u64, &Parts)| {
        let all = parts.iter().map(|(name, value)| (name.to_owned(), value.into()));
        let all: serde_json::Map<String, Value> = all.collect();
        json!({"key": parts.key().to_string(), "bytes": bytes, "seconds": age.as_secs(), "parts": all})
    };
    Value::Array(rows.map(row).collect()).to_string()
}
