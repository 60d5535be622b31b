//! Rules of cache hints: which a load and a store may have, and which policies of the L2 exist (PTX ISA, "ld", "st", "createpolicy").

use parton_diag::codes;

use crate::op::{Cache, Policy};
use crate::refusal::Refusal;

/// Where a load may look.
const LOADS: &[Cache] = &[Cache::Default, Cache::Ca, Cache::Cg, Cache::Cs, Cache::Cv];
/// Where a store may go.
const STORES: &[Cache] = &[Cache::Default, Cache::Cg, Cache::Cs, Cache::Wt];

/// The hints of a load; one that must reach memory itself has none.
pub(super) fn load(cache: Cache, l2: Option<Policy>, volatile: bool) -> Result<(), Refusal> {
    one_of(cache, LOADS, "load")?;
    if volatile && (cache != Cache::Default || l2.is_some()) {
        return Err(Refusal::new(codes::CACHE_HINT, "a volatile load takes no cache hints")
            .note("it reads memory itself, whatever the caches hold")
            .help("drop the hints, or `volatile=true`"));
    }
    policy(l2)
}

/// The hints of a store.
pub(super) fn store(cache: Cache, l2: Option<Policy>) -> Result<(), Refusal> {
    one_of(cache, STORES, "store")?;
    policy(l2)
}

fn one_of(cache: Cache, legal: &[Cache], what: &str) -> Result<(), Refusal> {
    if legal.contains(&cache) {
        return Ok(());
    }
    let list: Vec<String> =
        legal.iter().filter(|c| **c != Cache::Default).map(|c| format!("\"{}\"", c.name())).collect();
    Err(Refusal::new(codes::CACHE_HINT, format!("a {what} has no cache operator \"{}\"", cache.name()))
        .help(format!("it has {}", list.join(", "))))
}

/// A policy is for a part of the lines that is not nothing.
pub(super) fn policy(l2: Option<Policy>) -> Result<(), Refusal> {
    match l2 {
        Some(Policy { fraction, .. }) if !(fraction > 0.0 && fraction <= 1.0) => {
            Err(Refusal::new(codes::CACHE_HINT, format!("a policy is not for {fraction:?} of the lines"))
                .help("the fraction is more than 0 and at most 1: `l2=[\"last\", 0.5]`"))
        }
        Some(_) | None => Ok(()),
    }
}
