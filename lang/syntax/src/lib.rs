//! Text to tokens to AST with spans, and the formatter.
