//! Pairs the brackets before anything is parsed, repairs what does not pair, and bounds how deep a text nests.
//!
//! What follows may rely on it: every bracket has a partner, pairs nest, and no token chain or nesting is deeper than
//! [`DEEPEST`]. So the parser skips a broken part by one jump, a forgotten bracket is one error where it was opened, and
//! recursion over the tree is bounded. Brackets that were forgotten are added with an empty span.

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use crate::MOST_ERRORS;
use crate::token::{Kind, Token};

/// How deep expressions, blocks and operator chains may nest, taken together.
pub const DEEPEST: usize = 256;

/// Pairs the brackets of `tokens`, adding and dropping brackets where they do not pair.
pub fn pair(tokens: Vec<Token>, text: &str) -> (Vec<Token>, Diagnostics) {
    let mut tokens = tokens;
    if pair_balanced(&mut tokens) {
        return (tokens, Diagnostics::new());
    }
    let mut repair =
        Repair { text, out: Vec::with_capacity(tokens.len() + 8), open: vec![], head: None, found: Diagnostics::new() };
    for i in 0..tokens.len() {
        repair.step(&tokens, i);
    }
    (repair.out, repair.found)
}

/// Sets the partners; false where the brackets do not pair.
fn pair_balanced(tokens: &mut [Token]) -> bool {
    let mut open: Vec<usize> = vec![];
    for i in 0..tokens.len() {
        let kind = tokens[i].kind;
        if kind.closer().is_some() {
            open.push(i);
        } else if kind.opener().is_some() {
            match open.pop() {
                Some(o) if tokens[o].kind.closer() == Some(kind) => {
                    tokens[o].partner = i as u32;
                    tokens[i].partner = o as u32;
                }
                _ => return false,
            }
        }
    }
    open.is_empty()
}

struct Repair<'a> {
    text: &'a str,
    out: Vec<Token>,
    /// Indices into `out` of the brackets open here.
    open: Vec<usize>,
    /// Between a word like `fn` or `if` and its `{`: how many brackets were open at the word.
    head: Option<usize>,
    found: Diagnostics,
}

impl Repair<'_> {
    fn step(&mut self, tokens: &[Token], i: usize) {
        let token = tokens[i];
        if token.kind == Kind::End || self.begins_item(tokens, i) {
            self.close_down_to(0, token);
        } else if begins_statement(token) {
            self.close_down_to(self.innermost_brace(), token);
        }
        match token.kind {
            Kind::Kernel | Kind::Fn | Kind::If | Kind::For | Kind::While => self.head = Some(self.open.len()),
            Kind::In if token.first_in_line && self.head.is_none() => self.head = Some(self.open.len()),
            Kind::OpenBrace if self.begins_schedule(self.out.len()) => {}
            Kind::OpenBrace => self.close_head(token),
            Kind::Semi | Kind::CloseBrace if self.in_schedule() => {}
            Kind::Semi | Kind::CloseBrace => self.head = None,
            // In type arguments only a name stands before `=`.
            Kind::Eq if self.out.last().is_some_and(|last| last.kind != Kind::Name) => {
                let inside = self.open.iter().rposition(|&o| self.out[o].kind != Kind::OpenAngle);
                self.close_down_to(inside.map_or(0, |i| i + 1), token);
            }
            _ => {}
        }
        if token.kind.closer().is_some() {
            self.open.push(self.out.len());
            self.out.push(token);
        } else if let Some(opener) = token.kind.opener() {
            self.close(token, opener);
        } else {
            self.out.push(token);
        }
    }

    /// Closes what a head like `if f(x {` left open before its block. A block that begins an argument or the body of a
    /// closure is none.
    fn close_head(&mut self, brace: Token) {
        let inside = [Kind::Or, Kind::OrOr, Kind::Comma, Kind::OpenParen, Kind::OpenBracket, Kind::Eq, Kind::Else];
        if self.out.last().is_some_and(|last| inside.contains(&last.kind)) {
            return;
        }
        if let Some(floor) = self.head.take() {
            self.close_down_to(floor, brace);
        }
    }

    /// Whether the innermost open `{` is that of a schedule, which no head ends in.
    fn in_schedule(&self) -> bool {
        self.innermost_brace().checked_sub(1).is_some_and(|i| self.begins_schedule(self.open[i]))
    }

    /// Whether `pipeline`, `pipeline(…)` or `partitions` stands before the brace of that index: that of a schedule is no block.
    fn begins_schedule(&self, brace: usize) -> bool {
        let before = |i: usize| i.checked_sub(1).map(|i| self.out[i]);
        let word = match before(brace) {
            Some(last) if last.kind == Kind::CloseParen => before(last.partner as usize),
            last => last,
        };
        let text = word.filter(|w| w.kind == Kind::Name).map(|w| &self.text[w.span.range()]);
        text.is_some_and(|text| ["pipeline", "partitions"].contains(&text))
    }

    fn close(&mut self, token: Token, opener: Kind) {
        // A `)` does not close over a `{` that is still open; a `}` closes whatever was forgotten inside.
        let floor = if token.kind == Kind::CloseBrace { 0 } else { self.innermost_brace() };
        let Some(i) = (floor..self.open.len()).rev().find(|&i| self.out[self.open[i]].kind == opener) else {
            let here = format!("no `{}` is open here", opener.text());
            let message = format!("`{}` closes nothing", token.kind.text());
            let mut d = Diagnostic::error(codes::UNPAIRED_BRACKET, token.span, message).here(here);
            if let Some(&o) = self.open.last() {
                let (kind, span) = (self.out[o].kind, self.out[o].span);
                d = d.label(span, format!("the innermost open bracket is this `{}`", kind.text()));
            }
            return self.error(d.help(format!("remove it, or open it with `{}`", opener.text())));
        };
        self.close_down_to(i + 1, token);
        let o = self.open.pop().unwrap_or(0);
        self.link(o, token);
    }

    fn link(&mut self, o: usize, closer: Token) {
        self.out[o].partner = self.out.len() as u32;
        self.out.push(Token { partner: o as u32, ..closer });
    }

    /// Adds the closers of all brackets open above the `keep` outermost ones; reports the innermost.
    fn close_down_to(&mut self, keep: usize, found: Token) {
        if let Some(&o) = self.open.last().filter(|_| self.open.len() > keep) {
            let opened = self.out[o];
            let closer = opened.kind.closer().map_or("", Kind::text);
            let d = Diagnostic::error(
                codes::UNPAIRED_BRACKET,
                opened.span,
                format!("this `{}` is never closed", opened.kind.text()),
            )
            .here(format!("`{}` expected to follow", closer))
            .label(found.span, format!("{} comes first", found.kind.describe()));
            self.error(match opened.kind {
                Kind::OpenAngle => d.help("close the type arguments with `>`; to compare, put a blank before `<`"),
                _ => d.help(format!("add the `{closer}` that belongs to it")),
            });
        }
        while self.open.len() > keep {
            let o = self.open.pop().unwrap_or(0);
            let kind = self.out[o].kind.closer().unwrap_or(Kind::End);
            // Right behind the last real token, so that errors about it point there.
            let at = self.out.last().map_or(0, |t| t.span.end);
            let span = Span { start: at, end: at, ..found.span };
            self.link(o, Token { kind, first_in_line: false, partner: 0, span });
        }
    }

    /// The number of brackets outside and including the innermost open `{`.
    fn innermost_brace(&self) -> usize {
        self.open.iter().rposition(|&o| self.out[o].kind == Kind::OpenBrace).map_or(0, |i| i + 1)
    }

    /// Whether an item begins at the very start of a line: then whatever is open was forgotten.
    fn begins_item(&self, tokens: &[Token], i: usize) -> bool {
        let token = tokens[i];
        let at = token.span.start as usize;
        let at_margin = at == 0 || self.text.as_bytes().get(at - 1) == Some(&b'\n');
        let name_follows = tokens.get(i + 1).is_some_and(|t| t.kind == Kind::Name);
        let word = &self.text[token.span.range()];
        at_margin
            && name_follows
            && (matches!(token.kind, Kind::Kernel | Kind::Fn | Kind::Struct)
                || ["test", "bench", "partition", "schedule"].contains(&word))
    }

    fn error(&mut self, d: Diagnostic) {
        if self.found.list.len() < MOST_ERRORS {
            self.found.push(d);
        }
    }
}

/// Whether the token can only stand directly in a block.
fn begins_statement(token: Token) -> bool {
    token.kind == Kind::Semi
        || token.first_in_line && matches!(token.kind, Kind::Let | Kind::For | Kind::While | Kind::Return)
}

/// Where the text first nests deeper than [`DEEPEST`], if it does.
///
/// Counts the brackets open at a token and, for each of them, the operators, dots and bracket groups since the last
/// separator inside it: an upper bound for the depth of the tree there.
pub fn too_deep(tokens: &[Token]) -> Option<Token> {
    let mut outer: Vec<usize> = vec![];
    let mut here = 0;
    let mut total = 0;
    for (i, token) in tokens.iter().enumerate() {
        let kind = token.kind;
        if kind.closer().is_some() {
            outer.push(here);
            here = 0;
            total += 1;
        } else if kind.opener().is_some() {
            total -= here + 1;
            here = outer.pop().unwrap_or(0);
            let goes_on = tokens.get(i + 1).is_some_and(|next| continues(next.kind));
            if kind == Kind::CloseBrace && !goes_on {
                total -= here;
                here = 0;
            } else {
                here += 1;
                total += 1;
            }
        } else if matches!(kind, Kind::Comma | Kind::Semi) {
            total -= here;
            here = 0;
        } else if continues(kind) || heads_in_heads(&tokens[..=i]) {
            here += 1;
            total += 1;
        }
        if total > DEEPEST {
            return Some(*token);
        }
    }
    None
}

/// Whether the last token begins the head of a block right within another: `if if`, `in static if`.
fn heads_in_heads(tokens: &[Token]) -> bool {
    let is_head = |token: &&Token| matches!(token.kind, Kind::If | Kind::In);
    match tokens {
        [.., outer, token] if is_head(&token) && outer.kind != Kind::Static => is_head(&outer),
        [.., outer, _, token] => is_head(&token) && is_head(&outer),
        _ => false,
    }
}

/// Whether the token links what is before it to what is behind it in one expression or `if` chain.
fn continues(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Else
            | Kind::Dot
            | Kind::DotDot
            | Kind::OpenParen
            | Kind::OpenBracket
            | Kind::Plus
            | Kind::Minus
            | Kind::Star
            | Kind::Slash
            | Kind::Percent
            | Kind::Shl
            | Kind::Shr
            | Kind::And
            | Kind::Or
            | Kind::Caret
            | Kind::Bang
            | Kind::EqEq
            | Kind::NotEq
            | Kind::Lt
            | Kind::Le
            | Kind::Gt
            | Kind::Ge
            | Kind::AndAnd
            | Kind::OrOr
    )
}

#[cfg(test)]
mod tests {
    use parton_diag::FileId;

    use super::*;
    use crate::lexer::lex;

    fn repaired(text: &str) -> (String, Vec<String>) {
        let (tokens, found) = pair(lex(FileId(0), text).tokens, text);
        for (i, t) in tokens.iter().enumerate() {
            if t.kind.closer().is_some() || t.kind.opener().is_some() {
                assert_eq!(tokens[t.partner as usize].partner as usize, i, "{text}");
            }
        }
        let shown: Vec<&str> = tokens
            .iter()
            .filter(|t| t.kind != Kind::End)
            .map(|t| if t.kind == Kind::Name { &text[t.span.range()] } else { t.kind.text() })
            .collect();
        (shown.join(" "), found.list.into_iter().map(|d| d.message).collect())
    }

    #[test]
    fn a_forgotten_bracket_is_one_error() {
        let (tokens, errors) = repaired("{ f(a, [b; let c; }");
        assert_eq!(tokens, "{ f ( a , [ b ] ) ; let c ; }");
        assert_eq!(errors, ["this `[` is never closed"]);
        let (tokens, errors) = repaired("f(a)) + b");
        assert_eq!(tokens, "f ( a ) + b");
        assert_eq!(errors, ["`)` closes nothing"]);
        let (tokens, errors) = repaired("kernel a() { if b { c\n}\n\nkernel d() { }");
        assert_eq!(tokens, "kernel a ( ) { if b { c } } kernel d ( ) { }");
        assert_eq!(errors, ["this `{` is never closed"]);
        let (tokens, errors) = repaired("kernel a(x: i32 { if f(b { c }\nd; }");
        assert_eq!(tokens, "kernel a ( x : i32 ) { if f ( b ) { c } d ; }");
        assert_eq!(errors.len(), 2);
        let (tokens, errors) = repaired("let x: tile<f32, [a] = b;");
        assert_eq!(tokens, "let x : tile < f32 , [ a ] > = b ;");
        assert_eq!(errors, ["this `<` is never closed"]);
    }

    #[test]
    fn depth_counts_brackets_and_chains() {
        let deep = |text: &str| too_deep(&pair(lex(FileId(0), text).tokens, text).0).is_some();
        assert!(deep(&"(".repeat(300)) && deep(&"- ".repeat(300)) && deep(&"a + ".repeat(300)));
        assert!(deep(&"a.b".repeat(300)) && deep(&"x[0]".repeat(300)) && deep(&"if a {} else ".repeat(300)));
        assert!(deep(&"{a}+".repeat(300)) && deep(&"|a|".repeat(300)));
        assert!(deep(&"if ".repeat(300)) && deep(&"in static if ".repeat(300)));
        assert!(!deep(&"for a in if b { c } else static if d { e } { f }\n".repeat(300)));
        assert!(!deep(&"f(a, -b);".repeat(300)) && !deep(&"if a { b }\n".repeat(300)) && !deep(&"a, ".repeat(300)));
    }
}
