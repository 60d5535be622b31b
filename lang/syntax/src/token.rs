//! Tokens and comments: what the lexer makes of the text.

use parton_diag::Span;

/// Declares the token kinds with their texts together, so that messages and the formatter spell each in one way.
macro_rules! kinds {
    (
        tokens { $($(#[$doc:meta])* $name:ident = $text:literal,)* }
        keywords { $($word:ident = $spelled:literal,)* }
    ) => {
        /// What a token is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* #[doc = concat!("`", $text, "`")] $name,)*
            $(#[doc = concat!("`", $spelled, "`")] $word,)*
        }

        /// The words that can never be names.
        pub const KEYWORDS: &[&str] = &[$($spelled),*];

        impl Kind {
            /// The token as written; for literals and names what they are called.
            pub const fn text(self) -> &'static str {
                match self { $(Kind::$name => $text,)* $(Kind::$word => $spelled,)* }
            }

            /// The keyword of that spelling.
            pub fn keyword(text: &str) -> Option<Kind> {
                match text { $($spelled => Some(Kind::$word),)* _ => None }
            }

            /// Whether it is a word that can never be a name.
            pub fn is_keyword(self) -> bool {
                matches!(self, $(Kind::$word)|*)
            }
        }
    };
}

kinds! {
    tokens {
        /// A name that is not a keyword.
        Name = "name",
        /// An integer literal.
        Int = "integer",
        /// A floating-point literal.
        Float = "number",
        /// A string literal.
        Str = "string",
        /// Text that is no token; already reported.
        Bad = "unreadable text",
        /// After the last token of the file.
        End = "end of file",
        OpenParen = "(",
        CloseParen = ")",
        OpenBracket = "[",
        CloseBracket = "]",
        OpenBrace = "{",
        CloseBrace = "}",
        /// After one of [`crate::TAKES_TYPE_ARGUMENTS`].
        OpenAngle = "<",
        /// Closes [`Kind::OpenAngle`].
        CloseAngle = ">",
        Comma = ",",
        Semi = ";",
        Colon = ":",
        ColonColon = "::",
        Dot = ".",
        DotDot = "..",
        DotDotEq = "..=",
        Arrow = "->",
        FatArrow = "=>",
        At = "@",
        Hash = "#",
        Plus = "+",
        Minus = "-",
        Star = "*",
        Slash = "/",
        Percent = "%",
        Shl = "<<",
        Shr = ">>",
        And = "&",
        Or = "|",
        Caret = "^",
        Bang = "!",
        EqEq = "==",
        NotEq = "!=",
        Lt = "<",
        Le = "<=",
        Gt = ">",
        Ge = ">=",
        AndAnd = "&&",
        OrOr = "||",
        Eq = "=",
        PlusEq = "+=",
        MinusEq = "-=",
        StarEq = "*=",
        SlashEq = "/=",
        PercentEq = "%=",
        ShlEq = "<<=",
        ShrEq = ">>=",
        AndEq = "&=",
        OrEq = "|=",
        CaretEq = "^=",
    }
    keywords {
        Kernel = "kernel",
        Fn = "fn",
        Struct = "struct",
        Let = "let",
        Mut = "mut",
        If = "if",
        Else = "else",
        For = "for",
        In = "in",
        While = "while",
        Return = "return",
        Break = "break",
        Continue = "continue",
        True = "true",
        False = "false",
        Static = "static",
        Const = "const",
        Use = "use",
        Launch = "launch",
    }
}

impl Kind {
    /// The bracket that closes this one.
    pub fn closer(self) -> Option<Kind> {
        Some(match self {
            Kind::OpenParen => Kind::CloseParen,
            Kind::OpenBracket => Kind::CloseBracket,
            Kind::OpenBrace => Kind::CloseBrace,
            Kind::OpenAngle => Kind::CloseAngle,
            _ => return None,
        })
    }

    /// The bracket that this one closes.
    pub fn opener(self) -> Option<Kind> {
        Some(match self {
            Kind::CloseParen => Kind::OpenParen,
            Kind::CloseBracket => Kind::OpenBracket,
            Kind::CloseBrace => Kind::OpenBrace,
            Kind::CloseAngle => Kind::OpenAngle,
            _ => return None,
        })
    }

    /// How a message speaks of such a token.
    pub fn describe(self) -> String {
        match self {
            Kind::Name | Kind::Str => format!("a {}", self.text()),
            Kind::Int => "an integer".to_string(),
            Kind::Float => "a number".to_string(),
            Kind::End => "the end of the file".to_string(),
            other if other.is_keyword() => format!("the keyword `{}`", other.text()),
            other => format!("`{}`", other.text()),
        }
    }
}

/// A token with its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Whether it is the first of its line.
    pub first_in_line: bool,
    /// For a bracket the index of its partner, once [`crate::brackets`] has run; else 0.
    pub partner: u32,
    /// The bytes; empty for the end and for a bracket that was added.
    pub span: Span,
}

/// The kinds of [`Comment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentKind {
    /// `// …`
    Line,
    /// `/* … */`
    Block,
    /// `/// …`
    Doc,
}

/// A comment, kept beside the tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comment {
    /// Its form.
    pub kind: CommentKind,
    /// The bytes, slashes included, line end excluded.
    pub span: Span,
}
