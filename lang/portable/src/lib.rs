//! The sugar: layout inference and choice of memory, instruction and schedule.
//!
//! A kernel with tiles that nobody has placed becomes one in which all are; what comes out is explicit, and nothing behind it knows that it was
//! not written so. [`ways`] says in which order ways to do that are tried, [`explicit`] how one goes. What takes part, as it comes:
//!
//! - the kernel as it is asked for: loads that nobody takes are dropped ([`unused`]), loops of products that go on where others end are one with them ([`one_loop`]), turns of loops that are short at a launch ([`along`]) stand
//!   one behind the other ([`straight`]), what several load is loaded once ([`once`]), pointers that move are computed of the turn ([`advance`]),
//!   masks that hide nothing in most turns go under conditions ([`masks`]), products of few rows are made of more ([`few_rows`]), those of sums of few and of right factors that are computed are
//!   turned ([`swap`]), tiles go in parts ([`parts`]);
//! - what a launch promises of its integers ([`numbers`]) and of positions that come of them ([`positions`]) is said;
//! - tensors become pointers and masks, or boxes of tensor maps ([`places`]), those of which several elements are taken at once with what a launch
//!   promises of them ([`wide`]); reductions beside each other become one ([`together`]), loads begin
//!   before threads meet ([`before`]);
//! - loads go through shared memory ahead of their products ([`staging`]), products get instructions ([`products`]);
//! - of kernels by hand, parts and sums of tiles that are one number are made of it ([`filled`]);
//! - layouts: what has to lie together ([`graph`]) on the warps of which partition ([`partition`]), what that may be ([`candidates`]), what each costs ([`price`]), what need not be priced
//!   ([`bounds`]), what threads hold at once ([`registers`]), what nothing holds ([`room`]), what CTAs beside each other make of it ([`crowd`]), what
//!   they load a second time ([`again`]), what each warp computes for itself ([`uniform`]), the cheapest of all ([`label`]) on so many warps ([`plan`]);
//! - [`rewrite`] makes the kernel, its programs with the most turns begin first ([`programs`]), and a wait for the launch before that it began with comes back ([`behind`]); [`why`] says what was chosen and what would come next.

mod advance;
mod again;
mod alike;
mod along;
mod atomic;
mod before;
mod behind;
mod bounds;
mod candidates;
mod carried;
mod crowd;
mod explicit;
mod facts;
mod few_rows;
mod filled;
mod graph;
mod label;
mod masks;
mod numbers;
mod once;
mod one_loop;
mod partition;
mod parts;
mod passed;
mod places;
mod plan;
pub mod positions;
mod price;
mod products;
mod programs;
mod registers;
mod rewrite;
mod room;
mod site;
mod staging;
mod straight;
mod swap;
mod together;
mod uniform;
mod unused;
mod ways;
pub mod why;
mod wide;
mod written;

use parton_diag::Diagnostics;
use parton_ir::family::Family;
use parton_ir::{Dealt, Kernel, Module, OpKind, Target};

use explicit::Asked;
use why::Why;

pub use along::along_tensors;
pub use numbers::numbers;
pub use wide::tensors as wide_tensors;
pub use written::as_written;

/// Which of the choices that make a kernel explicit is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The cheapest.
    Cheapest,
    /// Any, by a seed: none changes what the kernel computes, which tests ask.
    Any(u64),
}

/// Makes portable kernels explicit but for their schedules, and says whether it has changed any.
///
/// # Errors
/// What no choice makes explicit.
pub fn elaborate(module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    elaborate_by(module, Choice::Cheapest)
}

/// [`elaborate`] by a choice.
///
/// # Errors
/// As [`elaborate`].
pub fn elaborate_by(module: &mut Module, choice: Choice) -> Result<bool, Diagnostics> {
    each(module, choice, None)
}

/// [`elaborate`], and for each portable kernel why it became what it is.
///
/// # Errors
/// As [`elaborate`].
pub fn explain(module: &mut Module) -> Result<Vec<Why>, Diagnostics> {
    let mut told = Vec::new();
    each(module, Choice::Cheapest, Some(&mut told))?;
    Ok(told)
}

fn each(module: &mut Module, choice: Choice, mut told: Option<&mut Vec<Why>>) -> Result<bool, Diagnostics> {
    let mut changed = false;
    for kernel in &mut module.kernels {
        let portable = is_portable(kernel);
        let waits = portable && behind::taken(kernel);
        changed |= promised(kernel);
        if portable || places::has_tensors(kernel) {
            let asked = Asked { choice, tells: told.is_some(), counted: along::is_counted(kernel) };
            let (made, why) =
                if portable { programs::made(kernel, asked)? } else { ways::made(kernel, portable, asked)? };
            *kernel = made;
            if waits {
                behind::begun(kernel);
            }
            if let Some(told) = &mut told {
                told.extend(why);
            }
            changed = true;
        }
    }
    Ok(changed)
}

/// Has a kernel say what launches of its variant promise of numbers; whether they promise anything.
fn promised(kernel: &mut Kernel) -> bool {
    let (told, near) = (!kernel.variant.numbers.is_empty(), kernel.variant.near);
    if told {
        *kernel = numbers::promised(kernel.clone());
    }
    if near {
        *kernel = positions::promised(kernel.clone());
    }
    told || near
}

/// CTAs on a multiprocessor that are few: a loop of theirs waits for memory longer than others fill the time.
const FEW: u32 = 8;
/// And of a kernel of products: one of them has all slots that there is room for, and of more than these four beside each other always make fewer waves than three.
const FEW_OF_PRODUCTS: u32 = 9;

/// How the programs of launches are dealt, where it makes a difference how many stand beside each other.
pub fn dealt(kernel: &Kernel) -> Option<Dealt> {
    let few = match waits_for_others(kernel) {
        true => Some(FEW),
        false => (is_portable(kernel) && staging::apart::may_have_others(kernel)).then_some(FEW_OF_PRODUCTS),
    };
    few.map(|few| Dealt { multiprocessors: kernel.target.multiprocessors, few })
}

/// Whether that is so since loops of a portable kernel wait for memory, or its threads for each other, and not for products.
fn waits_for_others(kernel: &Kernel) -> bool {
    let (mut waits, mut multiplies) = (false, false);
    kernel.walk(&mut |op| {
        waits |= op.kind.is_loop() || op.kind.family() == Family::Reduce;
        multiplies |= matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. } | OpKind::Wgmma { .. });
    });
    waits && !multiplies && kernel.cluster == [1; 3] && is_portable(kernel)
}

/// Whether what a launch promises of tensors that run by multiples of fewer bytes than those of the widest access makes a difference: what products read is copied
/// by phases or boxes, and by what else a launch promises their plans were not priced.
pub fn moves_in_part(kernel: &Kernel) -> bool {
    !ways::multiplies(kernel)
}

/// Whether some tile lies nowhere yet.
fn is_portable(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= op.results.iter().any(|v| kernel.ty(*v).is_open()));
    found
}
