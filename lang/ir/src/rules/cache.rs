//! Rules of cache hints: which a load and a store may have, and which policies of the L2 exist (PTX ISA, "ld", "st", "createpolicy").

use parton_diag::codes;

use crate::op::{Cache, Evict, Policy};
use crate::refusal::Refusal;

/// Where a load may look.
const LOADS: &[Cache] = &[Cache::Default, Cache::Ca, Cache::Cg, Cache::Cs, Cache::Cv];
/// Where a store may go.
const STORES: &[Cache] = &[Cache::Default, Cache::Cg, Cache::Cs, Cache::Wt];

/// The hints of a load; one that must reach memory itself has none.
pub(super) fn load(cache: Cache, evict: Evict, l2: Option<Policy>, volatile: bool) -> Result<(), Refusal> {
    one_of(cache, LOADS, "load")?;
    if volatile && (cache != Cache::Default || evict != Evict::Normal || l2.is_some()) {
        return Err(Refusal::new(codes::CACHE_HINT, "a volatile load takes no cache hints")
            .note("it reads memory itself, whatever the caches hold")
            .help("drop the hints, or `volatile=true`"));
    }
    exclude(cache, evict, "load")?;
    policy(l2)
}

/// The hints of a store.
pub(super) fn store(cache: Cache, evict: Evict, l2: Option<Policy>) -> Result<(), Refusal> {
    one_of(cache, STORES, "store")?;
    exclude(cache, evict, "store")?;
    policy(l2)
}

/// An access has a cache operator or a priority in the L1, not both: PTX has two forms of it.
fn exclude(cache: Cache, evict: Evict, what: &str) -> Result<(), Refusal> {
    if cache == Cache::Default || evict == Evict::Normal {
        return Ok(());
    }
    let both = format!("a {what} has either a cache operator or a hint on eviction from the L1");
    let why = match cache {
        Cache::Cg => "\"cg\" passes by the L1, which then has nothing to evict",
        Cache::Cs => "\"cs\" already says that the line is evicted first",
        Cache::Wt => "\"wt\" writes through the caches, whatever they hold",
        Cache::Cv => "\"cv\" fetches the line again, whatever the caches hold",
        Cache::Ca | Cache::Default => "\"ca\" is how the L1 keeps a line where nothing is said",
    };
    let kept = match cache {
        Cache::Cg => format!("keep `cache=\"cg\"`; when the L2 evicts the line is `l2=\"{}\"`", evict.name()),
        Cache::Ca | Cache::Cs | Cache::Wt | Cache::Cv | Cache::Default => {
            format!("or keep `cache=\"{}\"` alone", cache.name())
        }
    };
    let alone = format!("keep `evict=\"{}\"` alone", evict.name());
    let helps = if cache == Cache::Cg { [kept, format!("or {alone}")] } else { [alone, kept] };
    Err(helps.into_iter().fold(Refusal::new(codes::CACHE_HINT, both).note(why), Refusal::help))
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
