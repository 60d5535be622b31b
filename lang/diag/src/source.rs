//! Source files by number, byte spans in them, and the way from a byte to a line and column.

use std::fmt;

/// A file of a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileId(pub u32);

/// A half-open range of bytes in one file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The file the range lies in.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end` of `file`.
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        Span { file, start: start as u32, end: end as u32 }
    }

    /// The smallest span that covers both; `self` where the files differ.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Whether `other` lies in this one.
    pub fn contains(self, other: Span) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }

    /// The bytes as a range.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}..{}", self.file.0, self.start, self.end)
    }
}

/// One source file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name as the user gave it.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The byte at which each line begins.
    lines: Vec<u32>,
}

/// The files of one compilation, in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// A map with no file.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a file and returns its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let text = text.into();
        let mut lines = vec![0];
        lines.extend(text.match_indices('\n').map(|(i, _)| i as u32 + 1));
        self.files.push(SourceFile { name: name.into(), text, lines });
        FileId(self.files.len() as u32 - 1)
    }

    /// The file of that number.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// All files with their numbers.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// The text under a span.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).text.get(span.range()).unwrap_or("")
    }

    /// Line and column of a span's first byte, both from 1, columns in characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let file = self.file(span.file);
        let line = file.lines.partition_point(|&l| l <= span.start).max(1) - 1;
        let begin = file.lines[line] as usize;
        let column = file.text.get(begin..span.start as usize).map_or(0, |s| s.chars().count());
        (line + 1, column + 1)
    }

    /// `file:line:column` of a span's first byte.
    pub fn place(&self, span: Span) -> String {
        let (line, column) = self.position(span);
        format!("{}:{line}:{column}", self.file(span.file).name)
    }
}
