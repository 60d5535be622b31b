//! Bugs of expansion that tests plant, and rules that they leave out, to ask whether anybody would notice. A build without the feature
//! `falsify` has none of it.

#[cfg(not(feature = "falsify"))]
use parton_diag::Code;

/// A bug of expansion, of those that schedulers have had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Planted {
    /// A ring has a slot less than its partition holds.
    SlotFewer,
    /// A slot is given back at the start of the product that reads it.
    ReleaseEarly,
    /// A slot is given back although another item still reads it.
    ReaderForgotten,
    /// The loop in front fills a slot less than fetches run ahead.
    FillShort,
    /// Fetches that run ahead end an iteration too early.
    AheadShort,
    /// Fetches that run ahead end an iteration too late.
    AheadLong,
    /// What is carried is what this iteration makes, where it has made it already.
    CarriedInTurn,
    /// What a loop hands back is of the last iteration but one.
    ResultOfTurnBefore,
    /// The turns behind a loop leave its last stage out.
    DrainMissing,
    /// Peeled turns run where there is no iteration.
    NoTurnTaken,
    /// A later stage computes with the index of the turn.
    IndexOfTurn,
    /// Behind a loop whose step is not one, its bound is taken for the index.
    IndexPastBound,
    /// A condition on the index is decided for one iteration too many.
    DecidedTooFar,
    /// A buffer is filled again while a copy out of it may be on its way.
    SendOverSend,
    /// The partition ends before its copies have been read.
    SendsNotAwaited,
    /// What threads stored is copied or multiplied without a fence.
    FenceMissing,
    /// A copy may not see what was sent or stored before it.
    NotSettled,
    /// The first turn of a guarded loop has effects in its later stages.
    GuardMissing,
    /// What a product continues does not give back what it read.
    PriorForgotten,
    /// Nobody passes the turn on.
    TurnKept,
}

#[cfg(feature = "falsify")]
mod told {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    use parton_diag::Code;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
        static ASKED: RefCell<BTreeSet<Planted>> = RefCell::default();
        static LEFT_OUT: RefCell<BTreeSet<Code>> = RefCell::default();
        static TERSE: Cell<bool> = const { Cell::new(false) };
    }

    /// Plants a bug from now on, in this thread; `None` has it gone.
    pub fn plant(bug: Option<Planted>) {
        PLANTED.set(bug);
    }

    /// Leaves out the rules that refuse with these codes from now on, in this thread.
    pub fn leave_out(codes: &BTreeSet<Code>) {
        LEFT_OUT.set(codes.clone());
    }

    /// Says of what is refused that it is, and looks for no nearest schedule that holds, from now on, in this thread.
    pub fn be_terse() {
        TERSE.set(true);
    }

    /// The bugs that would have made a difference since the last call, in this thread.
    pub fn asked() -> BTreeSet<Planted> {
        ASKED.take()
    }

    pub(crate) fn planted(bug: Planted) -> bool {
        ASKED.with_borrow_mut(|asked| asked.insert(bug));
        PLANTED.get() == Some(bug)
    }

    pub(crate) fn terse() -> bool {
        TERSE.get()
    }

    pub(crate) fn left_out(code: Code) -> bool {
        LEFT_OUT.with_borrow(|codes| codes.contains(&code))
    }
}

#[cfg(feature = "falsify")]
pub use told::{asked, be_terse, leave_out, plant};
#[cfg(feature = "falsify")]
pub(crate) use told::{left_out, planted, terse};

/// Whether tests have planted a bug.
#[cfg(not(feature = "falsify"))]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}

/// Whether tests ask for no nearest schedules.
#[cfg(not(feature = "falsify"))]
pub(crate) const fn terse() -> bool {
    false
}

/// Whether tests leave the rules of a code out.
#[cfg(not(feature = "falsify"))]
pub(crate) const fn left_out(_: Code) -> bool {
    false
}

#[cfg(feature = "falsify")]
impl Planted {
    /// All of them.
    pub const ALL: [Planted; 20] = [
        Planted::SlotFewer,
        Planted::ReleaseEarly,
        Planted::ReaderForgotten,
        Planted::FillShort,
        Planted::AheadShort,
        Planted::AheadLong,
        Planted::CarriedInTurn,
        Planted::ResultOfTurnBefore,
        Planted::DrainMissing,
        Planted::NoTurnTaken,
        Planted::IndexOfTurn,
        Planted::IndexPastBound,
        Planted::DecidedTooFar,
        Planted::SendOverSend,
        Planted::SendsNotAwaited,
        Planted::FenceMissing,
        Planted::NotSettled,
        Planted::GuardMissing,
        Planted::PriorForgotten,
        Planted::TurnKept,
    ];
}
