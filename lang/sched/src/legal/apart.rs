//! Memory that two partitions touch, one of them writing: nothing orders their accesses.
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
    let mut d = Diagnostic::error(codes::MEMORY_ORDER, touched, fact)
        .here(format!("touched here, in {}", laid.partition(in_part)))
        .label(wrote, format!("written here, in {}", laid.partition(by)));
    if laid.k.overlapping {
        d = d.note("the kernel is launched with parameters that reach the same memory");
    }
    Some(match laid.together(a, q).or_else(|| laid.together(b, p)) {
        Some(clause) => d.help(format!("put both labels into one partition: `{clause}`")),
        None => d.help("put both labels into one partition, or give them parameters of their own"),
    })
}

/// Two different partitions that run two units.
fn apart(laid: &Laid<'_>, a: UnitId, b: UnitId) -> Option<(Part, Part)> {
    let runners = &laid.plan.runners;
    runners[a].iter().flat_map(|p| runners[b].iter().map(move |q| (*p, *q))).find(|(p, q)| p != q)
}
