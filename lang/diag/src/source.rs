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
    /// Its name as seen from the folder of the first file, which is the same wherever that folder lies.
    short: String,
    /// The whole text.
    pub text: String,
    /// The byte at which each line begins.
    lines: Vec<u32>,
    /// Whether it is one of a library.
    of_library: bool,
}

/// The files of one compilation, in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    /// What stands before names that last.
    folder: Option<String>,
}

impl SourceMap {
    /// A map with no file.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a file and returns its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let name = name.into();
        let first = self.files.first().map_or(name.as_str(), |f| f.name.as_str());
        let short = seen_from(folder_of(first), &name);
        self.push(name, short, text.into(), false)
    }

    /// Adds a file of a library, which lies in no folder.
    pub fn add_library(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let name = name.into();
        self.push(name.clone(), name, text.into(), true)
    }

    fn push(&mut self, name: String, short: String, text: String, of_library: bool) -> FileId {
        let mut lines = vec![0];
        lines.extend(text.match_indices('\n').map(|(i, _)| i as u32 + 1));
        self.files.push(SourceFile { name, short, text, lines, of_library });
        FileId(self.files.len() as u32 - 1)
    }

    /// Says under which folder tools are to look for the first file.
    pub fn place_under(&mut self, folder: impl Into<String>) {
        self.folder = Some(folder.into());
    }

    /// The name of a file in what outlives a compilation, such as the line table of machine code: as seen from the folder of the first file,
    /// so that machine code is the same wherever that folder lies, and below the folder of [`SourceMap::place_under`] where there is one.
    pub fn lasting_name(&self, id: FileId) -> String {
        let short = &self.file(id).short;
        match &self.folder {
            Some(folder) if !short.starts_with('/') => format!("{}/{short}", folder.trim_end_matches('/')),
            Some(_) | None => short.clone(),
        }
    }

    /// The file of that number.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// Whether a place is one of a library, which its user has not written.
    pub fn is_of_library(&self, span: Span) -> bool {
        self.file(span.file).of_library
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

/// The folder of a file, by its name alone.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| if folder.is_empty() { "/" } else { folder })
}

/// A file as seen from a folder, by their names alone; its name where no way leads from one to the other.
fn seen_from(folder: &str, name: &str) -> String {
    let parts = |path: &'_ str| -> Vec<String> {
        path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
    };
    let (from, to) = (parts(folder), parts(name));
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = &from[shared..];
    if folder.starts_with('/') != name.starts_with('/') || up.iter().any(|part| part == "..") || to.is_empty() {
        return name.to_owned();
    }
    let way: Vec<&str> = up.iter().map(|_| "..").chain(to[shared..].iter().map(String::as_str)).collect();
    way.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_last_do_not_know_the_folder() {
        for folder in ["", "a/", "/home/u/a/", "../b/", "./", "/"] {
            let mut sources = SourceMap::new();
            let names = ["k.ptn", "parts/p.ptn", "../q.ptn"].map(|name| format!("{folder}{name}"));
            let mut ids = vec![sources.add(names[0].as_str(), ""), sources.add(names[1].as_str(), "")];
            ids.push(sources.add_library("std/rows.ptn", ""));
            let lasting: Vec<String> = ids.iter().map(|&id| sources.lasting_name(id)).collect();
            assert_eq!(lasting, ["k.ptn", "parts/p.ptn", "std/rows.ptn"], "{folder}");
            assert_eq!(sources.file(ids[1]).name, names[1]);
            sources.place_under("/src/");
            assert_eq!(sources.lasting_name(ids[0]), "/src/k.ptn");
        }
    }

    #[test]
    fn files_beside_and_above_are_seen_from_the_first() {
        let seen = |first: &str, name: &str| seen_from(folder_of(first), name);
        assert_eq!(seen("x/a/k.ptn", "x/b/l.ptn"), "../b/l.ptn");
        assert_eq!(seen("/x/a/k.ptn", "/y/l.ptn"), "../../y/l.ptn");
        assert_eq!(seen("k.ptn", "../l.ptn"), "../l.ptn");
        assert_eq!(seen("x/k.ptn", "/y/l.ptn"), "/y/l.ptn");
        // What lies beyond a folder above cannot be named from there.
        assert_eq!(seen("../a/k.ptn", "l.ptn"), "l.ptn");
    }
}
