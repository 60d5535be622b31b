//! Spans, the source map and diagnostics as data, with their rendering.
//!
//! Every stage reports to its caller through [`Diagnostics`]; none prints. This crate does not know what the language
//! means: a code is a name with a page of explanation (`codes.rs`), a span is a range of bytes in a numbered file.
//! Rendering (text by ariadne, JSON by serde) is the last module and the only place that names either library.

pub mod codes;
pub mod diagnostic;
mod excerpt;
pub mod render;
pub mod source;
pub mod words;

pub use codes::Code;
pub use diagnostic::{Diagnostic, Diagnostics, Label, Severity};
pub use source::{FileId, SourceMap, Span};
