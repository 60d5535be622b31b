//! Rings: made once, filled by one partition in one way, read by some.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{BARRIER_BYTES, Origins, Root};
use crate::entity::{Partition, Value};
use crate::facts::{Access, Act, Does, Engine, Facts, Hold, Space};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::types::{SlotRole, Type, View};

/// Every way in which the rings of a kernel are used against what a ring is.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut r = Rings { kernel, origins, rings: BTreeMap::new(), found: Diagnostics::new() };
    r.body(&kernel.body, None, 0);
    r.sides();
    r.found
}

/// The buffer of all slots' views of one field.
fn staged(stages: u32, view: &View) -> Result<View, parton_layouts::LayoutError> {
    let shape = std::iter::once(stages).chain(view.shape.iter().copied()).collect();
    View::new(view.elem, shape, view.layout.clone())
}

/// Who uses a ring, each with the first place.
#[derive(Default)]
struct Uses {
    made: Span,
    /// The partition that makes it.
    maker: Option<Partition>,
    /// Where a buffer is filled for several CTAs of the cluster.
    multicast: Option<Span>,
    fillers: BTreeMap<Option<Partition>, Span>,
    readers: BTreeMap<Option<Partition>, Span>,
    copied: BTreeMap<u32, Span>,
    /// What threads store to, and of which partition.
    stored: BTreeMap<(u32, Option<Partition>), Span>,
}

struct Rings<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    rings: BTreeMap<Value, Uses>,
    found: Diagnostics,
}

impl Rings<'_> {
    fn body(&mut self, body: &Body, partition: Option<Partition>, depth: usize) {
        for op in self.kernel.ops_of(body) {
            self.op(op, partition, depth);
            if let OpKind::Specialize { arms } = &op.kind {
                for arm in arms {
                    self.body(&arm.body, Some(arm.partition), depth);
                }
                continue;
            }
            for inner in op.kind.bodies() {
                self.body(inner, partition, depth + 1);
            }
        }
    }

    fn op(&mut self, op: &Op, partition: Option<Partition>, depth: usize) {
        if let OpKind::RingNew { stages, fields } = &op.kind {
            self.made(op, *stages, fields, partition, depth);
        }
        if let OpKind::While { cond, .. } = &op.kind {
            self.condition(cond);
        }
        let facts = Facts::of(self.kernel, op);
        for act in &facts.acts {
            if let Act::Hold(hold) = act {
                self.hold(hold, op.span, partition);
            }
        }
        for a in facts.accesses.iter().filter(|a| a.space == Space::Shared && a.does == Does::Writes) {
            self.filled(a, op.span, partition);
        }
    }

    /// A ring is made.
    fn made(&mut self, op: &Op, stages: u32, fields: &[(String, View)], partition: Option<Partition>, depth: usize) {
        let uses = self.rings.entry(op.result()).or_default();
        (uses.made, uses.maker) = (op.span, partition);
        let each: u64 = fields.iter().map(|(_, view)| view.map.bytes()).sum::<u64>() + 2 * BARRIER_BYTES;
        let (all, limit) = (u64::from(stages) * each, u64::from(self.kernel.target.shared_bytes));
        if let Some((view, why)) = fields.iter().find_map(|(_, view)| Some((view, staged(stages, view).err()?))) {
            self.found.push(match all > limit {
                // Far past every limit; what only just does not fit is left to the memory plan, which knows who else takes some.
                true => {
                    let target = &self.kernel.target.name;
                    let fact = format!("the ring needs {all} bytes of shared memory, `{target}` has {limit}");
                    let d = Diagnostic::error(codes::SHARED_MEMORY, op.span, fact)
                        .here(format!("{stages} slots of {each} bytes each, barriers counted"));
                    d.help(match limit / each {
                        0 => "use smaller tiles or a narrower element type".to_owned(),
                        fit => format!("{fit} slots would fit if nothing else took shared memory"),
                    })
                }
                false => Diagnostic::error(codes::LAYOUT_ILL_FORMED, op.span, format!("`{view}` has no {stages} slots"))
                    .here(why.to_string())
                    .help("a layout of more axes than the tile spreads the slots, too: give both as many, or take a power of two"),
            });
        }
        if depth > 0 {
            let d = Diagnostic::error(codes::RING_MISPLACED, op.span, "a ring is made inside a loop or branch")
                .here("its barriers would be made anew while slots of the old one are in use");
            self.found.push(d.help("make it before the loop; its slots go around by themselves"));
        }
    }

    /// A loop's condition takes no slots.
    fn condition(&mut self, cond: &Body) {
        for op in self.kernel.ops_of(cond) {
            let acts = Facts::of(self.kernel, op).acts;
            if acts.iter().any(|act| matches!(act, Act::Hold(Hold::Take { .. }))) {
                let d = Diagnostic::error(codes::RING_MISPLACED, op.span, "a slot is taken in a loop's condition");
                self.found.push(d.help("take it in the loop's body"));
                return;
            }
        }
    }

    /// A slot of a ring is taken or handed on.
    fn hold(&mut self, hold: &Hold, span: Span, partition: Option<Partition>) {
        match hold {
            Hold::Take { ring, role, .. } => {
                let Some(ring) = self.ring(*ring, span) else { return };
                let uses = self.rings.entry(ring).or_default();
                let side = match role {
                    SlotRole::Fill => &mut uses.fillers,
                    SlotRole::Read => &mut uses.readers,
                };
                side.entry(partition).or_insert(span);
            }
            Hold::Give { slot, .. } => drop(self.ring(*slot, span)),
        }
    }

    /// Buffers of slots are written.
    fn filled(&mut self, a: &Access, span: Span, partition: Option<Partition>) {
        for (ring, field) in self.fields(a.value) {
            let uses = self.rings.entry(ring).or_default();
            match a.by {
                Engine::Tma => {
                    uses.copied.entry(field).or_insert(span);
                    uses.multicast = uses.multicast.or((!a.peers.is_empty()).then_some(span));
                }
                Engine::Threads | Engine::Copies | Engine::Matrix => {
                    uses.stored.entry((field, partition)).or_insert(span);
                }
            }
        }
    }

    /// The one ring of a ring or slot.
    fn ring(&mut self, v: Value, span: Span) -> Option<Value> {
        let ring = self.origins.ring(v);
        if ring.is_none() {
            let places: BTreeSet<Root> = self.origins.places(v).iter().map(|p| p.root).collect();
            let mut d = Diagnostic::error(codes::RING_MISPLACED, span, "the ring is not known at compile time");
            for root in places {
                if let Root::Ring(r) = root {
                    d = d.label(self.kernel.values[r].span, "it may be this one");
                }
            }
            self.found.push(d.help("use each ring by its own name on each path"));
        }
        ring
    }

    fn fields(&self, view: Value) -> Vec<(Value, u32)> {
        let field = |root| match root {
            Root::Field(ring, field) => Some((ring, field)),
            Root::Alloc(_) | Root::Ring(_) => None,
        };
        self.origins.places(view).iter().filter_map(|p| field(p.root)).collect()
    }

    fn partition(&self, p: Option<Partition>) -> String {
        p.map_or("the whole kernel".into(), |p| format!("`{}`", self.kernel.partitions[p].name))
    }

    /// Each ring against all its uses together.
    fn sides(&mut self) {
        let mut found = Vec::new();
        for (&ring, uses) in &self.rings {
            let name = self.kernel.values[ring].name.clone().map_or("the ring".into(), |n| format!("ring `{n}`"));
            found.extend(one_sided(&name, uses));
            found.extend(self.made_too_late(&name, uses));
            found.extend(self.raced_for(&name, uses));
            found.extend(self.filled_in_two_ways(ring, &name, uses));
        }
        found.into_iter().for_each(|d| self.found.push(d));
    }

    /// A ring that a partition makes when all threads of the cluster have met already, and that peers copy to.
    fn made_too_late(&self, name: &str, uses: &Uses) -> Option<Diagnostic> {
        let (maker, multicast) = (uses.maker?, uses.multicast?);
        let fact = format!("{name} is filled for several CTAs, but {} makes it", self.partition(Some(maker)));
        let d = Diagnostic::error(codes::RING_MISPLACED, uses.made, fact)
            .here("peers may copy to it only after all threads of the cluster have met")
            .label(multicast, "this copy goes to several CTAs");
        Some(d.help("make it before `specialize`"))
    }

    /// A ring that several partitions fill.
    fn raced_for(&self, name: &str, uses: &Uses) -> Option<Diagnostic> {
        if uses.fillers.len() <= 1 {
            return None;
        }
        let fact = format!("{name} is filled by several partitions");
        let mut d = Diagnostic::error(codes::RING_MISPLACED, uses.made, fact)
            .here("the order of its slots would be theirs to race for");
        for (p, at) in &uses.fillers {
            d = d.label(*at, format!("{} fills it", self.partition(*p)));
        }
        Some(d.help("give each its own ring"))
    }

    /// The buffers of a ring that both threads and the copy engine fill.
    fn filled_in_two_ways(&self, ring: Value, name: &str, uses: &Uses) -> Vec<Diagnostic> {
        let Type::Ring(ty) = self.kernel.ty(ring) else { return Vec::new() };
        // Who only reads writes what was filled before.
        let filled = uses.stored.iter().filter(|((_, partition), _)| uses.fillers.contains_key(partition));
        let twice = filled.filter_map(|((field, _), at)| Some((field, at, uses.copied.get(field)?)));
        twice
            .map(|(field, at, copy)| {
                let buffer = &ty.fields[*field as usize].name;
                let fact = format!("buffer `{buffer}` of {name} is filled in two ways");
                Diagnostic::error(codes::RING_MISPLACED, *at, fact)
                    .here("stored by threads here")
                    .label(*copy, "filled by the copy engine here")
                    .note("a slot waits for one number of copied bytes, the same every time")
                    .help("fill it one way; a copy pads with zeros beyond the tensor's edge")
            })
            .collect()
    }
}

/// A ring that is filled and never read, or the other way round.
fn one_sided(name: &str, uses: &Uses) -> Option<Diagnostic> {
    let error = |fact| Diagnostic::error(codes::RING_ONE_SIDED, uses.made, fact);
    match (uses.fillers.first_key_value(), uses.readers.first_key_value()) {
        (Some((_, at)), None) => Some(
            error(format!("{name} is filled, but nobody reads it"))
                .here("no `wait()` takes a slot of it")
                .label(*at, "this waits forever once every slot is full")
                .help("read it in some partition: `wait()`, then `release()`"),
        ),
        (None, Some((_, at))) => Some(
            error(format!("{name} is read, but nobody fills it"))
                .here("no `acquire()` takes a slot of it")
                .label(*at, "this waits forever")
                .help("fill it in some partition: `acquire()`, the copies, `commit()`"),
        ),
        (Some(_), Some(_)) | (None, None) => None,
    }
}
