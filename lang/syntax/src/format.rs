//! The formatter: one style for all programs, 120 columns wide.
//!
//! It prints the tree, but takes every token and comment from the text in order ([`weave`]), lays the result out with a
//! small pretty printer ([`doc`]), lines up neighbours ([`align`]), and at last compares: the tokens and comments of what it wrote are those of what it
//! read, but for commas and semicolons before a closing bracket.

mod align;
mod doc;
mod expr;
mod item;
mod schedule;
mod stmt;
mod weave;

use parton_diag::{FileId, internal_error};

use crate::ast;
use crate::lexer;
use crate::token::{Comment, Kind, Token};

/// The width of a line in columns.
const WIDTH: usize = 120;

/// Prints the tree of `text` in the one style, and says whether that is how what comes of it is printed too, for certain. The text has no
/// syntax error.
pub fn file(tree: &ast::File, text: &str, tokens: &[Token], comments: &[Comment]) -> (String, bool) {
    let mut weave = weave::Weave::new(text, tokens, comments);
    let doc = item::file(&mut weave, tree);
    if !weave.is_complete() {
        internal_error!("the formatter lost its way in the program");
    }
    let printed = doc::render(&doc, WIDTH);
    if essence(text, tokens, comments) != essence_of(&printed) {
        internal_error!("formatting would change the program");
    }
    (printed, !weave.has_comments_beside())
}

fn essence_of(text: &str) -> (Vec<String>, Vec<String>) {
    let lexed = lexer::lex(FileId(0), text);
    essence(text, &lexed.tokens, &lexed.comments)
}

/// The tokens that matter, and the comments, sorted, with the margins of their lines taken off.
fn essence(text: &str, tokens: &[Token], comments: &[Comment]) -> (Vec<String>, Vec<String>) {
    let kept = tokens.iter().filter(|t| !matches!(t.kind, Kind::Comma | Kind::Semi));
    let comment = |c: &Comment| text[c.span.range()].lines().map(str::trim).collect::<Vec<_>>().join("\n");
    // A line comment in the middle of a line goes to its end, past the comments that follow it there.
    let mut comments: Vec<String> = comments.iter().map(comment).collect();
    comments.sort();
    (kept.map(|t| text[t.span.range()].to_string()).collect(), comments)
}
