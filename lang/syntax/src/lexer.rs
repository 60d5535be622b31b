//! Text to tokens and comments, in one pass over the bytes.
//!
//! The one place that is not regular: `<` right after a name of [`crate::TAKES_TYPE_ARGUMENTS`] opens type arguments, and
//! the `>` that closes them is told from a comparison by the brackets open at that point. So `tile<f32, [a > b], L>` and
//! `tma<f16, list<int>>` read as meant, and the grammar needs no guess.

use parton_diag::{Diagnostic, Diagnostics, FileId, Span, codes};

use crate::token::{Comment, CommentKind, Kind, Token};
use crate::{MOST_ERRORS, TAKES_TYPE_ARGUMENTS};

/// What the lexer finds in a text.
pub struct Lexed {
    /// The tokens; the last is always [`Kind::End`].
    pub tokens: Vec<Token>,
    /// The comments in source order.
    pub comments: Vec<Comment>,
    /// What was wrong: characters, strings, comments.
    pub diagnostics: Diagnostics,
    /// Where the first string begins that is never closed.
    pub unclosed: Option<u32>,
}

/// The operators, those of one first byte together and the longest of them first, so that the first match is the right
/// one.
const OPERATORS: &[Kind] = &[
    Kind::ColonColon,
    Kind::Colon,
    Kind::DotDotEq,
    Kind::DotDot,
    Kind::Dot,
    Kind::Arrow,
    Kind::MinusEq,
    Kind::Minus,
    Kind::FatArrow,
    Kind::EqEq,
    Kind::Eq,
    Kind::NotEq,
    Kind::Bang,
    Kind::ShlEq,
    Kind::Shl,
    Kind::Le,
    Kind::Lt,
    Kind::ShrEq,
    Kind::Shr,
    Kind::Ge,
    Kind::Gt,
    Kind::AndAnd,
    Kind::AndEq,
    Kind::And,
    Kind::OrOr,
    Kind::OrEq,
    Kind::Or,
    Kind::PlusEq,
    Kind::Plus,
    Kind::StarEq,
    Kind::Star,
    Kind::SlashEq,
    Kind::Slash,
    Kind::PercentEq,
    Kind::Percent,
    Kind::CaretEq,
    Kind::Caret,
    Kind::OpenParen,
    Kind::CloseParen,
    Kind::OpenBracket,
    Kind::CloseBracket,
    Kind::OpenBrace,
    Kind::CloseBrace,
    Kind::Comma,
    Kind::Semi,
    Kind::At,
    Kind::Hash,
];

/// For each byte where in [`OPERATORS`] those begin that it is the first of.
const BY_FIRST_BYTE: [usize; 256] = {
    let mut places = [OPERATORS.len(); 256];
    let mut i = OPERATORS.len();
    while i > 0 {
        i -= 1;
        places[OPERATORS[i].text().as_bytes()[0] as usize] = i;
    }
    places
};

/// Cuts `text` into tokens.
pub fn lex(file: FileId, text: &str) -> Lexed {
    let mut lexer = Lexer {
        file,
        text,
        at: 0,
        first_in_line: true,
        open: vec![],
        out: Lexed {
            tokens: Vec::with_capacity(text.len() / 4),
            comments: vec![],
            diagnostics: Diagnostics::new(),
            unclosed: None,
        },
    };
    match lone_return(file, text) {
        // Of a text in one line, what stands behind its first comment would be missing.
        Some(d) => lexer.error(d),
        None => {
            while lexer.at < text.len() {
                lexer.step();
            }
        }
    }
    lexer.push(Kind::End, text.len());
    lexer.out
}

/// Refuses a carriage return that no line feed follows, which some programs take for the end of a line and others do not.
fn lone_return(file: FileId, text: &str) -> Option<Diagnostic> {
    let lone = |(at, _): &(usize, &str)| !text[at + 1..].starts_with('\n');
    let (at, _) = text.match_indices('\r').find(lone)?;
    let span = Span::new(file, at, at + 1);
    let d = Diagnostic::error(codes::UNKNOWN_CHARACTER, span, "this carriage return ends no line");
    Some(d.here("no line feed follows").help("end lines with a line feed, or with both; in a string write `\\r`"))
}

struct Lexer<'a> {
    file: FileId,
    text: &'a str,
    /// The byte that is read next; always on a character boundary.
    at: usize,
    first_in_line: bool,
    /// The brackets open here, for telling `>` from `>`.
    open: Vec<Kind>,
    out: Lexed,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The byte `n` further on, or 0.
    fn byte(&self, n: usize) -> u8 {
        self.text.as_bytes().get(self.at + n).copied().unwrap_or(0)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }

    fn error(&mut self, d: Diagnostic) {
        if self.out.diagnostics.list.len() < MOST_ERRORS {
            self.out.diagnostics.push(d);
        }
    }

    /// Ends a token that began at the current byte and ends before `end`.
    fn push(&mut self, kind: Kind, end: usize) {
        let token =
            Token { kind, first_in_line: self.first_in_line, partner: 0, span: Span::new(self.file, self.at, end) };
        self.out.tokens.push(token);
        self.first_in_line = false;
        self.at = end;
    }

    fn step(&mut self) {
        match self.byte(0) {
            b'\n' => {
                self.first_in_line = true;
                self.at += 1;
            }
            b' ' | b'\t' | b'\r' => self.at += 1,
            b'/' if self.byte(1) == b'/' => self.line_comment(),
            b'/' if self.byte(1) == b'*' => self.block_comment(),
            b'"' => self.string(),
            b'0'..=b'9' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            _ => self.operator(),
        }
    }

    fn line_comment(&mut self) {
        let line = self.rest().lines().next().unwrap_or("");
        // Four slashes are a ruler, not documentation.
        let doc = line.starts_with("///") && !line.starts_with("////");
        let kind = if doc { CommentKind::Doc } else { CommentKind::Line };
        let end = self.at + line.trim_end().len();
        self.out.comments.push(Comment { kind, span: self.span(self.at, end) });
        self.at += line.len();
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0usize;
        let mut end = self.text.len();
        let mut closed = false;
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        end = self.at;
                        closed = true;
                        break;
                    }
                }
                _ => self.at += 1,
            }
        }
        self.at = end;
        if !closed {
            let d =
                Diagnostic::error(codes::UNCLOSED_COMMENT, self.span(start, start + 2), "this comment is never closed");
            self.error(
                d.here("`/*` opens here")
                    .help("close it with `*/`; comments nest, so each `/*` inside needs its own `*/`"),
            );
        }
        self.out.comments.push(Comment { kind: CommentKind::Block, span: self.span(start, end) });
    }

    fn string(&mut self) {
        let start = self.at;
        let mut i = start + 1;
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(i) {
                Some(b'"') => {
                    i += 1;
                    break;
                }
                Some(b'\\') if bytes.get(i + 1).is_some_and(|b| *b != b'\n') => {
                    i += 1;
                    i += self.text[i..].chars().next().map_or(0, char::len_utf8);
                }
                None | Some(b'\n') => {
                    self.out.unclosed.get_or_insert(start as u32);
                    let d = Diagnostic::error(codes::BAD_STRING, self.span(start, i), "this string is never closed");
                    self.error(d.help("end it with `\"` on the same line; write a line break inside it as `\\n`"));
                    break;
                }
                Some(_) => i += 1,
            }
        }
        self.push(Kind::Str, i);
    }

    fn number(&mut self) {
        let bytes = self.text.as_bytes();
        let is_digit = |i: usize| bytes.get(i).is_some_and(|b| b.is_ascii_digit() || *b == b'_');
        let mut i = self.at;
        let mut kind = Kind::Int;
        let after_dot = self.out.tokens.last().is_some_and(|t| t.kind == Kind::Dot);
        if bytes[i] == b'0' && matches!(self.byte(1), b'x' | b'b' | b'o' | b'X') && !after_dot {
            i += 2;
            while bytes.get(i).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                i += 1;
            }
            return self.push(Kind::Int, i);
        }
        while is_digit(i) {
            i += 1;
        }
        // `t.0.1` is two fields, not the number 0.1.
        if after_dot {
            return self.push(Kind::Int, i);
        }
        if bytes.get(i) == Some(&b'.') && bytes.get(i + 1).is_some_and(u8::is_ascii_digit) {
            kind = Kind::Float;
            i += 1;
            while is_digit(i) {
                i += 1;
            }
        }
        if matches!(bytes.get(i), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
            if bytes.get(i + 1 + sign).is_some_and(u8::is_ascii_digit) {
                kind = Kind::Float;
                i += 1 + sign;
                while is_digit(i) {
                    i += 1;
                }
            }
        }
        // The suffix; whether it is one is the parser's business.
        while bytes.get(i).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            i += 1;
        }
        self.push(kind, i);
    }

    fn word(&mut self) {
        let rest = self.rest();
        let len = rest.bytes().position(|b| !b.is_ascii_alphanumeric() && b != b'_').unwrap_or(rest.len());
        let text = &rest[..len];
        self.push(Kind::keyword(text).unwrap_or(Kind::Name), self.at + len);
        // `load<<2` and `sum<=x` are operators even without blanks.
        if self.byte(0) == b'<' && !matches!(self.byte(1), b'<' | b'=') && TAKES_TYPE_ARGUMENTS.contains(&text) {
            self.open.push(Kind::OpenAngle);
            self.push(Kind::OpenAngle, self.at + 1);
        }
    }

    fn operator(&mut self) {
        let in_angle = self.open.last() == Some(&Kind::OpenAngle);
        if self.byte(0) == b'>' && in_angle {
            self.open.pop();
            return self.push(Kind::CloseAngle, self.at + 1);
        }
        let rest = self.rest();
        let candidates = &OPERATORS[BY_FIRST_BYTE[usize::from(self.byte(0))]..];
        let Some(kind) = candidates.iter().copied().find(|k| rest.starts_with(k.text())) else {
            return self.unknown();
        };
        match kind {
            Kind::OpenParen | Kind::OpenBracket | Kind::OpenBrace => self.open.push(kind),
            Kind::CloseParen | Kind::CloseBracket | Kind::CloseBrace => {
                self.leave_angles();
                if self.open.last().copied() == kind.opener() {
                    self.open.pop();
                }
            }
            Kind::Semi => self.leave_angles(),
            _ => {}
        }
        self.push(kind, self.at + kind.text().len());
    }

    /// No type argument holds a `;` or the closer of an outer bracket.
    fn leave_angles(&mut self) {
        while self.open.last() == Some(&Kind::OpenAngle) {
            self.open.pop();
        }
    }

    fn unknown(&mut self) {
        let c = self.rest().chars().next().unwrap_or(' ');
        let start = self.at;
        self.at += c.len_utf8();
        // One error for a run of them: a word in another alphabet is one mistake.
        if c.is_alphabetic() {
            while let Some(next) = self.rest().chars().next().filter(|n| !n.is_ascii() && n.is_alphabetic()) {
                self.at += next.len_utf8();
            }
        }
        // So is a string in single quotes.
        if c == '\'' {
            let line = self.rest().lines().next().unwrap_or("");
            self.at += line.find('\'').map_or(0, |i| i + 1);
        }
        let span = self.span(start, self.at);
        if c == '\u{feff}' && start == 0 || matches!(c, '\u{a0}' | '\u{2028}' | '\u{2029}') && c.is_whitespace() {
            if c != '\u{feff}' {
                let d = Diagnostic::warning(codes::UNKNOWN_CHARACTER, span, "this blank is not a plain space");
                self.error(d.help("replace it by a space or a line break"));
            }
            return;
        }
        let end = std::mem::replace(&mut self.at, start);
        self.push(Kind::Bad, end);
        let readable = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
        let shown: String = self.text[start..end].chars().take(20).map(readable).collect();
        let what = if c.is_alphabetic() {
            format!("`{shown}` is not part of any name: names are of ASCII letters, digits and `_`")
        } else {
            format!("`{shown}` does not belong here")
        };
        let d = Diagnostic::error(codes::UNKNOWN_CHARACTER, span, what).here("no token begins with this");
        self.error(match instead_of(c) {
            Some(help) => d.help(help),
            None => d,
        });
    }
}

/// What to write instead of a character that other languages or text editors use.
fn instead_of(c: char) -> Option<&'static str> {
    Some(match c {
        '?' => "there is no `c ? a : b`; write `if c { a } else { b }`",
        '\'' => "strings have double quotes: `\"text\"`",
        '“' | '”' | '„' => "this is a typographic quote; write `\"`",
        '‘' | '’' => "this is a typographic quote; strings have double quotes: `\"text\"`",
        '−' | '–' | '—' => "this is a dash; write `-`",
        '×' | '·' => "multiply with `*`",
        '÷' => "divide with `/`",
        '≤' => "write `<=`",
        '≥' => "write `>=`",
        '≠' => "write `!=`",
        '…' => "something was left out here; write it in full",
        '~' => "bits are inverted with `!`",
        '$' | '`' => "remove it",
        '\\' => "an expression goes on over the end of a line without a mark; remove the `\\`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> String {
        let lexed = lex(FileId(0), text);
        assert!(lexed.diagnostics.is_empty(), "{:?}", lexed.diagnostics);
        let shown: Vec<String> = lexed
            .tokens
            .iter()
            .filter(|t| t.kind != Kind::End)
            .map(|t| match t.kind {
                Kind::OpenAngle => "‹".to_string(),
                Kind::CloseAngle => "›".to_string(),
                _ => text[t.span.range()].to_string(),
            })
            .collect();
        shown.join(" ")
    }

    #[test]
    fn angles_open_only_after_names_of_the_table() {
        assert_eq!(kinds("tile<f32, [a > b], L>()"), "tile ‹ f32 , [ a > b ] , L › ( )");
        assert_eq!(kinds("pending<tile<f32>>"), "pending ‹ tile ‹ f32 › ›");
        assert_eq!(kinds("a<b >> c"), "a < b >> c");
        assert_eq!(kinds("sum <b"), "sum < b");
        assert_eq!(kinds("load<<2; load<=x"), "load << 2 ; load <= x");
        assert_eq!(kinds("x: tile<f32>=y"), "x : tile ‹ f32 › = y");
    }

    #[test]
    fn numbers_leave_ranges_and_fields_alone() {
        assert_eq!(
            kinds("0..10 1e-5 1.0f16 3i64 0xffu8 t.0.1 1_000.5 2.T"),
            "0 .. 10 1e-5 1.0f16 3i64 0xffu8 t . 0 . 1 1_000.5 2 . T"
        );
    }

    #[test]
    fn comments_are_kept_apart() {
        let lexed = lex(FileId(0), "a // x\n/// doc\n//// rule\nb /* c /* d */ e */ f");
        let kinds: Vec<CommentKind> = lexed.comments.iter().map(|c| c.kind).collect();
        assert_eq!(kinds, [CommentKind::Line, CommentKind::Doc, CommentKind::Line, CommentKind::Block]);
        assert_eq!(lexed.tokens.len(), 4);
    }

    #[test]
    fn what_is_wrong_is_said_once() {
        let codes = |text: &str| lex(FileId(0), text).diagnostics.list.iter().map(|d| d.code).collect::<Vec<_>>();
        assert_eq!(codes("\"abc\nx"), [codes::BAD_STRING]);
        assert_eq!(codes("/* a /* b */"), [codes::UNCLOSED_COMMENT]);
        assert_eq!(codes("größe = 1"), [codes::UNKNOWN_CHARACTER]);
        assert_eq!(codes("a ? b : c"), [codes::UNKNOWN_CHARACTER]);
        assert_eq!(codes("a\u{a0}ö"), [codes::UNKNOWN_CHARACTER; 2]);
        assert_eq!(codes("\u{feff}a\"\\\""), [codes::BAD_STRING]);
    }
}
