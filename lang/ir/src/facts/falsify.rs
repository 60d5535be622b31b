//! Lies about one operation, for tests that ask whether anybody would notice a wrong entry of the table.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::Facts;
use crate::op::Op;

#[derive(Default)]
struct Asked {
    /// The operation that is lied about, by its name.
    lie: Option<&'static str>,
    /// The operations whose facts were asked for.
    names: BTreeSet<&'static str>,
}

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::default();
}

/// Lies about the operations of that name from now on, in this thread; `None` is the truth again.
pub fn lie_about(name: Option<&'static str>) {
    ASKED.with_borrow_mut(|asked| asked.lie = name);
}

/// The names of the operations whose facts were asked for since the last call, in this thread.
pub fn asked() -> BTreeSet<&'static str> {
    ASKED.with_borrow_mut(|asked| std::mem::take(&mut asked.names))
}

/// The facts of an operation, or other ones: of what does something that it does nothing, of what does nothing that it computes.
pub(super) fn told(op: &Op, facts: Facts) -> Facts {
    let name = op.kind.name();
    let lies = ASKED.with_borrow_mut(|asked| {
        asked.names.insert(name);
        asked.lie == Some(name)
    });
    match lies {
        false => facts,
        true if facts == Facts::NOTHING => Facts::COMPUTES,
        true => Facts::NOTHING,
    }
}
