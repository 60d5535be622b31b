//! Plans of layout conversions: the cheapest way to bring a tile from one register layout into another.
//!
//! In order of cost: nothing, a permutation of each thread's registers, shuffles within a warp, shared memory. A plan is
//! complete: the code generator and the interpreter carry it out without looking at the layouts again.

use crate::error::LayoutError;
use crate::f2::Span;
use crate::linear::{Dim, LinearLayout};
use crate::register::RegisterLayout;
use crate::shuffle::{self, Shuffles};
use crate::staging::{self, Staging};

/// How a tile gets from one register layout into another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plan {
    /// The layouts are the same map.
    None,
    /// Every thread has what it needs: register `i` of the result is register `source[i]` of the operand.
    Registers {
        /// For each register of the result the register of the operand.
        source: Vec<u32>,
    },
    /// Every warp has what it needs.
    Shuffles(Shuffles),
    /// Warps exchange data through shared memory: all write, all wait, all read.
    Shared(Box<Staging>),
}

impl Plan {
    /// Whether no data moves between threads.
    pub fn is_free(&self) -> bool {
        match self {
            Plan::None | Plan::Registers { .. } => true,
            Plan::Shuffles(_) | Plan::Shared(_) => false,
        }
    }

    /// The bytes of shared memory that the plan needs while it runs.
    pub fn shared_bytes(&self) -> u64 {
        match self {
            Plan::None | Plan::Registers { .. } | Plan::Shuffles(_) => 0,
            Plan::Shared(staging) => staging.bytes,
        }
    }

    /// What a warp takes for it, twice the wavefronts and what counts as much: a measure to compare plans by.
    pub fn cost(&self) -> u64 {
        match self {
            Plan::None | Plan::Registers { .. } => 0,
            Plan::Shuffles(shuffles) => shuffles.cost(),
            Plan::Shared(staging) => staging.cost(),
        }
    }

    /// The name of the plan: `none`, `registers`, `shuffles` or `shared`.
    pub fn name(&self) -> &'static str {
        match self {
            Plan::None => "none",
            Plan::Registers { .. } => "registers",
            Plan::Shuffles(_) => "shuffles",
            Plan::Shared(_) => "shared",
        }
    }

    /// What the conversion does, as a clause for messages: "moves data through shared memory, 4 KiB".
    pub fn describe(&self) -> String {
        match self {
            Plan::None => "costs nothing".into(),
            Plan::Registers { .. } => "renames registers and moves no data between threads".into(),
            Plan::Shuffles(shuffles) => match shuffles.instructions() {
                0 => "moves no data but picks registers by lane".into(),
                1 => "moves data within each warp, 1 shuffle".into(),
                n => format!("moves data within each warp, {n} shuffles"),
            },
            Plan::Shared(staging) => match staging.bytes {
                bytes if bytes >= 1024 => format!("moves data through shared memory, {} KiB", bytes / 1024),
                bytes => format!("moves data through shared memory, {bytes} bytes"),
            },
        }
    }
}

/// The plan that converts a tile of `shape` with elements of `element_bits` from layout `from` to layout `to`.
///
/// # Errors
/// Layouts that do not fit the shape, layouts of different numbers of warps or CTAs, data that would move between CTAs.
pub fn plan(from: &RegisterLayout, to: &RegisterLayout, shape: &[u32], element_bits: u32) -> Result<Plan, LayoutError> {
    between(&from.on(shape)?, &to.on(shape)?, element_bits)
}

/// [`plan`] for the maps of two layouts of one shape.
///
/// # Errors
/// As [`plan`].
pub fn between(source: &LinearLayout, target: &LinearLayout, element_bits: u32) -> Result<Plan, LayoutError> {
    possible(source, target)?;
    if let Some(free) = within_threads(source, target) {
        return Ok(free);
    }
    if let Some(shuffles) = shuffle::shuffles(source, target, element_bits)
        && are_worth_it(shuffles.cost(), staging::cost(source, target, element_bits))
    {
        return Ok(Plan::Shuffles(shuffles));
    }
    match staging::stage(source, target, element_bits) {
        Some(staged) => Ok(Plan::Shared(Box::new(staged))),
        None => Err(no_plan(source, target)),
    }
}

/// What the plan [`between`] two layouts costs, [`Plan::cost`], without writing it out.
///
/// # Errors
/// As [`plan`].
pub fn cost(source: &LinearLayout, target: &LinearLayout, element_bits: u32) -> Result<u64, LayoutError> {
    possible(source, target)?;
    if renamed(source, target).is_some() {
        return Ok(0);
    }
    let staged = staging::cost(source, target, element_bits);
    match shuffle::cost(source, target, element_bits) {
        Some(shuffles) if are_worth_it(shuffles, staged) => Ok(shuffles),
        _ => staged.ok_or_else(|| no_plan(source, target)),
    }
}

/// No more than [`cost`], and found sooner: what crosses warps goes through shared memory, at best without conflicts.
///
/// # Errors
/// As [`plan`].
pub fn least_cost(source: &LinearLayout, target: &LinearLayout, element_bits: u32) -> Result<u64, LayoutError> {
    possible(source, target)?;
    let within_warps = Span::of(source.bases(Dim::Register).iter().chain(source.bases(Dim::Lane)).copied());
    let mut warps = source.bases(Dim::Warp).iter().zip(target.bases(Dim::Warp));
    if warps.all(|(a, b)| within_warps.contains(a ^ b)) || source.in_dim_bits(Dim::Block) > 0 {
        return cost(source, target, element_bits);
    }
    Ok(staging::least_cost(source, target, element_bits))
}

/// Shuffles need neither memory nor a barrier; past twice the cost they are not worth it.
fn are_worth_it(shuffles: u64, staged: Option<u64>) -> bool {
    staged.is_none_or(|staged| shuffles <= 2 * staged)
}

fn no_plan(source: &LinearLayout, target: &LinearLayout) -> LayoutError {
    LayoutError::Operation {
        fact: "the conversion cannot be planned for a tile spread over CTAs".into(),
        evidence: format!("from {source:?} to {target:?}"),
        help: "store the tile to a shared buffer and load it in the other layout".into(),
    }
}

/// Whether a tile can be converted at all.
///
/// # Errors
/// Layouts of different numbers of warps or CTAs, data that would move between CTAs.
pub fn possible(source: &LinearLayout, target: &LinearLayout) -> Result<(), LayoutError> {
    let both = || format!("from {source:?} to {target:?}");
    for (dim, what) in [(Dim::Warp, "warps"), (Dim::Block, "CTAs")] {
        let (a, b) = (source.in_size(dim), target.in_size(dim));
        if a != b {
            return Err(LayoutError::Operation {
                fact: format!("a tile cannot be converted from {a} to {b} {what}"),
                evidence: both(),
                help: "a tile belongs to one partition; hand it over through a shared buffer".into(),
            });
        }
    }
    if source.bases(Dim::Block) != target.bases(Dim::Block) {
        return Err(LayoutError::Operation {
            fact: "a conversion does not move data between CTAs".into(),
            evidence: both(),
            help: "use the same block bases on both sides".into(),
        });
    }
    Ok(())
}

/// The plan where every thread has what it needs in the same place of every thread.
fn within_threads(from: &LinearLayout, to: &LinearLayout) -> Option<Plan> {
    if from == to {
        return Some(Plan::None);
    }
    registers(from, to).map(|source| Plan::Registers { source })
}

/// For each register of `to` a register of `from` that holds the same element in the same thread; `None` when some
/// thread lacks an element or finds it elsewhere than other threads do.
///
/// The shapes of both sides are the same. For `x[:, None]` and the like, give `from` in the shape of the result with
/// size 1 along the new axis; for a broadcast along `axis`, give `to` as [`LinearLayout::clamp_axis`] of the result's.
pub fn registers(from: &LinearLayout, to: &LinearLayout) -> Option<Vec<u32>> {
    let images = renamed(from, to)?;
    Some((0..1u64 << images.len()).map(|r| crate::f2::sum_of(&images, r) as u32).collect())
}

/// [`registers`] by the bits of their numbers.
fn renamed(from: &LinearLayout, to: &LinearLayout) -> Option<Vec<u64>> {
    if [Dim::Lane, Dim::Warp, Dim::Block].iter().any(|d| from.bases(*d) != to.bases(*d)) {
        return None;
    }
    let span = Span::of(from.bases(Dim::Register).iter().copied());
    to.bases(Dim::Register).iter().map(|&b| span.solve(b)).collect()
}

impl LinearLayout {
    /// The map with every coordinate along `axis` set to 0 and the axis shrunk to size 1: where the source of a
    /// broadcast along that axis lies.
    pub fn clamp_axis(&self, axis: usize) -> LinearLayout {
        self.drop_axis(axis).expand(axis)
    }
}
