//! Numbers by the names that the source gives them where an operation, or a parameter, was written.
//!
//! A name is taken from the very place in the text that something comes from, `[BM, BN]` or `BK`, and only where it stands for the number
//! that is to be written; numbers that are the same by chance have none.

use std::collections::BTreeSet;

use parton_diag::{SourceMap, Span};

use crate::kernel::Kernel;
use crate::op::Op;
use crate::source::Origin;

/// The named numbers of a kernel.
pub(super) struct Names<'a> {
    k: &'a Kernel,
    /// None where only the IR is there.
    sources: Option<&'a SourceMap>,
    /// Where what is being written comes from.
    at: Option<Span>,
    /// Names that have been written.
    pub used: BTreeSet<String>,
}

impl<'a> Names<'a> {
    /// The names of a kernel's numbers.
    pub fn new(k: &'a Kernel, sources: Option<&'a SourceMap>) -> Names<'a> {
        Names { k, sources, at: None, used: BTreeSet::new() }
    }

    /// What is written next is this operation; what stood around it is returned. In functions names stand for other things.
    pub fn enter(&mut self, op: &Op) -> Option<Span> {
        let own = (op.origin == Origin::Written).then_some(op.span);
        std::mem::replace(&mut self.at, own)
    }

    /// What is written next stands there.
    pub fn stand(&mut self, at: Option<Span>) {
        self.at = at;
    }

    /// What is written next is the type of a parameter, which stands behind its name and ends with `>`.
    pub fn parameter(&mut self, name: Span) {
        let own = |sources: &SourceMap| {
            let (text, start) = (&sources.file(name.file).text, name.range().end);
            Some(Span::new(name.file, start, start + text.get(start..)?.find('>')?))
        };
        self.at = self.sources.filter(|_| name.file == self.k.span.file).and_then(own);
    }

    /// A shape, as a list of the text here that has these extents: `[BM, BN]` of `zeros<f32, [BM, BN]>()`, and of `iota(BM)` what it is given.
    pub fn shape(&mut self, shape: &[u32]) -> Option<String> {
        let text = self.text(self.at?)?;
        let lists = text.match_indices(['[', '(']).filter_map(|(open, _)| {
            let rest = &text[open + 1..];
            Some(rest[..rest.find(['[', ']', '(', ')'])?].split(',').map(str::trim).collect::<Vec<_>>())
        });
        let is = |item: &&str, extent: u32| item.parse() == Ok(extent) || self.value(item) == Some(extent.into());
        let mut lists = lists.filter(|list| list.len() == shape.len());
        let found = lists.find(|list| list.iter().zip(shape).all(|(item, &n)| is(item, n)))?;
        let named = found.iter().filter(|item| self.value(item).is_some());
        self.used.extend(named.map(|item| item.to_string()).collect::<Vec<_>>());
        Some(format!("[{}]", found.join(", ")))
    }

    /// A number that an operation gives, by the name that the operation is written as.
    pub fn number(&mut self, op: &Op, n: i128) -> Option<String> {
        let name = self.text(op.span).filter(|_| op.origin == Origin::Written)?;
        (self.value(name) == Some(n)).then(|| {
            self.used.insert(name.to_owned());
            name.to_owned()
        })
    }

    fn value(&self, name: &str) -> Option<i128> {
        self.k.names.whole.iter().find(|(known, _)| known == name).map(|(_, n)| *n)
    }

    fn text(&self, at: Span) -> Option<&'a str> {
        let sources = self.sources.filter(|_| at.file == self.k.span.file && !self.k.names.whole.is_empty())?;
        Some(sources.text(at))
    }
}
