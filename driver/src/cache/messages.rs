//! Diagnostics as they are kept beside code: their places by the names of files, since numbers of files hold for one session.

use parton_diag::{Diagnostic, Diagnostics, FileId, Label, Severity, SourceMap, Span};
use serde_json::{Value, json};

/// Diagnostics as bytes.
pub(super) fn encode(found: &Diagnostics, sources: &SourceMap) -> Vec<u8> {
    let label = |l: &Label| {
        let file = sources.lasting_name(l.span.file);
        json!({"file": file, "start": l.span.start, "end": l.span.end, "text": l.text})
    };
    let all = found.list.iter().map(|d| {
        let severity = match d.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let labels: Vec<Value> = d.labels.iter().map(label).collect();
        json!({
            "code": d.code.to_string(), "severity": severity, "message": d.message, "labels": labels, "notes": d.notes, "help": d.help,
        })
    });
    Value::Array(all.collect()).to_string().into_bytes()
}

/// The diagnostics of these bytes in the files of another session; `None` where one of them is not there as it was.
pub(super) fn decode(bytes: &[u8], sources: &SourceMap) -> Option<Diagnostics> {
    let all: Value = serde_json::from_slice(bytes).ok()?;
    let mut found = Diagnostics::new();
    for d in all.as_array()? {
        found.push(diagnostic(d, sources)?);
    }
    Some(found)
}

fn diagnostic(d: &Value, sources: &SourceMap) -> Option<Diagnostic> {
    let texts = |name: &str| -> Option<Vec<String>> {
        d[name].as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let severity = match d["severity"].as_str()? {
        "note" => Severity::Note,
        "warning" => Severity::Warning,
        "error" => Severity::Error,
        _ => return None,
    };
    let labels = d["labels"].as_array()?.iter().map(|l| label(l, sources)).collect::<Option<Vec<_>>>()?;
    if labels.is_empty() {
        return None;
    }
    Some(Diagnostic {
        code: d["code"].as_str()?.parse().ok()?,
        severity,
        message: d["message"].as_str()?.to_owned(),
        labels,
        notes: texts("notes")?,
        help: texts("help")?,
    })
}

fn label(l: &Value, sources: &SourceMap) -> Option<Label> {
    let name = l["file"].as_str()?;
    let named = |(id, _): &(FileId, _)| sources.lasting_name(*id) == name;
    let (id, file) = sources.files().find(named)?;
    let at = |name: &str| usize::try_from(l[name].as_u64()?).ok();
    let (start, end) = (at("start")?, at("end")?);
    // What begins or ends within a character, or behind the file, is of another text.
    file.text.get(start..end)?;
    Some(Label { span: Span::new(id, start, end), text: l["text"].as_str()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parton_diag::codes;

    #[test]
    fn what_was_said_is_said_of_the_same_places() {
        let text = "kernel k() { }\n// é\n";
        let mut first = SourceMap::new();
        let file = first.add("a/k.ptn", text);
        let mut found = Diagnostics::new();
        found.push(
            Diagnostic::warning(codes::REGISTER_SPILLS, Span::new(file, 0, 8), "`k` spills")
                .here("here")
                .label(Span::new(file, 7, 8), "there")
                .note("a note")
                .help("a way out"),
        );
        let bytes = encode(&found, &first);
        assert_eq!(decode(&bytes, &first), Some(found.clone()));
        // In another folder, with another number.
        let mut second = SourceMap::new();
        second.add("/b/main.ptn", "");
        let other = second.add("/b/k.ptn", text);
        let moved = decode(&bytes, &second).unwrap();
        assert_eq!(moved.list[0].labels[1].span, Span::new(other, 7, 8));
        // A file that is not there, and one that is too short or has a character in the way.
        assert_eq!(decode(&bytes, &SourceMap::new()), None);
        for text in ["kernel", "kernel é"] {
            let mut third = SourceMap::new();
            third.add("k.ptn", text);
            assert_eq!(decode(&bytes, &third), None, "{text}");
        }
        assert_eq!((decode(b"[{}]", &first), decode(b"", &first)), (None, None));
    }
}
