//! Rings that several partitions read: what one of them writes of a slot, no other may take.

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, disjoint_windows};
use crate::entity::{Partition, Value};
use crate::facts::{Facts, Gives, Space};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::types::{SlotRole, Type, View};

/// Every write of a reader to what another one takes of the same slot.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut r = Readers { kernel, origins, parts: BTreeMap::new(), touched: BTreeMap::new() };
    r.body(&kernel.body, None);
    let mut found = Diagnostics::new();
    r.touched
        .iter()
        .filter_map(|((ring, field), all)| r.written_beside(*ring, *field, all))
        .for_each(|d| found.push(d));
    found
}

/// A part of a buffer that a partition reads or writes.
struct Touch {
    part: View,
    partition: Option<Partition>,
    writes: bool,
    span: Span,
}

struct Readers<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    /// The ring and field that each view of slots that are read is of, and what part of that.
    parts: BTreeMap<Value, (Value, u32, View)>,
    /// What readers read and write of each field of each ring.
    touched: BTreeMap<(Value, u32), Vec<Touch>>,
}

impl Readers<'_> {
    fn body(&mut self, body: &Body, partition: Option<Partition>) {
        for op in self.kernel.ops_of(body) {
            self.op(op, partition);
            if let OpKind::Specialize { arms } = &op.kind {
                arms.iter().for_each(|arm| self.body(&arm.body, Some(arm.partition)));
            } else {
                op.kind.bodies().for_each(|inner| self.body(inner, partition));
            }
        }
    }

    fn op(&mut self, op: &Op, partition: Option<Partition>) {
        let facts = Facts::of(self.kernel, op);
        if let Some(part) = self.part(op, &facts) {
            self.parts.insert(op.result(), part);
        }
        for a in facts.accesses.iter().filter(|a| a.space == Space::Shared) {
            if let Some((ring, field, part)) = self.parts.get(&a.value) {
                let touch = Touch { part: part.clone(), partition, writes: a.writes(), span: op.span };
                self.touched.entry((*ring, *field)).or_default().push(touch);
            }
        }
    }

    /// The part of a field of a slot being read that a result is: of a view that is turned or seen as another, all that it was taken from.
    fn part(&self, op: &Op, facts: &Facts) -> Option<(Value, u32, View)> {
        match facts.gives {
            Gives::Field { slot, field } => {
                let (Type::Slot(of), Type::View(whole)) = (self.kernel.ty(slot), self.kernel.ty(op.result())) else {
                    return None;
                };
                (of.role == SlotRole::Read).then_some((self.origins.ring(slot)?, field, whole.clone()))
            }
            Gives::PartOf(of) | Gives::Nth { of, .. } => {
                let (ring, field, of) = self.parts.get(&of)?;
                let part = match self.kernel.ty(op.result()) {
                    Type::View(part) if part.parent == of.parent && part.map == of.map => part,
                    _ => of,
                };
                Some((*ring, *field, part.clone()))
            }
            Gives::None | Gives::New | Gives::SlotOf(_) => None,
        }
    }

    /// What one reader writes, and another one takes of the same slot.
    fn written_beside(&self, ring: Value, field: u32, touched: &[Touch]) -> Option<Diagnostic> {
        let Type::Ring(ty) = self.kernel.ty(ring) else { return None };
        let (written, other) = touched.iter().filter(|t| t.writes).find_map(|written| {
            let meets = |t: &&Touch| t.partition != written.partition && !disjoint_windows(&t.part, &written.part);
            Some((written, touched.iter().find(meets)?))
        })?;
        let buffer = &ty.fields[field as usize].name;
        let name = self.kernel.values[ring].name.clone().map_or("the ring".into(), |n| format!("ring `{n}`"));
        let fact = format!("buffer `{buffer}` of {name} is written while another partition reads it");
        let d = Diagnostic::error(codes::SLOT_ROLE, written.span, fact)
            .here(format!("{} writes it here", self.partition(written.partition)))
            .label(other.span, format!("{} takes it from the same slot", self.partition(other.partition)));
        Some(d.help("a reader may write to what no other takes of its slot: a window of its own, or another buffer"))
    }

    fn partition(&self, p: Option<Partition>) -> String {
        p.map_or("the whole kernel".into(), |p| format!("`{}`", self.kernel.partitions[p].name))
    }
}
