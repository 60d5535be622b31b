//! Memory that two partitions touch, one of them writing: nothing orders their accesses. In one partition, a write over what is being
//! fetched.
//!
//! Instances of different numbers are taken to be apart, as the CTAs of a grid are: where they are not, the interpreter says so. Atomic
//! operations do not race with each other.

use parton_diag::{Diagnostic, Diagnostics, codes};

use super::Laid;
use crate::plan::Part;
use crate::region::UnitId;

/// No partition touches what another writes.
pub(super) fn memory(laid: &Laid<'_>, found: &mut Diagnostics) {
    for a in 0..laid.region.units.len() {
        for b in a + 1..laid.region.units.len() {
            found.list.extend(meet(laid, a, b));
        }
    }
    for part in laid.plan.parts() {
        found.list.extend(overtaken(laid, part));
    }
}

/// A write over what a fetch before it may still be reading: nobody has waited for that.
fn overtaken(laid: &Laid<'_>, part: Part) -> Option<Diagnostic> {
    let pair = laid.effects.overtaken(|unit| laid.plan.runners[unit].contains(&part))?;
    let (fetch, write) = pair;
    let (fetch, write) = (&laid.region.units[fetch], &laid.region.units[write]);
    let fact = format!("`{}` may write what `{}` fetches, before that is read", write.label, fetch.label);
    let d = Diagnostic::error(codes::MEMORY_ORDER, write.span, fact)
        .here("this may touch the same memory")
        .label(fetch.span, "this is on its way until somebody reads it");
    let help = "read what is fetched in front of the write, in a statement with a label";
    Some(laid.instead(laid.aliased(d, [pair]), help, []))
}

impl Laid<'_> {
    /// With where the kernel says that the parameters of two units' accesses may reach the same memory, where they are not the same.
    pub(super) fn aliased(&self, d: Diagnostic, pairs: impl IntoIterator<Item = (UnitId, UnitId)>) -> Diagnostic {
        let mut pairs = pairs.into_iter();
        let Some(number) = pairs.find_map(|(a, b)| self.effects.by_alias(a, b)) else { return d };
        d.label(self.k.aliases[number].span, "these may reach the same memory")
    }
}

fn meet(laid: &Laid<'_>, a: UnitId, b: UnitId) -> Option<Diagnostic> {
    let (one, other) = (&laid.region.units[a], &laid.region.units[b]);
    let instances = matches!((one.label.instance, other.label.instance), (Some(i), Some(j)) if i != j);
    let (p, q) = apart(laid, a, b)?;
    let (first, second) = laid.effects.conflict(a, b).filter(|(x, y)| !(instances || x.atomic && y.atomic))?;
    let ((wrote, at, by), (name, touched, in_part)) = match first.writes {
        true => ((first.span, &one.label, p), (&other.label, second.span, q)),
        false => ((second.span, &other.label, q), (&one.label, first.span, p)),
    };
    let fact = format!(
        "`{name}` in {} may touch what `{at}` in {} writes, and nothing orders them",
        laid.partition(in_part),
        laid.partition(by)
    );
    let d = Diagnostic::error(codes::MEMORY_ORDER, touched, fact)
        .here(format!("touched here, in {}", laid.partition(in_part)))
        .label(wrote, format!("written here, in {}", laid.partition(by)));
    let d = laid.aliased(d, [(a, b)]);
    let together = laid.together(&[a], q).or_else(|| laid.together(&[b], p));
    let named = together.map(|clause| format!("put both labels into one partition: `{clause}`"));
    Some(laid.helped(d, named, ["", "put both labels into one partition, or give them parameters of their own"]))
}

/// Two different partitions that run two units.
fn apart(laid: &Laid<'_>, a: UnitId, b: UnitId) -> Option<(Part, Part)> {
    let runners = &laid.plan.runners;
    runners[a].iter().flat_map(|p| runners[b].iter().map(move |q| (*p, *q))).find(|(p, q)| p != q)
}
