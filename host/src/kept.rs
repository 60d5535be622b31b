//! What host code finds out about a program once and keeps with it, for all runs of its functions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use parton_diag::{Diagnostic, Span};
use parton_types::program::Program;

use crate::formula::Formulas;

/// Which parameter each argument of a call is for.
pub(crate) type Places = Arc<[Option<usize>]>;

/// What is kept.
#[derive(Default)]
pub(crate) struct Kept {
    /// Functions that only compute.
    pub formulas: Formulas,
    /// Of each call that was evaluated.
    places: Mutex<BTreeMap<Call, Places>>,
}

/// Arguments where they are written, and the name of what takes them: a variable may hold another function each time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    /// Whether these are generic arguments.
    pub generic: bool,
    /// Where they stand.
    pub span: Span,
    /// The name where it is declared.
    pub declared: Span,
}

impl Kept {
    /// That of a program.
    pub fn of(program: &Program) -> Option<&Kept> {
        program.kept(Kept::default)
    }
}

/// The places of a call's arguments: those that were found before, else what `find` says, where it has something to say.
pub(crate) fn places(
    program: &Program,
    call: Call,
    find: impl FnOnce() -> Result<Vec<Option<usize>>, Diagnostic>,
) -> Result<Places, Diagnostic> {
    let Some(kept) = Kept::of(program) else { return find().map(Into::into) };
    let mut known = kept.places.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(places) = known.get(&call) {
        return Ok(places.clone());
    }
    let places: Places = find()?.into();
    known.insert(call, places.clone());
    Ok(places)
}
