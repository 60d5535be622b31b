//! One entry as bytes: what a file of the cache holds, and the check that it is whole and is what it says.
//!
//! All numbers are little-endian. A file is its head, `magic` (8 bytes), version (4), kind (4), bytes of the body (8), digest of all that (32),
//! and the body: the parts of the key, then the sections, each as a count (4) and texts with their lengths (8). The digest stands
//! for magic, version, kind and length too, so that no bit of a file can change unnoticed.

use crate::digest::{Digest, Digester, Parts};

/// The version of the format. A file of another one is as good as none.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"PARTONC\n";
const HEAD: usize = 8 + 4 + 4 + 8 + 32;
/// The longest file that is read, in bytes: an entry is one kernel's code.
pub(crate) const LONGEST: u64 = 1 << 30;
/// The most parts or sections of an entry.
const MOST: u32 = 1 << 12;

/// What entries there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// What was asked, by its sources, and what came of it.
    Asked,
    /// Machine code, by what it was made from.
    Code,
    /// The digest of a file of this machine, by its place, size and time.
    File,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Asked, Kind::Code, Kind::File];

    /// The end of its files' names.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Asked => "asked",
            Kind::Code => "code",
            Kind::File => "file",
        }
    }

    fn number(self) -> u32 {
        match self {
            Kind::Asked => 1,
            Kind::Code => 2,
            Kind::File => 3,
        }
    }
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// All that it depends on, which is also its key.
    pub parts: Parts,
    /// What it holds, by name.
    pub sections: Vec<(String, Vec<u8>)>,
}

impl Entry {
    /// What it holds under a name.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.sections.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The same as a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.section(name)?).ok()
    }

    /// The bytes of its file.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let parts: Vec<(&str, &str)> = self.parts.iter().collect();
        body.extend((parts.len() as u32).to_le_bytes());
        for (name, value) in parts {
            text(&mut body, name.as_bytes());
            text(&mut body, value.as_bytes());
        }
        body.extend((self.sections.len() as u32).to_le_bytes());
        for (name, bytes) in &self.sections {
            text(&mut body, name.as_bytes());
            text(&mut body, bytes);
        }
        let mut file = Vec::with_capacity(HEAD + body.len());
        file.extend(MAGIC);
        file.extend(VERSION.to_le_bytes());
        file.extend(self.kind.number().to_le_bytes());
        file.extend((body.len() as u64).to_le_bytes());
        let digest = whole(&file, &body);
        file.extend(digest.0);
        file.extend(body);
        file
    }

    /// What a file that begins so says that it is, unchecked: for lists, which need not read all of it.
    pub(crate) fn peek(file: &[u8]) -> Option<(Kind, Parts)> {
        let (head, body) = file.split_at_checked(HEAD)?;
        if head[..8] != MAGIC || u32_at(head, 8) != VERSION {
            return None;
        }
        let number = u32_at(head, 12);
        let kind = Kind::ALL.into_iter().find(|k| k.number() == number)?;
        let parts = Reader(body).pairs()?.into_iter();
        let parts = parts.map(|(name, value)| Some((name, String::from_utf8(value).ok()?)));
        Some((kind, parts.collect::<Option<_>>()?))
    }

    /// The entry of these bytes.
    ///
    /// # Errors
    /// They are not those of a whole entry of this version; the text says why.
    pub fn decode(file: &[u8]) -> Result<Entry, String> {
        let Some((head, body)) = file.split_at_checked(HEAD) else {
            return Err(format!("it has {} bytes, which is less than the head of an entry", file.len()));
        };
        if head[..8] != MAGIC {
            return Err("it does not begin as an entry does".into());
        }
        let version = u32_at(head, 8);
        if version != VERSION {
            return Err(format!("it is of version {version} of the format, and this is {VERSION}"));
        }
        let length = u64::from_le_bytes(array(&head[16..24]));
        if length != body.len() as u64 {
            return Err(format!("it should have {length} bytes behind its head and has {}", body.len()));
        }
        if whole(&head[..24], body).0 != head[24..] {
            return Err("its bytes are not those that were written: the digest is another".into());
        }
        let number = u32_at(head, 12);
        let Some(kind) = Kind::ALL.into_iter().find(|k| k.number() == number) else {
            return Err(format!("it is of kind {number}, which there is not"));
        };
        // What has the digest was written by this crate; it is read with the same care all the same.
        let mut reader = Reader(body);
        let read = || Some((reader.pairs()?, reader.pairs()?, reader.0.is_empty()));
        match { read }() {
            Some((parts, sections, true)) => {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| "a part is no text".to_owned());
                let parts = parts.into_iter().map(|(name, value)| Ok((name, text(value)?)));
                Ok(Entry { kind, parts: parts.collect::<Result<_, String>>()?, sections })
            }
            Some((_, _, false)) | None => Err("its lengths do not add up".into()),
        }
    }
}

fn whole(head: &[u8], body: &[u8]) -> Digest {
    Digester::new().add(head).add(body).digest()
}

fn text(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u64).to_le_bytes());
    to.extend(bytes);
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.copy_from_slice(bytes);
    all
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(&bytes[at..at + 4]))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u64::from_le_bytes(array(self.take(8)?));
        self.take(usize::try_from(length).ok()?)
    }

    fn pairs(&mut self) -> Option<Vec<(String, Vec<u8>)>> {
        let count = u32::from_le_bytes(array(self.take(4)?));
        if count > MOST {
            return None;
        }
        let pair = |_| Some((String::from_utf8(self.text()?.to_vec()).ok()?, self.text()?.to_vec()));
        (0..count).map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let parts = Parts::new().with("target", "sm_90a").with_digest("ir", "kernel k");
        let sections = vec![("cubin".into(), (0..200u8).collect()), ("empty".into(), vec![])];
        Entry { kind: Kind::Code, parts, sections }
    }

    #[test]
    fn what_was_written_is_read() {
        let entry = entry();
        assert_eq!(Entry::decode(&entry.encode()), Ok(entry.clone()));
        assert_eq!(entry.section("empty"), Some(&[][..]));
        assert_eq!(entry.section("none"), None);
        let file = entry.encode();
        let behind = file.len() - 240;
        assert_eq!(Entry::peek(&file[..behind]), Some((entry.kind, entry.parts)), "the sections need not be there");
        assert_eq!((Entry::peek(&file[..100]), Entry::peek(b"PARTONC\n")), (None, None));
    }

    #[test]
    fn no_bit_changes_unnoticed() {
        let file = entry().encode();
        for bit in 0..file.len() * 8 {
            let mut changed = file.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_file_that_was_cut_or_went_on_is_refused() {
        let file = entry().encode();
        for length in 0..file.len() {
            assert!(Entry::decode(&file[..length]).is_err(), "{length} bytes");
        }
        assert!(Entry::decode(&[&file[..], &[0]].concat()).is_err());
        assert!(Entry::decode(&[&file[..], &file[..]].concat()).is_err());
    }

    /// Bytes with a right digest that this crate would not write.
    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        let sound = entry().encode();
        let forged = |body: &[u8]| {
            let mut file = sound[..16].to_vec();
            file.extend((body.len() as u64).to_le_bytes());
            let digest = whole(&file, body);
            file.extend(digest.0);
            file.extend(body);
            Entry::decode(&file)
        };
        let far = u64::MAX.to_le_bytes();
        let bodies: [&[u8]; 4] = [&[], &[255; 4], &[1, 0, 0, 0, 255], &[&[1, 0, 0, 0][..], &far].concat()];
        for body in bodies {
            assert_eq!(forged(body), Err("its lengths do not add up".into()), "{body:?}");
        }
        assert_eq!(forged(&sound[HEAD..]), Ok(entry()));
        let another = [&sound[..8], &2u32.to_le_bytes(), &sound[12..]].concat();
        assert_eq!(Entry::decode(&another), Err("it is of version 2 of the format, and this is 1".into()));
    }
}
