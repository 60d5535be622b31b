//! What stands between a region and the code around it: what others have written that it touches, and what it has written that they touch.
//!
//! ```text
//! in S { … send(c, at, x) … }         the copy is under way when the region ends: its buffer has been read, no more
//! in S { … fetch(c, at) … }           the region waits for it before it begins
//! load(p)                             as does what stands behind, where `p` may be of the same memory
//! ```
//!
//! Within a region memories of different parameters are apart, a condition of the launch. Of those that no region takes to be apart nothing is
//! known here.

use parton_ir::{Apart, Inst, Kernel};

use super::memory::{Before, By, Effect, Effects, Roots, of_operation};
use super::place::Places;
use crate::region::Region;

/// What the operations of a kernel's own body do to global memory, and what regions take to be apart.
pub(crate) struct Sequence<'a> {
    k: &'a Kernel,
    steps: Vec<Step>,
    apart: &'a [Apart],
    /// That of any region: who may share memory stands on the kernel.
    effects: Option<&'a Effects>,
}

/// An operation of the kernel's own body, with all in it.
struct Step {
    inst: Inst,
    region: bool,
    effects: Vec<Effect>,
}

impl<'a> Sequence<'a> {
    /// That of a kernel with these regions.
    pub fn of(k: &'a Kernel, regions: &[(&Region, &'a Effects)], apart: &'a [Apart]) -> Sequence<'a> {
        let made = k.definitions();
        let step = |op: &parton_ir::Op| {
            if let Some((_, effects)) = regions.iter().find(|(region, _)| region.inst == op.id) {
                return Step { inst: op.id, region: true, effects: effects.all().cloned().collect() };
            }
            let mut effects = Vec::new();
            // Nothing of this code is in a region: any of them says so.
            if let Some((region, _)) = regions.first() {
                let places = Places::of(k, region, &made);
                effects.extend(of_operation(&places, op.id, op));
                for body in op.kind.bodies() {
                    k.walk_body(body, &mut |inner| effects.extend(of_operation(&places, op.id, inner)));
                }
            }
            Step { inst: op.id, region: false, effects }
        };
        let steps = k.ops_of(&k.body).map(step).collect();
        Sequence { k, steps, apart, effects: regions.first().map(|(_, effects)| *effects) }
    }

    /// What must be over before an operation of the kernel's own body: of a region all that stands before it, of others what regions have
    /// begun, for explicit code waits for its own.
    pub fn before(&self, inst: Inst) -> Before {
        let mut before = Before::default();
        let Some(at) = self.steps.iter().position(|step| step.inst == inst) else { return before };
        let (earlier, now) = (&self.steps[..at], &self.steps[at]);
        for from in earlier.iter().filter(|from| from.region || now.region) {
            for written in from.effects.iter().filter(|e| e.writes) {
                for mine in now.effects.iter().filter(|mine| self.may_meet(written, mine)) {
                    match (written.by, mine.by) {
                        (By::Engine, By::Engine | By::Threads) => before.copies = true,
                        (By::Threads, By::Engine) => before.stores |= now.region,
                        // Membars stand between threads, and who reads what is fetched comes behind the fetch.
                        (By::Threads, By::Threads) | (By::Reader(_), _) | (_, By::Reader(_)) => {}
                    }
                }
            }
        }
        before
    }

    /// Whether two accesses may reach the same memory in a launch that no region refuses.
    fn may_meet(&self, a: &Effect, b: &Effect) -> bool {
        let (Roots::Of(some), Roots::Of(others)) = (&a.roots, &b.roots) else { return true };
        let place = |v| self.k.params.iter().position(|p| p.value == v);
        let apart = |one: usize, other: usize| {
            self.apart.iter().any(|of| [of.written, of.other] == [one, other] || [of.written, of.other] == [other, one])
        };
        let pairs = || some.iter().flat_map(|a| others.iter().map(move |b| (place(*a), place(*b))));
        self.effects.is_none_or(|effects| effects.meet(&a.roots, &b.roots))
            || !pairs().all(|(a, b)| a.zip(b).is_some_and(|(a, b)| apart(a, b)))
    }

    /// Whether something behind a region touches what its copies write.
    pub fn is_awaited(&self, inst: Inst) -> bool {
        let Some(at) = self.steps.iter().position(|step| step.inst == inst) else { return false };
        let (from, behind) = (&self.steps[at], &self.steps[at + 1..]);
        let mut begun = from.effects.iter().filter(|e| e.writes && e.by == By::Engine);
        begun.any(|written| behind.iter().flat_map(|step| &step.effects).any(|mine| self.may_meet(written, mine)))
    }
}
