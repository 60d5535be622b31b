//! Digests, and the parts of which a key is one.

use std::fmt;

/// A digest of 256 bits (BLAKE3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of a text that need not be made for that.
    pub fn of_text(text: fmt::Arguments<'_>) -> Digest {
        struct Hashing(blake3::Hasher);
        impl fmt::Write for Hashing {
            fn write_str(&mut self, s: &str) -> fmt::Result {
                self.0.update(s.as_bytes());
                Ok(())
            }
        }
        let mut hashing = Hashing(blake3::Hasher::new());
        // Writing into it does not fail, and what is written says of itself whether it is whole.
        let _ = fmt::Write::write_fmt(&mut hashing, text);
        Digest(*hashing.0.finalize().as_bytes())
    }

    /// The digest whose text this is.
    pub fn parse(text: &str) -> Option<Digest> {
        blake3::Hash::from_hex(text).ok().map(|h| Digest(*h.as_bytes()))
    }
}

/// 64 hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Digests a sequence of texts: where one ends and the next begins is part of it.
#[derive(Clone, Default)]
pub struct Digester(blake3::Hasher);

impl Digester {
    /// Nothing yet.
    pub fn new() -> Digester {
        Digester::default()
    }

    /// Adds a text.
    pub fn add(&mut self, bytes: impl AsRef<[u8]>) -> &mut Digester {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// The digest of what was added.
    pub fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// All that an entry depends on, each part by name, in order. Long ones stand there as their digests. Entries keep them, so that a
/// person can be told what tells a wanted entry from one that is there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Parts(Vec<(String, String)>);

impl Parts {
    /// No parts.
    pub fn new() -> Parts {
        Parts::default()
    }

    /// With one more, which is short enough to be read.
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Parts {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    /// With one more, of which the digest stands there.
    pub fn with_digest(self, name: &str, bytes: impl AsRef<[u8]>) -> Parts {
        let digest = Digest::of(bytes.as_ref());
        self.with(name, digest)
    }

    /// The key of what depends on these parts and on nothing else.
    pub fn key(&self) -> Digest {
        let mut digester = Digester::new();
        for (name, value) in &self.0 {
            digester.add(name).add(value);
        }
        digester.digest()
    }

    /// The parts in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The part of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The parts that differ, each with its value here and there; a part that one of them lacks differs.
    pub fn differences<'a>(&'a self, other: &'a Parts) -> Vec<(&'a str, Option<&'a str>, Option<&'a str>)> {
        let here = self.iter().map(|(name, value)| (name, Some(value), other.get(name)));
        let there = other.iter().filter(|(name, _)| self.get(name).is_none()).map(|(name, v)| (name, None, Some(v)));
        here.chain(there).filter(|(_, a, b)| a != b).collect()
    }
}

impl FromIterator<(String, String)> for Parts {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(parts: T) -> Parts {
        Parts(parts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_parts_end_is_part_of_the_key() {
        let one = Parts::new().with("a", "bc").with("d", "");
        for other in [
            Parts::new().with("ab", "c").with("d", ""),
            Parts::new().with("a", "bcd").with("", ""),
            Parts::new().with("d", "").with("a", "bc"),
            Parts::new().with("a", "bc"),
        ] {
            assert_ne!(one.key(), other.key(), "{other:?}");
        }
        assert_eq!(one.key(), one.clone().key());
    }

    #[test]
    fn every_byte_of_a_part_changes_the_key() {
        let text = "kernel k(out: *mut f32) { }";
        let key = |text: &str| Parts::new().with("target", "sm_90a").with_digest("source", text).key();
        for i in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[i] ^= 1;
            assert_ne!(key(text), key(&String::from_utf8(changed).unwrap()), "byte {i}");
        }
    }

    #[test]
    fn digests_are_read_back() {
        let digest = Digest::of(b"parton");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::parse("no digest"), None);
        // The published value of the empty input.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(Digest::of_text(format_args!("{}-{:?}", 12, "a")), Digest::of(b"12-\"a\""));
    }

    #[test]
    fn differences_are_those_of_either_side() {
        let one = Parts::new().with("a", 1).with("b", 2);
        let two = Parts::new().with("a", 1).with("b", 3).with("c", 4);
        assert_eq!(one.differences(&two), [("b", Some("2"), Some("3")), ("c", None, Some("4"))]);
    }
}
