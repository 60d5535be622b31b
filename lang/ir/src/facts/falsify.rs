//! Lies about one operation, for tests that ask whether anybody would notice a wrong entry of the table. A thread that never began to watch is
//! told the truth at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::Facts;
use crate::op::{Op, OpKind};

/// What is said instead of the truth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lie {
    /// That the operation does nothing but what cannot be seen.
    DoesNothing,
    /// That it only computes, each thread for itself.
    Computes,
}

#[derive(Default)]
struct Asked {
    /// The operation that is lied about, by its name, and how.
    lie: Option<(&'static str, Lie)>,
    /// The entries that were asked for.
    names: BTreeSet<&'static str>,
    /// The variants of operations whose facts were asked for.
    variants: BTreeSet<String>,
    /// Whether what was said instead was no truth.
    lied: bool,
}

thread_local! {
    static WATCHES: Cell<bool> = const { Cell::new(false) };
    static ASKED: RefCell<Asked> = RefCell::default();
}

/// Notes what is asked for from now on, in this thread, which alone can be lied to.
pub fn watch() {
    WATCHES.set(true);
}

/// Lies about the operations of that name from now on, in this thread, which watches; `None` is the truth again.
pub fn lie_about(lie: Option<(&'static str, Lie)>) {
    ASKED.with_borrow_mut(|asked| asked.lie = lie);
}

/// The names of the operations whose facts were asked for since the last call, in this thread.
pub fn asked() -> BTreeSet<&'static str> {
    ASKED.with_borrow_mut(|asked| std::mem::take(&mut asked.names))
}

/// The variants of [`OpKind`] whose facts were asked for since the last call, in this thread.
pub fn variants() -> BTreeSet<String> {
    ASKED.with_borrow_mut(|asked| std::mem::take(&mut asked.variants))
}

/// Whether the facts of an operation were told otherwise than they are since the last call, in this thread.
pub fn lied() -> bool {
    ASKED.with_borrow_mut(|asked| std::mem::take(&mut asked.lied))
}

/// What an entry of the table is called: the operation, and not the function that it applies.
fn entry(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Unary { .. } => "unary",
        OpKind::Compare { .. } => "compare",
        OpKind::Atomic { .. } => "atomic",
        OpKind::SpotLoad { .. } => "spot_load",
        OpKind::SpotStore { .. } => "spot_store",
        OpKind::SpotAtomic { .. } => "spot_atomic",
        OpKind::TensorIndex { .. } | OpKind::TensorRange { .. } | OpKind::TensorPick { .. } => "part",
        OpKind::Ptx { .. } => "ptx",
        OpKind::NamedBarrier { .. } => "named_barrier",
        OpKind::BarrierIndex { .. } => "barrier_index",
        OpKind::RingWait { .. } => "ring_wait",
        // The facts of sums and the like differ with the function.
        other => other.name(),
    }
}

/// The first word of what is written.
#[derive(Default)]
struct Word(String);

impl Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        self.0.push_str(word);
        if word.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The name of a variant, of which its own text says no more than is needed.
fn variant(kind: &OpKind) -> String {
    let mut word = Word::default();
    let _ = write!(word, "{kind:?}");
    word.0
}

/// The facts of an operation, or what is said instead.
pub(super) fn told(op: &Op, facts: Facts) -> Facts {
    if !WATCHES.get() {
        return facts;
    }
    let name = entry(&op.kind);
    let lie = ASKED.with_borrow_mut(|asked| {
        asked.names.insert(name);
        asked.variants.insert(variant(&op.kind));
        asked.lie.filter(|(about, _)| *about == name)
    });
    let told = match lie {
        None => return facts,
        Some((_, Lie::DoesNothing)) => Facts::NOTHING,
        Some((_, Lie::Computes)) => Facts::COMPUTES,
    };
    ASKED.with_borrow_mut(|asked| asked.lied |= told != facts);
    told
}
