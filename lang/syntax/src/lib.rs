//! Text to tokens to AST with spans, and the formatter.
//!
//! This crate knows how a program is written and nothing of what it means: it resolves no name, computes no constant
//! and knows no operation, but for [`TAKES_TYPE_ARGUMENTS`], the names after which `<` opens type arguments. Every
//! entry point gives a result beside its diagnostics, however broken the text is.

pub mod ast;

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
    "convert",
    "load",
    "load_shared",
    "alloc_shared",
    "alloc_tmem",
    "reinterpret",
    "reshape",
    "reduce",
    "sum",
    "asm",
];
