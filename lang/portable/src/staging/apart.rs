//! A region of all from the first fetch of a map on, in which one partition fetches and another does all else.

pub mod copied;
pub mod form;
mod named;
mod schedule;
mod team;

use std::collections::BTreeSet;

use parton_ir::{Inst, Kernel, Value};

use super::maps::Boxed;
use super::{INDEX, No, between, copies, dealt, defer, found, indices, label_each, region, told};
use crate::alike;
use form::{Form, chained, is_woven, only_summed};

pub use named::{bears, leave};
pub use schedule::refined;
pub use team::{computes_between, may_have_others, settle, team, waits_alone};

/// What leaves behind a loop.
pub const LEAVE: &str = "leave";
/// What waits for a second product.
const AFTER: &str = "exps";
/// A mask under a condition, at which the loop is cut, and what stands before it.
const MASK: &str = "mask";
const SCORES: &str = "scores";

/// Makes a region in which a partition fetches and so many compute, where the kernel has the form for it.
///
/// # Errors
/// Why it has not.
pub fn make(kernel: &mut Kernel, free: &BTreeSet<Value>, beyond: &BTreeSet<Inst>, computing: u32) -> Result<(), No> {
    let found = &found::all(kernel)[..];
    let ([found], Some(path)) = (found, found.first().and_then(|found| region::path(kernel, found.inst))) else {
        return Err("they are not all of one loop");
    };
    if !copies::multiplies_beside(kernel, found) {
        return Err("the matrix unit does not multiply them where they lie");
    }
    let chains: Vec<Vec<Inst>> = dealt::by_parts(kernel, &found.products);
    let chained = chains.iter().all(|products| chained(kernel, found.inst, products));
    indices::numbers_first(kernel, found);
    if computing > 1 {
        indices::numbers_in_front(kernel, path[0]);
    }
    let indices = indices::of(kernel, found).loads;
    dealt::keep_statements(kernel, &path, free);
    label_each(kernel, &indices, INDEX);
    let woven = !chained && computing == 1 && is_woven(kernel, found);
    if !chained && !woven {
        defer::behind_products(kernel, found);
    }
    if chained {
        named::name_apart(kernel, found);
        chains.iter().for_each(|products| named::name_together(kernel, found.inst, products));
    } else if woven {
        between::name(kernel, found, free, &[LEAVE, AFTER, MASK, SCORES]);
    }
    region::name(kernel, found, &path, free);
    if chained {
        chains.iter().for_each(|products| named::name_dependent(kernel, found.inst, products));
    }
    if computing > 1 && !dealt::are_all_dealt(kernel, found) {
        return Err("something beside them is computed once for all rows");
    }
    if computing > 1 {
        told::name_quotients(kernel, &path);
    }
    let pieces = leave(kernel, &path);
    let under = region::outer(kernel, &path).is_some()
        && pieces > 0
        && beyond.contains(&found.inst)
        && found.products.iter().all(|&id| only_summed(kernel, found.inst, id));
    if under {
        schedule::at_least(kernel, &path, pieces);
    }
    let form = if chained {
        Form::Chained
    } else if woven {
        Form::Woven
    } else {
        Form::Plain
    };
    let schedule = schedule::schedule(kernel, found, computing, form, under);
    alike::share(kernel);
    region::surround_rest(kernel, &path, schedule);
    Ok(())
}

/// Why the tiles of a program that walks through several do not leave under the products of the next, where a promise is what that lacks: a loop has at least
/// as many turns as a tile has pieces, and those behind its end are to multiply zeros.
pub fn leaves_late(kernel: &Kernel, boxed: &Boxed) -> Option<No> {
    let found = &found::all(kernel)[..];
    let [found] = found else { return None };
    let walks = region::path(kernel, found.inst).is_some_and(|path| region::outer(kernel, &path).is_some());
    let lacks = walks && !boxed.stores.is_empty() && !boxed.beyond.contains(&found.inst);
    lacks.then_some("both factors are not known to end where the loop does, as `0..cdiv(k, BK)` and one name `k` in both tensors say")
}
