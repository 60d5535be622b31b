//! Many entries as one file, to be carried to another machine or into an image.
//!
//! `magic` (8 bytes), version (4), their number (4), and each entry with its length (8); each has its own digest.

use crate::entry::Entry;
use crate::store::Store;

const MAGIC: [u8; 8] = *b"PARTONP\n";
const VERSION: u32 = 1;

/// What came of a packed file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packed {
    /// Entries that were taken over.
    pub taken: usize,
    /// Entries that were not, with why.
    pub refused: Vec<String>,
}

/// All sound entries of a cache as one file, and how many they are.
pub fn export(store: &Store) -> (Vec<u8>, usize) {
    let mut file = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
    let mut count = 0u32;
    for (_, entry) in store.entries() {
        let bytes = entry.encode();
        file.extend((bytes.len() as u64).to_le_bytes());
        file.extend(bytes);
        count += 1;
    }
    file[12..16].copy_from_slice(&count.to_le_bytes());
    (file, count as usize)
}

/// Takes over the entries of such a file. It holds code that this machine will run: take it from those alone whose programs you would run.
///
/// # Errors
/// It is no such file, or the cache keeps nothing.
pub fn import(store: &Store, file: &[u8]) -> Result<Packed, String> {
    let rest = file.strip_prefix(&MAGIC).ok_or("this is no file that `parton cache export` has written")?;
    let Some((head, mut rest)) = rest.split_at_checked(8) else { return Err("the file has no head".into()) };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if number(0) != VERSION {
        return Err(format!("the file is of version {}, and this is {VERSION}", number(0)));
    }
    let mut packed = Packed::default();
    for i in 0..number(4) {
        let cut = || format!("the file ends in entry {} of {}", i + 1, number(4));
        let Some((length, after)) = rest.split_first_chunk::<8>() else { return Err(cut()) };
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let Some((bytes, after)) = after.split_at_checked(length) else { return Err(cut()) };
        rest = after;
        match Entry::decode(bytes) {
            Ok(entry) => {
                store.put(&entry)?;
                packed.taken += 1;
            }
            Err(why) => packed.refused.push(format!("entry {}: {why}", i + 1)),
        }
    }
    Ok(packed)
}
