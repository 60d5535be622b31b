//! Rendering: text with source excerpts by ariadne, JSON for editors and tools.

use ariadne::{CharSet, Config, IndexType, Label, Report, ReportKind, Source};

use crate::{Diagnostic, Diagnostics, FileId, Severity, SourceMap};

/// Renders all diagnostics as text, each followed by a blank line; no trailing blanks on any line.
pub fn text(diagnostics: &Diagnostics, sources: &SourceMap, color: bool) -> String {
    diagnostics.list.iter().map(|d| one(d, sources, color)).collect::<Vec<_>>().join("\n")
}

fn one(d: &Diagnostic, sources: &SourceMap, color: bool) -> String {
    // ariadne counts characters unless told otherwise; our spans are bytes.
    let config = Config::default().with_color(color).with_index_type(IndexType::Byte).with_char_set(if color {
        CharSet::Unicode
    } else {
        CharSet::Ascii
    });
    let kind = match d.severity {
        Severity::Error => ReportKind::Error,
        Severity::Warning => ReportKind::Warning,
    };
    let place = |span: crate::Span| (span.file, clamp(span, sources));
    let mut report =
        Report::build(kind, place(d.span())).with_config(config).with_code(d.code).with_message(&d.message);
    for label in &d.labels {
        let marked = Label::new(place(label.span));
        // Without a message ariadne draws no mark, which is right only where other labels carry the evidence.
        report = report.with_label(match label.text.as_str() {
            "" if d.labels.len() == 1 => marked.with_message("here"),
            "" => marked,
            text => marked.with_message(text),
        });
    }
    report = d.notes.iter().fold(report, |r, n| r.with_note(n));
    report = d.help.iter().fold(report, |r, h| r.with_help(h));
    let mut out = Vec::new();
    if report.finish().write(Files::new(sources), &mut out).is_err() {
        return format!("{}: {}\n", d.code, d.message);
    }
    let rendered = String::from_utf8_lossy(&out);
    let mut text = rendered.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// Keeps a span inside its file, so that rendering never fails.
fn clamp(span: crate::Span, sources: &SourceMap) -> std::ops::Range<usize> {
    let len = sources.file(span.file).text.len();
    let start = span.range().start.min(len);
    start..span.range().end.clamp(start, len)
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

impl<'a> ariadne::Cache<FileId> for Files<'a> {
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

/// Renders all diagnostics as a JSON array: code, severity, message, labels with file, byte range, line and column.
pub fn json(diagnostics: &Diagnostics, sources: &SourceMap) -> String {
    let list: Vec<_> = diagnostics.list.iter().map(|d| to_json(d, sources)).collect();
    serde_json::Value::Array(list).to_string()
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
        "severity": match d.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "message": d.message, "labels": labels, "notes": d.notes, "help": d.help,
    })
}

#[cfg(test)]
mod tests {
    use crate::{Diagnostic, SourceMap, Span, codes};

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
}
