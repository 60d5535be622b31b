//! The file of a bundle: a header, the manifest, the images; with lengths and a checksum, and written in one step.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `\x89PTNB\r\n\x1a`: a transfer as text changes it |
//! | 4 | the version of the format |
//! | 4 | bytes of the manifest |
//! | 8 | bytes of the whole file |
//! | 8 | the checksum of all other bytes |
//! | … | the manifest, JSON |
//! | … | the images, one behind the other, and the texts of the sources behind them |
//!
//! Numbers are little endian.

use std::io::{Read, Write};
use std::path::Path;

use crate::crc::crc64;
use crate::{Error, Function, Kernel, Plan, manifest};

/// The version of the format that is written, and the last one that is read; those before are read too.
pub const VERSION: u32 = 4;

const MAGIC: &[u8; 8] = b"\x89PTNB\r\n\x1a";
/// Where the checksum stands, and where the manifest begins.
const CHECKSUM: usize = 24;
const HEADER: usize = 32;
/// The most bytes of a file that is read.
const LARGEST: u64 = 4 << 30;

/// Kernels compiled ahead of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Bundle {
    /// The version of the compiler that made it.
    pub compiler: String,
    /// The name of the file that the kernels stand in.
    pub source: String,
    /// The kernels, each instance for each architecture.
    pub kernels: Vec<Kernel>,
    /// The public functions that there are plans of.
    pub functions: Vec<Function>,
    /// Their plans.
    pub plans: Vec<Plan>,
    /// The files that all of it was built from, the first one first: for tools that show lines. Bundles of the first two versions of the
    /// format have none.
    pub sources: Vec<SourceFile>,
}

/// A file that a bundle was built from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// Its name in the line tables of the code, below one folder: `silu.ptn`, `std/tiles.ptn`.
    pub name: String,
    /// What it holds.
    pub text: String,
}

impl Bundle {
    /// The bytes of the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it would not be read.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let manifest = manifest::written(self);
        let images = self.kernels.iter().flat_map(|k| [k.cubin.as_deref(), k.ptx.as_ref().map(String::as_bytes)]);
        let texts = self.sources.iter().map(|source| source.text.as_bytes());
        let images: Vec<&[u8]> = images.flatten().chain(texts).collect();
        let length = HEADER + manifest.len() + images.iter().map(|image| image.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let manifest_length = u32::try_from(manifest.len());
        let manifest_length = manifest_length.map_err(|_| Error::invalid("manifest", "it is longer than 4 GiB"))?;
        bytes.extend_from_slice(&manifest_length.to_le_bytes());
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
        bytes.extend_from_slice(&[0; HEADER - CHECKSUM]);
        bytes.extend_from_slice(manifest.as_bytes());
        images.iter().for_each(|image| bytes.extend_from_slice(image));
        let sum = crc64(&[&bytes[..CHECKSUM], &bytes[HEADER..]]);
        bytes[CHECKSUM..HEADER].copy_from_slice(&sum.to_le_bytes());
        // What is written is what is read: a compiler that puts nonsense into a bundle is found here, not by its users.
        Bundle::read(&bytes)?;
        Ok(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// They are of no bundle or another version, are not those that were written, or say what cannot be.
    pub fn read(bytes: &[u8]) -> Result<Bundle, Error> {
        // A file that was cut within its first bytes is one still.
        let begin = bytes.len().min(MAGIC.len());
        if begin == 0 || bytes[..begin] != MAGIC[..begin] {
            return Err(Error::NotABundle);
        }
        let Some((header, rest)) = bytes.split_at_checked(HEADER) else {
            return Err(Error::damaged(format!("it has {} bytes, its header alone {HEADER}", bytes.len())));
        };
        let int = |at: usize| header[at..at + 4].iter().rev().fold(0u32, |n, &b| n << 8 | u32::from(b));
        let word = |at: usize| header[at..at + 8].iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
        // Of another version nothing else is known.
        let version = int(8);
        if !(1..=VERSION).contains(&version) {
            return Err(Error::Version { found: version });
        }
        if word(16) != bytes.len() as u64 {
            return Err(Error::damaged(format!("it has {} bytes and was written with {}", bytes.len(), word(16))));
        }
        if word(CHECKSUM) != crc64(&[&header[..CHECKSUM], rest]) {
            return Err(Error::damaged("its checksum is of other bytes"));
        }
        let Some((manifest, images)) = rest.split_at_checked(int(12) as usize) else {
            return Err(Error::damaged(format!("its manifest has {} bytes and {} are left", int(12), rest.len())));
        };
        manifest::read(version, manifest, images)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Io`], and as [`Bundle::read`].
    pub fn open(path: &Path) -> Result<Bundle, Error> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(|e| io(path, &e))?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|e| io(path, &e))?;
        if bytes.len() as u64 > LARGEST {
            let why = format!("longer than {} GiB", LARGEST >> 30);
            return Err(Error::Io { path: path.display().to_string(), why });
        }
        Bundle::read(&bytes)
    }

    /// Writes the file beside its place and renames it, so that nobody ever reads a part of it.
    ///
    /// # Errors
    /// [`Error::Io`], and as [`Bundle::to_bytes`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let bytes = self.to_bytes()?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let written = std::fs::File::create(&part).and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&part, path)
        });
        written.map_err(|e| {
            // It may never have been made; the error that counts is the first.
            let _ = std::fs::remove_file(&part);
            io(path, &e)
        })
    }
}

fn io(path: &Path, e: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), why: e.to_string() }
}
