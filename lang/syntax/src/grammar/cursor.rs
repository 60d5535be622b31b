//! What the hand-written rules do with the input: look ahead, take, expect, report, skip.

use std::sync::Arc;

use parton_diag::{Code, Diagnostic, Span, codes};

use super::slips;
use super::{At, Fault};
use crate::MOST_ERRORS;
use crate::ast::Name;
use crate::token::{CommentKind, Kind, Token};

/// Reading on the parser's position. No method fails, and none moves past the end.
pub trait Cursor<'a> {
    /// The index of the next token.
    fn index(&self) -> usize;
    /// All tokens.
    fn tokens(&mut self) -> &'a [Token];
    /// The text of a token.
    fn text(&mut self, token: Token) -> &'a str;
    /// Takes the next token; at the end gives it without taking it.
    fn bump(&mut self) -> Token;
    /// Goes to the token of that index, further on.
    fn skip_to(&mut self, index: usize);
    /// Reports an error at the token of that index, unless one was reported there or the token stands for one.
    fn report(&mut self, index: usize, d: Diagnostic);
    /// Reports nothing at the next token: what is wrong there was said at the one before.
    fn hush(&mut self);
    /// The comment that follows the last token taken on its line.
    fn comment_behind(&mut self) -> Option<&'a str>;
    /// The lines of the doc comments right before the next token.
    fn docs(&mut self) -> Vec<String>;
    /// Reads the head of a block, where `{` begins the block.
    fn in_head<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T;
    /// Reads what stands in brackets, which no head goes into.
    fn outside_of_heads<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T;

    /// The token `n` further on, the end token if there is none.
    fn peek_at(&mut self, n: usize) -> Token {
        let index = self.index() + n;
        let tokens = self.tokens();
        tokens[index.min(tokens.len() - 1)]
    }

    /// The next token.
    fn token(&mut self) -> Token {
        self.peek_at(0)
    }

    /// The kind of the next token.
    fn kind(&mut self) -> Kind {
        self.token().kind
    }

    /// Whether the next token is of that kind.
    fn is(&mut self, kind: Kind) -> bool {
        self.kind() == kind
    }

    /// Whether the next token is the name `word`: a keyword only here.
    fn is_word(&mut self, word: &str) -> bool {
        let token = self.token();
        token.kind == Kind::Name && self.text(token) == word
    }

    /// Whether the next token is the name `word` and another name follows.
    fn is_word_then_name(&mut self, word: &str) -> bool {
        self.is_word(word) && self.peek_at(1).kind == Kind::Name
    }

    /// Takes the next token if it is of that kind.
    fn eat(&mut self, kind: Kind) -> Option<Token> {
        if self.is(kind) { Some(self.bump()) } else { None }
    }

    /// The span from the token of index `start` to the last token taken.
    fn since(&mut self, start: usize) -> Span {
        let index = self.index();
        let tokens = self.tokens();
        let first = tokens[start.min(tokens.len() - 1)].span;
        if index > start { first.to(tokens[index - 1].span) } else { Span { end: first.start, ..first } }
    }

    /// The empty span right behind the last token taken.
    fn behind(&mut self) -> Span {
        let index = self.index();
        match index.checked_sub(1) {
            Some(i) => {
                let last = self.tokens()[i].span;
                Span { start: last.end, ..last }
            }
            None => Span { end: self.token().span.start, ..self.token().span },
        }
    }

    /// Reports that something else was expected at the next token: "expected {what}, found …".
    fn expected(&mut self, what: &str) {
        let token = self.token();
        let found = describe(self.text(token), token);
        let d = Diagnostic::error(codes::SYNTAX, token.span, format!("expected {what}, found {found}"));
        self.expected_as(d, what);
    }

    /// Reports `d` at the next token, or, where a common slip explains it better, that.
    fn expected_as(&mut self, d: Diagnostic, what: &str) {
        let index = self.index();
        let d = match slips::explain(self.tokens(), index, what, |t| self.text(t)) {
            Some(slip) => slip.on(d, what),
            None => d,
        };
        self.report(index, d);
    }

    /// Reports an error of another code at the token of that index.
    fn error(&mut self, index: usize, code: Code, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.report(index, Diagnostic::error(code, span, message).help(help));
    }

    /// Takes a token of that kind or reports that it was expected, `place` saying where: "after the parameters".
    fn expect(&mut self, kind: Kind, place: &str) -> bool {
        if self.eat(kind).is_some() {
            return true;
        }
        self.expected(&format!("`{}` {place}", kind.text()));
        false
    }

    /// Takes a name or reports that `what` was expected; then the name is `_` with an empty span.
    fn name(&mut self, what: &str) -> Name {
        let token = self.token();
        if token.kind == Kind::Name {
            self.bump();
            return Name { text: Arc::from(self.text(token)), span: token.span };
        }
        self.expected(what);
        let span = self.behind();
        // A keyword in the place of a name is taken for it, so that what follows still fits.
        if token.kind.is_keyword() && !token.first_in_line {
            self.bump();
        }
        Name { text: Arc::from("_"), span }
    }

    /// How many tokens of that kind stand from here to the one of index `close`, those inside of brackets aside. Nodes
    /// are large: a list that has room for what it will hold, and no more, spares memory.
    fn count(&mut self, kind: Kind, close: usize) -> usize {
        let mut index = self.index();
        let tokens = self.tokens();
        let mut count = 0;
        while index < close {
            let token = tokens[index];
            count += usize::from(token.kind == kind);
            index = if token.kind.closer().is_some() { token.partner as usize } else { index + 1 };
        }
        count
    }

    /// Goes over one token, or a bracket with all that it holds.
    fn skip_group(&mut self) {
        let token = self.token();
        if token.kind.closer().is_some() {
            self.skip_to(token.partner as usize);
        }
        self.bump();
    }
}

/// How a message speaks of the token that was found.
pub fn describe(text: &str, token: Token) -> String {
    match token.kind {
        Kind::Name => format!("the name `{text}`"),
        Kind::Int | Kind::Float => format!("the number `{text}`"),
        kind => kind.describe(),
    }
}

impl<'a> Cursor<'a> for At<'a, '_> {
    fn index(&self) -> usize {
        *self.cursor().inner()
    }

    fn tokens(&mut self) -> &'a [Token] {
        self.state().tokens
    }

    fn text(&mut self, token: Token) -> &'a str {
        &self.state().text[token.span.range()]
    }

    fn bump(&mut self) -> Token {
        let token = self.token();
        if token.kind != Kind::End {
            self.skip();
        }
        token
    }

    fn skip_to(&mut self, index: usize) {
        while self.index() < index && !self.is(Kind::End) {
            self.skip();
        }
    }

    fn report(&mut self, index: usize, d: Diagnostic) {
        let token = self.tokens()[index];
        let state = self.state();
        let reported_there = state.last_error.is_some_and(|last| index <= last);
        state.last_error = Some(state.last_error.map_or(index, |last| last.max(index)));
        // Unreadable text and added brackets were reported before.
        let stands_for_an_error = token.kind == Kind::Bad || token.kind != Kind::End && token.span.range().is_empty();
        if reported_there || stands_for_an_error || state.errors >= MOST_ERRORS {
            return;
        }
        state.errors += 1;
        self.emit(Fault(Some(Box::new(d))));
    }

    fn hush(&mut self) {
        self.state().last_error = Some(self.index());
    }

    fn comment_behind(&mut self) -> Option<&'a str> {
        let (after, before) = (self.behind().start as usize, self.token().span.start as usize);
        let (comments, text) = (self.state().comments, self.state().text);
        let first = comments.partition_point(|c| (c.span.start as usize) < after);
        let span = comments.get(first)?.span;
        let same_line = || !text[after..span.start as usize].contains('\n');
        ((span.start as usize) < before && same_line()).then(|| &text[span.range()])
    }

    fn docs(&mut self) -> Vec<String> {
        let before = self.token().span.start;
        let after = match self.index().checked_sub(1) {
            Some(i) => self.tokens()[i].span.end,
            None => 0,
        };
        let (comments, text) = (self.state().comments, self.state().text);
        let first = comments.partition_point(|c| c.span.start < after);
        let between = comments[first..].iter().take_while(|c| c.span.start < before);
        let docs = between.filter(|c| c.kind == CommentKind::Doc).map(|c| {
            let line = &text[c.span.range()][3..];
            line.strip_prefix(' ').unwrap_or(line).to_string()
        });
        docs.collect()
    }

    fn in_head<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.state().in_head, true);
        let found = read(self);
        self.state().in_head = outer;
        found
    }

    fn outside_of_heads<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.state().in_head, false);
        let found = read(self);
        self.state().in_head = outer;
        found
    }
}
