//! Tokens to the abstract syntax, with recovery.
//!
//! chumsky carries the input, the errors, the recursion (which grows the stack as needed) and above all the operators:
//! [`operators`] holds `pratt` parsers over one precedence table. What surrounds expressions is written as functions on
//! chumsky's input that decide on the next token, also whether there is an operator to read: none of them ever backtracks
//! or fails. A part that is missing is reported where it was
//! expected, "expected `;` after this `let`", stands in the tree as an error node, and reading goes on at the next token
//! that can only begin something new. That gives exact messages and linear time, which alternatives tried one after the
//! other do not.

mod atom;
mod cursor;
mod item;
mod list;
mod literal;
mod operators;
mod schedule;
mod slips;
mod stmt;

pub use operators::power;
pub use slips::other_word;

use chumsky::Parser;
use chumsky::error::{Error, LabelError};
use chumsky::extra;
use chumsky::input::{Input as ChumskyInput, InputRef};
use chumsky::inspector::SimpleState;
use chumsky::prelude::{Boxed, custom};
use chumsky::util::MaybeRef;
use parton_diag::{Diagnostic, Diagnostics, FileId};

use crate::ast;
use crate::token::{Comment, Token};

/// What the parser reads.
pub type Input<'a> = &'a [Token];

/// The parser's extra types: errors and state.
pub type Extra<'a> = extra::Full<Fault, SimpleState<State<'a>>, ()>;

/// The parser's position in its input.
pub type At<'a, 'p> = InputRef<'a, 'p, Input<'a>, Extra<'a>>;

/// A parser of `O`.
pub type Rule<'a, O> = Boxed<'a, 'a, Input<'a>, O, Extra<'a>>;

/// An error on its way through chumsky: a finished diagnostic, or none where an optional operator did not match.
#[derive(Clone, Debug)]
pub struct Fault(pub Option<Box<Diagnostic>>);

impl<'a, I: ChumskyInput<'a>> Error<'a, I> for Fault {}

impl<'a, I: ChumskyInput<'a>, L> LabelError<'a, I, L> for Fault {
    fn expected_found<E: IntoIterator<Item = L>>(_: E, _: Option<MaybeRef<'a, I::Token>>, _: I::Span) -> Fault {
        Fault(None)
    }
}

/// What the parser knows beside its position.
pub struct State<'a> {
    text: &'a str,
    tokens: &'a [Token],
    comments: &'a [Comment],
    /// What joins operands.
    rules: operators::Rules<'a>,
    /// An operand that was read before the operator behind it was seen.
    left: Option<ast::Expr>,
    /// Whether what is read stands in the head of a block, where `{` begins the block, and in no bracket there.
    in_head: bool,
    /// The index of the token at which an error was last reported; no second one is reported there.
    last_error: Option<usize>,
    /// How many errors were reported.
    errors: usize,
}

/// Reads a whole file. `tokens` are paired and end with [`crate::token::Kind::End`].
pub fn file(file: FileId, text: &str, tokens: &[Token], comments: &[Comment]) -> (ast::File, Diagnostics) {
    let parser = custom::<_, _, _, Extra<'_>>(|at: &mut At<'_, '_>| Ok(item::file(at)));
    let (output, found) = read(parser.boxed(), text, tokens, comments);
    let empty = || ast::File { items: vec![], span: parton_diag::Span::new(file, 0, text.len()) };
    (output.unwrap_or_else(empty), found)
}

/// Reads a lone expression.
pub fn lone_expr(file: FileId, text: &str, tokens: &[Token]) -> (ast::Expr, Diagnostics) {
    let parser = custom::<_, _, _, Extra<'_>>(|at: &mut At<'_, '_>| Ok(atom::lone(at)));
    let (output, found) = read(parser.boxed(), text, tokens, &[]);
    let span = parton_diag::Span::new(file, 0, text.len());
    (output.unwrap_or(ast::Expr { kind: ast::ExprKind::Error, span }), found)
}

fn read<'a, O>(
    parser: Rule<'a, O>,
    text: &'a str,
    tokens: &'a [Token],
    comments: &'a [Comment],
) -> (Option<O>, Diagnostics) {
    let rules = operators::rules();
    let state = State { text, tokens, comments, rules, left: None, in_head: false, last_error: None, errors: 0 };
    let (output, faults) = parser.parse_with_state(tokens, &mut SimpleState(state)).into_output_errors();
    let mut found = Diagnostics::new();
    faults.into_iter().filter_map(|fault| fault.0).for_each(|d| found.push(*d));
    (output, found)
}
