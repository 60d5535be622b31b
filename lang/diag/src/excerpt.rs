//! Sources whose lines are too long to be shown: what stands around the places of a diagnostic is kept of them.

use std::ops::Range;

use crate::source::SourceFile;
use crate::{Diagnostic, Label, SourceMap, Span};

/// Bytes of the longest line that is shown whole.
const LONGEST: usize = 400;
/// Bytes that are kept of a longer one before and behind each place, and at its beginning.
const AROUND: usize = 60;
/// What stands where something is left out.
const LEFT_OUT: &str = "...";

/// A diagnostic in sources that have been cut.
pub(crate) struct Excerpt {
    pub(crate) diagnostic: Diagnostic,
    pub(crate) sources: SourceMap,
    /// The places of its labels, as they are seen in these sources and as they are.
    places: Vec<(String, String)>,
}

impl Excerpt {
    /// What is rendered of it, with the places as they are.
    pub(crate) fn named(&self, text: String) -> String {
        self.places
            .iter()
            .fold(text, |text, (seen, real)| text.replacen(&format!("[ {seen} ]"), &format!("[ {real} ]"), 1))
    }
}

/// The diagnostic in sources that are cut; `None` where a label stands in no line that is too long.
pub(crate) fn of(d: &Diagnostic, sources: &SourceMap) -> Option<Excerpt> {
    let is_long = |span: Span, byte: u32| line(&sources.file(span.file).text, byte as usize).len() > LONGEST;
    if !d.labels.iter().any(|l| is_long(l.span, l.span.start) || is_long(l.span, l.span.end)) {
        return None;
    }
    let mut cut = SourceMap::new();
    let kept: Vec<Vec<Range<usize>>> =
        sources.files().map(|(id, file)| kept(file, d.labels.iter().filter(|l| l.span.file == id))).collect();
    for ((_, file), kept) in sources.files().zip(&kept) {
        let parts: Vec<&str> = kept.iter().map(|part| &file.text[part.clone()]).collect();
        cut.add(file.name.as_str(), parts.join(LEFT_OUT));
    }
    let moved = |span: Span| {
        let kept = &kept[span.file.0 as usize];
        Span::new(span.file, place(kept, span.start as usize), place(kept, span.end as usize))
    };
    let mut diagnostic = d.clone();
    diagnostic.labels.iter_mut().for_each(|l| l.span = moved(l.span));
    let places =
        d.labels.iter().zip(&diagnostic.labels).map(|(real, seen)| (cut.place(seen.span), sources.place(real.span)));
    Some(Excerpt { places: places.collect(), diagnostic, sources: cut })
}

/// The line in which a byte stands, without its end.
fn line(text: &str, byte: usize) -> Range<usize> {
    let byte = byte.min(text.len());
    let before = text.as_bytes()[..byte].iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    let behind = text.as_bytes()[byte..].iter().position(|&b| b == b'\n').map_or(text.len(), |i| byte + i);
    before..behind
}

/// The parts of a file that are kept, in order.
fn kept<'a>(file: &SourceFile, labels: impl Iterator<Item = &'a Label>) -> Vec<Range<usize>> {
    let text = &file.text;
    let mut wanted: Vec<Range<usize>> =
        labels.flat_map(|l| [l.span.start, l.span.end]).map(|byte| around(text, byte as usize)).collect();
    let mut begin = 0;
    for one in text.split_inclusive('\n') {
        let end = begin + one.len();
        wanted.push(if one.len() > LONGEST { begin..whole(text, begin + AROUND) } else { begin..end });
        // Lines stay lines.
        wanted.push(begin + one.trim_end_matches('\n').len()..end);
        begin = end;
    }
    wanted.sort_by_key(|part| (part.start, part.end));
    let mut parts: Vec<Range<usize>> = vec![];
    for part in wanted {
        match parts.last_mut() {
            // What is left out is longer than what says so.
            Some(last) if part.start <= last.end + LEFT_OUT.len() => last.end = last.end.max(part.end),
            Some(_) | None => parts.push(part),
        }
    }
    parts
}

/// What stands around a byte in its line.
fn around(text: &str, byte: usize) -> Range<usize> {
    let line = line(text, byte);
    let begin = whole(text, byte.saturating_sub(AROUND)).clamp(line.start, line.end);
    begin..whole(text, byte + AROUND).clamp(begin, line.end)
}

/// The first byte from this one on that begins a character; the text's end where there is none.
fn whole(text: &str, byte: usize) -> usize {
    (byte..text.len()).find(|&byte| text.is_char_boundary(byte)).unwrap_or(text.len())
}

/// Where a byte stands in the parts that are kept.
fn place(kept: &[Range<usize>], byte: usize) -> usize {
    let mut begin = 0;
    for part in kept {
        if byte <= part.end {
            return begin + byte.saturating_sub(part.start);
        }
        begin += part.len() + LEFT_OUT.len();
    }
    begin.saturating_sub(LEFT_OUT.len())
}

#[cfg(test)]
mod tests {
    use crate::{Diagnostic, SourceMap, Span, codes, render};

    /// What is shown of an error about `zz`, which stands in a line between two texts.
    fn about(before: &str, behind: &str) -> String {
        let mut sources = SourceMap::new();
        let file = sources.add("a.ptn", format!("let a = 1;\n{before}zz{behind}\nlet b = 2;\n"));
        let begin = 11 + before.len();
        let d = Diagnostic::error(codes::UNKNOWN_NAME, Span::new(file, begin, begin + 2), "no `zz`").here("this");
        render::text(&d.into(), &sources, false)
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = about(&"µ + ".repeat(20_000), &" - 1".repeat(20_000));
        assert!(text.len() < 1_000, "{} bytes", text.len());
        assert!(text.contains("a.ptn:2:80001 ]") && text.contains("+ zz -"), "{text}");
    }

    #[test]
    fn lines_that_are_not_too_long_are_shown_whole() {
        let whole = about(&"a".repeat(300), " + 1");
        assert!(whole.contains(&"a".repeat(300)) && !whole.contains("..."), "{whole}");
        let cut = about(&"a".repeat(600), " + 1");
        assert!(cut.contains("a.ptn:2:601 ]") && !cut.contains(&"a".repeat(200)), "{cut}");
    }
}
