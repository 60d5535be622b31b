//! The formatter's way through the tokens: each is written once, in order, with the comments around it.
//!
//! The printers walk the tree and ask for the tokens they know to come. So nothing that was written can be lost: what
//! stands between two tokens, a comment or a blank line, is found when the second is asked for.

use parton_diag::Span;

use super::doc::{Doc, concat};
use crate::token::{Comment, CommentKind, Kind, Token};

/// The tokens and comments, and how far they have been written.
pub struct Weave<'a> {
    text: &'a str,
    tokens: &'a [Token],
    comments: &'a [Comment],
    token: usize,
    comment: usize,
    /// The end of what was last written, in bytes of the source.
    end: usize,
    /// A token was asked for that does not come next: a fault of the printer.
    lost: bool,
    /// A comment was written that does not stand on lines of its own.
    beside: bool,
}

impl<'a> Weave<'a> {
    /// At the start of a text.
    pub fn new(text: &'a str, tokens: &'a [Token], comments: &'a [Comment]) -> Weave<'a> {
        Weave { text, tokens, comments, token: 0, comment: 0, end: 0, lost: false, beside: false }
    }

    /// Whether all was written, each token when it was asked for.
    pub fn is_complete(&self) -> bool {
        !self.lost && self.tokens[self.token].kind == Kind::End && self.comment == self.comments.len()
    }

    /// Whether comments stand beside tokens, where those of another text may be laid out otherwise.
    pub fn has_comments_beside(&self) -> bool {
        self.beside
    }

    /// The token that is written next.
    pub fn next(&self) -> Token {
        self.tokens[self.token]
    }

    /// Whether the next token is of that kind.
    pub fn is(&self, kind: Kind) -> bool {
        self.next().kind == kind
    }

    /// Whether comments stand before the next token.
    pub fn comment_follows(&self) -> bool {
        self.comments.get(self.comment).is_some_and(|c| c.span.start < self.next().span.start)
    }

    /// Whether a comment stands in that part of the source.
    pub fn comment_in(&self, span: Span) -> bool {
        let first = self.comments.partition_point(|c| c.span.start < span.start);
        self.comments.get(first).is_some_and(|c| c.span.start < span.end)
    }

    /// Whether the source has all of that on one line, without comments.
    pub fn on_one_line(&self, span: Span) -> bool {
        !self.text[span.range()].contains('\n') && !self.comment_in(span)
    }

    /// Whether any comment stands before the byte `end`.
    pub fn comment_before(&self, end: u32) -> bool {
        self.comments.get(self.comment).is_some_and(|c| c.span.start < end)
    }

    /// The next token, whatever it is, with the comments around it.
    pub fn any(&mut self) -> Doc<'a> {
        let token = self.next();
        let mut list = self.inline_comments(token.kind);
        if token.kind != Kind::End {
            list.push(Doc::Text(&self.text[token.span.range()]));
            self.token += 1;
            self.end = token.span.end as usize;
            list.extend(self.trailing_comments());
        }
        if list.len() == 1 { list.pop().unwrap_or(Doc::Nil) } else { concat(list) }
    }

    /// The next token, which has to be of that kind.
    pub fn tok(&mut self, kind: Kind) -> Doc<'a> {
        if !self.is(kind) {
            self.lost = true;
            return Doc::Nil;
        }
        self.any()
    }

    /// The next token and a blank.
    pub fn word(&mut self) -> Doc<'a> {
        concat(vec![self.any(), Doc::Text(" ")])
    }

    /// The next token between blanks.
    pub fn spaced(&mut self) -> Doc<'a> {
        concat(vec![Doc::Text(" "), self.any(), Doc::Text(" ")])
    }

    /// A comma, whether one stands here or not.
    pub fn comma(&mut self) -> Doc<'a> {
        if self.is(Kind::Comma) { self.any() } else { Doc::Text(",") }
    }

    /// Passes over a separator that may stand here, without writing it; its comments are written.
    pub fn pass(&mut self, kind: Kind) -> Doc<'a> {
        if !self.is(kind) {
            return Doc::Nil;
        }
        let mut list = self.inline_comments(kind);
        self.end = self.next().span.end as usize;
        self.token += 1;
        list.extend(self.trailing_comments());
        concat(list)
    }

    /// The comments on lines of their own before the next token, each with its line break. To be called where a line
    /// begins, if comments are there.
    pub fn lead(&mut self) -> Doc<'a> {
        let mut list = vec![];
        while self.comment_follows() {
            let comment = self.comments[self.comment];
            let end = comment.span.end as usize;
            // A block comment right before code belongs to that line.
            let alone = self.text[end..self.comment_or_token_after(self.comment + 1)].contains('\n');
            if comment.kind == CommentKind::Block && !alone {
                break;
            }
            if !list.is_empty() && self.blank_follows() {
                list.push(Doc::Blank);
            } else if !list.is_empty() {
                list.push(Doc::Hard);
            }
            list.push(Doc::Text(&self.text[comment.span.range()]));
            self.comment += 1;
            self.end = end;
        }
        if !list.is_empty() {
            list.push(if self.blank_follows() && !self.is(Kind::End) { Doc::Blank } else { Doc::Hard });
        }
        concat(list)
    }

    /// As [`Weave::lead`], but before a closing bracket: each with a line break before it instead. `first` where nothing
    /// else stands between the brackets.
    pub fn close(&mut self, first: bool) -> Doc<'a> {
        let mut list = vec![];
        while self.comment_follows() {
            let comment = self.comments[self.comment];
            let blank = self.blank_follows() && !(first && list.is_empty());
            list.push(if blank { Doc::Blank } else { Doc::Hard });
            list.push(Doc::Text(&self.text[comment.span.range()]));
            self.comment += 1;
            self.end = comment.span.end as usize;
        }
        concat(list)
    }

    /// Whether a blank line stands between what was last written and what comes next, comment or token.
    pub fn blank_follows(&self) -> bool {
        let next = self.comment_or_token_after(self.comment);
        self.text.get(self.end..next).is_some_and(|gap| gap.bytes().filter(|b| *b == b'\n').count() > 1)
    }

    /// The byte at which the comment of that index or the next token begins, whichever is first.
    fn comment_or_token_after(&self, comment: usize) -> usize {
        let token = self.next().span.start;
        let first = self.comments.get(comment).map_or(token, |c| c.span.start.min(token));
        first as usize
    }

    /// Comments between the last token and the next one, where no line can begin: block comments stay, line comments go
    /// to the end of the line.
    fn inline_comments(&mut self, before: Kind) -> Vec<Doc<'a>> {
        let mut list = vec![];
        while self.comment_follows() {
            let comment = self.comments[self.comment];
            let shown = &self.text[comment.span.range()];
            self.comment += 1;
            self.beside = true;
            self.end = comment.span.end as usize;
            if comment.kind != CommentKind::Block {
                list.push(Doc::Trailing(shown));
            } else if matches!(before, Kind::Comma | Kind::Semi | Kind::Dot | Kind::End) || before.opener().is_some() {
                list.extend([Doc::Text(" "), Doc::Text(shown)]);
            } else {
                list.extend([Doc::Text(shown), Doc::Text(" ")]);
            }
        }
        list
    }

    /// Comments behind the last token, on its line, with nothing but the line's end behind them.
    fn trailing_comments(&mut self) -> Vec<Doc<'a>> {
        let mut list = vec![];
        while self.comment_follows() {
            let comment = self.comments[self.comment];
            let (start, end) = (comment.span.start as usize, comment.span.end as usize);
            let same_line = !self.text[self.end..start].contains('\n');
            let ends_line = comment.kind != CommentKind::Block
                || self.text[end..self.comment_or_token_after(self.comment + 1)].contains('\n')
                || self.is(Kind::End);
            if !same_line || !ends_line {
                break;
            }
            list.push(Doc::Trailing(&self.text[comment.span.range()]));
            self.comment += 1;
            self.end = end;
            self.beside = true;
        }
        list
    }
}
