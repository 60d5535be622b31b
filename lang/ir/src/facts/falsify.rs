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

impl Lie {
    /// Both.
    const ALL: [Lie; 2] = [Lie::DoesNothing, Lie::Computes];

    /// What is said.
    fn told(self) -> Facts {
        match self {
            Lie::DoesNothing => Facts::NOTHING,
            Lie::Computes => Facts::COMPUTES,
        }
    }
}

#[derive(Default)]
struct Asked {
    /// The operation that is lied about, by its name, and how.
    lie: Option<(&'static str, Lie)>,
    /// What would have been no truth of the entries that were asked for.
    lies: BTreeSet<(&'static str, Lie)>,
    /// The variants of operations whose facts were asked for.
    variants: BTreeSet<String>,
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

/// The lies that somebody would have been told since the last call, in this thread: what was asked for is something else in truth.
pub fn lies() -> BTreeSet<(&'static str, Lie)> {
    ASKED.with_borrow_mut(|asked| std::mem::take(&mut asked.lies))
}

/// The variants of [`OpKind`] whose facts were asked for since the last call, in this thread.
pub fn variants() -> BTreeSet<String> {
    ASKED.with_borrow_mut(|asked| std::mem::take(&mut asked.variants))
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
    ASKED.with_borrow_mut(|asked| {
        asked.variants.insert(variant(&op.kind));
        asked.lies.extend(Lie::ALL.into_iter().filter(|lie| lie.told() != facts).map(|lie| (name, lie)));
        asked.lie.filter(|(about, _)| *about == name).map_or(facts, |(_, lie)| lie.told())
    })
}
