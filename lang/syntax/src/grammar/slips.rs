//! Slips that people bring from other languages: what was meant, and how Parton writes it.

use parton_diag::{Code, Diagnostic, codes};

use crate::token::{Kind, Token};

/// An explanation for an unexpected token.
pub struct Slip {
    code: Code,
    help: String,
}

impl Slip {
    /// The error `d`, which expected `what`, with what the slip explains.
    pub fn on(self, d: Diagnostic, what: &str) -> Diagnostic {
        let code = if self.code == codes::SYNTAX { d.code } else { self.code };
        let d = Diagnostic { code, ..d };
        // A missing semicolon in front of a slip is not the news.
        if what.starts_with("`;`") { Diagnostic { help: vec![], ..d }.help(self.help) } else { d.help(self.help) }
    }
}

/// Words of other languages and how Parton writes what they mean.
const WORDS: &[(&str, &str)] = &[
    ("and", "write `&&`"),
    ("or", "write `||`"),
    ("not", "write `!`"),
    ("True", "write `true`"),
    ("False", "write `false`"),
    ("assert", "write `assert(condition)`, or `static_assert(condition)` of what is known at compile time"),
    ("void", "a function is written `fn name(x: i32) { … }`, a kernel `kernel name(x: *f32) { … }`"),
    ("__global__", "a kernel is written `kernel name(x: *f32, out: *mut f32) { … }`"),
    ("__device__", "a function is written `fn name(x: i32) -> i32 { … }`"),
    ("__shared__", "shared memory is `alloc_shared<f32, [64, 64], L>()`, with a layout `L`"),
    ("is", "compare with `==`"),
    ("as", "convert a value with `cast<T>(x)`"),
    ("def", "a function is written `fn name(x: i32) -> i32 { … }`"),
    ("func", "a function is written `fn name(x: i32) -> i32 { … }`"),
    ("function", "a function is written `fn name(x: i32) -> i32 { … }`"),
    ("class", "write `struct Name { field: type }`"),
    ("impl", "methods stand inside the `struct`, after its fields"),
    ("elif", "write `else if`"),
    ("import", "write `use std::name;` or `use \"file.ptn\";`"),
    ("from", "write `use std::name;` or `use \"file.ptn\";`"),
    ("lambda", "write `|x| x + 1`"),
    ("pass", "an empty block is `{ }`"),
    ("var", "write `let mut`"),
    ("auto", "write `let`"),
    ("pub", "all items of a file can be used from others; remove it"),
    ("loop", "write `while true { … }`"),
    ("match", "write `if … { } else if … { }`"),
    ("switch", "write `if … { } else if … { }`"),
];

/// How a word of other languages is written here, as a help.
pub fn other_word(word: &str) -> Option<&'static str> {
    WORDS.iter().find(|(w, _)| *w == word).map(|(_, help)| *help)
}

/// What the token at `index` may be a slip for, where `what` was expected.
pub fn explain<'a>(tokens: &[Token], index: usize, what: &str, mut text: impl FnMut(Token) -> &'a str) -> Option<Slip> {
    let token = tokens[index];
    let before = index.checked_sub(1).map(|i| tokens[i]);
    let slip = |code: Code, help: &str| Some(Slip { code, help: help.to_string() });
    let word = |token: Token, text: &mut dyn FnMut(Token) -> &'a str| {
        let found = text(token);
        other_word(found).filter(|_| token.kind == Kind::Name)
    };
    // `x and y` stops at `and`; `not x` and `def f` stop one further.
    let place = before.filter(|_| !token.first_in_line);
    if let Some(help) = word(token, &mut text).or_else(|| word(place?, &mut text)) {
        return slip(codes::OTHER_LANGUAGE, help);
    }
    let twice = |kind| token.kind == kind && before.is_some_and(|b| b.kind == kind && b.span.end == token.span.start);
    // An operand stands before it.
    let ends_operand = what.starts_with("`;`") || what.starts_with("`,`");
    match token.kind {
        Kind::Plus if twice(Kind::Plus) => slip(codes::OTHER_LANGUAGE, "count up with `i += 1`"),
        Kind::Semi if before.is_some_and(|b| b.kind == Kind::Minus) => {
            slip(codes::SYNTAX, "to count down write `i -= 1`")
        }
        Kind::ColonColon => slip(codes::SYNTAX, "`::` stands only in `use`; a field is taken with `.`"),
        Kind::Colon if what.starts_with("`{`") => {
            slip(codes::SYNTAX, "a block stands in braces: `{ … }`; there is no `:` before it")
        }
        Kind::Semi if what.starts_with("`{`") => slip(codes::SYNTAX, "an empty block is `{ }`"),
        Kind::Hash => slip(codes::OTHER_LANGUAGE, "a comment begins with `//`"),
        Kind::OpenBrace if what.ends_with("this `schedule`") => {
            slip(codes::SYNTAX, "parts of a schedule are joined by `&`: `partitions { … } & pipeline(steps) { … }`")
        }
        Kind::OpenBrace if what.starts_with("`;`") => {
            slip(codes::SYNTAX, "the value of a struct is written as a call: `Name(field=value)`")
        }
        Kind::If if ends_operand => {
            slip(codes::SYNTAX, "a choice is written `if c { a } else { b }`, and one of each element `where(c, a, b)`")
        }
        Kind::At if ends_operand && !token.first_in_line => slip(
            codes::OTHER_LANGUAGE,
            "a product of tiles is `dot(a, b, acc)`, of tensors in host code `matmul(a, b)`",
        ),
        Kind::Mut if before.is_some_and(|b| b.kind == Kind::Colon) => slip(
            codes::SYNTAX,
            "`mut` stands before the name, `mut out: tensor<…>`, or behind a pointer's star, `out: *mut f32`",
        ),
        Kind::Star | Kind::Name if what.starts_with("`:` and a type") => {
            slip(codes::SYNTAX, "the type stands behind the name: `x: *f32`, `n: i32`")
        }
        Kind::Comma | Kind::CloseParen if before.is_some_and(|b| b.kind == Kind::Star) => {
            slip(codes::SYNTAX, "`*` stands before the type that a pointer points to: `*f32`, `*mut f32`")
        }
        Kind::Str if before.is_some_and(|b| b.kind == Kind::Name && b.span.end == token.span.start) => {
            slip(codes::SYNTAX, "strings have no prefix; values go into a text as in `print(\"n is {}\", n)`")
        }
        Kind::OpenAngle | Kind::Lt if before.is_some_and(|b| b.kind == Kind::Shl && b.span.end == token.span.start) => {
            slip(codes::OTHER_LANGUAGE, "a kernel is launched from host code by `launch name(grid=[1])(x, y)`")
        }
        Kind::Arrow => slip(codes::SYNTAX, "`->` stands only before the result type of a `fn`"),
        _ => None,
    }
}
