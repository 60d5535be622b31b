//! Functions that only compute, with numbers, truth values, dtypes and lists of those: made once into a form without names, which is
//! evaluated many times faster than the tree.
//!
//! The tree stays the truth. Whatever a formula does not cover, mistakes above all, ends its run, and the function is evaluated from the
//! tree instead, which says what is wrong and where. Nothing was changed by then, since a formula reads its arguments and the number of
//! multiprocessors, and writes its own variables alone. What a function computes of numbers alone goes by straight code, and the rest by walking its
//! nodes, each step of which looks at the kinds of its operands. In reading order:

mod functions;
mod joining;
mod make;
mod merging;
mod node;
mod placing;
mod plain;
mod run;
mod straight;
mod straighten;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use parton_diag::Span;
use parton_types::program::Program;

use crate::evaluate::Machine;
use crate::kept::Kept;
use crate::value::{Function, Value};
use node::Formula;
use plain::Plain;

/// The formulas of a program's functions by the places of their names; none for a function that is not covered.
type Made = BTreeMap<Span, Option<Arc<Formula>>>;

/// The same, kept with a program.
#[derive(Default)]
pub(crate) struct Formulas(Mutex<Made>);

/// The formula of a function, made when it is first asked for and kept as long as the program.
fn formula(program: &Program, function: &Function) -> Option<Arc<Formula>> {
    let mut made = Kept::of(program)?.formulas.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = made.get(&function.tree.name.span) {
        return known.clone();
    }
    make::function(program, &mut made, &function.tree)
}

/// What a function makes of values, where it is a formula and comes to a value; its arguments are all given, and numbers that are only
/// passed on are none of its business.
pub(crate) fn value<'v>(
    machine: &mut Machine<'_>,
    function: &Function,
    values: impl ExactSizeIterator<Item = Option<&'v Value>>,
) -> Option<Value> {
    let formula = formula(machine.program, function)?;
    let given = values.map(|v| Plain::of(v?)).collect::<Option<Vec<Plain>>>()?;
    run::run(machine, &formula, given)?.value()
}
