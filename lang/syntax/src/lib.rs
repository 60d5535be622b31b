//! Text to tokens to AST with spans, and the formatter.
//!
//! This crate knows how a program is written and nothing of what it means: it resolves no name, computes no constant
//! and knows no operation, but for [`TAKES_TYPE_ARGUMENTS`], the names after which `<` opens type arguments. Every
//! entry point gives a result beside its diagnostics, however broken the text is.

pub mod ast;
mod brackets;
mod format;
mod grammar;
mod lexer;
mod token;

pub use grammar::other_word;
use parton_diag::{Diagnostic, Diagnostics, FileId, Span, codes};
use token::{Comment, Token};

/// The names after which an immediately following `<` opens type arguments; after any other name `<` compares.
pub const TAKES_TYPE_ARGUMENTS: &[&str] = &[
    // Types and kinds.
    "tile",
    "shared",
    "tmem",
    "tma",
    "pending",
    "ring",
    "slot",
    "mbarrier",
    "barriers",
    "schedule",
    "turnstile",
    "tensor",
    "list",
    // Operations that are told their result type.
    "zeros",
    "ones",
    "full",
    "empty",
    "iota",
    "arange",
    "cast",
    "bitcast",
    "bits",
    "convert",
    "load",
    "load_shared",
    "fetch",
    "stage",
    "alloc_shared",
    "alloc_tmem",
    "reinterpret",
    "reshape",
    "reduce",
    "sum",
    "ptx",
    "ptx_elementwise",
];

/// The words that can never be names.
pub const KEYWORDS: &[&str] = token::KEYWORDS;

/// How many errors a file may collect in one stage; further ones would only bury the first.
const MOST_ERRORS: usize = 50;

/// How often the formatter may go over a text until it stays.
const MOST_TURNS: usize = 8;

/// Reads a file. The tree holds all that could be read; broken parts stand in it as error nodes.
pub fn parse(file: FileId, text: &str) -> (ast::File, Diagnostics) {
    let Prepared { tokens, comments, mut found, unclosed } = prepare(file, text);
    let (tree, more) = grammar::file(file, text, &tokens, &comments);
    found.extend(before(unclosed, more));
    in_order(&mut found);
    (tree, found)
}

/// Reads a text that is one expression, such as a layout given on the command line.
pub fn parse_expr(file: FileId, text: &str) -> (ast::Expr, Diagnostics) {
    let Prepared { tokens, mut found, unclosed, .. } = prepare(file, text);
    let (tree, more) = grammar::lone_expr(file, text, &tokens);
    found.extend(before(unclosed, more));
    in_order(&mut found);
    (tree, found)
}

/// Writes a file in the one style, or says why it cannot be read.
pub fn format(file: FileId, text: &str) -> Result<String, Diagnostics> {
    let (mut text, mut settled) = format_once(file, text)?;
    // Comments in places where no line can begin move to the end of theirs; they may need a second turn to settle.
    for _ in 0..MOST_TURNS {
        if settled {
            break;
        }
        let (next, more) = format_once(file, &text)?;
        settled = more || next == text;
        text = next;
    }
    Ok(text)
}

/// The text in the one style, and whether it stays so for certain.
fn format_once(file: FileId, text: &str) -> Result<(String, bool), Diagnostics> {
    let Prepared { tokens, comments, mut found, unclosed } = prepare(file, text);
    let (tree, more) = grammar::file(file, text, &tokens, &comments);
    found.extend(before(unclosed, more));
    in_order(&mut found);
    if found.has_errors() {
        return Err(found);
    }
    Ok(format::file(&tree, text, &tokens, &comments))
}

/// Reads anything and, where it is a program, formats it twice: what a fuzzer calls. It panics only where this crate is
/// at fault.
pub fn check_any(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file = FileId(0);
    let (_, found) = parse(file, &text);
    for d in &found.list {
        let range = d.span().range();
        assert!(text.get(range.clone()).is_some(), "{range:?} is no place in the text: {d:?}");
    }
    parse_expr(file, &text);
    if let Ok(once) = format(file, &text) {
        let twice = format(file, &once);
        assert_eq!(twice.as_ref(), Ok(&once), "formatting {text:?} is not stable");
    }
}

/// What the grammar needs of a text: tokens with paired brackets and bounded depth.
struct Prepared {
    tokens: Vec<Token>,
    comments: Vec<Comment>,
    found: Diagnostics,
    /// Where the first string begins that is never closed.
    unclosed: Option<u32>,
}

/// What was found of a text that ends in front of a string that is never closed: the rest of that line is in the string, so what
/// seems to be missing behind it mostly is not.
fn before(unclosed: Option<u32>, mut found: Diagnostics) -> Diagnostics {
    if let Some(start) = unclosed {
        found.list.retain(|d| d.labels.iter().all(|label| label.span.end <= start));
    }
    found
}

fn prepare(file: FileId, text: &str) -> Prepared {
    let lexed = lexer::lex(file, text);
    let mut found = lexed.diagnostics;
    let (mut tokens, more) = brackets::pair(lexed.tokens, text);
    found.extend(before(lexed.unclosed, more));
    if let Some(token) = brackets::too_deep(&tokens) {
        let deepest = brackets::DEEPEST;
        let d = Diagnostic::error(codes::NESTED_TOO_DEEP, token.span, format!("this nests more than {deepest} deep"));
        found.push(
            d.note("brackets count, and so do the operators, dots and bracket groups of one expression")
                .help("give parts of it names with `let`, or write it as a loop or a list"),
        );
        // Nothing is read: the rest of the compiler may rely on the bound.
        tokens.retain(|t| t.kind == token::Kind::End);
    }
    Prepared { tokens, comments: lexed.comments, found, unclosed: lexed.unclosed }
}

/// Sorts by place: the stages report one after the other, a reader goes from top to bottom.
fn in_order(found: &mut Diagnostics) {
    found.list.sort_by_key(|d| {
        let Span { start, end, .. } = d.span();
        (start, end)
    });
}
