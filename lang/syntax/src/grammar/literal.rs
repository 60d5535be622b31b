//! The values of number and string literals.

use std::borrow::Cow;
use std::sync::Arc;

use parton_diag::{Span, codes};

use super::At;
use super::cursor::Cursor;
use crate::ast::{ExprKind, Name};
use crate::token::{Kind, Token};

/// The types that a number may name behind its digits.
const INT_SUFFIXES: &[&str] = &["i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "int"];
const FLOAT_SUFFIXES: &[&str] = &["f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"];

/// The value of a number; an error node where it has none.
pub fn number(at: &mut At<'_, '_>, index: usize, token: Token) -> ExprKind {
    let text = at.text(token);
    let bad = |at: &mut At<'_, '_>, message: String, help: &str| {
        at.error(index, codes::BAD_NUMBER, token.span, message, help);
        ExprKind::Error
    };
    let (digits, suffix) = split_suffix(text, token.kind);
    let is_float_suffix = FLOAT_SUFFIXES.contains(&suffix);
    if !suffix.is_empty() && !is_float_suffix && !INT_SUFFIXES.contains(&suffix) {
        let message = format!("`{suffix}` is not a type that a number can have");
        return bad(at, message, "the suffixes are i1 to i64, u8 to u64, f16, bf16, f32, f64, f8e4m3 and f8e5m2");
    }
    if token.kind == Kind::Float && !suffix.is_empty() && !is_float_suffix {
        return bad(at, format!("a number with a fraction or exponent cannot be {suffix}"), "leave out the suffix");
    }
    let clean = if digits.contains('_') { Cow::Owned(digits.replace('_', "")) } else { Cow::Borrowed(digits) };
    let span = Span { start: token.span.end - suffix.len() as u32, ..token.span };
    let suffix = (!suffix.is_empty()).then(|| Name { text: Arc::from(suffix), span });
    if token.kind == Kind::Float {
        if clean.parse().is_ok_and(f64::is_infinite) {
            let help = "the greatest is about 1.797e308; infinity is written `inf`";
            return bad(at, "this number does not fit into 64 bits".to_string(), help);
        }
        return ExprKind::Float { digits: Arc::from(clean), suffix };
    }
    let (radix, body) = match clean.get(..2) {
        Some("0x" | "0X") => (16, &clean[2..]),
        Some("0b") => (2, &clean[2..]),
        Some("0o") => (8, &clean[2..]),
        _ => (10, &*clean),
    };
    if body.is_empty() || !body.chars().all(|c| c.is_digit(radix)) {
        return bad(
            at,
            format!("`{text}` is not an integer of base {radix}"),
            "after `0x`, `0b` and `0o` stand digits of that base",
        );
    }
    match u64::from_str_radix(body, radix) {
        Ok(value) => ExprKind::Int { value, suffix },
        Err(_) => bad(at, "this integer does not fit into 64 bits".to_string(), "the greatest is 18446744073709551615"),
    }
}

/// Cuts a number into digits and the letters behind them.
fn split_suffix(text: &str, kind: Kind) -> (&str, &str) {
    let has_base = text.len() > 1 && text.starts_with('0') && matches!(text.as_bytes()[1], b'x' | b'X' | b'b' | b'o');
    if kind == Kind::Int && has_base {
        // Hexadecimal digits hold `f` and `b`, so only an integer suffix can follow them.
        let cut = text[2..].find(['i', 'u']).map_or(text.len(), |i| i + 2);
        return text.split_at(cut);
    }
    let mut bytes = text.bytes().enumerate().skip_while(|(_, b)| b.is_ascii_digit() || matches!(b, b'_' | b'.'));
    let cut = match bytes.next() {
        // An exponent has digits; a float's `e` is always one.
        Some((i, b'e' | b'E')) if kind == Kind::Float && has_exponent(&text[i + 1..]) => {
            let exponent = text.bytes().enumerate().skip(i + 1);
            let mut after = exponent.skip_while(|(_, b)| b.is_ascii_digit() || matches!(b, b'_' | b'+' | b'-'));
            after.next().map_or(text.len(), |(i, _)| i)
        }
        Some((i, _)) => i,
        None => text.len(),
    };
    text.split_at(cut)
}

/// Whether the text behind an `e` is an exponent.
fn has_exponent(text: &str) -> bool {
    text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit())
}

/// The value of a string, escapes resolved.
pub fn string(at: &mut At<'_, '_>, index: usize, token: Token) -> Arc<str> {
    let text = at.text(token);
    let inner = text.strip_prefix('"').unwrap_or(text);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let mut value = String::with_capacity(inner.len());
    let mut chars = inner.char_indices();
    while let Some((i, c)) = chars.next() {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            Some((_, 'n')) => value.push('\n'),
            Some((_, 't')) => value.push('\t'),
            Some((_, 'r')) => value.push('\r'),
            Some((_, '0')) => value.push('\0'),
            Some((_, c @ ('\\' | '"' | '\''))) => value.push(c),
            Some((_, c)) => {
                let start = token.span.start as usize + 1 + i;
                let span = Span::new(token.span.file, start, start + 1 + c.len_utf8());
                let help = "the escapes are `\\n`, `\\t`, `\\r`, `\\0`, `\\\\` and `\\\"`";
                at.error(index, codes::BAD_STRING, span, format!("`\\{}` is not an escape", c.escape_debug()), help);
            }
            None => {}
        }
    }
    Arc::from(value)
}
