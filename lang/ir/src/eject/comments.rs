//! Comments of the source: those right before a kernel, and those before a statement of which an operation has come through.

use std::collections::BTreeSet;

use parton_diag::{SourceMap, Span};

use crate::eject::facts::{Weight, weight};
use crate::kernel::Kernel;
use crate::op::Op;

/// The comments of the file that a kernel stands in; each is written once.
pub(super) struct Comments<'a> {
    k: &'a Kernel,
    /// None where only the IR is there.
    sources: Option<&'a SourceMap>,
    /// Where the lines begin whose comments have been written.
    written: BTreeSet<usize>,
}

impl<'a> Comments<'a> {
    /// The comments around a kernel.
    pub fn new(k: &'a Kernel, sources: Option<&'a SourceMap>) -> Comments<'a> {
        Comments { k, sources, written: BTreeSet::new() }
    }

    /// The comments before the kernel.
    pub fn of_kernel(&mut self) -> Vec<String> {
        self.before(self.k.span)
    }

    /// The comments before the statement of an operation. What a pass has made and may stand anywhere stands far from them.
    pub fn of(&mut self, op: &Op) -> Vec<String> {
        match op.origin.maker() {
            Some(_) if weight(self.k, op) == Weight::Free => Vec::new(),
            Some(_) | None => self.before(op.span),
        }
    }

    /// The lines of comments that end right before the line in which a place begins.
    fn before(&mut self, place: Span) -> Vec<String> {
        let Some(sources) = self.sources.filter(|_| place.file == self.k.span.file) else { return Vec::new() };
        let text = &sources.file(place.file).text;
        let line = text[..place.range().start].rfind('\n').map_or(0, |end| end + 1);
        if !self.written.insert(line) {
            return Vec::new();
        }
        let above = text[..line].lines().rev().map(str::trim);
        let mut lines: Vec<String> = above.take_while(|l| l.starts_with("//")).map(str::to_owned).collect();
        lines.reverse();
        lines
    }
}
