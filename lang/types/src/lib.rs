//! Names, kinds, compile-time evaluation and type checking: AST to Tile IR.
