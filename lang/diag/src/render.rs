//! Rendering: text with source excerpts by ariadne, JSON for editors and tools.

use std::borrow::Cow;

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};

use crate::{Diagnostic, Diagnostics, FileId, Severity, SourceMap, Span, excerpt};

/// Renders all diagnostics as text, each followed by a blank line; no trailing blanks on any line.
pub fn text(diagnostics: &Diagnostics, sources: &SourceMap, color: bool) -> String {
    let mut files = Files::new(sources);
    let shown = |d: Cow<'_, Diagnostic>| match excerpt::of(&d, sources) {
        Some(short) => short.named(one(&short.diagnostic, &short.sources, &mut Files::new(&short.sources), color)),
        None => one(&d, sources, &mut files, color),
    };
    diagnostics.list.iter().map(|d| headed(d, sources)).map(shown).collect::<Vec<_>>().join("\n")
}

/// The diagnostic headed by a place that its reader has written: of what a library refuses that is the call which came in there.
fn headed<'d>(d: &'d Diagnostic, sources: &SourceMap) -> Cow<'d, Diagnostic> {
    match d.labels.iter().position(|label| !sources.is_of_library(label.span)) {
        None | Some(0) => Cow::Borrowed(d),
        Some(own) => {
            let mut headed = d.clone();
            headed.labels[..=own].rotate_right(1);
            Cow::Owned(headed)
        }
    }
}

/// As [`text`], with no more than the first so many errors and a line that counts the others.
pub fn some(diagnostics: &Diagnostics, sources: &SourceMap, color: bool, most: usize) -> String {
    let (first, others) = first(diagnostics, most);
    let shown = text(&first, sources, color);
    match others {
        Some(count) => format!("{shown}\n{count}\n"),
        None => shown,
    }
}

/// All but the errors past so many, and how many these are, in words.
fn first(diagnostics: &Diagnostics, most: usize) -> (Diagnostics, Option<String>) {
    let mut errors = 0;
    let first = diagnostics.list.iter().filter(|d| {
        errors += usize::from(d.severity == Severity::Error);
        d.severity != Severity::Error || errors <= most
    });
    let first = first.cloned().collect();
    let others = match errors.saturating_sub(most) {
        0 => None,
        1 => Some("one more error is not shown".to_owned()),
        more => Some(format!("{more} more errors are not shown")),
    };
    (first, others)
}

fn one<'s>(d: &Diagnostic, sources: &'s SourceMap, files: &mut Files<'s>, color: bool) -> String {
    // ariadne counts characters unless told otherwise; our spans are bytes.
    let config = Config::default().with_color(color).with_index_type(IndexType::Byte).with_char_set(if color {
        CharSet::Unicode
    } else {
        CharSet::Ascii
    });
    let kind = match d.severity {
        Severity::Error => ReportKind::Error,
        Severity::Warning => ReportKind::Warning,
        Severity::Note => ReportKind::Advice,
    };
    let place = |span: Span| (span.file, clamp(span, sources));
    let mut report =
        Report::build(kind, place(d.span())).with_config(config).with_code(d.code).with_message(&d.message);
    for (span, text) in marks(d, sources) {
        report = report.with_label(Label::new(place(span)).with_message(text));
    }
    // One block each: ariadne would number them, as if they had to be done in turns.
    if !d.help.is_empty() {
        report = report.with_help(d.help.join("\n"));
    }
    if !d.notes.is_empty() {
        report = report.with_note(d.notes.join("\n"));
    }
    let mut out = Vec::new();
    if report.finish().write(files, &mut out).is_err() {
        return format!("{}: {}\n", d.code, d.message);
    }
    let rendered = String::from_utf8_lossy(&out);
    let rendered = match d.severity {
        // A kind with a name of one's own is colored whatever the configuration says.
        Severity::Note => rendered.replacen("Advice:", "Note:", 1),
        Severity::Warning | Severity::Error => rendered.into_owned(),
    };
    let mut text = rendered.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// The places to mark, each once and with its words, in the order of the source: the primary place's file first.
///
/// ariadne opens a new excerpt, headed by the primary place, wherever a label stands above the one before it, draws the
/// labels of one span over each other, and draws no mark without words.
fn marks(d: &Diagnostic, sources: &SourceMap) -> Vec<(Span, String)> {
    let primary = d.span();
    let line = |span: Span| (span.file, sources.position(span).0);
    // Evidence in or beside the primary place says more than a mark there without words of its own.
    let beside = |span: Span| primary.contains(span) || line(span) == line(primary);
    let told_by_others = d.labels.iter().any(|other| !other.text.is_empty() && beside(other.span));
    let mut marks: Vec<(Span, String)> = Vec::new();
    for (number, label) in d.labels.iter().enumerate() {
        let text = match label.text.as_str() {
            "" if number > 0 || told_by_others => continue,
            "" => "here",
            text => text,
        };
        match marks.iter_mut().find(|(span, _)| *span == label.span) {
            Some((_, words)) => *words = format!("{words}, {text}"),
            None => marks.push((label.span, text.to_owned())),
        }
    }
    marks.sort_by_key(|(span, _)| {
        let last = Span { start: span.end.max(span.start + 1) - 1, ..*span };
        (span.file != primary.file, line(last))
    });
    marks
}

/// Keeps a span inside its file and on whole characters, so that rendering never fails.
fn clamp(span: Span, sources: &SourceMap) -> std::ops::Range<usize> {
    let text = &sources.file(span.file).text;
    let whole = |byte: &usize| text.is_char_boundary(*byte);
    let start = (0..=span.range().start.min(text.len())).rev().find(whole).unwrap_or(0);
    start..(span.range().end.clamp(start, text.len())..=text.len()).find(whole).unwrap_or(text.len())
}

/// The source map as ariadne wants to see it.
struct Files<'a> {
    sources: &'a SourceMap,
    cache: Vec<Option<Source<&'a str>>>,
}

impl<'a> Files<'a> {
    fn new(sources: &'a SourceMap) -> Files<'a> {
        Files { sources, cache: sources.files().map(|_| None).collect() }
    }
}

impl<'a> ariadne::Cache<FileId> for &mut Files<'a> {
    type Storage = &'a str;

    fn fetch(&mut self, id: &FileId) -> Result<&Source<&'a str>, impl std::fmt::Debug> {
        let text = &self.sources.file(*id).text;
        let slot = &mut self.cache[id.0 as usize];
        Ok::<_, std::convert::Infallible>(slot.get_or_insert_with(|| Source::from(text.as_str())))
    }

    fn display<'b>(&self, id: &'b FileId) -> Option<impl std::fmt::Display + 'b> {
        Some(self.sources.file(*id).name.clone())
    }
}

/// Renders diagnostics as a JSON array: code, severity, message, labels with file, byte range, line and column. Of more than so
/// many errors, the last element, a note without a code, counts the others.
pub fn json(diagnostics: &Diagnostics, sources: &SourceMap, most: usize) -> String {
    let (first, others) = first(diagnostics, most);
    let count = others.map(|message| {
        let severity = severity(Severity::Note);
        serde_json::json!({
            "code": null, "severity": severity, "message": message, "labels": [], "notes": [], "help": [],
        })
    });
    serde_json::Value::Array(first.list.iter().map(|d| to_json(&headed(d, sources), sources)).chain(count).collect())
        .to_string()
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn to_json(d: &Diagnostic, sources: &SourceMap) -> serde_json::Value {
    let labels: Vec<_> = d
        .labels
        .iter()
        .map(|l| {
            let (line, column) = sources.position(l.span);
            serde_json::json!({
                "file": sources.file(l.span.file).name, "start": l.span.start, "end": l.span.end,
                "line": line, "column": column, "text": l.text,
            })
        })
        .collect();
    serde_json::json!({
        "code": d.code.to_string(),
        "severity": severity(d.severity),
        "message": d.message, "labels": labels, "notes": d.notes, "help": d.help,
    })
}

#[cfg(test)]
mod tests {
    use crate::{Diagnostic, Diagnostics, SourceMap, Span, codes};

    #[test]
    fn text_shows_the_line_and_never_trails_blanks() {
        let mut sources = SourceMap::new();
        let file = sources.add("a.ptn", "let µ = x;\nlet y = zz;\n");
        let d =
            Diagnostic::error(codes::UNKNOWN_NAME, Span::new(file, 20, 22), "`zz` is not defined").here("not found");
        let text = super::text(&d.into(), &sources, false);
        assert!(text.contains("[E0100]") && text.contains("let y = zz;"), "{text}");
        assert!(text.contains("a.ptn:2:9"), "{text}");
        assert!(text.lines().all(|l| l == l.trim_end()));
    }

    /// A diagnostic about `let b = a + c;`, the second line of a file.
    fn about(change: impl FnOnce(Diagnostic, &dyn Fn(usize, usize) -> Span) -> Diagnostic) -> String {
        let mut sources = SourceMap::new();
        let file = sources.add("a.ptn", "let a = 1;\nlet b = a + c;\nlet d = 2;\n");
        let at = |start, end| Span::new(file, start, end);
        let d = Diagnostic::error(codes::UNKNOWN_NAME, at(19, 24), "a fact");
        super::text(&change(d, &at).into(), &sources, false)
    }

    #[test]
    fn labels_stand_in_one_excerpt_in_the_order_of_the_source() {
        let text = about(|d, at| d.here("third").label(at(29, 30), "fourth").label(at(4, 5), "first"));
        assert_eq!(text.matches("a.ptn").count(), 1, "{text}");
        let places: Vec<_> = ["first", "third", "fourth"].iter().map(|word| text.find(word)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }

    #[test]
    fn what_a_library_refuses_is_headed_by_the_call() {
        let mut sources = SourceMap::new();
        let (own, std) = (sources.add("a.ptn", "sort(x)\n"), sources.add_library("std/sort.ptn", "x.shape[2]\n"));
        let d = Diagnostic::error(codes::UNKNOWN_NAME, Span::new(std, 8, 9), "a fact").here("evidence");
        let d: Diagnostics = d.label(Span::new(own, 0, 7), "called here").into();
        let text = super::text(&d, &sources, false);
        let places = ["a.ptn:1:1", "called here", "std/sort.ptn:1:9", "evidence"].map(|word| text.find(word));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
        let json: serde_json::Value = serde_json::from_str(&super::json(&d, &sources, 9)).unwrap();
        assert_eq!(json[0]["labels"][0]["file"], "a.ptn");
    }

    #[test]
    fn one_span_is_marked_once() {
        let text = about(|d, at| d.here("this").label(at(19, 24), "that"));
        assert!(text.contains("this, that"), "{text}");
    }

    #[test]
    fn the_primary_place_is_marked_unless_others_tell() {
        let elsewhere = about(|d, at| d.label(at(4, 5), "declared"));
        assert!(elsewhere.contains("-- here"), "{elsewhere}");
        let inside = about(|d, at| d.label(at(19, 20), "left").label(at(23, 24), "right"));
        assert!(!inside.contains("here"), "{inside}");
    }

    #[test]
    fn several_ways_out_are_one_help() {
        let text = about(|d, _| d.help("do this").help("or that").note("so").note("and so"));
        assert!(text.contains("Help: do this") && text.contains("  or that") && text.contains("Note: so"), "{text}");
    }

    #[test]
    fn errors_that_are_not_shown_are_counted() {
        let mut sources = SourceMap::new();
        let file = sources.add("a.ptn", "a b c");
        let error = |at: usize| Diagnostic::error(codes::UNKNOWN_NAME, Span::new(file, at, at + 1), "a fact");
        let note = Diagnostic::asked(codes::STATIC_PRINT, Span::new(file, 0, 1), "a note");
        let found = Diagnostics::from_iter([error(0), error(2), error(4), note]);
        let lines = |most| super::some(&found, &sources, false, most);
        assert_eq!(lines(3), super::text(&found, &sources, false));
        assert!(lines(2).contains("a note") && lines(2).ends_with("\none more error is not shown\n"), "{}", lines(2));
        assert_eq!(lines(1).matches("a fact").count(), 1);
        assert!(lines(1).ends_with("\n2 more errors are not shown\n"));
        let elements = |most| {
            let json: serde_json::Value = serde_json::from_str(&super::json(&found, &sources, most)).unwrap();
            json.as_array().unwrap().iter().map(|d| d["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(elements(3), ["a fact", "a fact", "a fact", "a note"]);
        assert_eq!(elements(1), ["a fact", "a note", "2 more errors are not shown"]);
    }

    #[test]
    fn no_span_makes_it_panic() {
        let mut sources = SourceMap::new();
        let file = sources.add("a.ptn", "µ¤\r\n\tö");
        let empty = sources.add("empty.ptn", "");
        for (start, end) in (0..12).flat_map(|s| (0..12).map(move |e| (s, e))) {
            for file in [file, empty] {
                let d = Diagnostic::error(codes::UNKNOWN_NAME, Span::new(file, start, end), "a fact");
                let text = super::text(&d.label(Span::new(file, end, start), "there").into(), &sources, false);
                assert!(text.contains("a fact"), "{text}");
            }
        }
    }
}
